"""One cell played: a scenario run to its end in memory, with what its metrics need."""

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..fl.algorithms.algorithm import State
from ..fl.runs.feasibility import check_feasible
from ..fl.runs.lost_round import NothingLearned
from ..fl.runs.own_rule import as_given
from ..fl.runs.scenario import Scenario
from ..fl.runs.simulation import Simulation
from ..protocol.view.answers import Model, Vector
from ..protocol.view.disclosure import Disclosure
from .attack_metrics import Success, attack_success
from .backdoors import LearnedTarget, Target, as_learned
from .peak_memory import forget_peak, peak_mb
from .withheld import Withheld, withheld
from .witness import Witness


@dataclass(frozen=True, slots=True, eq=False)
class Clean:
    """An attack-free run as cells are compared with it.

    accuracy: float64 (evaluations, clients), in the order of `clients`; NaN where a client had no model. models: float32 (d,) at
    the end, by client, shared between those that share one. earlier: the same after some rounds before the last, by round.
    """

    clients: tuple[int, ...]
    accuracy: NDArray[np.float64]
    models: Mapping[int, Vector]
    earlier: Mapping[int, Mapping[int, Vector]] = field(default_factory=dict)

    def after(self, round: int) -> Mapping[int, Vector]:
        """The models after a round, or after the next that was kept."""
        return self.earlier[min(kept)] if (kept := [t for t in self.earlier if t >= round]) else self.models


@dataclass(frozen=True, slots=True)
class Judged:
    """One round under attack. clients: all who answered; members: who of them was corrupt in it. weights: what the rule gave to
    whom, empty where it gives none or had no result. rejected: whose vectors the protocol could not use. silent: who is corrupt,
    was asked, and did not answer. arrived: whose updates the server was told of, alone or in a sum; empty where nobody knows.
    """

    clients: frozenset[int]
    members: frozenset[int]
    weights: Mapping[int, float]
    rejected: frozenset[int]
    silent: frozenset[int] = frozenset()
    arrived: frozenset[int] = frozenset()

    @property
    def at_work(self) -> int:
        """Attackers in this round: those whose updates arrived, or all where none did, and the silent ones."""
        return len((self.members & self.arrived or self.members) | self.silent)

    @property
    def met(self) -> int:
        """Clients whose updates arrived, or who are silent because they are corrupt."""
        return len((self.arrived or self.clients) | self.silent)


@dataclass(slots=True, eq=False)
class Trial:
    """A run that is over.

    members: clients that are corrupt in some round. rounds: those after which clients were scored. accuracy: as in Clean.
    judged: per round in which the adversary is active. kappas: of those where one model was moved for all; sizes: in these
    rounds, how many vectors could be used and how many of them were members'. rejected: a client for every vector that could
    not be used, and whether it was corrupt in that round. success: mean rate of the backdoor by round: in every one from its
    last poisoned one on, and from half of the attack on in those after which clients were scored. losses: a line of each
    round, as `fl.runs.diverged` takes them. unmoved: rounds in which the rule had no result, and the first reason. lost: other
    rounds in which nothing could be learned, and the first reason; models stay as they are in both. stood: per round, the share
    of the measured clients whose model stayed as it was. withheld: rounds in which a sum was withheld, as `withheld` says it;
    first_withheld: the first such sum. seconds, server: of CPU. peak: MB that the process held at most, None where unknown.
    last_poisoned: the last round in which the adversary acts. models: float32 (d,) at the end, by client.
    """

    simulation: Simulation
    clients: tuple[int, ...]
    members: frozenset[int]
    rounds: list[int] = field(default_factory=list)
    accuracy: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    judged: list[Judged] = field(default_factory=list)
    kappas: list[float] = field(default_factory=list)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    rejected: list[tuple[int, bool]] = field(default_factory=list)
    success: dict[int, float] = field(default_factory=dict)
    losses: list[Mapping[str, Any]] = field(default_factory=list)
    unmoved: tuple[int, str] = (0, "")
    lost: tuple[int, str] = (0, "")
    stood: list[float] = field(default_factory=list)
    withheld: int = 0
    first_withheld: Withheld | None = None
    seconds: float = 0.0
    server: float = 0.0
    peak: float | None = None
    last_poisoned: int = 0
    models: Mapping[int, Vector] = field(default_factory=dict)

    @property
    def loyal(self) -> tuple[int, ...]:
        """Clients that are corrupt in no round: none where members are drawn anew in every round."""
        return tuple(i for i in self.clients if i not in self.members)

    @property
    def measured(self) -> tuple[int, ...]:
        """Clients whose models are scored: the loyal ones, or all where there is none."""
        return self.loyal or self.clients

    def clean(self) -> Clean:
        return Clean(self.clients, self.accuracy, self.models)


Watcher = Callable[[Simulation], None]
"""Is shown the simulation after every round."""


def played(scenario: Scenario, target: Target | LearnedTarget | None, data: Path | None, watcher: Watcher | None = None) -> Trial:
    """Runs the scenario. Raises what the simulation raises, but a round under attack that comes to nothing is a result."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # of models that an attack has driven to infinity
        return _played(scenario, target, data, watcher)


def _played(scenario: Scenario, target: Target | LearnedTarget | None, data: Path | None, watcher: Watcher | None) -> Trial:
    fresh = forget_peak()
    given = as_given(scenario)
    witness = Witness(given.adversary)
    simulation = Simulation(replace(given, adversary=witness), data)
    clients = tuple(sorted(simulation.population.clients))
    try:
        check_feasible(scenario, len(clients), [len(client.train) for client in simulation.population.clients.values()])
    except ValueError as error:
        raise NothingLearned(str(error), refused=True) from error
    members = frozenset() if simulation.corrupted is None else simulation.corrupted.members
    trial = Trial(simulation, clients, members)
    due = [t for t in range(scenario.rounds) if t + 1 == scenario.rounds or (t + 1) % scenario.evaluate_every == 0]
    acting = acting_in(scenario.adversary, scenario.rounds)
    half, trial.last_poisoned = ((acting[0] + acting[-1]) // 2, acting[-1]) if acting else (scenario.rounds, 0)
    rows: list[list[float]] = []
    while simulation.state.round < scenario.rounds:
        t = simulation.state.round
        _round(trial, scenario, witness, t)
        if watcher is not None:
            watcher(simulation)
        line: dict[str, Any] = {"round": t}
        if t in due:
            found = simulation.evaluate()
            line |= {"loss": {str(i): score.loss for i, score in found.items()}}
            line |= {"accuracy_mean": float(np.mean([score.accuracy for score in found.values()]))} if found else {}
            rows.append([found[i].accuracy if i in found else float("nan") for i in clients])
            trial.rounds.append(t)
        trial.losses.append(line)
        if target is not None and t >= half and (t in due or t >= trial.last_poisoned):
            trial.success[t] = success_of(trial, target, None).mean
    trial.accuracy, trial.models, trial.peak = np.array(rows), simulation.vectors(), peak_mb() if fresh else None
    return trial


def success_of(trial: Trial, target: Target | LearnedTarget, clean: Clean | None) -> Success:
    """The backdoor's success on the models of the measured clients that have one, as members have learned it by now.

    The attack-free models, those of the last poisoned round, are tested with the same learned trigger: what they are taken in by
    needed no backdoor.
    """
    watched: Any = trial.simulation.corrupted
    backdoor = as_learned(target, watched.learned if hasattr(target, "given") else {})
    models = {i: v for i, v in trial.simulation.vectors().items() if i in set(trial.measured)}
    tests = {i: client.test for i, client in trial.simulation.population.clients.items()}
    then = {} if clean is None else clean.after(trial.last_poisoned)
    before = None if clean is None else {i: then[i] for i in models if i in then}
    if before is not None and before.keys() != models.keys():
        models = {i: models[i] for i in before}
    return attack_success(trial.simulation.module, models, tests, backdoor, trial.simulation.population.classes, before)


def _round(trial: Trial, scenario: Scenario, witness: Witness, t: int) -> None:
    simulation, view = trial.simulation, trial.simulation.view
    before, known, logged = _only_model(simulation), len(view.record.faults), len(view.record.log)
    models, refused = _models(simulation), len(view.record.below_floor)
    witness.begin()
    clients_cpu = _clients_seconds(view.record.costs)
    started = time.process_time()
    try:
        simulation.step()
    except NothingLearned:
        if scenario.adversary is None:
            raise
    took = time.process_time() - started
    seen = witness.seen[0]
    trial.seconds += took
    trial.server += max(0.0, took - seen.seconds - (_clients_seconds(view.record.costs) - clients_cpu))
    outcome: Any = getattr(simulation.state, "outcome", None)
    if outcome is not None and outcome.unmoved:
        trial.unmoved = (trial.unmoved[0] + 1, trial.unmoved[1] or " ".join(outcome.unmoved.split()))
    elif simulation.lost:
        trial.lost = (trial.lost[0] + 1, trial.lost[1] or " ".join(simulation.lost.split()))
    trial.stood += _stood(models, _models(simulation), trial.measured)
    if below := withheld(t, view.record.below_floor[refused:], view.record.faults[known:], scenario):
        trial.withheld, trial.first_withheld = trial.withheld + 1, trial.first_withheld or below
    rejected = frozenset(fault.blame for fault in view.record.faults[known:] if fault.rejected)
    trial.rejected += [(fault.blame, fault.blame in seen.members) for fault in view.record.faults[known:] if fault.rejected]
    if not _acts(scenario.adversary, t) and not seen.silent:
        return
    weights = {} if outcome is None or outcome.unmoved else outcome.weights
    clients = frozenset(seen.clients)
    arrived = _arrived(view.record.log[logged:], clients)
    trial.judged.append(Judged(clients, frozenset(seen.members), weights, rejected, seen.silent, arrived))
    after = _only_model(simulation)
    if before is not None and after is not None:
        kappa = seen.kappa(after.astype(np.float64) - before)
        if kappa is not None:
            trial.kappas.append(kappa)
            trial.sizes.append((len(seen.clients - rejected), len(seen.members - rejected)))


def _arrived(log: Iterable[Disclosure], clients: frozenset[int]) -> frozenset[int]:
    """Whose updates are in what the server or clients were told of a round, or were compared for it: a rule that then takes few
    into its sum has met the others. clients: of the round, as some comparisons are with those of earlier ones, too.
    """
    told = {i for entry in log if entry.what in ("updates", "sums") for i in entry.about}
    return clients.intersection(i for entry in log if entry.what.startswith("gram") for i in entry.about) | told


def acting_in(adversary: object, rounds: int) -> list[int]:
    """The rounds, of so many, in which an adversary acts."""
    return [t for t in range(rounds) if _acts(adversary, t)]


def _acts(adversary: object, t: int) -> bool:
    """Whether it acts in the round, if it has a schedule; without one, always."""
    when: Any = getattr(adversary, "when", None)
    return when is None or t in when


def _only_model(simulation: Simulation) -> Vector | None:
    """The one model that all share, or None."""
    state: State = simulation.state
    clusters = list(state.clusters.values())
    return simulation.view.harness.observe(clusters[0].model) if len(clusters) == 1 else None


def _models(simulation: Simulation) -> dict[int, Model]:
    """Of every client that is in a cluster, the model of that."""
    return {i: cluster.model for cluster in simulation.state.clusters.values() for i in cluster.members}


def _stood(before: Mapping[int, Model], after: Mapping[int, Model], measured: Sequence[int]) -> list[float]:
    """The share of these clients whose model is what it was before the round, of those that had one; none where nobody had."""
    had = [i for i in measured if i in before]
    return [sum(after.get(i) == before[i] for i in had) / len(had)] if had else []


def _clients_seconds(costs: Mapping[int, Any]) -> float:
    return float(sum(cost.cpu_seconds for i, cost in costs.items() if i >= 0))


def mean_over(accuracy: NDArray[np.float64], clients: Sequence[int], chosen: Sequence[int]) -> NDArray[np.float64]:
    """Mean over these clients in every evaluation, those without a model left out: float64 (evaluations,)."""
    places = {client: k for k, client in enumerate(clients)}
    rows = accuracy[:, [places[i] for i in chosen]]
    seen = np.isfinite(rows)
    counts = seen.sum(axis=1)
    return np.where(counts > 0, np.where(seen, rows, 0.0).sum(axis=1) / np.maximum(counts, 1), np.nan)
