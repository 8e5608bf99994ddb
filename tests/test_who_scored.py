"""A run's page says who measured how well models predict, and whether the server was told; and what epsilon leaves out."""

import html
import json
from pathlib import Path

import pytest

from cloister.fl.clients.record_privacy import NOT_COVERED
from cloister.reporting.report import write_report

from .run_folder_sample import Sample, write_lines, write_sample

SCORES = {"round": 1, "recipient": "server", "what": "scores", "about": [0, 1], "words": "how many each predicts", "scalars": 6}
SIMULATED, ABOVE = "The simulation measured them on each client's test records", "Accuracy, as shown above, is not among it."
TOLD, ITS_OWN = "Clients told the coordinator these figures", "The coordinator measured them on the scenario's own data"


@pytest.mark.parametrize(
    ("served", "asked", "words"),
    [(False, False, SIMULATED), (True, True, TOLD), (True, False, ITS_OWN)],
    ids=["simulated", "asked", "its own data"],
)
def test_who_measured_it_is_said(tmp_path: Path, served: bool, asked: bool, words: str) -> None:
    folder = write_sample(tmp_path / "run", Sample(rounds=6))
    (folder / "origin.json").write_text(json.dumps({"served": served}))
    known = [json.loads(line) for line in (folder / "disclosure.jsonl").read_text().splitlines()]
    write_lines(folder / "disclosure.jsonl", [*known, *([SCORES | {"bytes": 24, "client": None}] if asked else [])])
    page = html.unescape(write_report(folder).read_text(encoding="utf-8"))
    assert [one for one in (SIMULATED, TOLD, ITS_OWN) if one in page] == [words]
    assert page.index('id="accuracy"') < page.index(words)
    assert (ABOVE in page) == (not asked)


def test_what_epsilon_leaves_out_is_not_said_to_be_told(tmp_path: Path) -> None:
    """The page of a run that told no counts and no scores said that they were told without noise."""
    folder = write_sample(tmp_path / "run", Sample(rounds=6))
    spent = {"budget": 3.0, "delta": 1e-5, "of": "its updates", "clients": {"0": {"epsilon": 2.9}}, "epsilon_worst": 2.9}
    (folder / "privacy.json").write_text(json.dumps({"record": {**spent, "epsilon_mean": 2.9, "not_covered": NOT_COVERED}}))
    page = html.unescape(write_report(folder).read_text(encoding="utf-8"))
    assert "Told without any noise" not in page
    assert "Epsilon says nothing of it, wherever it is told" in page
    assert all(words in page for words in NOT_COVERED)
    assert all("told" in words for words in NOT_COVERED if "examples" in words or "test" in words)
