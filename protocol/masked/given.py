"""What a client remembers of the sums that it gave an update to, so that they never show what too few clients sent.

Spec: specs/masked_sum.md, section Sums of one update. The server's gate holds the same rules (gate.py); a client makes the check
again, because the server that it guards against is the one that would skip it. A client only knows the sums that it is in. So
that these are all that matter, it gives one update to sums among the same peers only and signs one survivor set for all of
them: then every sum that overlaps with one of its own is one of its own.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Self

import cbor2
import numpy as np

from ..parts.gate import Rules
from ..parts.leverage import Row
from .terms import NO_UPDATE, PROTOCOL, Plan, decode_weights


@dataclass(frozen=True, slots=True)
class GivenUpdate:
    """One update and where it went. peers: 32 bytes, see `peers`. rows: times_samples and weights of each sum, as in terms.

    alive: the one survivor set that the client signed, 4 bytes for each id; empty while it has signed none. told: what sessions
    of this update said of the sums opened before it (`told_by`); empty where they say nothing.
    """

    peers: bytes
    told: bytes = b""
    rows: tuple[tuple[int, bytes], ...] = field(default=(), repr=False)
    alive: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class GivenUpdates:
    """The updates, by digest, that a client gave to sums in `round`, the latest round that it took part in, or later.

    Its encoding is what the client persists. Inputs that are no held updates (NO_UPDATE) are of one session only and not kept.
    """

    round: int = 0
    updates: Mapping[bytes, GivenUpdate] = field(default_factory=dict)

    def at(self, round: int) -> Self:
        """At a session of this round: what was given in rounds before is forgotten."""
        return self if round <= self.round else type(self)(round)

    def giving(self, plan: Plan, rules: Rules) -> Self:
        """With one more sum, before its input is sent. Raises ValueError if that sum must not be."""
        given = self._with(plan)
        alive = _ids(given.alive) or plan.session.roster
        _check(plan, given, alive, rules)
        return self._keeping(plan, given)

    def signing(self, plan: Plan, alive: tuple[int, ...], rules: Rules) -> Self:
        """With this survivor set, before its signature is sent. Raises ValueError if it must not be signed."""
        given = self._with(plan)
        encoded = np.array(alive, ">u4").tobytes()
        if given.alive not in (b"", encoded):
            raise ValueError("another survivor set than an earlier sum of the same update had")
        _check(plan, given, alive, rules)
        return self._keeping(plan, replace(given, alive=encoded))

    def signed(self, update: bytes) -> tuple[int, ...]:
        """The survivor set that it signed for the sums of this update; empty if it signed none."""
        return _ids(self.updates[update].alive) if update in self.updates else ()

    def _with(self, plan: Plan) -> GivenUpdate:
        found, told = peers(plan), told_by(plan.session.protocol)
        given = self.updates.get(plan.terms.update, GivenUpdate(found, told))
        if given.peers != found:
            raise ValueError("a sum among other peers, or about another model, than an earlier one of the same update")
        if told and given.told not in (b"", told):
            raise ValueError("a sum that tells other sums than were told before, of the same clients and work")
        given = replace(given, told=given.told or told)
        row = (plan.terms.times_samples, plan.terms.weights)
        return given if row in given.rows else replace(given, rows=(*given.rows, row))

    def _keeping(self, plan: Plan, given: GivenUpdate) -> Self:
        if plan.terms.update == NO_UPDATE:
            return self
        return replace(self, updates={**self.updates, plan.terms.update: given})

    def encode(self) -> bytes:
        """Deterministic CBOR: [round, [update, peers, told, alive, times_samples, weights, times_samples, weights, ...], ...]."""
        updates = ([u, g.peers, g.told, g.alive, *(item for row in g.rows for item in row)] for u, g in self.updates.items())
        return cbor2.dumps([self.round, *updates], canonical=True)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """What the client itself persisted. Raises ValueError for anything else."""
        try:
            round, *updates = cbor2.loads(data)
            found = {
                u: GivenUpdate(p, told, tuple(zip(rows[::2], rows[1::2], strict=True)), alive)
                for u, p, told, alive, *rows in updates
            }
            result = cls(round, found)
            if type(round) is int and result.encode() == data:
                return result
        except (TypeError, ValueError, cbor2.CBORDecodeError):
            pass
        raise ValueError("not the given updates that a client stored; without them it must not take part in their round")


def peers(plan: Plan) -> bytes:
    """SHA-256 of who may be in a sum of which work, and who signs for whom: roster, graph (unless complete), threshold, model."""
    roster, terms = plan.session.roster, plan.terms
    seed = b"" if terms.neighbours == len(roster) - 1 else terms.graph_seed
    return _peers(roster, terms.neighbours, terms.threshold, seed, terms.model)


@lru_cache(maxsize=4)  # here and below: the same for thousands of clients of a process
def _peers(*of: object) -> bytes:
    return hashlib.sha256(cbor2.dumps(list(of), canonical=True)).digest()


def told_by(protocol: str) -> bytes:
    """What the name of a session says of sums that were opened before it: two sums of weights, or which slots; or nothing."""
    kind, _, said = protocol.removeprefix(f"{PROTOCOL}/").partition(" ")
    return said.partition(" ")[0].encode() if kind in ("by", "slots") else b""


def _ids(encoded: bytes) -> tuple[int, ...]:
    return tuple(np.frombuffer(encoded, ">u4").tolist())


def _check(plan: Plan, given: GivenUpdate, alive: tuple[int, ...], rules: Rules) -> None:
    _check_together(plan.session.roster, given.rows, alive, rules)


@lru_cache(maxsize=4)
def _check_together(roster: tuple[int, ...], given: tuple[tuple[int, bytes], ...], alive: tuple[int, ...], rules: Rules) -> None:
    """Whether the sums of these survivors may all be known together. Raises ValueError.

    Counts that clients multiply by scale their columns, which changes every leverage: of an update there is one sum with counts,
    whose weights are summed first (weighing.py), and none without them beside it.
    """
    living = frozenset(alive)
    rows = [(times, _row(roster, weights, living)) for times, weights in given]
    with_counts, without = ([row for times, row in rows if times == kind] for kind in (1, 0))
    if any(not one.keys().isdisjoint(other) for one in with_counts for other in without):
        raise ValueError("a sum of some clients' updates both with and without their sample counts")
    if len(with_counts) > 1:
        raise ValueError("a sum of some clients' updates that counts samples a second time, with other weights")
    if rules.reveals([row for _, row in rows]):
        raise ValueError(f"a sum that shows, perhaps with earlier ones, what fewer than {rules.least} clients sent")


def _row(roster: tuple[int, ...], weights: bytes, living: frozenset[int]) -> Row:
    """The weights of the living that have one."""
    row = decode_weights(roster, weights)
    return {client: weight for client, weight in row.items() if client in living and weight != 0}
