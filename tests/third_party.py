"""A protection as somebody else would write it: clients upload 8 bits a coordinate, and the server sums what it reads.

Nothing here is inherited, no file of the project knows of it, and its message has a kind that is none of ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.roles import Deadline, Effect, Event, Party, Perform, Received, Send, Worked
from cloister.protocol.parts.clients import Clients
from cloister.protocol.parts.gate import Gate, Rules
from cloister.protocol.parts.models import Models
from cloister.protocol.parts.record import Record
from cloister.protocol.parts.run import Harness, Run, network_of, nothing
from cloister.protocol.parts.tasks import give, session_of
from cloister.protocol.parts.weights import asked
from cloister.protocol.view.answers import Assignment, BelowFloor, Remembered, Snapshot, Sum, Updates, Weights
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork
from cloister.protocol.wire.codec import Envelope
from cloister.protocol.wire.fields import by_kind, integer, octets
from cloister.protocol.wire.messages import Task
from cloister.protocol.work.conduct import Conduct
from cloister.protocol.work.keeping import participant_of
from cloister.protocol.work.maker import WORK, Maker, Mine
from cloister.protocol.work.participant import Participant
from cloister.protocol.work.uploads import usable


@dataclass(frozen=True, slots=True)
class Coarse:
    """Client to server: its update in steps of `scale` / 2^30, one byte a coordinate; and its samples."""

    kind: ClassVar[int] = 1001
    steps: bytes = field(repr=False)
    scale: int
    samples: int

    def __post_init__(self) -> None:
        octets(self.steps, 1, 1 << 30, "steps")
        integer(self.scale, 1, 1 << 40, "scale")
        integer(self.samples, 1, 1 << 40, "samples")


MESSAGES = by_kind(Coarse)


@dataclass(frozen=True, slots=True)
class Idle:
    """A client. session: that it owes its update in, if any."""

    me: int
    run: bytes
    next_round: Mapping[str, int] = field(default_factory=dict)
    session: Session | None = None


def client_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    match event:
        case Received(Envelope(message=Task() as task, sender=sender)) if state.session is None:
            if sender != SERVER or task.run != state.run or task.round < state.next_round.get(task.work, 0):
                raise ProtocolError("a task of another run, or of a round already answered", sender)
            spent = {**state.next_round, task.work: task.round + 1}
            return replace(state, next_round=spent, session=task.session), (Perform(task),)
        case Worked(vector=vector, samples=samples) if state.session is not None:
            scale = max(int(np.ceil(float(np.abs(vector).max()) / 127 * 2**30)), 1)
            steps = np.rint(vector.astype(np.float64) * 2**30 / scale).astype(np.int8)
            word = Envelope(state.session.digest, state.me, SERVER, Coarse(steps.tobytes(), scale, samples))
            return replace(state, session=None), (Send(word),)
        case Deadline():
            return replace(state, session=None), ()
        case Received(envelope):
            raise ProtocolError("out of place", envelope.sender)
    raise ValueError("out of place")


@dataclass(frozen=True, slots=True)
class Collecting:
    """The server. received: vectors and samples, by client."""

    session: Session
    length: int
    received: Mapping[int, tuple[np.ndarray, int]] = field(default_factory=dict)


def server_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    match event:
        case Received(Envelope(message=Coarse(steps, scale, samples), sender=client)):
            if client not in state.session.roster or client in state.received or len(steps) != state.length:
                raise ProtocolError("an update that is not this session's", client)
            vector = np.frombuffer(steps, np.int8) * (scale / 2**30)
            return replace(state, received={**state.received, client: (vector, samples)}), ()
        case Deadline():
            return state, ()
    raise ProtocolError("out of place", event.envelope.sender if isinstance(event, Received) else SERVER)


@dataclass(frozen=True, slots=True)
class EightBits:
    """floor: fewest clients in a published sum."""

    floor: int = 2

    @property
    def gives(self) -> frozenset[Functionality]:
        return frozenset({Functionality.SUMS, Functionality.REVISION})

    def open(self, setup: Setup, /) -> "EightBitView":
        return EightBitView(setup, self)


class Collected:
    """Has clients work, and sums what came."""

    def __init__(self, run: Run, models: Models) -> None:
        self.held: dict[str, Collecting] = {}
        self._run = run
        self._models = models

    def train(self, round: int, work: Mapping[str, Assignment], kind: Any = "update", /) -> Mapping[str, Updates]:
        run, length, handles = self._run, len(self._run.setup.initial), dict[str, Updates]()
        sessions = {c: session_of(run, round, c, a.participants, kind) for c, a in work.items()}
        parties = {c: Party(SERVER, Collecting(s, length), server_step) for c, s in sessions.items()}
        give(run, self._models, work, kind, sessions, parties)
        for c, party in parties.items():
            if there := tuple(sorted(party.state.received)):
                handles[c] = updates = Updates(f"{c}@{round}/{kind}", c, round, there, work[c].members)
                self.held[updates.name] = party.state
                run.gate.begin(updates.name)
                run.record.disclose(round, "server", f"{kind}s", there, length * len(there), "every update, to 8 bits")
        return handles

    def sums(self, updates: Updates, weights: Mapping[str, Weights], /) -> Mapping[str, Sum | BelowFloor]:
        run, received = self._run, self.held[updates.name].received
        rows = asked(weights, {i: n for i, (_, n) in received.items()})
        safe = run.gate.admit(updates.name, rows)
        answered: dict[str, Sum | BelowFloor] = {}
        for name, row in rows.items():
            if name not in safe:
                answered[name] = run.record.unsummed(f"{name}@{updates.round}", tuple(row))
                continue
            mean = sum(a * received[i][0] for i, a in row.items()) / sum(row.values())
            label = self._models.mean_name(f"{name}@{updates.round}")
            self._models.means[label] = np.asarray(mean, np.float32)
            run.record.disclose(updates.round, "clients", "sums", tuple(row), len(mean), "the mean update")
            answered[name] = Sum(label, "server", tuple(row), sum(row.values()), 1 / 127, float(np.linalg.norm(mean)))
            run.record.open(updates, answered[name], row)
        return answered

    def train_and_sum(
        self, round: int, work: Mapping[str, Assignment], weights: Mapping[str, Weights], /
    ) -> Mapping[str, Sum | BelowFloor]:
        handles = self.train(round, work)
        none = {c: self._run.record.unsummed(f"{c}@{round}", ()) for c in work if c not in handles}
        return none | {c: self.sums(updates, {c: weights[c]})[c] for c, updates in handles.items()}

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        self.held.clear()

    def save(self) -> Snapshot:
        return nothing()

    def restore(self, snapshot: Snapshot, remembered: Any) -> None:
        self.held.clear()


def unfit(task: Task, work: LocalWork) -> str | None:
    return None if usable(work.vector) else "not finite"


def roles(mine: Mine) -> Mapping[str, Participant]:
    conduct = Conduct(unfit, lambda task, work: work.vector, lambda task: False, lambda task: None)
    return {WORK: participant_of(mine, Party(mine.id, Idle(mine.id, mine.setup.run), client_step), conduct)}


class EightBitView:
    """Which part answers what."""

    tells_energy = False

    def __init__(self, setup: Setup, how: EightBits) -> None:
        rules, network = Rules(how.floor), network_of(setup, MESSAGES, most=4 * len(setup.initial))
        self.record = Record(network, rules, sees_updates=True)
        self.least = rules.least
        run = Run(setup, network, Clients(setup, Maker(roles)), Gate(rules), self.record)
        models = Models(run, "server")
        collected = Collected(run, models)
        self.harness = Harness(run, models.observe, (models, collected))
        self.owner, self.advance, self.merge, self.extrapolate = models.owner, models.advance, models.merge, models.extrapolate
        self.revise, self.norm, self.train_alone = models.revise, models.norm, models.train_alone
        self.train, self.sums, self.train_and_sum = collected.train, collected.sums, collected.train_and_sum
