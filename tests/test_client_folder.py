"""A client's folder: one process takes part with it, and what cannot be stored there is said in a line."""

import socket

import pytest

from cloister.fl.runs.joining import join
from cloister.fl.runs.listening import Listening
from cloister.fl.runs.member import LOG, OwnRecord
from cloister.fl.runs.serving import serve
from cloister.protocol.drivers.journal import InFile
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.terms import Limits, grpc_or_words

from .deployed import authority, standing
from .served import SMALL

grpc_or_words()


def test_two_processes_do_not_take_part_with_one_folder(tmp_path):
    first = OwnRecord(tmp_path / LOG)
    first.alone()
    link = Dialled("127.0.0.1:1", None, 0, patience=0.1)
    with pytest.raises(ValueError, match=r"another process takes part with .* already"):
        next(join(SMALL, link, tmp_path))
    assert (tmp_path / LOG).read_text() == ""
    first.close()
    with pytest.raises(ConnectionError, match="cannot be reached"):
        next(join(SMALL, link, tmp_path))
    second = OwnRecord(tmp_path / LOG)
    second.alone()
    second.close()


def test_a_journal_whose_disk_is_full_says_so_in_a_line_and_keeps_what_it_had(tmp_path):
    journal = InFile(tmp_path / "journal")
    journal.put({"a": b"1"})
    journal._file.execute("PRAGMA max_page_count = 3")
    for write in (journal.put, journal.replace):
        with pytest.raises(OSError, match="journal: database or disk is full"):
            write({"a": b"2", "b": bytes(1 << 20)})
        assert journal.read() == {"a": b"1"}


def test_a_file_that_is_no_journal_is_named(tmp_path):
    (tmp_path / "journal").write_bytes(b"noise" * 1000)
    with pytest.raises(OSError, match="journal: file is not a database"):
        InFile(tmp_path / "journal")


@pytest.mark.long
def test_a_coordinator_that_heard_of_nobody_yet_waits_for_as_many_as_before(tmp_path):
    """It could not listen when it was first started: that was no life in which the run began."""
    keys = authority(tmp_path / "pki", 4)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OSError, match="cannot listen"):
            list(serve(SMALL, tmp_path / "run", Listening(where, standing(keys, -1), Limits(), 5.0)))
    with pytest.raises(ValueError, match=r"clients \[0, 1, 2, 3\] are not there, and the run begins with all of them"):
        list(serve(SMALL, tmp_path / "run", Listening("127.0.0.1:0", standing(keys, -1), Limits(), 0.2)))
