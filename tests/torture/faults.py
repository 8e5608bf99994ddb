"""What a schedule does to whom, as it is asked for: it counts words, pieces and frames, and says what happens at each."""

from collections import defaultdict
from collections.abc import Iterator
from typing import TypeVar

from .schedule import Again, Crash, Cut, Event, Fall, Fate, Freeze, Garble, Lie, Older, Schedule, Silent, Slow, Swap, Twice

E = TypeVar("E")


class Faults:
    """Those of a schedule. on: whether they happen. happened: those that did."""

    def __init__(self, schedule: Schedule) -> None:
        self.on = schedule.early
        self.happened: list[Event] = []
        self._counted: dict[tuple[object, ...], int] = defaultdict(int)
        self._at: dict[object, list[Event]] = defaultdict(list)
        for event in schedule.events:
            match event:
                case Cut(client, piece) | Slow(client, piece) | Twice(client, piece):
                    self._at["piece", client, piece].append(event)
                case Again(client, word) | Swap(client, word) | Crash(client, word) | Freeze(client, word):
                    self._at["word", client, word].append(event)
                case Silent(client, kind):
                    self._at["silent", client, kind].append(event)
                case Older(client):
                    self._at["older", client].append(event)
                case Fall(word):
                    self._at["fall", word].append(event)
                case Fate(kind, nth):
                    self._at["frame", kind, nth].append(event)
                case Lie(kind, nth):
                    self._at["lie", kind, nth].append(event)
                case Garble(kind, nth):
                    self._at["garble", kind, nth].append(event)

    def piece(self, client: int) -> list[Event]:
        """What happens to the piece that is about to be sent on this client's connection."""
        return self._next("piece", client)

    def word(self, client: int) -> list[Event]:
        """What happens at the word that this client's program is about to take."""
        return self._next("word", client)

    def words(self) -> dict[int, int]:
        """By client, how many words its program has come to."""
        return defaultdict(int, {int(str(what[1])): n for what, n in self._counted.items() if what[0] == "word"})

    def fall(self) -> bool:
        """Whether the coordinator is killed when it posts the word."""
        return bool(self._next("fall"))

    def frame(self, kind: str) -> str:
        """The fate of the next frame of this kind at the coordinator."""
        return next((event.fate for event in self._next("frame", kind) if isinstance(event, Fate)), "")

    def lie(self, kind: str) -> str:
        """How the server lies with the next frame of this kind."""
        return next((event.how for event in self._next("lie", kind) if isinstance(event, Lie)), "")

    def garble(self, kind: str) -> float | None:
        """Where the helping client changes its next message of this kind."""
        return next((event.at for event in self._next("garble", kind) if isinstance(event, Garble)), None)

    def silent(self, client: int, kinds: Iterator[str]) -> bool:
        """Whether the client falls silent with an answer that has such messages."""
        found = [event for kind in kinds for event in self._at.get(("silent", client, kind), ())] if self.on else []
        self.happened += found
        return bool(found)

    def older(self, client: int) -> int:
        """By how many writes the journal is older with which the client is started now."""
        found = self._at.pop(("older", client), []) if self.on else []
        self.happened += found
        return max((event.writes for event in found if isinstance(event, Older)), default=0)

    def _next(self, *what: object) -> list[Event]:
        if not self.on:
            return []
        count = self._counted[what]
        self._counted[what] += 1
        found = self._at.get((*what, count), [])
        self.happened += found
        return found
