"""The command line: run, evaluate, breakdown, attack, compare, audit, cost, report, keys. Errors are one line and an exit code.

What a command works with is imported by it: `--help` answers at once.

Exit codes: 0 done; 1 could not be done, or came to no result; 2 wrong usage; 3 done, but updates were rejected, or an attack of
yours failed; 4 a claim is refuted, or a run comes out otherwise; 77 this party's certificate was revoked; 130 stopped by the
user, 143 by SIGTERM.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from .attacking.command import attack
from .auditing.command import audit
from .comparing.command import compare
from .completion import Root
from .cost_command import cost
from .errors_in_one_line import FULL, Failure, say
from .evaluating.command import breakdown, evaluate
from .flags import Command, Group
from .flowing import flowing
from .join_command import join
from .keys_command import keys
from .plain_letters import make_printable
from .repeating import rerun
from .report_command import report
from .run_command import run
from .serve_command import serve
from .server_commands import dealer, second
from .starting import new

app = typer.Typer(
    name="cloister",
    cls=Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _version(asked: bool) -> None:
    if asked:
        from . import __version__

        typer.echo(f"cloister {__version__}")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version, and end.")
    ] = False,
) -> None:
    """Clustered federated learning in which every party sees exactly what the protocol says it sees.

    Begin with:  cloister new quickstart && cloister run quickstart.py
    """


app.command()(new)
app.command()(run)
app.command()(cost)
app.command()(evaluate)
app.command()(breakdown)
app.command()(attack)
app.command()(compare)
app.command()(audit)
app.add_typer(keys)
app.command()(serve)
app.command()(join)
app.command()(second)
app.command()(dealer)
app.command()(report)
app.command()(rerun)
for said in (*app.registered_commands, *keys.registered_commands):
    said.cls = Command
    said.help = flowing((said.callback and said.callback.__doc__) or "")
keys.info.cls = Group
keys.info.help = flowing(str(keys.info.help))


def main() -> None:
    """Entry point of the `cloister` command."""
    for stream in (sys.stdout, sys.stderr):
        make_printable(stream)
    try:
        app()
        sys.stdout.flush()
    except Failure as failure:
        say(str(failure))
        sys.exit(failure.code)
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            raise
        say("what this prints has no room where it goes")
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  what is left to print is lost at exit
        sys.exit(1)


if __name__ == "__main__":
    main()
