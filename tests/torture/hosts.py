"""Where the clients of a simulated deployment are: behind the simulated link."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import cbor2

from cloister.crypto.entropy import KeptEntropy
from cloister.protocol.core.session import SECOND_SERVER, SERVER
from cloister.protocol.drivers.roles import Effect
from cloister.protocol.work.far import followed_in
from cloister.protocol.work.linked import Answer, Linked, LinkedClient
from cloister.protocol.work.maker import Maker

from .link import Link
from .machine import Machine, Sent, SetupOf, is_followed


class Hosts:
    """A `Setup.hosts`. machines: the clients', once they are made. elsewhere: whether they have links to a second server, too."""

    def __init__(
        self, link: Link, clients: tuple[int, ...], setup_of: SetupOf, told: Callable[[Sent], object], elsewhere: bool
    ) -> None:
        self.machines: dict[int, Machine] = {}
        self.linked = (TwoLinks if elsewhere else Linked)(link, clients)
        self._made = link, clients, setup_of, told, elsewhere

    def __call__(self, maker: Maker) -> Mapping[int, LinkedClient]:
        """Start them."""
        link, clients, setup_of, told, elsewhere = self._made
        self.machines.update({i: Machine(i, setup_of, maker, told, elsewhere) for i in clients})
        link.begin(self.machines)
        return self.linked(maker)

    def forget(self) -> None:
        """The coordinator's process is a new one, and waits for nothing."""
        self.linked._open.clear()
        self.linked._kept.clear()


class TwoLinks(Linked):
    """Clients that have a link to each of two servers: an answer here is what goes over both. What is lost of one alone is a
    frame's fate.
    """

    def _effects(self, answer: Answer) -> Iterator[tuple[int, tuple[Effect, ...]]]:
        self._open.discard((answer.client, answer.number))
        plain = None if answer.data is None else cbor2.loads(answer.data)
        if is_followed(plain) and all(receiver in (SERVER, SECOND_SERVER) for receiver, *_ in plain[0]):
            yield answer.client, followed_in(plain)


@dataclass(frozen=True, slots=True)
class Drawn(KeptEntropy):
    """Secrets of a simulated party in one of its lives: fresh each time, and the same when the schedule is played again."""

    draw: Callable[[int], bytes] = field(default=bytes, repr=False)

    def secret(self, label: str, size: int) -> bytes:
        """`size` bytes that were not drawn before."""
        return self.draw(size)

    def lasting(self, label: str, size: int) -> bytes:
        """See `KeptEntropy`."""
        if label not in self.kept:
            self.kept[label] = self.draw(size)
        return self.kept[label]
