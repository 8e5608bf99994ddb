"""What clients release so that a server can compare them: named choices, each with what it keeps from whom.

Spec: specs/pairs.md, section Choices. None of them hides records by itself: whoever is shown a cloud sees all distances within
and between the clouds of a pair, from which labels can be guessed (more than nine in ten, for image classes that are public), and
whoever knows the projection as well sees the embeddings. Only noise gives a guarantee that is proven, at a price in epsilon. And
none of them binds a client to its data: it can be joined with whom it likes if it knows, or makes up, embeddings like theirs.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from .noise import Noise

Projection = Literal["gaussian rows", "orthonormal", "none"]
Embeds = Literal["exchanged", "public"]
Target = Literal["train", "validation"]
Referenced = Literal["projected", "plain", "apart"]


def _check(projection: str, ratio: float) -> None:
    if projection not in ("gaussian rows", "orthonormal", "none"):
        raise ValueError(f'projection is "gaussian rows", "orthonormal" or "none", not {projection!r}')
    if not 0 < ratio <= 1:
        raise ValueError(f"ratio is a share of the embedding's dimensions, above 0 and at most 1, not {ratio}")


def _check_answers(answers: int) -> None:
    if type(answers) is not int or answers < 1:
        raise ValueError(f"a client answers for a pair once or more often, not {answers!r} times")


@dataclass(frozen=True, slots=True, kw_only=True)
class PerPair:
    """Every pair agrees on a projection of its own, which the server does not know (EMD-CFL, section 3).

    projection: "gaussian rows", the paper's code: Gaussian with rows of length 1; or "orthonormal": orthonormal columns times
    sqrt(d / p), of the least spectral norm, so that the same claim needs about half of the noise; or "none" (only where
    nothing is hidden anyway). ratio: p / d. embedding: "exchanged": each embeds the other's way too, by a model that it is
    sent, or "public": a model that everybody knew beforehand. target: what the other's model embeds: "train" data, as printed,
    or "validation" data, as in the authors' code. reference: tau of "projected" samples, under the pair's own projection, of the
    samples as they are ("plain", as printed), or under a Gaussian of all dimensions that the client draws for it ("apart", as in
    the authors' code). answers: how often a client answers for one pair, if what it answered does not arrive.

    Server alone: sizes, all distances within and between clouds up to the projection's error, tau. Server and one client of the
    pair: at ratio 0.9 the other's embeddings, nearly exactly. The pair's clients, with "exchanged": each other's embedding model,
    which was trained on data without noise. A client can send any model: one that copies its input makes the other release
    projected inputs. Server that swaps keys: found out. A client takes part in 2 (C - 1) releases about the same records, and in
    `answers` times as many if the server claims that they were lost: each is in its ledger.
    """

    projection: Projection = "gaussian rows"
    ratio: float = 0.9
    embedding: Embeds = "exchanged"
    target: Target = "train"
    reference: Referenced = "projected"
    noise: Noise | None = None
    answers: int = 3

    def __post_init__(self) -> None:
        _check(self.projection, self.ratio)
        _check_answers(self.answers)


@dataclass(frozen=True, slots=True, kw_only=True)
class PerClient:
    """One release a client: a public embedding under one projection that all clients of the run know.

    Server alone: distances within and between the clouds of all clients. Server and any one client: all embeddings, nearly
    exactly. What it gains: each record is in one release and one tau, however many clients there are, so the same epsilon needs
    sqrt(2 (C - 1)) times less noise than `PerPair`; no model leaves a client; traffic is O(C).
    """

    projection: Projection = "orthonormal"
    ratio: float = 0.9
    target: Target = "train"
    reference: Referenced = "projected"
    noise: Noise | None = None

    def __post_init__(self) -> None:
        _check(self.projection, self.ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSamples:
    """Clients hand the server a small set of examples, and it embeds them itself (EMD-CFL, section 3.1): O(C) traffic.

    embedding: "exchanged" asks for the clients' own models, so it needs a protection under which the server sees them.
    Server alone: the examples themselves. Nothing of them is hidden from it; other clients see nothing.
    """

    embedding: Embeds = "exchanged"
    target: Target = "train"


@dataclass(frozen=True, slots=True, kw_only=True)
class Distances:
    """Clients measure each other: the two of a pair show each other embeddings, sealed, and report the distance and tau.

    embedding, target, answers: as in `PerPair`. noise: on both numbers; its clip and multiplier are not used, as nothing else is
    released.

    Server alone: two numbers a pair and client. The pair's clients: each other's embeddings as they are, under a model of their
    own ("exchanged") or the public one, and the models. Server and one client: the same. So trust moves from the server to the
    other clients. Formal guarantee: of the noise, (epsilon, delta) for one record of a client against the server, if the other
    clients add theirs: a record is in the distances that the other client reports as well, which the ledger counts.
    """

    embedding: Embeds = "exchanged"
    target: Target = "train"
    noise: Noise | None = None
    answers: int = 3

    def __post_init__(self) -> None:
        _check_answers(self.answers)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanSketch:
    """One vector a client, with noise of a stated epsilon a record: the mean of its clipped public embeddings, projected.

    Server alone: that mean, up to the noise. Formal guarantee: of the noise, (epsilon, delta) for one record of a client, whoever
    knows the projection; nothing else about the client's data leaves it. What its records have in common is not covered: shares
    of labels follow from the mean the better the more rows it is of, and at a large epsilon from any. The reference is a function
    of public numbers: the distance that the noise alone makes. The sample's size and who takes part are public.
    """

    noise: Noise
    ratio: float = 0.9

    def __post_init__(self) -> None:
        _check("orthonormal", self.ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class PerRound:
    """One release a client and round: a basis, the directions in which the embeddings of its data by its own model of the round
    vary most (FedSaC), as they are ("none") or under a rotation that all clients share in this round alone ("orthonormal").

    Server alone: all inner products between vectors of all clients' bases of a round, hence all angles; and, where they are as
    they are, the bases, from round to round. Server and any one client: all bases. Other clients see nothing, and no model leaves
    a client. A client releases one basis in a round in which it trained: each is made of its data, and each tells more. A server
    that sends the model to train from can send one that copies its input: then the basis is of inputs.
    """

    projection: Literal["orthonormal", "none"] = "orthonormal"
    embedding: ClassVar[Literal["own"]] = "own"
    ratio: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if self.projection not in ("orthonormal", "none"):
            raise ValueError(f'bases are under "orthonormal" rotations or "none", not {self.projection!r}')


Choice = PerPair | PerClient | ServerSamples | Distances | MeanSketch | PerRound

PRINTED = PerPair(reference="plain")
"""The paper as it is printed (section 3): a secret projection per pair, training data as targets, tau of the embeddings as they
are. The paper prints no distribution of the projection; this is its authors'. W has the projection's error, tau has not."""
AS_PUBLISHED = PerPair(target="validation", reference="apart")
"""The authors' code: targets are the other's validation data, and tau has a Gaussian of its own, of all dimensions."""
PER_PAIR = PerPair()
"""(a) A secret Gaussian per pair, rows of length 1, nine tenths of the dimensions; tau under the same one: errors cancel."""
ORTHONORMAL = PerPair(projection="orthonormal")
"""(b) Orthonormal columns: the spectral norm is sqrt(d / p), 1.05 in place of about 2."""
PUBLIC = PerPair(projection="orthonormal", embedding="public")
"""(c) A public embedding: no model leaves a client, none is trained on its data, none can be made to harm it."""
ONE_RELEASE = PerClient()
"""(d) One projection and one release per client in place of 2 (C - 1)."""
SERVER_SAMPLES = ServerSamples()
"""(e) Samples at the server, which embeds them."""
DISTANCES = Distances()
"""(f) Distances that the clients of a pair measure themselves: the server sees no cloud, the other client does."""
