"""Verifiable Shamir sharing of a 32-byte secret among holders, any `threshold` of whom recover it (Shamir 1979).

Over the prime field of 2^264 - 275: an element fits 33 bytes, a secret fits an element, and 33 random bytes are uniform in
the field up to 2^-255. The holder with party id i has the point i + 1.

The polynomial's other coefficients and the salts of the commitments are stretched from the secret itself (HKDF-SHA256 and
AES-256-CTR, bound to kind, threshold, holders and context). So whoever recovers a secret repeats the dealing and compares
all commitments: either every commitment is to the one polynomial of the one secret, or the dealer is guilty. The outcome
does not depend on which shares were used, up to collisions of SHA-256.

Hiding is therefore *computational*: fewer than `threshold` shares and all commitments say nothing about the secret to whom
cannot guess it, with HKDF and SHA-256 as random oracles. The secret must be 256 uniform bits (a key or a seed, never a
message), because a guess of it can be tested. Python's integers do not run in constant time.
"""

import hashlib
import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import lt
from typing import ClassVar, Generic, Self, TypeVar

from .commitment import COMMITMENT_BYTES, SALT_BYTES, BadCommitment, commit, open_commitment
from .prg import derive_key, keystream

PRIME = 2**264 - 275
FIELD_BYTES = 33
SECRET_BYTES = 32
SHARE_BYTES = 1 + 4 + FIELD_BYTES + SALT_BYTES
MAX_HOLDER = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Share:
    """A share: its holder's party id, its value (33 bytes) and the salt of its commitment (32 bytes)."""

    TAG: ClassVar[int] = 0
    holder: int
    value: bytes = field(repr=False)
    salt: bytes = field(repr=False)

    def encode(self) -> bytes:
        """70 bytes: kind, holder, value, salt."""
        return bytes([self.TAG]) + self.holder.to_bytes(4, "big") + self.value + self.salt

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """The share of this kind. Raises ValueError for another kind, length or range."""
        if len(content) != SHARE_BYTES or content[0] != cls.TAG:
            raise ValueError(f"not a {cls.__name__} of {SHARE_BYTES} bytes")
        holder, value, salt = int.from_bytes(content[1:5], "big"), content[5 : 5 + FIELD_BYTES], content[5 + FIELD_BYTES :]
        if holder > MAX_HOLDER or int.from_bytes(value, "big") >= PRIME:
            raise ValueError(f"a {cls.__name__} is out of range")
        return cls(holder, value, salt)


@dataclass(frozen=True, slots=True)
class SelfSeedShare(_Share):
    """A share of the seed of a client's self mask; handed in when that client survived."""

    TAG: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class MaskKeyShare(_Share):
    """A share of the key behind a client's pairwise masks; handed in when that client dropped out."""

    TAG: ClassVar[int] = 2


S = TypeVar("S", bound=_Share)


@dataclass(frozen=True, slots=True)
class Dealing(Generic[S]):
    """What is public about one sharing. kind: SelfSeedShare or MaskKeyShare. context: names session and dealer.

    holders: party ids, ascending; commitments: 32 bytes for each in their order, one after another, as they are sent: a holder
    looks at its own alone. Raises ValueError for what cannot be.
    """

    kind: type[S]
    threshold: int
    holders: tuple[int, ...]
    context: bytes
    commitments: bytes

    def __post_init__(self) -> None:
        _check_terms(self.kind, self.threshold, self.holders)
        if len(self.commitments) != COMMITMENT_BYTES * len(self.holders):
            raise ValueError(f"a dealing has one commitment of {COMMITMENT_BYTES} bytes per holder")

    @property
    def terms(self) -> bytes:
        """What each of its shares is bound to."""
        return _terms(self.kind, self.threshold, self.holders, self.context)


@dataclass(frozen=True, slots=True)
class DealtShares(Generic[S]):
    """A dealer's result: what it publishes, and one share per holder in their order."""

    dealing: Dealing[S]
    shares: tuple[S, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Recovered:
    """secret: 32 bytes. bad: holders that handed in a bad share, ascending."""

    secret: bytes = field(repr=False)
    bad: tuple[int, ...]


class BadShare(ValueError):
    """A share is not what its dealer committed to for this holder."""

    def __init__(self, holder: int) -> None:
        super().__init__(f"the share of holder {holder} is not the one that was committed to")
        self.holder = holder


class NotRecovered(ValueError):
    """A secret was not recovered. bad: holders that handed in a bad share, ascending."""

    def __init__(self, reason: str, bad: tuple[int, ...]) -> None:
        super().__init__(reason)
        self.bad = bad


class TooFewShares(NotRecovered):
    """Fewer good shares than the threshold were handed in."""


class BadDealer(NotRecovered):
    """The dealer's commitments are not to one sharing; no set of good shares would recover a secret."""


def split(kind: type[S], secret: bytes, threshold: int, holders: Sequence[int], context: bytes) -> DealtShares[S]:
    """Share 32 uniformly random bytes, the only randomness there is. Raises ValueError for terms that cannot be."""
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"a secret has {SECRET_BYTES} bytes, not {len(secret)}")
    holders = tuple(holders)
    _check_terms(kind, threshold, holders)
    terms = _terms(kind, threshold, holders, context)
    stretched = keystream(derive_key(secret, "shamir", terms), FIELD_BYTES * (threshold - 1) + SALT_BYTES * len(holders))
    salts = FIELD_BYTES * (threshold - 1)
    coefficients = [int.from_bytes(stretched[i : i + FIELD_BYTES], "big") % PRIME for i in range(0, salts, FIELD_BYTES)]
    values = _evaluate([*coefficients, int.from_bytes(secret, "big")], holders)
    shares = tuple(
        kind(holder, value.to_bytes(FIELD_BYTES, "big"), stretched[at : at + SALT_BYTES])
        for holder, value, at in zip(holders, values, range(salts, len(stretched), SALT_BYTES), strict=True)
    )
    commitments = b"".join(commit(s.value, s.salt, terms + s.holder.to_bytes(4, "big")) for s in shares)
    return DealtShares(Dealing(kind, threshold, holders, context, commitments), shares)


def check_share(dealing: Dealing[S], share: S) -> None:
    """What a holder does on receipt. Return if the dealer committed to this share. Raises BadShare."""
    _check_against(dealing, dealing.terms, share)


def combine(dealing: Dealing[S], shares: Iterable[S]) -> Recovered:
    """The secret from any `threshold` good shares; bad ones are named. Raises TooFewShares or BadDealer."""
    (outcome,) = combine_all([(dealing, shares)])
    if isinstance(outcome, NotRecovered):
        raise outcome
    return outcome


def combine_all(requests: Iterable[tuple[Dealing[S], Iterable[S]]]) -> tuple[Recovered | NotRecovered, ...]:
    """Many secrets, one outcome each: a failure of one does not sink the others.

    Interpolation weights are computed once per set of holders, with one field inversion for all of them.
    """
    sorted_out = [(dealing, *_sort_out(dealing, shares)) for dealing, shares in requests]
    chosen = [tuple(sorted(good)[: dealing.threshold]) for dealing, good, _ in sorted_out]
    enough = {h for (dealing, _, _), h in zip(sorted_out, chosen, strict=True) if len(h) == dealing.threshold}
    weights = _weights_at_zero(sorted(enough))
    outcomes: list[Recovered | NotRecovered] = []
    for (dealing, good, bad), holders in zip(sorted_out, chosen, strict=True):
        if holders not in weights or len(holders) < dealing.threshold:
            reason = f"{len(good)} good shares of {dealing.threshold} needed; bad ones from {list(bad) or 'nobody'}"
            outcomes.append(TooFewShares(reason, bad))
            continue
        terms = zip(weights[holders], holders, strict=True)
        secret = sum(weight * int.from_bytes(good[holder].value, "big") for weight, holder in terms) % PRIME
        outcomes.append(_deal_again(dealing, secret, bad))
    return tuple(outcomes)


def _deal_again(dealing: Dealing[S], secret: int, bad: tuple[int, ...]) -> Recovered | BadDealer:
    if secret < 1 << 8 * SECRET_BYTES:
        content = secret.to_bytes(SECRET_BYTES, "big")
        if split(dealing.kind, content, dealing.threshold, dealing.holders, dealing.context).dealing == dealing:
            return Recovered(content, bad)
    return BadDealer("the commitments are not to one sharing: its dealer is guilty", bad)


def _sort_out(dealing: Dealing[S], shares: Iterable[S]) -> tuple[dict[int, S], tuple[int, ...]]:
    terms, good, bad = dealing.terms, dict[int, S](), set[int]()
    for share in shares:
        try:
            _check_against(dealing, terms, share)
            good[share.holder] = share
        except BadShare as error:
            bad.add(error.holder)
    return good, tuple(sorted(bad))


def _check_against(dealing: Dealing[S], terms: bytes, share: S) -> None:
    if type(share) is not dealing.kind or share.holder not in dealing.holders:
        raise BadShare(share.holder)
    at = COMMITMENT_BYTES * dealing.holders.index(share.holder)
    commitment = dealing.commitments[at : at + COMMITMENT_BYTES]
    try:
        open_commitment(commitment, share.value, share.salt, terms + share.holder.to_bytes(4, "big"))
    except BadCommitment:
        raise BadShare(share.holder) from None


def _check_terms(kind: type[_Share], threshold: int, holders: tuple[int, ...]) -> None:
    if kind not in (SelfSeedShare, MaskKeyShare):
        raise ValueError("a share is a SelfSeedShare or a MaskKeyShare")
    if not 1 <= threshold <= len(holders):
        raise ValueError(f"threshold {threshold} does not fit {len(holders)} holders")
    if holders[0] < 0 or holders[-1] > MAX_HOLDER or not all(map(lt, holders, holders[1:])):
        raise ValueError(f"holders are party ids of 0 to {MAX_HOLDER} in ascending order, each once")


def _terms(kind: type[_Share], threshold: int, holders: tuple[int, ...], context: bytes) -> bytes:
    """SHA-256 of all that a sharing is bound to, which was checked."""
    head = bytes([kind.TAG]) + threshold.to_bytes(4, "big") + len(holders).to_bytes(4, "big")
    ids = struct.pack(f">{len(holders)}I", *holders)
    return hashlib.sha256(b"cloister/v1/shamir" + head + ids + context).digest()


def _evaluate(falling: list[int], holders: tuple[int, ...]) -> list[int]:
    """The polynomial's values, by Horner's rule; coefficients from the highest degree down. Reduces at every eighth step."""
    chunks = [falling[i : i + 8] for i in range(0, len(falling), 8)]
    values = []
    for holder in holders:
        point, value = holder + 1, 0
        for chunk in chunks:
            for coefficient in chunk:
                value = value * point + coefficient
            value %= PRIME
        values.append(value)
    return values


def _weights_at_zero(sets: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], list[int]]:
    """Lagrange's weights at 0, prod_{j != i} x_j / (x_j - x_i), for each set of holders."""
    points = [[holder + 1 for holder in holders] for holders in sets]
    below = [x * math.prod([y - x for y in xs if y != x]) % PRIME for xs in points for x in xs]
    inverses = iter(_invert_all(below))
    above = [math.prod(xs) % PRIME for xs in points]
    return {h: [a * next(inverses) % PRIME for _ in h] for h, a in zip(sets, above, strict=True)}


def _invert_all(values: list[int]) -> list[int]:
    """Inverses in the field by one inversion and three products each (Montgomery's trick). No value may be 0."""
    products = list(accumulate(values, lambda a, b: a * b % PRIME, initial=1))
    inverse = pow(products[-1], -1, PRIME)
    inverses = [0] * len(values)
    for i in range(len(values) - 1, -1, -1):
        inverses[i] = inverse * products[i] % PRIME
        inverse = inverse * values[i] % PRIME
    return inverses
