"""What is wrong with a party's folder of keys is said when its command starts, with what to do."""

import shutil
import time
from pathlib import Path

import pytest

from cloister.deploying import standing_of
from cloister.join_command import _own_data
from cloister.protocol.core.errors import Revoked
from cloister.protocol.pki import office

from .served import SMALL

AGAIN = r"; `cloister keys accept .*mine PUBLIC` takes what it hands out anew$"


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an authority with two clients."""
    folder = tmp_path_factory.mktemp("office") / "pki"
    office.init(folder, "trial", 2, ["127.0.0.1"], two_servers=False, now=int(time.time()))
    return folder


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("link.key", None, r"^there is no key .*mine/link.key: put it back from where it is kept, or make others"),
        ("identity-sums.key", None, r"^there is no key .*mine/identity-sums.key: put it back"),
        ("link.key", b"x", r"^.*mine/link.key does not open: it is no private key in PEM \(PKCS #8\)$"),
        ("link.pem", None, r"^there is no file .*mine/link.pem" + AGAIN),
        ("link.pem", b"x", r"^.*mine: this is no X.509 certificate" + AGAIN),
        ("directory.cbor", None, r"^there is no file .*mine/directory.cbor" + AGAIN),
        ("directory.cbor", b"\x82", r"^.*mine: the directory does not read: it ends early" + AGAIN),
        ("revoked.cbor", b"", r"^.*mine: the revocation list does not read: it ends early" + AGAIN),
    ],
)
def test_a_folder_that_lost_something_says_what_and_where_to_get_it(
    pki: Path, tmp_path: Path, file: str, content: bytes | None, words: str
) -> None:
    shutil.copytree(pki / "parties/client-1", mine := tmp_path / "mine")
    (mine / file).unlink()
    if content is not None:
        (mine / file).write_bytes(content)
        (mine / file).chmod(0o600)
    with pytest.raises(ValueError, match=words):
        standing_of(mine, insecure=False)


def test_a_folder_that_is_not_there_is_said_with_those_that_are(tmp_path: Path) -> None:
    for name in ("client-0", "client-1", "office", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "notes").write_text("")
    with pytest.raises(ValueError, match=rf"there is no folder .*clint-0; did you mean {tmp_path}/client-0; give the folder"):
        standing_of(tmp_path / "clint-0", insecure=False)
    with pytest.raises(ValueError, match=r"there is no folder .*xyz; /\S* has the folders client-0, client-1, office; give the"):
        standing_of(tmp_path / "xyz", insecure=False)
    with pytest.raises(ValueError, match=r"there is no folder .*nowhere/a; give the folder"):
        standing_of(tmp_path / "nowhere/a", insecure=False)


def test_a_folder_that_cannot_be_written_to_is_refused_to_a_party_that_notes_its_runs_there(pki, monkeypatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # as on a read-only mount, also for root
    own = pki / "parties" / "client-1"
    assert standing_of(own, False) is not None
    with pytest.raises(ValueError, match=r"client-1 cannot be written to: this party notes there in which runs it took part"):
        standing_of(own, False, notes=True)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-366 * 86400, r"^.*client-0: the directory expired at .*, by a clock that says .* UTC; `cloister keys accept .* anew$"),
        (7200, r"^.*client-0: the authority's own certificate is valid from .*: set the clock, if it is that$"),
    ],
)
def test_what_is_not_in_force_says_whether_the_clock_or_the_files_are_to_be_changed(
    tmp_path: Path, seconds: int, words: str
) -> None:
    office.init(tmp_path / "pki", "trial", 1, [], two_servers=False, now=int(time.time()) + seconds)
    with pytest.raises(ValueError, match=words):
        standing_of(tmp_path / "pki/parties/client-0", insecure=False)


def test_who_starts_again_after_it_was_revoked_is_told_what_would_help(tmp_path: Path) -> None:
    office.init(tmp_path / "pki", "trial", 1, [], two_servers=False, now=int(time.time()))
    office.revoke(tmp_path / "pki", 0, now=int(time.time()))
    with pytest.raises(Revoked, match=r"is revoked: this party takes no further part, unless .* another \(`cloister keys accept"):
        standing_of(tmp_path / "pki/parties/client-0", insecure=False)


def test_data_that_are_not_there_are_missed_before_a_coordinator_is_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no file or folder .*none\.csv; give this client's own as --data"):
        _own_data(SMALL, tmp_path / "none.csv", keys=True)
    assert _own_data(SMALL, tmp_path, keys=True) == tmp_path
