"""Whom the server asks next to seal a seed, so that tags of honest clients are not split for good. Spec: specs/group_seed.md.

Every seal is passed on by the server, so it knows who can have signed what. It lets a tag be signed by more clients only while at
least t that are there have signed that one or surely none; so there is always a tag that t clients can have.
"""

import hashlib
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass

from ..core.session import Session

Sealer = tuple[int, frozenset[int]]
"""Whom to ask, and who has its secret already; nobody where it leads."""


@dataclass(frozen=True, slots=True)
class AttemptSoFar:
    """What the server knows in the midst of an attempt. there: whose keys it has. tags: that were said. got: by member, tags of
    seals that were passed on to it. given: the tag of a sealer's seals. asked: to seal, in order. in_vain: see `Before`.
    """

    session: Session
    there: Set[int]
    tags: Mapping[int, bytes]
    got: Mapping[int, Set[bytes]]
    given: Mapping[int, bytes]
    asked: Collection[int]
    in_vain: Mapping[int, int]

    def may_sign(self, tag: bytes) -> frozenset[int]:
        """Of the roster, who is there and has signed this tag, or surely no other. A leader that gave no seals may have signed
        one that nobody knows.
        """
        roster = self.there & frozenset(self.session.roster)
        return frozenset(
            i
            for i in roster
            if (self.tags[i] == tag if i in self.tags else self.got.get(i, set()) <= {tag} and self._led_nothing_but(i, tag))
        )

    def _led_nothing_but(self, client: int, tag: bytes) -> bool:
        return client not in self.asked or self.given.get(client) == tag


def behind(tags: Mapping[int, bytes]) -> list[frozenset[int]]:
    """The clients behind each tag, that of the lowest client first."""
    found: dict[bytes, set[int]] = {}
    for client in sorted(tags):
        found.setdefault(tags[client], set()).add(client)
    return [frozenset(clients) for clients in found.values()]


def most_behind(tags: Mapping[int, bytes], session: Session) -> frozenset[int]:
    """The clients behind the tag that most of the roster signed; of several, behind that of the lowest client."""
    roster = frozenset(session.roster)
    return max(behind(tags), key=lambda clients: len(clients & roster), default=frozenset())


def next_sealer(so_far: AttemptSoFar, again: bool) -> Sealer | None:
    """Whom to ask; None where it must be nobody. again: whether another attempt may follow this one.

    First whom it asked in vain least, a holder before who would draw a secret, of the tag that most have, the lowest; after an
    attempt in vain, the first in an order that is drawn. A holder may be asked in vain once before another is to draw a secret.
    Where this attempt is the last one, tags may as well be split.
    """
    found = [*_holders(so_far), *_leaders(so_far)]
    if found:
        *_, sealer, has_it = min(found, key=lambda option: (*option[:3], _turn(so_far, option[3]), option[3]))
        return sealer, has_it
    return None if again else _boldly(so_far)


def _turn(so_far: AttemptSoFar, client: int) -> bytes:
    """Where a client stands in the order of this session. Else cheats with low numbers would be asked one after another."""
    return hashlib.sha256(so_far.session.digest + client.to_bytes(4)).digest() if so_far.in_vain else b""


def _holders(so_far: AttemptSoFar) -> list[tuple[int, int, int, int, frozenset[int]]]:
    roster, found = frozenset(so_far.session.roster), []
    for clients in behind(so_far.tags):
        if len(so_far.may_sign(so_far.tags[min(clients)])) >= so_far.session.threshold:
            for i in (clients & so_far.there).difference(so_far.asked):
                found.append((max(so_far.in_vain.get(i, 0) - 1, 0), 0, -len(clients & roster), i, clients))
    return found


def _leaders(so_far: AttemptSoFar) -> list[tuple[int, int, int, int, frozenset[int]]]:
    free = so_far.may_sign(b"")
    enough = len(free) >= so_far.session.threshold
    return [(so_far.in_vain.get(i, 0), 1, 0, i, frozenset()) for i in free] if enough else []


def _boldly(so_far: AttemptSoFar) -> Sealer | None:
    """As though whoever said no tag had signed none."""
    roster, most = frozenset(so_far.session.roster), most_behind(so_far.tags, so_far.session)
    silent = (so_far.there & roster) - so_far.tags.keys()
    holders, others = most.difference(so_far.asked), silent.difference(so_far.asked)
    if holders and len(most & roster) + len(silent) >= so_far.session.threshold:
        return min(holders), most
    return (min(others), frozenset()) if others and len(silent) >= so_far.session.threshold else None
