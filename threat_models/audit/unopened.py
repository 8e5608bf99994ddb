"""What is left of the masks on an input once those that a server, and clients with it, can compute are taken off.

Of survivors the server is revealed self masks, of those who dropped out all masks that they share; a corrupt client has those
that it shares itself. What is left are masks between honest survivors. They cancel over all of these, so of each session one is
left aside; in a connected masking graph those of the others are uniform and independent.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ...crypto.masks import mask
from ...protocol.masked.terms import sign_of
from .view import CorruptView, MaskKey, MaskKeys
from .words import Table

SHOWN = 16
"""Words by which what is left of an input is known to be one mask: chance makes that of 16 once in 2^512 times."""
UNKNOWN = "inputs under masks whose keys are not on record"


@dataclass(frozen=True, slots=True)
class Cover:
    """What was added to an upload. sort: what kind of words. words: less what was put in. zeros: of all that it had."""

    sort: str
    client: int
    round: int
    session: bytes
    words: Table = field(repr=False)
    zeros: int = 0


@dataclass(slots=True)
class Unopened:
    """Takes off what this view's observer knows. shared: all keys that clients share, to see who is masked by one other alone.

    alone: inputs of which that one could open all that the server does not, in words. missed: not looked at, by why.
    """

    view: CorruptView
    shared: MaskKeys
    alone: list[str] = field(default_factory=list)
    missed: Counter[str] = field(default_factory=Counter)

    def of(self, one: Cover) -> Cover | None:
        """What is left on an input of an honest client; None where it is left aside, or nothing of it is known."""
        corrupt, session = self.view.observer.clients, one.session
        if one.client in corrupt:
            return None
        opened, held = self.view.opened.get(session), [self.view.held[i].mask_keys.get(session) for i in sorted(corrupt)]
        if opened is None or None in held:
            self.missed[UNKNOWN] += 1
            return None
        revealed = _of(one.client, opened)
        words = _without(one, one.words, revealed)
        if corrupt:
            self._look(one, words, revealed)
        aside = max((k.a for k in opened if k.a == k.b and k.a not in corrupt), default=-1)
        if one.client == aside or not (corrupt or revealed):
            return None
        known = {pair: key for of in held for pair, key in _of(one.client, of or ()).items() if pair not in revealed}
        return replace(one, sort=f"unopened {one.sort}", words=_without(one, words, known))

    def _look(self, one: Cover, words: Table, revealed: Mapping[tuple[int, int], bytes]) -> None:
        """Whether one other client shares the only mask that the server does not know."""
        some = words[:SHOWN]
        for (a, b), key in _of(one.client, self.shared.get(one.session, ())).items():
            by = mask(key, len(some), some.dtype.type)
            if (a, b) not in revealed and len(some) == SHOWN and (np.array_equal(some, by) or np.array_equal(some, -by)):
                other = b if a == one.client else a
                self.alone.append(f"client {one.client}'s {one.sort} of round {one.round} is shared with client {other} alone")


def _of(client: int, keys: Iterable[MaskKey]) -> dict[tuple[int, int], bytes]:
    return {(k.a, k.b): k.key for k in keys if client in (k.a, k.b)}


def _without(one: Cover, words: Table, keys: Mapping[tuple[int, int], bytes]) -> Table:
    left = words.copy()
    for (a, b), key in keys.items():
        sign = 1 if a == b else sign_of(one.client, b if a == one.client else a)
        (np.subtract if sign == 1 else np.add)(left, mask(key, len(left), left.dtype.type), out=left)
    return left
