"""Reading deterministic CBOR (RFC 8949, section 4.2.1) that came from elsewhere, item by item.

Whoever reads says what comes next and how long it may be. A declared length is held against what is there before anything is
built, so a document costs no more than a few times its own size. Numbers have the shortest form; there are no maps, tags, floats
and indefinite lengths, so a document that reads has one encoding.
"""

_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _LIST = range(5)
_WORDS = {_BYTES: "a string of bytes", _TEXT: "a text", _LIST: "a list"}


class Reader:
    """Reads `data` from its start. what: its name in errors. Every method raises ValueError for anything else than it names."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data, self._what, self._at = data, what, 0

    def integer(self, low: int, high: int, name: str) -> int:
        """A number from low to high."""
        major, argument = self._head(name)
        value = -1 - argument if major == _NEGATIVE else argument
        if major not in (_UNSIGNED, _NEGATIVE) or not low <= value <= high:
            raise self._wrong(f"{name} is not an integer from {low} to {high}")
        return value

    def octets(self, low: int, high: int, name: str) -> bytes:
        """A string of low to high bytes."""
        size = self._sized(_BYTES, low, high, name)
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self, low: int, high: int, name: str) -> str:
        """A text of low to high bytes."""
        size = self._sized(_TEXT, low, high, name)
        self._at += size
        try:
            return self._data[self._at - size : self._at].decode()
        except UnicodeDecodeError:
            raise self._wrong(f"{name} is not UTF-8") from None

    def items(self, low: int, high: int, name: str) -> int:
        """The start of a list of low to high items; how many follow."""
        return self._sized(_LIST, low, high, name)

    def end(self) -> None:
        """Nothing follows."""
        if self._at != len(self._data):
            raise self._wrong("something follows it")

    def _sized(self, wanted: int, low: int, high: int, name: str) -> int:
        major, size = self._head(name)
        if major != wanted or not low <= size <= high:
            raise self._wrong(f"{name} is not {_WORDS[wanted]} of {low} to {high}")
        if size > len(self._data) - self._at:  # an item of a list has at least one byte
            raise self._wrong("it ends early")
        return size

    def _head(self, name: str) -> tuple[int, int]:
        if self._at >= len(self._data):
            raise self._wrong("it ends early")
        first = self._data[self._at]
        major, short = first >> 5, first & 31
        self._at += 1
        if major > _LIST or short > 27:
            raise self._wrong(f"{name} is of a kind that is not part of it")
        if short < 24:
            return major, short
        size = 1 << (short - 24)
        argument = int.from_bytes(self._data[self._at : self._at + size], "big")
        self._at += size
        if self._at > len(self._data):
            raise self._wrong("it ends early")
        if argument < (24 if size == 1 else 1 << (4 * size)):
            raise self._wrong(f"{name} is not written in the shortest form")
        return major, argument

    def _wrong(self, reason: str) -> ValueError:
        return ValueError(f"{self._what} does not read: {reason}")
