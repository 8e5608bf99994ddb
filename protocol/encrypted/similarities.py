"""Inner products in the view of encryption: of encrypted secret sketches, which one client opens and says rounded."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...crypto.ckks import PRODUCTS
from ...crypto.ckks_ciphertexts import EncryptedVector, Uncomputable
from ..core.errors import NO_CLIENT, Refused, Silent
from ..core.session import SERVER, Session
from ..drivers.roles import Party
from ..parts.gram import centred, cosines_about
from ..parts.held import HeldUpdates
from ..parts.history import EDGE, KEPT, of_split, parted
from ..parts.models import unused
from ..parts.run import Ids, Run
from ..parts.sketches import DEVIATIONS
from ..view.account import Sketched
from ..view.answers import Gram, Remembered, Snapshot, Traffic, Updates
from ..view.functionality import Functionality
from ..wire.messages import HEAD_BYTES
from ..work.maker import SKETCH as DRAWN
from ..work.sketch_keys import SketchTerms
from . import scores as encrypted_scores
from .client_phases import SCORES, SKETCH
from .holders import OF_ALL, Holders, of_asked
from .keys import RelayedKey
from .messages import SEALED_BYTES, products_of
from .scaling import score_tolerance

GRAM = "/gram"
"""What the Gram matrix of a split's updates is saved under, behind their handle."""


class EncryptedSimilarities:
    """Answers inner products by scores, once for each question, and keeps encrypted sketches for later ones.

    sketches: of the round, by the updates' handle. kept: of remembered updates, scores: what was said, by label, splits: the Gram
    matrix of a split's updates, by their handle. given_up: handles whose sketches went with their key, which nothing came of;
    they are left out of what is recalled, and cosines to them are NaN.
    """

    def __init__(self, run: Run, held: HeldUpdates, holders: Holders, sketched: SketchTerms) -> None:
        self.sketches: dict[str, Mapping[int, EncryptedVector]] = {}
        self.kept: dict[str, Mapping[int, EncryptedVector]] = {}
        self.scores: dict[str, encrypted_scores.ProductsOpened] = {}
        self.splits: dict[str, NDArray[np.float64]] = {}
        self.given_up: set[str] = set()
        self._run = run
        self._held = held
        self._holders = holders
        self._terms = sketched

    def gram(self, updates: Updates, /, *, origin: bool = False) -> Gram:
        """See `Similarities`."""
        self._run.allow(Functionality.GRAM_ORIGIN if origin else Functionality.GRAM)
        return self._gram(updates, origin, ())

    def _gram(self, updates: Updates, origin: bool, openers: Ids) -> Gram:
        """openers: who may open the products beside those whose sketches came."""
        sketches = self._sketches(updates)
        clients, digits = tuple(sketches), self._holders.policy.digits
        if not clients:
            return Gram((), np.zeros((0, 0)), 0.0)
        roster = tuple(sorted({*clients, *openers}))
        found = self._scores(updates.round, updates.name, roster, list(sketches.values()), [], clients)
        size = len(clients) * (len(clients) + 1) // 2
        words = f"inner products of sketches and norms of the updates, as cosines and logarithms of {digits} decimals"
        self._run.record.disclose(updates.round, "server", "gram", clients, size, words)
        matrix = found.matrix if origin else centred(found.matrix)
        return Gram(clients, matrix, self._error(self._sketch_session(updates).digest))

    def recall(self, round: int, kept: Sequence[Remembered], /) -> Gram:
        """See `Recalls`."""
        self._run.allow(Functionality.GRAM_RECALL)
        held = [handle for handle in kept if handle.name not in self.given_up]
        rows = {i: row for handle in held for i, row in zip(handle.clients, self._kept_sketches(handle), strict=True)}
        clients, parts = parted(held)
        if not clients:
            return Gram((), np.zeros((0, 0)), 0.0)
        matrix = self._scores(round, f"recalled@{round}", clients, [rows[i] for i in clients], []).matrix
        digits = self._holders.policy.digits
        words = f"inner products of sketches and norms of kept updates, as cosines and logarithms of {digits} decimals"
        self._run.record.disclose(round, "server", "gram(recall)", clients, len(clients) * (len(clients) + 1) // 2, words)
        return Gram(clients, centred(matrix, parts), self._error(b""))

    def _error(self, session: bytes) -> float:
        return DEVIATIONS * self._terms.error + score_tolerance(self._holders.policy.digits)

    def _sketch_session(self, updates: Updates) -> Session:
        return Session(SKETCH, self._run.setup.run, updates.round, updates.name, updates.clients, 1)

    def _scores(
        self,
        round: int,
        label: str,
        roster: Ids,
        rows: Sequence[EncryptedVector],
        columns: Sequence[EncryptedVector],
        about: Ids = (),
    ) -> encrypted_scores.ProductsOpened:
        """Have one client of the roster open the products of these sketches, once. Raises Silent if nobody does. Who made the key
        and opens alone, as nobody else is of the roster, proves nothing of it. about: whose sketches they are; of the roster,
        where empty.
        """
        if label in self.scores:
            return self.scores[label]
        key = self._holders.sketch_key(round, label, roster)
        session = Session(SCORES, self._run.setup.run, round, label, roster, 1)
        openers = self._holders.in_turn(roster)
        try:
            with self._run.timed():
                proven = self._holders.is_proven(key)
                seed = self._run.setup.entropy.secret(f"encrypted scores test {session.digest.hex()}", 32)
                digits = self._holders.policy.digits
                state = encrypted_scores.comparison(session, key, rows, columns, digits, seed, proven, openers)
        except Uncomputable:
            self._run.record.fault(key.holder, "keys for products that not every product can be made with")
            self._holders.behind(key)
            self._let_go(key)
            raise Silent(f"no inner products of {label} could be computed", SERVER) from None
        count = products_of(len(rows), len(columns))
        self._run.network.allow((count + 1) * (PRODUCTS.ciphertext_bytes + 16) + SEALED_BYTES + HEAD_BYTES)
        server = Party(SERVER, state, encrypted_scores.server_step)
        self._holders.play({session.digest: server}, encrypted_scores.ask(state))
        words = "one of the clients opens the inner products of encrypted sketches, unrounded"
        self._run.record.disclose(round, "key holder", "gram", about or roster, count, words)
        if isinstance(server.state, encrypted_scores.ProductsOpened):
            self.scores[label] = server.state
            self._holders.said_nothing(server.state.silent)
            if set(roster) - {key.holder}:
                self._holders.proven(key)
            return server.state
        self._holders.said_nothing(server.state.asked)
        self._holders.failed(server.state, f"the scores {label}", key)
        self._let_go(key)
        raise Silent(f"{NO_CLIENT} opened the inner products of {label}{of_asked(server.state.asked)}", SERVER)

    def _let_go(self, key: RelayedKey) -> None:
        """Of the sketches under this key, of the round and kept, where it is given up."""
        if key.name in self._holders.keys:
            return
        if self._holders.policy.keys == "run":
            self.given_up |= self.kept.keys()
            self.kept.clear()
            self.splits.clear()
            self.sketches = {name: {} for name in self.sketches}
        elif key.name.name in self.sketches:
            self.sketches[key.name.name] = {}

    def _sketches(self, updates: Updates) -> Mapping[int, EncryptedVector]:
        """The encrypted sketches of these updates, by client, ascending; asked for once."""
        made = self._held.known(updates)
        if updates.name in self.sketches:
            return self.sketches[updates.name]
        key = self._holders.sketch_key(updates.round, updates.name, updates.clients)
        session = self._sketch_session(updates)
        with self._run.timed(*updates.clients):  # each draws it for itself; here one draws it for all
            self._run.clients.draw(DRAWN, session.digest)
        state = encrypted_scores.CollectingCiphertexts(session, key, self._terms.rows, made.session)
        server = Party(SERVER, state, encrypted_scores.server_step)
        self._holders.play({session.digest: server}, encrypted_scores.invite(state))
        received: Mapping[int, EncryptedVector] = server.state.received
        sketches = f"ciphertexts of {made.kind} sketches"
        words = f"a sketch of each update, encrypted: {OF_ALL}"
        self._run.record.disclose(updates.round, "server", sketches, tuple(received), 0, words)
        if set(updates.clients) - {key.holder} and not set(received) - {key.holder}:  # perhaps nobody else would encrypt under it
            self._holders.behind(key)
            self._let_go(key)
            received = received if key.name in self._holders.keys else {}
        self.sketches[updates.name] = received
        under = self._run.setup.run if self._holders.policy.keys == "run" else session.digest
        self._run.record.sketched.append(Sketched(under, "raw", made.kind, updates.round, updates.cluster, tuple(received)))
        return received

    def keep(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        """See `Recalls`."""
        self._run.allow(Functionality.GRAM_RECALL)
        return self._kept(updates, clients, KEPT)

    def edge(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        """See `Recalls`. The server keeps the Gram matrix of these updates with the handle, as it was told it."""
        self._run.allow(Functionality.GRAM_EDGE)
        handle, whole = self._kept(updates, clients, EDGE), self.gram(updates, origin=True)
        at = [whole.clients.index(i) for i in handle.clients]
        self.splits[handle.name] = whole.matrix[np.ix_(at, at)]
        return handle

    def remember(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        """See `Recalls`."""
        self._run.allow(Functionality.GRAM_REMEMBER, Functionality.GRAM_HISTORY)
        return self._kept(updates, clients, KEPT)

    def _kept(self, updates: Updates, clients: Sequence[int], purpose: str) -> Remembered:
        """Of those of these clients whose sketches came."""
        self._needs_one_key()
        sketches = self._sketches(updates)
        chosen = tuple(sorted(set(clients) & sketches.keys()))
        name = unused(f"{updates.name}{purpose}", {*self.kept, *self.given_up})
        self.kept[name] = {i: sketches[i] for i in chosen}
        return Remembered(name, chosen, of=len(updates.clients))

    def cosines(self, updates: Updates, remembered: Remembered, /) -> NDArray[np.float64]:
        """See `Recalls`."""
        self._run.allow(Functionality.GRAM_REMEMBER, Functionality.GRAM_EDGE)
        self._needs_one_key()
        block = np.full((len(updates.clients), len(remembered.clients)), np.nan)
        if remembered.name in self.given_up:
            return block
        columns = self._kept_sketches(remembered)
        sketches = self._sketches(updates)
        there = tuple(i for i in updates.clients if i in sketches)
        if not there or not columns:
            return block
        label = f"{updates.name} to {','.join(map(str, remembered.clients))} of {remembered.name}"
        label = label if len(label) <= 256 else hashlib.sha256(label.encode()).hexdigest()
        about = tuple(sorted({*sketches, *remembered.clients}))  # all of them hold the key, so that no newcomer opens alone
        found = self._scores(updates.round, label, about, [sketches[i] for i in there], columns).cosines
        words = f"cosines of sketches with those of earlier rounds, of {self._holders.policy.digits} decimals"
        self._run.record.disclose(updates.round, "server", "gram(remember)", about, found.size, words)
        if of_split(remembered):
            found = self._about_the_split(replace(updates, clients=there), found, remembered)
        block[[k for k, i in enumerate(updates.clients) if i in sketches]] = found
        return block

    def _about_the_split(self, updates: Updates, cosines: NDArray[np.float64], remembered: Remembered) -> NDArray[np.float64]:
        """The cosines about the mean of the split's updates, by the Gram matrices that the server was told of both."""
        self._run.allow(Functionality.GRAM_ORIGIN)
        new = self._gram(updates, True, remembered.clients)
        at = [new.clients.index(i) for i in updates.clients]
        old = self.splits[remembered.name]
        inside = new.matrix[np.ix_(at, at)]
        block = cosines * np.outer(np.sqrt(np.diagonal(inside)), np.sqrt(np.diagonal(old)))
        return cosines_about(np.block([[inside, block], [block.T, old]]), len(at))

    def _kept_sketches(self, remembered: Remembered) -> list[EncryptedVector]:
        kept = self.kept.get(remembered.name, {})
        if any(i not in kept for i in remembered.clients):
            raise Refused(f"the remembered updates {remembered.name} are gone; keep their handle when retiring")
        return [kept[i] for i in remembered.clients]

    def _needs_one_key(self) -> None:
        if self._holders.policy.keys != "run":
            raise Refused("updates of different rounds are under different keys and cannot be compared; use keys='run'")

    # --- keeping and forgetting ---------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`."""
        kept = {name: handle.clients for name, handle in remembered.items()}
        self.kept = {n: {i: rows[i] for i in kept[n] if i in rows} for n, rows in self.kept.items() if n in kept}
        self.splits = {name: matrix for name, matrix in self.splits.items() if name in kept}
        self.given_up &= kept.keys()
        self.sketches.clear()
        self.scores.clear()

    def save(self) -> Snapshot:
        """See `Part`. Of what is remembered, the ciphertexts."""
        kept = {f"{name} of {i}": row.to_bytes() for name, rows in self.kept.items() for i, row in rows.items()}
        splits = {f"{name}{GRAM}": matrix for name, matrix in self.splits.items()}
        return Snapshot({}, {n: np.frombuffer(row, np.uint8) for n, row in kept.items()} | splits, {}, Traffic())

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`."""
        handles = [handle for handle in remembered if handle.clients]
        self.given_up = {h.name for h in handles if f"{h.name} of {h.clients[0]}" not in snapshot.remembered}
        self.sketches.clear()
        self.scores.clear()
        self.kept = {}
        splits = {h.name: snapshot.remembered.get(f"{h.name}{GRAM}") for h in handles}
        self.splits = {name: matrix for name, matrix in splits.items() if matrix is not None}
        if held := [h for h in handles if h.name not in self.given_up]:
            public, rows = self._holders.sketch_key(0, "all", self._holders.everybody).public, snapshot.remembered
            for h in held:
                self.kept[h.name] = {i: public.read(rows[f"{h.name} of {i}"].tobytes(), self._terms.rows) for i in h.clients}
