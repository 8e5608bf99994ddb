"""A client's page says that others' absences may set its update apart, where its record shows that sums had others in them."""

import json
from pathlib import Path

import numpy as np
import pytest

from cloister.fl.runs.member import OwnRecord
from cloister.protocol.masked.messages import Survivors
from cloister.protocol.work.driving import among
from cloister.protocol.work.said import Said
from cloister.reporting.own_company import others_changed
from cloister.reporting.own_record import render

JOINED = {"time": "t0", "joined": "ab", "client": 1, "clients": [0, 1, 2, 3], "protection": "Masked(floor=3, corrupt=0)"}


def in_round(round: int, kind: str = "Survivors", **with_whom: object) -> dict[str, object]:
    return {"time": "t1", "received": {"what": kind, "model": False, **with_whom}, "round": round}


ALL, WITHOUT_3, WITHOUT_2 = [4, "aa"], [3, "bb"], [3, "cc"]
ALWAYS = [in_round(t, among=ALL) for t in range(4)]
CHANGED = [in_round(0, among=ALL), in_round(1, among=WITHOUT_3), in_round(2, among=WITHOUT_2), in_round(3, among=WITHOUT_2)]
OF_BEFORE = [in_round(0, bytes=48), in_round(1, bytes=48), in_round(2, bytes=47)]


@pytest.mark.parametrize(
    ("lines", "protection", "words"),
    [
        (ALWAYS, "Masked()", ""),
        (CHANGED, "Masked()", "With whom its update was summed changed 2 times, first in round 1,"),
        (OF_BEFORE, "Masked()", "was summed changed in round 2,"),
        (CHANGED, "Plain()", ""),
        ([in_round(0, "Task", among=ALL), in_round(1, "Task", among=WITHOUT_3)], "TwoServer()", "asked for changed in round 1,"),
        ([in_round(0, "Task", bytes=48), in_round(1, "Task", bytes=49)], "TwoServer()", ""),
        ([], "Masked()", ""),
    ],
    ids=["always", "changed", "of before", "plain", "two servers", "two servers, of before", "nothing"],
)
def test_sums_with_others_in_them_are_said(lines: list[dict[str, object]], protection: str, words: str) -> None:
    said = others_changed(lines, protection)
    assert words in said if words else not said, said


def test_the_page_of_a_client_that_was_always_there_points_to_the_coordinators() -> None:
    page = render([JOINED, *CHANGED, {"time": "t2", "ended": True}])
    assert "may set its own update apart though it was itself in all of them." in page
    assert "may set its own update apart" not in render([JOINED, *ALWAYS, {"time": "t2", "ended": True}])


def test_a_record_has_whether_they_are_the_same_and_not_who_they_are(tmp_path: Path) -> None:
    assert among(Survivors((0, 1, 3))) == (0, 1, 3)
    record = OwnRecord(tmp_path / "join.jsonl")
    for clients in [(0, 1, 3), (3, 1, 0), (0, 1, 2), tuple(map(int, np.arange(1000)))]:
        record.said(Said("frame", b"", kind="Survivors", round=0, among=clients))
    record.close()
    lines = [json.loads(line)["received"]["among"] for line in (tmp_path / "join.jsonl").read_text().splitlines()]
    assert [size for size, _ in lines] == [3, 3, 3, 1000]
    assert lines[0] == lines[1] != lines[2]
    assert len(json.dumps(lines[3])) < 30
