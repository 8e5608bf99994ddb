"""Uploads under a secret transform that clients share, opened by models that are known in clear."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...crypto.orthonormal import HadamardRotation, Permutation, SignedPermutation
from ...protocol.core.session import SERVER
from ...protocol.uploaded.permuted import Permuted
from ...protocol.view.answers import Vector
from ..inference.permutation_known import Placed, by_nearest, by_rank
from ..inference.rotation_known import RotationGuess, key_of
from .estimates import Estimate
from .experiment import Anchor, Budget, Evidence, Finding
from .reading import Instance, Uploaded, uploads
from .recovery import recovered
from .truth import Truth
from .unread import unread
from .view import CorruptView, PublishedSum

Key = Placed | RotationGuess
APART = 1e-2
"""How far the lengths of a path and of its transform may differ: further, and the model did not move by these sums alone."""


@dataclass(frozen=True, slots=True)
class KnownModels:
    """As `UpdateRecovery`, by whoever also knows the models that come of the run: where these are given away, or used by others.

    What the sums of uploads on a client's way add up to is the transform of its last model less the initial one. A permutation is
    read from that by rank, of several models by nearest values; a rotation by phase retrieval. With a transform for every session
    it takes a model whose way is of one session.
    """

    name: str = "permutation"
    unit: str = "share of what sets an update apart from its cluster's mean"
    side: str = "the initial model, and those that clients have in the end"
    source: str = "known plaintext, by rank or by phase retrieval"
    anchor: Anchor = "sums alone"

    def applies(self, evidence: Evidence, /) -> str:
        if reason := unread(evidence):
            return reason
        if not isinstance(evidence.view.public.protection, Permuted):
            return "updates are not uploaded under a secret transform"
        return "" if SERVER in evidence.view.observer.servers else "it gets no uploads"

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        found = dict(evidence.estimated(evidence.view))
        if isinstance(evidence.view.public.protection, Permuted):
            exact = {key: e for key, e in found.items() if e.how == "transform"}
            found |= opened(evidence.view, evidence.released, rng) | exact
        return recovered(evidence, found, truth)


def opened(view: CorruptView, released: Mapping[int, Vector], rng: np.random.Generator) -> dict[Instance, Estimate]:
    """Every upload under a key that a released model tells."""
    came, how = uploads(view), view.public.protection
    ways = _ways(view, released, came, how.keys == "run")
    found = dict[Instance, Estimate]()
    for session, pairs in ways.items():
        clear, transformed = (np.stack(side) for side in zip(*pairs, strict=True))
        if (key := _key(how.transform, clear, transformed, rng)) is None:
            continue
        for instance, one in came.items():
            if session in (b"", one.session):
                found[instance] = Estimate(np.asarray(key.opened(one.vector), np.float64), "known models")
    return found


def _ways(
    view: CorruptView, released: Mapping[int, Vector], came: Mapping[Instance, Uploaded], run: bool
) -> dict[bytes, list[tuple[Vector, Vector]]]:
    """By key (of the run, or a session's), of each different released model how far it is from the initial one, in clear and
    transformed."""
    found, told = defaultdict[bytes, list[tuple[Vector, Vector]]](list), set[bytes]()
    for client, model in released.items():
        if len(model) != len(view.public.initial) or model.tobytes() in told:
            continue
        way = [s for s in view.sums if s.kind == "update" and client in s.row]
        if not way or len({s.round for s in way}) < len(way) or any((s.round, s.kind, i) not in came for s in way for i in s.row):
            continue
        sessions = {came[s.round, s.kind, client].session for s in way}
        if not run and len(sessions) > 1:
            continue
        clear = (model.astype(np.float64) - view.public.initial).astype(np.float32)
        transformed = np.sum([_mean(s, came) for s in way], axis=0).astype(np.float32)
        lengths = float(np.linalg.norm(clear)), float(np.linalg.norm(transformed))
        if lengths[0] > 0 and abs(lengths[1] / lengths[0] - 1) < APART:
            told.add(model.tobytes())
            found[b"" if run else next(iter(sessions))].append((clear, transformed))
    return dict(found)


def _mean(s: PublishedSum, came: Mapping[Instance, Uploaded]) -> NDArray[np.float64]:
    """What the server averaged: uploads are in its hands, and counts beside them."""
    of = {i: came[s.round, s.kind, i] for i in s.row}
    weights = {i: a * (of[i].samples if s.times_samples else 1) for i, a in s.row.items()}
    summed: NDArray[np.float64] = np.sum([a * of[i].vector.astype(np.float64) for i, a in weights.items()], axis=0)
    return summed / sum(weights.values())


def _key(transform: type, clear: Vector, transformed: Vector, rng: np.random.Generator) -> Key | None:
    if transform is HadamardRotation:
        return key_of(clear, transformed, rng)
    if transform not in (Permutation, SignedPermutation):
        return None
    signed = transform is SignedPermutation
    if len(clear) == 1:
        return by_rank(clear[0], transformed[0], signed)
    return by_nearest(clear, transformed, signed)
