"""What a protection costs, measured: its protocol is played on random vectors, in place of updates that clients train.

What is played in a round is in rounds.py. Vectors are drawn one at a time, outside of what is timed. Equal models, which clients
make of equal means, are made once and held once in the process, and the first client is charged: the highest of the clients'
costs is that of one on its own.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import cast

import numpy as np

from ...crypto.entropy import SimulatedEntropy
from ...protocol.core.errors import Refused
from ...protocol.core.session import RUN_BYTES
from ...protocol.drivers.dropouts import Dropouts
from ...protocol.view.answers import Cost, Remembered, Vector
from ...protocol.view.asks import ServerView
from ...protocol.view.disclosure import Disclosure
from ...protocol.view.functionality import Functionality
from ...protocol.view.protection import Protection, Setup, check_composition
from ...protocol.view.work import LocalJob, LocalWork
from ..algorithms.algorithm import Cluster
from ..runs.simulation import INITIAL, seed_of
from .pairs import Pair, RandomEmbedders
from .rounds import Phase, played_round
from .workload import Workload

NORM = 1.0
"""l2 norm of a drawn update: of the size of a real one after some local epochs."""
_REHEARSED = 64
_SAMPLES = 100


@dataclass(frozen=True, slots=True)
class MeasuredCost:
    """The cost of a protection: once, for keys and seeds, and round by round; and the disclosure log of it all.

    hands_models: whether the server holds the models, and hands them to clients that are asked how well they predict.
    """

    protection: Protection
    setup: Phase
    rounds: tuple[Phase, ...]
    log: Sequence[Disclosure] = field(repr=False)
    trouble: tuple[str, ...] = ()
    """Why sums were not answered, each reason once."""
    hands_models: bool = False


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
    judge = (lambda offer: 0) if Functionality.CHOICE in load.needs else None
    setup = Setup(
        run, zero, everybody, workers, entropy, tap, embedders=embedders, checks_once=False, starts_apart=apart, judge=judge
    )
    view = cast(ServerView, protection.open(setup))  # that it gives what is played, whoever asks has checked
    opened = Phase(view.record.costs, time.perf_counter() - started)
    clusters = {name: Cluster(members, INITIAL) for name, members in load.members.items()}
    remembered: dict[str, Remembered] = {}
    met: set[Pair] = set()
    rounds = []
    for t in range(load.rounds):
        before, started = view.record.costs, time.perf_counter()
        phase, clusters = played_round(view, load, t, clusters, remembered, met)
        costs = {i: cost - before.get(i, Cost()) for i, cost in view.record.costs.items()}
        rounds.append(replace(phase, costs=costs, seconds=time.perf_counter() - started))
        tell((t + 1) / load.rounds)
    own = load.needs & {Functionality.PERSONAL_SUMS, Functionality.FUSION}
    hands = view.owner == "server" and not own
    return MeasuredCost(protection, opened, tuple(rounds), view.record.log, tuple(_trouble(view)), hands)


def random_work(protection: Protection, load: Workload, job: LocalJob) -> LocalWork:
    """A client's work in a round: a function of both, normal, of l2 norm near `NORM`, and within the protection's clip.

    In slots it is in one of them, chosen at random, with a share of 1. All have as many samples: none outweighs the floor.
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
    return LocalWork(vector, min(_SAMPLES, getattr(protection, "max_samples", _SAMPLES)))


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
    shut = {b.shut for b in record.below_floor if b.shut}
    below = [(len(b.clients), b.floor) for b in record.below_floor if not b.shut and len(b.clients) < b.floor]
    few = {f"{count} client{'s are' if count != 1 else ' is'} below the floor of {floor}" for count, floor in below}
    return sorted(few | shut | {fault.reason for fault in record.faults})
