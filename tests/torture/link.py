"""A link between a coordinator and its clients on simulated time: a `Words` that keeps what `protocol/links` promises.

Words to a client go in order, each piece in the order of its connection; what is not answered is sent again after a lost
connection, but not to another life of the process; a client gives the answer of before to a word that it is sent again; who owes
an answer and moves nothing for PATIENCE, or is not back after BACK, is absent, and is sent no new words until it has answered the
old ones, or connects again.
"""

import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .clock import Clock, Hang
from .disk import PowerCut
from .faults import Faults
from .machine import Machine, is_frame, kinds_in
from .schedule import NEVER, Again, Crash, Cut, Freeze, Slow, Swap, Twice

PATIENCE, BACK, AT_MOST = 10.0, 5.0, 60.0
"""Seconds, as in `Limits`."""
DELAY, WORK, TICK = 0.02, 0.05, 0.5
"""Seconds that a piece is on its way, that a program works at a word, and between looks at who is absent."""


NEW, HELD, AGAIN = "new", "held", "again"
"""A word for a program: as it came, overtaken by another, or handed to it once more."""


class Fallen(Exception):
    """The coordinator's process is killed."""


@dataclass(frozen=True, slots=True)
class Heard:
    """See `Heard` of links/words.py."""

    client: int
    number: int
    data: bytes | None
    late: bool = False


@dataclass(slots=True)
class Peer:
    """Both ends of one client's link. connection: counted; up: whether there is one. Of the coordinator: owed, with since when
    and whether sent; number; boot; gone; moved; expired. Of the client: given; taken; words for its program; busy.
    """

    machine: Machine
    connection: int = 0
    up: bool = False
    reachable: float = 0.0
    silent: bool = False
    arrives: dict[str, float] = field(default_factory=lambda: {"up": 0.0, "down": 0.0})
    owed: dict[int, list[object]] = field(default_factory=dict)
    number: int = 0
    boot: int = 0
    gone: float = 0.0
    moved: float = 0.0
    expired: set[int] = field(default_factory=set)
    given: dict[int, bytes] = field(default_factory=dict)
    taken: int = 0
    words: deque[tuple[int, bytes, str]] = field(default_factory=deque)
    again: list[tuple[int, int, bytes]] = field(default_factory=list)
    held: tuple[int, bytes, str] | None = None
    busy: bool = False
    frozen: bool = False


class Link:
    """See the module. arrived: (client, answer, whether nobody waited for it any more). patient: a planted defect."""

    def __init__(self, clock: Clock, faults: Faults, jitter: int | None) -> None:
        self.clock, self.faults = clock, faults
        self.arrived: list[tuple[int, bytes, bool]] = []
        self.patient = False
        self.peers: dict[int, Peer] = {}
        self._inbox: deque[Heard] = deque()
        self._jitter = None if jitter is None else random.Random(f"jitter {jitter}")
        self._fallen = False
        self._watching = False

    def begin(self, machines: Mapping[int, Machine]) -> None:
        """Start all clients, and connect them."""
        for i, machine in machines.items():
            self.peers[i] = Peer(machine)
            machine.start()
            self._connect(self.peers[i])

    # --- of the coordinator: `Words` ----------------------------------------------------------------------------------------

    def post(self, client: int, data: bytes, /) -> int:
        """See `Words`. Raises Fallen."""
        if not self._fallen and self.faults.fall():
            self._fallen = True
            raise Fallen
        peer = self.peers[client]
        number = peer.number = peer.number + 1
        if self._fallen:
            return number
        if peer.expired or (not peer.up and self.clock.now - peer.gone >= BACK):
            self._inbox.append(Heard(client, number, None))
        else:
            peer.owed[number] = [data, self.clock.now, False]
            self._tell(peer)
            self._watch()
        return number

    def heard(self) -> Heard:
        """See `Words`. Raises Hang."""
        while not self._inbox:
            if not self.clock.step():
                raise Hang("an answer is waited for, and nothing happens any more")
        return self._inbox.popleft()

    def heard_already(self) -> Heard | None:
        """See `Words`."""
        return self._inbox.popleft() if self._inbox else None

    def done_with(self, answer: Heard, /) -> None:
        """See `Words`."""

    def risen(self) -> None:
        """The coordinator's process is there again, and knows of nothing that was on its way."""
        self._fallen = False
        self._inbox.clear()
        for peer in self.peers.values():
            peer.owed.clear()
            peer.expired = set()
            if peer.up:
                self._break(peer, 0.2)
        self.clock.until(self.clock.now + 2.0)
        self._inbox.clear()

    def _watch(self) -> None:
        if not self._watching:
            self._watching = True
            self.clock.after(TICK, self._look)

    def _look(self) -> None:
        """Who owes an answer and moves nothing is absent."""
        self._watching, now = False, self.clock.now
        for peer in self.peers.values():
            if peer.busy and peer.up and not peer.frozen:
                peer.moved = now  # its link says so while it works
            if not peer.owed:
                continue
            since = float(next(iter(peer.owed.values()))[1])  # type: ignore[arg-type]
            if not peer.up:
                if now - peer.gone >= BACK and not self.patient:
                    self._drop(peer)
            elif not self.patient and (now - max(since, peer.moved) > PATIENCE or now - since > AT_MOST):
                peer.expired = {n for n, owed in peer.owed.items() if owed[2]}
                self._drop(peer)
        if any(peer.owed for peer in self.peers.values()):
            self._watch()

    def _drop(self, peer: Peer) -> None:
        self._inbox.extend(Heard(peer.machine.id, number, None) for number in peer.owed)
        peer.owed.clear()

    def _tell(self, peer: Peer) -> None:
        for number, owed in peer.owed.items():
            if peer.up and not owed[2]:
                owed[2] = True
                settled = min(peer.owed) - 1
                self._send(peer, "down", lambda n=number, d=owed[0], s=settled: self._told(peer, n, d, s))  # type: ignore[misc]

    def _answered(self, peer: Peer, number: int, data: bytes) -> None:
        peer.moved = self.clock.now
        owed = peer.owed.pop(number, None)
        late = owed is None
        if late and number not in peer.expired:
            return
        newest = max(peer.expired, default=0)
        peer.expired.discard(number)
        self.arrived.append((peer.machine.id, data, late))
        if late and number == newest:
            peer.expired.clear()
        for later in peer.owed.values():
            later[1] = max(float(later[1]), self.clock.now)  # type: ignore[arg-type]
        self._inbox.append(Heard(peer.machine.id, number, data, late))

    # --- connections ----------------------------------------------------------------------------------------------------------

    def _drawn(self, seconds: float) -> float:
        return seconds if self._jitter is None else seconds * self._jitter.uniform(0.2, 3.0)

    def _send(self, peer: Peer, way: str, arrived: Callable[[], object]) -> None:
        """Put a piece on the connection, if there is one."""
        if not peer.up:
            return
        extra, times = 0.0, 1
        for event in self.faults.piece(peer.machine.id):
            match event:
                case Cut(seconds=seconds):
                    self._break(peer, seconds)
                    return
                case Slow(seconds=seconds):
                    extra += seconds
                case Twice():
                    times = 2
        connection = peer.connection
        peer.arrives[way] = max(peer.arrives[way], self.clock.now + self._drawn(DELAY) + extra)

        def arrive() -> None:
            if peer.connection == connection and peer.up:
                arrived()

        for _ in range(times):
            self.clock.after(peer.arrives[way] - self.clock.now, arrive)

    def _break(self, peer: Peer, seconds: float) -> None:
        """The connection is lost, and tried again so many seconds later, while the process runs."""
        if peer.up:
            peer.gone = self.clock.now
        peer.up = False
        peer.connection += 1
        peer.reachable = max(peer.reachable, self.clock.now + seconds)
        self._connect_later(peer)

    def _connect_later(self, peer: Peer) -> None:
        if peer.reachable < NEVER:
            self.clock.after(max(peer.reachable - self.clock.now, 0.0), lambda: self._connect(peer))

    def _connect(self, peer: Peer) -> None:
        if peer.up or not peer.machine.runs or peer.silent or self.clock.now < peer.reachable - 1e-6:
            return
        peer.connection, peer.up, peer.moved = peer.connection + 1, True, self.clock.now
        peer.arrives = {"up": self.clock.now, "down": self.clock.now}
        if peer.boot != peer.machine.life:
            self._drop(peer)
            peer.boot = peer.machine.life
        peer.expired = set()
        for owed in peer.owed.values():
            owed[2] = False
        self._tell(peer)

    def part(self, clients: tuple[int, ...], seconds: float) -> None:
        """A partition."""
        for i in clients:
            self._break(self.peers[i], seconds)

    def heal(self) -> None:
        """Everything works again, and every client is there."""
        for _ in range(2):  # one that stood still may fall when it goes on
            for peer in self.peers.values():
                peer.reachable, peer.silent, peer.frozen = self.clock.now, False, False
                if not peer.machine.runs:
                    self._start(peer)
                self._connect_later(peer)
            self.clock.until(self.clock.now + 2 * AT_MOST)
        while self.heard_already() is not None:
            pass

    # --- of the client ----------------------------------------------------------------------------------------------------------

    def _told(self, peer: Peer, number: int, data: bytes, settled: int) -> None:
        """A word has arrived."""
        for old in [n for n in peer.given if n <= settled]:
            del peer.given[old]
        if (given := peer.given.get(number)) is not None:
            self._send(peer, "up", lambda: self._answered(peer, number, given))
        elif number > peer.taken:
            peer.taken = number
            peer.words.append((number, data, NEW))
            self._work(peer)

    def _work(self, peer: Peer) -> None:
        """Have the program take the next word, after its time."""
        if peer.busy or not peer.words or not peer.machine.runs:
            return
        peer.busy = True
        number, data, which = peer.words.popleft()
        events = self.faults.word(peer.machine.id) if which == NEW else []
        seconds = self._drawn(WORK) + sum(event.seconds for event in events if isinstance(event, Freeze))
        peer.frozen = any(isinstance(event, Freeze) for event in events)
        if is_frame(data):
            peer.again += [(event.after, number, data) for event in events if isinstance(event, Again)]
            if any(isinstance(event, Swap) for event in events) and peer.held is None:
                peer.held, peer.busy = (number, data, HELD), False
                self.clock.after(1.0, lambda: self._release(peer))
                self._work(peer)
                return
        life = peer.machine.life
        crash = next((event for event in events if isinstance(event, Crash)), None)
        self.clock.after(seconds, lambda: self._take(peer, life, number, data, which, crash))

    def _release(self, peer: Peer) -> None:
        if peer.held is not None:
            peer.words.appendleft(peer.held)
            peer.held = None
            self._work(peer)

    def _take(self, peer: Peer, life: int, number: int, data: bytes, which: str, crash: Crash | None) -> None:
        machine = peer.machine
        if not machine.runs or machine.life != life:
            return
        peer.busy = peer.frozen = False
        when = "" if crash is None else crash.when
        if when.startswith(("torn", "stored")):
            machine.disk.cut = int(when.split()[1]), when.startswith("stored")
        try:
            if when == "before":
                raise PowerCut
            found = machine.take(data)
            if when and when != "sent":  # it stored less than that
                raise PowerCut
        except PowerCut:
            self._crash(peer, crash.seconds if crash is not None else 0.0)
            return
        if self.faults.silent(machine.id, kinds_in(found)):
            peer.silent = True
            self._break(peer, NEVER)
        if which == AGAIN:
            self._send(peer, "up", lambda: self._heard_again(peer, number, found))
        else:
            peer.given[number] = found
            self._send(peer, "up", lambda: self._answered(peer, number, found))
        if when == "sent":
            self._crash(peer, crash.seconds if crash is not None else 0.0, after=2 * DELAY)
            return
        machine.disk.settle()
        due = [(n, word) for after, n, word in peer.again if after <= 0]
        peer.again = [(after - 1, n, word) for after, n, word in peer.again if after > 0]
        peer.words.extendleft((n, word, AGAIN) for n, word in due)
        if peer.held is not None and not peer.words:
            self._release(peer)
        self._work(peer)

    def _heard_again(self, peer: Peer, number: int, data: bytes) -> None:
        """What the program made of a word that it was handed once more: as a driver that sends twice would bring it."""
        if any(kinds_in(data)):
            self.arrived.append((peer.machine.id, data, True))
            self._inbox.append(Heard(peer.machine.id, number, data, True))

    def _crash(self, peer: Peer, seconds: float, after: float = 0.0) -> None:
        """The process is gone; what it has sent before may still arrive."""
        peer.machine.crash()
        self.clock.after(after * 3.0, lambda: self._break(peer, 0.0))
        if seconds < NEVER:
            self.clock.after(after * 3.0 + max(seconds, 0.01), lambda: self._start(peer))

    def _start(self, peer: Peer) -> None:
        if peer.machine.runs:
            return
        if writes := self.faults.older(peer.machine.id):
            peer.machine.disk.older(writes)
        peer.given, peer.taken, peer.held, peer.busy, peer.frozen = {}, 0, None, False, False
        peer.words.clear()
        peer.again.clear()
        peer.machine.start()
        self._break(peer, 0.0)
