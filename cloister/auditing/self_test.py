"""`cloister audit --self-test`: the auditors of differential privacy against shipped code, and against faults put into it."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..errors_in_one_line import say
from ..progress import shown
from ..threat_models.privacy.faults import FAULTS
from ..threat_models.privacy.self_test import QUICK, TRIALS, Row, named, rows

REPETITIONS = {"quick": 2, "full": 20}
FAULT_SEEDS = {"quick": 1, "full": 3}
PLAYED = {"quick": QUICK, "full": FAULTS}
ABOUT = {"quick": "about 2 to 4 minutes of a core that is free", "full": "about 10 to 20 minutes of a core that is free"}
"""How long all mechanisms take."""
WRONG = 4
SEEN = 0.005
"""Epsilon below which a bound is shown as 0.00."""


def play_self_test(budget: str, as_json: bool, only: Sequence[str] = ()) -> None:
    """Plays it and says what was flagged. only: names of mechanisms; empty for all.

    Raises typer.Exit with `WRONG` if correct code was, or a fault was not, and ValueError for a mechanism that is not there.
    """
    found: list[Row] = []
    shipped, faults = named(only, PLAYED[budget])
    total = len(shipped) * REPETITIONS[budget] + len(faults) * min(FAULT_SEEDS[budget], REPETITIONS[budget])
    if not as_json:
        say(before(len(shipped), len(faults), total, budget))
    in_lines = not (as_json or sys.stderr.isatty())
    with shown(sys.stderr, quiet=as_json) as tell:
        for group in _groups(rows(TRIALS, range(REPETITIONS[budget]), shipped, faults, FAULT_SEEDS[budget])):
            first = len(found)
            for row in group:
                found.append(row)
                tell("auditing", len(found), total, f"{row.mechanism}, {row.fault or 'as shipped'}")
            if in_lines:
                say(f"{len(found)} of {total} audits done: {_done(found[first:])}")
    wrong = [row for row in found if not row.right]
    if as_json:
        plain = [asdict(row) | {"flagged": row.flagged, "right": row.right} for row in found]
        sys.stdout.write(json.dumps({"rows": plain, "passed": not wrong}) + "\n")
    else:
        console = Console()
        console.print(as_table(found))
        console.print(in_words(found), markup=False, highlight=False)
    if wrong:
        say(f"the self-test failed: {wrong[0]}")
        raise typer.Exit(WRONG)


def before(mechanisms: int, faults: int, total: int, budget: str) -> str:
    """What is tried and how long it takes, before it begins."""
    several, them = ("s", "them") if mechanisms != 1 else ("", "it")
    what = f"{mechanisms} mechanism{several} as shipped, and {faults} faults put into {them}"
    return f"self-test: {what}: {total} audits; all that {budget} has take {ABOUT[budget]}"


def _groups(played: Iterable[Row]) -> Iterator[Iterator[Row]]:
    """Rows one after the other that are of one mechanism and alike as shipped, or all with faults."""
    return (rows for _, rows in groupby(played, lambda row: (row.mechanism, row.fault is None)))


def _done(found: Sequence[Row]) -> str:
    """A line of a log for a mechanism whose audits are done."""
    first, wrong = found[0], sum(not row.right for row in found)
    what = "as shipped" if first.fault is None else f"with {len(found)} fault{'s' * (len(found) != 1)}"
    return f"{first.mechanism}, {what}: {f'{wrong} WRONG' if wrong else 'as it should be'}"


def as_table(found: list[Row]) -> Table:
    """A row for each mechanism and auditor as shipped, and for each fault."""
    title = f"Audits of shipped noise, and of faults put into it: epsilon as claimed, and shown at least, at {_confidence(found)}"
    table = Table(title=title, title_justify="left")
    for head in ("mechanism: unit, delta", "code"):
        table.add_column(head, overflow="fold")
    table.add_column("auditor", no_wrap=True)
    for head in ("claimed", "shown"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("flagged", no_wrap=True)
    last = ""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in found:
        groups.setdefault((row.mechanism, row.fault or "as shipped", row.auditor), []).append(row)
    for (mechanism, code, auditor), same in groups.items():
        flagged = sum(row.flagged for row in same)
        words = f"{flagged} of {len(same)}" + ("" if all(row.right for row in same) else ": WRONG")
        most = max(row.bound for row in same)
        whose = "" if mechanism == last else f"{mechanism}: {same[0].unit}, {same[0].delta:g}"
        table.add_row(escape(whose), escape(code), auditor, f"{same[0].claimed:.2f}", f"{most:.2f}", words)
        last = mechanism
    return table


def in_words(found: Sequence[Row]) -> str:
    """What was flagged and what not, and how far that goes."""
    shipped, faulty = [row for row in found if row.fault is None], [row for row in found if row.fault is not None]
    caught, wrong = sum(row.flagged for row in faulty), sum(row.flagged for row in shipped)
    first = "no shipped mechanism flagged" if not wrong else f"{wrong} of {len(shipped)} audits of shipped mechanisms flagged"
    second = f"all {caught} faults flagged" if caught == len(faulty) else f"{caught} of {len(faulty)} faults flagged"
    words = f"{first}, {second}" if faulty else f"{first}, and no fault of these was tried with this budget"
    if any(row.bound < SEEN for row in shipped):
        words += "; where 0.00 is shown of code as shipped the test says little: the auditor saw no difference at all"
    return words


def _confidence(found: Sequence[Row]) -> str:
    """Never rounded to 100 %."""
    return f"{100 * found[0].confidence:.7g} %" if found else "no confidence"
