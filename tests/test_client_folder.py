"""A client's folder: one process takes part with it, and what cannot be stored there is said in a line."""

import socket
import sqlite3

import pytest

from cloister.fl.runs import joining
from cloister.fl.runs.joining import is_over, join
from cloister.fl.runs.listening import Listening
from cloister.fl.runs.member import LOG, MODEL, OwnRecord
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
    with pytest.raises(OSError, match=r"journal: file is not a database; it is damaged, .* with a new folder$"):
        InFile(tmp_path / "journal")


def test_a_journal_that_is_cut_off_or_a_directory_says_that_it_is_damaged_and_what_to_do(tmp_path):
    journal = InFile(tmp_path / "journal")
    journal.put({"a": bytes(9000)})
    journal._file.close()
    (tmp_path / "journal").write_bytes((tmp_path / "journal").read_bytes()[:100])
    with pytest.raises(OSError, match=r"(malformed|not a database); it is damaged, .* in the next run, with a new folder$"):
        InFile(tmp_path / "journal")
    (tmp_path / "directory").mkdir()
    with pytest.raises(OSError, match=r"the journal .*directory: Is a directory; it is damaged, .* with a new folder$"):
        InFile(tmp_path / "directory")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("attempt to write a readonly database", "let the user that this command runs as read and write it"),
        ("unable to open database file", "let the user that this command runs as read and write it"),
        ("database disk image is malformed", "it is damaged"),
        ("database is locked", "another process has it open"),
        ("what nobody knows", ""),
    ],
)
def test_what_is_wrong_with_a_journal_is_said_with_what_to_do(tmp_path, said, words):
    journal = InFile(tmp_path / "journal")

    class Broken:
        def execute(self, *of):
            raise sqlite3.OperationalError(said)

    journal._file = Broken()
    with pytest.raises(OSError, match=f"^the journal .*journal: {said}{f'; {words}' if words else '$'}"):
        journal.read()


def test_a_journal_that_may_not_be_written_is_not_said_to_be_damaged(tmp_path, monkeypatch):
    def refused(*of):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("cloister.protocol.drivers.journal.os.open", refused)
    with pytest.raises(OSError, match="journal: Permission denied; let the user that this command runs as"):
        InFile(tmp_path / "journal")


@pytest.mark.parametrize("handed", [True, False])
def test_who_has_its_final_model_and_was_killed_ends_well_where_the_coordinator_is_gone(tmp_path, monkeypatch, caplog, handed):
    """Before: it tried for all its patience, and then ended in an error."""
    monkeypatch.setattr(joining, "LAST_TRIES", 0.3)
    record = OwnRecord(tmp_path / LOG)
    record.add(started=True)
    record.add(joined="00", client=0, clients=[0, 1])
    record.add(received={"what": "final", "bytes": 9, "model": True})
    record.close()
    if handed:
        (tmp_path / MODEL).write_bytes(b"a model")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        link = Dialled(f"127.0.0.1:{taken.getsockname()[1]}", None, 0, patience=60.0 if handed else 0.3)
        if not handed:
            with pytest.raises(ConnectionError, match="cannot be reached"):
                list(join(SMALL, link, tmp_path))
            return
        assert list(join(SMALL, link, tmp_path)) == []
    (line,) = [of for of in caplog.records if of.message == "the run is over"]
    assert "this client has its final model" in line.why
    assert "cannot be reached" in line.why
    assert is_over(tmp_path, 0)


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
