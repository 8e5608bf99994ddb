"""The neighbour graph of SecAgg+ and its parameters (Bell, Bonawitz, Gascon, Lepoint, Raykova 2020).

Each client masks with k neighbours, who also hold the shares of its secrets, t of which recover them. The graph is a ring in
a random order where everyone is joined to the k/2 next on either side (a Harary graph with permuted nodes), so that its
chance of falling apart has a short proof; for few clients it is complete. A client finds its neighbours in O(n), all clients
together in O(n k), from the seed alone and without a library whose next version might draw another graph.

Failure of a random graph is counted per drawn graph. Whoever can redraw the seed q times gains a factor q, so the seed must
bind what every client committed to, not only what the server chose. Who is corrupt must not depend on the graph.
"""

import math
import operator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...crypto.prg import derive_key, random_permutation

Dropouts = Literal["independent", "chosen"]

COMPLETE_UP_TO = 32
"""So few clients are all neighbours: it costs little, and shares of the clients say little about so few."""


GRINDING = 2.0**-80
"""How unlikely a graph that leaks is: a server that draws the seed anew 2^40 times finds one with a chance of 2^-40."""


@dataclass(frozen=True, slots=True)
class GraphParameters:
    """neighbours (k) per client, not counting itself; threshold (t) of them that recover its secrets.

    corrupt: corrupt neighbours that no client exceeds, but with probability `privacy`. privacy, correctness: bounds on the
    probability that the graph leaks, and that a secret cannot be recovered; both over all clients.
    """

    clients: int
    neighbours: int
    threshold: int
    corrupt: int
    privacy: float
    correctness: float

    @property
    def complete(self) -> bool:
        return self.neighbours == self.clients - 1

    @property
    def least_group(self) -> int:
        """Honest clients, at least, in any sum that a server can open, whichever dropouts it claims.

        A client whose self mask is recovered has t surviving neighbours, `corrupt` of them corrupt at most; its pair masks
        with the other t - corrupt stay closed, so it is only seen in a sum with them.
        """
        return self.threshold - self.corrupt + 1


@dataclass(frozen=True, slots=True, eq=False)
class MaskingGraph:
    """Who masks with whom. order: int64, shape (n,), the clients around the ring. Made by `masking_graph`."""

    degree: int
    order: NDArray[np.int64] = field(repr=False)
    places: dict[int, int] = field(repr=False)

    def neighbours(self, client: int) -> tuple[int, ...]:
        """The client's neighbours, ascending. Raises KeyError for a client that is not in the roster."""
        place, n = self.places[client], len(self.order)
        if self.degree == n - 1:
            return tuple(sorted(i for i in self.places if i != client))
        half = self.degree // 2
        offsets = np.concatenate([np.arange(-half, 0), np.arange(1, half + 1)])
        return tuple(sorted(self.order[(place + offsets) % n].tolist()))


def masking_graph(seed: bytes, roster: tuple[int, ...], degree: int) -> MaskingGraph:
    """The graph of this seed, the same for everyone. seed: 16 bytes or more, public. degree: even, or len(roster) - 1."""
    n = len(roster)
    if not 1 <= degree <= n - 1 or (degree % 2 and degree != n - 1):
        raise ValueError(f"a masking graph of {n} clients has an even degree below {n} or degree {n - 1}, not {degree}")
    if len(set(roster)) != n:
        raise ValueError("a roster lists each client once")
    order = np.array(roster, np.int64)[random_permutation(derive_key(seed, "masking graph", b""), n)]
    return MaskingGraph(degree, order, {client: place for place, client in enumerate(order.tolist())})


@lru_cache(maxsize=256)
def agreed(clients: int, corrupt: int, dropped: float) -> GraphParameters:
    """What a sum's clients and its server each find for themselves, from numbers that all know before the run. Raises ValueError.

    Against a server that lies, and chooses the graph's seed. corrupt: clients of the run, all of whom may be in this sum.
    """
    return solve(clients, corrupt, dropped, privacy=GRINDING, malicious=True)


def fewest(least: int, corrupt: int, dropped: float) -> int:
    """The fewest clients, at least `least`, from which on any number can be masked (`agreed`); `least` itself where none can.

    Thresholds are whole numbers, so that n clients may have one where n + 1 have none.
    """
    if dropped >= 0.5:
        return least
    most = math.ceil((corrupt + 4) / (1 - 2 * dropped))  # from here on what is reached is always above half of n + corrupt
    lacking = (n for n in range(most, corrupt, -1) if operator.gt(*_thresholds(n, corrupt, dropped, malicious=True)))
    return max(2, least, next(lacking, corrupt) + 1)


def _thresholds(clients: int, corrupt: int, dropped: float, malicious: bool) -> tuple[int, int]:
    """The least and the largest that all clients as neighbours would leave; none where the one is above the other."""
    gone = math.floor(dropped * clients + 1e-9)
    return ((clients - 1 + corrupt) // 2 if malicious else corrupt) + 1, clients - 1 - gone


def solve(
    clients: int,
    corrupt: int,
    dropped: float,
    privacy: float = 2**-40,
    correctness: float = 2**-20,
    malicious: bool = False,
    dropouts: Dropouts = "independent",
) -> GraphParameters:
    """The fewest neighbours, and a threshold for them. corrupt: clients among these; dropped: largest share of them (delta).

    Corrupt clients that fall silent count as dropped.

    With hypergeometric tails and a union bound over clients:
    - semi-honest: no client has t corrupt neighbours;
    - malicious: no client has 2t - k, so that no two survivor sets both find t signatures among its neighbours;
    - the honest survivors are connected, where who drops out is independent of the graph (`disconnected`), or chosen by a
      malicious server that knows it: a cut leaves two clients next to k/2 places without honest survivors; both still need
      t surviving neighbours, so 2t - k of these k places are corrupt, whoever is said to have dropped out;
    - every client has t surviving neighbours.
    Where several thresholds do, the (upper) middle one; up to 32 clients the complete graph. Raises ValueError that says why
    there is none.
    """
    if clients < 2 or not 0 <= corrupt < clients:
        raise ValueError(f"a sum is of 2 clients or more, and fewer of them corrupt, not of {clients} with {corrupt} corrupt")
    if not 0 <= dropped < 1:
        raise ValueError(f"dropped is a share from 0 to below 1, not {dropped}")
    if not (0 < privacy < 1 and 0 < correctness < 1):
        raise ValueError(f"privacy and correctness are probabilities in (0, 1), not {privacy} and {correctness}")
    if dropouts == "chosen" and not malicious:
        raise ValueError("dropouts are chosen by a malicious server; set malicious=True")
    bad, gone = corrupt, math.floor(dropped * clients + 1e-9)
    least, most = _thresholds(clients, bad, dropped, malicious)
    if least > most:
        raise ValueError(
            f"{clients} clients with {bad} corrupt and {gone} dropped: even if all are neighbours, a threshold is at least "
            f"{least} {'against a malicious server' if malicious else 'to keep the secrets'} and at most {most} "
            f"to survive the dropouts"
        )
    log_factorials = np.array([math.lgamma(x + 1.0) for x in range(clients + 1)])  # scipy's takes a client .4 s to import
    for k in range(2, clients - 1, 2) if clients > COMPLETE_UP_TO else ():
        t = np.arange(1, k + 1)
        limit = np.maximum(2 * t - k if malicious else t, 0)  # P[X >= 0] = 1 refuses what is not a limit
        corrupt_tail = clients * _tail(log_factorials, clients - 1, bad, k)
        lost = clients * _tail(log_factorials, clients - 1, gone, k)[k - t + 1]
        if dropouts == "chosen":
            cut = math.comb(clients, 2) * _tail(log_factorials, clients, bad, k)[limit]
        else:
            cut = np.full(k, disconnected(clients, min(bad + gone, clients), k))
        leaked = corrupt_tail[limit] + cut
        (good,) = np.nonzero((leaked <= privacy) & (lost <= correctness))
        if len(good):
            at = good[len(good) // 2]
            unlikely = int(np.argmax(corrupt_tail <= privacy))
            return GraphParameters(clients, k, int(t[at]), unlikely - 1, float(leaked[at]), float(lost[at]))
    return GraphParameters(clients, clients - 1, (least + most + 1) // 2, bad, 0.0, 0.0)


def disconnected(clients: int, missing: int, degree: int) -> float:
    """Bound on the probability that the clients who are not `missing` (at random) fall apart in the permuted ring.

    They do only if two disjoint stretches of degree/2 ring places have none of them: choose where the two begin, and the
    `degree` places all belong to the missing ones.
    """
    if missing < degree:
        return 0.0
    places = math.lgamma(missing + 1) - math.lgamma(missing - degree + 1)
    return math.comb(clients, 2) * math.exp(places - math.lgamma(clients + 1) + math.lgamma(clients - degree + 1))


def _tail(log_factorials: NDArray[np.float64], population: int, marked: int, drawn: int) -> NDArray[np.float64]:
    """float64, shape (drawn + 2,): P[X >= x] of the hypergeometric X, marked ones among `drawn`, for x = 0 .. drawn + 1."""
    marked = min(marked, population)
    tail = np.zeros(drawn + 2)
    first, last = max(0, drawn - (population - marked)), min(drawn, marked)
    x = np.arange(first, last + 1)
    f = log_factorials
    log_pmf = f[marked] - f[x] - f[marked - x] + f[population - marked] - f[drawn - x] - f[population - marked - drawn + x]
    pmf = np.exp(log_pmf - f[population] + f[drawn] + f[population - drawn])
    tail[first : last + 1] = np.cumsum(pmf[::-1])[::-1]
    tail[:first] = 1.0
    return tail
