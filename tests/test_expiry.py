"""A certificate that ends: its own party is told in time, links end by it in both directions, and back when it is replaced."""

import json
import logging
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from cloister import cli, serve_command
from cloister.fl.runs import serving
from cloister.fl.runs.vitals import Watched
from cloister.protocol.core.session import DEALER, SECOND_SERVER, SERVER
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.listener import Listener
from cloister.protocol.links.terms import grpc_or_words
from cloister.protocol.pki import office
from cloister.protocol.pki.certificates import Untrusted
from cloister.protocol.pki.ends import IS_AT_HAND, IS_FAR, IS_OVER, IS_SOON, End, ToldEnds
from cloister.protocol.pki.names import name_of
from cloister.protocol.pki.standing import Standing
from cloister.server_commands import _party

from .deployed import QUICK, deployed, of
from .test_clocks import HOUR, Clock, soon
from .test_security_of_links import eventually, logged
from .test_vitals import busy, got, served

grpc_or_words()
DAY, ALL = 86_400, (0, 1)
__all__ = ["soon"]


def now():
    return int(time.time())


def ending(folder, *parties, seconds, two_servers=False):
    """An authority of two clients; the certificates of these parties end after so many seconds, and were made for a day."""
    office.init(folder, "tests", 2, ["localhost", "127.0.0.1"], two_servers=two_servers, now=now() - 2 * DAY)
    for party in parties:
        office.rotate(folder, party, None, now=now() + seconds - DAY, days=1)
    office.renew(folder, now=now())
    return folder


def rotated(folder, party, days=365):
    """Another certificate that lasts so long, with a directory and a list that last longer."""
    office.rotate(folder, party, None, now=now(), days=days)
    office.renew(folder, now=now())


@pytest.mark.parametrize(
    ("life", "soon", "hand"), [(365 * DAY, 7 * DAY, HOUR), (9 * DAY, 3 * DAY, HOUR), (3 * HOUR, HOUR, 1080), (300, 100, 30)]
)
def test_an_end_is_near_a_week_and_an_hour_before_or_a_third_and_a_tenth_of_its_time(life, soon, hand):
    end = End("certificate", 0, life, "")
    stages = [end.stage(life - left) for left in (soon + 1, soon, hand + 1, hand, 0, -1)]
    assert stages == [IS_FAR, IS_SOON, IS_SOON, IS_AT_HAND, IS_AT_HAND, IS_OVER]


def test_each_stage_is_said_once_and_of_another_certificate_anew(caplog):
    told, first, second = ToldEnds(), End("certificate", 0, 300, "x"), End("certificate", 250, 550, "x")
    for at in (0, 199, 200, 201, 269, 270, 300, 301, 302):
        told.look([first], at)
    assert [record.getMessage() for record in caplog.records] == ["expires", "expires", "expired"]
    assert [getattr(record, "seconds_left", None) for record in caplog.records] == [100, 30, None]
    caplog.clear()
    told.look([second], 303)
    assert not caplog.records
    told.look([second], 600)
    assert [record.getMessage() for record in caplog.records] == ["expired"]


@pytest.mark.parametrize("party", [SERVER, SECOND_SERVER, DEALER, 0], ids=name_of)
def test_every_party_is_told_of_its_own_certificate_and_what_puts_another_in_its_place(party, tmp_path, caplog):
    keys, clock = ending(tmp_path / "pki", seconds=0, two_servers=True), Clock()
    rotated(keys, party, 20)
    own = Standing(of(keys, party), clock=clock)
    rotate = f"`cloister keys rotate PKI {name_of(party)}` at the authority, for this folder"
    own.look_again()
    assert not logged(caplog, "expires")
    assert own.expired == ""
    for off, what in ((14, "expires"), (20 - 0.5 / 24, "expires"), (20.1, "expired")):
        caplog.clear()
        clock.off = off * DAY
        own.look_again()
        own.look_again()
        (line,) = logged(caplog, what, its="certificate", instead=rotate)
        assert line.levelno == logging.WARNING
        assert line.at in own.ends[0].at
    assert own.expired.startswith("the certificate expired at ")
    caplog.clear()
    rotated(keys, party, 300)
    own.look_again()
    assert own.expired == ""
    assert not logged(caplog, "expired")
    assert own.ends[0].until > now() + 299 * DAY


def test_a_directory_and_a_list_that_end_are_renewed_and_not_rotated(tmp_path, caplog):
    keys, clock = ending(tmp_path / "pki", seconds=0), Clock(360 * DAY)
    own = Standing(of(keys, 0), clock=clock)
    own.look_again()
    renew = "`cloister keys renew PKI` at the authority, and all parties accept"
    for its in ("directory", "revocation list"):
        assert len(logged(caplog, "expires", its=its, instead=renew)) == 1
    clock.off = 366 * DAY
    assert "the directory expired at " in own.expired
    assert "; the revocation list expired at " in own.expired


def test_streams_to_a_coordinator_end_when_its_certificate_does_and_are_back_when_it_was_rotated(tmp_path, soon, caplog):
    """Before: it played on in silence, and who lost its link was out."""
    keys, clock = ending(tmp_path / "pki", seconds=0), Clock()
    rotated(keys, SERVER, 20)
    owns = {i: Standing(of(keys, i), clock=clock) for i in ALL}
    with deployed(keys, ALL, owns=owns, own=Standing(of(keys, SERVER), clock=clock)) as run:
        assert run.begin().round() == ALL
        clock.off = 20 * DAY - HOUR / 2
        eventually(lambda: logged(caplog, "expires", its="certificate"))
        assert run.round() == ALL
        clock.off = 20 * DAY + HOUR
        eventually(lambda: run.listener.present() == ())
        eventually(lambda: logged(caplog, "expired", its="certificate", instead="keys rotate PKI coordinator"))
        eventually(lambda: logged(caplog, "not connected", why=f"certificate of coordinator expired at {clock.year()[:4]}"))
        assert run.listener.barred() == ()
        time.sleep(0.5)
        assert run.listener.present() == (), "nobody comes back to it"
        rotated(keys, SERVER, 300)
        eventually(lambda: run.listener.present() == ALL)
        assert run.round() == ALL


@pytest.mark.long
def test_a_certificate_that_really_expires_ends_links_that_tls_then_lets_nobody_take_again(tmp_path, soon, caplog):
    keys = ending(tmp_path / "pki", SERVER, seconds=5)
    until = Standing(of(keys, SERVER)).ends[0].until
    with deployed(keys, ALL) as run:
        assert run.begin().round() == ALL
        eventually(lambda: logged(caplog, "expires", its="certificate"))
        eventually(lambda: run.listener.present() == (), 20)
        assert time.time() >= until
        eventually(lambda: logged(caplog, "not connected", why="certificate of coordinator expired at"))
        eventually(lambda: logged(caplog, "not connected", why="TLS: the certificate at that end is not taken: certificate has"))
        assert logged(caplog, "expired", its="certificate")
        rotated(keys, SERVER)
        eventually(lambda: run.listener.present() == ALL, 20)
        assert run.round() == ALL


@pytest.mark.parametrize("party", [0, DEALER], ids=name_of)
def test_streams_to_a_second_server_end_so_too(party, tmp_path, soon, caplog):
    keys, clock = ending(tmp_path / "pki", seconds=0, two_servers=True), Clock()
    rotated(keys, SECOND_SERVER, 20)
    listener = Listener("127.0.0.1:0", (0, DEALER), lambda _: b"x", Standing(of(keys, SECOND_SERVER)), QUICK)
    own = Standing(of(keys, party), clock=clock)
    link = Dialled(f"127.0.0.1:{listener.start()}", own, patience=20, server=SECOND_SERVER)
    try:
        link.start()
        clock.off = 21 * DAY
        eventually(lambda: logged(caplog, "not connected", why="the certificate of second-server expired at"))
        rotated(keys, SECOND_SERVER)
        eventually(lambda: link.connections > 1)
    finally:
        link.stop()
        listener.stop()


def test_a_server_cannot_say_that_it_has_another_certificate_than_the_authority_gave_it(tmp_path):
    """One that lasts longer: an earlier one of its own, another party's, one that nobody signed."""
    keys = ending(tmp_path / "pki", seconds=0, two_servers=True)
    office.init(tmp_path / "other", "tests", 2, [], two_servers=False, now=now())
    earlier = Standing(of(keys, SERVER)).certificate
    rotated(keys, SERVER, 20)
    server, clock = Standing(of(keys, SERVER)), Clock()
    client, challenge = Standing(of(keys, 0), clock=clock), bytes(32)
    proof = server.proof(0, challenge)
    proven = client.check_proof(proof, server.certificate, challenge)
    client.check_in_good_standing(SERVER, proven)
    other, stranger = Standing(of(keys, SECOND_SERVER)).certificate, Standing(of(tmp_path / "other", SERVER)).certificate
    for shown, why in (
        (earlier, "a newer one of coordinator took its place"),
        (other, "coordinator shows the certificate of second-server"),
        (stranger, "of an unknown authority"),
        (b"", "no X.509 certificate"),
    ):
        with pytest.raises(Untrusted, match=why):
            client.check_proof(proof, shown, challenge)
    clock.off = 21 * DAY
    with pytest.raises(Untrusted, match=r"the certificate of coordinator expired at .* by a clock that says"):
        client.check_in_good_standing(SERVER, proven)
    with pytest.raises(Untrusted, match=r"the certificate of coordinator expired at .* by a clock that says"):
        client.check_proof(proof, server.certificate, challenge)


def test_a_certificate_that_is_on_its_way_is_none_yet(tmp_path):
    keys = ending(tmp_path / "pki", seconds=0)
    own, path = Standing(of(keys, 0)), of(keys, 0) / "link.pem"
    before = own.certificate
    for content in (b"half of", (of(keys, 1) / "link.pem").read_bytes()):
        path.unlink()
        path.write_bytes(content)
        path.chmod(0o600)
        own.look_again()
        assert own.certificate == before


def test_metrics_say_when_all_ends_and_health_that_nobody_can_come(tmp_path):
    keys, clock = ending(tmp_path / "pki", SERVER, seconds=HOUR), Clock()
    own = Standing(of(keys, SERVER), clock=clock)
    hosts = SimpleNamespace(listener=None, linked=SimpleNamespace(stage="", absent={}, late=0), round=0)
    found = Watched(hosts, 8, 10, 1, {}, own)
    ends = {end.of: end.until for end in own.ends}
    assert found.vitals().ends == ends
    assert abs(ends["certificate"] - now() - HOUR) < 60
    with served(lambda: replace(busy, ends=found.vitals().ends, expired=found.vitals().expired)) as at:
        line = next(line for line in got(f"{at}/metrics")[1].splitlines() if 'timestamp_seconds{of="certificate"}' in line)
        assert float(line.split()[1]) == ends["certificate"]
        assert got(f"{at}/health") == (200, "ok\n")
        assert got(f"{at}/ready")[0] == 200
        clock.off = 2 * HOUR
        status, said = got(f"{at}/health")
        assert (status, said.partition(" at ")[0]) == (200, "degraded: the certificate expired")
        status, said = got(f"{at}/ready")
        assert status == 503
        assert ", and nobody can come: the certificate expired at " in said


def test_commands_say_at_their_start_what_ends_soon(tmp_path, monkeypatch, capsys):
    parties = (SERVER, SECOND_SERVER, DEALER, 0)
    keys = ending(tmp_path / "pki", *parties, seconds=240, two_servers=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.getLogger("cloister"), "handlers", [])

    def said(party):
        lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
        (line,) = [line for line in lines if line["what"] == "expires"]
        assert (line["level"], line["its"]) == ("warning", "certificate")
        assert 0 < line["seconds_left"] <= 240
        assert f"keys rotate PKI {name_of(party)}`" in line["instead"]

    monkeypatch.setattr(serving, "serve", lambda *of: iter(()))
    monkeypatch.setattr(serve_command, "_reported", lambda folder: folder / "report.html")
    serve_command.serve("cloister:quickstart", listen="127.0.0.1:0", keys=of(keys, SERVER), out=tmp_path / "out", metrics=None)
    said(SERVER)
    for party in (SECOND_SERVER, DEALER):
        file = ["cloister:quickstart", ["protection=TwoServer()"]]
        _party(*file, of(keys, party), "127.0.0.1:1", 1.0, party)
        said(party)
    join = ["join", "127.0.0.1:1", "--scenario", "cloister:quickstart", "--data", "scenario", "--keys", str(of(keys, 0))]
    monkeypatch.setattr(sys, "argv", ["cloister", *join, "--folder", "home", "--patience", "0.1"])
    with pytest.raises(SystemExit):
        cli.main()
    said(0)
    monkeypatch.setattr(sys, "argv", ["cloister", "join", "--check", "--keys", str(of(keys, 0))])
    with pytest.raises(SystemExit):
        cli.main()
    assert "\nexpires      the certificate, at " in capsys.readouterr().out
