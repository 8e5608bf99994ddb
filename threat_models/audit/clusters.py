"""Which clients are in one cluster: found by whoever is not the server, which decides it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

import numpy as np

from ...protocol.core.link import Frame
from ...protocol.core.session import SERVER
from ...protocol.two_servers.messages import KeyShare
from ...protocol.view.answers import COMPUTED
from ...protocol.wire.messages import Task
from .experiment import Anchor, Budget, Evidence, Finding
from .labels import honest
from .participation import clusters_of, rows_of
from .reading import messages
from .scoring import auc
from .truth import Matrix, Truth
from .unread import unread
from .view import CorruptView

DECIDED = "the server decides it"
"""Why nothing is sought of a server: it knows."""
LATE = 0.5
"""Share of a watched run, at its end, whose traffic is looked at: clusters are found on the way."""


@dataclass(frozen=True, slots=True)
class ClusterInference:
    """2 AUC - 1 of each victim, over the other honest clients: does the observer rank those in its cluster above the rest?

    A client's cluster are those of the last published sum that it is in. Who reads frames takes those whom the last session of
    either names or comes from, to be together, and apart from all others. Who watches the links takes clients together whose
    frames of one kind and length follow each other, in the order of their ids. members, others: ranks of pairs that are together,
    and of those that are not.
    """

    name: str = "clusters"
    unit: str = "2 AUC - 1 over the other clients, in a victim's cluster or not"
    side: str = "the ids of all clients"
    source: str = "rosters, sessions, order and length of frames"
    anchor: Anchor = "chance"
    whole_is_all: ClassVar[bool] = True  # everything is what the server decided: 1, and not what a run in clear came to

    def applies(self, evidence: Evidence, /) -> str:
        if reason := unread(evidence):
            return reason
        together = clusters_of(rows_of(evidence.sums.sums))
        if len({*together.values()}) < 2:
            return "no two clusters had sums"
        return DECIDED if SERVER in evidence.view.observer.servers else ""

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        view, near = evidence.view, clusters_of(rows_of(evidence.sums.sums))
        clients = [i for i in honest(view) if i in near]
        ranks = watched(view) if view.observer.network else read(view)
        at = {i: k for k, i in enumerate(view.public.clients)}
        victims, values = list[int](), list[float]()
        members, others = list[float](), list[float]()
        for i in clients:
            mine = [ranks[at[i], at[j]] for j in clients if j != i and j in near[i]]
            rest = [ranks[at[i], at[j]] for j in clients if j not in near[i]]
            if mine and rest:
                victims.append(i)
                values.append(2 * auc(np.array(mine), np.array(rest)).value - 1)
                members, others = members + mine, others + rest
        return Finding(tuple(victims), np.array(values), np.array(members), np.array(others))


def read(view: CorruptView) -> Matrix:
    """1 of pairs that the last session of either has both of, -1 of those that it has one of, 0 of others: (clients, clients)."""
    at = {i: k for k, i in enumerate(view.public.clients)}
    found = np.zeros((len(at), len(at)))
    for together in _sessions(view):
        inside = np.zeros(len(at), bool)
        inside[[at[i] for i in together if i in at]] = True
        found[inside] = np.where(inside, 1.0, -1.0)
        found[:, inside] = np.where(inside, 1.0, -1.0)[:, None]
    return found


def _sessions(view: CorruptView) -> Iterable[set[int]]:
    """Clients of each session of training, in order, as its frames name them or come from them."""
    found = defaultdict[bytes, set[int]](set)
    for frame, envelope in messages(view, Task, KeyShare):
        message = envelope.message
        if isinstance(message, Task) and message.work not in COMPUTED:
            continue
        found[envelope.session] |= {*message.roster} if isinstance(message, Task) else {frame.sender}
    return found.values()


def watched(view: CorruptView) -> Matrix:
    """Of pairs, in how many of their frames of one kind and length, one after the other, they are both: (clients, clients).

    Clusters follow each other, and in each one clients do by their ids: where an id falls, another cluster begins.
    """
    at = {i: k for k, i in enumerate(view.public.clients)}
    found = np.zeros((len(at), len(at)))
    for _, alike in groupby(view.frames[int(LATE * len(view.frames)) :], key=_looks):
        for run in _ascending([i for f in alike for i in (f.sender, f.receiver) if i in at]):
            inside = np.zeros(len(at), bool)
            inside[[at[i] for i in run]] = True
            if inside.sum() > 1:
                found += np.outer(inside, inside) / inside.sum()
    return found


def _ascending(ids: Iterable[int]) -> Iterable[list[int]]:
    """These in runs that ascend."""
    runs: list[list[int]] = []
    for i in ids:
        if runs and i >= runs[-1][-1]:
            runs[-1].append(i)
        else:
            runs.append([i])
    return runs


def _looks(frame: Frame) -> tuple[str, int, bool]:
    return frame.kind, len(frame.data), frame.sender >= 0
