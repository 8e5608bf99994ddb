"""What the two servers of a simulated run keep beyond a round, and in a snapshot: shares, and the keys beside them, as words."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..core.session import DEALER, SECOND_SERVER
from ..drivers.roles import Party
from ..view.answers import Remembered, Snapshot
from .questions import Row
from .second import Holding, Second
from .terms import Words
from .upload import from_words, to_words

QUESTION = "question"
"""In a snapshot: the number of a party's next question, beside its next rounds."""


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """What the first server keeps of one session's updates beyond their round. shares: by client."""

    session: bytes
    shares: Mapping[int, Words] = field(repr=False)


def packed(kept: Mapping[str, Shared], helpers: Mapping[int, Party]) -> tuple[dict[str, Words], dict[int, dict[str, int]]]:
    """Remembered updates, of both servers, and the rounds and numbers that the helpers have spent."""
    second: Second = helpers[SECOND_SERVER].state
    arrays = {}
    for name, shared in kept.items():
        if not shared.shares:
            continue
        arrays[name] = np.stack(list(shared.shares.values()))
        arrays[_beside(name)] = np.stack([_held(second, shared.session, client) for client in shared.shares])
    counters = {SECOND_SERVER: {**second.next_round, **second.opened, QUESTION: second.next_question}}
    return arrays, {**counters, DEALER: {QUESTION: helpers[DEALER].state.next_question}}


def unpacked(
    snapshot: Snapshot, remembered: Iterable[Remembered], helpers: Mapping[int, Party]
) -> tuple[dict[str, Shared], dict[Row, int]]:
    """Give the helpers back what they held; returns what the first server keeps, and the products entered by each update."""
    kept: dict[str, Shared] = {}
    sessions: dict[bytes, Holding] = {}
    for handle in (r for r in remembered if r.clients):
        shares, beside = snapshot.remembered[handle.name], snapshot.remembered[_beside(handle.name)]
        for client, share, words in zip(handle.clients, shares, beside, strict=True):
            data = to_words(words)
            session, key, products = data[:32], data[32:64], int.from_bytes(data[64:], "little")
            held = sessions.get(session, Holding({}, None))
            sessions[session] = Holding({**held.keys, client: key}, None, {**held.products, client: products})
            before = kept.get(handle.name, Shared(session, {}))
            kept[handle.name] = Shared(session, {**before.shares, client: share})
    second, dealer = helpers[SECOND_SERVER], helpers[DEALER]
    rounds = dict(snapshot.next_round[SECOND_SERVER])
    number = rounds.pop(QUESTION)
    spent = {"next_round": rounds, "next_question": number, "opened": {}}
    second.restart(replace(second.state, sessions=sessions, questions={}, **spent))
    dealer.restart(replace(dealer.state, next_question=snapshot.next_round[DEALER][QUESTION]))
    return kept, {(session, i): n for session, held in sessions.items() for i, n in held.products.items()}


def _beside(name: str) -> str:
    return f"{name} second"


def _held(second: Second, session: bytes, client: int) -> Words:
    """What the second server holds of a remembered update, as nine words: the session, the key, the products entered."""
    held = second.sessions[session]
    products = held.products.get(client, 0) if isinstance(held, Holding) else 0
    return from_words(session + held.keys[client] + products.to_bytes(8, "little"))
