"""Gram questions at the second server: the coin is tossed, the triple and the opening are awaited, and its share is told.

Spec: specs/two_servers.md, steps 6 to 9. Shares are stretched from their keys one at a time.
"""

from collections.abc import Iterator
from dataclasses import replace

from ...crypto.additive import AdditiveShare, difference, gram_share, keyed_share, keyed_square, keyed_triple, reveal
from ...crypto.commitment import BadCommitment, open_commitment
from ..core.errors import RESTARTED, ProtocolError
from ..core.session import DEALER, SERVER
from ..drivers.roles import Effect
from .messages import Coin, GramAnswer, GramQuestion, KeyedTriple, Opening
from .questions import Row, gram_question, projected, projection_key, rows_of
from .second_state import HoldingKeys, Second, Tossed, kept_keys, number_spent, to_server
from .slot_sums import SlotHolding
from .terms import Words
from .upload import from_words, to_words


def toss(state: Second, question: bytes, request: GramQuestion) -> tuple[Second, tuple[Effect, ...]]:
    """Check the rows, count them against the limit of products, and say the second half of the coin."""
    numbered, stored = number_spent(state, request.number, question, gram_question(state.run, request))
    rows = rows_of(request)
    if len(set(rows)) < len(rows):
        raise ProtocolError("a Gram question with a row twice", SERVER)
    sessions = dict(state.sessions)
    for digest, client in rows:
        held = sessions.get(digest)
        if isinstance(held, SlotHolding):  # inner products of choices would show who chose alike
            raise ProtocolError("a Gram question about slots", SERVER)
        if not isinstance(held, HoldingKeys) or client not in held.keys:
            raise ProtocolError(f"a Gram question about an update that is not held, {RESTARTED}", SERVER)
        products = held.products.get(client, 0) + len(rows)
        if 0 < state.terms.most_products < products:
            raise ProtocolError(f"a question too many: {state.terms.most_products} products of one update are the most", SERVER)
        sessions[digest] = replace(held, products={**held.products, client: products})
    coin = state.entropy.secret(f"two servers coin 2 {question.hex()}", 32)
    tossed = Tossed(rows, request.commitment, coin)
    entered = {digest for digest, _ in rows}
    counted = any(isinstance(held := sessions[digest], HoldingKeys) and held.sums is None for digest in entered)
    return replace(numbered, sessions=sessions, questions={**state.questions, question: tossed}), (
        stored,
        *([kept_keys(sessions)] if counted else ()),
        to_server(question, Coin(coin)),
    )


def take_triple(state: Second, sender: int, question: bytes, triple: KeyedTriple) -> tuple[Second, tuple[Effect, ...]]:
    """The dealer's, once for a question."""
    if sender != DEALER or question not in state.questions or state.questions[question].triple is not None:
        raise ProtocolError("a triple that is not the dealer's, or that no question waits for", sender)
    return _answered(state, question, replace(state.questions[question], triple=triple))


def take_opening(state: Second, question: bytes, opening: Opening) -> tuple[Second, tuple[Effect, ...]]:
    """The first server's half of the coin, and its share of X - A."""
    tossed = state.questions.get(question)
    if tossed is None or tossed.opening is not None:
        raise ProtocolError("an opening that no question waits for", SERVER)
    try:
        open_commitment(tossed.commitment, opening.coin, opening.salt, question)
    except BadCommitment:
        raise ProtocolError("a half of the coin that is not the one committed to", SERVER) from None
    if len(opening.difference) != 8 * len(tossed.rows) * state.terms.columns:
        raise ProtocolError(f"a difference of {len(opening.difference)} bytes", SERVER)
    return _answered(state, question, replace(tossed, opening=opening))


def _answered(state: Second, question: bytes, tossed: Tossed) -> tuple[Second, tuple[Effect, ...]]:
    """Project the shares and answer, once the triple and the opening are here; each triple once."""
    if tossed.triple is None or tossed.opening is None:
        return replace(state, questions={**state.questions, question: tossed}), ()
    projection = state.terms.project(projection_key(question, tossed.opening.coin, tossed.coin))
    share = AdditiveShare(1, projected(state.terms, projection, _expanded(state, tossed.rows), len(tossed.rows)))
    count = len(tossed.rows)
    triple = keyed_triple(1, tossed.triple.mask, keyed_square(tossed.triple.square, count), state.terms.columns)
    mine = difference(share, triple)
    theirs = AdditiveShare(0, from_words(tossed.opening.difference).reshape(count, -1))
    gram = gram_share(reveal(theirs, mine), triple)
    left = {q: t for q, t in state.questions.items() if q != question}
    return replace(state, questions=left), (to_server(question, GramAnswer(to_words(mine.values), to_words(gram.values))),)


def _expanded(state: Second, rows: tuple[Row, ...]) -> Iterator[Words]:
    for digest, client in rows:
        held = state.sessions.get(digest)
        if not isinstance(held, HoldingKeys) or client not in held.keys:
            raise ProtocolError("a Gram question about an update that is no longer held", SERVER)
        yield keyed_share(held.keys[client], (state.terms.length,)).values
