"""What clients and both servers have in common of an upload: ring elements as bytes, and which tasks they take.

Spec: specs/two_servers.md, steps 1 to 5. The client's role: upload_client.py. The first server's: upload_server.py; the second's:
second.py.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ProtocolError
from ..core.session import SERVER, Session
from ..view.answers import COMPUTED
from ..wire.codec import Envelope
from ..wire.messages import Task
from ..work.uploads import Policy
from .slot_terms import SLOTS, SharedSlots
from .terms import PROTOCOL, ShareTerms

Words = NDArray[np.uint64]
KINDS = COMPUTED
"""Kinds of work whose results are shared."""


def to_words(words: Words) -> bytes:
    """Ring elements as little-endian bytes, row by row."""
    return words.astype("<u8", copy=False).tobytes()


def from_words(data: bytes) -> Words:
    """Little-endian bytes as ring elements; a view of the bytes where the machine is little-endian."""
    return np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False)


def is_old(task: Task, sender: int, run: bytes, next_round: Mapping[str, int]) -> bool:
    """Whether a task is of a round before the latest that was taken or closed: late, or sent again, and no fault."""
    return sender == SERVER and task.run == run and task.round + 1 < next_round.get(task.work, 0)


def admitted(envelope: Envelope, task: Task, run: bytes, policy: Policy, next_round: Mapping[str, int]) -> Session:
    """The session that a task opens. Raises ProtocolError blaming its sender."""
    try:
        session = task.session
    except ValueError as error:
        raise ProtocolError(f"a task without a valid session: {error}", envelope.sender) from None
    problems = {
        "a task that is not the server's": envelope.sender != SERVER,
        "a task under another session's digest": session.digest != envelope.session,
        "a task of another run": task.run != run,
        "a task of another protocol": task.protocol != f"{PROTOCOL}/{task.work}",
        "a task of an unknown kind of work": task.work not in (*KINDS, SLOTS),
        "a task for a round already answered": task.round < next_round.get(task.work, 0),
        f"a cohort under the policy's {policy.min_cohort}": len(task.roster) < policy.min_cohort,
        f"a threshold under the policy's {policy.min_threshold}": task.threshold < policy.min_threshold,
    }
    for reason, found in problems.items():
        if found:
            raise ProtocolError(reason, envelope.sender)
    return session


def slots_of(task: Task, terms: ShareTerms) -> SharedSlots | None:
    """What a task is about if it is about slots, as many as it names models, else None. terms: of the run's updates."""
    if task.work != SLOTS:
        return None
    try:
        return SharedSlots(len(task.models), terms.length, task.most, terms.max_norm, terms.rules.least)
    except ValueError as error:
        raise ProtocolError(f"slots that cannot be: {error}", SERVER) from None
