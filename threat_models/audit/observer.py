"""Who is corrupt: the parties that pool what they see of a run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...fl.near_names import near
from ...protocol.core.session import DEALER, SECOND_SERVER, SERVER

NAMES = {SERVER: "server", SECOND_SERVER: "second server", DEALER: "dealer"}


@dataclass(frozen=True, slots=True)
class Observer:
    """Parties that pool what they see, and follow the protocol. servers: of `SERVER`, `SECOND_SERVER` and `DEALER`. clients: ids.

    network: whoever watches the links, which are encrypted between machines: who sends to whom, what kind and how much.
    outsider: whoever is handed the models that the run ends with, and saw nothing of it.
    called: names of clients that have one, which are said beside their numbers.
    """

    servers: frozenset[int] = frozenset()
    clients: frozenset[int] = frozenset()
    network: bool = False
    called: Mapping[int, str] = field(default_factory=dict, compare=False, repr=False)
    outsider: bool = False

    def __post_init__(self) -> None:
        if not self.servers <= NAMES.keys() or min(self.clients, default=0) < 0:
            raise ValueError(f"servers are of {sorted(NAMES)}, clients ids from 0 on")
        if self.network + self.outsider + bool(self.servers or self.clients) != 1:
            raise ValueError("an observer is of the network alone, an outsider, or some servers and clients")

    @property
    def name(self) -> str:
        """In words: "server and client 3", "client 3 (site4)"."""
        if self.network or self.outsider:
            return "network" if self.network else "outsider"
        numbers = ", ".join(f"{i} ({self.called[i]})" if i in self.called else str(i) for i in sorted(self.clients))
        of_clients = [f"client{'s' * (len(self.clients) > 1)} {numbers}"] * bool(self.clients)
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
        alone = [Observer(frozenset({i}), called=self.called) for i in sorted(self.servers, reverse=True)]
        alone += [Observer(clients=frozenset({i}), called=self.called) for i in sorted(self.clients)]
        return tuple(alone) if len(alone) > 1 else ()


SERVER_ALONE = Observer(frozenset({SERVER}))
NETWORK = Observer(network=True)
OUTSIDER = Observer(outsider=True)


def server_and(*clients: int) -> Observer:
    """The server together with these clients."""
    return Observer(frozenset({SERVER}), frozenset(clients))


def parts(text: str) -> tuple[frozenset[int], tuple[str, ...], str]:
    """Servers, what stands for clients, and "network" or "outsider", if it is that: "server+client:0,3", "client:site3", or as
    `Observer.name` says it. Raises ValueError of one line for what names no party.
    """
    servers, clients, other = set[int](), list[str](), ""
    by_name = {name: i for i, name in NAMES.items()}
    for part in re.split(r"\s*\+\s*|\s+and\s+", text.strip()):
        word = part.lower().replace("-", " ")
        of_clients = re.fullmatch(r"clients?[:\s]\s*(\S.*)", part, re.IGNORECASE)
        if of_clients:
            clients.append(of_clients[1].strip())
        elif word in by_name:
            servers.add(by_name[word])
        elif word in ("network", "outsider"):
            if other:
                raise ValueError(f"{text!r}: the network, or an outsider, is an observer of its own")
            other = word
        else:
            known = ", ".join(sorted(by_name, reverse=True)).replace("second server", "second-server")
            raise ValueError(
                f"there is no observer {text!r}: name {known}, network, outsider, client:0, client:NAME or several clients:0,3,"
                " joined by +, for example server+client:0,3"
            )
    if other and (servers or clients):
        raise ValueError(f"{text!r}: an observer is of the network alone, an outsider, or some servers and clients")
    return frozenset(servers), tuple(clients), other


def named(text: str, called: Mapping[int, str] | None = None) -> Observer:
    """The observer of this name, see `parts`. called: names of clients, by number. Raises ValueError of one line."""
    servers, clients, other = parts(text)
    called = called or {}
    numbers = frozenset(i for several in clients for i in _numbers(text, several, called))
    return Observer(servers, numbers, other == "network", {**called}, other == "outsider")


def _numbers(text: str, several: str, called: Mapping[int, str]) -> list[int]:
    """Of "0,3", "site3" or "0 (site3)"; a name may have commas, if it is alone."""
    words = [several] if several in called.values() else re.split(r"\s*,\s*(?![^(]*\))", several)
    found = list[int]()
    for word in words:
        both = re.fullmatch(r"(\d+)(?:\s*\((.*)\))?", word)
        number = int(both[1]) if both else None
        of_name = [i for i, name in called.items() if name == word]
        if number is None and not of_name:
            there = near(word, called.values()) if called else "; clients of these data have no names, and go by their numbers"
            raise ValueError(f"{text!r}: there is no client called {word!r}{there}")
        if both and both[2] is not None and called and called.get(int(both[1])) != both[2]:
            raise ValueError(f"{text!r}: client {both[1]} is not called {both[2]!r}")
        if number is not None and of_name and of_name != [number]:
            ours = f"client:{number}({called[number]})" if number in called else "nobody"
            theirs = f"client:{of_name[0]}({word})"
            raise ValueError(f"{text!r}: {word} is a number, of {ours}, and the name of {theirs}; write either")
        found.append(of_name[0] if number is None else number)
        if found[-1] in found[:-1]:
            raise ValueError(f"{text!r}: client {found[-1]} is named twice")
    return found


def with_names(observer: Observer, called: Mapping[int, str]) -> Observer:
    """The same, whose clients' names are said beside their numbers."""
    return replace(observer, called={**called})
