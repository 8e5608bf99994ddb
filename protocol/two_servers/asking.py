"""The first server's side of a question to the second: a Gram matrix, or one weighted sum, of updates that both hold.

Spec: specs/two_servers.md, steps 6 to 9. Phases: AskingGram -> CoinOpened -> GramAnswered, AskingSum -> SumAnswered; the deadline
of an unanswered question leads to Unanswered.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...crypto.additive import AdditiveShare, GramTriple, difference, gram_share, keyed_triple, reveal
from ...crypto.commitment import SALT_BYTES, commit
from ...crypto.entropy import Entropy
from ..core.errors import OF_EITHER, ProtocolError
from ..core.session import DEALER, SECOND_SERVER, SERVER
from ..drivers.roles import Deadline, Effect, Event, Received, Send
from ..wire.codec import Envelope
from .messages import (
    Coin,
    ExplicitTriple,
    GramAnswer,
    GramQuestion,
    Keep,
    Opening,
    SumAnswer,
    SumQuestion,
    TripleRequest,
)
from .questions import Row, gram_question, keep_question, projected, projection_key, sum_question, weighted
from .terms import Integers, ShareTerms, Words
from .upload import from_words, to_words


@dataclass(frozen=True, slots=True)
class AskingGram:
    """Waiting for the second server's half of the coin, and then for the triple. shares: of the rows, in their order."""

    terms: ShareTerms
    number: int
    question: bytes
    shares: tuple[Words, ...] = field(repr=False)
    coin: bytes = field(repr=False)
    salt: bytes = field(repr=False)
    other: bytes | None = None


@dataclass(frozen=True, slots=True)
class CoinOpened:
    """Waiting for the second server's answer. mine: this server's share of X - A."""

    terms: ShareTerms
    question: bytes
    mine: AdditiveShare = field(repr=False)
    triple: GramTriple = field(repr=False)


@dataclass(frozen=True, slots=True)
class GramAnswered:
    """The end. gram: int64, shape (rows, rows), as the shares add up; `consistent` says which rows can be believed."""

    question: bytes
    gram: Integers


@dataclass(frozen=True, slots=True)
class AskingSum:
    """Waiting for the second server's share. weights: of shares, in their order."""

    terms: ShareTerms
    question: bytes
    weights: tuple[int, ...]
    shares: tuple[Words, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class SumAnswered:
    """The end. total: int64, shape (length,), in steps times units."""

    question: bytes
    total: Integers = field(repr=False)


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The end without an answer. waited_for: the party whose word was missing: it is silent, or refused and said why."""

    question: bytes
    waited_for: int


def _listed(rows: Sequence[Row]) -> tuple[tuple[bytes, ...], tuple[int, ...], tuple[int, ...]]:
    """Rows as sources, counts and clients."""
    runs = [(source, [client for _, client in run]) for source, run in groupby(rows, key=lambda row: row[0])]
    return tuple(s for s, _ in runs), tuple(len(c) for _, c in runs), tuple(i for _, c in runs for i in c)


def ask_gram(
    terms: ShareTerms, run: bytes, number: int, rows: Sequence[Row], shares: Iterable[Words], entropy: Entropy
) -> tuple[AskingGram, tuple[Effect, ...]]:
    """A Gram question about these rows, whose shares this server holds. number: not used for a question before."""
    blank = GramQuestion(number, *_listed(rows), bytes(32))
    question = gram_question(run, blank)
    coin = entropy.secret(f"two servers coin 1 {question.hex()}", 32)
    salt = entropy.secret(f"two servers salt {question.hex()}", SALT_BYTES)
    request = replace(blank, commitment=commit(coin, salt, question))
    return AskingGram(terms, number, question, tuple(shares), coin, salt), (_send(question, SECOND_SERVER, request),)


def ask_sum(
    terms: ShareTerms, run: bytes, number: int, source: bytes, weights: Sequence[tuple[int, int, Words]]
) -> tuple[AskingSum, tuple[Effect, ...]]:
    """A weighted sum of one session's updates. weights: client, weight and share, by ascending client."""
    clients, whole, shares = zip(*weights, strict=True)
    request = SumQuestion(number, source, clients, whole)
    question = sum_question(run, request)
    return AskingSum(terms, question, whole, shares), (_send(question, SECOND_SERVER, request),)


def keep(run: bytes, number: int, rows: Sequence[Row]) -> Effect:
    """Tell the second server what to keep: the keys of these rows only."""
    message = Keep(number, *_listed(rows))
    return _send(keep_question(run, message), SECOND_SERVER, message)


def asking_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The server's role in a question. Raises ProtocolError blaming the sender of what is misplaced, repeated or malformed."""
    match state, event:
        case AskingGram(other=None), Received(Envelope(message=Coin(coin=coin), sender=sender)):
            _expect(sender, SECOND_SERVER)
            request = TripleRequest(state.number, len(state.shares))
            return replace(state, other=coin), (_send(state.question, DEALER, request),)
        case AskingGram(other=bytes() as other), Received(Envelope(message=ExplicitTriple() as triple, sender=sender)):
            _expect(sender, DEALER)
            if len(triple.square) != 8 * len(state.shares) ** 2:
                raise ProtocolError(f"a square of {len(triple.square)} bytes", sender)
            return _open(state, other, triple)
        case AskingGram(), Deadline():
            return Unanswered(state.question, SECOND_SERVER if state.other is None else DEALER), ()
        case CoinOpened(), Received(Envelope(message=GramAnswer() as answer, sender=sender)):
            _expect(sender, SECOND_SERVER)
            return _reveal(state, answer), ()
        case AskingSum(), Received(Envelope(message=SumAnswer(vector=vector), sender=sender)):
            _expect(sender, SECOND_SERVER)
            if len(vector) != 8 * state.terms.length:
                raise ProtocolError(f"a share of a sum of {len(vector)} bytes where {8 * state.terms.length} belong", sender)
            total = weighted(state.weights, state.shares, state.terms.length) + from_words(vector)
            return SumAnswered(state.question, total.view(np.int64)), ()
        case ((CoinOpened() | AskingSum()), Deadline()):
            return Unanswered(state.question, SECOND_SERVER), ()
        case ((GramAnswered() | SumAnswered() | Unanswered()), Deadline()):
            return state, ()
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _send(question: bytes, receiver: int, message: Any) -> Send:
    return Send(Envelope(question, SERVER, receiver, message))


def _expect(sender: int, expected: int) -> None:
    if sender != expected:
        raise ProtocolError("an answer from a party that was not asked", sender)


def _open(state: AskingGram, other: bytes, dealt: ExplicitTriple) -> tuple[CoinOpened, tuple[Effect, ...]]:
    """With coin and triple: project the shares, mask them, and open this half of the coin."""
    count = len(state.shares)
    projection = state.terms.project(projection_key(state.question, state.coin, other))
    rows = AdditiveShare(0, projected(state.terms, projection, state.shares, count))
    square = from_words(dealt.square).reshape(count, count)
    triple = keyed_triple(0, dealt.mask, square, state.terms.columns)
    mine = difference(rows, triple)
    opening = Opening(state.coin, state.salt, to_words(mine.values))
    return CoinOpened(state.terms, state.question, mine, triple), (_send(state.question, SECOND_SERVER, opening),)


def _reveal(state: CoinOpened, answer: GramAnswer) -> GramAnswered:
    count = len(state.mine.values)
    if len(answer.difference) != 8 * count * state.terms.columns or len(answer.gram) != 8 * count * count:
        raise ProtocolError(f"an answer of {len(answer.difference)} and {len(answer.gram)} bytes", SECOND_SERVER)
    theirs = AdditiveShare(1, from_words(answer.difference).reshape(count, -1))
    share = AdditiveShare(1, from_words(answer.gram).reshape(count, count))
    gram = reveal(gram_share(reveal(state.mine, theirs), state.triple), share)
    if (gram != gram.T).any():
        raise ProtocolError(f"shares that do not add up to a symmetric matrix: {OF_EITHER}", SECOND_SERVER)
    return GramAnswered(state.question, gram)


def consistent(terms: ShareTerms, gram: Integers) -> NDArray[np.bool_]:
    """Which rows can all be rows within the bound: the others were out of range, and their products wrapped around.

    First the rows whose squared norm is not within 0 and the bound; then, while some pair violates Cauchy and Schwarz, the row
    in the most such pairs; of equals the longest, then the last. Rows within the bound never violate either, so each pair has a
    guilty row; a row out of range that wraps around to something plausible passes.
    """
    norms = np.diagonal(gram)
    good = (norms >= 0) & (norms <= terms.largest)
    limit = np.sqrt(np.maximum(norms, 0).astype(np.float64))
    bad = np.abs(gram.astype(np.float64)) > np.outer(limit, limit) * (1 + 1e-12) + 1
    while (pairs := (bad & np.outer(good, good)).sum(axis=1)).any():
        worst = max(range(len(gram)), key=lambda i: (int(pairs[i]), int(norms[i]), i))
        good[worst] = False
    return good
