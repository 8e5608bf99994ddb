"""What a round found out about pairs of clients, as a line of a run's log."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

Pair = tuple[int, int]


@runtime_checkable
class Compared(Protocol):
    """A state of clients that are compared two by two, each pair once: what was found only ever grows."""

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


def newly_compared(before: object, after: object, round: int) -> Iterator[dict[str, Any]]:
    """One line, of the pairs that the state `after` knows and `before` did not; none where nothing is new, or ever compared.

    A pair is [client, other, whether client accepts other, W - tau or null where it was not kept].
    """
    if not isinstance(before, Compared) or not isinstance(after, Compared):
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
