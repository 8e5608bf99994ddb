"""Which sums the server also knows the sketch of: `L = col C intersect col A`, key by key.

The columns of A are the weights of the published sums, those of C the combinations of updates whose sketches the server knows.
Of a set of raw sketches these are all combinations, of a set of offset sketches those whose weights add up to 0; and what sets
have in common joins them. So no linear algebra is needed for C, and for L only inside of rounds that a key links.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...protocol.view.account import Sketched
from .account import Account, Block, Instance, Made
from .algebra import EXACT, Matrix, null_space


@dataclass(frozen=True)
class LinkedUpdates:
    """Updates under one key that are linked by sets. grounded: whether the sketch of each is known, or of differences alone."""

    instances: frozenset[Instance]
    grounded: bool


@dataclass(frozen=True)
class Key:
    """What is known under one key."""

    parts: tuple[LinkedUpdates, ...]

    @cached_property
    def grounded(self) -> Mapping[Instance, bool]:
        """Every update under this key, and whether its own sketch is known."""
        return {instance: part.grounded for part in self.parts for instance in sorted(part.instances)}

    def knows(self, made: Made, block: Block, row: Matrix) -> bool:
        """Whether the sketch of this sum is known: float64 (clients,), of unit norm."""
        at = {(*made, i): k for k, i in enumerate(block.clients) if abs(row[k]) > EXACT}
        floating = (part for part in self.parts if not part.grounded and not part.instances.isdisjoint(at))
        return at.keys() <= self.grounded.keys() and all(
            abs(sum(row[k] for instance, k in at.items() if instance in part.instances)) <= EXACT for part in floating
        )


def keys_of(sketched: Iterable[Sketched]) -> dict[bytes, Key]:
    """What is known under every key."""
    parts: dict[bytes, list[LinkedUpdates]] = {}
    for entry in sketched:
        instances = frozenset((t, entry.kind, i) for t, i in zip(entry.made, entry.clients, strict=True))
        if not instances:
            continue
        linked = [part for part in parts.get(entry.key, []) if not part.instances.isdisjoint(instances)]
        joined = LinkedUpdates(
            instances.union(*(p.instances for p in linked)), entry.form == "raw" or any(p.grounded for p in linked)
        )
        parts[entry.key] = [*(part for part in parts.get(entry.key, []) if part not in linked), joined]
    return {key: Key(tuple(found)) for key, found in parts.items()}


def known_sums(account: Account, key: Key) -> Matrix:
    """An independent set of sums whose sketch the server knows under this key: float64 (dim L, width), not orthogonal."""
    found = [_linked(account, key, group) for group in _groups(account, key)]
    return np.concatenate([np.zeros((0, account.width)), *found])


def _groups(account: Account, key: Key) -> list[list[Made]]:
    """The rounds with updates under this key, those together that one floating part links."""
    groups: list[set[Made]] = [{made} for made in dict.fromkeys(i[:2] for i in key.grounded) if made in account.blocks]
    for part in (part for part in key.parts if not part.grounded):
        rounds = {instance[:2] for instance in part.instances}
        linked = [group for group in groups if group & rounds]
        if len(linked) > 1:
            groups = [*(group for group in groups if group not in linked), set[Made]().union(*linked)]
    return [sorted(group) for group in groups]


def _linked(account: Account, key: Key, group: Sequence[Made]) -> Matrix:
    """The known sums of these rounds."""
    sums, totals = [], []
    floating = [part.instances for part in key.parts if not part.grounded]
    for made in group:
        block = account.blocks[made]
        rows, of_rows = block.basis
        strange = [k for k, i in enumerate(block.clients) if (*made, i) not in key.grounded]
        inside = null_space(rows[:, strange].T)  # combinations of sums without anybody whose update is not under the key
        rows, of_rows = inside.T @ rows, inside.T @ of_rows
        sums.append(of_rows)
        member = np.array([[(*made, i) in part for i in block.clients] for part in floating], np.float64)
        totals.append(member.reshape(len(floating), len(block.clients)) @ rows.T)
    total = np.concatenate(totals, axis=1)
    scale = np.sqrt(max((len(part) for part in floating), default=1))  # a row of unit norm adds up to at most this
    at = np.abs(total).max(axis=1, initial=0.0) > 0
    return null_space(total[at] / scale).T @ np.concatenate(sums)
