"""A disk that is full is said in a line, with what to do."""

import errno
import sqlite3

import cbor2
import pytest
import typer

from cloister.errors_in_one_line import Failure, one_line_errors, room_in
from cloister.fl.runs import serving
from cloister.protocol.core.errors import Refused
from cloister.protocol.drivers.journal import InFile, InMemory
from cloister.protocol.two_servers.helper import begun
from cloister.protocol.work.driving import BEGUN
from cloister.protocol.work.said import said
from cloister.reporting import report
from cloister.serve_command import _reported, serve

from .deployed import DRAWN, authority, driven_by, greeting, standing

CLIENTS = (0, 1)


@pytest.mark.parametrize(("of", "where"), [((), ""), (("run/metrics.jsonl",), "run/metrics.jsonl: ")])
def test_no_room_is_said_with_what_to_do(of, where):
    with pytest.raises(Failure) as found, one_line_errors():
        raise OSError(errno.ENOSPC, "No space left on device", *of)
    assert str(found.value) == f"{where}no room is left on the disk; make some, and give the same command again"


def test_a_coordinator_without_room_names_its_folder(tmp_path, monkeypatch):
    """A write to a file that is open names none. A file that is named stays so."""

    def full(*named):
        def played(*of):
            raise OSError(errno.ENOSPC, "No space left on device", *named)
            yield

        return played

    for named, where in (((), tmp_path), (("other/file",), "other/file")):
        monkeypatch.setattr(serving, "serve", full(*named))
        with pytest.raises(Failure) as found:
            serve("cloister:quickstart", listen="127.0.0.1:0", insecure_loopback=True, out=tmp_path, set_=None, metrics=None)
        assert str(found.value) == f"{where}: no room is left on the disk; make some, and give the same command again"
    with pytest.raises(OSError, match=r"^another") as raised, room_in(tmp_path):
        raise OSError("another")
    assert raised.value.filename is None


def test_a_run_whose_report_does_not_fit_is_over_all_the_same(tmp_path, monkeypatch):
    def full(folder):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(report, "write_report", full)
    with pytest.raises(
        OSError, match=r"the run is over, .* written: No space left on device; .* `cloister report .*run` writes it$"
    ):
        _reported(tmp_path / "run")


def test_ctrl_c_while_the_report_is_written_says_that_the_run_is_over(tmp_path, monkeypatch, capsys):
    def stopped(folder):
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "write_report", stopped)
    with pytest.raises(typer.Exit) as found:
        _reported(tmp_path / "run")
    assert found.value.exit_code == 130
    said = capsys.readouterr().err
    assert said.startswith(
        "cloister: stopped; the run is over, and its folder is complete but for the report, which `cloister report"
    )


def test_a_journal_that_does_not_fit_says_so(tmp_path):
    journal = InFile(tmp_path / "journal")
    journal._file.execute("PRAGMA max_page_count = 4")
    with pytest.raises(
        OSError, match=r"journal: database or disk is full; no room is left there: make some, and give the same command again$"
    ) as found:
        journal.put({"x": bytes(1 << 16)})
    assert isinstance(found.value.__cause__, sqlite3.OperationalError)


class Full(InMemory):
    """A journal without room, until there is some."""

    room = False

    def put(self, entries):
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().put(entries)


def test_a_client_that_had_no_room_when_it_was_enrolled_takes_part_when_it_has(tmp_path):
    """It had said nothing. What it has kept of a run is not forgotten by that: with a journal that was lost it stays away."""
    own, journal = standing(authority(tmp_path / "pki", 2), 0), Full()
    word = cbor2.dumps(["enrol", {use: dict(of) for use, of in own.directory.enrolled(CLIENTS).items()}])
    with pytest.raises(OSError, match="No space"):
        said(driven_by(greeting(DRAWN, CLIENTS, 0), own, journal), word)
    journal.room = True
    assert not said(driven_by(greeting(DRAWN, CLIENTS, 0), own, journal), word).refused
    ((_, why),) = said(driven_by(greeting(DRAWN, CLIENTS, 0), own, InMemory()), word).refused
    assert why.startswith("client-0 took part in this run before, and what it kept of it is not here")


class Killed(BaseException):
    """As by SIGKILL."""


def killed(*_):
    raise Killed


@pytest.mark.parametrize("before", [True, False], ids=["before its journal has it", "before its keys folder has it"])
def test_a_client_that_is_killed_while_it_enters_a_run_takes_part_when_it_is_back(before, tmp_path, monkeypatch):
    """Between its two files, and never by another journal after it."""
    own, journal = standing(authority(tmp_path / "pki", 2), 0), InMemory()
    word = cbor2.dumps(["enrol", {use: dict(of) for use, of in own.directory.enrolled(CLIENTS).items()}])
    with monkeypatch.context() as at:
        at.setattr(journal if before else own, "put" if before else "enter", killed)
        begins = driven_by(greeting(DRAWN, CLIENTS, 0), own, journal)
        with pytest.raises(Killed):
            said(begins, word)
    assert (BEGUN in journal.read()) != before
    back = driven_by(greeting(DRAWN, CLIENTS, 0), own, journal)
    assert bool(back.client.roles) != before, "what its journal has it need not be told again"
    assert not before or not said(back, word).refused
    assert said(back, cbor2.dumps(["begin"])).data
    driven_by(greeting(DRAWN, CLIENTS, 0), own, journal)
    ((_, why),) = said(driven_by(greeting(DRAWN, CLIENTS, 0), own, InMemory()), word).refused
    assert why.startswith("client-0 took part in this run before, and what it kept of it is not here")


def test_what_an_enrolment_without_room_leaves_answers_nothing(tmp_path):
    """Its process may go on: what it would sign then its journal did not know of."""
    own, journal = standing(authority(tmp_path / "pki", 2), 0), Full()
    driven = driven_by(greeting(DRAWN, CLIENTS, 0), own, journal)
    enrol = cbor2.dumps(["enrol", {use: dict(of) for use, of in own.directory.enrolled(CLIENTS).items()}])
    with pytest.raises(OSError, match="No space"):
        said(driven, enrol)
    hello = said(driven, cbor2.dumps(["hello", "seed"]))
    assert (hello.sent, cbor2.loads(hello.data)) == ((), [[], [], []])
    journal.room = True
    assert not said(driven, enrol).refused
    assert BEGUN in journal.read()


def test_a_second_server_likewise(tmp_path):
    own, journal = standing(authority(tmp_path / "pki", 2), 0), Full()
    with pytest.raises(OSError, match="No space"):
        begun(journal, own, b"run")
    journal.room = True
    assert begun(journal, own, b"run").life == 1
    with pytest.raises(Refused, match="took part in this run before"):
        begun(InMemory(), own, b"run")


@pytest.mark.parametrize("before", [True, False], ids=["before its journal has it", "before its keys folder has it"])
def test_a_second_server_that_is_killed_while_it_enters_a_run_enters_it_when_it_is_back(before, tmp_path, monkeypatch):
    own, journal = standing(authority(tmp_path / "pki", 2), 0), InMemory()
    with monkeypatch.context() as at:
        at.setattr(journal if before else own, "put" if before else "enter", killed)
        with pytest.raises(Killed):
            begun(journal, own, b"run")
    assert begun(journal, own, b"run").life == (1 if before else 2)
    assert begun(journal, own, b"run").spent == {}
    other = InMemory()
    with pytest.raises(Refused, match="took part in this run before"):
        begun(other, own, b"run")
    assert begun(other, own, b"the next").life == 1, "what was refused is not of that run"


def test_a_second_server_goes_on_with_a_journal_of_an_earlier_release(tmp_path):
    """Which has no name: its party entered the run before it was written."""
    own, journal = standing(authority(tmp_path / "pki", 2), 0), InMemory()
    own.enter(b"run")
    journal.put({BEGUN: cbor2.dumps([0, b"run"]), "life": bytes(4)})
    assert begun(journal, own, b"run").life == begun(journal, own, b"run").life - 1
