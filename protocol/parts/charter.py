"""The charter: what a client accepts once, before a run, and then holds every proposal against.

Nobody proposes a charter during a run. Its digest is in the binding of every masked sum (masked/terms.py), so clients that were
given different charters check no key and no signature of each other with success: a server that tells two groups two floors,
two directories or two initial models has two groups that mask apart.
"""

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import cbor2

from ..core.session import RUN_BYTES
from .gate import Rules
from .leverage import MOST_ROWS

if TYPE_CHECKING:
    from ..privacy.ledger import Adjacency


@dataclass(frozen=True, slots=True)
class NoiseTerms:
    """What noise clients add to every sum, as in `Noise`: each finds from it how much its own roster's sum takes."""

    epsilon: float
    delta: float
    rounds: int
    l2: float
    adjacency: "Adjacency"
    overflow: float
    acknowledge: tuple[str, ...] = ()

    @property
    def encoded(self) -> list[Any]:
        """Floats as 8 bytes."""
        floats = [struct.pack(">d", x) for x in (self.epsilon, self.delta, self.l2, self.overflow)]
        return [*floats, self.rounds, self.adjacency, list(self.acknowledge)]


@dataclass(frozen=True, slots=True)
class Numbers:
    """Of masked sums. d: coordinates of an update. noise: without which nothing is summed. The others as in `Masked`."""

    d: int
    ring_bits: int
    clip: float
    max_samples: int
    rules: Rules
    noise: NoiseTerms | None = None


@dataclass(frozen=True)
class Charter:
    """run: 16 bytes. initial: SHA-256 of the initial model as it is sent. dropped: largest share of a sum's clients that drops
    out, from which follows the masking graph; None: the graph is held against no solver. enrolled: everybody's identity, by id.

    span: most independent sums about one client's updates of a work session. sums: most sums that a client gives an input to
    over the run, or None for any number. starts_apart: as in `Setup`.
    """

    run: bytes
    initial: bytes
    numbers: Numbers
    dropped: float | None
    enrolled: Mapping[int, bytes] = field(repr=False, hash=False)
    span: int = MOST_ROWS
    sums: int | None = None
    starts_apart: bool = False

    def __post_init__(self) -> None:
        if len(self.run) != RUN_BYTES or len(self.initial) != 32:
            raise ValueError(f"a charter names its run by {RUN_BYTES} bytes and its initial model by 32")
        if not 1 <= self.span <= MOST_ROWS:
            raise ValueError(f"a span is 1 to {MOST_ROWS}, not {self.span}: of more sums no leverage is told")
        if self.sums is not None and self.sums < 1:
            raise ValueError("a charter under which nothing is summed")
        if self.numbers.noise is not None and self.dropped is None:
            raise ValueError("noise is found for the largest share of drop-outs, so a charter with noise names it")

    @property
    def rules(self) -> Rules:
        return self.numbers.rules

    @cached_property
    def encoded(self) -> bytes:
        """Deterministic CBOR: numbers in the order below, floats as 8 bytes, clients ascending, each with its identity."""
        n = self.numbers
        noise = 0 if n.noise is None else n.noise.encoded
        of_sums = [n.d, n.ring_bits, struct.pack(">d", n.clip), n.max_samples, n.rules.floor, n.rules.corrupt, noise]
        limits = [None if self.dropped is None else struct.pack(">d", self.dropped), self.span, self.sums, int(self.starts_apart)]
        who = [item for client in sorted(self.enrolled) for item in (client, self.enrolled[client])]
        return cbor2.dumps([self.run, self.initial, *of_sums, *limits, who], canonical=True)

    @cached_property
    def digest(self) -> bytes:
        """32 bytes: what clients of one run have in common."""
        return hashlib.sha256(b"cloister/v1/charter" + self.encoded).digest()
