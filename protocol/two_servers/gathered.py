"""What the second server gathers over links of its own: keys from clients, triples from the dealer.

It listens, and asks whom a session concerns. An answer is one frame, or empty where there is none.
"""

import time
from collections.abc import Collection, Iterable, Iterator

from ..links.listener import Listener

PAUSE = 0.005
LIVES = 1 << 32
"""Numbers of questions begin with this times the life of the process, so that those of two lives differ."""


class OpenQuestions:
    """Questions that are open, and answers as they come. life: of this process, counted from 1. patience: seconds in which
    what is said to be there must come.
    """

    def __init__(self, listener: Listener, numbers: dict[int, int], patience: float) -> None:
        self._listener = listener
        self._numbers = numbers
        self._patience = patience
        self._open: dict[tuple[int, int], bytes] = {}

    def ask(self, session: bytes, parties: Iterable[int]) -> None:
        """Ask them what they have for this session, and go on."""
        for party in parties:
            number = self._numbers[party] = self._numbers[party] + 1
            self._open[party, number] = session
            self._listener.post(party, session, number)

    def arrived(self, session: bytes = b"", parties: Collection[int] = ()) -> Iterator[tuple[int, bytes]]:
        """Frames that are there, by party; first wait until these parties have answered for this session, or are absent."""
        until = time.monotonic() + self._patience
        while True:
            while (heard := self._listener.heard_already()) is not None:
                self._open.pop((heard.client, heard.number), None)
                data = bytes(heard.data or b"")
                self._listener.done_with(heard)
                if data:
                    yield heard.client, data
            due = any(asked == session and party in parties for (party, _), asked in self._open.items())
            if not due or time.monotonic() > until:
                return
            time.sleep(PAUSE)


def numbers_of(life: int, parties: Iterable[int]) -> dict[int, int]:
    """Of the last question to each, before the first of this life."""
    return dict.fromkeys(parties, life * LIVES)
