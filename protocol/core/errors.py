"""How a protocol fails: by a peer's fault (ProtocolError, on record as Fault), or because it must not answer (Refused)."""

from dataclasses import dataclass, field

OF_CLIP = "of protection.clip"
"""The end of the reason of a client whose update is too large to be masked."""
OF_FLOOR = "would be too much of the sum for the floor"
"""The end of the reason of a client that weighs too much for a sum to hide it."""
OF_TRAINING = "its training failed, as its own log and record say"
"""What others are told of a client whose work ended in an error: the error is its own affair."""
OF_SPLIT = "no key of the split that this sketch would be compared with"
"""The reason of a client that was not there when clients were split, and cannot be compared with them."""
PAST_BUDGET = "past its budget"
"""In the reason of a fault: a client's privacy budget does not allow what it was asked for, and nothing of it was."""
OF_HELPERS = "or a server or the dealer lies"
"""In the reason of a fault that is laid to a client, and could be of those who compute for it."""
UNREADABLE, OF_NO_UPDATE = "cannot be read: ", "is out of range: some client's share is not of an update"
OF_NO_COUNTS = "cannot have counted themselves so: one of them did not follow"
OF_NO_ZEROS = "a slot that was not opened holds a sum: a client's input was not a proper encoding"
OF_NO_WEIGHT = "clients can have given it"
OF_NO_INPUT = (UNREADABLE, OF_NO_UPDATE, OF_NO_COUNTS, OF_NO_ZEROS, OF_NO_WEIGHT)
"""In the reason of a sum that some client spoilt, and nobody can tell which; the last three of slots."""
LOST_BETWEEN = "were not summed"
"""The end of the reason of slots that were counted, and of which too few clients were left to be summed."""
OF_EITHER = "it or the dealer says what is not so"
"""The end of the reason of a fault that is laid to the second server, and could be the dealer's."""
RESTARTED = "as when this server was started again meanwhile"
"""In the reason of a fault that an honest server may be at, of a second one that forgot what it held."""
FEW_KEYS = "clients whose shares came"
"""In the reason of a sum under two servers for which the second one has too few clients' keys, as it says."""
NO_SUM = "an encrypted sum that cannot be used: "
NO_COUNTS = "encrypted counts that cannot be used: "
NO_SLOTS = "encrypted sums of slots that cannot be used: "
NOT_OF_INPUTS = (NO_SUM, NO_COUNTS, NO_SLOTS)
"""How the reason begins of a client that was sent a sum to open, and found that it is none of as many inputs as it should be."""
OF_ITSELF = (OF_CLIP, OF_FLOOR, OF_TRAINING, OF_SPLIT, PAST_BUDGET)
"""What a client says of itself alone: by these words a round's end is explained, and they are nobody's to say of another."""


class ProtocolError(Exception):
    """A peer broke the protocol; the state before its message is still good.

    reason: one line. blame: the party id that the message came from.
    """

    def __init__(self, reason: str, blame: int) -> None:
        super().__init__(f"{reason} (party {blame})")
        self.reason = reason
        self.blame = blame


NO_CLIENT = "no client"
"""How the reason begins of what clients alone could have done, and none did."""


class Silent(ProtocolError):
    """A server or dealer that others rely on did not answer a question, or too few clients did for any. Nothing came of it, and
    nothing else is wrong.
    """


class Refused(ValueError):
    """A view was asked for what it must not or cannot answer. The message says what and why."""


class NobodyAnswered(Refused):
    """Clients alone could have done what was asked for, and none of them said that it did. Nothing came of it."""


class Revoked(Exception):
    """The authority has taken a party's own certificate back, and listed no other: it takes no further part."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A message that a party refused. blame: the party id that it came from.

    rejected: the message was in order, but the vector in it cannot be used (it is not finite, or too large to compare), or there
    is none, since the party declined. declined: the latter. by: another party that says so, of what nobody else saw: its word,
    which may be false; None for what whoever keeps the record saw.
    """

    blame: int
    reason: str
    rejected: bool = False
    declined: bool = field(default=False, compare=False)
    by: int | None = field(default=None, compare=False)

    def as_dict(self) -> dict[str, object]:
        """Of its reason; that it declined is said where it did, and by whom, where that is another's word."""
        said = {"by": self.by} if self.by is not None else {}
        return {"reason": self.reason, "rejected": self.rejected, **({"declined": True} if self.declined else {}), **said}
