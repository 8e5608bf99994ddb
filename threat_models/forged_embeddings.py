"""Forged embeddings: a client that wants to be joined with others answers their comparison with embeddings that are not its own.

Nothing in EMD-CFL ties what a client sends to data that it has. Each edge needs both sides: its own side a member grants itself,
by data that fit or by a reference distance that is as large as can be; the other side compares its own embeddings to those that
the member sends, under the other's embedding model and the pair's projection, both of which the member holds. So what stops a
member is what it does not know: data like the target's. With a colluder's (`Copied`), or with a change of its own data that makes
them look like those (`Disguised`), it is joined under every choice and every protection, at any noise that leaves groups apart;
without, it is not.

What a joined member does to clusters depends on the rule. It poisons a cluster's mean from inside (`inner`) where it poses to all
alike. Posing to some of a group only, it tears the group under `neighbourhoods`, where clients need the same neighbours. Joined
with two groups at once, it stands alone under `neighbourhoods`, and merges them under `components`; under `majorities` it is
outvoted by the pairs of the others, and is in one group, if they are more than it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..fl.algorithms.emd_cfl import State
from ..fl.clients.corruption import Computers, Corrupted, Corruption, embedders_of
from ..protocol.pairs.question import Answered, Embedders, Occasion, Released, Reported, Rows, held_out_for
from ..protocol.pairs.terms import PROTOCOL
from ..protocol.view.answers import Vector
from ..protocol.view.work import LocalJob, LocalOffer, LocalWork, Unwilling
from .knowledge import Level
from .membership import Members
from .witness import Nobody


class Pose(Protocol):
    """Whose examples a member sends embeddings of: float32 (rows, inputs), "train" or "validation" part.

    peer: whom it is compared with, None where it answers once for all.
    """

    def __call__(self, honest: Embedders, member: int, peer: int | None, part: str, /) -> Rows: ...


@dataclass(frozen=True, slots=True)
class Copied:
    """Another client's examples, which it has handed over or lost: a colluder of the target's group."""

    donor: int

    def __call__(self, honest: Embedders, member: int, peer: int | None, part: str, /) -> Rows:
        return honest.examples(self.donor, part)


@dataclass(frozen=True, slots=True)
class Disguised:
    """The member's own examples, changed to look like the target's. change: float32 (rows, inputs) to the same."""

    change: Callable[[Rows], Rows]

    def __call__(self, honest: Embedders, member: int, peer: int | None, part: str, /) -> Rows:
        return self.change(honest.examples(member, part))


@dataclass(frozen=True, slots=True)
class Undisguised:
    """The member's own examples: for a member that knows nothing of the target, and lies in its reference distance alone."""

    def __call__(self, honest: Embedders, member: int, peer: int | None, part: str, /) -> Rows:
        return honest.examples(member, part)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgedEmbeddings:
    """An adversary whose members pose. Implements `fl.corruption.Corruption`.

    pose: as whom. targets: towards these clients, honest towards others; None for all (all there are, where a client answers
    once). reference: tau as measured on the posed data, or the largest that there can be, by which a member accepts everybody.
    spread: of the embeddings around their mean, 1 for as they are, 0 for all alike: nearer to everything, for a member that
    must guess. inner: what members do besides, None for honest training.
    """

    members: Members
    pose: Pose
    targets: frozenset[int] | None = None
    reference: Literal["posed", "largest"] = "posed"
    spread: float = 1.0
    inner: Corruption | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.spread <= 1:
            raise ValueError(f"spread is from 0 to 1, not {self.spread}")

    @property
    def knows(self) -> Level:
        """What members know besides what they pose with."""
        inner: Any = self.inner
        found: Level = getattr(inner, "knows", Level.OWN)
        return found

    def corrupt(self, computers: Computers, /) -> "Posed":
        inner = Nobody(computers) if self.inner is None else self.inner.corrupt(computers)
        return Posed(self, self.members.everyone(tuple(sorted(computers.clients)), computers.seed), inner)


@dataclass(frozen=True, slots=True, eq=False)
class Posed:
    """The clients' computers with members that pose. Implements `fl.corruption.Corrupted` and `Posing`."""

    conduct: ForgedEmbeddings
    forgers: frozenset[int]
    inner: Corrupted

    @property
    def members(self) -> frozenset[int]:
        return self.forgers | self.inner.members

    @property
    def present(self) -> frozenset[int]:
        """Members of the latest round: who poses, and those of the inner adversary."""
        inner: Any = self.inner
        found: frozenset[int] = inner.present
        return self.forgers | found

    @property
    def learned(self) -> Mapping[str, Vector]:
        """What the inner adversary's members have learned about their poison."""
        inner: Any = self.inner
        found: Mapping[str, Vector] = inner.learned
        return found

    def __call__(self, jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork | Unwilling]]:
        return self.inner(jobs)

    def judge(self, offer: LocalOffer, /) -> int | None:
        return self.inner.judge(offer)

    def embedders(self, honest: Embedders, /) -> Embedders:
        return Forging(embedders_of(self.inner, honest), self.conduct, self.forgers)

    def save(self) -> Mapping[str, Vector]:
        return self.inner.save()

    def restore(self, memory: Mapping[str, Vector], /) -> None:
        self.inner.restore(memory)


@dataclass(frozen=True, slots=True, eq=False)
class Forging:
    """The clients' computers for embeddings, of which members send what they like. Implements `pairs.question.Embedders`."""

    honest: Embedders = field(repr=False)
    conduct: ForgedEmbeddings
    members: frozenset[int]

    @property
    def d(self) -> int:
        return self.honest.d

    @property
    def inputs(self) -> int:
        return self.honest.inputs

    @property
    def rows(self) -> int:
        return self.honest.rows

    @property
    def by_position(self) -> bool:
        return self.honest.by_position

    def weights_of(self, model: Vector, /) -> Vector:
        return self.honest.weights_of(model)

    def embed(self, client: int, part: str, weights: Vector | None, /) -> Rows:
        return self.honest.embed(client, part, weights)

    def examples(self, client: int, part: str, /) -> Rows:
        return self.honest.examples(client, part)

    def embed_examples(self, examples: Rows, weights: Vector | None, /) -> Rows:
        return self.honest.embed_examples(examples, weights)

    def sent(self, client: int, occasion: Occasion, honest: Answered, /) -> Answered:
        peer = occasion.terms.peer(client) if occasion.terms.session.protocol == PROTOCOL else None
        targets = self.conduct.targets
        if client not in self.members or (targets is not None and peer is not None and peer not in targets):
            return self.honest.sent(client, occasion, honest)
        if isinstance(honest, Reported):
            span = min(occasion.reference.span, 1e6)
            return Reported(0.0, span if self.conduct.reference == "largest" else honest.reference)
        return self._posed(client, peer, occasion, honest)

    def _posed(self, client: int, peer: int | None, occasion: Occasion, honest: Released) -> Released:
        terms = occasion.terms
        parts = "train", held_out_for(occasion.reference, terms, client)
        if terms.released == "samples":
            own, held_out = (self.conduct.pose(self.honest, client, peer, part) for part in parts)
            return Released(own, None if honest.other is None else held_out, honest.reference)
        source = self._embedded(client, peer, "train", occasion.own)
        if terms.released == "mean":  # which nothing is held out for
            return Released(_projected(source.mean(axis=0, keepdims=True), occasion), None, honest.reference)
        held_out = self._embedded(client, peer, parts[1], occasion.own)
        target = self._embedded(client, peer, parts[terms.target != "train"], occasion.others)
        if terms.released == "distances":
            return Released(target, None, honest.reference)
        clouds = [_projected(rows, occasion) for rows in (source, target, held_out)]
        pair = (clouds[0], clouds[2]) if terms.reference == "projected" else (source, held_out)
        tau = min(occasion.reference.span, 1e6) if self.conduct.reference == "largest" else occasion.reference(*pair)
        return Released(clouds[0], None if honest.other is None else clouds[1], tau)

    def _embedded(self, client: int, peer: int | None, part: str, weights: Vector | None) -> Rows:
        rows = self.honest.embed_examples(self.conduct.pose(self.honest, client, peer, part), weights)
        middle = rows.mean(axis=0, keepdims=True)
        return np.asarray(middle + np.float32(self.conduct.spread) * (rows - middle), dtype=np.float32)


def _projected(rows: NDArray[np.float32], occasion: Occasion) -> Rows:
    projection = np.eye(rows.shape[1]) if occasion.projection is None else occasion.projection
    return np.asarray(rows.astype(np.float64) @ projection, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Joined:
    """What forged embeddings came to.

    accepted: share of (member, target) of which the target accepts the member. edges: share that are joined, by both sides.
    inside: share of members in a cluster with a target. torn: planted groups whose loyal clients are in several clusters.
    merged: clusters with loyal clients of several groups.
    """

    accepted: float
    edges: float
    inside: float
    torn: int
    merged: int


def joined(state: State, members: frozenset[int], targets: frozenset[int], groups: Mapping[int, int]) -> Joined:
    """Of a state of EMD-CFL. targets: the clients that members want to be joined with. groups: the planted ones.

    Pairs that were lost or not compared count as not accepted.
    """
    pairs = [(m, t) for m in sorted(members) for t in sorted(targets - members)]
    if not pairs:
        raise ValueError("there is nobody whom members could be joined with")
    accepted = [state.accepts.get((t, m), False) for m, t in pairs]
    edges = [hit and state.accepts.get((m, t), False) for hit, (m, t) in zip(accepted, pairs, strict=True)]
    clusters = [frozenset(c.members) for c in state.clusters.values()]
    inside = [any(m in c and c & (targets - members) for c in clusters) for m in members]
    planted: dict[int, set[int]] = {}
    for i, group in groups.items():
        planted.setdefault(group, set()).add(i)
    torn = sum(sum(bool(c & (of - members)) for c in clusters) > 1 for of in planted.values())
    merged = sum(len({groups[i] for i in c - members}) > 1 for c in clusters)
    return Joined(float(np.mean(accepted)), float(np.mean(edges)), float(np.mean(inside)), torn, merged)
