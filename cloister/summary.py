"""The short table at the end of a run: did clustering help, were the groups found, what did the server learn."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from .reporting.account_words import account_meters, account_notes
from .reporting.figures import byte_words


def summary_table(summary: Mapping[str, Any]) -> Table:
    """A finished run's summary as a two-column table."""
    title = f"{summary['name']}: {summary['algorithm']} under {summary['protection']}"
    table = Table(title=title, show_header=False, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    before, accuracy = summary["accuracy_before_clustering"], f"{summary['accuracy_mean']:.3f}"
    worst = f"worst client {summary['accuracy_worst']:.3f}"
    if before is not None and len(summary["clusters"]) > 1:
        table.add_row("accuracy before clustering", f"{before:.3f}")
        table.add_row("accuracy after clustering", f"{accuracy}  ({worst})")
    else:
        table.add_row("accuracy", f"{accuracy}  ({worst})")
    planted: dict[int, list[int]] = {}
    for client, group in summary["groups"].items():
        planted.setdefault(group, []).append(int(client))
    table.add_row("groups planted", "  ".join(spans(sorted(members)) for _, members in sorted(planted.items())))
    table.add_row("groups found", "  ".join(spans(sorted(members)) for members in sorted(summary["clusters"])))
    table.add_row("agreement", f"ARI {summary['ari']:.2f}, purity {summary['purity']:.2f}")
    if unsure := undecided_in_words(summary):
        table.add_row("not compared", f"[yellow]warning:[/yellow] {unsure}")
    for party, answers in summary["disclosed"].items():
        for answer in answers:
            words = f"{answer['words']}  ({answer['times']} times, {answer['scalars']:,} numbers)"
            table.add_row(f"the {party} learned", words)
        if not answers:
            table.add_row(f"the {party} learned", "nothing")
    if account := summary.get("account"):
        for meter in account_meters(account):
            of = f" ({meter.client})" if meter.client else ""
            table.add_row(f"pieced together: {meter.label}", f"{meter.largest} at most{of}, mean {meter.mean}: {meter.words}")
        table.add_row("", " ".join(account_notes(account)))
    for unit, of in summary.get("privacy", {}).items():
        most, mean = f"at most {of['epsilon_worst']:.3g} for any {unit}", f"{of['epsilon_mean']:.3g} on average"
        words = f"{most}, {mean}, at delta {of['delta']:.1g} (budget {of['budget']:.3g}), of {of['of']} alone"
        table.add_row("epsilon", words + (f"; {of['beside']}" if of["beside"] else ""))
        table.add_row("not covered by it", "; ".join(of["not_covered"]))
    if conditions := summary.get("conditions"):
        table.add_row("its theorem", conditions_in_words(conditions))
    if below := summary["below_floor"]:
        names = ", ".join(sorted({row["cluster"].split("@")[0] for row in below}))
        table.add_row("below the floor", f"clusters {names}: too few clients to sum, kept their model ({len(below)} times)")
    table.add_row("traffic", f"{byte_words(summary['bytes_up'])} up, {byte_words(summary['bytes_down'])} down")
    table.add_row("time", f"{summary['seconds']:.1f} s for {summary['rounds']} rounds")
    return table


def conditions_in_words(conditions: Sequence[Mapping[str, Any]]) -> str:
    """Whether what an algorithm's convergence is proved under holds in a run, and if not, what does not."""
    broken = [c["words"] for c in conditions if c["holds"] is False]
    unknown = sum(c["holds"] is None for c in conditions)
    if broken:
        return f"says nothing of this run, in which these conditions do not hold: {'; '.join(broken)}"
    return f"may hold: {unknown} of {len(conditions)} conditions are not known" if unknown else "holds: all of its conditions do"


def undecided_in_words(summary: Mapping[str, Any]) -> str:
    """Of a run that compares clients two by two: which part of all pairs was never decided; empty if all were, or none is."""
    compared = summary.get("compared")
    if compared is None or compared["decided"] == compared["pairs"]:
        return ""
    share = 1 - compared["decided"] / compared["pairs"]
    lost = f", {compared['lost']} of them lost for good" if compared["lost"] else ""
    words = f"{share:.1%} of {compared['pairs']} pairs of clients were never decided{lost}"
    if compared["apart"] == 0:
        return f"{words}; every two clusters were compared by some"
    return f"{words}; {compared['apart']} pairs of clusters were compared by none, and may belong together"


def spans(ids: list[int]) -> str:
    """Ascending ids as spans: [0, 1, 2, 5] is "{0-2, 5}"."""
    parts: list[list[int]] = []
    for i in ids:
        if parts and parts[-1][1] == i - 1:
            parts[-1][1] = i
        else:
            parts.append([i, i])
    return "{" + ", ".join(f"{a}-{b}" if a < b else f"{a}" for a, b in parts) + "}"
