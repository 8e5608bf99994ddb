"""Attacks on real links: whoever attacks is refused, the log says so, and a round of the others ends with the right sum."""

import logging
import os
import random
import resource
import secrets
import shutil
import socket
import ssl
import subprocess
import threading
import time
import tracemalloc
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import cbor2
import pytest
from cryptography import x509

from cloister.protocol.core.session import SERVER
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.flow import HEAD, PIECE_BYTES
from cloister.protocol.links.listener import Listener
from cloister.protocol.links.terms import BOOT_BYTES, LinkRefused, LinkRevoked, grpc_or_words, hello
from cloister.protocol.pki import office, party
from cloister.protocol.pki.certificates import Untrusted
from cloister.protocol.pki.standing import Standing
from cloister.protocol.work.linked import Linked, well_formed
from cloister.protocol.work.said import said

from . import raw_http2 as raw
from .deployed import DRAWN, HOW, QUICK, authority, deployed, driven_by, greeting, of, standing, unlisted
from .test_lying_coordinator import Direct

grpc_or_words()
OPENSSL = shutil.which("openssl")
ALL, OTHERS, BAD = (0, 1, 2, 3), (0, 1, 2), 3


def now():
    return int(time.time())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return authority(tmp_path / "pki", 5)


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of tests that change nothing in it."""
    return authority(tmp_path_factory.mktemp("security") / "pki", 5)


def logged(caplog, what, **of_it):
    """Log entries that say this, with these words in them."""
    return [
        record
        for record in caplog.records
        if record.message == what and all(str(words) in str(getattr(record, key, "")) for key, words in of_it.items())
    ]


def eventually(holds, seconds=15.0):
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it does not come to pass"
        time.sleep(0.02)


class Shown(Standing):
    """A party that shows other credentials than its own."""

    def __init__(self, folder, shown):
        super().__init__(folder)
        self.shown = shown

    def credentials(self):
        return self.shown


# --- revocation, rotation and identities -----------------------------------------------------------------------------------


@pytest.mark.long
def test_who_is_revoked_in_a_round_is_sent_away_and_the_round_goes_on(folder, caplog):
    """Between taking the task and the answer. It tries again, is refused each time, and nobody waits for it."""
    caplog.set_level(logging.INFO)
    with deployed(folder) as run:
        run.begin()
        assert run.round() == ALL
        member = run.members[BAD]
        asked = threading.Event()

        def slow(answer=member.link.answer):
            def answered(number, data):
                if not asked.is_set():
                    asked.set()
                    eventually(lambda: logged(caplog, "sent away", client=BAD))
                answer(number, data)

            return answered

        member.link.answer = slow()
        threading.Thread(target=lambda: (asked.wait(20), office.revoke(folder, BAD, now=now())), daemon=True).start()
        assert run.round() == OTHERS
        assert run.round() == OTHERS
        assert run.listener.counted["revoked"] == 1
        assert BAD not in run.listener.present()
        (sent_away,) = logged(caplog, "sent away")
        assert sent_away.why == "the certificate is revoked"
        # its own folder has the list, too: it does not even try; whoever has its keys alone does
        thief = Shown(of(folder, 4), office_credentials(folder, BAD))
        link = Dialled(f"127.0.0.1:{run.listener.port}", thief, patience=0.5)
        with pytest.raises(LinkRevoked, match="the certificate is revoked: this party takes no further part"):
            link.start()
        link.stop()
        assert logged(caplog, "refused", who="client-3", why="the certificate is revoked")
        assert run.round() == OTHERS


def office_credentials(folder, party):
    """As a thief of its folder has them, who asks nobody whether they are good."""
    own = of(folder, party)
    read = lambda name: (own / name).read_bytes()  # noqa: E731
    return replace(standing(folder, 4).credentials(), certificate=read("link.pem"), key=read("link.key"))


def test_a_certificate_that_is_rotated_in_a_run_is_taken_at_the_next_connection(folder, caplog):
    caplog.set_level(logging.INFO)
    with deployed(folder) as run:
        run.begin()
        assert run.round() == ALL
        before = run.members[BAD].link.connections
        office.rotate(folder, BAD, None, now=now())
        eventually(lambda: run.members[BAD].link.connections > before)
        eventually(lambda: run.listener.present() == ALL)
        assert logged(caplog, "sent away", client=BAD, why="revoked")
        assert run.round() == ALL


def test_clients_hang_up_on_a_coordinator_that_is_revoked_and_are_back_when_it_has_another_certificate(folder, caplog):
    caplog.set_level(logging.INFO)
    with deployed(folder) as run:
        run.begin()
        assert run.round() == ALL
        office.revoke(folder, -1, now=now())
        eventually(lambda: run.listener.present() == ())
        assert logged(caplog, "not connected", why="the certificate of coordinator is revoked")
        office.rotate(folder, -1, None, now=now())
        eventually(lambda: run.listener.present() == ALL, 30)
        assert run.round() == ALL


@pytest.mark.long
@pytest.mark.parametrize("sent", [False, True], ids=["made by the authority", "its own request"])
def test_a_coordinator_whose_keys_are_replaced_shows_the_new_ones_and_whoever_has_the_old_ones_is_left(folder, sent, caplog):
    """Before: it showed the revoked certificate until it was started again, and a copy of its old folder passed for it."""
    caplog.set_level(logging.INFO)
    thief = shutil.copytree(of(folder, -1), folder.with_name(f"thief of {folder.name}"))
    with deployed(folder) as run:
        run.begin()
        assert run.round() == ALL
        served = lambda: x509.load_pem_x509_certificate(shown_at(run.listener.port, folder).encode()).serial_number  # noqa: E731
        before = served()
        links = {i: member.link.connections for i, member in run.members.items()}
        if sent:
            away = shutil.move(of(folder, -1), folder.with_name(f"away of {folder.name}"))
            asked = party.request(Path(away), "tests", -1, again=True)
            office.rotate(folder, -1, asked, now=now())
            party.accept(Path(away), -1, folder / "public", now())
            shutil.move(away, of(folder, -1))
        else:
            office.rotate(folder, -1, None, now=now())
        eventually(lambda: all(run.members[i].link.connections > links[i] for i in ALL), 30)
        eventually(lambda: run.listener.present() == ALL, 30)
        assert served() != before
        assert logged(caplog, "not connected", why="coordinator has other keys by now")
        assert run.round() == ALL
        own = Standing(thief)  # its directory is the old one, by which all is well
        listener = Listener("127.0.0.1:0", ALL, partial(greeting, DRAWN, ALL), own, QUICK)
        listener.start()
        link = Dialled(f"127.0.0.1:{listener.port}", standing(folder, 0), patience=0.5)
        with pytest.raises(ConnectionError, match="coordinator did not show that it holds its identity"):
            link.start()
        link.stop()
        listener.stop()


def shown_at(port, folder):
    """The certificate that a coordinator shows, PEM, to whoever is a client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    own = of(folder, 0)
    context.load_cert_chain(own / "link.pem", own / "link.key")
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", port)) as plain, context.wrap_socket(plain) as secure:
        return ssl.DER_cert_to_PEM_cert(secure.getpeercert(True))


def test_a_coordinator_whose_new_keys_are_not_here_yet_says_so_and_takes_them_when_they_are(folder, caplog):
    caplog.set_level(logging.INFO)
    own, kept = of(folder, -1), folder.with_name(f"old of {folder.name}")
    shutil.copytree(own, kept)
    office.rotate(folder, -1, None, now=now())
    fresh = shutil.copytree(own, folder.with_name(f"new of {folder.name}"))
    for name in ("identity-link.key", "link.key", "link.pem", "directory.cbor", "revoked.cbor"):
        shutil.copy(kept / name, own / name)
    holder = Standing(own)
    for name in ("directory.cbor", "revoked.cbor"):
        shutil.copy(fresh / name, own / name)
    holder.look_again()
    holder.look_again()
    assert len([one for one in caplog.records if one.message == "its own keys are others now"]) == 1
    assert holder.other_credentials() is None
    for name in ("identity-link.key", "link.key", "link.pem"):
        shutil.copy(fresh / name, own / name)
    holder.look_again()
    assert holder.identities["link"].public == Standing(fresh).identities["link"].public
    found = holder.other_credentials()
    assert found is not None
    assert found.certificate == (fresh / "link.pem").read_bytes()
    assert holder.other_credentials() is None


def test_a_coordinator_that_does_not_hold_its_identity_is_not_believed(lasting, caplog):
    """It has the coordinator's certificate and key for links, and another's identity."""
    own = standing(lasting, -1)
    own.identities = {"link": standing(lasting, 0).identities["sums"]}
    listener = Listener("127.0.0.1:0", ALL, partial(greeting, DRAWN, ALL), own, QUICK)
    listener.start()
    link = Dialled(f"127.0.0.1:{listener.port}", standing(lasting, 0), patience=0.5)
    with pytest.raises(ConnectionError, match="coordinator did not show that it holds its identity"):
        link.start()
    assert logged(caplog, "not connected", why="did not show that it holds its identity")
    link.stop()
    listener.stop()


def test_an_identity_that_is_bound_to_anothers_certificate_signs_nothing(lasting):
    """Client 3 comes with its own certificate, and signs with what the directory has for client 4."""
    own = standing(lasting, BAD)
    own.identities = standing(lasting, 4).identities
    with deployed(lasting, owns={BAD: own}) as run:
        run.begin()
        assert run.round() == OTHERS
        assert any(fault.blame == BAD or "client 3" in fault.reason for fault in run.view.record.faults)


@pytest.mark.long
def test_documents_that_are_not_the_authoritys_next_are_not_taken(folder, tmp_path, caplog):
    """Noise, an older list, one of another authority: logged, and everybody stays."""
    other = authority(tmp_path / "other", 5)
    caplog.set_level(logging.INFO)
    with deployed(folder) as run:
        run.begin()
        own = of(folder, -1)
        first = Path(own / "revoked.cbor").read_bytes()
        office.renew(folder, now=now())
        eventually(lambda: len(logged(caplog, "news of the authority")) == 5)  # at all five ends
        for place, why in (
            (b"noise", "does not read"),
            (first, "older than version"),
            ((other / "public/revoked.cbor").read_bytes(), "not signed by this authority"),
        ):
            (own / "revoked.cbor").unlink()
            (own / "revoked.cbor").write_bytes(place)
            eventually(lambda why=why: logged(caplog, "not taken", file="revoked.cbor", why=why))
        (own / "directory.cbor").unlink()
        eventually(lambda: logged(caplog, "not taken", file="directory.cbor", why="there is no file"))
        assert run.round() == ALL
        assert run.listener.present() == ALL


def test_a_list_that_has_expired_lets_nobody_in(lasting):
    late = Standing(of(lasting, -1))
    late._clock = lambda: time.time() + 400 * 86_400
    with pytest.raises(Untrusted, match="expired"):
        late.party_of(standing(lasting, 0).credentials().certificate)
    with pytest.raises(Untrusted, match="expired"):
        late.check_in_good_standing()


# --- one certificate, several places ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_stolen_certificate_displaces_its_owner_and_a_flood_of_that_is_ended(lasting, caplog):
    """Both are told; from the seventh time on the one that is there stays."""
    with deployed(lasting, limits=replace(QUICK, patience=1.0, at_most=2.0)) as run:
        run.begin()
        where = f"127.0.0.1:{run.listener.port}"
        thieves = []
        for _ in range(QUICK.displacing):
            thieves.append(Dialled(where, standing(lasting, BAD), patience=0.5))
            thieves[-1].start()
        eventually(lambda: run.members[BAD].ended is not None)
        assert isinstance(run.members[BAD].ended, LinkRefused)
        assert "took its place: if that is not yours, have its key revoked" in str(run.members[BAD].ended)
        last = Dialled(where, standing(lasting, BAD), patience=0.5)
        with pytest.raises(ConnectionError, match="take each other's place: is its key in use elsewhere"):
            last.start()
        assert run.listener.counted["displaced"] == QUICK.displacing
        assert len(logged(caplog, "displaced", client=BAD)) == QUICK.displacing
        assert logged(caplog, "refused", who="client-3", why="take each other's place")
        assert run.round() == OTHERS
        for thief in (*thieves, last):
            thief.stop()


def test_streams_of_one_client_that_say_nothing_keep_nobody_out(lasting, caplog):
    with deployed(lasting) as run:
        run.begin()
        links = [raw.connected(run.listener.port, of(lasting, BAD)) for _ in range(QUICK.opening + 3)]
        for link in links:
            link.sendall(raw.opening())
        eventually(lambda: len(logged(caplog, "refused", who="client-3", why="have not said anything yet")) == 3)
        assert run.round() == ALL
        for link in links:
            link.close()


@pytest.mark.long
def test_connections_without_a_stream_are_ended(lasting):
    """A certificate that is good, or was taken back, held as many as there were descriptors, for good."""
    with deployed(lasting) as run:
        run.begin()
        links = [raw.connected(run.listener.port, of(lasting, BAD)) for _ in range(5)]
        for link in links:
            link.sendall(raw.PREFACE + raw.frame(raw.SETTINGS, 0, 0, b""))
            link.settimeout(8 * QUICK.greeting)
        assert run.round() == ALL
        for link in links:
            raw.said_until_closed(link)  # raises TimeoutError where it is not ended
            link.close()
        assert run.round() == ALL, "streams are ended by nothing of that"


@pytest.mark.long
def test_streams_that_take_nothing_keep_nobody_out(lasting, caplog):
    """With a window of 0 what is said to them never leaves, and gRPC holds them until their connection ends."""
    with deployed(lasting, limits=replace(QUICK, displacing=100)) as run:
        run.begin()
        links = []
        for _ in range(QUICK.unended + 3):
            links.append(raw.connected(run.listener.port, of(lasting, BAD)))
            first = raw.frame(raw.DATA, 0, 1, raw.message(hello(os.urandom(BOOT_BYTES), bytes(32))))
            links[-1].sendall(raw.opening(window=0) + first)
            time.sleep(0.1)
        eventually(lambda: len(logged(caplog, "refused", who="client-3", why="takes nothing of what it is told")) >= 3)
        assert run.round() == OTHERS
        for link in links:
            link.close()
        eventually(lambda: 3 not in run.listener.present())
        back = Dialled(f"127.0.0.1:{run.listener.port}", standing(lasting, BAD), patience=QUICK.patience)
        eventually(lambda: _starts(back))
        back.stop()


def _starts(link):
    try:
        link.start()
    except ConnectionError:
        return False
    return True


# --- who is nobody learns nothing ------------------------------------------------------------------------------------------


def garbage(port, keys):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as link:
        link.sendall(random.Random(0).randbytes(2000))
        return read_all(link)


def plain_http2(port, keys):
    """Without TLS."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as link:
        link.sendall(raw.opening() + raw.frame(raw.DATA, 0, 1, raw.message(hello(bytes(16), bytes(32)))))
        return read_all(link)


def no_certificate(port, keys):
    with raw.connected(port, of(keys, 0), shows=False) as link:
        try:
            link.sendall(raw.opening() + raw.frame(raw.DATA, 0, 1, raw.message(hello(bytes(16), bytes(32)))))
        except (ssl.SSLError, ConnectionError):
            return b""
        return raw.said_until_closed(link)


def of_another_authority(port, keys):
    """Of the same name as ours, with a certificate for client 0."""
    return with_shown(port, keys, standing(authority(keys.parent / secrets.token_hex(4), 1), 0).credentials())


def expired(port, keys):
    return with_shown(port, keys, unlisted(keys, 0, now() - 10 * 86_400))


def with_shown(port, keys, shown):
    """What is said to who shows these credentials, and what the handshake leaves."""
    own = keys.parent / secrets.token_hex(4)
    own.mkdir()
    for name, content in (("link.pem", shown.certificate), ("link.key", shown.key)):
        (own / name).write_bytes(content)
    (own / "authority.pem").write_bytes((of(keys, 0) / "authority.pem").read_bytes())
    with raw.connected(port, own) as link:
        try:
            link.sendall(raw.opening() + raw.frame(raw.DATA, 0, 1, raw.message(hello(bytes(16), bytes(32)))))
        except (ssl.SSLError, ConnectionError):
            return b""
        return raw.said_until_closed(link)


def nobody_of_the_run(port, keys):
    """A certificate of the directory, of client 4, which the run is not played with."""
    with raw.connected(port, of(keys, 4)) as link:
        link.sendall(raw.opening() + raw.frame(raw.DATA, 0, 1, raw.message(hello(bytes(16), bytes(32)))))
        said_to_it = raw.said_until(link, raw.HEADERS)
    assert b"7" in said_to_it  # PERMISSION_DENIED
    return said_to_it


def is_ended(link):
    """By the other side, which says nothing first. Raises TimeoutError where it is not."""
    try:
        return link.recv(1 << 16) == b""
    except ConnectionError:
        return True


def read_all(link):
    found = b""
    try:
        while piece := link.recv(1 << 16):
            found += piece
    except OSError:
        pass
    return found


STRANGERS = [garbage, plain_http2, no_certificate, of_another_authority, expired, nobody_of_the_run]


@pytest.mark.parametrize("stranger", STRANGERS, ids=lambda f: f.__name__)
def test_strangers_are_told_nothing_and_the_round_goes_on(lasting, stranger):
    """Not the roster, not the run, not how many there are."""
    with deployed(lasting) as run:
        run.begin()
        heard = [stranger(run.listener.port, lasting) for _ in range(3)]
        for told in heard:
            assert len(told) < 1000
            assert not any(word in told for word in (run.run, b"client-0", b"Masked", cbor2.dumps(list(ALL))))
        if stranger in (no_certificate, of_another_authority, expired):
            assert heard == [b"", b"", b""]
        assert run.round() == ALL


@pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed")
def test_openssl_gets_in_by_13_alone(lasting):
    with deployed(lasting) as run:
        run.begin()

        def handshake(version):
            command = [OPENSSL, "s_client", "-connect", f"127.0.0.1:{run.listener.port}", version, "-alpn", "h2"]
            command += ["-CAfile", "authority.pem", "-cert", "link.pem", "-key", "link.key", "-verify_return_error"]
            done = subprocess.run(command, cwd=of(lasting, 0), input=b"", capture_output=True, timeout=30, check=False)
            return (done.stdout + done.stderr).decode(errors="replace")

        assert "New, TLSv1.3" in handshake("-tls1_3")
        assert "New, (NONE), Cipher is (NONE)" in handshake("-tls1_2")
        assert run.round() == ALL


# --- time and memory -------------------------------------------------------------------------------------------------------


def test_a_handshake_that_never_ends_and_a_first_message_that_trickles_are_ended(lasting):
    limits = replace(QUICK, greeting=1.0)
    with deployed(lasting, limits=limits) as run:
        run.begin()
        silent = [socket.create_connection(("127.0.0.1", run.listener.port), timeout=20) for _ in range(20)]
        for link in silent[10:]:
            link.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")  # the beginning of a ClientHello
        slow = raw.connected(run.listener.port, of(lasting, BAD))
        slow.sendall(raw.opening())

        def trickle():
            try:
                for byte in raw.message(hello(bytes(BOOT_BYTES), bytes(32))):
                    slow.sendall(raw.frame(raw.DATA, 0, 1, bytes([byte])))
                    time.sleep(0.2)
            except (ssl.SSLError, OSError):
                pass

        trickling = threading.Thread(target=trickle, daemon=True)
        trickling.start()
        assert run.round() == ALL
        assert b"nothing was said in time" in raw.said_until(slow, raw.RST)
        assert all(is_ended(link) for link in silent)
        assert run.round() == ALL
        slow.close()
        for link in silent:
            link.close()


@pytest.mark.long
def test_who_holds_a_slot_and_sends_nothing_loses_it(lasting, caplog):
    """It is granted room for a long message, and says from then on that it works."""
    limits = replace(QUICK, slots=1, patience=1.5)
    with listening(lasting, limits) as (listener, dial):
        slow, quick = dial(0), dial(1)
        slow.start()
        quick.start()
        eventually(lambda: listener.present() == (0, 1))
        offer = HEAD.pack(3, 0, 0, 0, 3 * PIECE_BYTES)
        slow._background.result(slow._flow._write_piece(offer))
        eventually(lambda: listener._owing.peers[0].flow is None or listener._owing.peers[0].flow._buffer is not None)
        slow._doing = 1  # it says so every second
        number = listener.post(1, b"a")
        _, word = next(quick.words())
        threading.Thread(target=quick.answer, args=(number, word * (2 * PIECE_BYTES)), daemon=True).start()
        heard = listener.heard()
        assert (heard.client, len(heard.data)) == (1, 2 * PIECE_BYTES)
        listener.done_with(heard)
        assert logged(caplog, "stream ended", client=0, why="moves too slowly")


@contextmanager
def listening(keys, limits=QUICK, clients=(0, 1)):
    """A listener, and how clients call it."""
    listener = Listener("127.0.0.1:0", clients, partial(greeting, DRAWN, clients), standing(keys, -1), limits)
    listener.start()
    links = []

    def dial(client):
        links.append(Dialled(f"127.0.0.1:{listener.port}", standing(keys, client), patience=20))
        return links[-1]

    try:
        yield listener, dial
    finally:
        listener.stop()
        for link in links:
            link.stop()


def memory():
    """Most bytes that this process ever had."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.long
def test_lengths_that_are_only_declared_reserve_nothing(lasting, caplog):
    """Of a gRPC message, of a long message of ours, and of byte strings, lists and maps in CBOR."""
    with deployed(lasting) as run:
        run.begin()
        run.round()
        before = memory()
        for declared in (1 << 21, 1 << 30, (1 << 32) - 1):
            link = raw.connected(run.listener.port, of(lasting, BAD))
            link.sendall(raw.opening() + raw.frame(raw.DATA, 0, 1, raw.message(b"\x83", declared)))
            assert b"8" in raw.said_until(link, raw.HEADERS)  # RESOURCE_EXHAUSTED
            link.close()
        link, flow = run.members[BAD].link, run.members[BAD].link._flow
        link._background.result(flow._write_piece(HEAD.pack(3, flow._sent, 0, 0, 1 << 62)))
        eventually(lambda: logged(caplog, "stream ended", client=BAD, why=f"an offer of {1 << 62} bytes"))
        assert memory() - before < 64 << 20
        assert run.round() == OTHERS


HUGE = [head + length for head in (b"\x5b", b"\x7b", b"\x9b", b"\xbb", b"\xdb") for length in (b"\x00\x00\x00\xff" + bytes(4),)]
HUGE += [
    b"\x5a\x7f\xff\xff\xff",
    b"\x9a\x7f\xff\xff\xff",
    b"\xc2\x5a\x7f\xff\xff\xff",
    b"\x5f\x5a\x7f\xff\xff\xff",
    b"\x81" * 60_000,
]


@pytest.mark.parametrize("head", HUGE, ids=lambda head: head[:8].hex())
def test_lengths_in_words_and_answers_reserve_nothing(lasting, head):
    driven = driven_by(greeting(DRAWN, ALL, 0), standing(lasting, 0))
    tracemalloc.start()
    try:
        for data in (head, b"\x82\x65enrol" + head, b"\x83\x65frame\x20" + head):
            assert said(driven, data).refused
        hosts = Linked(Scripted(head), ALL)
        hosts.post(0, "frame", SERVER, b"")
        ((_, effects),) = hosts.heard()
        assert effects[0].blame == 0
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


# --- frames that are none --------------------------------------------------------------------------------------------------


class Scripted:
    """A link whose client answers this."""

    def __init__(self, data):
        self.data, self.waiting = data, []

    def post(self, client, data):
        self.waiting.append(type("Told", (), {"client": client, "number": 1, "data": self.data, "late": False}))
        return 1

    def heard(self):
        return self.waiting.pop()

    def heard_already(self):
        return None

    def done_with(self, answer):
        pass


def mutated(draw, data):
    """With bytes altered, left out, doubled, or cut off."""
    found = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 5))):
        at = draw.randrange(len(found) + 1)
        match draw.randrange(4):
            case 0 if at < len(found):
                found[at] ^= 1 << draw.randrange(8)
            case 1:
                del found[at : at + draw.randrange(1, 9)]
            case 2:
                found[at:at] = draw.randbytes(draw.randrange(1, 9))
            case _:
                found[at:at] = found[draw.randrange(len(found) + 1) :][:9]
    return bytes(found) if draw.random() < 0.9 else bytes(found[: draw.randrange(len(found) + 1)])


def test_ten_thousand_malformed_words_end_no_client(lasting):
    """Words of a run, altered, at a client in it. It refuses them, or they say something that a coordinator may say."""
    draw = random.Random(0)
    own = standing(lasting, 0)
    words = [
        cbor2.dumps(word)
        for word in (
            ["public"],
            ["enrol", {use: dict(one) for use, one in own.directory.enrolled(ALL).items()}],
            ["hello", "seed"],
            ["left out", "seed"],
            ["begin"],
            ["frame", SERVER, b"\xa2\x01\x02" * 40],
            ["deadline", "sums"],
            ["drop", "init"],
            ["final", bytes(48)],
        )
    ]
    own.enter = lambda run, by: None  # so many beginnings of one run
    driven = driven_by(greeting(DRAWN, ALL, 0), own)
    for turn in range(10_000):
        if turn % 2000 == 0:
            driven = driven_by(greeting(DRAWN, ALL, 0), own)
            if turn:
                enrolled_now = said(driven, words[1])
                assert not enrolled_now.refused
        answer = said(driven, mutated(draw, draw.choice(words)))
        plain = cbor2.loads(answer.data)
        assert well_formed(plain) or answer.word in ("public", "enrol", "left out", "holds", "begin", "drop")
        assert not any(kind == "MaskedInput" for kind, _ in answer.sent)


@pytest.mark.long
def test_ten_thousand_malformed_answers_are_faults_of_their_client():
    draw = random.Random(1)
    right = cbor2.dumps([[[SERVER, "Ready", bytes(60)]], [["sum", bytes(32)]], [[SERVER, "a reason"]]])
    for _ in range(10_000):
        hosts = Linked(Scripted(mutated(draw, right)), ALL)
        hosts.post(2, "deadline", "work")
        ((client, effects),) = hosts.heard()
        assert client == 2
        assert all(type(effect).__name__ in ("Posted", "Learned", "Refusal") for effect in effects)


@pytest.mark.long
def test_ten_thousand_malformed_pieces_and_answers_at_a_listener(lasting, caplog):
    """Answers to nothing are ignored; pieces out of order end their stream, and that alone."""
    draw = random.Random(2)
    with deployed(lasting) as run:
        run.begin()
        port, sent = run.listener.port, 0

        def stream():
            """Of client 3, once more."""
            link = raw.connected(port, of(lasting, BAD))
            link.sendall(raw.opening() + raw.frame(raw.DATA, 0, 1, raw.message(hello(draw.randbytes(16), bytes(32)))))
            raw.said_until(link, raw.DATA)
            return link

        def carried(link, pieces):
            for at in range(0, len(pieces), 50):
                content = b"".join(raw.message(piece) for piece in pieces[at : at + 50])
                for k in range(0, len(content), 16_000):
                    link.sendall(raw.frame(raw.DATA, 0, 1, content[k : k + 16_000]))

        link = stream()  # in order, and senseless
        junk = [draw.randbytes(draw.randrange(8, 40)) for _ in range(9_900)]
        carried(link, [HEAD.pack(2, number, 0, 1, len(data)) + data for number, data in enumerate(junk)])
        sent += len(junk)
        assert run.round() == OTHERS
        link.close()
        bad = (b"", b"\x02", HEAD.pack(9, 0, 0, 0, 0), HEAD.pack(2, 5, 0, 1, 1) + b"a", HEAD.pack(2, 0, 0, 1, 3) + b"abc")
        limited = 0
        for k in range(100):
            link = stream()
            try:
                carried(link, [bad[k % len(bad)]])
                limited += b"INVALID" in raw.said_until(link, raw.RST)
            except (ssl.SSLError, OSError):
                pass
            link.close()
            sent += 1
        assert sent == 10_000
        assert len(logged(caplog, "stream ended", client=BAD)) > 50
        assert run.round() == OTHERS


# --- frames of others and of before ----------------------------------------------------------------------------------------


class Proxy:
    """A man in the middle, who alters, doubles or leaves out the n-th piece of bytes from a client, once."""

    def __init__(self, port, n, alter):
        self.port, self.n, self.alter, self.counted = port, n, alter, count()
        self.listens = socket.create_server(("127.0.0.1", 0))
        self.own = self.listens.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listens.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.port))
            for source, target, watched in ((near, far, True), (far, near, False)):
                threading.Thread(target=self._carry, args=(source, target, watched), daemon=True).start()

    def _carry(self, source, target, watched):
        try:
            while data := source.recv(1 << 16):
                if watched and next(self.counted) == self.n:
                    data = self.alter(data)
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


ALTERED = {
    "a bit": lambda data: data[:-3] + bytes([data[-3] ^ 1]) + data[-2:],
    "twice": lambda data: data + data,
    "left out": lambda data: b"",
    "noise between": lambda data: os.urandom(30) + data,
}


@pytest.mark.parametrize("alter", ALTERED.values(), ids=ALTERED)
@pytest.mark.parametrize("n", [0, 6, 12])
@pytest.mark.long
def test_who_alters_or_replays_bytes_on_the_way_breaks_a_connection_and_nothing_else(lasting, n, alter):
    """Which is made again; the sum is of whoever was back in time, and right."""
    proxies = []

    def through(address, own, **more):
        if own.party == BAD:
            proxies.append(Proxy(int(address.rpartition(":")[2]), n, alter))
            address = f"127.0.0.1:{proxies[0].own}"
        return Dialled(address, own, **more)

    with deployed(lasting, limits=replace(QUICK, patience=3.0), dial=through) as run:
        run.begin()
        for _ in range(3):
            assert set(run.round()) >= set(OTHERS)
        proxies[0].listens.close()


def of_before(link):
    """Answers with what it answered to the word before, under the new number."""
    given = [b""]

    def answer(number, data, real=link.answer):
        given.append(data)
        real(number, given[-2] or data)

    return answer


def of_another(other, link):
    """Answers with what another client answers, too, as its own."""

    def answer(number, data, real=link.answer):
        real(number, other.get(number, data))

    return answer


@pytest.mark.parametrize("kind", ["of before", "of another"])
def test_frames_that_are_replayed_or_spliced_are_in_no_sum(lasting, kind):
    """By a client that takes part: what it said before, or what another said. Nothing of that gets into a sum."""
    with deployed(lasting) as run:
        run.begin()
        assert run.round() == ALL
        link = run.members[BAD].link
        if kind == "of before":
            link.answer = of_before(link)
        else:
            others, real = {}, run.members[0].link.answer

            def overheard(number, data):
                others[number] = data
                real(number, data)
                time.sleep(0)

            run.members[0].link.answer = overheard
            link.answer = of_another(others, link)
            known, before = link.answer, threading.Event()

            def after(number, data):
                before.wait(0.05)  # so that the other has answered
                known(number, data)

            link.answer = after
        faults = len(run.view.record.faults)
        assert run.round() == OTHERS
        if kind == "of another":  # what is of a session that is over is nobody's fault: it may be late
            assert any(fault.blame == BAD for fault in run.view.record.faults[faults:])
        assert not any(fault.blame in OTHERS for fault in run.view.record.faults[faults:])


def test_words_of_before_do_nothing_at_a_client(lasting):
    """A coordinator that says again, in a later round, what it said in the one before."""
    words, heard = [], []

    class Listening(Direct):
        def post(self, client, data):
            if client == 1:
                words.append(data)
            return super().post(client, data)

    clients = {i: driven_by(greeting(DRAWN, ALL, i), noted(standing(lasting, i))) for i in ALL}
    link = Listening(clients)
    play(link, clients[0]._setup.run, standing(lasting, 0).directory.enrolled(ALL))
    assert len(words) > 8
    for word in words:
        again = said(clients[1], word)
        heard += [kind for kind, _ in again.sent]
    assert not {"MaskedInput", "SurvivorSignature", "Reveal"} & set(heard)


def noted(own):
    own.enter = lambda run, by: None
    return own


def play(link, run, known):
    """A round, in this process."""
    from cloister.crypto.entropy import OsEntropy
    from cloister.protocol.view.answers import Assignment, Model, Weights
    from cloister.protocol.view.protection import Setup

    from .deployed import INITIAL, nobody

    view = HOW.open(Setup(run, INITIAL, ALL, nobody, OsEntropy(), hosts=Linked(link, ALL, known)))
    updates = view.train(0, {"root": Assignment(Model("init"), ALL, ALL)})["root"]
    return view.sums(updates, {"m": Weights(dict.fromkeys(updates.clients, 1.0))})["m"]
