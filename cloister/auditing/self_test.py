"""`cloister audit --self-test`: the auditors of differential privacy against shipped code, and against faults put into it."""

import json
import sys
from dataclasses import asdict

import typer
from rich.console import Console
from rich.table import Table

from ..errors_in_one_line import say
from ..progress import shown
from ..threat_models.privacy.faults import FAULTS
from ..threat_models.privacy.self_test import QUICK, TRIALS, Row, rows

REPETITIONS = {"quick": 2, "full": 20}
FAULT_SEEDS = {"quick": 1, "full": 3}
PLAYED = {"quick": QUICK, "full": FAULTS}
WRONG = 4


def play_self_test(budget: str, as_json: bool) -> None:
    """Plays it and says what was flagged. Raises typer.Exit with `WRONG` if correct code was, or a fault was not."""
    found: list[Row] = []
    with shown(sys.stderr, always=True, quiet=as_json) as tell:
        for row in rows(TRIALS, range(REPETITIONS[budget]), faults=PLAYED[budget], fault_seeds=FAULT_SEEDS[budget]):
            found.append(row)
            tell("auditing", len(found), 0, f"{row.mechanism}, {row.fault or 'as shipped'}")
    wrong = [row for row in found if not row.right]
    if as_json:
        plain = [asdict(row) | {"flagged": row.flagged, "right": row.right} for row in found]
        sys.stdout.write(json.dumps({"rows": plain, "passed": not wrong}) + "\n")
    else:
        Console().print(_table(found))
    if wrong:
        say(f"the self-test failed: {wrong[0]}")
        raise typer.Exit(WRONG)


def _table(found: list[Row]) -> Table:
    """A row for each mechanism and auditor as shipped, and for each fault."""
    table = Table(title="Audits of shipped noise, and of faults that were put into it", title_justify="left")
    for head in ("mechanism", "code", "auditor", "claimed", "shown at least", "flagged"):
        table.add_column(head, justify="right" if head in ("claimed", "shown at least") else "left")
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in found:
        groups.setdefault((row.mechanism, row.fault or "as shipped", row.auditor), []).append(row)
    for (mechanism, code, auditor), same in groups.items():
        flagged = sum(row.flagged for row in same)
        words = f"{flagged} of {len(same)}" + ("" if all(row.right for row in same) else ": WRONG")
        most = max(row.bound for row in same)
        table.add_row(mechanism, code, auditor, f"{same[0].claimed:.2f}", f"{most:.2f}", words)
    return table
