"""A corrupt party's view of a run: the frames that it sent and received, what it holds, and what everybody knows.

An attack takes a `CorruptView` and nothing else. What is true (`truth.py`) is for whoever scores its guess.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ...fl.clients.training import Training
from ...fl.data.population import Examples
from ...protocol.core.link import Frame
from ...protocol.view.answers import Owner, Vector, Work
from ...protocol.wire.codec import Kinds
from ...protocol.wire.messages import Task
from .observer import Observer

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Public:
    """What everybody knows of a run, or could.

    module: with the initial parameters; initial: the same, float32 (d,), with what is carried beside them. algorithm, protection:
    as in the scenario. rounds: that were played. clients: ids. classes: labels. auxiliary: examples of the same distribution that
    no client has, as an attacker may have some: side information, named wherever it is used. groups: whose data each
    of them is like, int64 (m,), by planted group.
    """

    run: bytes
    module: nn.Module = field(repr=False)
    initial: Vector = field(repr=False)
    training: Training
    algorithm: Any
    protection: Any
    rounds: int
    clients: tuple[int, ...]
    classes: int
    auxiliary: Examples = field(repr=False)
    kinds: Kinds = field(repr=False)
    groups: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)


@dataclass(frozen=True, slots=True)
class MaskKey:
    """The key of a mask in one masked sum. a, b: who share it, a < b; of a self mask, or a share between two servers, twice its
    client. key: 32 bytes."""

    a: int
    b: int
    key: bytes = field(repr=False)


MaskKeys = Mapping[bytes, tuple[MaskKey, ...]]
"""By the digests of sessions; one of which the keys are not on record is not there."""


@dataclass(frozen=True, slots=True, eq=False)
class PublishedSum:
    """A weighted sum over clients that was opened. row: weights by client; times the clients' samples if `times_samples`.

    to: who opened it. mean: the sum over the sum of the weights, float32 (d,), of the updates as they were uploaded; None if the
    observer was not told. weight: the sum of the weights, times samples where they count. energy: the mean squared norm, where
    the sum came with it. missing: who was asked for it and is not in it. counts: of samples, up to one factor, where the observer
    is told them beside the weights; else empty.
    """

    round: int
    cluster: str
    kind: Work
    row: Mapping[int, float]
    times_samples: bool
    to: Owner | int
    weight: float = 0.0
    energy: float | None = None
    mean: Vector | None = field(default=None, repr=False)
    missing: frozenset[int] = frozenset()
    counts: Mapping[int, float] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Inner products that a server was answered: float64 (rows, columns).

    rows, columns: clients. origin: of the updates themselves; else of their deviations from their mean. asked: by which question;
    "with earlier" and "earlier" are the parts of an answer to `gram_with` that are of what is remembered: of a sum over
    clients the first stands for all.
    """

    round: int
    kind: Work
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    matrix: Matrix = field(repr=False)
    origin: bool
    asked: str

    @property
    def gram(self) -> bool:
        """Whether it is the Gram matrix of one update of each of these clients."""
        return self.asked in ("gram", "gram_with", "recall") and self.rows == self.columns


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """Any other answer of the protocol to the server, as its algorithm was given it."""

    round: int
    asked: str
    value: Any = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """What a corrupt client holds beside its frames. seed: what the clients of the run share; empty where they share none.

    examples: its training data. updates: its own, by round and kind. models: it started from, by round. pair_keys: that it drew
    to be compared with another, by the session's digest. pair_seed: what all clients share to be compared; empty if they do not.
    mask_keys: of its own masks, and those that it shares with others.
    """

    examples: Examples = field(repr=False)
    seed: bytes = field(default=b"", repr=False)
    updates: Mapping[tuple[int, Work], Vector] = field(default_factory=dict, repr=False)
    models: Mapping[int, Vector] = field(default_factory=dict, repr=False)
    pair_keys: Mapping[bytes, bytes] = field(default_factory=dict, repr=False)
    pair_seed: bytes = field(default=b"", repr=False)
    mask_keys: MaskKeys = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class CorruptView:
    """All that the observer knows at the end of a run.

    frames: in order, as bytes, those that it sent and those that came; of the network, without bytes. models: of servers that own
    them, by round and client, what the client was to start from. sums: that servers computed of their frames, or that corrupt
    clients were sent or their models show together (`shown_sums`). compared, answered: what servers computed of their frames.
    held: by corrupt client. opened: keys of masks that follow from what clients revealed to a server. tasks: what
    `reading.sessions` read of the frames, once.
    """

    observer: Observer
    public: Public
    frames: Sequence[Frame] = field(default=(), repr=False)
    models: Mapping[tuple[int, int], Vector] = field(default_factory=dict, repr=False)
    sums: Sequence[PublishedSum] = field(default=(), repr=False)
    compared: Sequence[Compared] = field(default=(), repr=False)
    answered: Sequence[Answered] = field(default=(), repr=False)
    held: Mapping[int, Held] = field(default_factory=dict, repr=False)
    opened: MaskKeys = field(default_factory=dict, repr=False)
    tasks: dict[bytes, Task] = field(default_factory=dict, init=False, repr=False)
