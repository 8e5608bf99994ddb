"""One client of a run: its role in the upload protocol, its own computer, and what it holds.

What a client works on is what came to it: the models in its own task, opened from the bytes that it received. Clients of one
process that received equal bytes open them once. A driver reaches it by events; what parts of a view still do for clients in a
simulation, and a network could not, is listed in drivers/__init__.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, get_args

import numpy as np

from ..core.errors import ProtocolError
from ..core.session import SERVER
from ..drivers.roles import (
    SESSIONS,
    Compute,
    Computed,
    Deadline,
    Effect,
    Event,
    Learned,
    Party,
    Perform,
    Persist,
    Received,
    Send,
    Worked,
    drop_oldest,
)
from ..view.answers import Memory, Vector, Work
from ..view.work import LocalJob, LocalWork, Scorer, Unwilling
from ..wire.codec import Envelope
from ..wire.fields import MOST_SAMPLES
from ..wire.messages import MOST_REASON, Declined, Discard, Retain, Task
from ..wire.recipes import Lend, Lent, Recipe, RoundOver
from ..wire.scores import Evaluate
from .conduct import Conduct
from .opening import ModelOpener
from .owned import Owned
from .scoring import score_of
from .sketching import Sketcher
from .tasks import TRAINED, Doing, Taken, check_agreed, from_own, public, public_bytes, unusable, updates_of

T = TypeVar("T")
MODEL, OWN, KNOWN, RETAINED, SPLIT = "model", "own model", "known model", "retained", "key of split"
"""What a client keeps entries of, each with a name behind it."""
SCORED = "scored"
"""And of how many rounds it last said how well it does."""
RECALLED = "recalled"
"""And how often it answered for what it keeps."""
MOST_AHEAD = 1 << 20
"""Rounds by which a task may be ahead of the one before."""


class Participant:
    """A client. role: of uploads. held: its work, by the name of the updates. taken: by the same, the task. promised: tasks that
    it does when their result is asked for. owned: models that it holds. sketcher: its sketches, where it has any. starts_apart,
    scorer and works: as in `Setup`.
    """

    def __init__(
        self,
        role: Party,
        conduct: Conduct,
        opening: ModelOpener,
        owned: Owned,
        sketcher: Sketcher | None = None,
        starts_apart: bool = False,
        scorer: Scorer | None = None,
        works: frozenset[Work] | None = None,
    ) -> None:
        self.id = role.id
        self.role = role
        self.held: dict[str, LocalWork] = {}
        self.taken: dict[str, Taken] = {}
        self.promised: dict[str, Doing] = {}
        self.owned = owned
        self.sketcher = sketcher
        self.starts_apart = starts_apart
        self._works = works
        self._shown: dict[bytes, tuple[str, ...]] = {}  # of the work that it holds, what sketch was sent, by the work's session
        self._scorer = scorer
        self._scored = 0
        self._conduct = conduct
        self._opening = opening
        self._doing: Doing | None = None
        self._round = 0
        self._over: dict[bytes, None] = {}  # sessions in which it was told that a round is over

    @property
    def round(self) -> int:
        """The latest of which it took a task."""
        return self._round

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Advance by one event and return the effects. Raises ProtocolError."""
        if isinstance(event, Computed):
            return self._computed(event.work)
        if isinstance(event, Deadline):
            self._doing = None
        if isinstance(event, Received) and isinstance(event.envelope.message, Retain | Discard):
            return self._told(event.envelope.sender, event.envelope.message)
        if isinstance(event, Received) and isinstance(event.envelope.message, Recipe | Lend | Lent | RoundOver):
            return self._moved(event.envelope, event.envelope.message)
        if isinstance(event, Received) and isinstance(event.envelope.message, Evaluate):
            return self._evaluated(event.envelope, event.envelope.message)
        if isinstance(event, Received) and isinstance(event.envelope.message, Task):
            check_agreed(event.envelope.sender, event.envelope.message, self.starts_apart, self._works)
        found: list[Effect] = []
        for effect in self.role.handle(event):
            match effect:
                case Perform(task):
                    found += self._performed(task)
                case Learned(name, session, vector):
                    self.owned.learn(name, session, vector)
                case _:
                    found.append(effect)
        return tuple(found)

    def models(self, names: Sequence[str], vectors: Sequence[bytes]) -> tuple[Vector, ...]:
        """Models as they came, or, where none came, those that it holds under these names."""
        return tuple(self._opening(v, 1).vectors[0] for v in vectors) or tuple(self.owned[name] for name in names)

    def trained(self, round: int) -> Vector | None:
        """What its latest update of this round makes of the public model: float32 (d,). None where it holds none."""
        for name, taken in reversed(self.taken.items()):
            if (taken.round, taken.work) == (round, "update") and name in self.held and taken.name in self.owned:
                return self.owned[taken.name] + self.held[name].vector
        return None

    def forget(self) -> None:
        """All its work."""
        self._doing = None
        for store in (self.held, self.taken, self.promised, self._shown):
            store.clear()

    # --- keeping ------------------------------------------------------------------------------------------------------

    def save(self) -> Memory:
        """Between rounds."""
        vectors = {f"{MODEL} {name}": model.vector for name, model in self.owned.models.items()}
        stored = {f"{OWN} {name}": b"" for name in self.owned.mine}
        stored |= {f"{KNOWN} {name}": b"" for name in self.owned.known & self.owned.models.keys()}
        if self.sketcher is not None:
            vectors |= {f"{RETAINED} {handle}": vector for handle, vector in self.sketcher.kept.items()}
            stored |= {f"{SPLIT} {handle}": key for handle, key in self.sketcher.keys.items()}
            stored |= {RECALLED: self.sketcher.recalled.to_bytes(4, "big")} if self.sketcher.recalled else {}
        stored |= {SCORED: self._scored.to_bytes(4, "big")} if self._scored else {}
        return Memory(max(self.role.state.next_round.values(), default=0), stored, vectors)

    def restore(self, memory: Memory) -> None:
        """Go on from what it kept; it takes no part in rounds before `memory.since`."""
        self.forget()
        since = dict.fromkeys(get_args(Work), memory.since) if memory.since else {}
        self._round = max(memory.since - 1, 0)
        self.role.restart(replace(self.role.state, next_round=since))
        self.owned.restore(_named(MODEL, memory.vectors), _named(OWN, memory.stored), _named(KNOWN, memory.stored))
        self._scored = int.from_bytes(memory.stored.get(SCORED, b""), "big")
        if self.sketcher is not None:
            self.sketcher.kept = _named(RETAINED, memory.vectors)
            self.sketcher.keys = _named(SPLIT, memory.stored)
            self.sketcher.recalled = int.from_bytes(memory.stored.get(RECALLED, b""), "big")

    # --- work ---------------------------------------------------------------------------------------------------------

    def job(self, doing: Doing) -> LocalJob:
        """What its computer is asked for."""
        task, models = doing.task, doing.models
        given = models.vectors if models is not None else tuple(self.owned[name] for name in task.models)
        start = self.owned[task.own] if from_own(task) else given[0]
        slots = given if task.work == "slots" else ()
        pulled = None if public(task) == len(task.models) else task.models[-1]
        toward = None if pulled is None else given[0] if pulled == task.models[0] else self.owned[pulled]
        return LocalJob(self.id, task.round, task.work, start, slots, self._conduct.sketch(task), toward)  # type: ignore[arg-type]

    def checked(self, doing: Doing, work: LocalWork | Unwilling) -> LocalWork | str:
        """The work, as the difference from the public model that it was asked for; or why it cannot be used, or is not done."""
        if isinstance(work, Unwilling):
            return work.reason
        if type(work.samples) is not int or not 1 <= work.samples <= MOST_SAMPLES:
            return f"a number of samples that is not a whole number from 1 to {MOST_SAMPLES}"
        if from_own(task := doing.task):
            public = self.owned[task.models[0]] if doing.models is None else doing.models.vectors[0]
            work = replace(work, vector=self.owned[task.own] - public + work.vector)
        return self._conduct.unfit(task, work) or work

    def _performed(self, task: Task) -> tuple[Effect, ...]:
        if not self._round <= task.round <= self._round + MOST_AHEAD:
            return self._declined(task, "a round that is over, or far ahead")
        if task.round > self._round:
            self.forget()
            self.owned.over()
            self._round = task.round
            if self.sketcher is not None:
                self.sketcher.advance(task.round)
        return self._begun(task) if task.work in TRAINED else self._sketched(task)

    def _begun(self, task: Task) -> tuple[Effect, ...]:
        if (reason := unusable(task, self.owned, self._conduct)) is not None:
            return self._declined(task, reason)
        whole = public_bytes(task, self.owned)
        models = self._opening(task.vector[:whole], public(task)) if task.vector else None
        if models is not None:
            self.owned.came_with(models.digest, task.models, models.vectors)
        if len(task.vector) > whole:
            start = self._opening(task.vector[whole:], 1)
            self.owned.came_with(start.digest, (task.own,), start.vectors)
        mine = (
            *((task.own,) if from_own(task) and len(task.vector) <= whole else ()),
            *(name for name in task.models[public(task) :] if name != task.models[0]),
        )
        needed = (*(task.models[: public(task)] if models is None else ()), *mine)
        if lacking := [name for name in needed if not self.owned.holds(name)]:
            return self._declined(task, f"the model {lacking[0]} is not held here")
        kept = task if models is None or models.data is task.vector else replace(task, vector=models.data)
        doing = Doing(kept, models)
        digest = b"" if models is None else models.digest
        self.taken[updates_of(task)] = Taken(
            task.session.digest, task.round, digest, task.most, task.work, public(task), task.models[0]
        )
        if task.later:
            self.promised[updates_of(task)] = doing
            return self.role.handle(Worked(np.zeros(0, np.float32), 1))
        self._doing = doing
        return (Compute(self.job(doing)),)

    def _computed(self, work: LocalWork | Unwilling) -> tuple[Effect, ...]:
        doing, self._doing = self._doing, None
        if doing is None:
            return ()  # the session was over before
        task, found = doing.task, self.checked(doing, work)
        if isinstance(found, str):
            return self._declined(task, found)
        if self._conduct.holds(task):
            self.held[updates_of(task)] = found
        return self.role.handle(Worked(self._conduct.put(task, found), 1 if task.work == "slots" else found.samples))

    def _declined(self, task: Task, reason: str) -> tuple[Effect, ...]:
        word = Envelope(task.session.digest, self.id, SERVER, Declined(reason[:MOST_REASON]))
        return (*self.role.handle(Deadline()), Send(word))

    # --- models -------------------------------------------------------------------------------------------------------

    def _moved(self, envelope: Envelope, word: Recipe | Lend | Lent | RoundOver) -> tuple[Effect, ...]:
        """As the server tells it. Raises ProtocolError for a word of anybody else."""
        if envelope.sender != SERVER:
            raise ProtocolError("a word about models that is not the server's", envelope.sender)
        if isinstance(word, RoundOver) and envelope.session in self._over:
            return ()  # once more, perhaps in the middle of another round
        answer = self.owned.told(word, {name: work.vector for name, work in self.held.items()})
        if isinstance(word, RoundOver):
            self._over[envelope.session] = None
            drop_oldest(self._over, SESSIONS)
            self.forget()
            self.role.handle(Deadline())
        return () if answer is None else (Send(Envelope(envelope.session, self.id, SERVER, answer)),)

    def _evaluated(self, envelope: Envelope, word: Evaluate) -> tuple[Effect, ...]:
        """How well it does, once for as many rounds. Raises ProtocolError."""
        if envelope.sender != SERVER or word.rounds <= self._scored:
            raise ProtocolError("a question of how well it does that is not the server's, or was answered", envelope.sender)
        found = None
        if self._scorer is not None and all(name in self.owned for name in word.models):
            found = self._scorer(self.id, word.rounds, tuple(self.owned[name] for name in word.models))
        answer = Send(Envelope(envelope.session, self.id, SERVER, score_of(found)))
        if found is None:
            return (answer,)
        self._scored = word.rounds
        return (Persist(SCORED, self._scored.to_bytes(4, "big")), answer)

    # --- sketches -----------------------------------------------------------------------------------------------------

    def _sketched(self, task: Task) -> tuple[Effect, ...]:
        name = task.models[0]
        taken, recalled = self.taken.get(name), task.work == "recalled offset sketch"
        if taken is None and not recalled:
            return self._declined(task, "no work that this sketch would be of")  # what is retained is recalled, and no more
        made = b"" if taken is None else taken.session
        if taken is not None and taken.work == "slots":
            return self._declined(task, "a sketch of work for slots")
        sketch = task.work, *task.models[1:]
        if not recalled and self._shown.setdefault(made, sketch) != sketch:
            return self._declined(task, "a sketch of work that was sketched the other way")
        work = None if recalled else self.held.get(name)  # what is recalled was retained
        answer = "no sketches" if self.sketcher is None else self.sketcher.answer(task, work, made)
        if isinstance(answer, str):
            return self._declined(task, answer)
        counted = (Persist(RECALLED, self.sketcher.recalled.to_bytes(4, "big")),) if self.sketcher and recalled else ()
        return (*counted, *self.role.handle(Worked(answer, 1)))

    def _told(self, sender: int, word: Retain | Discard) -> tuple[Effect, ...]:
        if sender != SERVER or self.sketcher is None:
            raise ProtocolError("a word to retain or discard sketches that is not the server's, or where there are none", sender)
        if isinstance(word, Discard):
            self.sketcher.discard(word)
        else:
            self.sketcher.retain(word, {self.taken[n].session: work for n, work in self.held.items() if n in self.taken})
        return ()


def _named(kind: str, entries: Mapping[str, T]) -> dict[str, T]:
    """Of these entries, those of a kind, by the name behind it."""
    return {key.removeprefix(f"{kind} "): entry for key, entry in entries.items() if key.startswith(f"{kind} ")}
