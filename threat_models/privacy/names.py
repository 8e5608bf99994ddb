"""Names of the mechanisms that the auditors' own test audits: known, and checked, before anything that computes is imported."""

from collections.abc import Iterable
from difflib import get_close_matches

NOISY_SUM = "distributed discrete Gaussian, two sums"
CENTRAL_SUM = "noise of a trusted server, two sums"
MEAN_SKETCH = "mean sketches of two clients"
CLOUDS_OF_FOUR = "clouds of four clients"
DISTANCES = "distances of two clients"
HEAD_GRADIENTS = "head gradients of two clients"
STACKED = "DP-SGD of many clients at once"
SAMPLED = "DP-SGD of sampled records"
RARE = "DP-SGD of rarely sampled records"
LOOP = "DP-SGD by the reader's loop"

MECHANISMS = (NOISY_SUM, CENTRAL_SUM, MEAN_SKETCH, CLOUDS_OF_FOUR, DISTANCES, HEAD_GRADIENTS, STACKED, SAMPLED, RARE, LOOP)
"""In the order of `self_test.SHIPPED`."""


def check_mechanisms(only: Iterable[str]) -> None:
    """Raise ValueError, with what was perhaps meant and all that there are, for a name that is none of them."""
    if unknown := sorted(set(only) - set(MECHANISMS)):
        near = [name for name in MECHANISMS if unknown[0].lower() in name.lower()] or get_close_matches(unknown[0], MECHANISMS, 1)
        near = near or [name for name in MECHANISMS if _words(unknown[0]) & _words(name)]
        meant = f"did you mean {' or '.join(map(repr, near))}; " if near else ""
        raise ValueError(f"there is no mechanism {unknown[0]!r}; {meant}there are {'; '.join(MECHANISMS)}")


def _words(name: str) -> set[str]:
    """Those that say something, without the ending of many."""
    return {word.strip(",").lower().removesuffix("s") for word in name.split() if len(word) > 3 and word != "clients"}
