"""What both servers compute alike about a question: its digest, its rows, the projection of shares, weighted sums of shares."""

import hashlib
from collections.abc import Iterable
from itertools import islice

import cbor2
import numpy as np

from ...crypto.prg import derive_key
from ...crypto.ring_projection import RingProjection
from .messages import GramQuestion, Keep, SumQuestion
from .slot_messages import SlotQuestion
from .terms import ShareTerms, Words

Row = tuple[bytes, int]
"""An update: the digest of the session that it was sent in, and its client."""


def _question(run: bytes, what: str, *fields: object) -> bytes:
    return hashlib.sha256(b"cloister/v1/two servers question" + cbor2.dumps([run, what, *fields], canonical=True)).digest()


def gram_question(run: bytes, request: GramQuestion) -> bytes:
    """The digest that a Gram question is asked under. The commitment is not part of it: it is made in its context."""
    return _question(run, "gram", request.number, list(request.sources), list(request.counts), list(request.clients))


def sum_question(run: bytes, request: SumQuestion) -> bytes:
    return _question(run, "sum", request.number, request.source, list(request.clients), list(request.weights))


def slot_question(run: bytes, request: SlotQuestion) -> bytes:
    return _question(run, "slots", request.number, request.source, request.counts, request.blinding, list(request.without))


def keep_question(run: bytes, keep: Keep) -> bytes:
    return _question(run, "keep", keep.number, list(keep.sources), list(keep.counts), list(keep.clients))


def rows_of(message: GramQuestion | Keep) -> tuple[Row, ...]:
    """The rows in the order in which they are asked about."""
    clients = iter(message.clients)
    counted = zip(message.sources, message.counts, strict=True)
    return tuple((source, client) for source, count in counted for client in islice(clients, count))


def projection_key(question: bytes, one: bytes, other: bytes) -> bytes:
    """The key of a question's projection: uniform and unforeseen if either half of the coin was."""
    return derive_key(one + other, "two servers projection", question)


def projected(terms: ShareTerms, projection: RingProjection | None, shares: Iterable[Words], count: int) -> Words:
    """uint64, shape (count, columns): the shares, projected one after the other."""
    rows = np.empty((count, terms.columns), np.uint64)
    for at, values in enumerate(shares):
        rows[at] = values if projection is None else projection.apply(values)
    return rows


def weighted(weights: Iterable[int], shares: Iterable[Words], length: int) -> Words:
    """uint64, shape (length,): sum_i q_i share_i modulo 2^64."""
    total = np.zeros(length, np.uint64)
    for q, values in zip(weights, shares, strict=True):
        total += values * np.uint64(q % 2**64)
    return total
