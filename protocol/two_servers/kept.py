"""What the two servers of a simulated run keep beyond a round, and in a snapshot: shares, and the keys beside them, as words.

Where the second server is elsewhere, a snapshot of the first has no keys: it has its own shares, and what it counted itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..core.session import DEALER, SECOND_SERVER
from ..drivers.roles import Party
from ..view.answers import Remembered, Snapshot
from .questions import Row
from .second_state import HoldingKeys, Second, closing
from .terms import Words
from .upload import from_words, to_words

QUESTION = "question"
"""In a snapshot: the number of a party's next question, beside its next rounds."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptShares:
    """What the first server keeps of one session's updates beyond their round. shares: by client."""

    session: bytes
    shares: Mapping[int, Words] = field(repr=False)


def packed(
    kept: Mapping[str, KeptShares], helpers: Mapping[int, Any], products: Mapping[Row, int]
) -> tuple[dict[str, Words], dict[int, dict[str, int]]]:
    """Remembered updates, of both servers, and the rounds and numbers that the helpers have spent.

    products: entered by each update, as the first server counted them.
    """
    second = helpers[SECOND_SERVER].state if _here(helpers) else None
    arrays = {}
    for name, shared in kept.items():
        if not shared.shares:
            continue
        arrays[name] = np.stack(list(shared.shares.values()))
        rows = [(shared.session, client) for client in shared.shares]
        held = (_counted(row, products) if second is None else _held(second, *row) for row in rows)
        arrays[_beside(name)] = np.stack(list(held))
    if second is None:
        return arrays, {}
    counters = {SECOND_SERVER: {**second.next_round, **second.opened, QUESTION: second.next_question}}
    return arrays, {**counters, DEALER: {QUESTION: helpers[DEALER].state.next_question}}


def unpacked(
    snapshot: Snapshot, remembered: Iterable[Remembered], helpers: Mapping[int, Any]
) -> tuple[dict[str, KeptShares], dict[Row, int]]:
    """Give the helpers back what they held; returns what the first server keeps, and the products entered by each update."""
    kept: dict[str, KeptShares] = {}
    sessions: dict[bytes, HoldingKeys] = {}
    for handle in (r for r in remembered if r.clients):
        shares, beside = snapshot.remembered[handle.name], snapshot.remembered[_beside(handle.name)]
        for client, share, words in zip(handle.clients, shares, beside, strict=True):
            data = to_words(words)
            session, key, products = data[:32], data[32:64], int.from_bytes(data[64:], "little")
            held = sessions.get(session, HoldingKeys({}, None))
            sessions[session] = HoldingKeys({**held.keys, client: key}, None, {**held.products, client: products})
            before = kept.get(handle.name, KeptShares(session, {}))
            kept[handle.name] = KeptShares(session, {**before.shares, client: share})
    entered = {(session, i): n for session, held in sessions.items() for i, n in held.products.items()}
    if not _here(helpers):
        return kept, entered
    second, dealer = helpers[SECOND_SERVER], helpers[DEALER]
    rounds = dict(snapshot.next_round[SECOND_SERVER])
    number = rounds.pop(QUESTION)
    spent = {"next_round": closing(rounds.values()), "next_question": number, "opened": {}}
    second.restart(replace(second.state, sessions=sessions, questions={}, **spent))
    dealer.restart(replace(dealer.state, next_question=snapshot.next_round[DEALER][QUESTION]))
    return kept, entered


def _here(helpers: Mapping[int, Any]) -> bool:
    """Whether they are in this process."""
    return isinstance(helpers[SECOND_SERVER], Party)


def _beside(name: str) -> str:
    return f"{name} second"


def _held(second: Second, session: bytes, client: int) -> Words:
    """What the second server holds of a remembered update, as nine words: the session, the key, the products entered."""
    held = second.sessions[session]
    products = held.products.get(client, 0) if isinstance(held, HoldingKeys) else 0
    return from_words(session + held.keys[client] + products.to_bytes(8, "little"))


def _counted(row: Row, products: Mapping[Row, int]) -> Words:
    """The same, as far as the first server knows it: no key."""
    return from_words(row[0] + bytes(32) + products.get(row, 0).to_bytes(8, "little"))
