"""What a masked sum is agreed on: its terms, the policy a client holds them against, and what all of its keys are bound to.

Spec: specs/masked_sum.md, sections Terms and Keys.
"""

import hashlib
import math
import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self, cast

import cbor2
import numpy as np
from numpy.typing import NDArray

from ...crypto.fixed_point import FixedPoint
from ...crypto.identity import Verify, verify
from ...crypto.masks import add_masks
from ...crypto.prg import derive_key
from ...crypto.shamir import Dealing, DealtShares, MaskKeyShare, SelfSeedShare
from ..core.session import Session
from ..parts.charter import Charter
from ..parts.gate import Rules
from .graph import MaskingGraph, agreed, masking_graph
from .messages import COMMITTED_BYTES, Proposal

PROTOCOL = "masked sum"
NO_UPDATE = bytes(32)
"""What the inputs are called where they are not the held updates of a work session."""
Ring = NDArray[np.uint32] | NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class SumTerms:
    """What the server proposes beside the session. It is public and the same for everyone.

    ring_bits, bits, clip, max_weight: as in `FixedPoint`, which proves that no sum wraps around. length: ring elements of an
    input, its weight included. neighbours, threshold: k and t of the masking graph. graph_seed, model: 32 bytes; model is the
    SHA-256 of the model that the inputs belong to. update: digest of the work session whose held updates are the inputs.
    weights: what each client multiplies its update by, big-endian binary64 in the roster's order (see `encode_weights`); empty
    where all are 1. times_samples: 1 where each client also multiplies by its sample count, which stays its secret.
    """

    ring_bits: int
    length: int
    bits: int
    clip: float
    max_weight: int
    neighbours: int
    threshold: int
    graph_seed: bytes
    model: bytes
    update: bytes = NO_UPDATE
    weights: bytes = b""
    times_samples: int = 0

    @classmethod
    def proposed(cls, proposal: Proposal) -> Self:
        """Those of a proposal, unchecked."""
        p = proposal
        (clip,) = struct.unpack(">d", p.clip)
        what = (p.model, p.update, p.weights, p.times_samples)
        return cls(p.ring_bits, p.length, p.bits, clip, p.max_weight, p.neighbours, p.share_threshold, p.graph_seed, *what)

    @property
    def dtype(self) -> type[np.uint32] | type[np.uint64]:
        return np.uint32 if self.ring_bits == 32 else np.uint64

    @property
    def wire(self) -> np.dtype[Any]:
        """How a ring element is sent and stored: little-endian."""
        return np.dtype(self.dtype).newbyteorder("<")

    @property
    def input_bytes(self) -> int:
        return self.length * self.ring_bits // 8

    @property
    def largest(self) -> int:
        """The largest element of an honest input."""
        return ((1 << self.bits) - 1) * self.max_weight

    def zeros(self) -> Ring:
        """The sum of no inputs."""
        return np.zeros(self.length, np.uint32) if self.ring_bits == 32 else np.zeros(self.length, np.uint64)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the deterministic CBOR of the fields, clip as 8 bytes."""
        size = (self.ring_bits, self.length, self.bits, struct.pack(">d", self.clip), self.max_weight)
        graph = (self.neighbours, self.threshold, self.graph_seed)
        what = (self.model, self.update, self.weights, self.times_samples)
        return hashlib.sha256(cbor2.dumps([*size, *graph, *what], canonical=True)).digest()


@dataclass(frozen=True, slots=True)
class Plan:
    """A session and its terms, checked: what its parties compute from. charter: of the run, known beforehand.

    binding: 32 bytes, the context of every signature, key, share and seal of the session. All three are in it. verify: how the
    server checks signatures.
    """

    session: Session
    terms: SumTerms
    charter: Charter = field(repr=False)
    graph: MaskingGraph = field(repr=False)
    binding: bytes
    verify: Verify = field(default=verify, repr=False, compare=False)

    @classmethod
    def of(cls, session: Session, terms: SumTerms, charter: Charter) -> Self:
        """Raises ValueError, which says why, for terms that cannot be kept: a sum that could wrap, a graph that cannot be."""
        FixedPoint(terms.ring_bits, terms.bits, terms.clip, len(session.roster), terms.max_weight)
        if not 1 <= terms.threshold <= terms.neighbours:
            raise ValueError(f"threshold {terms.threshold} does not fit {terms.neighbours} neighbours")
        if len(terms.update) != 32 or terms.times_samples not in (0, 1):
            raise ValueError("an update is named by 32 bytes, and times_samples is 0 or 1")
        if len(terms.weights) not in (0, 8 * len(session.roster)):
            raise ValueError(f"{len(terms.weights)} bytes of weights are not 8 for each client on the roster")
        if not np.isfinite(np.frombuffer(terms.weights, ">f8")).all():
            raise ValueError("a weight is not finite")
        graph = masking_graph(terms.graph_seed, session.roster, terms.neighbours)
        binding = hashlib.sha256(b"cloister/v1/masked sum" + session.digest + terms.digest + charter.digest).digest()
        return cls(session, terms, charter, graph, binding)

    @staticmethod
    @lru_cache(maxsize=4)  # the same for all clients of a process, and a graph of thousands
    def proposed(proposal: Proposal, charter: Charter) -> "Plan":
        """What a proposal proposes. Raises ValueError."""
        return Plan.of(proposal.session, SumTerms.proposed(proposal), charter)

    @property
    def enrolled(self) -> Mapping[int, bytes]:
        """Identities by client id."""
        return self.charter.enrolled

    @property
    def proposal(self) -> Proposal:
        s, t = self.session, self.terms
        size = (t.ring_bits, t.length, t.bits, struct.pack(">d", t.clip), t.max_weight)
        what = (t.model, t.update, t.weights, t.times_samples)
        return Proposal(*s.fields, *size, t.neighbours, t.threshold, t.graph_seed, *what)

    def row(self, alive: Collection[int]) -> dict[int, float]:
        """What the sum of these survivors is a sum of: the weight of each client's update."""
        living = frozenset(alive)
        return {i: w for i, w in decode_weights(self.session.roster, self.terms.weights).items() if i in living}

    def pair(self, a: int, b: int) -> bytes:
        """The context of the key behind the mask that two clients share."""
        return self.binding + min(a, b).to_bytes(4, "big") + max(a, b).to_bytes(4, "big")

    def sealed(self, dealer: int, holder: int) -> bytes:
        """The context of what a dealer seals to a holder."""
        return self.binding + dealer.to_bytes(4, "big") + holder.to_bytes(4, "big")

    def dealt_by(self, dealer: int) -> bytes:
        """The context of a client's sharings."""
        return self.binding + dealer.to_bytes(4, "big")

    def self_mask_key(self, client: int, seed: bytes) -> bytes:
        """The key of a client's self mask."""
        return derive_key(seed, "self mask", self.dealt_by(client))


def sign_of(client: int, neighbour: int) -> int:
    """The sign with which a client adds the mask that it shares with a neighbour; the neighbour's is the opposite."""
    return 1 if client < neighbour else -1


def masked(vector: Ring, signed_keys: Iterable[tuple[bytes, int]]) -> Ring:
    """The vector under these masks, added (+1) or taken off (-1). A new array."""
    result = vector.copy()
    add_masks(cast(NDArray[np.uint32], result), signed_keys)  # either ring; the type variable takes no union
    return result


def encode_weights(roster: tuple[int, ...], weights: Mapping[int, float]) -> bytes:
    """The `weights` of terms: 8 bytes for each client on the roster; one that is not in the mapping has weight 0."""
    return struct.pack(f">{len(roster)}d", *(weights.get(client, 0.0) for client in roster))


def decode_weights(roster: tuple[int, ...], weights: bytes) -> dict[int, float]:
    """The weight of each client on the roster."""
    values = np.frombuffer(weights, ">f8").tolist() or [1.0] * len(roster)
    return dict(zip(roster, values, strict=True))


def survivors_and_head(alive: tuple[int, ...], head: bytes) -> bytes:
    """What clients sign: SHA-256 of the survivor set, ascending ids of 4 bytes, and the head of the signer's transcript."""
    return hashlib.sha256(np.array(alive, ">u4").tobytes()).digest() + head


@dataclass(frozen=True, slots=True)
class SumPolicy:
    """What a client insists on, whatever the server proposes. Its defaults are the least that makes any sense.

    min_cohort: clients on the roster. min_survivors: honest clients in a sum that it helps to open; corrupt: clients
    of the run that may collude with the server, which have to be there beside them. min_threshold: t.
    corrupt_neighbours: of k neighbours; 2 t > k + corrupt_neighbours keeps two survivor sets from both being signed.
    clips: least and largest clip. min_bits: of a level. ring_bits: rings it takes. max_length: elements it will mask.
    unheld: the kinds of sums (`kind_of` their names) whose inputs may be something else than updates that it holds, made for one
    sum alone; all others are of held updates, by their names. dropped: largest share of a sum's clients that drops out; with it
    the client finds the masking graph of a roster for itself (`agreed`), and takes no other. None: any that the others allow.
    """

    min_cohort: int = 3
    min_survivors: int = 2
    min_threshold: int = 1
    corrupt_neighbours: int = 0
    clips: tuple[float, float] = (0.0, math.inf)
    min_bits: int = 2
    ring_bits: tuple[int, ...] = (32, 64)
    max_length: int = 2**28
    corrupt: int = 0
    unheld: frozenset[str] = frozenset()
    dropped: float | None = None

    def __post_init__(self) -> None:
        if self.min_cohort < 2 or self.min_survivors < 2:
            raise ValueError("a sum of one client is its input: min_cohort and min_survivors are 2 or more")

    @classmethod
    def of(cls, charter: Charter, unheld: frozenset[str] = frozenset()) -> Self:
        """What a charter's numbers ask of every sum."""
        rules = charter.rules
        return cls(rules.least, rules.floor, corrupt=rules.corrupt, unheld=unheld, dropped=charter.dropped)

    def keeps(self, charter: Charter) -> bool:
        """Whether it asks for no less than the charter does."""
        of_graph = charter.dropped is None or charter.dropped == self.dropped
        return of_graph and self.min_survivors >= charter.rules.floor and self.corrupt >= charter.rules.corrupt

    @property
    def rules(self) -> Rules:
        """What its sums may show, together and apart."""
        return Rules(self.min_survivors, self.corrupt)

    def problems(self, session: Session, terms: SumTerms) -> tuple[str, ...]:
        """Why a client with this policy takes no part; empty if it does."""
        complete, least = terms.neighbours == len(session.roster) - 1, self.rules.least
        doubtful = terms.neighbours + max(self.corrupt_neighbours, self.corrupt if complete else 0)
        weighted = np.count_nonzero(np.frombuffer(terms.weights, ">f8")) if terms.weights else len(session.roster)
        found = {
            f"a cohort under the policy's {self.min_cohort}": len(session.roster) < self.min_cohort,
            f"a sum of fewer than the policy's {least}": session.threshold < least,
            f"a share threshold under the policy's {self.min_threshold}": terms.threshold < self.min_threshold,
            f"a share threshold of {terms.threshold}, which two survivor sets can reach": 2 * terms.threshold <= doubtful,
            f"weights for fewer than the policy's {least}": weighted < least,
            "a clip outside the policy's": not self.clips[0] <= terms.clip <= self.clips[1],
            f"levels of fewer than the policy's {self.min_bits} bits": terms.bits < self.min_bits,
            "a ring that the policy does not allow": terms.ring_bits not in self.ring_bits,
            f"a vector longer than the policy's {self.max_length}": terms.length > self.max_length,
        }
        return *(reason for reason, wrong in found.items() if wrong), *self._of_graph(len(session.roster), terms)

    def _of_graph(self, clients: int, terms: SumTerms) -> tuple[str, ...]:
        if self.dropped is None:
            return ()
        try:
            own = agreed(clients, self.corrupt, self.dropped)
        except ValueError as error:
            return (str(error),)
        if (terms.neighbours, terms.threshold) == (own.neighbours, own.threshold):
            return ()
        numbers = f"{terms.neighbours} neighbours, {terms.threshold} of whom recover a secret"
        return (f"{numbers}, where {own.neighbours} and {own.threshold} are found for {clients} clients",)


@dataclass(frozen=True, slots=True)
class Dealt:
    """The public part of a client's two sharings: of its self-mask seed and of its mask key, among the same holders."""

    seed: Dealing[SelfSeedShare]
    key: Dealing[MaskKeyShare]

    @classmethod
    def decode(cls, plan: Plan, dealer: int, data: bytes) -> Self:
        """Raises ValueError for what cannot be a dealing of this session."""
        if len(data) % COMMITTED_BYTES:
            raise ValueError(f"a dealing has {COMMITTED_BYTES} bytes for each holder")
        count = len(data) // COMMITTED_BYTES
        holders = tuple(np.frombuffer(data, ">u4", count).tolist())
        public = (plan.terms.threshold, holders, plan.dealt_by(dealer))
        seed = Dealing(SelfSeedShare, *public, data[4 * count : 36 * count])
        return cls(seed, Dealing(MaskKeyShare, *public, data[36 * count :]))


def encode_dealing(seed: DealtShares[SelfSeedShare], key: DealtShares[MaskKeyShare]) -> bytes:
    """All holders (4 bytes each), then the commitments to the seed's shares, then those to the key's."""
    return np.array(seed.dealing.holders, ">u4").tobytes() + seed.dealing.commitments + key.dealing.commitments
