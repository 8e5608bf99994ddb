"""One round as an algorithm with given needs plays it, where a protection's cost is measured.

What is played is what an algorithm needs: per round and cluster a session of work, one mean and, where it compares updates,
one Gram matrix, about the origin where it needs that; updates of the first round are remembered, or kept as those of a split,
and those of later rounds compared with them, where it needs that; those of the first round are recalled in the last one, where
it needs that. An algorithm that asks for similarities in some rounds alone costs less than that in the others. Where it has
clients choose, all are offered the clusters' models at the end of each round, of one cluster two: one that asks in some rounds
alone costs less, and one that offers more models more. Where it needs slots, one session of slots for each cluster instead, in
which every client chooses one; where it needs personal sums, one for every client of the cluster in place of the mean; where it
needs fusion, a pull for each, from the second round on (`fusion`). Where it compares pairs of clients, all of them once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...protocol.view.answers import Assignment, BelowFloor, Cost, Gram, Remembered, Sum, Updates, Weights
from ...protocol.view.asks import ServerView
from ...protocol.view.functionality import Functionality
from ..algorithms.algorithm import Cluster, advanced, mean_of
from .fusion import fusion_round
from .pairs import Pair
from .pairs import compared as compare_pairs
from .workload import Workload


@dataclass(frozen=True, slots=True)
class Phase:
    """What one round, or opening the view, cost each party. seconds: on the clock, drawing vectors included.

    summed, compared: clients in the published sums and in the Gram matrices. unsummed: clusters, or receivers, without a sum.
    pairs: decided.
    """

    costs: Mapping[int, Cost]
    seconds: float
    summed: int = 0
    compared: int = 0
    unsummed: int = 0
    pairs: int = 0


def played_round(
    view: ServerView, load: Workload, t: int, clusters: dict[str, Cluster], remembered: dict[str, Remembered], met: set[Pair]
) -> tuple[Phase, dict[str, Cluster]]:
    """One round as an algorithm with these needs plays it; fills `remembered` in the first, and `met` with pairs."""
    work = {name: Assignment(c.model, c.members, c.members) for name, c in clusters.items()}
    if Functionality.SLOTS in load.needs:
        return _slots_round(view, load, t, clusters)
    if Functionality.FUSION in load.needs:
        summed, unsummed = fusion_round(view, t, clusters, remembered)
        return Phase({}, 0.0, summed, 0, unsummed), clusters
    answers: Mapping[str, Sum | BelowFloor] = {}
    personal: list[Sum | BelowFloor] = []
    compared, decided, grams = 0, 0, dict[str, Gram]()
    settled = load.pairs is not None and len(met) == load.clients * (load.clients - 1) // 2
    if load.needs == {Functionality.SUMS} or settled:
        answers = view.train_and_sum(t, work, {name: mean_of(a.members, load.by_samples) for name, a in work.items()})
    else:
        updates = view.train(t, work)
        gradients = view.train(t, work, "gradient") if load.compared == "gradient" else updates
        if load.pairs is not None:
            decided = compare_pairs(view, load.pairs, t, work, updates, met)
        if Functionality.PERSONAL_SUMS in load.needs:
            personal = [answer for handle in updates.values() for answer in _personal(view, handle)]
        else:
            answers = {name: _mean(view, load, handle) for name, handle in updates.items()}
        by_norms = load.energy and not view.tells_energy  # CFL has them from a matrix about the origin then
        origin = by_norms or bool(load.needs & {Functionality.GRAM_ORIGIN, Functionality.GRAM_HISTORY})
        if by_norms and load.compared == "gradient":
            compared = sum(len(view.gram(handle, origin=True).clients) for handle in updates.values())
        if origin or Functionality.GRAM in load.needs:
            about = origin and not (by_norms and load.compared == "gradient")
            grams = {name: view.gram(handle, origin=about) for name, handle in gradients.items()}
            compared += sum(len(gram.clients) for gram in grams.values())
        across = load.needs & {Functionality.GRAM_REMEMBER, Functionality.GRAM_EDGE}
        for name, handle in updates.items() if across else ():
            known = grams.get(name) if load.compared == "update" else None
            known = view.gram(handle, origin=origin) if known is None else known  # who is in it can be compared
            _remember(view, load, name, replace(handle, clients=known.clients), remembered)
        if Functionality.GRAM_RECALL in load.needs:
            compared += _recall(view, load, t, updates, remembered)
        for name in updates if Functionality.GRAM_HISTORY in load.needs else ():
            _accumulate(view, name, replace(gradients[name], clients=grams[name].clients), remembered)
    before, clusters = clusters, {name: advanced(view, c, answers.get(name)) for name, c in clusters.items()}
    if Functionality.CHOICE in load.needs:
        _choose(view, t, before, clusters)
    view.harness.retire([c.model for c in clusters.values()], remembered.values())
    asked = personal or list(answers.values())
    sums = [answer for answer in asked if isinstance(answer, Sum)]
    summed = sum(len(answer.clients) for answer in sums)
    return Phase({}, 0.0, summed, compared, max(len(asked), len(clusters)) - len(sums), decided), clusters


def _slots_round(view: ServerView, load: Workload, t: int, clusters: dict[str, Cluster]) -> tuple[Phase, dict[str, Cluster]]:
    """All slots of a cluster start from one model, and the first that is opened moves it: what they hold costs nothing."""
    answers = {}
    for name, cluster in clusters.items():
        others = (cluster.model,) * (load.slots - 1)
        answers[name] = view.slots(t, name, Assignment(cluster.model, cluster.members, cluster.members, others))
    summed = {name: [one for one in found if isinstance(one, Sum)] for name, found in answers.items()}
    moved = {name: advanced(view, c, next(iter(summed[name]), None)) for name, c in clusters.items()}
    view.harness.retire([c.model for c in moved.values()], [])
    clients = sum(len({i for one in found for i in one.clients}) for found in summed.values())
    return Phase({}, 0.0, clients, 0, sum(not found for found in summed.values())), moved


def _choose(view: ServerView, t: int, before: Mapping[str, Cluster], now: Mapping[str, Cluster]) -> None:
    """Offer all clients the clusters' models; of one cluster what it had before, and has now."""
    models = {name: c.model for name, c in now.items()}
    if len(now) == 1:
        models = {f"{name} before": c.model for name, c in before.items()} | models
    everybody = sorted(i for c in now.values() for i in c.members)
    if len({model.name for model in models.values()}) > 1:  # where nothing moved there is nothing to choose
        view.choose(t, models, everybody)


def _mean(view: ServerView, load: Workload, updates: Updates) -> Sum | BelowFloor:
    if Functionality.COORDINATES in load.needs:
        return view.coordinates(updates, updates.cluster, lambda rows: np.median(rows, axis=0).astype(np.float32))
    weights = replace(mean_of(updates.clients, load.by_samples), energy=load.energy and view.tells_energy)
    return view.sums(updates, {updates.cluster: weights})[updates.cluster]


def _personal(view: ServerView, updates: Updates) -> list[Sum | BelowFloor]:
    """For each client the mean of all updates, in which its own counts twice."""
    rows = {r: Weights({i: 2.0 if i == r else 1.0 for i in updates.clients}) for r in updates.clients}
    return list(view.personal_sums(updates, rows).values())


def _remember(view: ServerView, load: Workload, name: str, updates: Updates, remembered: dict[str, Remembered]) -> None:
    """Compare with what is remembered of the cluster; remember these updates if there is nothing yet.

    With the edge of a split only who comes later is compared, and everybody is there: one sketch each, as in a Gram matrix.
    """
    if Functionality.GRAM_EDGE in load.needs:
        if name not in remembered and updates.clients:
            remembered[name] = view.edge(updates, updates.clients)
    elif name in remembered:
        view.cosines(updates, remembered[name])
    elif updates.clients:
        remembered[name] = view.remember(updates, updates.clients)


def _recall(view: ServerView, load: Workload, t: int, updates: Mapping[str, Updates], remembered: dict[str, Remembered]) -> int:
    """Have every client keep its first update; recall them in the last round. How many clients were compared."""
    for name, handle in updates.items():
        kept = {i for one in remembered.values() for i in one.clients}
        if fresh := tuple(i for i in handle.clients if i not in kept):
            remembered[f"{name}/kept {t}"] = view.keep(handle, fresh)
    return len(view.recall(t, list(remembered.values())).clients) if t == load.rounds - 1 and remembered else 0


def _accumulate(view: ServerView, name: str, updates: Updates, remembered: dict[str, Remembered]) -> None:
    """Add to what is remembered of the cluster's clients, and compare that with these updates."""
    kept = f"{name}/sums"
    remembered[kept] = view.accumulate(updates, dict.fromkeys(updates.clients, 1.0), remembered.get(kept))
    view.gram_with(updates, remembered[kept])
