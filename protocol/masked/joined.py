"""Which sessions a client of the masked sum may join, and has joined: by name, once in a round, and no more than so many.

Spec: specs/masked_sum.md, section Terms and step 0. A name comes from the server, so it is taken from a closed list of forms and
never is part of a key that the client stores under. It says what the inputs are, hence what terms may call them.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import cbor2

from ..drivers.roles import Persist
from .terms import PROTOCOL

if TYPE_CHECKING:
    from ..work.participant import Participant
    from ..work.tasks import Taken

_PURPOSES = {"weights": b"weights", "slot": b"counts", "slots": b"sums"}
COUNTED = frozenset({"weights", "by"})
"""The kinds of sums that count samples: of weights, and by weights that were summed before. No others do."""
NOISY, OPENED = "gaussian", "opened"
"""The kind of sums that noise is in, and of those that a receiver opens."""
WITHOUT_NOISE = "a sum without the noise that was agreed on"
MOST_JOINED = 4096
"""Sums of one client in one round."""
_WORK = "(?:update|gradient|head)"
_FORMS = (
    f"{_WORK}(?:/[0-9]{{1,9}})?",
    f"weights/{_WORK}/[0-9]{{1,9}}",
    "by [0-9a-f]{16} [0-9a-f]{32}",
    "slot counts",
    "slots [0-9a-f]{1,16} [0-9a-f]{30}",
    "gaussian [0-9a-f]{32}",
    "opened [0-9a-f]{40}",
)
_NAMES = re.compile(f"{PROTOCOL}/(?:{'|'.join(_FORMS)})")


def is_name(protocol: str) -> bool:
    """Whether some protocol over masked sums calls its sessions so."""
    return _NAMES.fullmatch(protocol) is not None


def kind_of(protocol: str) -> str:
    """The first word of a session's name: what its inputs are."""
    return re.split("[/ ]", protocol.removeprefix(f"{PROTOCOL}/"), maxsplit=1)[0]


def update_of(work: bytes, purpose: bytes) -> bytes:
    """What terms call inputs that are made of one work session's updates: its digest, where they are the updates themselves."""
    return hashlib.sha256(work + purpose).digest() if purpose else work


def rounds_held(protocol: str, updates: Mapping[bytes, int]) -> dict[bytes, int]:
    """What terms of a session of this name may call its inputs, with the round of the work behind each.

    updates: the rounds of the work sessions whose updates a client holds, by digest.
    """
    kind = kind_of(protocol)
    purpose = _PURPOSES.get(kind, b"")
    return {update_of(work, purpose): round for work, round in updates.items()}


def inputs_of(work: bytes) -> frozenset[bytes]:
    """All that terms may call inputs that are made of one work session's updates."""
    return frozenset(update_of(work, purpose) for purpose in (b"", *_PURPOSES.values()))


def works_held(client: "Participant") -> "dict[bytes, Taken]":
    """The tasks whose updates a client holds, or will when they are asked for, by the digest of their work session."""
    there = client.held.keys() | client.promised.keys()
    return {taken.session: taken for name, taken in client.taken.items() if name in there}


def join(joined: Mapping[str, int], protocol: str, round: int, steps: int) -> tuple[dict[str, int], Persist]:
    """With one more session, and what to store before it begins. joined: the next round, by name.

    A later round than all before forgets the names of those: none of their rounds is joined any more. steps: of the client's
    transcript so far, so that an older transcript beside this entry is known for what it is.
    """
    known = {name: after for name, after in joined.items() if after > round}
    stored = cbor2.dumps([round, protocol, steps], canonical=True)
    return {**known, protocol: round + 1}, Persist(f"masked sum joined {len(known)}", stored)


def joined_before(journal: Mapping[str, bytes]) -> dict[str, int]:
    """The next round by name, from all that the client stored; entries of rounds before the latest say nothing any more.

    Raises ValueError for an entry that `join` did not make.
    """
    found = _entries(journal)
    latest = max((round for round, _, _ in found), default=0)
    return {name: round + 1 for round, name, _ in found if round == latest}


def steps_before(journal: Mapping[str, bytes]) -> int:
    """How many steps, at least, the client's transcript had: by what was stored when it joined its latest session."""
    return max((steps for _, _, steps in _entries(journal)), default=0)


def _entries(journal: Mapping[str, bytes]) -> list[tuple[int, str, int]]:
    found: list[tuple[int, str, int]] = []
    for key, value in journal.items():
        if key.startswith("masked sum joined "):
            try:
                round, name, steps = cbor2.loads(value)
            except (TypeError, ValueError, cbor2.CBORDecodeError):
                raise ValueError(f"{key!r} is not what a client stored") from None
            if (type(round), type(name), type(steps)) != (int, str, int):
                raise ValueError(f"{key!r} is not what a client stored")
            found.append((round, name, steps))
    return found
