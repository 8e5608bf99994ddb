"""Completion is of the shell that is named, or that runs the command; an unknown one is refused."""

from pathlib import Path
from typing import Any

import pytest
import shellingham
from typer.testing import CliRunner

from cloister import cli, completion
from cloister.errors_in_one_line import Failure


def asked(*words: str) -> Any:
    return CliRunner().invoke(cli.app, list(words))


@pytest.mark.parametrize("words", [["--show-completion", "zsh"], ["--show-completion=zsh"]])
def test_the_function_of_the_named_shell_is_shown(words: list[str]) -> None:
    done = asked(*words)
    assert done.exit_code == 0
    assert done.stdout.startswith("#compdef cloister\n")
    assert "_CLOISTER_COMPLETE=complete_zsh" in done.stdout


def test_it_is_installed_for_the_named_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    done = asked("--install-completion", "fish")
    assert done.exit_code == 0
    place = tmp_path / ".config" / "fish" / "completions" / "cloister.fish"
    assert done.stdout == f"completion for fish is in {place}, from the next terminal on\n"
    assert "complete --command cloister" in place.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--show-completion", "zhs"], "no completion for the shell 'zhs'; did you mean 'zsh'; name one, as --show-completion"),
        (["--install-completion", "tcsh"], "no completion for the shell 'tcsh'; name one, as --install-completion zsh: bash"),
        (["--show-completion", "zsh", "run"], "--show-completion takes one shell's name at most, not zsh run"),
    ],
)
def test_what_is_no_shell_is_refused_in_words(words: list[str], said: str) -> None:
    done = asked(*words)
    assert isinstance(done.exception, Failure)
    assert str(done.exception).startswith(said)


def test_without_a_name_it_is_of_the_shell_that_runs_it_and_another_usual_one_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shellingham, "detect_shell", lambda: ("bash", "/bin/bash"))
    monkeypatch.setenv("SHELL", "/bin/zsh")
    completion.complete(completion.SHOW, [])
    out, err = capsys.readouterr()
    assert "complete -o default -F _cloister_completion cloister" in out
    assert err == "cloister: note: bash runs this; of your usual shell it is --show-completion zsh\n"


def test_where_nobody_knows_which_shell_runs_it_the_usual_one_is_taken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lost() -> None:
        raise shellingham.ShellDetectionFailure

    monkeypatch.setattr(shellingham, "detect_shell", lost)
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    completion.complete(completion.SHOW, [])
    assert "complete --command cloister" in capsys.readouterr().out
    monkeypatch.setenv("SHELL", "")
    with pytest.raises(Failure, match="which shell runs this is not known; name one"):
        completion.complete(completion.SHOW, [])


def test_help_says_that_a_shell_may_be_named() -> None:
    said = " ".join(asked("--help").stdout.replace("│", " ").split())
    assert "--show-completion [SHELL] Show completion for the shell that runs this, or for bash, zsh, fish, powershell" in said
