"""Answers that have no noise, and what they do to an epsilon about the same data: it holds no longer for all that is told.

An epsilon bounds what its own releases tell. A noise-free answer about the same data beside them has no epsilon at all, so
together there is none. Such a run is refused, unless the noise names each of these answers (`acknowledge`); the names then stand
in the ledger, and beside the epsilon wherever it is shown.
"""

from collections.abc import Iterable

from ..core.errors import Refused
from .functionality import NOISE_FREE, NUMBER_OF_EXAMPLES


def check_names(names: Iterable[str]) -> None:
    """Raises ValueError for a name that no answer has."""
    if isinstance(names, str):
        raise ValueError(f"acknowledge takes several names: acknowledge=({names!r},)")
    for name in names:
        if name not in NOISE_FREE:
            raise ValueError(f"{name!r} is no answer that could be acknowledged; there are: {', '.join(NOISE_FREE)}")


def check_acknowledged(asked: Iterable[str], acknowledged: Iterable[str], noise: str, epsilon: str) -> None:
    """Raises Refused unless every noise-free answer among those asked is acknowledged.

    asked: functionalities, and further names of `NOISE_FREE`, without those that the noise covers; what tells nothing about
    clients' data is passed over. noise: where the noise is set. epsilon: what the noise's epsilon is of, in words.
    """
    free = [name for name in NOISE_FREE if name in {str(each) for each in asked} and name not in set(acknowledged)]
    if free:
        told = "; ".join(f"{name} ({NOISE_FREE[name]})" for name in free)
        other = "" if free == [NUMBER_OF_EXAMPLES] else "take an algorithm that asks for none of it, or "  # all are told that
        raise Refused(
            f"the epsilon of {epsilon} would be void: beside them is released, without noise of this claim, {told}; {other}let"
            f" the epsilon be shown as leaving it out: {noise}.acknowledge={(*acknowledged, *free)!r}"
        )


def left_out(acknowledged: Iterable[str]) -> str:
    """The sentence that stands beside an epsilon; empty where nothing was acknowledged."""
    names = list(acknowledged)
    if not names:
        return ""
    told = "what clients release of it is" if len(names) == 1 else "what clients release of these is"
    return f"it leaves out {', '.join(names)}: {told} without noise, about the same data, and not private (acknowledged)"
