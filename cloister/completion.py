"""`--show-completion` and `--install-completion`: of the shell that runs the command, or of one that is named."""

import os
import sys
from pathlib import Path
from typing import Any

import typer

from .errors_in_one_line import Failure, say
from .fl.near_names import near
from .flags import Group

SHOW, INSTALL = "--show-completion", "--install-completion"
SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


class Root(Group):
    """The whole command. Typer takes no shell's name here: a word after the option was passed over, and another shell's function
    shown."""

    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)
        for param in params:
            if verb := {SHOW: "Show", INSTALL: "Install"}.get(param.opts[0]):
                param.metavar = "[SHELL]"
                param.help = f"{verb} completion for the shell that runs this, or for {', '.join(SHELLS[:-1])} or {SHELLS[-1]}."
        return params

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        way, equals, value = args[0].partition("=") if args else ("", "", "")
        if way in (SHOW, INSTALL) and not ctx.resilient_parsing:
            complete(way, [value, *args[1:]] if equals else args[1:])
            raise typer.Exit
        return list(super().parse_args(ctx, args))


def complete(way: str, named: list[str]) -> None:
    """Prints the shell's function, or installs it. named: the shell, if any. Raises Failure for one that is not known."""
    from typer._completion_shared import get_completion_script, install

    if len(named) > 1:
        raise Failure(f"{way} takes one shell's name at most, not {' '.join(named)}")
    shell = named[0] if named else _running()
    if shell not in SHELLS:
        what = f"no completion for the shell {shell!r}{near(shell, SHELLS)}" if shell else "which shell runs this is not known"
        raise Failure(f"{what}; name one, as {way} zsh: {', '.join(SHELLS)}")
    usual = Path(os.environ.get("SHELL", "")).name
    if not named and usual in SHELLS and usual != shell:
        say(f"note: {shell} runs this; of your usual shell it is {way} {usual}")
    if way == SHOW:
        sys.stdout.write(get_completion_script(prog_name="cloister", complete_var="_CLOISTER_COMPLETE", shell=shell) + "\n")
        return
    _, path = install(shell=shell, prog_name="cloister", complete_var="_CLOISTER_COMPLETE")
    sys.stdout.write(f"completion for {shell} is in {path}, from the next terminal on\n")


def _running() -> str:
    """The shell that runs this process; else the user's usual one, or an empty word."""
    import shellingham

    try:
        return str(shellingham.detect_shell()[0])
    except shellingham.ShellDetectionFailure:
        return Path(os.environ.get("SHELL", "")).name
