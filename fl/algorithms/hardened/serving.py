"""Who trains and who is served by what after a choice of the hardened FLIC, and what may be gone back to at the next."""

from collections.abc import Mapping
from dataclasses import replace

from ....protocol.view.answers import Model
from ..algorithm import Cluster
from .choices import blocks, going_on, likeness_to
from .forks import by_evidence
from .state import FIRST, Anchor, State


def current(state: State) -> dict[str, str]:
    """The communities by the names under which their models are offered."""
    return {f"{name}'s model": name for name in state.contributors}


def offers(state: State, every: int) -> dict[str, Model]:
    """What clients choose among: all communities' models, those that are `every` rounds old or more, and the first of all.

    In the order in which clients prefer them when they can tell no difference: of the largest community first.
    """
    largest = sorted(current(state).items(), key=lambda offered: len(state.contributors[offered[1]]), reverse=True)
    models = {offer: state.clusters[name].model for offer, name in largest}
    old = {name: anchor.model for name, anchor in state.anchors.items() if name == FIRST or state.round - anchor.round >= every}
    return models | {name: model for name, model in old.items() if model not in models.values()}


def regrouped(state: State, chosen: Mapping[int, str], offered: Mapping[str, Model], least: int, every: int) -> State:
    """The state in which everybody is where it chose to be, or, without a word from it, where it was.

    Those who train one model are parted where the evidence parts them, each part with a copy of its own. Who chose an earlier
    model that nobody goes on with has it as it is. least: fewest clients of a community.
    """
    everybody, today = state.everybody, current(state)
    own = {i: offer for offer, name in today.items() for i in state.contributors[name]}
    votes = {i: vote for i in everybody if (vote := chosen.get(i, own.get(i))) is not None}
    models = going_on(votes, list(today), list(offered), len(everybody), least)
    origin = {offer: state.forks.get(name, "") for offer, name in today.items()}
    kin = {offer: [o for o in today if origin[o] and origin[o] == origin[offer]] for offer in today}
    clusters: dict[str, Cluster] = {}
    contributors: dict[str, tuple[int, ...]] = {}
    names = state.names
    for model, block in blocks(everybody, votes, own, kin, models, state.evidence).items():
        for part in _parts(state, block, least, state.contributors.get(today.get(model, ""), ())):
            names += 1
            label = f"community {names}"
            served = tuple(i for i in part if (vote := votes.get(i)) == model or (vote in today and vote not in models))
            clusters[label] = Cluster(served, offered[model], state.round)
            contributors[label] = part
    has = {i for cluster in clusters.values() for i in cluster.members}
    for model in offered:
        keepers = tuple(i for i in everybody if i not in has and votes.get(i) == model)
        if keepers:
            clusters[f"kept, {model}"] = Cluster(keepers, offered[model], state.round)
    return replace(
        state,
        clusters=clusters,
        contributors=contributors,
        anchors=_anchors(state, {n: Anchor(clusters[n].model, state.round) for n in contributors}, every),
        forks={},
        waiting=tuple(i for i in everybody if i not in votes),
        names=names,
    )


def moved(state: State, chosen: Mapping[int, str], offered: Mapping[str, Model]) -> State:
    """The state in which these clients are where they chose to be: in a community, or with an earlier model as it is.

    Who is known to work against a community has its model, and trains where it did.
    """
    today = current(state)
    clusters = {n: replace(c, members=tuple(i for i in c.members if i not in chosen)) for n, c in state.clusters.items()}
    contributors = dict(state.contributors)
    for client, offer in sorted(chosen.items()):
        name = today.get(offer, f"kept, {offer}")
        if offer in today and likeness_to(state.evidence, client, contributors[name]) >= 0:
            contributors = {n: tuple(sorted({*group} - {client})) for n, group in contributors.items()}
            contributors[name] = tuple(sorted({*contributors[name], client}))
        before = clusters.get(name, Cluster((), offered[offer], state.round))
        clusters[name] = replace(before, members=tuple(sorted({*before.members, client})))
    clusters = {name: c for name, c in clusters.items() if c.members or contributors.get(name)}
    contributors = {name: group for name, group in contributors.items() if name in clusters}
    return replace(state, clusters=clusters, contributors=contributors, waiting=tuple(sorted({*state.waiting} - {*chosen})))


def _parts(state: State, block: tuple[int, ...], least: int, makers: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The block as the evidence parts it; parts that are too small stay with the largest, which sees to them in its rounds.

    makers: of the model that the block goes on with: who has not been seen yet trains with them.
    """
    if not block:
        return []
    _, *others = sorted(by_evidence(state.evidence, block, makers), key=len, reverse=True)
    apart = [part for part in others if len(part) >= least]
    return [tuple(sorted({*block} - {i for part in apart for i in part})), *apart]


def _anchors(state: State, today: Mapping[str, Anchor], every: int) -> dict[str, Anchor]:
    """The first model, and those that communities went on from at the last two choices that were `every` rounds apart or more."""
    times = sorted({anchor.round for name, anchor in state.anchors.items() if name != FIRST})
    if times and state.round - times[-1] < every:
        return dict(state.anchors)
    kept = {name: a for name, a in state.anchors.items() if name == FIRST or a.round == times[-1]}
    return kept | {f"{name} in round {state.round}": anchor for name, anchor in today.items()}
