"""Addresses that users write, and what is said of one at which nobody can listen."""

import socket
import time
from pathlib import Path

import pytest

from cloister.protocol.links.addresses import check_address, not_bound
from cloister.protocol.links.listener import Listener
from cloister.protocol.pki import office
from cloister.protocol.pki.standing import Standing


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1:", ":7000", "localhost:seven", "localhost:70000", "::1", "::1:70"])
def test_without_host_or_port_it_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"--listen is HOST:PORT, for example localhost:7000, not"):
        check_address(address, "--listen")


@pytest.mark.parametrize("address", ["localhost:0", "0.0.0.0:7000", "[::1]:7000", "fl.example.org:65535", "unix:/run/s"])
def test_what_links_take_passes(address: str) -> None:
    check_address(address, "--listen")


def test_a_port_in_use_is_said_in_words_and_a_free_one_has_none() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert not_bound(f"127.0.0.1:{taken.getsockname()[1]}") == "another process listens there; end it, or take another port"
    assert not_bound("127.0.0.1:0") == ""


@pytest.mark.parametrize(
    ("address", "words"),
    [("300.1.1.1:70", "no machine has that name; give"), ("192.0.2.1:0", "that is no address of this machine")],
)
def test_who_cannot_listen_there_is_told_so_before_grpc_says_it_in_lines_of_its_own(
    address: str, words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    office.init(tmp_path / "pki", "trial", 1, [], two_servers=False, now=int(time.time()))
    own = Standing(tmp_path / "pki/parties/coordinator")
    with pytest.raises(OSError, match=f"cannot listen on {address}: {words}"):
        Listener(address, (0,), lambda client: b"", own).start()
    assert capfd.readouterr().err == ""
