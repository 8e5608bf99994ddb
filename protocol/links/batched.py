"""The coordinator's end of a link on which each message costs seconds: all words for a client go in one message a stage.

A stage is over when every message of it is answered or given up; what was said meanwhile goes out then, one message a client. A
client whose answer nobody waits for any more is sent nothing before that answer has come, as at a listener.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ..core.errors import Refused
from .batches import Answers, Batch

PAUSE = 0.2
"""Seconds between looks for answers."""
log = logging.getLogger("cloister.link")


class Carrier(Protocol):
    """What takes a message to a client, and brings its answer."""

    def send(self, client: int, data: bytes, /) -> Hashable | None:
        """A name for the message; None where it cannot be sent."""
        ...

    def replies(self, names: Collection[Hashable], /) -> Mapping[Hashable, bytes | None]:
        """Answers that have come to messages of these names, each given once; None of a client that could not answer."""
        ...


@dataclass(frozen=True, slots=True)
class Brought:
    """An answer to a word. data: None of a client that is absent. late: when nobody waited for it any more."""

    client: int
    number: int
    data: bytes | None = field(repr=False)
    late: bool = False


@dataclass(frozen=True, slots=True)
class _Sent:
    client: int
    number: int
    words: tuple[int, ...]


class Batched:
    """Words to clients, and their answers: a `Words` of work/linked.py. greeting: what each is told first. patience: seconds in
    which no answer of anybody comes, until who owes one counts as absent. clock, sleep: of time.

    Counted: stages, messages, bytes_out, bytes_in. refusals: of clients that refused, the last reason.
    """

    def __init__(
        self,
        carrier: Carrier,
        greeting: Callable[[int], bytes],
        patience: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.stages = self.messages = self.bytes_out = self.bytes_in = 0
        self.refusals: dict[int, str] = {}
        self._carrier, self._greeting, self._patience, self._clock, self._sleep = carrier, greeting, patience, clock, sleep
        self._number = 0
        self._said: dict[int, list[tuple[int, bytes]]] = {}
        self._batches: dict[int, int] = {}
        self._greeted: set[int] = set()
        self._sent: dict[Hashable, _Sent] = {}
        self._given_up: dict[Hashable, _Sent] = {}
        self._heard: deque[Brought] = deque()
        self._moved = 0.0

    def post(self, client: int, data: bytes, /) -> int:
        """See `Words`: it goes out with the next stage."""
        self._number += 1
        self._said.setdefault(client, []).append((self._number, data))
        return self._number

    def heard(self) -> Brought:
        """See `Words`. Raises RuntimeError where no word is without its answer."""
        while not self._heard:
            if not self._sent:
                if not self._said:
                    raise RuntimeError("an answer is waited for, and no word was said")
                self._send_all()
            elif not self._look():
                self._sleep(PAUSE)
        return self._heard.popleft()

    def heard_already(self) -> Brought | None:
        """See `Words`."""
        if not self._heard and (self._sent or self._given_up):
            self._look()
        return self._heard.popleft() if self._heard else None

    def done_with(self, answer: Brought, /) -> None:
        """See `Words`."""

    def _send_all(self) -> None:
        """What was said, one message a client."""
        behind = {sent.client for sent in self._given_up.values()}
        self.stages += 1
        for client, words in sorted(self._said.items()):
            name = None if client in behind else self._send(client, words)
            if name is None:
                self._absent(client, (number for number, _ in words))
        self._said.clear()
        self._moved = self._clock()

    def _send(self, client: int, words: list[tuple[int, bytes]]) -> Hashable | None:
        number = self._batches[client] = self._batches.get(client, 0) + 1
        greeting = b"" if client in self._greeted else self._greeting(client)
        data = Batch(number, greeting, tuple(words)).encoded()
        name = self._carrier.send(client, data)
        if name is not None:
            self._sent[name] = _Sent(client, number, tuple(number for number, _ in words))
            self.messages += 1
            self.bytes_out += len(data)
        return name

    def _look(self) -> bool:
        """Take what has come, and give up what has not for too long; whether there is anything to hear."""
        for name, data in self._carrier.replies([*self._sent, *self._given_up]).items():
            late = name in self._given_up
            sent = (self._given_up if late else self._sent).pop(name)
            self._moved = self._clock()
            self._take(sent, data, late)
        if self._clock() - self._moved > self._patience:
            for sent in self._sent.values():
                log.warning("absent", extra={"client": sent.client, "why": "slow", "owed": len(sent.words)})
                self._absent(sent.client, sent.words)
            self._given_up |= self._sent
            self._sent.clear()
        return bool(self._heard)

    def _take(self, sent: _Sent, data: bytes | None, late: bool) -> None:
        found: Mapping[int, bytes] = {}
        if data is not None:
            self.bytes_in += len(data)
            found = self._answers(sent, data)
        if found:
            self._greeted.add(sent.client)
        if late:
            self._heard.extend(Brought(sent.client, number, found[number], True) for number in sent.words if number in found)
        else:
            self._heard.extend(Brought(sent.client, number, found.get(number)) for number in sent.words)

    def _answers(self, sent: _Sent, data: bytes) -> Mapping[int, bytes]:
        try:
            answers = Answers.of(data)
        except Refused as error:
            answers = Answers(sent.number, refusal=str(error))
        if answers.number != sent.number:
            answers = Answers(sent.number, refusal="an answer to another message")
        if answers.refusal:
            log.warning("refused", extra={"client": sent.client, "why": answers.refusal})
            self.refusals[sent.client] = answers.refusal
        return dict(answers.answers)

    def _absent(self, client: int, numbers: Iterable[int]) -> None:
        self._heard.extend(Brought(client, number, None) for number in numbers)
