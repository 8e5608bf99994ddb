"""A client whose certificate was taken back stops, with words and an exit code of its own; one that gets another goes on."""

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from cloister.deployment.metrics import Collected
from cloister.errors_in_one_line import REVOKED, Failure, one_line_errors
from cloister.fl.runs.listening import Listening
from cloister.fl.runs.member import LOG, OwnRecord
from cloister.fl.runs.serving import serve
from cloister.fl.runs.vitals import Watched
from cloister.protocol.core.errors import Refused, Revoked
from cloister.protocol.drivers.journal import InMemory
from cloister.protocol.links import dialled
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.listener import Listener
from cloister.protocol.links.terms import Limits, LinkRevoked, grpc_or_words
from cloister.protocol.pki import office, party
from cloister.protocol.pki.admission import party_of
from cloister.protocol.pki.certificates import Untrusted
from cloister.reporting.own_record import read_record

from .deployed import QUICK, Member, authority, deployed, driven_by, of, standing
from .served import SMALL
from .test_security_of_links import Shown, eventually, logged

grpc_or_words()
ALL, OTHERS = (0, 1, 2, 3), (0, 1, 2)
SCENARIO = Path(__file__).with_name("deployed_scenario.py")


def now():
    return int(time.time())


@pytest.fixture
def folder(tmp_path):
    return authority(tmp_path / "pki", 4)


def refusal(folder, certificate):
    trust = party.trusted(folder / "public", now())
    with pytest.raises(Untrusted) as raised:
        party_of(certificate, trust.directory, trust.revoked, now())
    return raised.value


def test_a_certificate_that_was_taken_back_is_told_from_one_that_another_took_the_place_of(folder):
    old = (of(folder, 1) / "link.pem").read_bytes()
    office.revoke(folder, 1, now=now())
    assert isinstance(refusal(folder, old), Revoked)
    office.rotate(folder, 1, None, now=now())
    replaced = refusal(folder, old)
    assert not isinstance(replaced, Revoked)
    assert "a newer one of client-1 took its place; take it by `cloister keys accept`" in str(replaced)


@pytest.mark.long
def test_a_revoked_client_stops_and_its_record_says_so(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(dialled, "REVOKED_FOR", 0.5)
    record = OwnRecord(tmp_path / LOG)
    record.add(joined="x", client=3, clients=[0, 1, 2, 3], protection="Masked()")

    def dial(address, standing, **more):
        return Dialled(address, standing, noted=record.connected if standing.party == 3 else lambda *_: None, **more)

    with deployed(folder, dial=dial) as run:
        run.begin()
        assert run.round() == (0, 1, 2, 3)
        office.revoke(folder, 3, now=now())
        run.members[3].thread.join(20)
        assert isinstance(run.members[3].ended, LinkRevoked)
        assert run.round() == (0, 1, 2)
        assert run.listener.barred() == (3,)
    record.left(run.members[3].ended)
    lines = read_record(tmp_path / LOG)
    assert ["away" in line for line in lines] == [False, True, False]
    assert lines[-1]["revoked"]
    assert "revoked" in lines[-1]["left"]


def test_who_was_revoked_before_the_coordinator_came_back_is_not_waited_for(folder):
    """Before: each start of it, and its end after one, waited for that client as for one that may be back."""
    office.revoke(folder, 3, now=now())
    listener = Listener("127.0.0.1:0", ALL, lambda client: b"", standing(folder, -1), QUICK, back=60.0)
    listener.start()
    try:
        eventually(lambda: listener.barred() == (3,))
        linked = SimpleNamespace(stage="", absent={}, late=0)
        seen = Watched(SimpleNamespace(listener=listener, linked=linked, round=0), 4, 1, 1).vitals()
        assert (seen.barred, seen.revoked) == (1, 0), "nobody was sent away for an alarm to go by"
        found = [family for family in Collected(lambda: seen).collect() if family.name == "cloister_revoked_clients"]
        assert [sample.value for family in found for sample in family.samples] == [1.0]
        began = time.monotonic()
        listener.post(3, b"word")
        assert listener.heard().data is None
        assert time.monotonic() - began < 10
    finally:
        listener.stop()


@pytest.mark.long
def test_a_run_that_a_revoked_client_keeps_from_beginning_says_so_at_once_and_with_what_it_begins(folder, tmp_path, caplog):
    office.revoke(folder, 3, now=now())
    begun = serve(SMALL, tmp_path / "run", Listening("127.0.0.1:0", standing(folder, -1), Limits(), 0.2))
    words = "the certificate of client-3 is revoked, so at most 3 of 4 can come: begin without by --least 3"
    with pytest.raises(ValueError, match=words):
        next(begun)
    assert any(words in getattr(line, "why", "") for line in caplog.records)
    caplog.clear()
    with pytest.raises(ValueError, match="the run begins with at least 3: give --wait more seconds, or --least"):
        next(serve(SMALL, tmp_path / "run", Listening("127.0.0.1:0", standing(folder, -1), Limits(), 0.2, least=3)))
    assert not any(hasattr(line, "why") for line in caplog.records)


@pytest.mark.long
@pytest.mark.parametrize("kept", [True, False], ids=["with its journal", "with an empty folder"])
def test_who_was_revoked_is_back_with_another_certificate_if_it_kept_its_journal(folder, caplog, monkeypatch, kept):
    """The old certificate stays shut out; without its journal it would sign twice in one run, and leaves by itself."""
    monkeypatch.setattr(dialled, "REVOKED_FOR", 0.3)
    journals = {3: InMemory()}

    def drive(greeting, own):
        return driven_by(greeting, own, journals.get(own.party))

    with deployed(folder, drive=drive) as run:
        run.begin()
        assert run.round() == ALL
        old = standing(folder, 3).credentials()
        office.revoke(folder, 3, now=now())
        run.members[3].thread.join(20)
        assert isinstance(run.members[3].ended, LinkRevoked)
        assert run.round() == OTHERS
        office.rotate(folder, 3, None, now=now())
        where = f"127.0.0.1:{run.listener.port}"
        thief = Dialled(where, Shown(of(folder, 3), old), patience=0.3)
        with pytest.raises(ConnectionError, match="a newer one of client-3 took its place"):
            thief.start()
        thief.stop()
        assert logged(caplog, "refused", who="client-3", why="the certificate is revoked: a newer one")
        if not kept:
            journals[3] = InMemory()
        own = standing(folder, 3)
        back = run.members[3] = Member(Dialled(where, own, patience=20), own, drive).start()
        eventually(lambda: run.listener.present() == ALL)
        assert run.round() == (ALL if kept else OTHERS)
        assert not back.refused  # of a round of others it takes no notice
        assert run.round() == (ALL if kept else OTHERS)


@pytest.mark.long
def test_who_was_revoked_and_has_other_identities_goes_on_with_no_run_that_began_with_the_old(folder, monkeypatch):
    monkeypatch.setattr(dialled, "REVOKED_FOR", 0.3)
    journals = {3: InMemory()}

    def drive(greeting, own):
        return driven_by(greeting, own, journals.get(own.party))

    with deployed(folder, drive=drive) as run:
        run.begin()
        assert run.round() == ALL
        office.revoke(folder, 3, now=now())
        run.members[3].thread.join(20)
        office.rotate(folder, 3, None, identities=True, now=now())
        own = standing(folder, 3)
        back = run.members[3] = Member(Dialled(f"127.0.0.1:{run.listener.port}", own, patience=20), own, drive).start()
        back.thread.join(20)
        assert "began with other identities than the directory has now" in str(back.ended)
        back.link.stop()
        assert run.round() == OTHERS


@pytest.mark.long
def test_who_is_revoked_ends_with_a_code_that_says_not_to_start_it_again(folder, tmp_path):
    def join(*more):
        command = [sys.executable, "-m", "cloister", "join", "localhost:1", "--scenario", f"{SCENARIO}:scenario"]
        command += ["--folder", str(tmp_path / "mine"), "--keys", str(of(folder, 3)), "--data", "scenario", *more]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)

    (tmp_path / "mine").mkdir()
    OwnRecord(tmp_path / "mine" / LOG).add(joined="x", client=3, clients=[3], protection="Masked()")
    office.revoke(folder, 3, now=now())
    done = join()
    revoked = "the certificate is revoked: this party takes no further part, unless the authority gives it another"
    assert (done.returncode, done.stderr.count("\n")) == (77, 1)
    assert done.stderr.startswith(f"cloister: {revoked} (`cloister keys accept ")
    assert read_record(tmp_path / "mine" / LOG)[-1]["revoked"]


@pytest.mark.long
def test_who_was_told_so_gives_up_as_revoked_though_nobody_is_there_any_more(folder, caplog):
    """Before: "nobody listens there", exit code 1, of whom the coordinator had told twice before its run was over."""
    with deployed(folder) as run:
        run.begin()
        office.revoke(folder, 3, now=now())
        own = {name: (of(folder, 3) / f"link.{ending}").read_bytes() for name, ending in (("certificate", "pem"), ("key", "key"))}
        thief = Shown(of(folder, 0), replace(standing(folder, 0).credentials(), **own))
        link = Dialled(f"127.0.0.1:{run.listener.port}", thief, patience=2.5)
        noted = []
        link.noted = lambda there, why: noted.append(why)
        threading.Thread(target=lambda: eventually(lambda: noted) or run.listener.stop(True), daemon=True).start()
        with pytest.raises(LinkRevoked, match="the certificate is revoked: this party takes no further part"):
            link.start()
    assert any("nobody listens" in why for why in noted)


@pytest.mark.parametrize(
    ("error", "code"),
    [(LinkRevoked("gone"), REVOKED), (ConnectionError("lost"), 1), (ValueError("no"), 1), (Refused("it lies"), 1)],
)
def test_exit_codes_of_errors(error, code):
    with pytest.raises(Failure) as raised, one_line_errors():
        raise error
    assert raised.value.code == code
