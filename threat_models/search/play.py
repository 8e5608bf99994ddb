"""One run of a search: what it says of an attack at one point, of the same clients not being there, or of nobody attacking."""

import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, get_args

import numpy as np

from ...fl.runs.diverged import one_label
from ...fl.runs.lost_round import NothingLearned
from ...fl.runs.metrics import late_count
from ...fl.runs.own_rule import as_given
from ...fl.runs.results_folder import Row
from ...fl.runs.scenario import Scenario
from ...fl.runs.simulation import Simulation
from ...protocol.view.answers import Vector
from ..attack_metrics import attack_success
from ..backdoors import as_learned
from ..broken import Bounds, gained, lost, lost_at_end, ruined
from ..cell import recorded
from ..chance import gave_up, of_rows
from ..evaluation import backdoor_of
from ..evaluation_attack import absent_of
from ..evaluation_folder import EvaluationFolder
from ..trial import Clean
from .choosing import Given
from .fields import Numbers
from .space import Space, chosen_which
from .spent import cost, since_counted
from .who import ANY, FIRST, WHICH, members, population_of, who

MOST_KEPT = 1 << 24
"""Bytes of models that a run without attack keeps of rounds before its last."""
Goal = Literal["any", "accuracy", "backdoor"]


@dataclass(frozen=True, slots=True)
class Try:
    """A point of the space under one seed. numbers: empty for the run without attack, which has no attackers; of the run without
    the attackers' data only who they are.
    """

    numbers: Numbers = field(hash=False)
    attackers: int
    seed: int

    @property
    def clean(self) -> "Try":
        """The run without attack that it is compared with."""
        return Try({}, 0, self.seed)

    @property
    def absent(self) -> "Try":
        """The run without the attackers' data that it is compared with too: the same members send nothing."""
        return Try(who(self.numbers), self.attackers, self.seed)

    @property
    def is_clean(self) -> bool:
        return not self.attackers

    @property
    def is_absent(self) -> bool:
        return "attack" not in self.numbers and not self.is_clean


def scenario_of(space: Space, one: Try, data: Path | None) -> Scenario:
    """The run of a try. Raises ValueError where its numbers do not go together."""
    base = replace(space.scenario, seed=one.seed)
    if one.is_clean:
        return base
    which = str(one.numbers.get(WHICH, ANY))
    clients = {} if which == ANY else population_of(base, data).clients
    corrupt = members(which, one.attackers, clients, int(one.numbers.get(FIRST, 0)))
    if one.is_absent:
        return replace(base, adversary=absent_of(corrupt, base))
    choose = Given({WHICH: ANY, **one.numbers})  # earlier versions said nothing of it where clients were alike
    adversary = space.adversary(choose, corrupt)
    chosen_which(space, choose)
    return replace(base, adversary=adversary)


@dataclass(frozen=True, slots=True)
class Bench:
    """What a process needs to play tries."""

    space: Space
    folder: EvaluationFolder
    data: Path | None

    def play(self, task: tuple[tuple[str, Try], Row | None], /) -> Row:
        """The line of a try, named by its key. Beside the try stands the line of its run without attack, if it is one under
        attack.
        """
        (key, one), clean = task
        row = {"key": key, "numbers": dict(one.numbers), "attackers": one.attackers, "seed": one.seed}
        beside = since_counted()
        found = recorded(row, lambda: self._metrics(key, one, clean))
        return {**found, "cost": cost(since_counted(), beside)}

    def _metrics(self, key: str, one: Try, clean: Row | None) -> Mapping[str, Any]:
        scenario = scenario_of(self.space, one, self.data)
        if one.is_clean:
            metrics, found = played(scenario, self.data, None)
            return {**metrics, "clean_sha256": self.folder.write_clean(key, found)}
        if one.is_absent:
            return played(scenario, self.data, None)[0]
        before = None if clean is None else self.folder.read_clean(clean["key"], clean["clean_sha256"])
        if before is None:
            raise ValueError("there is no run without attack to compare with")
        return played(scenario, self.data, before)[0]


def last_rounds(rounds: int, every: int) -> list[int]:
    """Of the rounds after which a run is evaluated, those by which it is judged: the last quarter, ten at most."""
    due = [t for t in range(rounds) if t + 1 == rounds or (t + 1) % every == 0]
    return due[-late_count(len(due)) :]


def played(scenario: Scenario, data: Path | None, clean: Clean | None) -> tuple[dict[str, Any], Clean]:
    """A run and its metrics: of loyal clients, the mean over its last evaluations; a client without a model has 0.

    A backdoor's success is measured in its last poisoned round, beside that of its trigger on the models that the run without
    attack has after the same round.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # of models that an attack has driven to infinity
        return _played(scenario, data, clean)


def _played(scenario: Scenario, data: Path | None, clean: Clean | None) -> tuple[dict[str, Any], Clean]:
    simulation = Simulation(as_given(scenario), data)
    corrupt = frozenset() if simulation.corrupted is None else simulation.corrupted.members
    clients = sorted(simulation.population.clients)
    loyal = [i for i in clients if i not in corrupt]
    if not loyal:
        raise ValueError("nobody is loyal; fewer attackers leave somebody to measure")
    when: Any = getattr(scenario.adversary, "when", None)
    poisoned = [t for t in range(scenario.rounds) if when is None or t in when]
    judged, rows, success = set(last_rounds(scenario.rounds, scenario.evaluate_every)), [], None
    earlier: dict[int, Mapping[int, Vector]] = {}
    unmoved = lost = 0
    for t in range(scenario.rounds):
        with suppress(NothingLearned):  # a lost round is a result
            simulation.step()
        outcome: Any = getattr(simulation.state, "outcome", None)
        still = bool(outcome is not None and outcome.unmoved)
        unmoved, lost = unmoved + still, lost + bool(simulation.lost and not still)
        if t in judged:
            found = simulation.evaluate()
            rows.append([found[i].accuracy if i in found else 0.0 for i in loyal])
        if clean is not None and t == max(poisoned, default=scenario.rounds - 1):
            success = _success(simulation, set(loyal), clean.after(t))
        if scenario.adversary is None and t + 1 < scenario.rounds and _is_kept(simulation.vectors(), t, scenario.rounds):
            earlier[t] = simulation.vectors()
    course = np.nan_to_num(np.array(rows))
    of = course.mean(axis=0)
    models = {i: v for i, v in simulation.vectors().items() if i in set(loyal)}
    metrics = {
        "members": sorted(corrupt),
        "accuracy": float(of.mean()),
        "classes": simulation.population.classes,
        **({"one_label": one_label(simulation.population)} if scenario.adversary is None else {}),
        "of": {str(i): float(a) for i, a in zip(loyal, of, strict=True)},
        "final": {str(i): float(a) for i, a in zip(loyal, course[-1], strict=True)},
        "unmoved": unmoved,
        "lost": lost,
        "success": success,
    }
    return metrics, Clean(tuple(loyal), course, models, earlier)


def _is_kept(models: Mapping[int, Vector], t: int, rounds: int) -> bool:
    """Whether models after a round of a run without attack are: all are, or of every few rounds, as far as there is room."""
    size = sum(v.nbytes for v in {id(v): v for v in models.values()}.values())
    return (rounds - 1 - t) % max(1, -(-size * rounds // MOST_KEPT)) == 0


def _success(simulation: Simulation, loyal: set[int], clean: Mapping[int, Vector]) -> dict[str, Any] | None:
    """Named as in a cell of an evaluation. clean: the models without attack, after the same round."""
    target = backdoor_of(simulation.scenario.adversary)
    if target is None:
        return None
    watched: Any = simulation.corrupted
    backdoor = as_learned(target, watched.learned if hasattr(target, "given") else {})
    models = {i: v for i, v in simulation.vectors().items() if i in loyal and i in clean}
    both = sorted(models)
    tests = {i: simulation.population.clients[i].test for i in both}
    before, now = {i: clean[i] for i in both}, {i: models[i] for i in both}
    found = attack_success(simulation.module, now, tests, backdoor, simulation.population.classes, before)
    return {"last_poisoned": found.mean, "worst": found.worst, "clean_mean": found.clean_mean}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """A break that is sought: when a defence is broken, and whether by accuracy or a backdoor, or by one of the two alone."""

    bounds: Bounds = field(default_factory=Bounds)
    goal: Goal = "any"

    def __post_init__(self) -> None:
        if self.goal not in get_args(Goal):
            raise ValueError(f"the goal is {', '.join(get_args(Goal))}, not {self.goal!r}")


@dataclass(frozen=True, slots=True)
class Harm:
    """What a try did. severity: times the bound that it comes nearest to or passes; above 1 it breaks. loss: mean of loyal
    clients, late in the run; client: of the one that loses most. success, clean: of a backdoor, and on the models of the run
    without attack; None for others. end: what is lost in the last evaluation, where that alone breaks it; None elsewhere.
    """

    severity: float
    loss: float
    client: float
    success: float | None
    clean: float | None
    end: float | None = None

    @property
    def gained(self) -> float | None:
        """By how much more often a backdoor succeeds."""
        return None if self.success is None or self.clean is None else self.success - self.clean


NOTHING = Harm(-1.0, 0.0, 0.0, None, None)
"""Of a try that could not be played."""


def is_measure(absent: Row | None) -> bool:
    """Whether a run without the attackers' data says what they are worth: none of its rounds came to nothing."""
    return absent is not None and absent["status"] == "done" and not absent["unmoved"] and not absent["lost"]


def harm(row: Row, clean: Row, absent: Row | None, sought: Sought) -> Harm:
    """Of the line of a try beside those of its runs without attack and without the attackers' data."""
    if row["status"] != "done" or clean["status"] != "done":
        return NOTHING
    before = {i: float(clean["of"][i]) for i in row["of"]}
    usual = sum(before.values()) / len(before)
    without = absent if absent is not None and is_measure(absent) else None
    if without is not None and gave_up(float(without["accuracy"]), usual, of_rows([clean])):
        without = None
    loss = lost(float(row["accuracy"]), usual, None if without is None else float(without["accuracy"]))
    lower = before if without is None or usual <= float(without["accuracy"]) else without["of"]
    client = max(float(lower.get(i, before[i])) - float(a) for i, a in row["of"].items())
    end = _at_the_end(row, clean, without, sought.bounds.loss)
    gain, success = gained(row["success"]), row["success"]
    of = {"accuracy": max(loss, end or 0.0) / sought.bounds.loss, "backdoor": (gain or 0.0) / sought.bounds.success}
    severity = max(of.values()) if sought.goal == "any" else of[sought.goal]
    if not isfinite(severity):
        return NOTHING
    now, before_it = (None, None) if success is None else (success["last_poisoned"], success["clean_mean"])
    return Harm(severity, loss, client, now, before_it, end)


def _at_the_end(row: Row, clean: Row, absent: Row | None, bound: float) -> float | None:
    """What is lost in the last evaluation, where the run ends ruined (`broken.ruined`). Lines of earlier versions say nothing of
    it.
    """
    if any("final" not in one for one in (row, clean, absent or row)):
        return None
    final, held = fmean(row["final"].values()), [fmean(clean[when][i] for i in row["of"]) for when in ("of", "final")]
    held += [] if absent is None else [fmean(absent[when].values()) for when in ("of", "final")]
    end = lost_at_end(final, held)
    return end if ruined(end, float(row["accuracy"]), final, bound) else None
