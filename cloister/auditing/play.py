"""What `cloister audit` does: play, or show what was played, and say what was found."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from ..errors_in_one_line import one_line_errors, say
from ..tables_out import print_table
from .first_words import headline, notes
from .new_audit import play_audit
from .report import whole, write_audit_report
from .tables import NARROW, reasons, tables

REFUTED = 4
"""The exit code where a claim of Cloister's is refuted."""
FAILED = 3
"""The exit code where no claim is, and an attack of the user's own ended in an error."""


def play(
    file: str | None,
    budget: str,
    self_test: bool,
    out: Path | None,
    seeds: str | None,
    data: Path | None,
    settings: Sequence[str],
    attacks: Sequence[str],
    against: Sequence[str],
    as_json: bool,
    mechanisms: Sequence[str] = (),
    resume: bool = False,
) -> None:
    """The arguments are those of the command, one by one. Raises Failure."""
    with one_line_errors(file, settings):
        if self_test:
            from .self_test import play_self_test

            play_self_test(budget, as_json, mechanisms)
            return
        if file is None:
            raise ValueError("name a scenario to audit, for example cloister:quickstart, or give --self-test")
        folder = Path(file)
        if (folder / "audit.json").is_file():
            asked: dict[str, Any] = {"--out": out, "--seeds": seeds, "--data": data, "--set": settings, "--attack": attacks}
            asked |= {"--against": against, "--resume": resume}
            _only_shown(folder, [name for name, value in asked.items() if value] + ["--budget full"] * (budget == "full"))
        else:
            folder = play_audit(file, budget, out, seeds, data, settings, attacks, against, as_json, resume)
        report = write_audit_report(folder)
        found = json.loads((folder / "audit.json").read_text())
        with whole(folder):
            width = Console().width
            shown = tables(found, width)
            first_words = headline(found)
            last = [*(reasons(found) if width < NARROW else ()), *notes(found)]
            bad = [c for row in found["rows"] for c in row["claims"] if (c["whose"], c["verdict"]) == ("Cloister", "refuted")]
            failed = [row for row in found["rows"] if row.get("failed")]
            first = f"{bad[0]['claim']}: {bad[0]['witness']}" if bad else ""
    if as_json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        console = Console()
        console.print(f"{found['name']}: {first_words}", markup=False, highlight=False)
        for table in shown:
            print_table(console, table)
        for line in last:
            console.print(line, markup=False, highlight=False)
        console.print(f"audit folder  {folder}\nreport        {report}", highlight=False, soft_wrap=True)
    if bad:
        say(f"{len(bad)} of Cloister's claims {'is' if len(bad) == 1 else 'are'} refuted, first {first}")
        raise typer.Exit(REFUTED)
    if failed:
        tries = "1 try" if len(failed) == 1 else f"{len(failed)} tries"
        say(f"{tries} failed, first {failed[0]['experiment']}, {failed[0]['observer']}: {failed[0]['reason']}")
        raise typer.Exit(FAILED)


def _only_shown(folder: Path, options: Sequence[str]) -> None:
    """Raises ValueError where an audit that is over is asked to be another one."""
    if options:
        raise ValueError(f"{folder} holds an audit, shown as it is; {options[0]} needs a scenario's file, to play another")
