"""The coordinator's end: clients connect, each over one stream, are sent words, and answer every one of them.

A client is who its certificate says, for as long as the authority's directory and list say so. Words to a client go in order, and
what it has not answered is sent again when it is back after a lost connection, but not to another life of its process, which
knows nothing of them. A coordinator that was started again says what is not answered under the same numbers (work/journalled.py);
a client says at once of what it kept no answer. Who owes an answer and moves nothing for `Limits.patience` counts as absent: it
is sent no new words until it has answered the old ones.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest

from ..core.halt import Halt
from ..core.session import SERVER
from ..pki.names import name_of
from ..pki.standing import Standing
from .addresses import SURE, not_bound
from .attendance import Attendance
from .background import Background, long_blocks_apart
from .door import Door
from .flow import SMALL_BYTES, nothing
from .owing import Owing
from .streams import Ending, Streams
from .terms import METHOD, SERVICE, CoordinatorRun, Limits, grpc_or_words, options, server_credentials
from .words import Heard, parts_of

_LOOK = 0.5
"""Seconds between looks at whether a wait is to end."""
_STILL = 2.0
"""Seconds without an answer after which words are sent whatever they take."""
_IN_ALL = 5.0
"""Seconds that the words of one stage wait together, however steadily answers come."""


class Listener:
    """Takes streams of these clients, in a thread of its own, from `start` to `stop`.

    greeting: what a client is told when it has said who it is. standing: the coordinator's own; None on the loopback device
    alone, where clients are who they say. run: what clients' first messages are held against. back: seconds in which clients may
    be back that another life of the coordinator had. halt: ends every wait with Halted. noted: told by what a client that
    connects works, as it says.
    """

    def __init__(
        self,
        address: str,
        clients: tuple[int, ...],
        greeting: Callable[[int], bytes],
        standing: Standing | None,
        limits: Limits | None = None,
        run: CoordinatorRun | None = None,
        back: float = 0.0,
        halt: Halt | None = None,
        noted: Callable[[int, str], None] = lambda client, terms: None,
    ) -> None:
        grpc_or_words()
        if standing is None and not address.startswith(("127.0.0.1:", "localhost:", "[::1]:", "unix:")):
            raise ValueError(f"without certificates a coordinator listens on the loopback device alone, not on {address}")
        self.limits, run = limits or Limits(), run or CoordinatorRun()
        self._address, self._standing, self._halt = address, standing, halt or Halt()
        self._begun = time.monotonic()
        self._ending = Ending()
        door = Door(clients, standing, self.limits, run)
        self._owing = Owing(clients, self.limits, run, back)
        self._streams = Streams(door, self._owing, self._ending, self.limits, run, greeting, noted)
        self._attendance = Attendance(self._owing, door, standing, self.limits)
        self._last: tuple[bytes, ...] = ()
        self._may_wait, self._looked = _IN_ALL, False
        self._background: Background | None = None
        self.port = 0

    # --- for whoever plays the coordinator --------------------------------------------------------------------------------

    def start(self) -> int:
        """Listen; the port. Raises OSError where the address cannot be bound."""
        if (why := not_bound(self._address)) in SURE:  # before gRPC tries, which writes lines of its own
            raise OSError(f"cannot listen on {self._address}: {why}")
        long_blocks_apart()
        begun: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._background = Background(lambda: self._serve(begun))
        if (failed := begun.get()) is not None:
            raise OSError(f"cannot listen on {self._address}: {not_bound(self._address) or failed}")
        return self.port

    def stop(self, over: bool = True, why: str = "", said: str = "") -> None:
        """Tell every client that it is over, or that the coordinator stops and may be back, and end. why: it refuses all. said:
        of why it is over, where no model comes of it.
        """
        if self._background is not None:
            if self._background.runs:
                self._ending.over, self._ending.why, self._ending.said = over and not why, why, said
            self._background.soon(self._ending.begun.set)
            self._background.join()

    def present(self) -> tuple[int, ...]:
        """Who is connected."""
        return tuple(sorted(i for i, peer in self._owing.peers.items() if peer.flow is not None))

    def ready(self) -> tuple[int, ...]:
        """Who of them has caught up with what it was given up on: the others are sent no new words."""
        return tuple(i for i in self.present() if not self._owing.peers[i].expired)

    @property
    def counted(self) -> dict[str, int]:
        """Bytes, and how often clients were displaced, refused, given up as slow, or sent away as revoked."""
        streams, slow, revoked = self._streams, self._owing.slow, self._attendance.revoked
        of_streams = {name: getattr(streams, name) for name in ("bytes_in", "bytes_out", "displaced", "refused")}
        return {**of_streams, "slow": slow, "revoked": revoked}

    def barred(self) -> tuple[int, ...]:
        """Whose certificate the authority took back, and who is not there with another."""
        return tuple(sorted(i for i, peer in self._owing.peers.items() if peer.revoked))

    def left(self) -> dict[int, str]:
        """By client that said that it takes no further part, and is not back, why."""
        return {i: peer.left for i, peer in sorted(self._owing.peers.items()) if peer.left}

    def lost(self) -> dict[int, str]:
        """By party that was refused as its journal is older than what it answered, and is not back, what it was told."""
        return dict(self._streams.lost)

    def missing(self) -> dict[int, float]:
        """By client that is not connected, seconds since it was, or since this is there."""
        now, back = time.monotonic(), self.limits.back
        away = [peer for peer in self._owing.peers.values() if peer.id >= 0 and peer.flow is None]
        return {peer.id: now - (peer.until - back if peer.boot else self._begun) for peer in away}

    def wait_for(self, clients: int, seconds: float, also: Sequence[int] = ()) -> tuple[int, ...]:
        """Wait until so many clients are connected and ready, and these servers beside them, or that long; who is connected.
        Raises Halted.
        """

        def there() -> bool:
            return set(self.present()).issuperset(also) and sum(party >= 0 for party in self.ready()) >= clients

        self._wait(self._streams.changed, there, seconds)
        return self.present()

    def pause(self, seconds: float) -> None:
        """Say nothing for so long. Raises Halted."""
        self._wait(self._streams.changed, lambda: False, seconds)

    def owing(self) -> dict[int, float]:
        """By client that owes an answer, seconds since the oldest word without one."""
        now = time.monotonic()
        oldest = ((peer.id, next(iter(list(peer.owed.values())), None)) for peer in self._owing.peers.values())
        return {client: now - owed.since for client, owed in oldest if owed is not None}

    def stalled(self) -> float:
        """Seconds since anything came from or went to anybody, or since this is there."""
        return time.monotonic() - max(self._begun, *(peer.moved for peer in self._owing.peers.values()))

    def post(self, client: int, data: bytes, number: int | None = None) -> int:
        """Send a word, and return its number; its answer will be `heard`. Waits while too much is on its way, or owed an answer.

        number: its own, greater than those before to this client; None for the next one.
        """
        owing, limits = self._owing, self.limits
        self._wait(owing.room, lambda: owing.unsent <= limits.ahead, limits.at_most)
        self._wait_for_answers()
        parts: tuple[bytes, ...] = (data,)
        own = len(data)
        if len(data) > SMALL_BYTES:  # short words come in between, and are like nothing
            parts, before = parts_of(data, self._last), self._last
            own = sum(len(part) for part, old in zip_longest(parts, before[: len(parts)]) if part is not old)
            self._last = parts
        with owing.room:
            owing.unsent += len(data)
            owing.held += own
        return self._there.result(owing.posted(client, parts, own, number))

    def heard(self) -> Heard:
        """The next answer, of whomever; every word has one. Raises ConnectionError where the listener has ended, Halted."""
        self._looked = True
        while True:
            with suppress(queue.Empty):
                return self._owing.heard.get(timeout=_LOOK)
            self._halt.check()
            if not self._there.runs:
                raise ConnectionError("the coordinator's link has ended")

    def heard_already(self) -> Heard | None:
        """An answer that is there, if there is one."""
        with suppress(queue.Empty):
            return self._owing.heard.get_nowait()
        return None

    def done_with(self, heard: Heard) -> None:
        """Its memory is free for another."""
        if heard.free is not nothing:
            self._there.soon(heard.free)

    def _wait_for_answers(self) -> None:
        """While words without an answer are too long together, and answers come, but not for long in all: where work is long, or
        whoever answers waits for this thread, others are not kept from theirs. Raises Halted.
        """
        owing, most = self._owing, self.limits.held
        if self._looked and not owing.held:  # what was said before is answered, and this is another stage
            self._may_wait, self._looked = _IN_ALL, False
        while (held := owing.held) > most and self._may_wait > 0:
            begun = time.monotonic()
            self._wait(owing.room, partial(owing.less_than, held), min(_STILL, self._may_wait))
            self._may_wait = self._may_wait - (time.monotonic() - begun) if owing.less_than(held) else 0.0

    def _wait(self, on: threading.Condition, until: Callable[[], bool], seconds: float) -> None:
        """Until it is so, or that long. Raises Halted."""
        end = time.monotonic() + seconds
        with on:
            while not on.wait_for(until, max(0.0, min(_LOOK, end - time.monotonic()))) and time.monotonic() < end:
                self._halt.check()

    @property
    def _there(self) -> Background:
        if self._background is None:
            raise ConnectionError("the coordinator does not listen yet")
        return self._background

    # --- in the loop ------------------------------------------------------------------------------------------------------

    async def _serve(self, begun: "queue.SimpleQueue[BaseException | None]") -> None:
        import grpc

        soon = round(1000 * self.limits.greeting)  # for TLS, and then for a stream: a connection without one is of no use
        known = [*options(), ("grpc.server_handshake_timeout_ms", soon), ("grpc.max_connection_idle_ms", soon)]
        server = grpc.aio.server(options=known, maximum_concurrent_rpcs=self.limits.unended * len(self._owing.peers) + 16)
        handler = grpc.stream_stream_rpc_method_handler(self._streams.serve)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),))
        try:
            if self._standing is None:
                self.port = server.add_insecure_port(self._address)
            else:
                self.port = server.add_secure_port(self._address, server_credentials(self._standing))
            await server.start()
        except BaseException as error:
            begun.put(error)
            return
        begun.put(None)
        watch = asyncio.create_task(self._attendance.watch())
        await self._ending.begun.wait()
        watch.cancel()
        flows = [peer.flow for peer in self._owing.peers.values() if peer.flow is not None and self._ending.over]
        await asyncio.gather(*(asyncio.wait_for(flow.end(self._ending.said), 2) for flow in flows), return_exceptions=True)
        for peer in self._owing.peers.values():
            if peer.leave is not None and not self._ending.over:
                end = name_of(SERVER if self._standing is None else self._standing.party)
                stopped = ("UNAVAILABLE", f"the {end} is stopped, and may be started again")
                peer.leave(*(("FAILED_PRECONDITION", self._ending.why) if self._ending.why else stopped))
        await server.stop(2)
