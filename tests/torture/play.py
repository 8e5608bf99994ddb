"""One schedule, from the first word to the last, and what did not hold."""

import hashlib
import random
import traceback
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from unittest.mock import patch

from cloister.protocol.core.errors import ProtocolError, Refused
from cloister.protocol.core.link import Frame
from cloister.protocol.drivers.in_process import InProcess
from cloister.protocol.messages import decode
from cloister.protocol.view.answers import Model
from cloister.protocol.view.protection import Setup
from cloister.protocol.wire.codec import Envelope, encode
from cloister.protocol.work.maker import WORK

from .clock import Clock, Hang
from .faults import Faults
from .hosts import Drawn, Hosts
from .link import Fallen, Link
from .oracle import MOST_BYTES, Seen, broken
from .questions import COMPARING, INITIAL, Answered, Clouds, ask, protection_of, workers
from .schedule import Apart, Event, Schedule

RUN = bytes(range(16))
STALE = {"masked": 45, "two servers": 15, "encrypted": 20, "pairs": 20}
"""Frames that overtake one that is stale."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """broken: what did not hold, in words. ended: how often what came of a round. happened: events that did happen. trace: a hash
    of all that was said. words: that each client's program was handed. seconds, steps: of simulated time.
    """

    broken: tuple[str, ...]
    ended: Counter[str]
    happened: tuple[Event, ...] = ()
    trace: str = ""
    words: Mapping[int, int] = field(default_factory=dict)
    seconds: float = 0.0
    steps: int = 0


class NotBegun(Exception):
    """What happened before the run had begun was too much: it ended in words."""


@dataclass(slots=True)
class World:
    """A deployment. seen: everything that the oracle may look at."""

    schedule: Schedule
    clock: Clock = field(default_factory=Clock)
    seen: Seen = field(init=False)
    faults: Faults = field(init=False)
    link: Link = field(init=False)
    hosts: Hosts = field(init=False)
    ended: Counter[str] = field(default_factory=Counter)
    stale: list[tuple[int, list[Frame]]] = field(default_factory=list)
    _earlier: dict[tuple[int, str], bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        schedule, members = self.schedule, tuple(range(self.schedule.clients))
        self.seen = Seen(schedule, members)
        self.faults = Faults(schedule)
        self.link = Link(self.clock, self.faults, schedule.seed if schedule.jitter else None)
        self.hosts = Hosts(self.link, members, self._setup_of, self.seen.said.append, schedule.protection == "two servers")

    def _setup_of(self, client: int, life: int) -> Setup:
        draw = random.Random(f"secrets {self.schedule.seed} {client} {life}").randbytes
        embedders: Any = Clouds() if self.schedule.protection == "pairs" else None
        comparing = COMPARING if self.schedule.protection == "pairs" else None
        setup = Setup(RUN, INITIAL, self.seen.members, workers, Drawn(draw=draw), embedders=embedders, comparing=comparing)
        return setup if client < 0 else replace(setup, tap=None)

    def view(self) -> Any:
        """Of the coordinator, when the run has begun. Raises NotBegun where too few clients did, Fallen."""
        setup = replace(self._setup_of(-1, 1), tap=self._tap, hosts=self.hosts)
        try:
            return protection_of(self.schedule).open(setup)
        except (RuntimeError, ProtocolError) as error:
            if self.schedule.early and ("who it is" in str(error) or "group seed" in str(error)):
                raise NotBegun from error
            raise

    def begun(self) -> None:
        """Events happen from now on."""
        self.faults.on = True
        for event in self.schedule.events:
            if isinstance(event, Apart):
                self.clock.after(event.at, partial(self._part, event))
        colluder = self.schedule.colluder
        if colluder is not None:
            self.hosts.machines[colluder].garble = self._garble

    def _part(self, event: Apart) -> None:
        if self.faults.on:
            self.faults.happened.append(event)
            self.link.part(event.clients, event.seconds)

    def _garble(self, kind: str, data: bytes) -> bytes:
        at = self.faults.garble(kind)
        if at is None:
            return data
        place = min(int(at * len(data)), len(data) - 1)
        return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]

    # --- frames at the coordinator --------------------------------------------------------------------------------------------

    def _tap(self, frame: Frame) -> Iterable[Frame]:
        frames = self._lied(frame) if frame.sender < 0 <= frame.receiver else [frame]
        fate = self.faults.frame(frame.kind)
        if fate:
            self.seen.touched.append(frame)
        self.seen.frames += frames
        match fate:
            case "drop":
                return []
            case "stale":
                self.stale.append((len(self.seen.frames) + STALE[self.schedule.protection], frames))
                return []
            case "late":
                return [replace(one, late=True) for one in frames]
            case "replay":
                return [*frames, *frames]
        due = [one for at, of in self.stale if at <= len(self.seen.frames) for one in of]
        self.stale = [(at, of) for at, of in self.stale if at > len(self.seen.frames)]
        return [*frames, *due]

    def _lied(self, frame: Frame) -> list[Frame]:
        how, earlier = self.faults.lie(frame.kind), self._earlier.get((frame.receiver, frame.kind))
        self._earlier[frame.receiver, frame.kind] = frame.data
        if not how:
            return [frame]
        if how in ("earlier", "relabelled"):
            if earlier is None:
                return [frame]
            old, now = (decode(data, frame.sender, MOST_BYTES) for data in (earlier, frame.data))
            envelope = old if how == "earlier" else replace(old, session=now.session)
            other = replace(frame, data=encode(envelope))
            return [other, frame] if how == "earlier" else [other]
        envelope = decode(frame.data, frame.sender, MOST_BYTES)
        other = replace(frame, data=encode(_other_survivors(envelope, frame.receiver, how == "instead")))
        return [frame, other] if how == "beside" else [other]

    # --- rounds -----------------------------------------------------------------------------------------------------------------

    def round(self, view: Any, number: int, model: Model) -> Model:
        """One round, asked again from the checkpoint if the coordinator's process is killed in it."""
        for machine in self.hosts.machines.values():
            machine.round = number
        for _ in range(3):
            checkpoint = view.harness.save()
            try:
                after, answers = ask(view, self.schedule, number, model, self.seen.members, self._look_at_means)
            except Refused:
                self.ended["refused"] += 1
                return model
            except Fallen:
                self.ended["fallen"] += 1
                self.hosts.forget()
                self.link.risen()
                self.hosts.forget()
                view.harness.restore(checkpoint, [])
                continue
            self._count(answers)
            self.seen.answers += answers
            return after
        return model

    def _count(self, answers: list[Answered]) -> None:
        self.ended.update("compared" if a.accepts is not None else "summed" for a in answers)
        if not answers:
            self.ended["no answer"] += 1

    def _look_at_means(self, answer: Answered) -> None:
        """Where clients own models: by what each moved its own."""
        for i, machine in self.hosts.machines.items():
            if answer.mean is None and machine.runs and WORK in machine.driven.client.roles:
                before, after = map(machine.driven.client.model, answer.moved)
                if before is not None and after is not None:
                    self.seen.means.append((answer, i, after - before))


def _other_survivors(envelope: Envelope, receiver: int, few: bool) -> Envelope:
    """Another set with the receiver in it: without one that is there, or of two alone."""
    alive = envelope.message.alive
    others = [i for i in alive if i != receiver]
    left = others[:1] if few else others[:-1]
    return replace(envelope, message=replace(envelope.message, alive=tuple(sorted({receiver, *left}))))


def play(schedule: Schedule) -> Verdict:
    """From the first word to the last."""
    world = World(schedule)
    wrong: list[str] = []
    try:
        with patch.object(InProcess, "timed", _untimed):  # what a party's seconds are is nobody's question here
            _run(world)
    except Hang as hang:
        wrong.append(f"a hang: {hang}")
    except (NotBegun, Fallen):
        world.ended["did not begin"] += 1
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        wrong.append(f"the coordinator ended at {at.name}: {error!r}")
    world.seen.arrived = world.link.arrived
    world.seen.lives = {i: machine.life for i, machine in world.hosts.machines.items()}
    world.seen.refused = {i: machine.refused for i, machine in world.hosts.machines.items() if machine.refused}
    for machine in world.hosts.machines.values():
        world.seen.signed |= machine.signed
    wrong += broken(world.seen, world.faults.happened)
    trace = hashlib.sha256()
    for sent in world.seen.said:
        data = b"" if schedule.protection == "encrypted" else sent.data
        trace.update(repr((sent.client, sent.life, sent.round, sent.receiver, sent.kind)).encode() + data)
    happened = tuple(dict.fromkeys(world.faults.happened))
    return Verdict(
        tuple(wrong), world.ended, happened, trace.hexdigest(), world.faults.words(), world.clock.now, world.clock.steps
    )


def _untimed(network: InProcess, *parties: int) -> AbstractContextManager[None]:
    return nullcontext()


def _run(world: World) -> None:
    schedule = world.schedule
    view = world.view()
    world.seen.setup_faults = len(view.record.faults)
    world.seen.faults = view.record.faults
    world.seen.seated = tuple(i for i, m in world.hosts.machines.items() if m.runs and m.life == 1 and m.disk.written)
    world.begun()
    model = Model("init")
    for number in range(schedule.rounds):
        model = world.round(view, number, model)
    if schedule.calm:
        world.faults.on = False
        world.stale.clear()
        world.link.heal()
        world.hosts.forget()  # what came meanwhile is dropped, so that nobody waits for it
        world.seen.calm = schedule.rounds
        model = world.round(view, schedule.rounds, model)
