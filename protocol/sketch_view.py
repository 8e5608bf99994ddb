"""Inner products from secret sketches of updates that clients hold: what clients show, and what the server computes from it.

Clients share a seed that the server lacks. Each sends k numbers: a public projection of its update and then a secret Gaussian
one (`TwoStage`), so that what the server sees depends on the Gram matrix of the projected updates alone. Whoever hands the
server the seed hands it k linear measurements of every update; whoever holds the seed can hide a change of its own update
in the kernel, and nothing ties a sketch to the vector that is summed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple

import numpy as np
from numpy.typing import NDArray

from .core.errors import Refused
from .core.session import SERVER
from .drivers.in_process import InProcess
from .drivers.roles import Effect, Party, Worked
from .held_view import HeldView, holding
from .history import of_split, parted
from .parts.gate import Rules
from .parts.gram import about, centred, cosine_block, gram_matrix, rounding
from .parts.participant import Unfit
from .parts.sketch_keys import SketchKeys
from .uploaded.uploads import Collected, Collecting, invite, server_step
from .view.account import Sketched
from .view.answers import Gram, Owner, Remembered, Sum, Traffic, Updates, Vector, Work
from .view.asks import Setup
from .wire.messages import HEAD_BYTES, Task

DEVIATIONS = 6
"""A sketched inner product is within so many standard deviations of the exact one."""


class SketchView(HeldView):
    """Answers inner products from sketches; the server keeps sketches where it is asked to remember updates."""

    with_a_client = "the numbers of each sketch, as linear measurements of the update: clients share the seed that draws them"

    def __init__(self, setup: Setup, owner: Owner, rules: Rules, secret: SketchKeys, before: Traffic, unfit: Unfit) -> None:
        network = InProcess(setup.tap, max_bytes=4 * len(setup.initial) + HEAD_BYTES, computers=setup.workers, judge=setup.judge)
        network.messages, network.bytes_up, network.bytes_down = astuple(before)
        super().__init__(setup, owner, rules, network, holding(unfit, lambda task: lambda: secret(task.session.digest)))
        self._sketch = secret

    def gram(self, updates: Updates, /, *, origin: bool = False) -> Gram:
        sketched = self._sketches(updates)
        clients = tuple(sketched.received)
        size = len(clients) * (len(clients) + 1) // 2
        self._disclose(updates.round, "server", "gram", clients, size, "noisy inner products and norms of the updates")
        with self._network.timed(SERVER):
            matrix = gram_matrix([v for v, _ in sketched.received.values()])
        return Gram(clients, matrix if origin else centred(matrix), self._tolerance(updates))

    def recall(self, round: int, kept: Sequence[Remembered], /) -> Gram:
        rows = {i: row for handle in kept for i, row in zip(handle.rows, self._recalled(handle), strict=True)}
        clients, parts = parted(kept)
        size = len(clients) * (len(clients) + 1) // 2
        self._disclose(round, "server", "gram(recall)", clients, size, "noisy inner products and norms of the updates")
        with self._network.timed(SERVER):
            matrix = centred(gram_matrix([rows[i] for i in clients]), parts)
        sketch = self._sketch(b"")
        return Gram(clients, matrix, DEVIATIONS * sketch.error + rounding(sketch.k))

    def cosines(self, updates: Updates, remembered: Remembered, /) -> NDArray[np.float64]:
        self._needs_one_sketch()
        rows = self._recalled(remembered)
        whom = tuple(sorted({*updates.clients, *remembered.clients}))
        words = "noisy inner products with updates of earlier rounds"
        self._disclose(updates.round, "server", "gram(remember)", whom, len(updates.clients) * len(rows), words)
        received = self._sketches(updates).received
        with self._network.timed(SERVER):
            found = np.full((len(updates.clients), len(rows)), np.nan)
            present = [k for k, i in enumerate(updates.clients) if i in received]
            new = [received[updates.clients[k]][0] for k in present]
            if of_split(remembered) and rows:
                new, rows = about(rows, new), about(rows, rows)
            found[present] = cosine_block(new, rows)
        return found

    def coordinates(self, updates: Updates, name: str, rule: Callable[[NDArray[np.float32]], NDArray[np.float32]], /) -> Sum:
        raise Refused("order statistics of coordinates need the coordinates, which this protection hides; use Plain or Permuted")

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

        opening: Iterator[tuple[int, Effect]] = ((SERVER, effect) for effect in invite(session, kind, (updates.name,), b""))
        self._network.run(self.clients.parties, {session.digest: server}, opening, perform, self._learn)
        collected: Collected = server.state
        self._reject(collected.rejected)
        words = f"{sketch.k} secret linear measurements of each {made.kind}, of which only inner products tell anything"
        self._disclose(updates.round, "server", "sketches", tuple(collected.received), len(collected.received) * sketch.k, words)
        self.server.uploads[updates.name] = collected
        key = self._setup.run if self._sketch.keys == "run" else updates.name.encode()
        clients, of = tuple(sorted(collected.received)), (updates.round, updates.cluster)
        self.sketched.append(Sketched(key, "raw", made.kind, *of, clients, numbers=sketch.k))
        return collected
