"""Ctrl-C ends the command in a line, also while it is still imported, and twice in a hurry."""

import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from cloister import __main__, cli
from cloister.signals import interrupting, on_signals


@pytest.fixture
def lasting():
    """What SIGINT does is as before, after the test."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("lasting")
def test_ctrl_c_that_no_command_heard_of_is_a_line_and_an_exit_code(monkeypatch, capsys):
    def stopped():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "main", stopped)
    with pytest.raises(SystemExit) as ended:
        __main__.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "cloister: stopped\n"
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL, "a second one has no traceback while libraries end"


@pytest.mark.usefixtures("lasting")
def test_a_command_that_ends_by_itself_has_its_own_exit_code(monkeypatch):
    def ended():
        raise SystemExit(77)

    monkeypatch.setattr(cli, "main", ended)
    with pytest.raises(SystemExit) as found:
        __main__.main()
    assert found.value.code == 77


@pytest.mark.trains
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.long
def test_an_evaluation_with_workers_ends_in_one_line(number, code, tmp_path):
    """The whole group hears it, as of Ctrl-C, while workers still begin, where they would say where in their imports they are."""
    file = Path(__file__).parent / "evaluation_sample.py"
    words = [sys.executable, "-m", "cloister", "evaluate", f"{file}:evaluation", "--workers", "2", "--set", "rounds=100000"]
    with subprocess.Popen(
        [*words, "--out", str(tmp_path / "e")], stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        while "played by 2 processes" not in process.stderr.readline():
            assert process.poll() is None
        while len(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()) < 2:
            assert process.poll() is None
        os.killpg(process.pid, number)
        err = process.stderr.read()
        assert process.wait() == code
    assert err.splitlines()[-1] == f"cloister: stopped; the same command with --out {tmp_path / 'e'} --resume goes on"
    assert "Traceback" not in err
    assert "resource_tracker" not in err


@pytest.mark.trains
@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("run", "stopped; the same command with --out {out} --resume goes on"),
        ("audit", "stopped; nothing of it was over, and the same command begins again"),  # not even its first run
    ],
)
@pytest.mark.long
def test_a_run_and_an_audit_that_are_terminated_end_in_one_line(command, words, tmp_path):
    out = tmp_path / "out"
    asked = [sys.executable, "-m", "cloister", command, "cloister:quickstart", "--set", "rounds=100000", "--out", str(out)]
    with subprocess.Popen(asked, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while not out.exists():
            assert process.poll() is None
        process.stderr.readline()  # the first line that says how far it is
        process.send_signal(signal.SIGTERM)
        last = process.stderr.read().splitlines()[-1]
        assert process.wait(60) == 143
    assert last == f"cloister: {words.format(out=out)}"


def test_a_signal_that_comes_while_an_object_is_freed_is_not_lost():
    """Python lets nothing through there: a run that was told to end went on for good."""

    class Freed:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGTERM)
            for _ in range(1000):
                pass  # where the handler runs

    def play():
        with on_signals(interrupting):
            Freed()
            time.sleep(10)

    with pytest.raises(KeyboardInterrupt):
        play()


def test_that_is_what_is_installed():
    table = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    assert table["project"]["scripts"]["cloister"] == "cloister.__main__:main"
