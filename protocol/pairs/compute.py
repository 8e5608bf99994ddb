"""What a client computes to be compared: clouds, reference distance, noise, and what the noise costs.

Everything here happens on the client's own computer. The order is: `answer_of`, then `charge`, and only then `release`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...crypto.prg import derive_key
from ..answers import Vector
from ..ledger import Ledger, Release
from .noise import Noise, caveat, noised, release
from .terms import ONCE, Embedders, Matrix, PairTerms, Reference, Released, Rows, drawn

Embedded = Callable[[str], Rows]
"""The client's sample of its "train" or "validation" data under its own embedding model."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What a client would release. releases: the ledger's entries, empty without noise. uncovered: what they do not protect."""

    releases: tuple[Release, ...]
    uncovered: tuple[str, ...]
    release: Callable[[], Released] = field(repr=False)

    def charge(self, ledger: Ledger) -> Ledger:
        """The client's ledger after it. Raises BudgetExceeded: then nothing must be released."""
        for entry in self.releases:
            ledger = ledger + entry
        return ledger.without(*self.uncovered)


def answer_of(
    terms: PairTerms,
    secret: bytes,
    key: bytes,
    client: int,
    embedders: Embedders,
    embedded: Embedded,
    others: Vector | None,
    reference: Reference,
    noise: Noise | None,
) -> Answer:
    """The client's answer. secret: the projection's. key: the noise's, 32 fresh bytes. others: the other's embedding model."""
    if terms.released == "samples":
        return Answer((), (), lambda: _samples(terms, client, embedders, embedded, reference))
    projection = drawn(terms, secret)
    if noise is None:
        return Answer((), (), lambda: _clouds(terms, projection, client, embedders, embedded, others, reference))
    if terms.released == "mean":
        return _mean(terms, projection, key, embedded, noise)
    return _noisy(terms, projection, key, client, embedders, embedded, others, reference, noise)


def _samples(terms: PairTerms, client: int, embedders: Embedders, embedded: Embedded, reference: Reference) -> Released:
    own = embedders.examples(client, "train")
    other = embedders.examples(client, "validation") if terms.both else None
    return Released(own, other, reference(embedded("train"), embedded("validation")))


def _second(terms: PairTerms, client: int, embedders: Embedders, embedded: Embedded, others: Vector | None) -> Rows | None:
    """The embeddings that the other client compares itself to, if they are not the client's own again."""
    if not terms.both:
        return None
    return embedded(terms.target) if others is None else embedders.embed(client, terms.target, others)


def _clouds(
    terms: PairTerms,
    projection: Matrix,
    client: int,
    embedders: Embedders,
    embedded: Embedded,
    others: Vector | None,
    reference: Reference,
) -> Released:
    def projected(rows: NDArray[Any]) -> Rows:
        if not np.isfinite(rows).all():
            return np.full((len(rows), terms.p), np.nan, np.float32)  # the server rejects it, and says so
        return (rows.astype(np.float64) @ projection).astype(np.float32)

    source, held_out = embedded("train"), embedded("validation")
    own, second = projected(source), _second(terms, client, embedders, embedded, others)
    pair = (own, projected(held_out)) if terms.reference == "projected" else (source, held_out)
    tau = reference(*pair) if all(np.isfinite(rows).all() for rows in pair) else math.nan
    return Released(own, None if second is None else projected(second), tau)


def _noisy(
    terms: PairTerms,
    projection: Matrix,
    key: bytes,
    client: int,
    embedders: Embedders,
    embedded: Embedded,
    others: Vector | None,
    reference: Reference,
    noise: Noise,
) -> Answer:
    """Clouds with noise on every row, and tau with noise, measured between clouds that have the same noise as the released ones.

    One unit is in one row of the training cloud, or in one of the validation cloud: in at most `both` + 1 clouds, and in tau.
    Rows compose in parallel, clouds and tau one after another.
    """
    sensitivity = noise.sensitivity(projection)
    moved = reference.span / terms.rows
    whom = "all" if terms.session.protocol == ONCE else f"client {terms.peer(client)}"
    model = (
        "a public embedding" if others is None and terms.embedding == "public" else "an embedding model that was trained on them"
    )
    if noise.trained_privately and terms.embedding != "public":
        model = "an embedding model that was trained with differential privacy"
    covers = f"of {terms.rows} examples for {whom} in round {terms.session.round}, under {model}"
    cloud = release(noise, noise.multiplier, sensitivity, terms.p, f"a projected cloud {covers}")
    tau = release(noise, noise.reference_multiplier, moved, 1, f"the reference distance {covers}")
    entries = (cloud, cloud, tau) if terms.both else (cloud, tau)

    def answered() -> Released:
        def projected(rows: NDArray[Any], label: str) -> Rows:
            values = noise.clipped(rows) @ projection
            return noised(values, noise.multiplier * sensitivity, derive_key(key, "pair noise", label.encode())).astype(
                np.float32
            )

        own = projected(embedded("train"), "own")
        second = _second(terms, client, embedders, embedded, others)
        exact = min(max(reference(own, projected(embedded("validation"), "held out")), 0.0), reference.span)
        deviation = noise.reference_multiplier * moved
        said = noised(np.array([exact]), deviation, derive_key(key, "pair noise", b"reference"))
        return Released(own, None if second is None else projected(second, "other"), float(said[0]))

    return Answer(entries, caveat(noise, terms.embedding == "public"), answered)


def _mean(terms: PairTerms, projection: Matrix, key: bytes, embedded: Embedded, noise: Noise) -> Answer:
    """The mean of the clipped rows, projected, with noise. The reference is what two such means differ by if only noise does."""
    sensitivity = noise.mean_sensitivity(projection, terms.rows)
    covers = f"the projected mean of {terms.rows} public embeddings, for all clients"
    entry = release(noise, noise.multiplier, sensitivity, terms.p, covers)
    deviation = noise.multiplier * sensitivity

    def answered() -> Released:
        mean = noise.clipped(embedded("train")).mean(axis=0, keepdims=True) @ projection
        said = noised(mean, deviation, derive_key(key, "pair noise", b"mean")).astype(np.float32)
        return Released(said, None, math.sqrt(2 * terms.p) * deviation)

    return Answer((entry,), caveat(noise, True), answered)
