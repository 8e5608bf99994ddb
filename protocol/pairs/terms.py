"""What clients that are to be compared agree on, the projection that follows from their secret, and their policy.

Spec: specs/pairs.md, sections Terms, Keys and Projection.
"""

import hashlib
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import cbor2
import numpy as np
from numpy.typing import NDArray

from ...crypto.prg import derive_key
from ...crypto.projection import Orthonormal, standard_normal
from ..answers import Vector
from ..errors import Refused
from ..session import Session
from .choices import Choice, MeanSketch, PerClient, PerPair, ServerSamples
from .messages import PairOffer

PROTOCOL = "pairs"
ONCE = "pairs/once"
"""Names of the protocol between two clients, and of the one in which each client answers for itself."""

Rows = NDArray[np.float32]
Matrix = NDArray[np.float64]

_WORDS = {
    "released": ("clouds", "samples", "mean"),
    "projection": ("gaussian rows", "orthonormal", "none"),
    "embedding": ("exchanged", "public"),
    "target": ("train", "validation"),
    "reference": ("projected", "plain"),
    "unit": ("none", "record", "attribute"),
}


@dataclass(frozen=True, slots=True)
class PairTerms:
    """What a client is asked to release. Raises ValueError for what cannot be.

    released: "clouds" of projected embeddings, raw "samples", or one projected "mean". d: coordinates of an embedding (of an
    example, for samples). p: of what is released. rows: examples in a cloud, the same for all clients. weights: floats of the
    embedding model that is exchanged, 0 for none. unit, clip, noise, reference_noise: as in `Noise`; "none" and zeros for none.
    The rest as in `PerPair`.
    """

    session: Session
    released: str
    projection: str
    embedding: str
    target: str
    reference: str
    d: int
    p: int
    rows: int
    weights: int
    unit: str = "none"
    clip: float = 0.0
    noise: float = 0.0
    reference_noise: float = 0.0

    def __post_init__(self) -> None:
        for name, known in _WORDS.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is one of {', '.join(known)}")
        numbers = (self.clip, self.noise, self.reference_noise)
        if not all(0 <= x < float("inf") for x in numbers) or (self.unit == "none") != (max(numbers) == 0):
            raise ValueError("noise needs a unit, a clip and a multiplier that are finite and not negative")
        if self.p > self.d or (self.projection == "none" and self.p != self.d):
            raise ValueError(f"a projection of {self.d} coordinates has at most as many, and as many without one, not {self.p}")
        if self.session.protocol == PROTOCOL and (len(self.session.roster), self.session.threshold) != (2, 2):
            raise ValueError("a pair is two clients, and both are needed")
        if (self.weights > 0) != (self.session.protocol == PROTOCOL and self.embedding == "exchanged"):
            raise ValueError("a pair exchanges embedding models exactly where they are not public")

    @classmethod
    def offered(cls, offer: PairOffer) -> Self:
        """Raises ValueError."""
        session = Session(offer.protocol, offer.run, offer.round, offer.cluster, offer.roster, offer.threshold)
        said = (offer.released, offer.projection, offer.embedding, offer.target, offer.reference)
        return cls(session, *said, offer.d, offer.p, offer.rows, offer.weights, offer.unit, *struct.unpack(">3d", offer.noise))

    @property
    def offer(self) -> PairOffer:
        s = self.session
        said = (self.released, self.projection, self.embedding, self.target, self.reference)
        head = (s.protocol, s.run, s.round, s.cluster, s.roster, s.threshold)
        return PairOffer(*head, *said, self.d, self.p, self.rows, self.weights, self.unit, self._noise)

    @property
    def _noise(self) -> bytes:
        return struct.pack(">3d", self.clip, self.noise, self.reference_noise)

    @property
    def _fields(self) -> bytes:
        said = [self.released, self.projection, self.embedding, self.target, self.reference, self.unit]
        return hashlib.sha256(cbor2.dumps([*said, self.d, self.p, self.rows, self.weights, self._noise], canonical=True)).digest()

    @property
    def binding(self) -> bytes:
        """32 bytes, the context of every signature and key: the session's digest and all other fields."""
        return hashlib.sha256(b"cloister/v1/pairs" + self.session.digest + self._fields).digest()

    @property
    def projection_context(self) -> bytes:
        """32 bytes that name the projection: the pair's own, or, where each client answers for itself, the one of the run."""
        if self.session.protocol == PROTOCOL:
            return self.binding
        return hashlib.sha256(b"cloister/v1/pairs/once" + self.session.run + self._fields).digest()

    @property
    def released_rows(self) -> int:
        return 1 if self.released == "mean" else self.rows

    @property
    def cloud_bytes(self) -> int:
        return 4 * self.released_rows * self.p

    @property
    def both(self) -> bool:
        """Whether a client releases a second cloud: by the other's model, or of other data."""
        return self.released != "mean" and ((self.embedding == "exchanged" and self.weights > 0) or self.target == "validation")

    def peer(self, me: int) -> int:
        first, second = self.session.roster
        return second if me == first else first


def drawn(terms: PairTerms, key: bytes) -> Matrix:
    """The projection R of this secret: float64 (d, p); embeddings Z become Z R. The same wherever it is drawn, up to rounding.

    "gaussian rows": entries N(0, 1), each of the d rows divided by its length, so that E |z R|^2 = |z|^2 and the largest row norm
    is 1. "orthonormal": sqrt(d / p) times orthonormal columns: the spectral norm is sqrt(d / p).
    """
    if terms.projection == "none":
        return np.eye(terms.d)
    derived = derive_key(key, "pair projection", terms.projection_context)
    if terms.projection == "orthonormal":
        return Orthonormal.draw(derived, terms.d, terms.p).matrix.T
    entries = standard_normal(derived, terms.d * terms.p).reshape(terms.d, terms.p)
    return np.asarray(entries / np.linalg.norm(entries, axis=1, keepdims=True))


@dataclass(frozen=True, slots=True)
class PairPolicy:
    """What a client insists on. projected: embeddings never leave it as they are. samples: whether it hands out examples.

    exchanges: whether it shows its embedding model to other clients, and embeds by theirs. max_ratio: most of p / d.
    max_weights: largest model that it takes. max_rows: most examples that it is compared by. noisy: no release without noise.
    """

    projected: bool = True
    samples: bool = False
    exchanges: bool = True
    max_ratio: float = 0.9
    max_weights: int = 1 << 28
    max_rows: int = 1 << 16
    noisy: bool = False

    def refusal(self, terms: PairTerms) -> str | None:
        """Why these terms are refused, or None."""
        raw = terms.released == "samples"
        problems = {
            "examples are asked for, which the policy keeps": raw and not self.samples,
            "embeddings are asked for as they are": not raw and self.projected and terms.projection == "none",
            f"more than {self.max_ratio} of the dimensions are asked for": not raw
            and terms.projection != "none"
            and terms.p > max(1, self.max_ratio * terms.d),
            "embedding models are to be exchanged": terms.weights > 0 and not self.exchanges,
            f"a model of more than {self.max_weights} floats": terms.weights > self.max_weights,
            f"a cloud of more than {self.max_rows} rows": terms.rows > self.max_rows,
            "a release without noise": self.noisy and terms.noise == 0,
        }
        return next((reason for reason, found in problems.items() if found), None)


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """What a client answers: float32 (rows, p) twice, the second None where the first serves for both; and tau."""

    own: Rows = field(repr=False)
    other: Rows | None = field(repr=False)
    reference: float


@dataclass(frozen=True, slots=True, eq=False)
class Direction:
    """Does `client` accept `other`? At the server: both clouds under one embedding model, the client's, and one projection.

    source: of the client's own data. target: of the other's. reference: tau, as the client reports it.
    """

    client: int
    other: int
    source: Rows = field(repr=False)
    target: Rows = field(repr=False)
    reference: float


Judge = Callable[[Iterable[Direction]], Mapping[tuple[int, int], bool]]
"""The server's decision: of every direction, by (client, other), whether the client accepts the other. Takes them one by one."""


class Reference(Protocol):
    """How clients measure tau: the distance that the server compares clouds by."""

    @property
    def span(self) -> float:
        """Largest minus smallest cost of moving one row to another: tau of n rows moves by span / n if one is replaced."""
        ...

    def __call__(self, source: NDArray[Any], target: NDArray[Any], /) -> float: ...


@dataclass(frozen=True, slots=True)
class PairQuestion:
    """Which pairs are to be compared, (smaller id, larger id) each, by what, and who decides."""

    pairs: tuple[tuple[int, int], ...]
    choice: Choice
    reference: Reference
    judge: Judge


@dataclass(frozen=True, slots=True)
class PairAnswers:
    """accepts: of (client, other), of pairs of which both answered. lost: pairs that stay undecided, as one of the two may have
    answered, and no client answers a pair twice. Pairs that are in neither may be asked again.
    """

    accepts: Mapping[tuple[int, int], bool]
    lost: tuple[tuple[int, int], ...]


class Embedders(Protocol):
    """The clients' computers, for embeddings of their own data, which stay there. All clients take as many examples.

    An embedding model is a float32 vector, or None for the public one.
    """

    @property
    def d(self) -> int:
        """Coordinates of an embedding."""
        ...

    @property
    def inputs(self) -> int:
        """Coordinates of an example."""
        ...

    @property
    def rows(self) -> int:
        """Examples in a sample."""
        ...

    def weights_of(self, model: Vector, /) -> Vector:
        """The part of a model, float32 (d,), that embeds."""
        ...

    def embed(self, client: int, part: str, weights: Vector | None, /) -> Rows:
        """The client's sample of its "train" or "validation" data: float32 (rows, d). The same examples every time."""
        ...

    def examples(self, client: int, part: str, /) -> Rows:
        """The same sample as it is: float32 (rows, inputs)."""
        ...

    def embed_examples(self, examples: Rows, weights: Vector | None, /) -> Rows:
        """Examples from wherever: what a server that was handed some computes."""
        ...


def terms_of(session: Session, choice: Choice, embedders: Embedders, weights: int) -> PairTerms:
    """The terms that follow from a choice. weights: floats of an embedding model. Raises Refused for noise on raw examples."""
    noise = getattr(choice, "noise", None)
    how = () if noise is None else (noise.unit, noise.clip, noise.multiplier, noise.reference_multiplier)
    d, rows = embedders.d, embedders.rows
    match choice:
        case ServerSamples():
            x = embedders.inputs
            return PairTerms(session, "samples", "none", choice.embedding, choice.target, "plain", x, x, rows, 0)
        case MeanSketch():
            p = max(1, int(choice.ratio * d))
            return PairTerms(session, "mean", "orthonormal", "public", "train", "plain", d, p, rows, 0, *how)
        case PerClient() | PerPair():
            p = d if choice.projection == "none" else max(1, int(choice.ratio * d))
            embedding = choice.embedding if isinstance(choice, PerPair) else "public"
            exchanged = weights if embedding == "exchanged" else 0
            said = ("clouds", choice.projection, embedding, choice.target, choice.reference)
            return PairTerms(session, *said, d, p, rows, exchanged, *how)
    raise Refused(f"{choice!r} is no choice that clients know")
