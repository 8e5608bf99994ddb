"""The report of a second server's or a dealer's folder is a line: what it is, and where what it was told is to be read."""

from pathlib import Path

import cbor2
import pytest

from cloister.protocol.core.session import DEALER, SECOND_SERVER
from cloister.protocol.drivers.journal import InFile
from cloister.protocol.two_servers.helper import JOURNAL
from cloister.protocol.work.driving import BEGUN
from cloister.reporting.report import write_report


@pytest.mark.parametrize(("party", "name"), [(SECOND_SERVER, "second server"), (DEALER, "dealer")])
@pytest.mark.parametrize("ended", [True, False])
def test_a_helpers_folder_is_named_and_not_touched(tmp_path: Path, party: int, name: str, ended: bool) -> None:
    journal = InFile(tmp_path / JOURNAL)
    journal.put({BEGUN: cbor2.dumps([party, bytes(16)])})
    if ended:
        journal._file.close()
    before = {path.name for path in tmp_path.iterdir()}
    words = rf"is the folder of a {name}: .*What the {name} was told is in the coordinator's report"
    with pytest.raises(ValueError, match=words):
        write_report(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("begun", [None, b"", b"\xff", cbor2.dumps(7), cbor2.dumps([[3, bytes(16)], b"", None, b""])])
def test_another_journal_is_no_helpers(tmp_path: Path, begun: bytes | None) -> None:
    InFile(tmp_path / JOURNAL).put({} if begun is None else {BEGUN: begun})
    with pytest.raises(ValueError, match="is no run folder"):
        write_report(tmp_path)
    (tmp_path / JOURNAL).write_bytes(b"no database")
    with pytest.raises(ValueError, match="is no run folder"):
        write_report(tmp_path)
