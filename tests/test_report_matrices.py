"""The report of a run that grouped clients by stored updates: the matrix through the rounds, and who was corrupt."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from cloister.reporting.curves import NARROW, draw_curves
from cloister.reporting.matrices import filling_panels
from cloister.reporting.panels import accuracy_chart
from cloister.reporting.report import write_report
from cloister.reporting.run_data import evaluated, final_clusters, hue_of_groups, read_run
from cloister.reporting.run_verdict import verdict

CLIENTS, CORRUPT = 6, [1, 4]
COMMUNITIES = [[0, 2, 3, 5], [1, 4]]
SEEN = {0: [0, 1, 3], 4: [0, 1, 2, 3], 9: [0, 1, 2, 3, 4, 5]}
HOSTILE = "<script>alert(1)</script>"


def cosine(i: int, j: int) -> float:
    return 1.0 if i == j else 0.5 if (i in CORRUPT) == (j in CORRUPT) else -0.4


def write_run(folder: Path, lines: list[dict[str, object]]) -> Path:
    """A run of ten rounds in which every fifth was evaluated, with these lines of similarities."""
    rounds = []
    for t in range(10):
        measured = {"accuracy": {str(i): 0.1 * t for i in range(CLIENTS)}} if t % 5 == 4 else {}
        detected = {"detected": {"0": {"communities": COMMUNITIES, "purity": 1.0, "ari": 1.0}}} if t in SEEN else {}
        rounds.append({"round": t, "clusters": {HOSTILE: list(range(CLIENTS))}, **measured, **detected})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rounds))
    (folder / "similarities.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    summary = {"name": "run", "groups": {str(i): 0 for i in range(CLIENTS)}, "corrupt": CORRUPT, "purity": 1.0, "ari": 1.0}
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = []
    for t, seen in SEEN.items():
        rows = [[None if (t, i, j) in ((4, 0, 2), (4, 2, 0)) else cosine(i, j) for j in seen] for i in seen]
        lines.append({"round": t, "cluster": "0", "clients": seen, "similarity": rows})
    return write_run(tmp_path, lines)


def test_the_matrix_fills_up(folder: Path) -> None:
    run = read_run(folder)
    panels = filling_panels(run, hue_of_groups(run))
    assert [(p["round"], p["seen"], p["clients"]) for p in panels] == [(0, 3, 6), (4, 4, 6), (9, 6, 6)]
    np.testing.assert_allclose([p["known"] for p in panels], [6 / 30, 10 / 30, 1])
    np.testing.assert_allclose([p["inside"] for p in panels], 0.5)
    np.testing.assert_allclose([p["across"] for p in panels], -0.4)
    assert panels[2]["sizes"] == {"1": 4, "2": 2}
    assert panels[2]["shown"]["ids"] == ["0", "2", "3", "5", "1", "4"]
    assert panels[0]["shown"]["cells"][0] == [1.0, None, 0.5, None, -0.4, None]
    assert panels[1]["shown"]["cells"][0][:3] == [1.0, None, 0.5]
    assert panels[2]["picture"].edges == (4 / 6,)
    assert [hue for _, _, hue in panels[2]["picture"].strips] == [0, 1]


def test_the_page_shows_it_and_calls_the_corrupt_a_group(folder: Path) -> None:
    page = write_report(folder).read_text(encoding="utf-8")
    assert "Similarity through the rounds" in page
    assert "Similarity before each split" not in page
    assert page.count('<figure class="matrix"') == 3
    assert "3 of 6 clients seen" in page
    assert "Lines part the communities found last" in page
    assert "group corrupt" in page
    assert HOSTILE not in page
    assert "ARI 1.00" not in page
    run = read_run(folder)
    assert verdict(run, final_clusters(run)).startswith("6 clients shared one model")


def test_more_rounds_than_panels_are_thinned(tmp_path: Path) -> None:
    lines = [{"round": t, "cluster": "0", "clients": [0, 1], "similarity": [[1, 0], [0, 1]]} for t in range(9)]
    run = read_run(write_run(tmp_path, lines))
    assert [panel["round"] for panel in filling_panels(run, hue_of_groups(run))] == [0, 4, 8]


def test_what_is_no_matrix_of_its_clients_is_said(tmp_path: Path) -> None:
    lines = [{"round": 0, "cluster": "0", "clients": [0, 1, 2], "similarity": [[1, 0], [0, 1]]}]
    run = read_run(write_run(tmp_path, lines))
    assert filling_panels(run, hue_of_groups(run))[0]["picture"] is None
    assert "No matrix was recorded." in write_report(tmp_path).read_text(encoding="utf-8")


def test_curves_join_the_rounds_that_were_evaluated(folder: Path) -> None:
    run = read_run(folder)
    assert [t for t, _ in evaluated(run)] == [4, 9]
    chart = accuracy_chart(run, [], [], hue_of_groups(run))
    np.testing.assert_array_equal(chart.thin[0].x, [4, 9])
    assert np.isfinite(chart.thin[0].y).all()
    assert draw_curves(chart, NARROW)


@pytest.mark.long
def test_the_similarity_across_children_is_that_of_the_matrix_beside_it(tmp_path: Path) -> None:
    """Before: the one with the mean put back alone, -0.44, above a matrix whose largest across is -0.67."""
    split = {"round": 4, "cluster": "0", "clients": [0, 1, 2], "about": "mean", "cross": -0.25, "gamma": 0.8, "gap": None}
    split |= {"similarity": [[1.0, -0.7, 0.8], [-0.7, 1.0, -0.5], [0.8, -0.5, 1.0]], "children": {"00": [0, 2], "01": [1]}}
    folder = write_run(tmp_path, [])

    def captions(*of: dict[str, object]) -> str:
        (folder / "splits.jsonl").write_text("".join(json.dumps(one) + "\n" for one in of))
        return " ".join(re.sub("<[^>]*>", "", write_report(folder).read_text()).split())

    put_back = "across the children -0.5 (low is clear), -0.25 with the mean that the matrix leaves out"
    assert put_back in captions(split).replace("0.50", "0.5")
    for same in (split | {"cross": -0.5}, split | {"about": "origin"}):
        assert "with the mean that" not in captions(same)
