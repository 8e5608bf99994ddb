"""A network on which clients drop out: a tap for simulations, by round, victim and moment."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ..core.link import Frame
from ..wire.codec import first_items

LATEST = 8
"""A victim falls silent after fewer than so many of its messages of the round: in any stage of any protocol here."""
_ROUND_ITEM = 7


@dataclass(frozen=True, slots=True)
class Dropouts:
    """In every round `count` clients, drawn from `among`, fall silent, each after fewer than `latest` of its messages: a Tap.

    Who and when is a function of seed and round. A round begins with its first Task.
    """

    among: tuple[int, ...]
    count: int = 1
    seed: int = 0
    latest: int = LATEST
    _left: dict[int, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _round: list[int] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.count <= len(self.among):
            raise ValueError(f"count is 0 to {len(self.among)}, the clients in among, not {self.count}")

    def __call__(self, frame: Frame, /) -> Iterable[Frame]:
        if frame.kind == "Task":
            self._begin(int(first_items(frame.data, _ROUND_ITEM + 1)[_ROUND_ITEM]))
        left = self._left.get(frame.sender)
        if left is None:
            return (frame,)
        self._left[frame.sender] = max(left - 1, 0)
        return (frame,) if left > 0 else ()

    def _begin(self, round: int) -> None:
        if self._round == [round]:
            return
        self._round[:] = [round]
        rng = np.random.default_rng([self.seed, round])
        victims = rng.choice(np.array(self.among), self.count, replace=False)
        self._left.clear()
        self._left.update({int(i): int(rng.integers(self.latest)) for i in victims})
