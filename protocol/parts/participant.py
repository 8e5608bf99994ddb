"""One client of a run: its role in the upload protocol, its own computer, and what it holds. It is reached by events alone.

What a client works on is what came to it: the models in its own task, opened from the bytes that it received. Clients of one
process that received equal bytes open them once, and have nothing else in common.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ...crypto.projection import TwoStage
from ..core.session import SERVER
from ..drivers.roles import Compute, Computed, Deadline, Effect, Event, Party, Perform, Send, Worked
from ..uploaded.uploads import from_bytes
from ..view.answers import Vector
from ..view.asks import LocalJob, LocalWork
from ..wire.fields import MOST_SAMPLES
from ..wire.messages import MOST_REASON, Declined, Envelope, Task

TRAINED = frozenset({"update", "gradient", "slots"})
"""Kinds of work that a client's own computer does."""


Unfit = Callable[[Task, LocalWork], str | None]


@dataclass(frozen=True, slots=True)
class Conduct:
    """How clients treat their work under one protection, which they know before the run.

    unfit: why a client cannot take part with this work, or None. put: what its role sends of it. holds: whether the client keeps
    it, to answer about later. sketch: draws the secret sketch of a task's work, where clients share one before they upload.
    """

    unfit: Unfit
    put: Callable[[Task, LocalWork], Any]
    holds: Callable[[Task], bool]
    sketch: Callable[[Task], Callable[[], TwoStage] | None]


class Received:
    """Models as they came. data: the bytes. digest: their SHA-256. vectors: float32 (d,), one for each name in the task."""

    def __init__(self, data: bytes, count: int) -> None:
        self.data = data
        self.digest = hashlib.sha256(data).digest()
        self.vectors: tuple[Vector, ...] = tuple(np.split(from_bytes(data), count))


class Opening:
    """Opens equal bytes once, as long as somebody holds what was opened."""

    def __init__(self) -> None:
        self._held: WeakValueDictionary[tuple[bytes, int], Received] = WeakValueDictionary()

    def __call__(self, data: bytes, count: int) -> Received:
        found = self._held.get((data, count))
        if found is None:
            found = self._held[data, count] = Received(data, count)
        return found


@dataclass(frozen=True, slots=True)
class Taken:
    """What a client remembers of a task. session: its digest. round: its round. model: SHA-256 of the models as they came.

    most: as in `Task`.
    """

    session: bytes
    round: int
    model: bytes
    most: int


@dataclass(slots=True)
class Doing:
    """A task that the client has taken, from the models that came with it; none came where clients own them."""

    task: Task
    models: Received | None = field(repr=False)


class Participant:
    """A client. role: of uploads. held: its work, by the name of the updates. taken: by the same, the task. promised: tasks that
    it does when their result is asked for. owned: models that clients own, by name.
    """

    def __init__(self, role: Party, conduct: Conduct, opening: Opening, owned: Mapping[str, Vector]) -> None:
        self.id = role.id
        self.role = role
        self.held: dict[str, LocalWork] = {}
        self.taken: dict[str, Taken] = {}
        self.promised: dict[str, Doing] = {}
        self._conduct = conduct
        self._opening = opening
        self._owned = owned
        self._doing: Doing | None = None
        self._round = 0

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Advance by one event and return the effects. Raises ProtocolError."""
        if isinstance(event, Computed):
            return self._computed(event.work)
        if isinstance(event, Deadline):
            self._doing = None
        found: list[Effect] = []
        for effect in self.role.handle(event):
            found += self._begun(effect.task) if isinstance(effect, Perform) and effect.task.work in TRAINED else (effect,)
        return tuple(found)

    def models(self, names: Sequence[str], vectors: Sequence[bytes]) -> tuple[Vector, ...]:
        """Models as they came, or, where none came, those that it holds under these names."""
        return tuple(self._opening(v, 1).vectors[0] for v in vectors) or tuple(self._owned[name] for name in names)

    def forget(self, names: set[str] | None = None) -> None:
        """Work under these names; all of it if none are given."""
        for store in (self.held, self.taken, self.promised):
            for name in set(store) if names is None else names & store.keys():
                store.pop(name)

    # --- work ---------------------------------------------------------------------------------------------------------

    def job(self, doing: Doing) -> LocalJob:
        """What its computer is asked for."""
        task, models = doing.task, doing.models
        given = models.vectors if models is not None else tuple(self._owned[name] for name in task.models)
        start = self._owned[task.own] if self._from_own(task) else given[0]
        slots = given if task.work == "slots" else ()
        return LocalJob(self.id, task.round, task.work, start, slots, self._conduct.sketch(task))  # type: ignore[arg-type]

    def checked(self, doing: Doing, work: LocalWork) -> LocalWork | str:
        """The work, as the difference from the public model that it was asked for; or why it cannot be used."""
        if type(work.samples) is not int or not 1 <= work.samples <= MOST_SAMPLES:
            return f"a number of samples that is not a whole number from 1 to {MOST_SAMPLES}"
        if self._from_own(task := doing.task):
            public = self._owned[task.models[0]] if doing.models is None else doing.models.vectors[0]
            work = replace(work, vector=self._owned[task.own] - public + work.vector)
        return self._conduct.unfit(task, work) or work

    def _from_own(self, task: Task) -> bool:
        return task.own not in ("", *task.models)

    def _begun(self, task: Task) -> tuple[Effect, ...]:
        if task.round > self._round:
            self.forget()
            self._round = task.round
        models = self._opening(task.vector, len(task.models)) if task.vector else None
        doing = Doing(task if models is None else replace(task, vector=models.data), models)
        digest = b"" if models is None else models.digest
        self.taken[updates_of(task)] = Taken(task.session.digest, task.round, digest, task.most)
        if task.later:
            self.promised[updates_of(task)] = doing
            return self.role.handle(Worked(np.zeros(0, np.float32), 1))
        self._doing = doing
        return (Compute(self.job(doing)),)

    def _computed(self, work: LocalWork) -> tuple[Effect, ...]:
        doing, self._doing = self._doing, None
        if doing is None:
            return ()  # the session was over before
        task, found = doing.task, self.checked(doing, work)
        if isinstance(found, str):
            word = Envelope(task.session.digest, self.id, SERVER, Declined(found[:MOST_REASON]))
            return (*self.role.handle(Deadline()), Send(word))
        if self._conduct.holds(task):
            self.held[updates_of(task)] = found
        return self.role.handle(Worked(self._conduct.put(task, found), 1 if task.work == "slots" else found.samples))


def updates_of(task: Task) -> str:
    """What updates that are made in a task's session are called."""
    return f"{task.cluster}@{task.round}/{task.work}"
