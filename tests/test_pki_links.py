"""Certificates on a link: gRPC with mutual TLS takes 1.3 alone, and nobody without a certificate of this authority."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO, cast

import pytest

from cloister.protocol.pki import office, tls

if find_spec("grpc") is None:  # to import it here would be too early for those who require TLS 1.3 first
    pytest.skip("grpcio is not installed", allow_module_level=True)
OPENSSL = shutil.which("openssl")
ROOT = Path(__file__).parents[1]
SERVER = """
import sys, time
from concurrent import futures
from pathlib import Path
from cloister.protocol.pki import party, tls
from cloister.protocol.pki.admission import party_of
from cloister.protocol.pki.certificates import Untrusted

tls.require_tls13()
import grpc

folder, who = Path(sys.argv[1]), int(sys.argv[2])
own = folder / "parties" / ("coordinator" if who < 0 else f"client-{who}")
found = party.credentials(own, who, int(time.time()))

def answer(request, context):
    now = int(time.time())
    trust = party.trusted(own, now)
    try:
        return str(party_of(context.auth_context()["x509_pem_cert"][0], trust.directory, trust.revoked, now)).encode()
    except Untrusted as error:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))

handler = grpc.method_handlers_generic_handler("t", {"who": grpc.unary_unary_rpc_method_handler(answer)})
server = grpc.server(futures.ThreadPoolExecutor(2), handlers=(handler,))
given = grpc.ssl_server_credentials([(found.key, found.certificate)], found.authority, require_client_auth=True)
print(server.add_secure_port("127.0.0.1:0", given), flush=True)
server.start()
sys.stdin.read()
server.stop(None)
"""
CLIENT = """
import sys, time
from pathlib import Path
from cloister.protocol.pki import tls

tls.require_tls13()
import grpc

folder, port, expected = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
read = lambda name: (folder / name).read_bytes()
mine = (read("link.key"), read("link.pem")) if len(sys.argv) == 4 else ()
given = grpc.ssl_channel_credentials(read("authority.pem"), *mine)
channel = grpc.secure_channel(f"127.0.0.1:{port}", given, options=[("grpc.ssl_target_name_override", expected)])
try:
    print(channel.unary_unary("/t/who")(b"", timeout=10).decode())
except grpc.RpcError as error:
    print(error.code().name, error.details())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("links") / "pki"
    for place in (found, found.with_name("other")):
        office.init(place, "trial", 3, ["localhost"], two_servers=False, now=int(time.time()))
    return found


def serving(folder: Path, party: int) -> Iterator[str]:
    command = [sys.executable, "-c", SERVER, str(folder), str(party)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield cast("IO[str]", server.stdout).readline().strip()
        finally:
            cast("IO[str]", server.stdin).close()
            server.wait(30)


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[str]:
    yield from serving(folder, -1)


def asked(own: Path, port: str, expected: str = "coordinator", *anonymous: str) -> str:
    command = [sys.executable, "-c", CLIENT, str(own), port, expected, *anonymous]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def test_the_server_knows_who_calls(folder: Path, port: str) -> None:
    assert asked(folder / "parties" / "client-1", port) == "1"


def test_a_client_of_another_authority_gets_nothing(folder: Path, port: str) -> None:
    assert asked(folder.with_name("other") / "parties" / "client-1", port).startswith("UNAVAILABLE")


def test_who_has_no_certificate_gets_nothing(folder: Path, port: str) -> None:
    assert asked(folder / "parties" / "client-1", port, "coordinator", "anonymous").startswith("UNAVAILABLE")


def test_a_client_calls_nobody_but_whom_it_means(folder: Path, port: str) -> None:
    assert asked(folder / "parties" / "client-1", port, "second-server").startswith("UNAVAILABLE")


def test_a_client_cannot_pass_for_a_server(folder: Path) -> None:
    """Not even under its own name: its certificate is for clients alone."""
    for other in serving(folder, 0):
        assert asked(folder / "parties" / "client-1", other, "client-0").startswith("UNAVAILABLE")


def test_revocation_and_rotation_reach_a_server_that_runs(folder: Path, port: str) -> None:
    now = int(time.time())
    office.revoke(folder, 2, now=now)
    assert asked(folder / "parties" / "client-2", port) == "UNAUTHENTICATED the certificate is revoked"
    office.rotate(folder, 2, None, now=now)
    assert asked(folder / "parties" / "client-2", port) == "2"


@pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed")
def test_tls_12_is_refused_and_13_is_not(folder: Path, port: str) -> None:
    def handshake(version: str, *files: str) -> str:
        trusting = ["-CAfile", "authority.pem", "-verify_return_error", "-alpn", "h2"]
        done = subprocess.run(
            [OPENSSL or "", "s_client", "-connect", f"127.0.0.1:{port}", version, *trusting, *files],
            cwd=folder / "parties" / "client-1",
            input=b"",
            capture_output=True,
            timeout=30,
            check=False,
        )
        return (done.stdout + done.stderr).decode(errors="replace")

    mine = ("-cert", "link.pem", "-key", "link.key")
    assert "New, TLSv1.3" in handshake("-tls1_3", *mine)
    assert "New, (NONE), Cipher is (NONE)" in handshake("-tls1_2", *mine)


def test_it_is_too_late_once_grpc_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tls.VARIABLE, "")
    monkeypatch.setitem(sys.modules, "grpc", sys)
    with pytest.raises(RuntimeError, match=r"grpc was imported before TLS 1\.3 was required"):
        tls.require_tls13()
    assert not tls.requires_tls13()
    monkeypatch.delitem(sys.modules, "grpc")
    tls.require_tls13()
    assert tls.requires_tls13()
