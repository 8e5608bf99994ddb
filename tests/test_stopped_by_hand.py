"""Ctrl-C ends the command in a line, also while it is still imported, and twice in a hurry."""

import signal
import tomllib
from pathlib import Path

import pytest

from cloister import __main__, cli


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


def test_that_is_what_is_installed():
    table = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    assert table["project"]["scripts"]["cloister"] == "cloister.__main__:main"
