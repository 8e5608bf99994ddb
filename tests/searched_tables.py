"""Breakdown searches that are made up, each from a number alone: what breaks at which strength is drawn, and the searches play it
as they would, with runs that fail, harm that does not grow, and defences that learned nothing among them.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, fields, replace
from functools import cache
from random import Random
from typing import Any, cast

from cloister.evaluating.breaking import breakdown_json
from cloister.evaluating.run import Ledger
from cloister.evaluating.searches import play_searches
from cloister.evaluating.workers import Task
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.grids.workers import Crew
from cloister.protocol import Masked, Plain
from cloister.threat_models.breakdown import Steps
from cloister.threat_models.evaluation import ABSENT, Cell, Evaluation, description

from . import evaluation_sample as sample
from .verdict_tables import Row, drawn

ATTACKS = {"minus": sample.minus, "backdoor": sample.backdoor}
DEFENCES = {"FedAvg": FedAvg(), "median": FedAvg(), "Multi-Krum": FedAvg()}


class Nowhere:
    """A folder that keeps nothing."""

    def append(self, row: Row) -> None: ...

    def arrange(self, rows: object) -> None: ...


class Known(Ledger):
    """Cells by name, so that made-up lines can be found again."""

    def key(self, cell: Any) -> str:
        return str(cell)

    def known(self, cell: Any) -> Row | None:
        return self.rows.get(str(cell))


@dataclass(frozen=True, slots=True)
class Searches:
    """What was searched, the lines that were played for it, and what is said to be found."""

    evaluation: Evaluation
    steps: Steps
    rows: list[Row]
    found: Row
    about: Row


@cache
def _evaluation(
    seeds: tuple[int, ...], attacks: tuple[str, ...], defences: tuple[str, ...], several: bool, absent: bool
) -> Evaluation:
    own: Mapping[str, Callable[..., Any]] = {name: ATTACKS[name] for name in attacks}
    protections = {"Plain": Plain(), "Masked": Masked(floor=3)} if several else {"Plain": Plain()}
    of = {name: DEFENCES[name] for name in defences}
    return replace(
        sample.evaluation, seeds=seeds, attacks=own, defences=of, protections=protections, absent=absent, strengths=(1,)
    )


@cache
def _described(seeds: tuple[int, ...], attacks: tuple[str, ...], defences: tuple[str, ...], several: bool, absent: bool) -> Row:
    return description(_evaluation(seeds, attacks, defences, several, absent))


def searched_of(number: int) -> Searches:
    """The searches of this number."""
    rng = Random(number)
    seeds = tuple(range(drawn(rng, {1: 2, 2: 2, 3: 4, 4: 1, 5: 1})))
    attacks = tuple(sorted(rng.sample([*ATTACKS], rng.choice([1, 2]))))
    defences = tuple(rng.sample([*DEFENCES], rng.choice([1, 1, 2, 3])))
    evaluation = _evaluation(seeds, attacks, defences, rng.random() < 0.2, rng.random() < 0.5)
    about = _described(evaluation.seeds, attacks, defences, len(evaluation.named_protections) > 1, evaluation.absent)
    limits = {d: rng.choice([0, 2, 4]) for d in defences if rng.random() < 0.4}
    evaluation = replace(evaluation, limits=limits)
    steps = Steps(least=drawn(rng, {1: 3, 2: 1}), most=drawn(rng, {6: 3, 7: 1, 2: 1}), step=drawn(rng, {1: 3, 2: 1}))
    world, rows = _World(rng, evaluation, number), dict[str, Row]()
    ledger = Known(evaluation, cast(Any, Nowhere()), rows)
    named = [*evaluation.attacks], [*evaluation.defences], [*evaluation.named_protections]
    searched = list(play_searches(ledger, Crew(world.submit, 1), steps, *named))
    found = breakdown_json(evaluation, steps, evaluation.bounds, searched, [*rows.values()])
    return Searches(evaluation, steps, [*rows.values()], found, about | {"limits": limits})


class _World:
    """Lines of cells as they are asked for."""

    def __init__(self, rng: Random, evaluation: Evaluation, number: int) -> None:
        self.number = number
        places = [(d, p) for d in evaluation.defences for p in evaluation.named_protections]
        self.base = {place: drawn(rng, {0.9: 14, 0.11: 1, 0.14: 1}) for place in places}
        self.clean = {(*p, s): round(v - 0.02 * rng.random(), 4) for p, v in self.base.items() for s in evaluation.seeds}
        self.idle = {place for place in places if rng.random() < 0.03}
        self.fails = {place for place in places if rng.random() < 0.03}
        self.kind = {
            (a, *p): drawn(rng, {"grows": 12, "never": 4, "noticed": 2, "in vain": 2, "odd": 2, "fails": 2, "unmeasured": 1,
                                 "full": 1,
                                 "nobody": 1}) for a in evaluation.attacks for p in places
        }  # fmt: skip
        self.built = {p: drawn(rng, {None: 2, 1: 1, 2: 2}) for p in places}
        self.worth = {p: drawn(rng, {0.0: 3, 0.03: 1, 0.3: 1}) for p in places}
        self.way = {key: drawn(rng, {"late": 5, "end": 1}) for key in self.kind}

    def submit(self, task: Task) -> "Future[Row]":
        future: Future[Row] = Future()
        future.set_result(self.row(task[0]))
        return future

    def row(self, cell: Cell) -> Row:
        place, k = (cell.defence, cell.protection), float(cell.strength or 0)
        row: Row = {"key": str(cell), "status": "done", "reason": "", **{f.name: getattr(cell, f.name) for f in fields(Cell)}}
        clean = self.clean[(*place, cell.seed)]
        row |= {"clean_sha256": "", "classes": 10, "one_label": 0.11, "rounds": [0, 1, 2, 3], "lost": None, "unmoved": None}
        if cell.attack is None:
            row |= {"accuracy": {"late": clean, "final": clean}}
            row |= {"unmoved": {"rounds": 4, "reason": "too few"}} if place in self.idle else {}
            return row | ({"status": "failed", "reason": "no"} if place in self.fails else {})
        rng = Random(f"{self.number} {cell}")
        if cell.attack == ABSENT:
            late = max(0.05, round(clean - self.worth[place] * rng.random(), 4))
            return row | {
                "accuracy": {"late": late, "final": late},
                "lost": {"rounds": 1, "reason": "no"} if rng.random() < 0.1 else None,
            }
        return self._attacked(rng, row, cell, clean, k, self.kind[(cell.attack, *place)])

    def _attacked(self, rng: Random, row: Row, cell: Cell, clean: float, k: float, kind: str) -> Row:
        breaks = {
            "never": False,
            "noticed": k in (2.0, 3.0),
            "odd": rng.random() < 0.5,
            "in vain": False,
            "full": False,
            "nobody": False,
        }
        worse = breaks.get(kind, k >= 2 + cell.seed % 3)
        late = max(0.0, round(clean - (rng.uniform(0.06, 0.5) if worse else rng.uniform(-0.01, 0.04)), 4))
        final, success = late, None
        if worse and self.way[(cell.attack or "", cell.defence, cell.protection)] == "end":
            late, final = clean, max(0.0, clean - 0.3)
        if cell.attack == "backdoor":
            before = 0.95 if kind == "full" else 0.02
            success = {"last_poisoned": before + (0.5 if worse and rng.random() < 0.7 else 0.01), "clean_mean": before}
        row |= {"clean": {"late": clean, "final": clean}, "accuracy": {"late": late, "final": final}, "success": success}
        row |= {"attackers": int(k) - (rng.random() < 0.2), "same_models": kind == "in vain", "rejected": {"members": 0}}
        row |= {"built_for": self.built[cell.defence, cell.protection]}
        row |= {"attackers": 0} if kind == "nobody" else {}
        if kind == "fails" and cell.seed == 0:
            return row | {"status": "failed", "reason": "no such thing"}
        if kind == "unmeasured" and rng.random() < 0.5:
            row["accuracy"] = {"late": "nan", "final": "nan"}
        return row
