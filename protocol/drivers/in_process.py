"""The in-process driver: all parties of a run in one process, every message as bytes, and a tap on the network.

The driver owns the queue and the deadline; roles own everything else. Frames are delivered in the order in which they were
sent unless the tap says otherwise, so a run is a function of its inputs and the tap.
"""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

from ..core.errors import Fault, ProtocolError
from ..core.link import Frame, Tap
from ..core.session import SERVER
from ..view.answers import Cost
from ..wire.codec import Kinds
from ..wire.messages import MESSAGES as WORK
from ..wire.messages import Declined, Task
from ..wire.to_many import ToMany
from .roles import (
    Awaiting,
    Compute,
    Computed,
    Deadline,
    Effect,
    Event,
    FarRole,
    Judge,
    Judged,
    Learned,
    Perform,
    Persist,
    Posted,
    Received,
    Refusal,
    Role,
    Send,
    Worked,
    drop_oldest,
    mark_of,
)

Computers = Callable[[Sequence[Any]], Iterator[tuple[int, Any]]]
"""The clients' own computers: a `Workers` of view/work.py."""
Judging = Callable[[Any], int | None]
"""The clients' own opinions: a `Judgement` of view/work.py."""
Learn = Callable[[int, Learned], None]
"""Told which client was sent what."""
NOT_PUBLISHED = "it says that it was sent a sum where none is sent to it"
MOST_FAULTS = 64
"""Of what one client sends or says in an exchange, so many different ones are put on record."""
MOST_OVER = 4096
"""Of so many sessions that are over it is known that they were: what arrives for them is old, not from nowhere."""


def no_work(_: list[tuple[int, Task]]) -> Iterator[tuple[int, Worked]]:
    """Of a session in which nobody has anything to do but what its role does."""
    return iter(())


class InProcess:
    """Carries frames between parties. Counts messages and bytes; records faults, and frames when `record` is set.

    kinds: of messages that there may be, beside those of work.

    computers: do the jobs that clients ask for, several at once, each yielded as (client, work) when it is done. judge: which of
    the models in an offer serves its client best; None for no answer.

    bytes_up: sent by clients. bytes_down: sent to clients. bytes_between: sent by servers and dealers to each other.
    cpu_seconds: by party, what its role, its encoding and decoding and whatever ran under `timed` took, all threads counted.
    costs: all of these by party.
    """

    def __init__(
        self,
        tap: Tap | None = None,
        *,
        kinds: Kinds,
        max_bytes: int,
        record: bool = False,
        computers: Computers | None = None,
        judge: Judging | None = None,
    ) -> None:
        self.messages = 0
        self.bytes_up = 0
        self.bytes_down = 0
        self.bytes_between = 0
        self.cpu_seconds: dict[int, float] = defaultdict(float)
        self._sent: Counter[int] = Counter()
        self._up: Counter[int] = Counter()
        self._down: Counter[int] = Counter()
        self._between: Counter[int] = Counter()
        self.faults: list[Fault] = []
        self._known: set[tuple[int, Fault]] = set()
        self._found: Counter[int] = Counter()
        self.frames: list[Frame] = []
        self.persisted: dict[tuple[int, str], bytes] = {}
        self._over: dict[bytes, Mapping[int, Role]] = {}
        self._to_many = ToMany()
        self._tap = tap
        self._computers = computers
        self._judge = judge
        self.kinds = MappingProxyType({**WORK, **kinds})
        self._max_bytes = max_bytes
        self._record = record

    def run(
        self,
        clients: Mapping[int, Role],
        sessions: Mapping[bytes, Role],
        opening: Iterable[tuple[int, Effect]],
        perform: Callable[[list[tuple[int, Task]]], Iterator[tuple[int, Worked]]],
        learned: Learn | None = None,
    ) -> None:
        """Play sessions from their opening effects, each (party, effect), to the deadline, or to the last of their stages.

        clients: the client parties by id. sessions: the server's parties by session digest. perform: the local work of all
        clients that were given a task in a stage, results fed back one by one as they come. learned: told what clients were sent;
        None where none is sent a vector: one that says it was is at fault.
        """
        self._known.clear()
        self._found.clear()
        queue: deque[tuple[int, Send | Posted] | None] = deque()  # None: here comes what was late
        late: list[Frame] = []
        tasks: list[tuple[int, Task]] = []
        jobs: dict[int, Any] = {}
        asked: set[int] = set()
        models: dict[bytes, bytes] = {}
        begun = dict.fromkeys(sessions)  # and sessions of words that nobody answers, which the server has no role in

        def act(party: int, effects: Iterable[Effect]) -> None:
            for effect in effects:
                match effect:
                    case Send() | Posted():
                        queue.append((party, effect))
                    case Persist(key, value):
                        self.persisted[party, key] = value
                    case Perform(task):
                        vector = models.setdefault(task.vector, task.vector)  # one copy of a model, however many clients got it
                        tasks.append((party, replace(task, vector=vector)))
                    case Compute(job):
                        jobs[party] = job
                        asked.add(party)
                    case Judge(offer):
                        chosen = None if self._judge is None else self._judge(offer)
                        act(party, self._feed(clients[party], Deadline() if chosen is None else Judged(chosen)))
                    case Learned():
                        if learned is None:
                            self._fault(Fault(party, NOT_PUBLISHED))
                        else:
                            learned(party, effect)
                    case Refusal(blame, reason):
                        self._fault(Fault(blame, reason, by=None if blame == party else party))

        def frames() -> Iterator[Frame]:  # each made when it is its turn: shares relayed to a thousand clients are a gigabyte
            while queue:
                first = queue.popleft()
                if first is None:
                    then = tuple(late)
                    late.clear()
                else:
                    sent = self._transmit(*first)
                    late.extend(frame for frame in sent if frame.late)
                    then = tuple(frame for frame in sent if not frame.late)
                yield from then

        def drain() -> None:
            for frame in frames():
                act(frame.receiver, self._deliver(frame, clients, sessions))

        def hear() -> None:  # clients behind a link compute at the same time, and are waited for here
            for heard in {role.heard for role in clients.values() if hasattr(role, "heard")}:
                for party, effects in heard():
                    act(party, effects)
                    drain()

        try:
            for party, effect in opening:
                if isinstance(effect, Send):
                    begun[effect.envelope.session] = None
                act(party, (effect,))
                drain()  # at once, so that a model for a thousand clients is not queued a thousand times
            performed, due = 0, list(sessions.values())
            while True:  # a stage: its work, its deadline, and what was late for it
                work, performed = tasks[performed:], len(tasks)
                for client, result in perform(sorted(work, key=lambda item: item[0])):
                    act(client, self._feed(clients[client], result))
                    drain()
                while jobs and self._computers is not None:
                    given = [jobs.pop(client) for client in sorted(jobs)]
                    for client, work_done in self._computers(given):
                        act(client, self._feed(clients[client], Computed(work_done)))
                        drain()
                hear()
                opened = []
                for session in due:
                    with self.timed(session.id):
                        effects = session.handle(Deadline())
                    opened += [session] * any(isinstance(effect, Awaiting) for effect in effects)
                    act(SERVER, effects)
                queue.append(None)
                drain()
                if not opened:
                    hear()
                    break
                due = opened
        finally:  # whoever still owes work, because its task was late or something raised, is free for the next session
            self._to_many = ToMany()  # which holds the last model that was sent
            self._over |= dict.fromkeys(begun, clients)
            drop_oldest(self._over, MOST_OVER)
            for client in dict.fromkeys([*(client for client, _ in tasks), *sorted(asked)]):
                clients[client].handle(Deadline())

    def allow(self, max_bytes: int) -> None:
        """Let messages be as large as this, if they may not already."""
        self._max_bytes = max(self._max_bytes, max_bytes)

    @contextmanager
    def timed(self, *parties: int) -> Iterator[None]:
        """Count the CPU seconds of what runs inside as the party's; of several, as each one's: it stands for all of theirs."""
        started = time.process_time()
        try:
            yield
        finally:
            took = time.process_time() - started
            for party in parties:
                self.cpu_seconds[party] += took

    @property
    def costs(self) -> dict[int, Cost]:
        """What each party has spent, by id, clients first."""
        parties = self._sent.keys() | self._up.keys() | self._down.keys() | self.cpu_seconds.keys()
        return {
            i: Cost(self._sent[i], self._up[i], self._down[i], self._between[i], self.cpu_seconds.get(i, 0.0))
            for i in sorted(parties, key=lambda i: (i < 0, abs(i)))
        }

    def add_costs(self, earlier: "InProcess") -> None:
        """Count what was spent on an earlier network of the same run too. Its totals are not added; its sessions are over."""
        self._over |= {session: {} for session in earlier._over}
        for party, cost in earlier.costs.items():
            self._sent[party] += cost.messages
            self._up[party] += cost.bytes_up
            self._down[party] += cost.bytes_down
            self._between[party] += cost.bytes_between
            self.cpu_seconds[party] += cost.cpu_seconds

    def _fault(self, fault: Fault) -> None:
        """Put it on record: of what a client sends or says, each fault once in an exchange, and so many at most."""
        source = fault.blame if fault.by is None else fault.by
        if source < 0:
            self.faults.append(fault)
        elif (source, fault) not in self._known and self._found[source] < MOST_FAULTS:
            self._known.add((source, fault))
            self._found[source] += 1
            self.faults.append(fault)

    def _transmit(self, party: int, effect: Send | Posted) -> tuple[Frame, ...]:
        if isinstance(effect, Posted):
            kept = self._record or self._tap is not None  # a view would be neither searched nor hashed by who looks at frames
            frame = Frame(self.messages, party, effect.receiver, effect.kind, bytes(effect.data) if kept else effect.data)
        else:
            envelope, started = effect.envelope, time.process_time()
            data = self._to_many.encode(envelope)
            self.cpu_seconds[party] += time.process_time() - started
            frame = Frame(self.messages, party, envelope.receiver, type(envelope.message).__name__, data)
        self._count(party, frame.receiver, len(frame.data))
        if self._record:
            self.frames.append(frame)
        return (frame,) if self._tap is None else tuple(self._tap(frame))

    def _count(self, sender: int, receiver: int, size: int) -> None:
        self.messages += 1
        self._sent[sender] += 1
        if sender >= 0:
            self.bytes_up += size
            self._up.update({sender: size, receiver: size})
        elif receiver >= 0:
            self.bytes_down += size
            self._down.update({sender: size, receiver: size})
        else:
            self.bytes_between += size
            self._between[sender] += size

    def _deliver(self, frame: Frame, clients: Mapping[int, Role], sessions: Mapping[bytes, Role]) -> tuple[Effect, ...]:
        far = clients.get(frame.receiver)
        if far is not None and hasattr(far, "take"):
            return cast("FarRole", far).take(frame.sender, frame.data)
        started = time.process_time()
        try:
            envelope = self._to_many.decode(frame.data, frame.sender, self._max_bytes, self.kinds)
            if (envelope.sender, envelope.receiver) != (frame.sender, frame.receiver):
                raise ProtocolError("a message that names other parties than its link", frame.sender)
            session = envelope.session
            among = clients if session in sessions else self._over.get(session, clients)
            party = sessions.get(session) if frame.receiver == SERVER else among.get(frame.receiver)
            if party is None and session in self._over:
                return ()
            if hasattr(party, "take"):  # a client elsewhere, of a session that is over
                return cast("FarRole", party).take(frame.sender, frame.data)
            if party is None:
                raise ProtocolError("a message for a session or party that is not there", frame.sender)
            if frame.receiver == SERVER and isinstance(envelope.message, Declined):
                self._fault(Fault(frame.sender, envelope.message.reason, True, declined=True))
                return ()
        except ProtocolError as error:
            self._fault(Fault(error.blame, error.reason))
            self.cpu_seconds[frame.receiver] += time.process_time() - started
            return ()
        return self._feed(party, Received(envelope, mark_of(frame.data)), started)

    def _feed(self, party: Role, event: Event, started: float | None = None) -> tuple[Effect, ...]:
        """started: of CPU time, with which this counts as the party's."""
        if started is None:
            started = time.process_time()  # here and above without `timed`, which takes longer than what it would measure
        try:
            return party.handle(event)
        except ProtocolError as error:
            self._fault(Fault(error.blame, error.reason))
            return ()
        finally:
            self.cpu_seconds[party.id] += time.process_time() - started
