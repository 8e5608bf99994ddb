"""What each party of the two-server protocol received in one round, read off recorded frames; and the same, simulated.

A round: uploads, one Gram question about all, one weighted sum. The simulators are given the disclosed values (the Gram matrix of
the projected updates, the sum) and public parameters, and no update.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cloister.crypto.additive import GramTriple, gram_share, keyed_share, keyed_square, keyed_triple, multiply
from cloister.protocol.core.session import DEALER, SECOND_SERVER, SERVER
from cloister.protocol.messages import decode
from cloister.protocol.two_servers.messages import (
    Coin,
    ExplicitShare,
    ExplicitTriple,
    GramAnswer,
    KeyedTriple,
    KeyShare,
    Opening,
    SumAnswer,
)
from cloister.protocol.two_servers.questions import projected, projection_key, weighted
from cloister.protocol.two_servers.terms import ShareTerms
from cloister.protocol.two_servers.upload import from_words

from .two_server_session import LIMIT, Play

Words = np.ndarray
Ideal = Callable[[object], np.ndarray]
"""The ideal functionality: a projection (None where there is none) -> the Gram matrix of the projected updates, int64."""


@dataclass(frozen=True, slots=True)
class Round:
    """Everything that was sent to each party in one round: (sender, session, message), in order."""

    to: Mapping[int, Sequence[tuple[int, bytes, object]]]
    raw: Mapping[int, bytes]

    def one(self, receiver: int, kind: type) -> tuple[bytes, object]:
        ((session, message),) = [(s, m) for _, s, m in self.to[receiver] if type(m) is kind]
        return session, message

    def by_client(self, receiver: int, kind: type) -> list[object]:
        return [m for _, m in sorted((sender, m) for sender, _, m in self.to[receiver] if type(m) is kind)]


def play_round(play: Play, round: int, weights: Mapping[int, int]) -> Round:
    """A recorded round of these clients' updates; everything is forgotten behind it."""
    play.network.frames.clear()
    assert play.upload(round) == play.roster
    play.gram(play.rows(round=round))
    play.sum(weights, round)
    frames = list(play.network.frames)
    play.forget()
    parties = (SERVER, SECOND_SERVER, DEALER)
    said = {f.number: decode(f.data, f.sender, LIMIT) for f in frames}
    to = {p: [(f.sender, said[f.number].session, said[f.number].message) for f in frames if f.receiver == p] for p in parties}
    return Round(to, {p: b"".join(f.data for f in frames if f.receiver == p) for p in parties})


def bytes_as_words(data: bytes) -> Words:
    return np.frombuffer(data, "<u8").astype(np.uint64)


# --- the first server -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class First:
    """uploads: its shares. rows: projected. triple: its half. opened: D. other: Z's share of G. answer: of the sum."""

    uploads: Words
    rows: Words
    triple: GramTriple
    opened: Words
    other: Words
    answer: Words
    coin: bytes


def first_view(play: Play, seen: Round) -> First:
    terms, n = play.terms, len(play.roster)
    uploads = np.stack([from_words(m.vector) for m in seen.by_client(SERVER, ExplicitShare)])
    (question, coin), (_, triple) = seen.one(SERVER, Coin), seen.one(SERVER, ExplicitTriple)
    (_, answer), (_, total) = seen.one(SERVER, GramAnswer), seen.one(SERVER, SumAnswer)
    _, opening = seen.one(SECOND_SERVER, Opening)  # its own message
    projection = terms.project(projection_key(question, opening.coin, coin.coin))
    rows = projected(terms, projection, uploads, n)
    half = keyed_triple(0, triple.mask, from_words(triple.square).reshape(n, n), terms.columns)
    opened = (from_words(opening.difference) + from_words(answer.difference)).reshape(n, -1)
    return First(uploads, rows, half, opened, from_words(answer.gram).reshape(n, n), from_words(total.vector), coin.coin)


def simulate_first(terms: ShareTerms, ideal: Ideal, total: np.ndarray, weights: Sequence[int], rng: np.random.Generator) -> First:
    """From the Gram matrix of the projected updates and the sum: all uniform, and Z's shares what is left of the answers."""
    n, d, columns = len(weights), terms.length, terms.columns
    uploads, opened, square = (rng.integers(0, 2**64, (n, m), np.uint64) for m in (d, columns, n))
    mine, theirs, mask = rng.bytes(32), rng.bytes(32), rng.bytes(32)
    projection = terms.project(projection_key(rng.bytes(32), mine, theirs))
    rows = projected(terms, projection, uploads, n)
    half = keyed_triple(0, mask, square, columns)
    own = gram_share(opened.view(np.int64), half).values
    answer = total.view(np.uint64) - weighted(weights, uploads, d)
    return First(uploads, rows, half, opened, ideal(projection).view(np.uint64) - own, answer, theirs)


def first_words(view: First, weights: Sequence[int]) -> Words:
    """All words of the view, and what a curious server would look at."""
    half, upper = view.triple, np.triu_indices(len(view.other), 1)
    own = gram_share(view.opened.view(np.int64), half).values
    looked_at = [
        own + view.other,
        weighted(weights, view.uploads, len(view.answer)) + view.answer,
        view.opened - (view.rows - half.mask),
        view.opened + half.mask,
        view.opened - view.rows,
        (view.other - view.other.T)[upper],
        (half.square - half.square.T)[upper],
        half.square - multiply(half.mask, np.ascontiguousarray(half.mask.T)),
        view.answer[None] + view.uploads,
    ]
    seen = [
        view.uploads,
        view.rows,
        half.mask,
        half.square,
        view.opened,
        view.other,
        view.answer,
        bytes_as_words(view.coin),
    ]
    return np.concatenate([words.ravel() for words in (*seen, *looked_at)])


# --- the second server ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Second:
    """keys: of the uploads. rows: projected shares. triple: its half. theirs: the first server's share of D. coin: its half."""

    keys: tuple[bytes, ...]
    rows: Words
    triple: GramTriple
    theirs: Words
    coin: bytes


def second_view(play: Play, seen: Round) -> Second:
    keys = tuple(m.key for m in seen.by_client(SECOND_SERVER, KeyShare))
    (question, opening), (_, triple) = seen.one(SECOND_SERVER, Opening), seen.one(SECOND_SERVER, KeyedTriple)
    _, coin = seen.one(SERVER, Coin)  # its own message
    key = projection_key(question, opening.coin, coin.coin)
    theirs = from_words(opening.difference).reshape(len(keys), -1)
    return _second(play.terms, keys, key, triple.mask, triple.square, theirs, opening.coin)


def simulate_second(terms: ShareTerms, clients: int, rng: np.random.Generator) -> Second:
    """From nothing: keys are keys, and the first server's share of D is uniform under its mask."""
    keys = tuple(rng.bytes(32) for _ in range(clients))
    coin = rng.bytes(32)
    theirs = rng.integers(0, 2**64, (clients, terms.columns), np.uint64)
    return _second(terms, keys, projection_key(rng.bytes(32), coin, rng.bytes(32)), rng.bytes(32), rng.bytes(32), theirs, coin)


def _second(
    terms: ShareTerms, keys: tuple[bytes, ...], key: bytes, mask: bytes, square: bytes, theirs: Words, coin: bytes
) -> Second:
    rows = projected(terms, terms.project(key), (keyed_share(k, (terms.length,)).values for k in keys), len(keys))
    return Second(keys, rows, keyed_triple(1, mask, keyed_square(square, len(keys)), terms.columns), theirs, coin)


def second_words(view: Second) -> Words:
    half = view.triple
    opened = view.theirs + (view.rows - half.mask)
    own = gram_share(opened.view(np.int64), half).values
    looked_at = [opened, opened + half.mask, opened - view.rows, view.theirs + half.mask, view.theirs + view.rows, own]
    seen = [view.rows, half.mask, half.square, view.theirs, bytes_as_words(view.coin), *map(bytes_as_words, view.keys)]
    return np.concatenate([words.ravel() for words in (*seen, *looked_at)])


# --- the ideal functionality ------------------------------------------------------------------------------------------------


def ideal_of(play: Play) -> Ideal:
    """The Gram matrix of the projected encodings, in integers."""
    whole = np.stack([play.terms.encode(play.updates[i]) for i in play.roster])

    def gram(projection: object) -> np.ndarray:
        rows = projected(play.terms, projection, whole.view(np.uint64), len(whole)).view(np.int64)
        return (rows.astype(object) @ rows.T.astype(object)).astype(np.int64)

    return gram


def total_of(play: Play, weights: Mapping[int, int]) -> np.ndarray:
    """The weighted sum of the encodings."""
    return sum((q * play.terms.encode(play.updates[i]) for i, q in weights.items()), np.zeros(play.terms.length, np.int64))
