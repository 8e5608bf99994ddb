"""Inner products from secret sketches of updates that clients hold: what clients show, and what the server computes from it.

Clients share a seed that the server lacks. Each sends k numbers: a public projection of its update and then a secret Gaussian
one (`TwoStage`), so that what the server sees depends on the Gram matrix of the projected updates alone. Whoever hands the
server the seed hands it k linear measurements of every update; whoever holds the seed can hide a change of its own update
in the kernel, and nothing ties a sketch to the vector that is summed.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..crypto.prg import derive_key
from ..crypto.projection import TwoStage
from .answers import Gram, Owner, Remembered, Sum, Traffic, Updates, Vector, Work
from .errors import Refused
from .gate import Rules
from .gram import cosine_block, gram_matrix, rounding
from .held_view import HeldView
from .in_process import InProcess
from .messages import HEAD_BYTES, Task
from .roles import Effect, Party, Worked
from .session import SERVER
from .uploads import Collected, Collecting, invite, server_step
from .view import Setup

Keys = Literal["run", "session"]
DEVIATIONS = 6
"""A sketched inner product is within so many standard deviations of the exact one."""


class SketchSecret:
    """What every client of a run holds: the seed, and the sketches drawn from it. The last few are kept drawn.

    keys: "run" for one sketch that compares updates of all rounds, "session" for one per (round, cluster).
    """

    KEPT = 4

    def __init__(self, seed: bytes, run: bytes, keys: Keys, d: int, rows: int) -> None:
        self.keys: Keys = keys
        self._seed = seed
        self._run = run
        self._d = d
        self._rows = rows
        self._drawn: dict[bytes, TwoStage] = {}

    def __call__(self, session: bytes) -> TwoStage:
        """The sketch of the updates that were made in the session with this digest. Raises Refused for updates of one number."""
        if self._d < 2:
            raise Refused("a sketch of updates with a single coordinate would be those; ask for sums alone, or use TwoServer")
        context = self._run if self.keys == "run" else session
        if context not in self._drawn:
            if len(self._drawn) >= self.KEPT:
                del self._drawn[next(iter(self._drawn))]
            public = hashlib.sha256(b"cloister/v1/public projection" + self._run).digest()
            secret = derive_key(self._seed, "sketch", context)
            self._drawn[context] = TwoStage.draw(public, secret, self._d, self._rows).held()
        return self._drawn[context]


class SketchView(HeldView):
    """Answers inner products from sketches; the server keeps sketches where it is asked to remember updates."""

    def __init__(self, setup: Setup, owner: Owner, rules: Rules, secret: SketchSecret, before: Traffic) -> None:
        network = InProcess(setup.tap, max_bytes=4 * len(setup.initial) + HEAD_BYTES)
        network.messages, network.bytes_up, network.bytes_down = astuple(before)
        super().__init__(setup, owner, rules, network)
        self._sketch = secret

    def gram(self, updates: Updates, /) -> Gram:
        sketched = self._sketches(updates)
        clients = tuple(sketched.received)
        size = len(clients) * (len(clients) + 1) // 2
        self._disclose(updates.round, "server", "gram", clients, size, "noisy inner products and norms of the updates")
        with self._network.timed(SERVER):
            matrix = gram_matrix([v for v, _ in sketched.received.values()])
        return Gram(clients, matrix, self._tolerance(updates))

    def cosines(self, updates: Updates, remembered: Remembered, /) -> NDArray[np.float64]:
        self._needs_one_sketch()
        rows = self._recalled(remembered)
        about = tuple(sorted({*updates.clients, *remembered.clients}))
        words = "noisy inner products with updates of earlier rounds"
        self._disclose(updates.round, "server", "gram(remember)", about, len(updates.clients) * len(rows), words)
        received = self._sketches(updates).received
        with self._network.timed(SERVER):
            found = np.full((len(updates.clients), len(rows)), np.nan)
            present = [k for k, i in enumerate(updates.clients) if i in received]
            found[present] = cosine_block([received[updates.clients[k]][0] for k in present], rows)
        return found

    def coordinates(self, updates: Updates, name: str, rule: Callable[[NDArray[np.float32]], NDArray[np.float32]], /) -> Sum:
        raise Refused("order statistics of coordinates need the coordinates, which this protection hides; use Plain or Permuted")

    def _sketch_of(self, task: Task, kind: Work) -> Callable[[], TwoStage] | None:
        return lambda: self._sketch(self._session(task.round, task.cluster, task.roster, kind).digest)

    def _tolerance(self, updates: Updates) -> float:
        sketch = self._sketch(self._known(updates).session)
        return DEVIATIONS * sketch.error + rounding(sketch.k)

    def _needs_one_sketch(self) -> None:
        if self._sketch.keys != "run":
            raise Refused("updates of different rounds are under different sketches and cannot be compared; use keys='run'")

    def _lasting(self, updates: Updates, clients: Sequence[int]) -> list[Vector]:
        self._needs_one_sketch()
        received = self._sketches(updates).received if clients else {}
        if missing := [i for i in clients if i not in received]:
            raise Refused(f"no sketch of client {missing[0]} in {updates.name}; ask about the clients of its Gram matrix")
        return [received[i][0] for i in clients]

    def _sketches(self, updates: Updates) -> Collected:
        """The sketches of these updates; asked for once."""
        made = self._known(updates)
        if updates.name in self.server.uploads:
            return self.server.uploads[updates.name]
        kind: Work = "update sketch" if made.kind == "update" else "gradient sketch"
        session = self._session(updates.round, updates.cluster, updates.clients, kind)
        with self._network.timed(*updates.clients):  # each draws it for itself; here one draws it for all
            sketch = self._sketch(made.session)
        server = Party(SERVER, Collecting(session, sketch.k), server_step)

        def perform(tasks: list[tuple[int, Task]]) -> Iterator[tuple[int, Worked]]:
            for client, work in self._results({client: updates.name for client, _ in tasks}):
                with self._network.timed(client):
                    numbers = sketch.apply(work.sketched).astype(np.float32)
                yield client, Worked(numbers, 1)

        opening: Iterator[tuple[int, Effect]] = ((SERVER, effect) for effect in invite(session, kind, updates.name, b""))
        self._network.run(self.clients.parties, {session.digest: server}, opening, perform, self._learn)
        collected: Collected = server.state
        self._reject(collected.rejected)
        words = f"{sketch.k} secret linear measurements of each {made.kind}, of which only inner products tell anything"
        self._disclose(updates.round, "server", "sketches", tuple(collected.received), len(collected.received) * sketch.k, words)
        self.server.uploads[updates.name] = collected
        return collected
