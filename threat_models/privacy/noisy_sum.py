"""The audit of noisy sums: the distributed discrete Gaussian as clients of a masked sum add it, and the server decodes it.

Each trial is `ROUNDS` sums of all clients. A client takes its place in a sum by its own ledger (`SumSpending.joining`) and
encodes its update (`SumSpending.put_in`: clip, rotation, rounding, noise); the inputs are added up, which is what a masked sum
opens, and the server decodes the total (`NoisySum.decode`). The masks are left out: they cancel exactly, for every input.
"""

from collections.abc import Callable
from functools import reduce

import numpy as np

from ...crypto.entropy import SimulatedEntropy
from ...protocol.core.session import Session
from ...protocol.masked.cohorts import Cohorts
from ...protocol.masked.noisy_sums import NoisySum
from ...protocol.masked.server_phases import Unmasked
from ...protocol.masked.spending import SumSpending
from ...protocol.masked.terms import Plan, Ring, SumTerms
from ...protocol.parts.charter import Charter, NoiseTerms, Numbers
from ...protocol.parts.gate import Rules
from ...protocol.view.answers import Vector
from ...protocol.view.work import LocalWork
from . import names
from .bound import Floats
from .mechanism import Mechanism

NAME = names.NOISY_SUM
ROUNDS = 2
CLIENTS = (1, 2, 3)
AUDITED = CLIENTS[0]
D = 12
FAR = 50.0
"""Norm of the audited client's update over the clip."""


def charter(epsilon: float = 10.0, delta: float = 1e-5) -> Charter:
    """What the clients agreed on: a budget of epsilon for the updates of a client in all rounds together, replaced by zeros."""
    noise = NoiseTerms(epsilon, delta, ROUNDS, 1.0, "zero out", 1e-6)
    enrolled = {i: bytes(32) for i in CLIENTS}
    return Charter(bytes(range(16)), bytes(32), Numbers(D, 32, 1.0, 100, Rules(2), noise), 0.0, enrolled)


def plan(agreed: Charter, round: int) -> Plan:
    """The sum of a round, as the server proposes it."""
    cohorts = Cohorts.of(agreed)
    if cohorts is None:
        raise ValueError("a charter without noise has no noisy sums")
    p = cohorts.parameters(len(CLIENTS))
    session = Session(p.protocol, agreed.run, round, "root", CLIENTS, cohorts.threshold(len(CLIENTS)))
    neighbours = len(CLIENTS) - 1
    size = (p.ring_bits, p.length, p.bits, p.grid.clip, 1)
    return Plan.of(session, SumTerms(*size, neighbours, neighbours, bytes(32), agreed.initial), agreed)


def update(client: int, round: int, neighbour: bool) -> Vector:
    """float32 (D,). The audited client's is far outside of the clip, one way and then the other, or zeros; others' are within."""
    if client != AUDITED:
        return np.full(D, 0.1 * client / D, np.float32)
    direction = np.random.default_rng(7).standard_normal(D)
    length = FAR * (-1) ** round if neighbour else 0.0
    return (length * direction / np.linalg.norm(direction)).astype(np.float32)


def joined(agreed: Charter) -> tuple[tuple[Plan, dict[int, SumSpending]], ...]:
    """The sums of all rounds, with what each client spends on them. Raises ValueError where a client would not take part."""
    spending = {i: SumSpending.of(agreed, i) for i in CLIENTS}
    found = []
    for round in range(ROUNDS):
        proposed = plan(agreed, round)
        inside: dict[int, SumSpending] = {}
        for i, before in spending.items():
            own = "no noise was agreed on" if before is None else before.joining(proposed, {})
            if isinstance(own, str):
                raise ValueError(own)
            inside[i], spending[i] = own, own.agreed(len(CLIENTS))
        found.append((proposed, inside))
    return tuple(found)


def inputs(spending: dict[int, SumSpending], update_of: Callable[[int], Vector], seed: int) -> dict[int, Ring]:
    """What each client puts into the sum. Raises ValueError where one would put nothing in."""
    entropy, found = SimulatedEntropy(seed), {}
    for i, own in spending.items():
        ring = own.put_in(LocalWork(update_of(i), 10), entropy)
        if isinstance(ring, str):
            raise ValueError(ring)
        found[i] = ring
    return found


def noisy_sum() -> Mechanism:
    """Unit: a client; its updates of both rounds are replaced by zeros. The claim is its ledger's, after both sums."""
    sums = joined(charter())
    spent = sums[-1][1][AUDITED].agreed(len(CLIENTS)).ledger

    def play(neighbour: bool, seed: int, /) -> Floats:
        seen = []
        for round, (proposed, inside) in enumerate(sums):
            rings = inputs(inside, lambda i, round=round: update(i, round, neighbour), seed)  # type: ignore[misc]
            total = reduce(np.add, rings.values())  # modulo the ring
            places = {i: own.place for i, own in inside.items() if own.place is not None}
            decoded = NoisySum(places[AUDITED].parameters, places).decode(Unmasked(proposed.session, total, CLIENTS, ()), 1.0)
            seen.append(decoded.mean.astype(np.float64))
        return np.concatenate(seen)

    return Mechanism(NAME, spent.spent, spent.delta, True, "GDP", play, unit=spent.unit)
