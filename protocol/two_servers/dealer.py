"""The dealer of the two-server protocol: one matrix triple per Gram question, a half for each server. It sees no update.

Spec: specs/two_servers.md. It must collude with neither server. What it deals is wrong at most: a false triple gives a false
Gram matrix and tells nobody anything.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from ...crypto.additive import TripleKeys, deal_gram_triple
from ...crypto.entropy import Entropy
from ..core.errors import ProtocolError
from ..core.session import DEALER, SECOND_SERVER, SERVER
from ..drivers.roles import Deadline, Effect, Event, Persist, Received, Send
from ..wire.codec import Envelope
from .messages import ExplicitTriple, KeyedTriple, TripleRequest
from .terms import ShareTerms
from .upload import to_words


@dataclass(frozen=True, slots=True)
class DealerState:
    """The dealer. next_question: the least number that it still answers, as persisted. most_rows: of one question."""

    terms: ShareTerms
    most_rows: int
    entropy: Entropy = field(repr=False)
    next_question: int = 0


def dealer_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The dealer's role. Raises ProtocolError blaming the sender."""
    match state, event:
        case DealerState(), Received(Envelope(message=TripleRequest(number=number, rows=rows), sender=sender, session=question)):
            if sender != SERVER or number < state.next_question:
                raise ProtocolError("a triple that is not the server's to ask for, or was dealt before", sender)
            if rows > state.most_rows:
                raise ProtocolError(f"a triple of {rows} rows where {state.most_rows} are the most", sender)
            key = state.entropy.secret(f"two servers triple {number} {question.hex()}", 32)
            keys = TripleKeys.of(key)
            half, _ = deal_gram_triple(rows, state.terms.columns, key)
            return replace(state, next_question=number + 1), (
                Persist("next question", (number + 1).to_bytes(8, "big")),
                Send(Envelope(question, DEALER, SECOND_SERVER, KeyedTriple(keys.masks[1], keys.square))),
                Send(Envelope(question, DEALER, SERVER, ExplicitTriple(keys.masks[0], to_words(half.square)))),
            )
        case DealerState(), Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at the dealer", envelope.sender)
        case DealerState(), Deadline():
            return state, ()
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at the dealer")
