"""Inner products from secret sketches of updates that clients hold: what clients show, and what the server computes from it.

Clients share a seed that the server lacks. Each sends k numbers: a public projection of its update and then a secret Gaussian
one (`TwoStage`), so that what the server sees depends on the Gram matrix of the projected updates alone. Whoever hands the
server the seed hands it k linear measurements of every update; whoever holds the seed can hide a change of its own update
in the kernel, and nothing ties a sketch to the vector that is summed.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..core.errors import Refused
from ..core.session import SERVER
from ..drivers.in_process import no_work
from ..drivers.roles import Effect, Party
from ..view.account import Sketched
from ..view.answers import SKETCHED_AS, Gram, Remembered, Snapshot, Updates, Vector
from ..view.functionality import Functionality
from ..work.maker import SKETCH
from ..work.sketch_keys import SketchTerms
from ..work.upload_server import CollectingUploads, UploadsCollected, invite, server_step
from .gram import about, centred, cosine_block, gram_matrix, rounding
from .held import HeldUpdates
from .history import History, of_split, parted
from .run import Run, nothing
from .tasks import session_of

DEVIATIONS = 6
"""A sketched inner product is within so many standard deviations of the exact one."""


class Sketches:
    """Has updates sketched about the origin, and answers from that. received: sketches of the round, by the updates' handle."""

    def __init__(self, run: Run, held: HeldUpdates, terms: SketchTerms) -> None:
        self.received: dict[str, UploadsCollected] = {}
        self.history = History(run, self.lasting)
        self._run = run
        self._held = held
        self._terms = terms
        held.dropped.append(lambda round, names: _drop(self.received, names))

    def gram(self, updates: Updates, /, *, origin: bool = False) -> Gram:
        """See `Similarities`."""
        self._run.allow(Functionality.GRAM_ORIGIN if origin else Functionality.GRAM)
        sketched = self.of(updates)
        clients = tuple(sketched.received)
        size = len(clients) * (len(clients) + 1) // 2
        words = "noisy inner products and norms of the updates"
        self._run.record.disclose(updates.round, "server", "gram", clients, size, words)
        with self._run.timed():
            matrix = gram_matrix([v for v, _ in sketched.received.values()])
        return Gram(clients, matrix if origin else centred(matrix), self._tolerance)

    def recall(self, round: int, kept: Sequence[Remembered], /) -> Gram:
        """See `Recalls`."""
        self._run.allow(Functionality.GRAM_RECALL)
        rows = {i: row for handle in kept for i, row in zip(handle.rows, self.history.recalled(handle), strict=True)}
        clients, parts = parted(kept)
        size = len(clients) * (len(clients) + 1) // 2
        words = "noisy inner products and norms of the updates"
        self._run.record.disclose(round, "server", "gram(recall)", clients, size, words)
        with self._run.timed():
            matrix = centred(gram_matrix([rows[i] for i in clients]), parts)
        return Gram(clients, matrix, self._tolerance)

    def cosines(self, updates: Updates, remembered: Remembered, /) -> NDArray[np.float64]:
        """See `Recalls`."""
        self._run.allow(Functionality.GRAM_REMEMBER, Functionality.GRAM_EDGE)
        self._needs_one_sketch()
        rows = self.history.recalled(remembered)
        whom = tuple(sorted({*updates.clients, *remembered.clients}))
        words = "noisy inner products with updates of earlier rounds"
        size = len(updates.clients) * len(rows)
        self._run.record.disclose(updates.round, "server", "gram(remember)", whom, size, words)
        received = self.of(updates).received
        with self._run.timed():
            found = np.full((len(updates.clients), len(rows)), np.nan)
            present = [k for k, i in enumerate(updates.clients) if i in received]
            new = [received[updates.clients[k]][0] for k in present]
            if of_split(remembered) and rows:
                new, rows = about(rows, new), about(rows, rows)
            found[present] = cosine_block(new, rows)
        return found

    def lasting(self, updates: Updates, clients: Sequence[int]) -> Mapping[int, Vector]:
        """Those of these clients' sketches that came, comparable across rounds. Raises Refused where keys are of sessions."""
        self._needs_one_sketch()
        received = self.of(updates).received if clients else {}
        return {i: received[i][0] for i in clients if i in received}

    def of(self, updates: Updates) -> UploadsCollected:
        """The sketches of these updates; asked for once."""
        made = self._held.known(updates)
        if updates.name in self.received:
            return self.received[updates.name]
        run = self._run
        self._terms.check()
        kind = SKETCHED_AS[made.kind]
        session = session_of(run, updates.round, updates.cluster, updates.clients, kind)
        with run.timed(*updates.clients):
            run.clients.draw(SKETCH, made.session)
        rows = self._terms.rows
        server = Party(SERVER, CollectingUploads(session, rows), server_step)
        opening: Iterator[tuple[int, Effect]] = ((SERVER, effect) for effect in invite(session, kind, (updates.name,), b""))
        run.network.run(run.clients.parties, {session.digest: server}, opening, no_work, run.learn)
        collected: UploadsCollected = server.state
        run.record.reject(collected.rejected)
        words = f"a random sketch of each {made.kind} ({rows} numbers): shows inner products; more if a client leaks the key"
        clients = tuple(sorted(collected.received))
        run.record.disclose(updates.round, "server", "sketches", tuple(collected.received), len(clients) * rows, words)
        self.received[updates.name] = collected
        key = run.setup.run if self._terms.keys == "run" else updates.name.encode()
        entry = Sketched(key, "raw", made.kind, updates.round, updates.cluster, clients, numbers=rows)
        run.record.sketched.append(entry)
        return collected

    @property
    def _tolerance(self) -> float:
        return DEVIATIONS * self._terms.error + rounding(self._terms.rows)

    def _needs_one_sketch(self) -> None:
        if self._terms.keys != "run":
            raise Refused("updates of different rounds are under different sketches and cannot be compared; use keys='run'")

    # --- keeping ------------------------------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`."""
        self.received.clear()

    def save(self) -> Snapshot:
        """See `Part`."""
        return nothing()

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`."""
        self.received.clear()


def _drop(of: dict[str, UploadsCollected], names: set[str]) -> None:
    for name in names & of.keys():
        del of[name]
