"""Commitments to vectors of whole numbers that add up: the product of commitments is one to the sums (Pedersen 1991).

The group is that of the squares modulo the 2048-bit safe prime of RFC 3526, of prime order q = (p - 1) / 2; its generators are
hashed, so that nobody knows a relation between them. Hiding is statistical: the blinding is 128 bits wider than q. Binding rests
on discrete logarithms there (about 112 bits), for values whose sums stay below q. Timing is not constant.
"""

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache

PRIME = int(
    "ffffffffffffffffc90fdaa22168c234c4c6628b80dc1cd129024e088a67cc74020bbea63b139b22514a08798e3404dd"
    "ef9519b3cd3a431b302b0a6df25f14374fe1356d6d51c245e485b576625e7ec6f44c42e9a637ed6b0bff5cb6f406b7ed"
    "ee386bfb5a899fa5ae9f24117c4b1fe649286651ece45b3dc2007cb8a163bf0598da48361c55d39a69163fa8fd24cf5f"
    "83655d23dca3ad961c62f356208552bb9ed529077096966d670c354e4abc9804f1746c08ca18217c32905e462e36ce3b"
    "e39e772c180e86039b2783a2ec07a28fb5c55df06f4c52c9de2bcbf6955817183995497cea956ae515d2261898fa0510"
    "15728e5a8aacaa68ffffffffffffffff",
    16,
)
"""2^2048 - 2^1984 - 1 + 2^64 (floor(2^1918 pi) + 124476)."""
COMMITMENT_BYTES = 256
BLINDING_BYTES = 272
MOST_VALUE = 1 << 160
"""Values are below this, sums of them included."""


@lru_cache(maxsize=256)
def _generator(index: int) -> int:
    """A square that comes from a hash: 2176 bits of SHAKE-256, so that it is as good as uniform."""
    data = hashlib.shake_256(b"cloister/v1/pedersen" + index.to_bytes(4, "big")).digest(BLINDING_BYTES)
    return pow(int.from_bytes(data, "big"), 2, PRIME)


def pedersen(values: Sequence[int], blinding: int) -> int:
    """A commitment to these values: below `PRIME`. blinding: `BLINDING_BYTES` fresh random bytes, or a sum of such.

    Raises ValueError for a value that is negative or not below `MOST_VALUE`, and for a negative blinding.
    """
    if blinding < 0 or any(not 0 <= value < MOST_VALUE for value in values):
        raise ValueError("committed values are from 0 to 2^160 - 1, and a blinding is not negative")
    found = pow(_generator(0), blinding, PRIME)
    for k, value in enumerate(values):
        found = found * pow(_generator(k + 1), value, PRIME) % PRIME
    return found


def combined(commitments: Iterable[int]) -> int:
    """The commitment to the sums of what these are commitments to, under the sum of their blindings."""
    found = 1
    for commitment in commitments:
        found = found * commitment % PRIME
    return found
