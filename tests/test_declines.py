"""A client that was asked and sat out has declined, as both logs and pages say, and what that means for its model."""

import json
import logging
import re
from pathlib import Path

import pytest

from cloister.deployment.log import Told
from cloister.fl.runs.declines import declined, is_declined, why_declined
from cloister.fl.runs.experiment import Round
from cloister.protocol.core.errors import OF_SPLIT, OF_TRAINING, Fault
from cloister.reporting.report import write_report
from cloister.result import load

from .run_folder_sample import Sample, write_sample

LATE = why_declined(OF_SPLIT)


def test_a_coordinators_log_says_it_once(caplog: pytest.LogCaptureFixture) -> None:
    told = Told(logging.getLogger("cloister.test"))
    with caplog.at_level(logging.WARNING, "cloister.test"):
        for t in (37, 38, 39):
            told.round(Round(t, 80, 2, 0.5, declined=((7, OF_SPLIT),)))
    (line,) = [vars(of) for of in caplog.records if of.message == "declined"]
    assert (line["client"], line["round"], line["why"]) == (7, 36, LATE)


def test_what_a_client_said_itself_is_a_decline_and_what_was_wrong_with_its_update_is_none() -> None:
    faults = [Fault(7, OF_SPLIT, True, declined=True), Fault(7, OF_SPLIT, True, declined=True), Fault(3, "not finite", True)]
    assert declined(faults) == ((7, OF_SPLIT),)
    assert [is_declined(row) for row in ({"reason": OF_SPLIT}, {"reason": OF_TRAINING}, {"reason": "not finite"})] == [1, 1, 0]
    assert is_declined({"reason": "its budget is spent", "declined": True})


@pytest.mark.long
def test_a_boards_page_calls_declines_no_rejected_updates(tmp_path: Path) -> None:
    folder = write_sample(tmp_path / "run", Sample(rounds=8))
    summary = json.loads((folder / "summary.json").read_text())
    late = [{"round": t, "client": 7, "reason": OF_SPLIT, "rejected": True} for t in (2, 3, 4)]
    bad = {"round": 3, "client": 5, "reason": "not finite", "rejected": True}
    for rows in ([*late, bad], late):
        (folder / "summary.json").write_text(json.dumps(summary | {"rejected": rows}))
        text = " ".join(re.sub(r"<[^>]*>", " ", write_report(folder).read_text(encoding="utf-8")).split())
        assert text.index("Declined: these were asked, and sat out") < text.index(f"2 to 4 7 {LATE}")
        assert ("3 5 not finite" in text) == (bad in rows) == ("Rejected updates round" in text)
    assert dict(load(folder).client(7).rows)["declined"] == f"in rounds 2 to 4: {OF_SPLIT}"
