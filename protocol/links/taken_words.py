"""What a client's end of a link remembers of words: which it took, what it works on, and answers that may be asked for again."""

from .words import ANSWER, FORGOTTEN


class TakenWords:
    """latest: the number of the newest word that was taken, in this life or an earlier one. doing: of one that is worked on."""

    def __init__(self, latest: int) -> None:
        self.latest = latest
        self.doing: int | None = None
        self._given: dict[int, bytes] = {}
        self._undone: set[int] = set()

    def again(self, number: int, settled: int) -> tuple[bytes, ...] | None:
        """What to say to a word that comes again: the answer of before, or that there is none any more; a head, and what follows
        it. None of one that is new, or has no answer yet. settled: up to which number no answer is due.
        """
        for old in [n for n in self._given if n <= settled]:
            del self._given[old]
        given = self._given.get(number)
        if given is None and number <= self.latest and number not in self._undone:
            return (ANSWER.pack(number | FORGOTTEN),)
        return None if given is None else (ANSWER.pack(number), given)

    def take(self, number: int) -> None:
        """A new word is to be worked on."""
        self.latest = self.doing = number
        self._undone.add(number)

    def answered(self, number: int, data: bytes) -> None:
        """data: the answer without a head."""
        self._given[number] = data
        self._undone.discard(number)
        if number == self.latest:
            self.doing = None
