"""An audit in a terminal: what was measured, and what becomes of the claims."""

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from ..threat_models.audit.scoring import SEEDS
from ..threat_models.audit.uncovered import untried

COLOURS = {"refuted": "red", "not refuted": "green", "inconclusive": "yellow", "not covered": "dim"}
OVER_VICTIMS = "intervals are over victims, and other seeds vary by more"
"""Of audits of fewer runs than there are intervals over."""
WORST = -1.0
"""Leakage below which none is told from another."""
NARROW = 100
"""Columns of a terminal below which what the leakage follows from is left to the report."""


def tables(found: Mapping[str, Any], width: int = NARROW) -> tuple[Table, ...]:
    """What was measured, and the claims, if there are any. width: columns that there are."""
    claimed = any(row["claims"] for row in found["rows"])
    return measured_table(found, width), *([claims_table(found, width)] if claimed else ())


def share(value: float, digits: int = 2) -> str:
    """What was found as it is shown: it means nothing by how far a guess is worse than who knows the sums alone makes."""
    return f"< {WORST:.0f}" if value < WORST else f"{round(value, digits) + 0.0:.{digits}f}"


def measured_table(found: Mapping[str, Any], width: int = NARROW) -> Table:
    """A row for every experiment on every observer's view. width: columns that there are."""
    seeds, wide = ", ".join(map(str, found["seeds"])), width >= NARROW
    title = f"{found['name']}: what each party could find, seeds {seeds}, budget {found['budget']['name']}"
    title += "" if wide else "; 0 is what sums or chance tell, 1 what clear tells"
    title += "" if len(found["seeds"]) >= SEEDS else f"; {OVER_VICTIMS}"
    table = Table(title=escape(title), title_justify="left")
    table.add_column("observer", overflow="fold")
    table.add_column("sought", overflow="fold")
    for head in ("here", "0 is", "everything") if wide else ():
        table.add_column(head, justify="right", overflow="fold")
    table.add_column("leakage", justify="right", no_wrap=True)
    table.add_column("95 %,\ntwo-sided", justify="right", overflow="fold")
    last, never = None, untried(found["rows"])
    for row in found["rows"]:
        if row["observer"] in never and row["observer"] != last and not row.get("failed"):
            table.add_row(escape(row["observer"]), "nothing could be tried", *(("", "", "") if wide else ()), "", "")
            last = row["observer"]
        if row["leakage"] is None:
            if row.get("failed"):
                empty = ("", "", "") if wide else ()
                name = row["observer"] if row["observer"] != last else ""
                table.add_row(escape(name), escape(row["experiment"]), *empty, "[red]failed[/]", "")
                last = row["observer"]
            continue
        leak = row["leakage"]
        interval = f"{share(leak['low'])} to {share(leak['high'])}"
        values = (share(leak["value"]), interval) if leak["valid"] else ("?", "inconclusive")
        name = row["observer"] if row["observer"] != last else ""
        last = row["observer"]
        here, alone, everything = (share(leak[name], 3) for name in ("here", "aggregate", "plain"))
        ends = here, f"{row.get('anchor', 'sums alone')} {alone}", everything
        by = f" (by {row['by']})" if row.get("by") and leak["valid"] else ""
        table.add_row(escape(name), escape(row["experiment"] + by), *(ends if wide else ()), *values)
    return table


def claims_table(found: Mapping[str, Any], width: int = NARROW) -> Table:
    """A row for every claim and observer that it was tried against; what it says, and who is worst off, is in the report.

    width: columns that there are; where they are few, `reasons` has why.
    """
    table = Table(title="claims; found at most: at 95 %, one-sided (in words in report.html)", title_justify="left")
    for head in ("claim", "verdict"):
        table.add_column(head, overflow="fold")
    for head in ("found\nat most", "claimed\nat most"):
        table.add_column(head, justify="right", no_wrap=True)
    if width >= NARROW:
        table.add_column("because", overflow="fold")
    for row in found["rows"]:
        for claim in row["claims"]:
            colour, whose = COLOURS[claim["verdict"]], "" if claim["whose"] == "Cloister" else "\nthe paper's"
            upper = found_at_most(claim, row)
            most = "" if upper is None else f"{upper:.3f}"  # 0.10 would not say on which side of a bound it is
            cells = escape(f"{claim['claim']}{whose}"), f"[{colour}]{claim['verdict']}[/]", most, f"{claim['bound']:.2f}"
            table.add_row(*cells, *([escape(_because(claim))] if width >= NARROW else []))
    return table


def found_at_most(claim: Mapping[str, Any], row: Mapping[str, Any]) -> float | None:
    """What was found at most, at 95 % one-sided, of what the claim is about; None where that says nothing."""
    if "upper" in claim:
        upper: float | None = claim["upper"]
        return upper
    leak = row["leakage"]  # of an audit before claims had their own
    return max(0.0, leak["upper"]) if leak and leak["valid"] else None


def reasons(found: Mapping[str, Any]) -> list[str]:
    """A line for each reason of verdicts but "not refuted" and "not covered", with the claims of which it is one."""
    why: dict[tuple[str, str], list[str]] = {}
    for claim in (claim for row in found["rows"] for claim in row["claims"]):
        if claim["verdict"] in ("refuted", "inconclusive"):
            why.setdefault((claim["verdict"], _because(claim)), []).append(claim["claim"])
    return [f"{verdict}: {', '.join(names)}: {reason}" for (verdict, reason), names in why.items()]


def _because(claim: Mapping[str, Any]) -> str:
    """What is not in other columns."""
    words: str = claim["witness"]
    for more in ("; worst off", "; of nobody"):
        words = words.partition(more)[0]
    return "" if claim["verdict"] == "not refuted" else words
