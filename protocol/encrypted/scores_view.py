"""Inner products in the view of encryption: of encrypted secret sketches, which one client opens and says rounded."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...crypto.ckks import PRODUCTS
from ...crypto.ckks import Encrypted as Ciphertexts
from ..core.errors import ProtocolError, Refused
from ..core.session import SERVER, Session
from ..drivers.roles import Party, Worked
from ..history import EDGE, KEPT, of_split, parted
from ..parts.gate import Rules
from ..parts.gram import centred, cosines_about
from ..parts.participant import Unfit
from ..sketch_view import DEVIATIONS
from ..view.account import Sketched
from ..view.answers import Gram, Model, Remembered, Snapshot, Updates
from ..view.asks import Setup
from ..view_base import Clients, unused
from ..wire.messages import HEAD_BYTES, Task
from . import scores as encrypted_scores
from .client import sketch_of
from .client_phases import SCORES, SKETCH, Policy
from .messages import SEALED_BYTES, products_of
from .scaling import score_tolerance
from .shared_keys import OF_ALL
from .slot_sums import EncryptedSlotSums

GRAM = "/gram"
"""What the Gram matrix of a split's updates is saved under, behind their handle."""


class EncryptedScores(EncryptedSlotSums):
    """Answers inner products by scores, once for each question, and keeps encrypted sketches for later ones."""

    with_a_client = "every update in full: any one client holds the key that all updates are encrypted under"

    def __init__(self, setup: Setup, policy: Policy, rules: Rules, k: int, unfit: Unfit) -> None:
        super().__init__(setup, policy, rules, k, unfit)
        self._remembered: dict[str, dict[int, NDArray[np.float32]]] = {}  # at the clients: what they encrypted, to do it again

    def gram(self, updates: Updates, /, *, origin: bool = False) -> Gram:
        sketches = self._sketches(updates)
        clients, digits = tuple(sketches), self._policy.digits
        if not clients:
            return Gram((), np.zeros((0, 0)), 0.0)
        found = self._scores(updates.round, updates.name, clients, list(sketches.values()), [])
        size = len(clients) * (len(clients) + 1) // 2
        words = f"inner products of sketches and norms of the updates, as cosines and logarithms of {digits} decimals"
        self._disclose(updates.round, "server", "gram", clients, size, words)
        matrix = found.matrix if origin else centred(found.matrix)
        return Gram(clients, matrix, self._error(self._sketch_session(updates).digest))

    def recall(self, round: int, kept: Sequence[Remembered], /) -> Gram:
        rows = {i: row for handle in kept for i, row in zip(handle.clients, self._kept_sketches(handle), strict=True)}
        clients, parts = parted(kept)
        if not clients:
            return Gram((), np.zeros((0, 0)), 0.0)
        matrix = self._scores(round, f"recalled@{round}", clients, [rows[i] for i in clients], []).matrix
        digits = self._policy.digits
        words = f"inner products of sketches and norms of kept updates, as cosines and logarithms of {digits} decimals"
        self._disclose(round, "server", "gram(recall)", clients, len(clients) * (len(clients) + 1) // 2, words)
        return Gram(clients, centred(matrix, parts), self._error(b""))

    def _error(self, session: bytes) -> float:
        return DEVIATIONS * self._sketch(session).error + score_tolerance(self._policy.digits)

    def _sketch_session(self, updates: Updates) -> Session:
        return Session(SKETCH, self._setup.run, updates.round, updates.name, updates.clients, 1)

    def _scores(
        self, round: int, label: str, roster: Clients, rows: Sequence[Ciphertexts], columns: Sequence[Ciphertexts]
    ) -> encrypted_scores.Compared:
        """Have one client of the roster open the products of these sketches, once. Raises ProtocolError if nobody does."""
        if label in self.server.scores:
            return self.server.scores[label]
        key = self._sketch_key(round, label, roster)
        session = Session(SCORES, self._setup.run, round, label, roster, 1)
        with self._network.timed(SERVER):
            state = encrypted_scores.comparison(session, key, rows, columns, self._policy.digits)
        count = products_of(len(rows), len(columns))
        self._network.allow(count * (PRODUCTS.ciphertext_bytes + 16) + SEALED_BYTES + HEAD_BYTES)
        server = Party(SERVER, state, encrypted_scores.server_step)
        self._run({session.digest: server}, encrypted_scores.ask(state))
        words = "one of the clients opens the inner products of encrypted sketches, unrounded"
        self._disclose(round, "key holder", "gram", roster, count, words)
        if isinstance(server.state, encrypted_scores.Compared):
            self.server.scores[label] = server.state
            return server.state
        self._failed(server.state, f"the scores {label}")
        raise ProtocolError(f"no client opened the inner products of {label}", roster[0])

    def _sketches(self, updates: Updates) -> Mapping[int, Ciphertexts]:
        """The encrypted sketches of these updates, by client, ascending; asked for once."""
        made = self._known(updates)
        if updates.name in self.server.sketches:
            return self.server.sketches[updates.name]
        key = self._sketch_key(updates.round, updates.name, updates.clients)
        session = self._sketch_session(updates)
        with self._network.timed(*updates.clients):  # each draws it for itself; here one draws it for all
            self._sketch(session.digest)
        state = encrypted_scores.Collecting(session, key, self._sketch(session.digest).k)
        server = Party(SERVER, state, encrypted_scores.server_step)

        def perform(tasks: list[tuple[int, Task]]) -> Iterator[tuple[int, Worked]]:
            for client, work in self._results({client: updates.name for client, _ in tasks}):
                yield client, Worked(work.sketched, 1)

        self._run({session.digest: server}, encrypted_scores.invite(state), perform)
        received: Mapping[int, Ciphertexts] = server.state.received
        self._disclose(updates.round, "server", f"ciphertexts of {made.kind} sketches", tuple(received), 0, OF_ALL)
        self.server.sketches[updates.name] = received
        under = self._setup.run if self._policy.keys == "run" else session.digest
        self.sketched.append(Sketched(under, "raw", made.kind, updates.round, updates.cluster, tuple(received)))
        return received

    def keep(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        return self.remember(updates, clients)

    def edge(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        """The server keeps the Gram matrix of these updates with the handle, as it was told it."""
        handle, whole = self._kept(updates, clients, EDGE), self.gram(updates, origin=True)
        at = [whole.clients.index(i) for i in handle.clients]
        self.server.splits[handle.name] = whole.matrix[np.ix_(at, at)]
        return handle

    def remember(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        return self._kept(updates, clients, KEPT)

    def _kept(self, updates: Updates, clients: Sequence[int], purpose: str) -> Remembered:
        self._needs_one_key()
        sketches, chosen = self._sketches(updates), tuple(sorted(clients))
        self._all_there(updates, sketches, chosen)
        name = unused(f"{updates.name}{purpose}", self.server.kept)
        self.server.kept[name] = {i: sketches[i] for i in chosen}
        digest = self._sketch_session(updates).digest
        shown = {i: self.clients.parties[i].held[updates.name].sketched for i in chosen}
        self._remembered[name] = {i: sketch_of(self._holders[i].state, digest, x).astype(np.float32) for i, x in shown.items()}
        return Remembered(name, chosen, of=len(updates.clients))

    def cosines(self, updates: Updates, remembered: Remembered, /) -> NDArray[np.float64]:
        self._needs_one_key()
        columns = self._kept_sketches(remembered)
        sketches = self._sketches(updates)
        self._all_there(updates, sketches, updates.clients)
        rows, roster = [sketches[i] for i in updates.clients], tuple(sketches)
        if not rows or not columns:
            return np.zeros((len(rows), len(columns)))
        label = f"{updates.name} to {','.join(map(str, remembered.clients))} of {remembered.name}"
        label = label if len(label) <= 256 else hashlib.sha256(label.encode()).hexdigest()
        found = self._scores(updates.round, label, roster, rows, columns)
        about = tuple(sorted({*updates.clients, *remembered.clients}))
        words = f"cosines of sketches with those of earlier rounds, of {self._policy.digits} decimals"
        self._disclose(updates.round, "server", "gram(remember)", about, found.cosines.size, words)
        return self._about_the_split(updates, found.cosines, remembered) if of_split(remembered) else found.cosines

    def _about_the_split(self, updates: Updates, cosines: NDArray[np.float64], remembered: Remembered) -> NDArray[np.float64]:
        """The cosines about the mean of the split's updates, by the Gram matrices that the server was told of both."""
        new = self.gram(replace(updates, clients=tuple(self._sketches(updates))), origin=True)
        at = [new.clients.index(i) for i in updates.clients]
        old = self.server.splits[remembered.name]
        inside = new.matrix[np.ix_(at, at)]
        block = cosines * np.outer(np.sqrt(np.diagonal(inside)), np.sqrt(np.diagonal(old)))
        return cosines_about(np.block([[inside, block], [block.T, old]]), len(at))

    def _kept_sketches(self, remembered: Remembered) -> list[Ciphertexts]:
        kept = self.server.kept.get(remembered.name, {})
        if any(i not in kept for i in remembered.clients):
            raise Refused(f"the remembered updates {remembered.name} are gone; keep their handle when retiring")
        return [kept[i] for i in remembered.clients]

    def _needs_one_key(self) -> None:
        if self._policy.keys != "run":
            raise Refused("updates of different rounds are under different keys and cannot be compared; use keys='run'")

    def _all_there(self, updates: Updates, sketches: Mapping[int, Ciphertexts], clients: Iterable[int]) -> None:
        if missing := [i for i in clients if i not in sketches]:
            raise Refused(f"no sketch of client {missing[0]} in {updates.name}; ask about the clients of its Gram matrix")

    # --- keeping and forgetting ---------------------------------------------------------------------------------------

    def retire(self, models: Iterable[Model], remembered: Iterable[Remembered], /) -> None:
        handles = list(remembered)
        super().retire(models, handles)
        kept = {r.name: r.clients for r in handles}
        self.server.kept = {n: {i: rows[i] for i in kept[n] if i in rows} for n, rows in self.server.kept.items() if n in kept}
        self._remembered = {n: {i: rows[i] for i in kept[n] if i in rows} for n, rows in self._remembered.items() if n in kept}
        self.server.splits = {name: matrix for name, matrix in self.server.splits.items() if name in kept}

    def _forget_round(self) -> None:
        super()._forget_round()
        self.server.sketches.clear()
        self.server.scores.clear()
        self.server.keys = {name: key for name, key in self.server.keys.items() if name.name == "all"}

    def save(self) -> Snapshot:
        rows: dict[str, NDArray[Any]] = {n: np.stack(list(kept.values())) for n, kept in self._remembered.items() if kept}
        rows |= {f"{name}{GRAM}": matrix for name, matrix in self.server.splits.items()}
        return replace(super().save(), remembered=rows)

    def restore(self, snapshot: Snapshot, remembered: Iterable[Remembered], /) -> None:
        """Continue from a snapshot. What is remembered is encrypted again, under the key of this run of the program."""
        handles = list(remembered)
        self._go_on(snapshot)
        self._remembered = {r.name: dict(zip(r.clients, snapshot.remembered[r.name], strict=True)) for r in handles if r.clients}
        self.server.kept = {}
        splits = {name: snapshot.remembered.get(f"{name}{GRAM}") for name in self._remembered}
        self.server.splits = {name: matrix for name, matrix in splits.items() if matrix is not None}
        if self._remembered:
            public = self._sketch_key(0, "all", self._everybody).public
            for name, rows in self._remembered.items():
                self.server.kept[name] = {i: public.read(public.encrypt(row).to_bytes(), len(row)) for i, row in rows.items()}
        super().restore(snapshot, [])  # the last: what was done here anew is not counted again
