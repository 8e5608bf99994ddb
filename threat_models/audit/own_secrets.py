"""A client's secrets in a masked sum as they follow from what it alone drew, and whether what it says is of these.

The labels under which secrets are drawn, what they are for, and what is sealed are written out here once more: whatever a
client's code does, an audit holds it against what it should do. What lies below that (ciphers, curves, sharing) is taken from
`crypto`, which has test vectors.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from ...crypto.agreement import AgreementKey
from ...crypto.entropy import Entropy
from ...crypto.prg import derive_key
from ...crypto.sealing import InvalidSeal, SealingKey
from ...crypto.shamir import PRIME, DealtShares, MaskKeyShare, SelfSeedShare, split
from ...protocol.masked.messages import MaskKeys, NeighbourKeys, SealedShares
from ...protocol.masked.terms import Plan, encode_dealing

Pieces = Sequence[SelfSeedShare] | Sequence[MaskKeyShare]
SEALS = 8
"""Of a client's sealed shares, so many are made anew, or all if they are fewer."""


@dataclass(frozen=True, slots=True)
class OwnSecrets:
    """seed: of the self mask. mask: what masks are agreed on with. seal: what shares are sealed with. Of one session."""

    plan: Plan = field(repr=False)
    client: int
    seed: bytes = field(repr=False)
    mask: AgreementKey
    seal: SealingKey

    @classmethod
    def of(cls, plan: Plan, client: int, entropy: Entropy) -> Self:
        root = entropy.secret(f"masked sum {client} {plan.binding.hex()}", 32)
        seed, mask, seal = (derive_key(root, purpose, plan.binding) for purpose in ("self seed", "mask key", "sealing key"))
        return cls(plan, client, seed, AgreementKey(mask), SealingKey(seal))

    @property
    def self_mask(self) -> bytes:
        """The key of the self mask."""
        return derive_key(self.seed, "self mask", self._dealt_by)

    @property
    def secrets(self) -> Iterator[tuple[str, bytes]]:
        """What it tells nobody as it is, 32 bytes each, by what it is called."""
        yield from (("self mask's seed", self.seed), ("self mask's key", self.self_mask))
        yield from (("mask key's secret", self.mask.secret), ("sealing key's secret", self.seal.secret))

    def pair(self, other: int) -> bytes:
        """The context of the mask that it shares with another."""
        return self.plan.binding + b"".join(i.to_bytes(4, "big") for i in sorted((self.client, other)))

    def foreign(self, said: MaskKeys, revealed: Sequence[bytes]) -> Iterator[str]:
        """Keys that are not these. revealed: keys of its self mask that follow from shares."""
        if said.mask_public != self.mask.public:
            yield "mask key"
        if said.seal_public != self.seal.public:
            yield "sealing key"
        if any(key != self.self_mask for key in revealed):
            yield "self mask key"

    def misdealt(self, shown: NeighbourKeys, sent: SealedShares) -> str:
        """What is wrong with its shares for those whose keys it was shown; empty if nothing is. Of all seals some are compared,
        other ones in every session (`SEALS`).
        """
        threshold, context = self.plan.terms.threshold, (shown.neighbours, self._dealt_by)
        seeds = split(SelfSeedShare, self.seed, threshold, *context)
        keys = split(MaskKeyShare, self.mask.secret, threshold, *context)
        if sent.dealing != encode_dealing(seeds, keys) or any(
            sent.sealed[k : k + 1] != self._sealed(k, shown, seeds, keys, sent.dealing) for k in self._looked_at(len(sent.sealed))
        ):
            return "are not shared and sealed as agreed"
        few = _joined(seeds.shares, threshold - 1) == self.seed or _joined(keys.shares, threshold - 1) == self.mask.secret
        return f"follow from fewer than {threshold} shares" if few else ""

    @property
    def _dealt_by(self) -> bytes:
        return self.plan.binding + self.client.to_bytes(4, "big")

    def _looked_at(self, seals: int) -> Sequence[int]:
        """Places of those that are compared."""

        def drawn(k: int) -> bytes:
            return hashlib.sha256(self._dealt_by + k.to_bytes(4, "big")).digest()

        return sorted(range(seals), key=drawn)[:SEALS]

    def _sealed(
        self, k: int, shown: NeighbourKeys, seeds: DealtShares[SelfSeedShare], keys: DealtShares[MaskKeyShare], dealing: bytes
    ) -> tuple[bytes, ...]:
        """What it seals to the one at this place."""
        content = seeds.shares[k].encode() + keys.shares[k].encode() + hashlib.sha256(dealing).digest()
        try:
            return (self.seal.seal(shown.seal_publics[k], content, self._dealt_by + shown.neighbours[k].to_bytes(4, "big")),)
        except InvalidSeal:
            return ()


def _joined(shares: Pieces, count: int) -> bytes:
    """What the polynomial through so many of the shares is at 0, of 33 bytes; of no share 0."""
    points = [(share.holder + 1, int.from_bytes(share.value, "big")) for share in shares[:count]]
    total = 0
    for k, (at, value) in enumerate(points):
        above = below = 1
        for other, _ in points[:k] + points[k + 1 :]:
            above, below = above * other % PRIME, below * (other - at) % PRIME
        total += value * above * pow(below, -1, PRIME)
    return (total % PRIME).to_bytes(33, "big")[1:]
