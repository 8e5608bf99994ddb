"""What an algorithm gives back is the state that comes next: from one of a user's own another thing is said with its line."""

from typing import cast

from ..algorithms.algorithm import State
from ..functions import Unfit, called

PARTS = ("round", "clusters", "tree", "measured", "models", "remembered")


def as_state(found: object, algorithm: object, method: str, round: int) -> State:
    """The same, of the round that comes next. Raises Unfit, by the method's name, file and line: a state of a round that was
    played already would be played without end.
    """
    of = f"{type(algorithm).__name__}.{called(getattr(type(algorithm), method))}"
    if lacking := [part for part in PARTS if not hasattr(found, part)]:
        raise Unfit(
            f"{of} returned {'None' if found is None else type(found).__name__}, which is no state: it has no {lacking[0]}; give"
            " back the state that comes next, as replace(state, clusters=..., round=state.round + 1) makes it"
        )
    state = cast(State, found)
    if state.round != round:
        raise Unfit(f"{of} returned a state whose round is {state.round!r}, and {round} comes next: round=state.round + 1")
    return state
