"""The weights of sums, over the clients that are there."""

from collections.abc import Mapping

from ..view.answers import Weights


def asked(weights: Mapping[str, Weights], samples: Mapping[int, int]) -> dict[str, dict[int, float]]:
    """The non-zero weights of every sum over the clients in `samples`, times their numbers of samples where asked."""
    found: dict[str, dict[int, float]] = {}
    for name, row in weights.items():
        of = {i: row.of[i] * (n if row.times_samples else 1) for i, n in samples.items() if i in row.of}
        found[name] = {i: a for i, a in of.items() if a != 0}
    return found
