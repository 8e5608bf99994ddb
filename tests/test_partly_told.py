"""The report of a served run whose clients were not all there: who took part in none, and rounds that are not to be compared."""

import json
import re
from pathlib import Path

import pytest

from cloister.fl.runs.presence import PRESENCE
from cloister.reporting.report import data_in_words, write_report
from cloister.reporting.run_data import read_run
from cloister.reporting.told_by import partly_told, shaded

from .run_folder_sample import SAMPLES, write_sample


def change(folder: Path, name: str, **fields: object) -> None:
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of twelve clients in one cluster, of whom client 3 says nothing in rounds 1 and 2, and client 4 in none."""
    found = write_sample(tmp_path, SAMPLES["unsplit"])
    lines = [json.loads(line) for line in (found / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        told = line["accuracy"]
        line["accuracy"] = {i: v for i, v in told.items() if i != "4" and not (i == "3" and line["round"] in (1, 2))}
    (found / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (found / PRESENCE).write_text('{"round": 0, "away": [4], "revoked": [4]}\n')
    (found / "link.json").write_text('{"life": 1}')
    change(found, "scenario.json", groups=None)
    return found


def test_rounds_that_not_all_told_are_marked(folder: Path) -> None:
    run = read_run(folder)
    assert partly_told(run) == (11, frozenset({1.0, 2.0}))
    assert shaded(run) == [(0.5, 2.5)]
    page = write_report(folder).read_text()
    assert "Grey: rounds in which not all of the 11 clients that ever said how well they predict did so, 2 in all" in page
    assert '<th class="n" scope="col">told by</th>' in page
    assert [re.findall(r"\d+ of 11", row) for row in re.findall(r"<tr>.*?</tr>", page) if " of 11</td>" in row][:4] == [
        ["10 of 11"],
        ["10 of 11"],
        ["11 of 11"],
        ["11 of 11"],
    ]


def test_of_a_simulation_and_of_a_run_that_all_told_nothing_is_marked(folder: Path) -> None:
    (folder / "link.json").unlink()
    page = write_report(folder).read_text()
    assert "Grey: rounds" not in page
    assert "told by</th>" not in page


@pytest.mark.long
def test_a_client_that_was_never_there_is_not_counted(folder: Path) -> None:
    assert "11 of 12 clients shared one model to the end" in write_report(folder).read_text()
    (folder / PRESENCE).write_text('{"round": 0, "away": [4], "revoked": []}\n{"round": 1, "away": [], "revoked": []}\n')
    assert ">12 clients shared one model to the end" in write_report(folder).read_text()


def test_where_nobody_was_ever_there_nothing_was_learned(folder: Path) -> None:
    """Before: "5 clients ended in 5 clusters", of models that nobody trained."""
    (folder / PRESENCE).write_text(json.dumps({"round": 0, "away": [*range(12)], "revoked": []}) + "\n")
    page = write_report(folder).read_text()
    assert "Nothing was learned: of 12 clients none was there, or answered in time, in any of" in page
    assert "shared one model to the end" not in page


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "described", "words"),
    [
        ("Given", {"type": "Given", "name": "data frame"}, ["data frame"]),
        ("Given", None, ["given data"]),
        ("AgreedColumns", {}, ["agreed columns"]),
        ("Digits", {}, ["Digits"]),
        ("", {}, []),
    ],
)
def test_data_are_named_in_words(folder: Path, kind: str, described: object, words: list[str]) -> None:
    change(folder, "summary.json", data=kind)
    change(folder, "scenario.json", data=described)
    assert data_in_words(read_run(folder)) == words
    assert all(f">{word}<" in write_report(folder).read_text() for word in words)
