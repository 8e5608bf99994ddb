"""What a round found out about pairs of clients, as a line of a run's log."""

from collections.abc import Iterator, Mapping, Sequence
from math import comb
from typing import Any, Protocol, runtime_checkable

Pair = tuple[int, int]


@runtime_checkable
class PairwiseState(Protocol):
    """A state of clients that are compared two by two, each pair until it is decided: what was found only ever grows."""

    @property
    def clusters(self) -> Mapping[str, Any]:
        """By name: what has `members`."""
        ...

    @property
    def accepts(self) -> Mapping[Pair, bool]:
        """Whether the first accepts the second."""
        ...

    @property
    def distances(self) -> Mapping[Pair, float]:
        """W - tau, where it is known."""
        ...

    @property
    def lost(self) -> Sequence[Pair]:
        """Pairs that will never be decided."""
        ...

    @property
    def eps(self) -> float | None:
        """The tolerance, once it is known."""
        ...


def undecided(state: object) -> dict[str, int] | None:
    """What is not known of pairs at the end, for a run's summary; None where clients were not compared.

    pairs: of all clients that are in clusters. decided: both sides are known. lost: never will be. apart: pairs of clusters of
    which no two clients were compared, so that they may belong together.
    """
    if not isinstance(state, PairwiseState):
        return None
    clusters = [cluster.members for cluster in state.clusters.values()]
    decided = {pair for pair in state.accepts if pair[0] < pair[1] and pair[::-1] in state.accepts}
    home = {i: name for name, members in enumerate(clusters) for i in members}
    met = {frozenset((home[a], home[b])) for a, b in decided if home[a] != home[b]}
    return {
        "pairs": comb(len(home), 2),
        "decided": len(decided),
        "lost": len(state.lost),
        "apart": comb(len(clusters), 2) - len(met),
    }


def newly_compared(before: object, after: object, round: int) -> Iterator[dict[str, Any]]:
    """One line, of the pairs that the state `after` knows and `before` did not; none where nothing is new, or ever compared.

    A pair is [client, other, whether client accepts other, W - tau or null where it was not kept].
    """
    if not isinstance(before, PairwiseState) or not isinstance(after, PairwiseState):
        return
    pairs = [
        [i, j, edge, _rounded(after.distances.get((i, j)))]
        for (i, j), edge in sorted(after.accepts.items())
        if (i, j) not in before.accepts
    ]
    lost = [list(pair) for pair in after.lost if pair not in before.lost]
    if pairs or lost:
        yield {"round": round, "eps": after.eps, "pairs": pairs, "lost": lost}


def _rounded(excess: float | None) -> float | None:
    """To six digits, as logs go."""
    return None if excess is None else float(f"{excess:.6g}")
