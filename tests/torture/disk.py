"""A journal on a simulated disk: it can lose its power at any write, and be put back as it was some writes ago."""

from collections.abc import Mapping


class PowerCut(BaseException):
    """The process is gone: nothing in it may catch this."""


class Disk:
    """A `Journal`. Each write is whole or not at all, as the contract says, whenever the power goes.

    cut: before which write of those to come the power goes (0: the next), and whether that write is still done; None for never.
    lazy: a planted defect: the latest write is on the disk only when the next one, or `settle`, comes.
    """

    def __init__(self) -> None:
        self.cut: tuple[int, bool] | None = None
        self.lazy = False
        self.written = 0
        self._copies: list[dict[str, bytes]] = [{}]
        self._waiting: dict[str, bytes] | None = None

    def put(self, entries: Mapping[str, bytes], /) -> None:
        """See `Journal`."""
        if entries:
            self._write(self.read() | dict(entries))

    def replace(self, entries: Mapping[str, bytes], /, *, but: frozenset[str] = frozenset()) -> None:
        """See `Journal`."""
        self._write({key: entry for key, entry in self.read().items() if key in but} | dict(entries))

    def read(self) -> dict[str, bytes]:
        """See `Journal`."""
        return dict(self._copies[-1] if self._waiting is None else self._waiting)

    # --- what happens to it -----------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """What waits is on the disk."""
        if self._waiting is not None:
            self._copies.append(self._waiting)
            self._waiting = None

    def lose_power(self) -> None:
        """What waits is lost."""
        self.cut, self._waiting = None, None

    def older(self, writes: int) -> bool:
        """Be a copy of so many writes ago, though never one of before the run began; whether it is one."""
        held = [n for n, copy in enumerate(self._copies) if "begun" in copy]
        if not held or held[0] == len(self._copies) - 1:
            return False
        del self._copies[max(held[0], len(self._copies) - 1 - writes) + 1 :]
        return True

    def _write(self, after: dict[str, bytes]) -> None:
        left, done = self.cut if self.cut is not None else (-1, True)
        if left != 0 or done:
            self.written += 1
            self.settle()
            self._waiting = after
            if not self.lazy:
                self.settle()
        if left == 0:
            raise PowerCut
        if left > 0:
            self.cut = (left - 1, done)
