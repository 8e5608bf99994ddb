"""The short table at the end of a run: did clustering help, were the groups found, what did the server learn."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from .reporting.account_words import account_meters, account_notes
from .reporting.agreement import agreement_in_words, worth_in_words
from .reporting.byte_words import byte_words
from .reporting.headline import (
    corrupt_in_words,
    diverged_in_words,
    loyal_in_words,
    ran_out_in_words,
    rejected_in_words,
    turned_down_in_words,
    unmoved_in_words,
    unsummed_in_words,
    up,
)
from .reporting.without_sums import without_sums

UNDECIDED, UNMOVED, REJECTED, DIVERGED, TRAINING = "not compared", "no result", "rejected", "not finite", "training"
UNSUMMED = "no sum"
STILL = "stands still"
WARNED = (UNDECIDED, UNMOVED, REJECTED, DIVERGED, TRAINING, UNSUMMED, STILL)
"""The rows that warn."""


def summary_table(summary: Mapping[str, Any]) -> Table:
    """A finished run's summary as a two-column table."""
    title = f"{summary['name']}: {summary['algorithm']} under {summary['protection']}"
    table = Table(title=title, show_header=False, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, words in summary_rows(summary):
        table.add_row(name, f"[yellow]warning:[/yellow] {escape(words)}" if name in WARNED else escape(words))
    return table


def summary_rows(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The same as pairs of a name and words; a name may be empty."""
    of = (_scores, _trouble, _corrupt, _groups, _learned, _epsilons, _course)
    return [row for part in of for row in part(summary)]


def _scores(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if summary["accuracy_mean"] is None:
        yield from _measured(summary)
        return
    before, accuracy = summary["accuracy_before_clustering"], f"{100 * summary['accuracy_mean']:.1f} %"
    worst = f"worst client {100 * summary['accuracy_worst']:.1f} %"
    if said := summary.get("scored"):
        worst += f"; told by {said['clients']} of {said['of']} clients"
    if before is not None and len(summary["clusters"]) > 1:
        yield "accuracy before clustering", f"{100 * before:.1f} %"
        yield "accuracy after clustering", f"{accuracy}  ({worst})"
    else:
        yield "accuracy", f"{accuracy}  ({worst})"
    yield from _measured(summary)


def _measured(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Metrics beside accuracy."""
    for name, of in summary.get("metrics", {}).items():
        if of["mean"] is None:
            yield name, "not defined for any client's test data"
            continue
        some = f", of the {of['clients']} clients for which it is defined" if of["clients"] < len(_placed(summary)) else ""
        worst = f"worst client {of['worst']:.3g}" if of["worst"] is not None else f"clients {of['least']:.3g} to {of['most']:.3g}"
        yield name, f"{of['mean']:.3g}  ({worst}{some})"


def _trouble(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What makes the scores worth less than they seem."""
    if words := diverged_in_words(summary):
        yield TRAINING if "diverged" in summary else DIVERGED, words
    if words := rejected_in_words(summary["rejected"]):
        yield REJECTED, words
    if words := unsummed_in_words(summary):
        yield UNSUMMED, words


def _corrupt(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if said := summary.get("under_attack"):
        yield "corrupt", f"{corrupt_in_words(said)}: {spans(summary['corrupt'])}"
        if words := loyal_in_words(said):
            yield "accuracy of the loyal", words


def _placed(summary: Mapping[str, Any]) -> list[int]:
    return [i for members in summary["clusters"] for i in members]


def _groups(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    planted: dict[int, list[int]] = {}
    for client, group in summary["groups"].items():
        planted.setdefault(group, []).append(int(client))
    if len(planted) > 1:
        yield "groups planted", "  ".join(spans(sorted(members)) for _, members in sorted(planted.items()))
    yield "clusters found", "  ".join(spans(sorted(members)) for members in sorted(summary["clusters"]))
    if names := summary.get("names"):
        yield "by name", ";  ".join(", ".join(names[str(i)] for i in members) for members in sorted(summary["clusters"]))
    if agreement := agreement_in_words(summary):
        yield "agreement", ", ".join(agreement)
    yield from worth_in_words(summary)
    if unsure := undecided_in_words(summary):
        yield UNDECIDED, unsure


def _learned(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for party, answers in summary["disclosed"].items():
        for answer in answers:
            times = "once" if answer["times"] == 1 else f"{answer['times']} times"
            yield f"the {party} learned", f"{answer['words']}  ({times}, {answer['scalars']:,} numbers)"
        if not answers:
            yield f"the {party} learned", "nothing"
    if account := summary.get("account"):
        for meter in account_meters(account, summary.get("names") or {}):
            of = f" ({meter.client})" if meter.client else ""
            yield f"pieced together: {meter.label}", f"{meter.largest} at most{of}, mean {meter.mean}: {meter.words}"
        yield "pieced together: note", " ".join(account_notes(account, str(summary.get("protection", ""))))


def _epsilons(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if out := summary.get("ran_out"):
        yield "budget", ran_out_in_words(out)
    for unit, of in summary.get("privacy", {}).items():
        most, mean = (
            f"at most {up(of['epsilon_worst'])} for any {unit} ({of['adjacency']})",
            f"{up(of['epsilon_mean'])} on average",
        )
        words = f"{most}, {mean}, at delta {of['delta']:.3g} (budget {of['budget']:.3g}), of {of['of']} alone"
        yield "epsilon", words + (f"; {of['beside']}" if of["beside"] else "")
        yield "not covered by it", "; ".join(of["not_covered"])


def _course(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for doubt in summary.get("doubts", ()):
        yield "note", doubt
    if conditions := summary.get("conditions"):
        yield "its theorem", conditions_in_words(conditions)
    if turned := summary.get("turned_down"):
        yield "not split", "; ".join(turned_down_in_words(turned))
    if unmoved := summary.get("unmoved"):
        yield UNMOVED, unmoved_in_words(unmoved, summary["rounds"])
    if (below := summary["below_floor"]) and not summary.get("nothing_summed"):
        yield from without_sums(below)
    if stopped := summary.get("stopped"):
        names = ", ".join(f"{name} (from round {since:.0f} on)" for name, since in sorted(stopped.items()))
        yield STILL, f"cluster{'s' * (len(stopped) != 1)} {names} learned nothing, and why stands in the report"
    yield "traffic", f"{byte_words(summary['bytes_up'])} up, {byte_words(summary['bytes_down'])} down"
    yield "time", f"{summary['seconds']:.1f} s for {summary['rounds']} round{'s' * (summary['rounds'] != 1)}"


def conditions_in_words(conditions: Sequence[Mapping[str, Any]]) -> str:
    """Whether what an algorithm's convergence is proved under holds in a run, and if not, what does not."""
    broken = [c["words"] for c in conditions if c["holds"] is False]
    unknown = sum(c["holds"] is None for c in conditions)
    if broken:
        return f"says nothing of this run, which does not meet its conditions: {'; '.join(broken)}"
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
