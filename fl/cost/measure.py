"""What a protection costs, measured: its protocol is played on random vectors, in place of updates that clients train.

What is played is what an algorithm needs: per round and cluster a session of work, one mean and, where it compares updates,
one Gram matrix, about the origin where it needs that; updates of the first round are remembered, or kept as those of a split,
and those of later rounds compared with them, where it needs that; those of the first round are recalled in the last one, where
it needs that. An algorithm that asks for similarities in some rounds alone costs less than that in the others.
Where it needs slots, one session of slots for each cluster instead, in which every client chooses one; where it needs
personal sums, one for every client of the cluster in place of the mean; where it needs fusion, a pull for each, from the second
round on (`fusion`). Where it compares pairs of clients, all of them once (`pairs`).
Vectors are drawn one at a time, outside of what is timed. Equal models, which clients make of equal means, are made once and held
once in the process, and the first client is charged: the highest of the clients' costs is that of one on its own.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import cast

import numpy as np

from ...crypto.entropy import SimulatedEntropy
from ...protocol.core.errors import Refused
from ...protocol.core.session import RUN_BYTES
from ...protocol.drivers.dropouts import Dropouts
from ...protocol.view.answers import Assignment, BelowFloor, Cost, Gram, Remembered, Sum, Updates, Vector, Weights, Work
from ...protocol.view.asks import ServerView
from ...protocol.view.disclosure import Disclosure
from ...protocol.view.functionality import Functionality
from ...protocol.view.protection import Protection, Setup, check_composition
from ...protocol.view.work import LocalJob, LocalWork
from ..algorithms.algorithm import Cluster, advanced, mean_of
from ..models.papers import initial
from ..models.vector import dimension
from ..runs.objective_check import outputs_needed
from ..runs.scenario import Scenario
from ..runs.simulation import INITIAL, seed_of
from .fusion import fusion_round
from .pairs import Pair, PairLoad, RandomEmbedders, pair_load_of
from .pairs import compared as compare_pairs

NORM = 1.0
"""l2 norm of a drawn update: of the size of a real one after some local epochs."""
SUMMED = frozenset(
    {
        Functionality.SUMS,
        Functionality.COORDINATES,
        Functionality.SLOTS,
        Functionality.PERSONAL_SUMS,
        Functionality.FUSION,
    }
)
_REHEARSED = 64
_SAMPLES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is played. needs: the algorithm's. compared: the vectors of the Gram matrix, updates or full gradients.

    clients, parameters: n and d. clusters: disjoint, of nearly equal size. drop: share of the clients, at least one, that fall
    silent in each round, at a random one of their messages. All clients take part in all rounds. slots: K, where they are needed.
    pairs: what pairs of clients are compared by, where they are. Raises ValueError for sizes out of range, and where nothing is
    summed.
    """

    needs: frozenset[Functionality]
    clients: int
    parameters: int
    clusters: int = 1
    drop: float = 0.0
    rounds: int = 3
    seed: int = 0
    by_samples: bool = False
    compared: Work = "update"
    slots: int = 2
    pairs: PairLoad | None = None

    def __post_init__(self) -> None:
        if (self.pairs is None) == (Functionality.PAIRS in self.needs):
            raise ValueError(
                "pairs say what clients are compared by, where an algorithm compares pairs of them, and nowhere else"
            )
        if min(self.clients, self.parameters, self.clusters, self.rounds, self.slots) < 1:
            raise ValueError("clients, parameters, clusters, rounds and slots are at least 1")
        if self.clusters > self.clients:
            raise ValueError(f"{self.clusters} clusters of {self.clients} clients: at least one would be empty")
        if not 0 <= self.drop < 1:
            raise ValueError(f"drop is a share from 0 to below 1, not {self.drop}")
        if not self.needs & SUMMED:
            raise ValueError("an algorithm that asks the server for no sum sends no updates: there is nothing to measure")

    @property
    def dropped(self) -> int:
        """Clients that fall silent in a round."""
        return max(1, round(self.drop * self.clients)) if self.drop else 0

    @property
    def members(self) -> dict[str, tuple[int, ...]]:
        """The clients of every cluster."""
        return {str(k): tuple(range(k, self.clients, self.clusters)) for k in range(self.clusters)}


@dataclass(frozen=True, slots=True)
class Phase:
    """What one round, or opening the view, cost each party. seconds: on the clock, drawing vectors included.

    summed, compared: clients in the published sums and in the Gram matrices. unsummed: clusters, or receivers, without a sum.
    pairs: decided.
    """

    costs: Mapping[int, Cost]
    seconds: float
    summed: int = 0
    compared: int = 0
    unsummed: int = 0
    pairs: int = 0


@dataclass(frozen=True, slots=True)
class MeasuredCost:
    """The cost of a protection: once, for keys and seeds, and round by round; and the disclosure log of it all."""

    protection: Protection
    setup: Phase
    rounds: tuple[Phase, ...]
    log: Sequence[Disclosure] = field(repr=False)
    trouble: tuple[str, ...] = ()
    """Why sums were not answered, each reason once."""


def workload_of(scenario: Scenario, clients: int | None, parameters: int | None, folder: Path | None) -> Workload:
    """What the scenario would play: its algorithm's needs, its numbers of clients and parameters where none are given.

    Reads the scenario's data, from `folder`, only if one of the numbers is needed, or the sizes of embeddings. Raises
    ValueError of one line.
    """
    if clients is None or parameters is None:
        source = scenario.data(folder)
        population = scenario.partition(source, np.random.default_rng(seed_of(scenario.seed, "partition")))
        clients = len(population.clients) if clients is None else clients
        if parameters is None:
            y = next(iter(population.clients.values())).train.y
            outputs = outputs_needed(scenario.training, y, population.classes)
            parameters = dimension(initial(scenario.model, population.shape, outputs, scenario.seed))
    return Workload(
        needs=scenario.algorithm.needs,
        clients=clients,
        parameters=parameters,
        seed=scenario.seed,
        by_samples=getattr(scenario.algorithm, "by_samples", False),
        compared=getattr(scenario.algorithm, "similarity", "update"),
        pairs=pair_load_of(scenario, folder),
    )


def measure(protection: Protection, load: Workload, tell: Callable[[float], None]) -> MeasuredCost:
    """Open the protection and play the workload. tell: is told the share of the work that is done, now and then.

    Raises Refused where the protection refuses such a load, ProtocolError where its keys cannot be agreed on.
    """
    check_composition("this load", load.needs, protection, [])
    tap = None
    if load.dropped:
        tap = Dropouts(tuple(range(load.clients)), load.dropped, load.seed, _messages_of_a_round(protection, load))
    drawn = 0

    def workers(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        nonlocal drawn
        for job in jobs:
            drawn += 1
            tell(min(drawn / (load.clients * load.rounds * (1 + (load.compared == "gradient"))), 1.0))
            yield job.client, random_work(protection, load, job)

    entropy = SimulatedEntropy(load.seed)
    zero = np.zeros(load.parameters, np.float32)
    started = time.perf_counter()
    embedders = None
    if load.pairs is not None:
        groups = {i: k for k, members in enumerate(load.members.values()) for i in members}
        embedders = RandomEmbedders(load.pairs, groups, load.parameters, load.seed)
    everybody = tuple(range(load.clients))
    run = entropy.secret("run", RUN_BYTES)
    apart = Functionality.FUSION in load.needs
    setup = Setup(run, zero, everybody, workers, entropy, tap, embedders=embedders, checks_once=False, starts_apart=apart)
    view = cast(ServerView, protection.open(setup))  # that it gives what is played, whoever asks has checked
    opened = Phase(view.record.costs, time.perf_counter() - started)
    clusters = {name: Cluster(members, INITIAL) for name, members in load.members.items()}
    remembered: dict[str, Remembered] = {}
    met: set[Pair] = set()
    rounds = []
    for t in range(load.rounds):
        before, started = view.record.costs, time.perf_counter()
        phase, clusters = _round(view, load, t, clusters, remembered, met)
        costs = {i: cost - before.get(i, Cost()) for i, cost in view.record.costs.items()}
        rounds.append(replace(phase, costs=costs, seconds=time.perf_counter() - started))
        tell((t + 1) / load.rounds)
    return MeasuredCost(protection, opened, tuple(rounds), view.record.log, tuple(_trouble(view)))


def random_work(protection: Protection, load: Workload, job: LocalJob) -> LocalWork:
    """A client's work in a round: a function of both, normal, of l2 norm near `NORM`, and within the protection's clip.

    In slots it is in one of them, chosen at random, with a share of 1.
    """
    rng = np.random.default_rng([seed_of(load.seed, "cost", job.work), job.round, job.client])
    vector: Vector = rng.standard_normal(load.parameters, np.float32)
    vector *= np.float32(NORM / np.sqrt(load.parameters))
    clip = getattr(protection, "clip", inf)
    np.clip(vector, -clip, clip, out=vector)
    if job.work == "slots":
        choice = int(rng.integers(load.slots))
        rows = np.zeros((load.slots, load.parameters), np.float32)
        rows[choice] = vector
        return LocalWork(rows, 1, tuple(int(k == choice) for k in range(load.slots)))
    return LocalWork(vector, int(rng.integers(1, 1 + min(_SAMPLES, getattr(protection, "max_samples", _SAMPLES)))))


def _round(
    view: ServerView, load: Workload, t: int, clusters: dict[str, Cluster], remembered: dict[str, Remembered], met: set[Pair]
) -> tuple[Phase, dict[str, Cluster]]:
    """One round as an algorithm with these needs plays it; fills `remembered` in the first, and `met` with pairs."""
    work = {name: Assignment(c.model, c.members, c.members) for name, c in clusters.items()}
    if Functionality.SLOTS in load.needs:
        return _slots_round(view, load, t, clusters)
    if Functionality.FUSION in load.needs:
        summed, unsummed = fusion_round(view, t, clusters, remembered)
        return Phase({}, 0.0, summed, 0, unsummed), clusters
    answers: Mapping[str, Sum | BelowFloor] = {}
    personal: list[Sum | BelowFloor] = []
    compared, decided, grams = 0, 0, dict[str, Gram]()
    settled = load.pairs is not None and len(met) == load.clients * (load.clients - 1) // 2
    if load.needs == {Functionality.SUMS} or settled:
        answers = view.train_and_sum(t, work, {name: mean_of(a.members, load.by_samples) for name, a in work.items()})
    else:
        updates = view.train(t, work)
        gradients = view.train(t, work, "gradient") if load.compared == "gradient" else updates
        if load.pairs is not None:
            decided = compare_pairs(view, load.pairs, t, work, updates, met)
        if Functionality.PERSONAL_SUMS in load.needs:
            personal = [answer for handle in updates.values() for answer in _personal(view, handle)]
        else:
            answers = {name: _mean(view, load, handle) for name, handle in updates.items()}
        origin = bool(load.needs & {Functionality.GRAM_ORIGIN, Functionality.GRAM_HISTORY})
        if origin or Functionality.GRAM in load.needs:
            grams = {name: view.gram(handle, origin=origin) for name, handle in gradients.items()}
            compared = sum(len(gram.clients) for gram in grams.values())
        across = load.needs & {Functionality.GRAM_REMEMBER, Functionality.GRAM_EDGE}
        for name, handle in updates.items() if across else ():
            known = grams.get(name) if load.compared == "update" else None
            known = view.gram(handle, origin=origin) if known is None else known  # who is in it can be compared
            _remember(view, load, name, replace(handle, clients=known.clients), remembered)
        if Functionality.GRAM_RECALL in load.needs:
            compared += _recall(view, load, t, updates, remembered)
        for name in updates if Functionality.GRAM_HISTORY in load.needs else ():
            _accumulate(view, name, replace(gradients[name], clients=grams[name].clients), remembered)
    clusters = {name: advanced(view, c, answers.get(name)) for name, c in clusters.items()}
    view.harness.retire([c.model for c in clusters.values()], remembered.values())
    asked = personal or list(answers.values())
    sums = [answer for answer in asked if isinstance(answer, Sum)]
    summed = sum(len(answer.clients) for answer in sums)
    return Phase({}, 0.0, summed, compared, max(len(asked), len(clusters)) - len(sums), decided), clusters


def _slots_round(view: ServerView, load: Workload, t: int, clusters: dict[str, Cluster]) -> tuple[Phase, dict[str, Cluster]]:
    """All slots of a cluster start from one model, and the first that is opened moves it: what they hold costs nothing."""
    answers = {}
    for name, cluster in clusters.items():
        others = (cluster.model,) * (load.slots - 1)
        answers[name] = view.slots(t, name, Assignment(cluster.model, cluster.members, cluster.members, others))
    summed = {name: [one for one in found if isinstance(one, Sum)] for name, found in answers.items()}
    moved = {name: advanced(view, c, next(iter(summed[name]), None)) for name, c in clusters.items()}
    view.harness.retire([c.model for c in moved.values()], [])
    clients = sum(len({i for one in found for i in one.clients}) for found in summed.values())
    return Phase({}, 0.0, clients, 0, sum(not found for found in summed.values())), moved


def _mean(view: ServerView, load: Workload, updates: Updates) -> Sum | BelowFloor:
    if Functionality.COORDINATES in load.needs:
        return view.coordinates(updates, updates.cluster, lambda rows: np.median(rows, axis=0).astype(np.float32))
    return view.sums(updates, {updates.cluster: mean_of(updates.clients, load.by_samples)})[updates.cluster]


def _personal(view: ServerView, updates: Updates) -> list[Sum | BelowFloor]:
    """For each client the mean of all updates, in which its own counts twice."""
    rows = {r: Weights({i: 2.0 if i == r else 1.0 for i in updates.clients}) for r in updates.clients}
    return list(view.personal_sums(updates, rows).values())


def _remember(view: ServerView, load: Workload, name: str, updates: Updates, remembered: dict[str, Remembered]) -> None:
    """Compare with what is remembered of the cluster; remember these updates if there is nothing yet.

    With the edge of a split only who comes later is compared, and everybody is there: one sketch each, as in a Gram matrix.
    """
    if Functionality.GRAM_EDGE in load.needs:
        if name not in remembered and updates.clients:
            remembered[name] = view.edge(updates, updates.clients)
    elif name in remembered:
        view.cosines(updates, remembered[name])
    elif updates.clients:
        remembered[name] = view.remember(updates, updates.clients)


def _recall(view: ServerView, load: Workload, t: int, updates: Mapping[str, Updates], remembered: dict[str, Remembered]) -> int:
    """Have every client keep its first update; recall them in the last round. How many clients were compared."""
    for name, handle in updates.items():
        kept = {i for one in remembered.values() for i in one.clients}
        if fresh := tuple(i for i in handle.clients if i not in kept):
            remembered[f"{name}/kept {t}"] = view.keep(handle, fresh)
    return len(view.recall(t, list(remembered.values())).clients) if t == load.rounds - 1 and remembered else 0


def _accumulate(view: ServerView, name: str, updates: Updates, remembered: dict[str, Remembered]) -> None:
    """Add to what is remembered of the cluster's clients, and compare that with these updates."""
    kept = f"{name}/sums"
    remembered[kept] = view.accumulate(updates, dict.fromkeys(updates.clients, 1.0), remembered.get(kept))
    view.gram_with(updates, remembered[kept])


def _messages_of_a_round(protection: Protection, load: Workload) -> int:
    """How many messages a client sends in a round: counted in a round of few clients and parameters without dropouts.

    More clients are taken where the protection does not sum over so few.
    """
    few = max(16, getattr(protection, "floor", 1) + getattr(protection, "corrupt", 0))
    while True:
        small = replace(load, clients=min(few, load.clients), clusters=1, rounds=1, drop=0.0)
        small = replace(small, parameters=min(_REHEARSED, load.parameters))
        if load.pairs is not None:  # every client meets every other, so all take part, on as little as there can be
            tiny = replace(load.pairs, d=2, inputs=2, rows=1, weights=1, eps=1.0)
            small = replace(small, clients=load.clients, pairs=tiny)
        try:
            costs = measure(protection, small, lambda _: None).rounds[0].costs
            return max(cost.messages for i, cost in costs.items() if i >= 0)
        except Refused:
            if few >= load.clients:
                raise
            few *= 2


def _trouble(view: ServerView) -> list[str]:
    record = view.record
    few = {f"{len(b.clients)} clients are below the floor of {b.floor}" for b in record.below_floor if len(b.clients) < b.floor}
    return sorted(few | {fault.reason for fault in record.faults})
