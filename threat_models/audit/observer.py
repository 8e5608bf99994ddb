"""Who is corrupt: the parties that pool what they see of a run."""

from dataclasses import dataclass

from ...protocol.core.session import DEALER, SECOND_SERVER, SERVER

NAMES = {SERVER: "server", SECOND_SERVER: "second server", DEALER: "dealer"}


@dataclass(frozen=True, slots=True)
class Observer:
    """Parties that pool what they see, and follow the protocol. servers: of `SERVER`, `SECOND_SERVER` and `DEALER`. clients: ids.

    network: whoever watches the links, which are encrypted between machines: who sends to whom, what kind and how much.
    """

    servers: frozenset[int] = frozenset()
    clients: frozenset[int] = frozenset()
    network: bool = False

    def __post_init__(self) -> None:
        if not self.servers <= NAMES.keys() or min(self.clients, default=0) < 0:
            raise ValueError(f"servers are of {sorted(NAMES)}, clients ids from 0 on")
        if self.network == bool(self.servers or self.clients):
            raise ValueError("an observer is of the network alone, or some servers and clients")

    @property
    def name(self) -> str:
        """In words: "server and client 3"."""
        if self.network:
            return "network"
        of_clients = [f"client{'s' * (len(self.clients) > 1)} {', '.join(map(str, sorted(self.clients)))}"] * bool(self.clients)
        return " and ".join([NAMES[i] for i in sorted(self.servers, reverse=True)] + of_clients)

    def sees(self, sender: int, receiver: int) -> bool:
        """Whether a frame between these two is one that it sent or received, or watched."""
        return self.network or not self.parties.isdisjoint((sender, receiver))

    @property
    def parties(self) -> frozenset[int]:
        return self.servers | self.clients


SERVER_ALONE = Observer(frozenset({SERVER}))
NETWORK = Observer(network=True)


def server_and(*clients: int) -> Observer:
    """The server together with these clients."""
    return Observer(frozenset({SERVER}), frozenset(clients))
