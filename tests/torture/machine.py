"""A client's machine: its program, as it is shipped, its disk, and what it has said in all its lives."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import cbor2

from cloister.protocol.masked.client_phases import Signed
from cloister.protocol.view.protection import Setup
from cloister.protocol.work.driving import Driven
from cloister.protocol.work.far import answer
from cloister.protocol.work.maker import Maker
from cloister.protocol.work.said import said

from .disk import Disk, PowerCut

SetupOf = Callable[[int, int], Setup]
"""What a client begins with, in its nth life."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What a client's program said. round: in which the run was. life: of its process."""

    client: int
    life: int
    round: int
    receiver: int
    kind: str
    data: bytes = field(repr=False)


class Machine:
    """A client. life: of its process, counted from 1; runs: whether it does. told: of everything that the program says.

    elsewhere: whether it has links to a second server, too. signed: survivors, by its id and the session. garble:
    changes a message of a client that helps the server.
    """

    def __init__(self, id: int, setup_of: SetupOf, maker: Maker, told: Callable[[Sent], object], elsewhere: bool) -> None:
        self.id = id
        self.disk = Disk()
        self.life = 0
        self.runs = False
        self.round = -1
        self.refused = ""
        self.signed: dict[tuple[int, bytes], set[tuple[int, ...]]] = {}
        self.garble: Callable[[str, bytes], bytes] | None = None
        self._made = setup_of, maker
        self._told = told
        self._elsewhere = elsewhere

    def start(self) -> None:
        """Start its process, from the journal if that has a beginning."""
        setup_of, maker = self._made
        self.life += 1
        try:
            self.driven = Driven(self.id, setup_of(self.id, self.life), maker, self.disk)
            self.runs = True
        except ValueError as error:  # it takes no part any more, and says why
            self.refused = str(error)

    def crash(self) -> None:
        """End its process at once."""
        self.disk.lose_power()
        self.runs = False

    def take(self, data: bytes) -> bytes:
        """What its program answers to a word. Raises PowerCut when its process is gone."""
        if self._elsewhere and cbor2.loads(data)[0] == "frame":
            found = cbor2.dumps(answer(self.driven, *cbor2.loads(data)))
        else:
            found = said(self.driven, data).data
        sums = self.driven.client.roles.get("sums")
        if isinstance(getattr(sums, "state", None), Signed):
            self.signed.setdefault((self.id, sums.state.plan.session.digest), set()).add(sums.state.alive)
        if is_followed(plain := cbor2.loads(found)):
            if self.garble is not None:
                plain[0] = [[to, kind, self.garble(kind, frame)] for to, kind, frame in plain[0]]
                found = cbor2.dumps(plain)
            for to, kind, frame in plain[0]:
                self._told(Sent(self.id, self.life, self.round, to, kind, frame))
        return found


def is_followed(plain: object) -> bool:
    """Whether an answer is of messages, lessons and refusals."""
    return isinstance(plain, list) and len(plain) == 3 and all(isinstance(of, list) for of in plain)


def kinds_in(data: bytes) -> Iterator[str]:
    """Of the messages in an answer."""
    plain = cbor2.loads(data)
    return (kind for _, kind, _ in plain[0]) if is_followed(plain) else iter(())


def is_frame(data: bytes) -> bool:
    """Whether a word is a frame of the protocol."""
    return bool(cbor2.loads(data)[0] == "frame")


__all__ = ["Machine", "PowerCut", "Sent", "is_followed", "is_frame", "kinds_in"]
