"""What a client makes of a task: what it remembers of it, which of its models are public, and why it would not work from them."""

from dataclasses import dataclass, field

from ..core.errors import ProtocolError
from ..view.answers import COMPUTED, Work
from ..wire.messages import Task
from .conduct import Conduct
from .opening import OpenedModels
from .owned import Owned

TRAINED = frozenset({*COMPUTED, "slots"})
"""Kinds of work that a client's own computer does."""
UNAGREED = "a model beside the public ones to work from, or to be pulled to, which this run has not agreed on"


@dataclass(frozen=True, slots=True)
class Taken:
    """What a client remembers of a task. session: its digest. round: its round. model: SHA-256 of the models as they came.

    most: as in `Task`. work: its kind. models: how many of its models are public. name: of the first of them.
    """

    session: bytes
    round: int
    model: bytes
    most: int
    work: str = "update"
    models: int = 1
    name: str = ""


@dataclass(slots=True)
class Doing:
    """A task that the client has taken, from the models that came with it; none came where clients own them."""

    task: Task
    models: OpenedModels | None = field(repr=False)


def public(task: Task) -> int:
    """How many of a task's models are public. A second one of work on one model is the client's own, which it is pulled to."""
    return len(task.models) if task.work == "slots" else 1


def apart(task: Task) -> bool:
    """Whether a task names a model beside its public ones, to start from or to be pulled to.

    What is made of it is the difference from a public model all the same, which alone clients compare: so whoever names such a
    model, and can choose it, can know what becomes of it (Pasquini et al. 2022, model inconsistency).
    """
    return task.own != "" or (task.work in TRAINED and len(task.models) != public(task))


def updates_of(task: Task) -> str:
    """What updates that are made in a task's session are called."""
    return f"{task.cluster}@{task.round}/{task.work}"


def from_own(task: Task) -> bool:
    """Whether a task is to be begun from another model than its public one."""
    return task.own not in ("", task.models[0])


def public_bytes(task: Task, owned: Owned) -> int:
    """Length of a task's public models, where they come with it."""
    return 4 * owned.length * public(task)


def check_agreed(sender: int, task: Task, starts_apart: bool, works: frozenset[Work] | None) -> None:
    """Raises ProtocolError for a task whose work a run has not agreed on."""
    if works is not None and task.work in TRAINED and task.work not in works:
        raise ProtocolError(f"work of a kind that this run has not agreed on: {task.work}", sender)
    if apart(task) and not starts_apart:
        raise ProtocolError(UNAGREED, sender)


def unusable(task: Task, owned: Owned, conduct: Conduct) -> str | None:
    """Why the models of a task are not such as this client works from, or None."""
    if task.vector and not owned.served:
        return "a model in the clear where clients own them"
    came = public(task) + (from_own(task) and len(task.vector) > public_bytes(task, owned))
    if task.vector and len(task.vector) != 4 * owned.length * came:
        return f"models that are not of {owned.length} coordinates each"
    if task.own and task.work != "update":
        return "a model of its own to start work of another kind from"
    if conduct.hides and from_own(task) and task.own in owned.known:
        return "a start that everybody knows: its difference from another one would tell the secret map"
    if task.later and conduct.uploads:
        return "work for later, where it is sent when it is done"
    return None
