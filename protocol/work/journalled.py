"""A coordinator's words, journalled: what it heard, in order, from which everything that it said follows.

Between two checkpoints a coordinator is a function of the last one, of its secrets and of the answers that it heard. So each is
in a log before anything that follows from it is sent. Started again, the coordinator goes through the same code, and hears what
is in the log: it says the same words again, under the same numbers, which are held against those in the log, and not sent. At
its end it is where it was. Then words without an answer are sent, perhaps a second time: clients take them as one.

So no client is asked two different things under one number, and nobody is asked anew about a survivor set that was settled. A
coordinator that is halted says nothing more, and is where it was when it is started again.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import cbor2

from ..core.halt import Halt
from ..drivers.event_log import EventLog
from ..wire.codec import encoding_of

POSTED, HEARD, THERE, NOTHING = range(4)
"""Kinds of records: a word, an answer that was waited for, one that was there, and that none was."""
_DIGEST_BYTES = 16


class Diverged(ValueError):
    """What the coordinator does is not what the log says that it did. The message is one line."""


class Numbered(Protocol):
    """A link to clients on which words have the numbers that they are given: links/listener.py."""

    def post(self, client: int, data: bytes, number: int, /) -> Any:
        """Send a word."""
        ...

    def heard(self) -> Any:
        """See `Words`."""
        ...

    def heard_already(self) -> Any:
        """See `Words`."""
        ...

    def done_with(self, answer: Any, /) -> None:
        """See `Words`."""
        ...


@dataclass(frozen=True, slots=True)
class Logged:
    """An answer that is in the log."""

    client: int
    number: int
    data: bytes | None = field(repr=False)
    late: bool = False


class Journalled:
    """A `Words` over a link that is there only when it is needed. log: of which the first record, `first`, is the caller's own.
    link: begins it, when the log says nothing more and an answer is due. halt: after which it raises Halted.

    numbers: by client, that of the last word. answered, settled: the highest number of an answer that lasts, and up to which
    number all of them do.
    """

    def __init__(self, log: EventLog, link: Callable[[], Numbered], halt: Halt | None = None) -> None:
        self.first: Any = None
        self._halt = halt or Halt()
        self.numbers: dict[int, int] = {}
        self.answered: dict[int, int] = {}
        self.settled: dict[int, int] = {}
        self._begin = link
        self._link: Numbered | None = None
        self._said: dict[tuple[int, int], bytes] = {}  # by the one before, and perhaps not answered
        self._open: dict[int, set[int]] = {}
        self._lasting: list[tuple[int, int, bool]] = []  # answers that last with the next sync
        self._dirty = False
        self._hashed = (b"", b"")  # the last word, and its digest: many clients in turn may be told the same
        self._follow(log)

    def switch(self, log: EventLog) -> None:
        """What follows is in another log. Raises Diverged where there was more in the one before."""
        if self._next is not None:
            raise Diverged(f"the coordinator's journal says more than it did: {self._next[:3]}")
        self.sync()
        self._log.close()
        self._follow(log)

    def save(self) -> list[dict[int, int]]:
        """Where words are, all of them answered."""
        self.sync()
        return [self.numbers, self.answered]

    def restore(self, kept: Any) -> None:
        """Be there; never before where words are."""
        numbers, answered = kept
        self.numbers.update(numbers)
        self.answered.update(answered)
        self.settled.update(numbers)
        self._said.clear()
        self._open.clear()

    @property
    def replaying(self) -> bool:
        """Whether the log has more."""
        return self._next is not None

    def begin(self) -> None:
        """Have the link, if it was not needed yet."""
        self._there()

    def sync(self) -> None:
        """What was heard lasts."""
        if self._dirty:
            self._log.sync()
            self._dirty = False
        for client, number, present in self._lasting:
            self._settle(client, number, present)
        self._lasting.clear()

    # --- a `Words` --------------------------------------------------------------------------------------------------------

    def post(self, client: int, data: bytes, /) -> int:
        """See `Words`. Raises Diverged for another word than the log has, Halted."""
        self._halt.check()
        number = self.numbers[client] = self.numbers.get(client, 0) + 1
        if data is not self._hashed[0]:
            self._hashed = data, hashlib.sha256(data).digest()[:_DIGEST_BYTES]
        record = [POSTED, client, number, self._hashed[1]]
        self._open.setdefault(client, set()).add(number)
        if self._next is not None:
            self._check(record, self._next)
            self._step()
            self._said[client, number] = data
            return number
        self.sync()
        self._log.append(cbor2.dumps(record))
        if self._link is None:
            self._said[client, number] = data
        else:
            self._link.post(client, data, number)
        return number

    def heard(self) -> Any:
        """See `Words`. Raises Diverged, Halted."""
        self._halt.check()
        if self._next is None:
            return self._noted(HEARD, self._there().heard())
        return self._again(HEARD)

    def heard_already(self) -> Any:
        """See `Words`. Raises Diverged, Halted."""
        self._halt.check()
        if self._next is None:
            return self._noted(THERE, self._there().heard_already())
        if self._next == [NOTHING]:
            self._step()
            return None
        return self._again(THERE)

    def done_with(self, answer: Any, /) -> None:
        """See `Words`."""
        if not isinstance(answer, Logged) and self._link is not None:
            self._link.done_with(answer)

    # --- inside -----------------------------------------------------------------------------------------------------------

    def _follow(self, log: EventLog) -> None:
        self._log = log
        self._records: Iterator[bytes] = log.records()
        self._step()
        self.first = self._next
        self._step()

    def _step(self) -> None:
        data = next(self._records, None)
        self._next: list[Any] | None = None if data is None else cbor2.loads(data)

    def _check(self, record: list[Any], logged: list[Any]) -> None:
        if record[: len(logged)] != logged:
            at = f"word {record[2]} to client {record[1]}" if len(record) > 1 else "the end of a stage"
            raise Diverged(f"what the coordinator does is not what it did, at {at}: its journal is of another release or data")

    def _again(self, kind: int) -> Logged:
        logged = self._next or []
        self._check([kind], logged[:1])
        _, client, number, data, late = logged
        self._step()
        self._said.pop((client, number), None)
        self._settle(client, number, data is not None)
        return Logged(client, number, data, late)

    def _noted(self, kind: int, answer: Any) -> Any:
        self._hashed = (b"", b"")  # a long word is not kept while answers come
        if answer is None:
            self._log.append(cbor2.dumps([NOTHING]))
        else:
            self._log.append(*encoding_of([kind, answer.client, answer.number, answer.data, answer.late]))
            self._lasting.append((answer.client, answer.number, answer.data is not None))
        self._dirty = True
        return answer

    def _there(self) -> Numbered:
        """The link, on which words of before without an answer are said again."""
        if self._link is None:
            self._link = self._begin()
            said, self._said = self._said, {}
            for (client, number), data in said.items():
                self._link.post(client, data, number)
        return self._link

    def _settle(self, client: int, number: int, present: bool) -> None:
        open_ = self._open.setdefault(client, set())
        open_.discard(number)
        if present:
            self.answered[client] = max(self.answered.get(client, 0), number)
        self.settled[client] = min(open_, default=self.numbers.get(client, 0) + 1) - 1
