"""The report of a run that compared clients two by two: its matrix of distances, decisions and tolerance."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cloister.reporting.distances import TINT, distances_panel
from cloister.reporting.report import write_report
from cloister.reporting.run_data import hue_of_groups, read_run

CLIENTS = [0, 1, 2, 3, 4]
CLUSTERS = {"0000": [0, 2], "0001": [1, 3], "0004": [4]}
EPS = 0.1
HOSTILE = "<script>alert(1)</script>"


def excess(i: int, j: int) -> float:
    """Row 0 refuses what column 2 accepts of it; 4 is never compared."""
    same = i % 2 == j % 2
    return 0.3 if (i, j) == (0, 2) else (0.02 if same else 0.5)


def line(pairs: list[tuple[int, int]], round: int = 0, measured: bool = True) -> dict[str, Any]:
    both = [*pairs, *((j, i) for i, j in pairs)]
    rows = [[i, j, excess(i, j) < EPS, excess(i, j) if measured else None] for i, j in both]
    return {"round": round, "eps": EPS, "pairs": rows, "lost": []}


def write_run(folder: Path, lines: list[Any], clusters: dict[str, list[int]] = CLUSTERS) -> Path:
    rounds = [{"round": t, "clusters": clusters, "accuracy": {str(i): 0.5 for i in CLIENTS}} for t in range(2)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(of) + "\n" for of in rounds))
    (folder / "pairs.jsonl").write_text("".join(json.dumps(of) + "\n" for of in lines))
    groups = {str(i): i % 2 for i in CLIENTS}
    (folder / "summary.json").write_text(json.dumps({"name": "run", "clusters": [*clusters.values()], "groups": groups}))
    return folder


def panel(folder: Path) -> Any:
    run = read_run(folder)
    return distances_panel(run, hue_of_groups(run))


def shades(found: Any) -> Any:
    """The picture's palette indices: 254 for 1, 127 for 0, 0 for -1, 255 for a gap."""
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(found["picture"].light.split(",")[1]))))


def test_the_matrix_is_in_the_order_of_clusters_and_says_every_number(tmp_path: Path) -> None:
    lines = [line([(0, 1), (0, 2), (1, 2)]), line([(0, 3), (1, 3), (2, 3)], 1)]
    found = panel(write_run(tmp_path, lines))
    assert (found["pairs"], found["joined"], found["one_sided"], found["unmeasured"]) == (6, 1, 1, 0)
    assert found["shown"]["ids"] == ["0", "2", "1", "3", "4"]
    cells = found["shown"]["cells"]
    assert cells[0] == ["the same client", "0.3, refused", "0.5, refused", "0.5, refused", None]
    assert cells[1][:2] == ["0.02, accepted", "the same client"]
    drawn = shades(found)
    refused_little = 127 * (1 - (0.3 - EPS) / (0.5 - EPS))
    np.testing.assert_allclose(drawn[0], [254, refused_little, 0, 0, 255], atol=1)
    np.testing.assert_allclose(drawn[1], [254, 254, 0, 0, 255], atol=1)
    np.testing.assert_allclose(drawn[4], [255, 255, 255, 255, 254], atol=1)
    assert found["picture"].edges == pytest.approx((0.4, 0.8))


def test_decisions_without_distances_have_one_shade_each(tmp_path: Path) -> None:
    found = panel(write_run(tmp_path, [line([(0, 1), (0, 2)], measured=False)]))
    assert not found["measured"]
    assert found["curve"] == ()
    assert found["shown"]["cells"][1][0] == "accepted, without a distance"
    np.testing.assert_allclose(shades(found)[1, 0], 127 * (1 + 2 * TINT), atol=1)
    found = panel(write_run(tmp_path, [line([(0, 1)]), line([(0, 2)], 1, measured=False)]))
    assert found["unmeasured"] == 2
    np.testing.assert_allclose(shades(found)[:2, :2], [[254, 127 * (1 - TINT)], [127 * (1 + TINT), 254]], atol=1)
    text = write_report(tmp_path).read_text(encoding="utf-8")
    assert "One paler shade of each" in text


def test_the_page_shows_matrix_and_pairs_in_order_and_no_word_of_splits(tmp_path: Path) -> None:
    text = write_report(write_run(tmp_path, [line([(0, 1), (0, 2), (1, 3)])])).read_text(encoding="utf-8")
    assert "Distances of every pair" in text
    assert "ε = 0.1" in text
    assert "1 of 3 pairs joined" in text
    assert "The pairs in order" in text
    assert "CFL splits only" not in text
    assert text.count('<figure class="matrix"') == 1


def test_a_run_that_compared_nobody_says_why_nothing_was_split(tmp_path: Path) -> None:
    assert panel(write_run(tmp_path, [{"round": 0, "eps": None, "pairs": [], "lost": [[0, 1]]}])) is None
    text = write_report(tmp_path).read_text(encoding="utf-8")
    assert "Similarity before each split" in text
    assert "No cluster was split" in text


@pytest.mark.long
@pytest.mark.parametrize(
    "broken",
    [
        {"pairs": [[0, 1, True, None]]},
        {"pairs": [[0, 1, "yes", 0.1], [0, 1], 7, None, [HOSTILE, 1, True, 0.2]], "eps": "small"},
        {"pairs": [[0, 0, True, 0.1]], "eps": EPS, "lost": None},
        {"pairs": [[0, 1, True, float("inf")], [1, 0, True, float("nan")]], "eps": EPS},
    ],
)
def test_a_damaged_log_is_drawn_as_far_as_it_goes(tmp_path: Path, broken: dict[str, Any]) -> None:
    text = write_report(write_run(tmp_path, [broken])).read_text(encoding="utf-8")
    assert 'id="similarity"' in text
    assert HOSTILE not in text
