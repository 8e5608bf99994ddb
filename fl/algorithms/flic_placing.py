"""Where FLIC places clients that no community has yet: among the models that there are, or together."""

from collections.abc import Mapping
from dataclasses import replace

from ...protocol.view.answers import Model
from ...protocol.view.asks import Choices
from .algorithm import Cluster
from .flic_state import State


def placed(state: State, view: Choices) -> State:
    """Every waiting client that answers joins the community whose model it says serves it best.

    Where all are alone, those that wait are a community of their own, whose model is the one that all began with.
    """
    offered = {name: c.model for name, c in state.clusters.items() if not c.alone}
    if not offered and state.first is not None:
        late = Cluster(state.waiting, state.first, state.round)
        return replace(state, clusters={**state.clusters, f"late {state.round}": late}, waiting=())
    chosen = view.choose(state.round - 1, offered, state.waiting) if offered else {}
    clusters = {
        name: replace(c, members=tuple(sorted({*c.members, *(i for i, best in chosen.items() if best == name)})))
        for name, c in state.clusters.items()
    }
    return replace(state, clusters=clusters, waiting=tuple(i for i in state.waiting if i not in chosen))


def begun_with(state: State, clusters: Mapping[str, Cluster]) -> Model | None:
    """The model that communities began with, where all clients are alone; clusters: before these have trained."""
    if not all(c.alone for c in clusters.values()):
        return None
    shared = [c.model for _, c in sorted(state.clusters.items()) if not c.alone]
    return shared[0] if shared else state.first
