"""A client's record and page under TwoServer say when it had no link to the second server."""

from pathlib import Path

from cloister.fl.runs.member import OwnRecord
from cloister.reporting.own_presence import Away
from cloister.reporting.own_record import read_record, render
from cloister.reporting.own_second import absences_there

JOINED = {"joined": "ab", "client": 1, "clients": [0, 1, 2, 3], "protection": "TwoServer(max_norm=64.0, k=4096)"}


def noted(folder: Path, *changes: tuple[bool, str]) -> list[Away] | None:
    record = OwnRecord(folder / "join.jsonl")
    record.add(**JOINED)
    for there, why in changes:
        record.connected_aside(there, why)
    record.close()
    return absences_there(read_record(folder / "join.jsonl"))


def test_when_it_was_refused_lost_and_back_is_noted(tmp_path: Path) -> None:
    found = noted(tmp_path, (False, "nobody listens"), (False, "its certificate is not in the directory"), (True, ""), (True, ""))
    assert found is not None
    assert [(bool(of.until), of.why) for of in found] == [(True, "its certificate is not in the directory")]
    lost = noted(tmp_path, (True, ""), (False, "the stream broke off"))
    assert lost is not None
    assert [(bool(of.until), of.why) for of in lost][1:] == [(False, "the stream broke off")]
    page = render(read_record(tmp_path / "join.jsonl"))
    section = page[page.index("Its link to the second server") :]
    assert section.index("its certificate is not in the directory") < section.index("the stream broke off")


def test_that_it_was_never_lost_is_said_where_that_is_known(tmp_path: Path) -> None:
    assert noted(tmp_path, (True, "")) == []
    assert "It was never lost." in render(read_record(tmp_path / "join.jsonl"))
    assert absences_there([JOINED]) is None
    assert "Its link to the second server" not in render([JOINED])
