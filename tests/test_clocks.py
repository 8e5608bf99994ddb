"""A party whose clock is wrong, from the beginning or from the midst of a run: it is said in words, and others go on."""

import time

import pytest

from cloister.protocol.links import attendance, dialled, pauses
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.listener import Listener
from cloister.protocol.links.terms import grpc_or_words
from cloister.protocol.pki import office
from cloister.protocol.pki.certificates import Untrusted
from cloister.protocol.pki.standing import Standing

from .deployed import QUICK, authority, deployed, of
from .test_security_of_links import eventually, logged

grpc_or_words()
HOUR, DAY, ALL, OTHERS, WRONG = 3600, 86_400, (0, 1, 2, 3), (0, 1, 2), 3


class Clock:
    """off: seconds by which it is wrong."""

    def __init__(self, off=0.0):
        self.off = off

    def __call__(self):
        return time.time() + self.off

    def year(self):
        return time.strftime("%Y-%m-%d", time.gmtime(self()))


@pytest.fixture
def folder(tmp_path):
    return authority(tmp_path / "pki", 4)


@pytest.fixture
def soon(monkeypatch):
    """Links look at what has changed many times a second."""
    monkeypatch.setattr(dialled, "BEAT", 0.05)
    monkeypatch.setattr(pauses, "LONGEST_PAUSE", 0.2)
    monkeypatch.setattr(attendance, "_NEWS", 0.05)
    monkeypatch.setattr(attendance, "_ANEW", 0.05)


@pytest.mark.parametrize("party", [-1, 0], ids=["coordinator", "client"])
@pytest.mark.parametrize(("off", "words"), [(-HOUR, "valid from"), (-365 * DAY, "valid from"), (366 * DAY, "expired")])
def test_who_begins_with_a_wrong_clock_is_told_what_it_says(folder, party, off, words):
    clock = Clock(off)
    with pytest.raises(Untrusted, match=f"{words} .* by a clock that says {clock.year()}"):
        Standing(of(folder, party), clock=clock)


@pytest.mark.parametrize("off", [HOUR, 300 * DAY])
def test_a_clock_that_is_ahead_is_nobodys_trouble_while_all_is_valid(folder, off):
    with deployed(folder, owns={WRONG: Standing(of(folder, WRONG), clock=Clock(off))}) as run:
        assert run.begin().round() == ALL


def test_a_directory_that_was_signed_by_a_clock_that_is_ahead_is_for_later(folder, caplog):
    """Of an authority whose clock is wrong: what was known stays, and the log says why."""
    own = Standing(of(folder, WRONG))
    office.renew(folder, now=int(time.time()) + HOUR)
    own.look_again()
    assert own.directory.header.version == 1
    assert logged(caplog, "not taken", file="directory.cbor", why="still to come by a clock that says")


@pytest.mark.long
def test_a_clients_clock_that_jumps_ends_its_stream_and_it_is_back_when_it_is_right(folder, soon, caplog):
    clock = Clock()
    with deployed(folder, owns={WRONG: Standing(of(folder, WRONG), clock=clock)}) as run:
        assert run.begin().round() == ALL
        clock.off = 400 * DAY
        eventually(lambda: run.listener.present() == OTHERS)
        assert run.round() == OTHERS
        assert logged(caplog, "not connected", why=f"by a clock that says {clock.year()}")
        clock.off = 0
        eventually(lambda: run.listener.present() == ALL)
        assert run.round() == ALL


def test_a_coordinators_clock_that_jumps_sends_all_away_and_they_are_back_when_it_is_right(folder, soon, caplog):
    """Clients are told what its clock says, and do not take it for their own fault: they try again."""
    clock = Clock()
    with deployed(folder, own=Standing(of(folder, -1), clock=clock)) as run:
        assert run.begin().round() == ALL
        clock.off = 400 * DAY
        eventually(lambda: run.listener.present() == ())
        eventually(lambda: logged(caplog, "not connected", why="expired at"))
        for client in ALL:
            assert logged(caplog, "sent away", client=client, why=f"by a clock that says {clock.year()}")
        assert run.listener.barred() == ()
        assert run.listener.counted["revoked"] == 0
        clock.off = 0
        eventually(lambda: run.listener.present() == ALL)
        assert run.round() == ALL


@pytest.mark.parametrize("party", [0, -1], ids=["the client's", "the coordinator's"])
def test_a_certificate_that_has_expired_by_the_other_ends_clock_is_told_from_a_network_that_fails(tmp_path, party):
    """TLS ends before a word is said, and each side that looks at its own, by a clock that is behind, finds nothing wrong."""
    made, folder = int(time.time()) - 60 * DAY, tmp_path / "pki"
    office.init(folder, "tests", 1, ["localhost"], two_servers=False, now=made)
    office.rotate(folder, party, None, now=made, days=20)
    behind = Clock(-45 * DAY)
    listener = Listener("127.0.0.1:0", (0,), lambda _: b"", Standing(of(folder, -1), clock=behind), QUICK)
    link = Dialled(f"127.0.0.1:{listener.start()}", Standing(of(folder, 0), clock=behind), patience=0.1)
    words = {
        0: "hangs up in the handshake, as it does where this party's certificate is expired .*; here it is tried by a clock",
        -1: "the certificate at that end is not taken: certificate has expired, by a clock",
    }
    try:
        with pytest.raises(ConnectionError, match=words[party] + f" that says {Clock().year()}"):
            link.start()
    finally:
        link.stop()
        listener.stop()
