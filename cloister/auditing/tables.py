"""An audit in a terminal: what was measured, and what becomes of the claims."""

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

COLOURS = {"refuted": "red", "not refuted": "green", "inconclusive": "yellow", "not covered": "dim"}


def measured_table(found: Mapping[str, Any]) -> Table:
    """A row for every experiment on every observer's view."""
    seeds = ", ".join(map(str, found["seeds"]))
    title = f"{found['name']}: what each party could find, seeds {seeds}, budget {found['budget']['name']}"
    table = Table(title=escape(title), title_justify="left")
    for head in ("observer", "sought", "here", "0 is", "everything", "leakage, at 95 %"):
        table.add_column(head, justify="left" if head in ("observer", "sought") else "right")
    last = None
    for row in found["rows"]:
        if row["leakage"] is None:
            continue
        leak = row["leakage"]
        ratio = f"{leak['value']:.2f} [{leak['low']:.2f}, {leak['high']:.2f}]" if leak["valid"] else "inconclusive"
        name = row["observer"] if row["observer"] != last else ""
        last = row["observer"]
        table.add_row(
            escape(name),
            escape(row["experiment"]),
            f"{leak['here']:.3f}",
            f"{row.get('anchor', 'sums alone')} {leak['aggregate']:.3f}",
            f"{leak['plain']:.3f}",
            ratio,
        )
    return table


def claims_table(found: Mapping[str, Any]) -> Table:
    """A row for every claim and observer that it was tried against; what it says in words is in the report."""
    table = Table(title="claims (in words: report.html, threat_models/cards)", title_justify="left")
    for head in ("claim", "verdict", "because"):
        table.add_column(head)
    for row in found["rows"]:
        for claim in row["claims"]:
            colour, whose = COLOURS[claim["verdict"]], "" if claim["whose"] == "Cloister" else "\nthe paper's"
            name = f"{claim['claim']}{whose}"
            table.add_row(escape(name), f"[{colour}]{claim['verdict']}[/]", escape(claim["witness"]))
    return table
