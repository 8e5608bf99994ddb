"""What `cloister cost` shows: a table for one protection, one that compares several, and the same as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from statistics import fmean
from typing import Any, cast

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from .fl.cost.measure import MeasuredCost
from .fl.cost.rounds import Phase
from .fl.cost.workload import Workload
from .fl.runs.run_folder import machine, versions
from .fl.runs.scenario import described
from .not_in_costs import not_in_costs
from .protocol.view.answers import Cost
from .protocol.view.disclosure import Party, party_of, totals
from .protocol.view.protection import as_written
from .reporting.byte_words import byte_words

COLUMNS = ("messages", "bytes up", "bytes down", "between", "CPU s")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A protection that could not be measured, and why, in a line."""

    protection: str
    reason: str


def spent(phase: Phase) -> dict[str, Cost]:
    """By role: the mean client, the worst (the largest of every column, whoever's it is), and each server and dealer."""
    clients = [astuple(cost) for i, cost in phase.costs.items() if i >= 0] or [astuple(Cost())]
    columns: list[tuple[Any, ...]] = list(zip(*clients, strict=True))
    mean, worst = Cost(*map(cast("Any", fmean), columns)), Cost(*map(max, columns))
    servers: dict[str, Cost] = {party_of(i): cost for i, cost in phase.costs.items() if i < 0}
    return {"client, mean": mean, "client, worst": worst, **servers}


def average(phases: Sequence[Phase]) -> Phase:
    """The mean of rounds."""
    parties = {i: None for phase in phases for i in phase.costs}
    costs = {}
    for i in parties:
        each = [astuple(phase.costs.get(i, Cost())) for phase in phases]
        costs[i] = Cost(*(sum(column) / len(phases) for column in zip(*each, strict=True)))
    return Phase(costs, sum(phase.seconds for phase in phases) / len(phases))


def phases(measured: MeasuredCost) -> Iterator[tuple[str, Phase]]:
    """The sections of a table: the setup, the first round, in which secrets are drawn, and the mean of the later ones."""
    yield "setup, once", measured.setup
    yield "first round", measured.rounds[0]
    if later := measured.rounds[1:]:
        yield "each later round", average(later)


def cost_table(measured: MeasuredCost, name: str) -> Table:
    """Everything about one protection: a section for each phase, a row for each role."""
    table = Table(title=f"{name}, under {as_written(measured.protection)}", title_justify="left")
    table.add_column("", no_wrap=True)
    for column in COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    for title, phase in phases(measured):
        table.add_row(Text(title, style="bold"))
        for role, cost in spent(phase).items():
            table.add_row(f"  {role}", *cells(cost))
        table.add_section()
    return table


def comparison_table(measured: Sequence[MeasuredCost], load: Workload, name: str) -> Group:
    """Several protections below each other, each of its last round (or mean of later ones), and its setup: tables of one width,
    so that columns stand below each other, whose names have a line of their own.
    """
    which = "each later round" if load.rounds > 1 else "the round"
    between = any(cost.bytes_between for one in measured for phase in one.rounds for cost in phase.costs.values())
    heads = ("", *COLUMNS[: 3 + between], COLUMNS[-1], "setup s")
    found = {as_written(one.protection): list(_compared(one, between)) for one in measured}
    widths = [max(map(len, column)) for column in zip(heads, *(row for rows in found.values() for row in rows), strict=True)]
    parts: list[RenderableType] = [Text(f"{name}: {which} under each protection", style="italic")]
    for title, rows in found.items():
        table = Table(title=title, title_justify="left", title_style="bold", show_header=not parts[1:], pad_edge=False)
        for head, width in zip(heads, widths, strict=True):
            table.add_column(head, justify="right" if head else "left", no_wrap=True, min_width=width)
        for row in rows:
            table.add_row(*row)
        parts.append(table)
    return Group(*parts)


def _compared(one: MeasuredCost, between: bool) -> Iterator[tuple[str, ...]]:
    """The rows of one protection: a role, and its cells."""
    *_, (_, phase) = phases(one)
    once = spent(one.setup)
    for role, cost in spent(phase).items():
        shown = cells(cost)
        yield role, *shown[: 3 + between], shown[-1], seconds(once.get(role, Cost()).cpu_seconds)


def cells(cost: Cost) -> tuple[str, ...]:
    """A role's messages, bytes and seconds as text; a dash where there is nothing."""
    sizes = (cost.bytes_up, cost.bytes_down, cost.bytes_between)
    messages = f"{cost.messages:,.1f}".removesuffix(".0") if cost.messages else "-"
    return (messages, *(byte_words(size) if size else "-" for size in sizes), seconds(cost.cpu_seconds))


def seconds(value: float) -> str:
    """Seconds to three digits, or to a ten-thousandth."""
    return f"{value:.4f}" if value < 0.01 else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def notes(measured: MeasuredCost, load: Workload) -> Table:
    """What the other tables do not hold: who survived, how long it took, what each party learned in the last round, and what is
    in none of the numbers.
    """
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    silent = f"{load.dropped} of {load.clients} clients fall silent in each round; " if load.dropped else ""
    compared = [phase.compared for phase in measured.rounds]
    pairs = f", compared: {spread(compared)}" if any(compared) else ""
    counted = spread([phase.summed for phase in measured.rounds])
    table.add_row("survivors", f"{silent}summed: {counted} of {load.clients}{pairs}")
    if unsummed := sum(phase.unsummed for phase in measured.rounds):
        whole = load.clusters * load.rounds
        none = (
            "; nothing could be learned with so few: a run would be refused before it begins"
            if unsummed == load.rounds and load.clusters == 1 and not load.dropped
            else ""
        )
        reckoned, fewer = getattr(measured.protection, "dropped", None), ""
        if reckoned is not None and load.dropped > reckoned * load.clients:
            fewer = (
                f"; the protection reckons with a share of {reckoned:g} that falls silent: a higher protection.dropped, or more"
            )
            fewer += " clients, may open them"
        table.add_row("no sum", f"{unsummed} of {whole} sums could not be published{none}{fewer}")
    if load.pairs is not None:
        of = f"{load.pairs.rows:,} embeddings of {load.pairs.d:,} coordinates each"
        clients = f"{sum(p.pairs for p in measured.rounds):,} pairs of clients decided in all, by {of}"
        table.add_row("pairs", f"{clients}; embedding models of {load.pairs.weights:,}; without forward passes")
    took = ", ".join(f"{title} {seconds(phase.seconds)} s" for title, phase in phases(measured))
    table.add_row("on the clock", f"{took}; all parties in turn, drawing vectors included")
    for party, rows in learned(measured, load.rounds - 1).items():
        said = [f"{row['words']} ({row['scalars']:,} numbers, {byte_words(row['bytes'])})" for row in rows]
        table.add_row(f"the {party} learned", "\n".join(said) or "nothing")
    for name, words in not_in_costs(measured, load):
        table.add_row(name, words)
    if measured.trouble:
        table.add_row("trouble", "\n".join(measured.trouble))
    return table


def spread(counts: Sequence[int]) -> str:
    """The range of some counts: "24", "19-22"."""
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low}-{high}"


def learned(measured: MeasuredCost, round: int) -> Mapping[Party, list[dict[str, Any]]]:
    """What each party that took part learned in a round."""
    present = {party_of(i) for phase in (measured.setup, *measured.rounds) for i in phase.costs}
    return totals((entry for entry in measured.log if entry.round == round), present)


def cost_json(measured: Sequence[MeasuredCost], left_out: Sequence[LeftOut], load: Workload, name: str) -> dict[str, Any]:
    """Everything as plain values: per protection the setup and every round, per role; with machine and versions."""
    return {
        "name": name,
        "workload": {
            **{f.name: described(getattr(load, f.name)) for f in fields(load)},
            "needs": sorted(load.needs),
            "dropped": load.dropped,
        },
        "protections": [_protection_json(one) for one in measured],
        "left_out": [asdict(one) for one in left_out],
        "machine": machine(),
        "versions": versions(),
    }


def _protection_json(measured: MeasuredCost) -> dict[str, Any]:
    rounds = [
        {
            **_phase_json(phase),
            "summed": phase.summed,
            "compared": phase.compared,
            "unsummed": phase.unsummed,
            "pairs": phase.pairs,
            "learned": learned(measured, t),
        }
        for t, phase in enumerate(measured.rounds)
    ]
    setup = _phase_json(measured.setup)
    return {"protection": repr(measured.protection), "setup": setup, "rounds": rounds, "trouble": list(measured.trouble)}


def _phase_json(phase: Phase) -> dict[str, Any]:
    roles = {role: asdict(cost) for role, cost in spent(phase).items()}
    everyone, clients = phase.costs.values(), [cost for i, cost in phase.costs.items() if i >= 0]
    return {
        "seconds": phase.seconds,
        "messages": sum(cost.messages for cost in everyone),
        "bytes_up": sum(cost.bytes_up for cost in clients),
        "bytes_down": sum(cost.bytes_down for cost in clients),
        "bytes_between": sum(cost.bytes_between for cost in everyone),
        "cpu_seconds": sum(cost.cpu_seconds for cost in everyone),
        "client": {"mean": roles.pop("client, mean"), "worst": roles.pop("client, worst")},
        **roles,
    }
