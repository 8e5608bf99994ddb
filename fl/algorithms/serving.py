"""Who is served by what after a grouping of the hardened FLIC, and what may be gone back to at the next."""

from collections.abc import Mapping

from ...protocol.answers import Model
from .algorithm import Cluster
from .hardened_state import State


def serving(
    client: int,
    groups: Mapping[str, tuple[int, ...]],
    start: Mapping[str, str],
    made: Mapping[str, set[int]],
    best: str | None,
) -> str | None:
    """The group that serves a client, or the name of the model that it keeps; None if it waits.

    best: what it chose. made: who contributed to each current model; empty at the first grouping, where groups differ in their
    updates alone. A client has its own group, unless it chose another model than that goes on with. Then it is served by those
    who made what it chose, if they go on with it and its own group had no part in it, and otherwise by just that model, as it is:
    whoever starts from a good model may be about to ruin it. A client without a group waits where several start from what it
    chose and nobody tells them apart.
    """
    own = next((name for name, group in groups.items() if client in group), None)
    if best is None or (own is not None and (not made or best == start[own])):
        return own
    makers = made.get(best, set())
    others = [name for name in groups if start[name] == best]
    if own is not None:
        others = [name for name in others if makers & set(groups[name]) and not makers & set(groups[own])]
    elif len(others) > 1 and not makers:
        return None
    return max(others, key=lambda name: len(makers & set(groups[name]))) if others else best if made else None


def anchors_after(state: State, clusters: Mapping[str, Cluster]) -> dict[str, Model]:
    """What a community may go back to at the next grouping: what it starts from now, and the first model of all."""
    first = {"round 0": state.anchors["round 0"]}
    return first | {f"{name} in round {state.round}": cluster.model for name, cluster in clusters.items()}
