"""What is left of the masks on an input once those that there should be, or that somebody can compute, are taken off.

Of survivors the server is revealed self masks, of those who dropped out all masks that they share; a corrupt client has those
that it shares itself. What is left are masks between honest survivors. They cancel over all of these, so of each session one is
left aside; in a connected masking graph those of the others are uniform and independent.

Of all masks that there should be nothing is left but what an encoding of the update may differ by.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ...crypto.additive import keyed_share
from ...crypto.masks import mask
from ...protocol.masked.terms import sign_of
from .view import CorruptView, MaskKey, MaskKeys
from .words import Table

SHOWN = 16
"""Words by which what is left of an input is known to be one mask: chance makes that of 16 once in 2^512 times."""
UNKNOWN = "inputs under masks whose keys are not on record"
MOST_STREAMED = 2**28
"""Words of masks that are made to see whether they are there, over all uploads."""
SPOILT = 64
"""Of so many words one may be left over: what a network changed is no mask's fault."""


@dataclass(frozen=True, slots=True)
class Cover:
    """What was added to an upload. sort: what kind of words. words: less what was put in. largest: by how much that may have been
    another. zeros: of all that it had.
    """

    sort: str
    client: int
    round: int
    session: bytes
    words: Table = field(repr=False)
    largest: int
    zeros: int = 0


@dataclass(slots=True)
class Unopened:
    """Takes off what this view's observer knows. keys: of all masks that there should be. uploads: at most so many there are.

    alone: inputs of which few others could open all that the server does not, and wrong: those that are not under the masks that
    there should be, in words. missed: not looked at, by why.
    """

    view: CorruptView
    keys: MaskKeys
    uploads: int
    alone: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    missed: Counter[str] = field(default_factory=Counter)

    def compare(self, one: Cover, shares: bool) -> None:
        """Whether an upload is under the masks, or is the share, that there should be: all, or as many words as are made."""
        keys = _of(one.client, self.keys.get(one.session, ()))
        most = max(SHOWN, MOST_STREAMED // (self.uploads * max(1, len(keys))))
        if not keys or (shares and (one.client, one.client) not in keys):
            self.missed[UNKNOWN] += shares or one.session in self.view.opened  # what was not opened is counted by `of`
            return
        some = one.words[:most]
        left = some + keyed_share(keys[one.client, one.client], some.shape).values if shares else _without(one, some, keys)
        signed = left.view(np.int64 if left.itemsize == 8 else np.int32).astype(np.float64)
        if np.count_nonzero(np.abs(signed) > one.largest) > len(left) // SPOILT:
            self.wrong.append(f"client {one.client}'s {one.sort} of round {one.round} is not what its keys give")

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
        """Whether one other client shares the only mask that the server does not know, or as few as are corrupt share all."""
        some = words[:SHOWN]
        keys = _of(one.client, self.keys.get(one.session, ()))
        near = {a if b == one.client else b for a, b in keys.keys() - revealed.keys()} - {one.client}
        named, most = f"client {one.client}'s {one.sort} of round {one.round}", len(self.view.observer.clients)
        if 0 < len(near) <= most and len(near) + 1 < sum(a == b for a, b in {(k.a, k.b) for k in self.view.opened[one.session]}):
            self.alone.append(f"{named} is shared with {len(near)} clients alone, where {most} are corrupt")
        for (a, b), key in keys.items():
            by, hidden = mask(key, len(some), some.dtype.type), a != b and (a, b) not in revealed
            if hidden and len(some) == SHOWN and (np.array_equal(some, by) or np.array_equal(some, -by)):
                other = b if a == one.client else a
                self.alone.append(f"{named} is shared with client {other} alone")


def _of(client: int, keys: Iterable[MaskKey]) -> dict[tuple[int, int], bytes]:
    return {(k.a, k.b): k.key for k in keys if client in (k.a, k.b)}


def _without(one: Cover, words: Table, keys: Mapping[tuple[int, int], bytes]) -> Table:
    left = words.copy()
    for (a, b), key in keys.items():
        sign = 1 if a == b else sign_of(one.client, b if a == one.client else a)
        (np.subtract if sign == 1 else np.add)(left, mask(key, len(left), left.dtype.type), out=left)
    return left
