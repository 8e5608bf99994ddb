"""What the second server of the two-server protocol holds, what of it is in its journal, and what is left of it after a crash.

Spec: specs/two_servers.md. It keeps 32 bytes per update.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import cbor2

from ...crypto.entropy import Entropy
from ..core.errors import ProtocolError
from ..core.session import SECOND_SERVER, SERVER, Session
from ..drivers.roles import Persist, Send
from ..wire.codec import Envelope
from ..work.uploads import Policy
from .messages import KeyedTriple, Opening
from .questions import Row
from .slot_sums import SlotHolding
from .slot_terms import SLOTS, SharedSlots
from .terms import ShareTerms
from .upload import KINDS

KEPT = "kept"
"""In its journal: keys that are listed to be kept. The other entries are rounds and numbers that are spent."""


@dataclass(frozen=True, slots=True)
class CollectingKeys:
    """A session while keys arrive; if it is about slots, with commitments. models: what each client says that it started from."""

    session: Session
    keys: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    models: Mapping[int, bytes] = field(default_factory=dict)
    slots: SharedSlots | None = None
    commitments: Mapping[int, int] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class HoldingKeys:
    """A session's survivors. sums: the weight rows answered, None once only Gram questions are. products: entered by client.

    round: of the session.
    """

    keys: Mapping[int, bytes] = field(repr=False)
    sums: tuple[Mapping[int, int], ...] | None = ()
    products: Mapping[int, int] = field(default_factory=dict)
    round: int = 0


@dataclass(frozen=True, slots=True)
class Tossed:
    """A Gram question after the second server's half of the coin, until the server's opening and the triple are both here."""

    rows: tuple[Row, ...]
    commitment: bytes
    coin: bytes
    triple: KeyedTriple | None = None
    opening: Opening | None = None


Sessions = Mapping[bytes, CollectingKeys | HoldingKeys | SlotHolding]
"""By digest."""


@dataclass(frozen=True, slots=True)
class Second:
    """The second server. next_round, next_question: what it still takes. opened: the round after each that it opened, as
    persisted, which `restored` and Keep close for all kinds (`closing`). Keys are stored when Keep lists them, and not before.
    About sessions of slots nothing else is answered.
    """

    run: bytes
    terms: ShareTerms
    policy: Policy
    entropy: Entropy = field(repr=False)
    next_round: Mapping[str, int] = field(default_factory=dict)
    next_question: int = 0
    sessions: Sessions = field(default_factory=dict)
    questions: Mapping[bytes, Tossed] = field(default_factory=dict)
    opened: Mapping[str, int] = field(default_factory=dict)


def restored(fresh: Second, journal: Mapping[str, bytes]) -> Second:
    """The second server after a crash. fresh: with nothing held or spent. journal: all that it persisted.

    Updates that Keep did not list are lost with their keys, so every round that was opened is closed, and every number that was
    used stays so.
    """
    spent = {key: int.from_bytes(value, "big") for key, value in journal.items() if key != KEPT}
    sessions: dict[bytes, CollectingKeys | HoldingKeys | SlotHolding] = {}
    for digest, client, key, products in cbor2.loads(journal[KEPT]) if KEPT in journal else ():
        held = sessions.get(digest)
        before = held if isinstance(held, HoldingKeys) else HoldingKeys({}, None)
        sessions[digest] = HoldingKeys({**before.keys, client: key}, None, {**before.products, client: products})
    closed = closing(number for key, number in spent.items() if key.startswith("next round "))
    return replace(fresh, next_round=closed, next_question=spent.get("next question", 0), sessions=sessions)


def closing(opened: Iterable[int]) -> dict[str, int]:
    """The next round of every kind, once what was answered of these is forgotten. opened: the round after each that was opened.

    All kinds are closed up to the latest: of one round's work another kind must not be summed than was.
    """
    after = max(opened, default=0)
    return dict.fromkeys((*KINDS, SLOTS), after) if after else {}


def kept_keys(sessions: Sessions) -> Persist:
    """The keys that Keep listed, and the products that their updates entered, in the place of those before."""
    held = {digest: found for digest, found in sessions.items() if isinstance(found, HoldingKeys) and found.sums is None}
    rows = [[digest, i, key, of.products.get(i, 0)] for digest, of in held.items() for i, key in of.keys.items()]
    return Persist(KEPT, cbor2.dumps(rows))


def number_spent(state: Second, number: int, question: bytes, expected: bytes) -> tuple[Second, Persist]:
    """The state after a question's number is spent, and that it is. Raises ProtocolError for one that was used before."""
    if number < state.next_question:
        raise ProtocolError("a question whose number was used before", SERVER)
    if question != expected:
        raise ProtocolError("a question under another question's digest", SERVER)
    return replace(state, next_question=number + 1), Persist("next question", (number + 1).to_bytes(8, "big"))


def to_server(session: bytes, message: Any) -> Send:
    """A message to the first server."""
    return Send(Envelope(session, SECOND_SERVER, SERVER, message))
