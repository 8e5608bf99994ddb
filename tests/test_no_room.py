"""A disk that is full is said in a line, with what to do."""

import errno
import sqlite3

import pytest

from cloister.errors_in_one_line import Failure, one_line_errors
from cloister.protocol.drivers.journal import InFile
from cloister.reporting import report
from cloister.serve_command import _reported


@pytest.mark.parametrize(("of", "where"), [((), ""), (("run/metrics.jsonl",), "run/metrics.jsonl: ")])
def test_no_room_is_said_with_what_to_do(of, where):
    with pytest.raises(Failure) as found, one_line_errors():
        raise OSError(errno.ENOSPC, "No space left on device", *of)
    assert str(found.value) == f"{where}no room is left on the disk; make some, and give the same command again"


def test_a_run_whose_report_does_not_fit_is_over_all_the_same(tmp_path, monkeypatch):
    def full(folder):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(report, "write_report", full)
    with pytest.raises(
        OSError, match=r"the run is over, .* written: No space left on device; .* `cloister report .*run` writes it$"
    ):
        _reported(tmp_path / "run")


def test_a_journal_that_does_not_fit_says_so(tmp_path):
    journal = InFile(tmp_path / "journal")
    journal._file.execute("PRAGMA max_page_count = 4")
    with pytest.raises(
        OSError, match=r"journal: database or disk is full; make room there, and give the same command again$"
    ) as found:
        journal.put({"x": bytes(1 << 16)})
    assert isinstance(found.value.__cause__, sqlite3.OperationalError)
