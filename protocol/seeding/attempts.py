"""What the server remembers of attempts at a seed that came to nothing, for the next one. Spec: specs/group_seed.md."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..core.errors import ProtocolError
from ..core.session import Session


class Shown(ProtocolError):
    """A client said what no honest one says, and the server saw it by itself: no word of another client's is needed for it."""


@dataclass(frozen=True, slots=True)
class Before:
    """signed: the tag that a client was last heard to sign, by client. in_vain: how often a client was asked to seal in attempts
    that came to nothing. shown: who was shown to cheat. agreed: the tag that most were seen to sign, if they were, though too few
    of them were there at the end; empty if not.
    """

    signed: Mapping[int, bytes] = field(default_factory=dict)
    in_vain: Mapping[int, int] = field(default_factory=dict)
    shown: frozenset[int] = frozenset()
    agreed: bytes = b""

    def then(self, signed: Mapping[int, bytes], asked: Iterable[int]) -> "Before":
        """And an attempt in which these tags were signed, and these were asked to seal in vain."""
        return replace(self, signed={**self.signed, **signed}, in_vain=dict(Counter(self.in_vain) + Counter(asked)))

    def behind(self) -> tuple[tuple[int, ...], ...]:
        """The clients that signed each tag, that of the lowest client first."""
        found: dict[bytes, list[int]] = {}
        for client in sorted(self.signed):
            found.setdefault(self.signed[client], []).append(client)
        return tuple(map(tuple, found.values()))

    def lost(self, session: Session) -> bool:
        """Whether no tag can have most of the roster any more, whoever is there and heard: who signed one signs no other."""
        roster = set(session.roster)
        most = max((len(roster.intersection(clients)) for clients in self.behind()), default=0)
        return most + len(roster - self.signed.keys()) < session.threshold
