"""Who is corrupt: the parties that pool what they see of a run."""

import re
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

    @property
    def members(self) -> tuple["Observer", ...]:
        """Each of its parties alone; nobody, if it is one."""
        alone = [Observer(frozenset({i})) for i in sorted(self.servers, reverse=True)]
        alone += [Observer(clients=frozenset({i})) for i in sorted(self.clients)]
        return tuple(alone) if len(alone) > 1 else ()


SERVER_ALONE = Observer(frozenset({SERVER}))
NETWORK = Observer(network=True)


def server_and(*clients: int) -> Observer:
    """The server together with these clients."""
    return Observer(frozenset({SERVER}), frozenset(clients))


def named(text: str) -> Observer:
    """The observer of this name: "server+client:0,3", "clients:1,2", "second server", "network", or as `Observer.name` says it.

    Raises ValueError of one line.
    """
    servers, clients, network = set[int](), set[int](), False
    by_name = {name: i for i, name in NAMES.items()}
    for part in re.split(r"\s*\+\s*|\s+and\s+", text.strip().lower()):
        word = part.replace("-", " ")
        of_clients = re.fullmatch(r"clients?[:\s]\s*(\d+(?:\s*,\s*\d+)*)", part)
        if of_clients:
            clients |= set(map(int, of_clients[1].split(",")))
        elif word in by_name:
            servers.add(by_name[word])
        elif word == "network":
            network = True
        else:
            parties = ", ".join(sorted(by_name, reverse=True)).replace("second server", "second-server")
            raise ValueError(
                f"there is no observer {text!r}: name {parties}, network, client:0 or several clients:0,3, joined by +,"
                " for example server+client:0,3; clients with names go by their numbers, from 0 on in the order of names as text"
            )
    return Observer(frozenset(servers), frozenset(clients), network)
