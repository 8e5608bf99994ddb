"""Which client is at which of Flower's nodes: asked once, before anything else.

What binds: Flower binds a node's id to the key of its SuperNode, where the SuperLink authenticates nodes. Which client it is, the
node says of itself; two that say the same before all are there end the run, as nobody can tell which of them is right.
"""

from collections.abc import Mapping, Sequence

import cbor2

from ..protocol.core.errors import Refused
from ..protocol.wire.codec import plain_in

WHO = b"cloister: which client is this?"


def id_reply(client: int) -> bytes:
    """A node's answer."""
    return cbor2.dumps(client)


def nodes_of(replies: Mapping[int, bytes | None], clients: Sequence[int]) -> dict[int, int]:
    """The nodes of these clients, by client. replies: of nodes. Raises Refused for two nodes that are one client."""
    found: dict[int, int] = {}
    for node, data in sorted(replies.items()):
        try:
            client = None if data is None else plain_in(data)
        except ValueError:
            continue
        if type(client) is not int or client not in clients:
            continue
        if client in found:
            raise Refused(f"Flower's nodes {found[client]} and {node} both say that they are client {client}")
        found[client] = node
    return found
