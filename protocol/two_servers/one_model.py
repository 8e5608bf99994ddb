"""That all updates of a session start from the same models: clients say which came to them, the second server holds them to it.

Spec: specs/two_servers.md, steps 2 to 5. A first server that sends one client another model than the rest could read that
client's update out of a sum in which the others have none (Pasquini et al. 2022, model inconsistency).
"""

import hashlib
from collections import Counter
from collections.abc import Mapping

from ..core.errors import ProtocolError
from ..core.session import SERVER
from ..wire.messages import Task
from .slot_terms import SLOTS


def started_from(task: Task, length: int) -> bytes:
    """SHA-256 of the models in a client's task, one after the other as they came: all that its work starts from.

    length: coordinates of a model. Raises ProtocolError blaming the server for a task whose work would start from anything else:
    a model of the client's own, or one that it was to hold already.
    """
    count = len(task.models) if task.work == SLOTS else 1
    if task.own or len(task.models) != count:
        raise ProtocolError("a task to work from a model of the client's own, which it has none of", SERVER)
    if len(task.vector) != 4 * length * count:
        raise ProtocolError(f"models of {len(task.vector)} bytes where {4 * length * count} belong", SERVER)
    return hashlib.sha256(task.vector).digest()


def of_one_model(models: Mapping[int, bytes]) -> tuple[int, ...]:
    """Of these clients, in their order, those that started from what more than half of them did; nobody where there is no such.

    models: by client, what `started_from` gave. The second server adds up, and compares, updates of these alone; so honest
    clients are in one answer about a session only if the same bytes came to all of them. Fewer than half of the clients, whatever
    they say, can neither leave out the others nor stop them.
    """
    ((most, count),) = Counter(models.values()).most_common(1) or ((b"", 0),)
    return tuple(i for i, model in models.items() if model == most) if 2 * count > len(models) else ()


def another_model(client: int) -> str:
    """Why a client is left out, in words."""
    return f"client {client} started from another model than most, or says so: it or the first server lied"
