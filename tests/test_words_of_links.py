"""What a client is told where an address leads to nobody, to another service, or to another authority's server."""

import socket
import threading

import pytest

from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.dialling import BROKE_OFF, why_ended
from cloister.protocol.links.listener import Listener
from cloister.protocol.links.terms import grpc_or_words
from cloister.protocol.pki.standing import Standing

from .deployed import QUICK, authority, of

grpc_or_words()


def said(address: str, standing: Standing | None) -> str:
    """How a client that gives up at once says that it cannot reach this address."""
    link = Dialled(address, standing, None if standing is not None else 0, patience=0.05)
    try:
        with pytest.raises(ConnectionError) as ended:
            link.start()
    finally:
        link.stop()
    return str(ended.value)


@pytest.fixture
def own(tmp_path):
    return Standing(of(authority(tmp_path / "pki", 1), 0))


def test_a_port_where_nobody_listens_is_said_without_grpcs_words(own):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        words = said(f"127.0.0.1:{bound.getsockname()[1]}", own)
    assert "nobody listens there: it is not started yet, or the port is another one" in words
    assert "UNAVAILABLE" not in words


def test_a_name_that_no_machine_has_is_said():
    import grpc

    for details in (
        "errors resolving fl.invalid:1: [error:address lookup failed for fl.invalid:1: Domain name not found]",
        "DNS resolution failed for fl.invalid:1",
    ):
        assert why_ended(grpc.StatusCode.UNAVAILABLE, details, -1, True).startswith("no machine has that name")


def test_a_connection_that_breaks_off_is_said_without_grpcs_words():
    import grpc

    for details in ("Stream removed (recvmsg:Connection reset by peer (104))", "Stream removed (Socket closed)"):
        assert why_ended(grpc.StatusCode.UNAVAILABLE, details, -1, True).startswith("the connection broke off")


def test_who_is_not_let_in_yet_is_told_in_the_other_ends_words_alone():
    import grpc

    said = why_ended(grpc.StatusCode.UNAUTHENTICATED, "the certificate is revoked: a newer one took its place", -1, True)
    assert said == "not let in for now: the certificate is revoked: a newer one took its place"
    assert why_ended(grpc.StatusCode.RESOURCE_EXHAUSTED, "too often", -1, True) == "not let in for now: too often"


@pytest.mark.parametrize("heard", [["a newer one", BROKE_OFF], [BROKE_OFF, "a newer one", BROKE_OFF]], ids=["lost", "between"])
def test_a_reason_that_was_heard_is_what_is_said_where_the_last_streams_broke_off(heard, monkeypatch):
    """A refusal is lost where it comes while this end still writes."""
    reasons = iter(heard)

    async def connected(self):
        return next(reasons, heard[-1])

    monkeypatch.setattr(Dialled, "_connected", connected)
    end = Dialled("127.0.0.1:1", None, 0, patience=0.6)
    with pytest.raises(ConnectionError, match="cannot be reached: a newer one"):
        end.start()
    end.stop()
    assert next(reasons, None) is None


def test_a_service_without_tls_is_said_and_grpc_writes_no_line_of_its_own(own, capfd):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            while True:
                try:
                    taken, _ = listening.accept()
                except OSError:
                    return
                with taken:
                    taken.recv(4096)
                    taken.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        words = said(f"127.0.0.1:{listening.getsockname()[1]}", own)
        listening.shutdown(socket.SHUT_RDWR)
    assert "TLS: what listens there does not speak it" in words
    assert "ssl_transport" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("secure", "words"),
    [
        (True, "is of another authority than this party trusts: compare `cloister keys show FOLDER` at both ends"),
        (False, "it asks for certificates (--keys, not --insecure-loopback)"),
    ],
    ids=["of another authority", "without certificates"],
)
def test_who_does_not_belong_to_a_server_is_not_told_that_its_certificate_has_expired(own, tmp_path, secure, words):
    listener = Listener("127.0.0.1:0", (0,), lambda _: b"", Standing(of(authority(tmp_path / "other", 1), -1)), QUICK)
    try:
        heard = said(f"127.0.0.1:{listener.start()}", own if secure else None)
    finally:
        listener.stop()
    assert words in heard
    assert "expired" not in heard
