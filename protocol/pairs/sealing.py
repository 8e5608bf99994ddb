"""What one client of a pair seals for the other, in chunks: embedding models and clouds. Spec: specs/pairs.md, section Keys."""

from ...crypto.envelope import open_sealed, seal
from ...crypto.prg import derive_key
from ..view.answers import Vector
from ..work.uploads import from_bytes
from .messages import CHUNK_BYTES
from .terms import PairTerms

MODEL = "pair embedding"
CLOUD = "pair cloud"
"""What chunks are of: labels of their keys."""
TAG_BYTES = 16


def sealed_chunks(secret: bytes, terms: PairTerms, label: str, sender: int, content: bytes) -> tuple[bytes, ...]:
    """The content in chunks of at most CHUNK_BYTES, each sealed under a key of its own: place and number are in the key."""
    pieces = [content[at : at + CHUNK_BYTES] for at in range(0, len(content), CHUNK_BYTES)]
    return tuple(
        seal(_chunk_key(secret, terms, label, sender, at, len(pieces)), piece, terms.binding) for at, piece in enumerate(pieces)
    )


def opened_chunks(secret: bytes, terms: PairTerms, label: str, sender: int, chunks: tuple[bytes, ...], floats: int) -> Vector:
    """The content, float32 (floats,). Raises InvalidSeal for what is not all of it in its order, ValueError for another size."""
    if sum(len(chunk) - TAG_BYTES for chunk in chunks) != 4 * floats:
        raise ValueError(f"not {4 * floats} bytes long")
    opened = b"".join(
        open_sealed(_chunk_key(secret, terms, label, sender, at, len(chunks)), chunk, terms.binding)
        for at, chunk in enumerate(chunks)
    )
    return from_bytes(opened)


def _chunk_key(secret: bytes, terms: PairTerms, label: str, sender: int, at: int, count: int) -> bytes:
    place = b"".join(number.to_bytes(4, "big") for number in (sender, at, count))
    return derive_key(secret, label, terms.binding + place)
