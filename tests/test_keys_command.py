"""`cloister keys`: what is printed, that errors are one line, and that no secret is ever shown or taken as an argument."""

import io
import json
import re
import subprocess
import sys
import threading
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from cloister.cli import app, main
from cloister.deploying import _with_remedy
from cloister.keys_command import VARIABLE, keys
from cloister.passphrase import passphrase
from cloister.protocol.pki import office, party, private_keys

SECRET = "correct horse battery staple"  # noqa: S105


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(*arguments: object, cwd: Path, passphrase: str = "") -> Done:
    """The command in this process: each would take most of a second in one of its own."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        patch.setenv("COLUMNS", "200")
        patch.setenv(VARIABLE, passphrase)
        patch.setattr(sys, "argv", ["cloister", "keys", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.StringIO())
        try:
            main()
        except SystemExit as done:
            return Done(int(done.code or 0), out.getvalue(), err.getvalue())
    return Done(0, out.getvalue(), err.getvalue())


def said(*arguments: object, cwd: Path, passphrase: str = "") -> str:
    done = run(*arguments, cwd=cwd, passphrase=passphrase)
    assert done.returncode == 0, done.stderr
    return done.stdout


def word(output: str, name: str) -> str:
    found = re.search(rf"^{name} +(\S+)", output, re.MULTILINE)
    assert found is not None, output
    return found[1]


@pytest.mark.long
def test_from_an_empty_folder_as_the_help_says(tmp_path: Path) -> None:
    authority = word(said("init", "pki", "--run", "trial", "--clients", 2, cwd=tmp_path), "authority")
    asked = said("request", "mine", "client-4", "--run", "trial", cwd=tmp_path)
    assert said("show", "mine", cwd=tmp_path).splitlines() == [
        "client-4, of no authority yet; `cloister keys accept` takes what the authority hands out",
        asked.splitlines()[-1],
    ]
    enrolled = said("enrol", "pki", "mine/request.csr", "--identity", "mine/request.identity", cwd=tmp_path)
    assert word(asked, "fingerprint") == word(enrolled, "fingerprint")
    done = run("accept", "mine", "pki/public", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "cloister: whose authority this is must be told once, by its fingerprint (--authority)\n"
    assert "for client-4" in said("accept", "mine", "pki/public", "--authority", authority, cwd=tmp_path)
    said("revoke", "pki", "client-0", cwd=tmp_path)
    said("rotate", "pki", "coordinator", cwd=tmp_path)
    shown = said("show", "pki", cwd=tmp_path)
    assert word(shown, "authority") == authority
    for name in ("coordinator", "client-0", "client-1", "client-4", "version 3; revocation list version 3"):
        assert name in shown
    assert word(asked, "fingerprint") in shown.split("client-4")[1]  # as the party read it, and as anybody can ask for it again
    assert shown.count("  fingerprint\n") == 4
    public = said("show", "pki/public", cwd=tmp_path)
    assert "client-4" in public
    assert "client-4" in said("show", "mine", cwd=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "nothing"), "there is no file nothing/authority.pem"),
        (("revoke", "nothing", "client-1"), "there is no folder nothing"),
        (("revoke", "pki/public", "client-1"), "there is no authority in pki/public"),
        (("revoke", "pki", "client-9"), "client-9 is not enrolled"),
        (("revoke", "pki", "clent-1"), "'clent-1' is no party's name: coordinator, second-server, dealer, client-0"),
        (("init", "pki", "--run", "trial", "--clients", "1"), "pki/authority.key exists already"),
        (("init", "new", "--run", "a trial", "--clients", "1"), "a run is named by"),
        (("init", "new", "--run", "trial", "--clients", "1", "--server-name", "a b"), "neither a host's name nor an address"),
        (("rotate", "pki", "client-0", "--request", "x.csr"), "--request and --identity come together"),
        (("enrol", "pki", "x.csr", "--identity", "x"), "there is no file x.csr"),
        (("accept", "mine", "pki/public"), "`cloister keys request mine NAME --run RUN` makes its keys first"),
        (
            ("request", "pki/parties/client-0", "client-3", "--run", "trial", "--again"),
            "the keys in pki/parties/client-0 are those of client-0",
        ),
        (("accept", "pki/parties/client-0", "pki/public/authority.pem"), "is a file: give a copy of the authority's folder"),
        (("enrol", "pki", "pki", "--identity", "x"), "pki is no file"),
        (
            ("request", "pki/parties/client-0", "client-0", "--run", "other", "--again"),
            "the keys in pki/parties/client-0 are of the run 'trial', and not of 'other': for another run make a new folder",
        ),
        (("accept", "mine", "pki/public", "--party", "client-0", "--authority", "12"), "64 hexadecimal digits"),
        (("init", "new", "--run", "trial", "--clients", "1", "--encrypt"), f"set {VARIABLE}, or run this in a terminal"),
    ],
)
def test_errors_are_one_line(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    office.init(tmp_path / "pki", "trial", 1, [], two_servers=False, now=1_700_000_000, days=3650)
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "new" / "authority.key").exists()  # what is asked for again is not refused


def test_a_folder_of_keys_that_is_not_ready_says_what_to_do(tmp_path: Path) -> None:
    """Before: there is no file mine/authority.pem."""
    office.init(tmp_path / "pki", "trial", 1, [], two_servers=False, now=1_700_000_000)
    party.request(tmp_path / "mine", "trial", 4)
    with pytest.raises(
        ValueError, match=r"mine knows no authority yet: `cloister keys accept .*mine PUBLIC --authority FINGERPRINT`"
    ):
        party.trusted(tmp_path / "mine", 1_700_000_000)
    with pytest.raises(
        ValueError, match=r"pki is the authority's: a party's folder is in .*pki/parties, and what all may have in .*pki/public"
    ):
        party.trusted(tmp_path / "pki", 1_700_000_000)
    with pytest.raises(ValueError, match=r"holds no keys itself: is .*mine meant\?"):
        party.trusted(tmp_path, 1_700_000_000)


def test_a_passphrase_comes_by_the_environment_and_is_never_shown(tmp_path: Path) -> None:
    outputs = [
        run("init", "pki", "--run", "trial", "--clients", 1, "--encrypt", cwd=tmp_path, passphrase=SECRET),
        run("rotate", "pki", "client-0", "--encrypt", cwd=tmp_path, passphrase=SECRET),
        run("revoke", "pki", "client-0", cwd=tmp_path, passphrase=SECRET),
        run("revoke", "pki", "client-0", cwd=tmp_path, passphrase="wrong " + SECRET[:5]),
        run("renew", "pki", cwd=tmp_path),
    ]
    assert [done.returncode for done in outputs] == [0, 0, 0, 1, 1]
    assert "the passphrase is wrong" in outputs[3].stderr
    assert "a passphrase is needed" in outputs[4].stderr
    secrets = [private_keys.pem_of(private_keys.load_link(path, SECRET.encode)).decode() for path in tmp_path.rglob("link.key")]
    for done in outputs:
        for secret in (SECRET, SECRET[:5], *(line for pem in secrets for line in pem.splitlines()[1:-1])):
            assert secret not in done.stdout + done.stderr
    for path in (tmp_path / "pki").rglob("*.key"):
        assert b"ENCRYPTED" in path.read_bytes()


def test_who_is_not_enrolled_yet_is_told_so(tmp_path: Path) -> None:
    told = word(said("init", "pki", "--run", "trial", "--clients", 1, cwd=tmp_path), "authority")
    said("request", "mine", "client-4", "--run", "trial", cwd=tmp_path)
    done = run("accept", "mine", "pki/public", "--authority", told, cwd=tmp_path)
    assert done.stderr == "cloister: pki/public has no certificate of client-4: the authority has not enrolled it yet\n"


@pytest.mark.long
def test_a_reader_that_is_gone_is_no_failure_to_be_told_of(tmp_path: Path) -> None:
    """As behind `| head`: whatever has no more room to print ends without a word."""
    office.init(tmp_path / "pki", "trial", 200, [], two_servers=False, now=int(time.time()))
    command = [sys.executable, "-m", "cloister", "keys", "show", "pki"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as shown:
        assert shown.stdout is not None
        assert shown.stderr is not None
        shown.stdout.close()
        assert shown.stderr.read() == b""


def test_no_option_takes_a_secret() -> None:
    for command in keys.registered_commands:
        name = (command.name or getattr(command.callback, "__name__", "")).replace("_", "-")
        shown = CliRunner().invoke(app, ["keys", name, "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
        assert "Try:" in shown, name
        assert not re.search(r"--(pass\w*|secret|private)", shown)


def test_no_private_key_is_in_what_is_printed_of_objects(tmp_path: Path) -> None:
    now = 1_700_000_000
    office.init(tmp_path / "pki", "trial", 1, [], two_servers=False, now=now)
    mine = tmp_path / "pki" / "parties" / "client-0"
    found = [party.credentials(mine, 0, now), party.identities(mine, 0, now), office.opened(tmp_path / "pki", now, 1, bytes)]
    assert "PRIVATE" not in repr(found)
    for identity in party.identities(mine, 0, now).values():
        assert identity.secret.hex() not in repr(found)
        assert repr(identity.secret) not in repr(found)


@pytest.mark.long
def test_help_and_party_folders_load_nothing_heavy() -> None:
    code = (
        "import sys, json; import cloister.protocol.pki.party, cloister.protocol.pki.hello, cloister.protocol.pki.tls;"
        "print(json.dumps([n for n in ('torch', 'scipy', 'rich', 'typer', 'click', 'grpc') if n in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    assert json.loads(done.stdout) == []
    code = (
        "import sys\nsys.argv = ['cloister', 'keys', 'init', '--help']\nfrom cloister.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([n for n in ('cryptography', 'torch', 'scipy') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    assert done.stdout.rstrip().endswith("[]")


def test_a_fingerprint_that_was_told_is_held_against_the_files(tmp_path: Path) -> None:
    said("init", "pki", "--run", "trial", "--clients", "0", cwd=tmp_path)
    asked = said("request", "mine", "client-4", "--run", "trial", cwd=tmp_path)
    files = ("enrol", "pki", "mine/request.csr", "--identity", "mine/request.identity", "--fingerprint")
    wrong = run(*files, "00" * 32, cwd=tmp_path)
    assert wrong.returncode == 1
    assert "another fingerprint than the party told" in wrong.stderr
    assert "client-4" not in said("show", "pki", cwd=tmp_path)
    enrolled = said(*files, word(asked, "fingerprint"), cwd=tmp_path)
    assert word(enrolled, "enrolled") == "client-4"
    shown = said("show", "pki", cwd=tmp_path)
    assert max(map(len, shown.splitlines())) <= 100
    assert all(len(line) <= 80 for line in shown.splitlines() if not line.startswith("authority"))
    refused = run("accept", "mine", "pki/public", "--authority", "00" * 32, cwd=tmp_path)
    assert "another fingerprint than was given (--authority)" in refused.stderr


def test_renew_names_the_certificates_that_it_does_not_renew_and_show_says_what_is_over(tmp_path: Path) -> None:
    """It printed "renewed until" a year later, and two days on a client's certificate was over, for which advice was in vain."""
    run("init", "pki", "--run", "trial", "--clients", 9, "--days", 10, cwd=tmp_path)
    assert "not renewed" not in run("renew", "pki", "--days", 10, cwd=tmp_path).stdout, "all end on that day"
    later = run("renew", "pki", "--days", 90, cwd=tmp_path).stdout.splitlines()
    assert sum(line.startswith("not renewed") for line in later) == 8
    assert any(
        re.fullmatch(r"not renewed  the certificate of client-0, until .* UTC: cloister keys rotate pki client-0", one)
        for one in later
    )
    assert "             and those of 2 more: cloister keys show pki" in later
    run("rotate", "pki", "client-0", "--days", 90, cwd=tmp_path)
    assert "client-0," not in run("renew", "pki", "--days", 90, cwd=tmp_path).stdout
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cloister.keys_command._now", lambda: int(time.time()) + 11 * 86_400)
        shown = run("show", "pki", cwd=tmp_path).stdout
    assert shown.count(", which is over: `cloister keys rotate` makes another") == 9


def test_the_fingerprint_of_a_request_that_waits_can_be_read_again(tmp_path: Path) -> None:
    """Whoever had closed the window could not tell the authority which request was his."""
    run("init", "pki", "--run", "trial", "--clients", 1, cwd=tmp_path)
    own = "pki/parties/client-0"
    assert "has asked for other keys" not in run("show", own, cwd=tmp_path).stdout
    asked = run("request", own, "client-0", "--run", "trial", "--again", "--new-identities", cwd=tmp_path).stdout
    shown = run("show", own, cwd=tmp_path).stdout.partition("client-0 has asked for other keys, which are not certified yet")[2]
    assert word(asked, "fingerprint") in shown
    assert "run          trial" in shown


def test_a_certificate_that_is_over_is_said_to_take_rotating(tmp_path: Path) -> None:
    keys_of = tmp_path / "keys"
    words = _with_remedy(keys_of, "the certificate expired at 2026-12-09 00:00 UTC, by a clock that says 2026-12-11")
    assert "; the authority makes another by `cloister keys rotate`, and `cloister keys accept " in words
    assert "rotate" not in _with_remedy(keys_of, "the directory expired at 2026-12-09 00:00 UTC")


def test_a_passphrase_is_asked_for_at_the_start_alone(monkeypatch):
    """Keys that were encrypted while a coordinator ran made it ask in the thread that serves its clients, who all were lost."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("getpass.getpass", lambda prompt: "secret")
    found = []

    def elsewhere(unlock):
        def ask():
            try:
                found.append(unlock())
            except ValueError as error:
                found.append(str(error))

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        return found[-1]

    unlock = passphrase()
    assert "no passphrase was given at the start" in elsewhere(unlock)
    assert unlock() == elsewhere(unlock) == b"secret"
