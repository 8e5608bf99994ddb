"""What clients that are to be compared agree on. Spec: specs/pairs.md, section Terms."""

import hashlib
import struct
from dataclasses import dataclass
from typing import Protocol, Self

import cbor2

from ..core.errors import Refused
from ..core.session import Session
from .choices import Choice, Distances, MeanSketch, PerClient, PerPair, PerRound, ServerSamples
from .messages import PairOffer

PROTOCOL = "pairs"
KEY = "pair key"
"""What signatures are for."""
ONCE = "pairs/once"
"""Names of the protocol between two clients, and of the one in which each client answers for itself."""

_WORDS = {
    "released": ("clouds", "samples", "mean", "distances", "bases"),
    "projection": ("gaussian rows", "orthonormal", "none"),
    "embedding": ("exchanged", "public", "own"),
    "target": ("train", "validation"),
    "reference": ("projected", "plain", "apart"),
    "unit": ("none", "record", "attribute"),
}
_RELEASES = {PROTOCOL: ("clouds", "distances"), ONCE: ("clouds", "samples", "mean", "bases")}


@dataclass(frozen=True, slots=True)
class PairTerms:
    """What a client is asked to release. Raises ValueError for what cannot be.

    released: "clouds" of projected embeddings, raw "samples", one projected "mean" with noise, "distances" that the clients
    measure themselves, or "bases" of embeddings by the client's "own" model, anew in each round. d: coordinates of an embedding
    (of an example, for samples). p: of what is released. rows: examples in a cloud, or axes of a basis, the same for all clients.
    weights: floats of the embedding model that is exchanged, 0 for none. unit, clip, noise, reference_noise: as in `Noise`;
    "none" and zeros for none. The rest as in `PerPair`.
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
        protocol = self.session.protocol
        if protocol not in _RELEASES or self.released not in _RELEASES[protocol]:
            raise ValueError(f"{self.released} are not what the protocol {protocol} is about")
        whose = 2 if protocol == PROTOCOL else 1
        if (len(self.session.roster), self.session.threshold) != (whose, whose):
            raise ValueError("a pair is two clients and both are needed, and a client that answers for itself is one")
        if self.released == "mean" and (self.unit == "none" or self.embedding != "public"):
            raise ValueError("a mean is released with noise, and of public embeddings")
        if (self.released == "bases") != (self.embedding == "own"):
            raise ValueError("bases, and nothing else, are of embeddings by a client's own model")
        if self.released == "bases" and self.p != self.d:
            raise ValueError(f"bases are rotated whole, in {self.d} coordinates, not {self.p}")
        if self.released in ("distances", "samples") and self.projection != "none":
            raise ValueError(f"{self.released} are not projected")
        if (self.weights > 0) != (protocol == PROTOCOL and self.embedding == "exchanged"):
            raise ValueError("a pair exchanges embedding models exactly where they are not public")

    @classmethod
    def offered(cls, offer: PairOffer) -> Self:
        """Raises ValueError."""
        said = (offer.released, offer.projection, offer.embedding, offer.target, offer.reference)
        return cls(
            offer.session, *said, offer.d, offer.p, offer.rows, offer.weights, offer.unit, *struct.unpack(">3d", offer.noise)
        )

    @property
    def offer(self) -> PairOffer:
        said = (self.released, self.projection, self.embedding, self.target, self.reference)
        return PairOffer(*self.session.fields, *said, self.d, self.p, self.rows, self.weights, self.unit, self._noise)

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
        """32 bytes that name the projection: the pair's own, or, where each client answers for itself, the one of the run, or of
        the round."""
        if self.session.protocol == PROTOCOL:
            return self.binding
        of = b"cloister/v1/pairs/once" + self.session.run
        if self.anew:
            of = b"cloister/v1/pairs/round" + self.session.run + struct.pack(">I", self.session.round)
        return hashlib.sha256(of + self._fields).digest()

    @property
    def anew(self) -> bool:
        """Whether a client that answers for itself does so once in each round, and not once in the run."""
        return self.released == "bases"

    @property
    def released_rows(self) -> int:
        return 1 if self.released == "mean" else self.rows

    @property
    def cloud_bytes(self) -> int:
        return 4 * self.released_rows * self.p

    @property
    def both(self) -> bool:
        """Whether a client releases a second cloud: by the other's model, or of other data."""
        return self.released in ("clouds", "samples") and (self.weights > 0 or self.target == "validation")

    @property
    def scalars(self) -> int:
        """Numbers that one client's answer tells the server."""
        if self.released == "distances":
            return 2
        if self.released == "bases":
            return self.rows * self.p
        return self.released_rows * self.p * (2 if self.both else 1) + 1

    def peer(self, me: int) -> int:
        first, second = self.session.roster
        return second if me == first else first


class EmbeddingSizes(Protocol):
    """Of embeddings, examples and samples: `question.Embedders` has them."""

    @property
    def d(self) -> int: ...
    @property
    def inputs(self) -> int: ...
    @property
    def rows(self) -> int: ...


def terms_of(session: Session, choice: Choice, sizes: EmbeddingSizes, weights: int) -> PairTerms:
    """The terms that follow from a choice. weights: floats of an embedding model. Raises Refused for what is no choice."""
    noise = getattr(choice, "noise", None)
    how = () if noise is None else (noise.unit, noise.clip, noise.multiplier, noise.reference_multiplier)
    d, rows = sizes.d, sizes.rows
    match choice:
        case ServerSamples():
            x = sizes.inputs
            return PairTerms(session, "samples", "none", choice.embedding, choice.target, "plain", x, x, rows, 0)
        case MeanSketch():
            p = max(1, int(choice.ratio * d))
            return PairTerms(session, "mean", "orthonormal", "public", "train", "plain", d, p, rows, 0, *how)
        case Distances():
            exchanged = weights if choice.embedding == "exchanged" else 0
            said = ("distances", "none", choice.embedding, choice.target, "plain")
            return PairTerms(session, *said, d, d, rows, exchanged, *how)
        case PerRound():
            return PairTerms(session, "bases", choice.projection, choice.embedding, "train", "plain", d, d, rows, 0)
        case PerClient() | PerPair():
            p = d if choice.projection == "none" else max(1, int(choice.ratio * d))
            embedding = choice.embedding if isinstance(choice, PerPair) else "public"
            exchanged = weights if embedding == "exchanged" else 0
            said = ("clouds", choice.projection, embedding, choice.target, choice.reference)
            return PairTerms(session, *said, d, p, rows, exchanged, *how)
    raise Refused(f"{choice!r} is no choice that clients know")
