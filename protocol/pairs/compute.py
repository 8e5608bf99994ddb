"""What a client computes to be compared: clouds, reference distance, noise, and what the noise costs.

Everything here happens on the client's own computer. The order is: `answer_of` (or `showing_of`), then `charge`, and only then
`release`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...crypto.prg import derive_key
from ..privacy.ledger import Ledger, Release
from ..view.answers import Vector
from .noise import Noise, caveat, noised, release
from .projection import drawn
from .question import Answered, Embedders, Matrix, Occasion, Reference, Released, Reported, Rows, Unusable, held_out_for
from .terms import ONCE, PairTerms

Embedded = Callable[[str], Rows]
"""The client's sample of its "train" or "validation" data under its own embedding model."""


@dataclass(frozen=True, slots=True, eq=False)
class Respondent:
    """What a client is asked, and what it answers from.

    own, others: embedding models, its own and the other's, None for the public one. key: the noise's, 32 fresh bytes.
    """

    terms: PairTerms
    client: int
    embedders: Embedders = field(repr=False)
    embedded: Embedded = field(repr=False)
    own: Vector | None = field(repr=False)
    others: Vector | None = field(repr=False)
    reference: Reference
    noise: Noise | None
    key: bytes = field(repr=False)

    def second(self) -> Rows | None:
        """The embeddings that the other client compares itself to, if they are not the client's own again."""
        return self.target() if self.terms.both else None

    @property
    def held_out(self) -> str:
        """The part of its own data that the client measures itself on, before this other client."""
        return held_out_for(self.reference, self.terms, self.client)

    def target(self) -> Rows:
        """The client's data under the other's model. Raises Unusable where that is not finite and no clipping mends it."""
        part = "train" if self.terms.target == "train" else self.held_out
        found = self.embedded(part) if self.others is None else self.embedders.embed(self.client, part, self.others)
        if self.others is not None and self.noise is None and not np.isfinite(found).all():
            raise Unusable("an embedding model that embeds to what is not finite")
        return found

    def tau(self, source: NDArray[Any], target: NDArray[Any]) -> float:
        """The distance of the client's own samples; NaN, which the server rejects, where they are not finite."""
        return self.reference(source, target) if np.isfinite(source).all() and np.isfinite(target).all() else math.nan

    def deviate(self, label: str) -> bytes:
        return derive_key(self.key, "pair noise", label.encode())

    def covers(self) -> str:
        terms, noise = self.terms, self.noise
        whom = "all" if terms.session.protocol == ONCE else f"client {terms.peer(self.client)}"
        model = "a public embedding" if terms.embedding == "public" else "an embedding model that was trained on them"
        if noise is not None and noise.trained_privately and terms.embedding != "public":
            model = "an embedding model that was trained with differential privacy"
        return f"of {terms.rows} examples for {whom} in round {terms.session.round}, under {model}"


@dataclass(frozen=True, slots=True, eq=False)
class PreparedAnswer:
    """What a client would release. releases: the ledger's entries, empty without noise. uncovered: what they do not protect."""

    releases: tuple[Release, ...]
    uncovered: tuple[str, ...]
    release: Callable[[], Released] = field(repr=False)

    def charge(self, ledger: Ledger) -> Ledger:
        """The client's ledger after it. Raises BudgetExceeded: then nothing must be released."""
        for entry in self.releases:
            ledger = ledger + entry
        return ledger.without(*self.uncovered)


def answer_of(asked: Respondent, secret: bytes) -> PreparedAnswer:
    """What the client answers the server. secret: the projection's."""
    terms, noise = asked.terms, asked.noise
    if terms.released == "samples":
        return PreparedAnswer((), (), lambda: _sent(asked, None, _samples(asked)))
    projection = drawn(terms, secret)
    if terms.released == "bases":
        return PreparedAnswer(
            (), (), lambda: _sent(asked, projection, Released(_projected(asked.embedded("train"), projection), None, 0.0))
        )
    if noise is None:
        return PreparedAnswer((), (), lambda: _sent(asked, projection, _exact(asked, projection)))
    return (_mean if terms.released == "mean" else _noisy)(asked, projection, noise)


def _sent(asked: Respondent, projection: Matrix | None, honest: Answered) -> Answered:
    occasion = Occasion(asked.terms, projection, asked.own, asked.others, asked.reference)
    return asked.embedders.sent(asked.client, occasion, honest)


def _samples(asked: Respondent) -> Released:
    examples, embedded = asked.embedders.examples, asked.embedded
    other = examples(asked.client, asked.held_out) if asked.terms.both else None
    return Released(examples(asked.client, "train"), other, asked.tau(embedded("train"), embedded(asked.held_out)))


def _projected(rows: NDArray[Any], projection: Matrix) -> Rows:
    if not np.isfinite(rows).all():
        return np.full((len(rows), projection.shape[1]), np.nan, np.float32)  # the server rejects it, and says so
    return (rows.astype(np.float64) @ projection).astype(np.float32)


def _exact(asked: Respondent, projection: Matrix) -> Released:
    source, held_out = asked.embedded("train"), asked.embedded(asked.held_out)
    own, second = _projected(source, projection), asked.second()
    pair: tuple[NDArray[Any], NDArray[Any]]
    match asked.terms.reference:
        case "projected":
            pair = own, _projected(held_out, projection)
        case "apart":
            square = drawn(replace(asked.terms, projection="gaussian rows", p=asked.terms.d), asked.deviate("apart"))
            pair = source @ square, held_out @ square
        case _:
            pair = source, held_out
    return Released(own, None if second is None else _projected(second, projection), asked.tau(*pair))


def _noisy(asked: Respondent, projection: Matrix, noise: Noise) -> PreparedAnswer:
    """Clouds with noise on every row, and tau with noise, measured between clouds that have the same noise as the released ones.

    One unit is in one row of the training cloud, or in one of the validation cloud: in at most `both` + 1 clouds, and in tau.
    Rows compose in parallel, clouds and tau one after another.
    """
    terms, reference = asked.terms, asked.reference
    sensitivity, moved = noise.sensitivity(projection), reference.moved(terms.rows)
    cloud = release(noise, noise.multiplier, sensitivity, terms.p, f"a projected cloud {asked.covers()}")
    tau = release(noise, noise.reference_multiplier, moved, 1, f"the reference distance {asked.covers()}")

    def answered() -> Released:
        def projected(rows: NDArray[Any], label: str) -> Rows:
            values = noise.clipped(rows) @ projection
            return noised(values, noise.multiplier * sensitivity, asked.deviate(label)).astype(np.float32)

        own, second = projected(asked.embedded("train"), "own"), asked.second()
        exact = reference(own, projected(asked.embedded(asked.held_out), "held out"))
        said = _scalar(asked, noise, exact, "reference")
        return _sent(asked, projection, Released(own, None if second is None else projected(second, "other"), said))

    return PreparedAnswer(
        (cloud, cloud, tau) if terms.both else (cloud, tau), caveat(noise, terms.embedding == "public"), answered
    )


def _mean(asked: Respondent, projection: Matrix, noise: Noise) -> PreparedAnswer:
    """The mean of the clipped rows, projected, with noise. The reference is what two such means differ by if only noise does."""
    terms = asked.terms
    sensitivity = noise.mean_sensitivity(projection, terms.rows)
    covers = f"the projected mean of {terms.rows} public embeddings, for all clients"
    entry = release(noise, noise.multiplier, sensitivity, terms.p, covers)
    deviation = noise.multiplier * sensitivity

    def answered() -> Released:
        mean = noise.clipped(asked.embedded("train")).mean(axis=0, keepdims=True) @ projection
        said = noised(mean, deviation, asked.deviate("mean")).astype(np.float32)
        return _sent(asked, projection, Released(said, None, math.sqrt(2 * terms.p) * deviation))

    return PreparedAnswer((entry,), caveat(noise, True), answered)


# --- where clients measure ------------------------------------------------------------------------------------------------


def showing_of(asked: Respondent) -> PreparedAnswer:
    """What the client shows the other, and what the distances that both will report about it cost.

    A record moves the distance that the client reports, the one that the other reports (with noise that the other adds), and
    tau, each by the reference's `moved`.
    """
    noise = asked.noise
    entries: tuple[Release, ...] = ()
    uncovered: tuple[str, ...] = ()
    if noise is not None:
        moved, covers = asked.reference.moved(asked.terms.rows), asked.covers()
        whose = ("a distance that it reports", "a distance that the other reports", "the reference distance")
        entries = tuple(release(noise, noise.reference_multiplier, moved, 1, f"{what} {covers}") for what in whose)
        uncovered = (
            *caveat(noise, asked.terms.embedding == "public"),
            "its embeddings, from the clients that it was compared with",
        )
    return PreparedAnswer(entries, uncovered, lambda: _sent(asked, None, Released(asked.target(), None, 0.0)))


def report_of(asked: Respondent, theirs: Rows) -> Reported:
    """The distance of the client's embeddings to those it was shown, and tau, each with noise where there is some."""
    noise, rows = asked.noise, [asked.embedded("train"), theirs, asked.embedded(asked.held_out)]
    source, target, held_out = rows if noise is None else [noise.clipped(found) for found in rows]
    pair = [asked.tau(source, target), asked.tau(source, held_out)]
    if noise is not None:
        pair = [_scalar(asked, noise, value, label) for value, label in zip(pair, ("distance", "reference"), strict=True)]
    return _sent(asked, None, Reported(*pair))


def _scalar(asked: Respondent, noise: Noise, exact: float, label: str) -> float:
    """The distance, which is from 0 to the reference's span, with noise."""
    within = min(max(exact, 0.0), asked.reference.span)
    deviation = noise.reference_multiplier * asked.reference.moved(asked.terms.rows)
    return float(noised(np.array([within]), deviation, asked.deviate(label))[0])
