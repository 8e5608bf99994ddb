"""Clients behind a link on which each exchange costs seconds: what all are asked alike, they are asked at once."""

from collections.abc import Sequence
from typing import Any

import cbor2

from .linked import Linked, Words

ALIKE = frozenset({"public", "enrol", "hello", "left out", "holds", "begin"})
"""Words that every client of a run is told, one after another, and with nothing in between that would follow from an answer."""


class Together(Linked):
    """A `Linked` that tells all its clients such a word when the first is to be told it, and has their answers when it is the
    others' turn.
    """

    def __init__(self, link: Words, clients: Sequence[int]) -> None:
        super().__init__(link, clients)
        self._answers: dict[tuple[int, bytes], Any] = {}

    def ask(self, client: int, *words: Any) -> Any:
        """See `Linked`."""
        if words[0] not in ALIKE:
            return super().ask(client, *words)
        data = cbor2.dumps(words)
        if (client, data) not in self._answers:
            waiting = {(other, self._link.post(other, data)) for other in self.clients}
            while waiting:
                answer = self._link.heard()
                if (of := (answer.client, answer.number)) not in waiting:
                    self._kept.append(answer)
                    continue
                waiting.discard(of)
                self._answers[answer.client, data] = self._plain(answer)
        return self._answers.pop((client, data))
