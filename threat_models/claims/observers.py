"""Whom a claim is about: predicates on observers."""

from ...protocol.core.session import DEALER, SECOND_SERVER, SERVER
from ..audit.observer import Observer


def server_alone(observer: Observer) -> bool:
    """The server, which follows the protocol, and nobody with it."""
    return observer.servers == {SERVER} and not observer.clients


def server_and_a_client(observer: Observer) -> bool:
    """The server and one client, who tells it all that it has."""
    return observer.servers == {SERVER} and len(observer.clients) == 1


def server_and_two_clients(observer: Observer) -> bool:
    """The server and two clients, who tell it all that they have."""
    return observer.servers == {SERVER} and len(observer.clients) == 2


def client_alone(observer: Observer) -> bool:
    """One client."""
    return not observer.servers and len(observer.clients) == 1


def two_clients(observer: Observer) -> bool:
    """Two clients together."""
    return not observer.servers and len(observer.clients) == 2


def second_server(observer: Observer) -> bool:
    """Of two servers the second, alone."""
    return observer.servers == {SECOND_SERVER} and not observer.clients


def dealer(observer: Observer) -> bool:
    """Who deals random triples to two servers, alone."""
    return observer.servers == {DEALER} and not observer.clients


def network(observer: Observer) -> bool:
    """Whoever watches the links."""
    return observer.network
