"""Inner products of shared updates, in a view: each question is about projections that are drawn after the upload."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..core.errors import Refused, Silent
from ..parts.gram import centred, cosines_about
from ..parts.history import EDGE, KEPT, of_split, parted
from ..parts.models import unused
from ..parts.run import Run
from ..view.account import Sketched, source_of
from ..view.answers import Gram, Remembered, Snapshot, Traffic, Updates
from ..view.functionality import Functionality
from .asking import Unanswered, consistent
from .helpers import Helpers
from .kept import KeptShares, packed, unpacked
from .questions import Row
from .run import forget, gram, max_bytes
from .sharing import HeldShares
from .terms import ShareTerms, Words


class SharedSimilarities:
    """Answers inner products. kept: the first server's shares of remembered updates, by their handle."""

    def __init__(self, run: Run, sharing: HeldShares, helpers: Helpers, terms: ShareTerms) -> None:
        self.kept: dict[str, KeptShares] = {}
        self._run = run
        self._sharing = sharing
        self._helpers = helpers
        self._terms = terms
        self._products: dict[Row, int] = {}  # that each update has entered
        self._grams: dict[str, Gram] = {}

    def gram(self, updates: Updates, /, *, origin: bool = False) -> Gram:
        """See `Similarities`. Of the survivors whose rows are in range; the others are rejected, and stay out of later sums."""
        self._run.allow(Functionality.GRAM_ORIGIN if origin else Functionality.GRAM)
        found = self._about_the_origin(updates)
        return found if origin else replace(found, matrix=centred(found.matrix))

    def _about_the_origin(self, updates: Updates) -> Gram:
        if updates.name not in self._grams:
            source = self._sharing.collected(updates).session.digest
            rows = {(source, i): self._sharing.collected(updates).received[i][0] for i in updates.clients}
            matrix, good = self._inner(updates.round, rows, "gram", "all inner products and norms of the updates")
            self._sharing.reject(updates, [i for i, kept in zip(updates.clients, good, strict=True) if not kept])
            clients = tuple(i for i, kept in zip(updates.clients, good, strict=True) if kept)
            matrix = matrix[np.ix_(good, good)]
            self._grams[updates.name] = Gram(clients, matrix, self._terms.gram_tolerance(np.diagonal(matrix)))
        return self._grams[updates.name]

    def edge(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        """See `Recalls`."""
        self._run.allow(Functionality.GRAM_EDGE)
        return self._kept(updates, clients, EDGE)

    def remember(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        """See `Recalls`."""
        self._run.allow(Functionality.GRAM_REMEMBER, Functionality.GRAM_HISTORY)
        return self._kept(updates, clients, KEPT)

    def _kept(self, updates: Updates, clients: Sequence[int], purpose: str) -> Remembered:
        collected, chosen = self._sharing.collected(updates), tuple(sorted(clients))
        if missing := [i for i in chosen if i not in collected.received]:
            raise Refused(f"no update of client {missing[0]} in {updates.name}; ask about its survivors")
        name = unused(f"{updates.name}{purpose}", self.kept)
        self.kept[name] = KeptShares(collected.session.digest, {i: collected.received[i][0] for i in chosen})
        return Remembered(name, chosen, of=len(updates.clients))

    def keep(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        """See `Recalls`."""
        self._run.allow(Functionality.GRAM_RECALL)
        return self._kept(updates, clients, KEPT)

    def recall(self, round: int, kept: Sequence[Remembered], /) -> Gram:
        """See `Recalls`. One Gram question about all of them; who is out of range is left out."""
        self._run.allow(Functionality.GRAM_RECALL)
        shares: dict[int, tuple[Row, Words]] = {}
        for handle in kept:
            found = self._shares_of(handle)
            if not set(handle.clients) <= found.keys():
                raise Refused(f"the kept updates {handle.name} are gone; keep their handle when retiring")
            shares |= {i: ((self.kept[handle.name].session, i), found[i]) for i in handle.clients}
        clients, parts = parted(kept)
        if not clients:
            return Gram((), np.zeros((0, 0)), 0.0)
        rows = dict(sorted(shares[i] for i in clients))
        matrix, good = self._inner(round, rows, "gram(recall)", "all inner products and norms of the updates")
        at = {i: k for k, (_, i) in enumerate(rows)}
        fit = [k for k, i in enumerate(clients) if good[at[i]]]
        order = [at[clients[k]] for k in fit]
        matrix = matrix[np.ix_(order, order)]
        parts = [[fit.index(k) for k in part if k in fit] for part in parts]
        tolerance = self._terms.gram_tolerance(np.diagonal(matrix))
        return Gram(tuple(clients[k] for k in fit), centred(matrix, [part for part in parts if part]), tolerance)

    def cosines(self, updates: Updates, remembered: Remembered, /) -> NDArray[np.float64]:
        """See `Recalls`. All rows enter one Gram question: those among the new and among the old are disclosed as well.

        The row of a client that is rejected for it is NaN.
        """
        self._run.allow(Functionality.GRAM_REMEMBER, Functionality.GRAM_EDGE)
        if not set(remembered.clients) <= self._shares_of(remembered).keys():
            raise Refused(f"the remembered updates {remembered.name} are gone; keep their handle when retiring")
        collected = self._sharing.collected(updates)
        if not remembered.clients:
            return np.zeros((len(updates.clients), 0))
        kept = self.kept[remembered.name]
        new = {(collected.session.digest, i): collected.received[i][0] for i in updates.clients}
        old = {(kept.session, i): kept.shares[i] for i in remembered.clients}
        rows = dict(sorted((new | old).items()))
        words = "all inner products and norms of the updates and of those of earlier rounds that they are compared with"
        matrix, good = self._inner(updates.round, rows, "gram(remember)", words)
        place = {row: at for at, row in enumerate(rows)}
        self._sharing.reject(updates, [i for source, i in new if not good[place[source, i]]])
        if of_split(remembered):
            fit = [k for k, row in enumerate(old) if good[place[row]]]
            order = [*(place[row] for row in new), *(place[row] for k, row in enumerate(old) if k in fit)]
            found = np.full((len(new), len(old)), np.nan)
            found[:, fit] = cosines_about(matrix[np.ix_(order, order)], len(new))
            found[[k for k, row in enumerate(new) if not good[place[row]]]] = np.nan
            return found
        norms = np.sqrt(np.where(good, np.diagonal(matrix), 0.0))
        scale = np.outer(norms, norms)
        cosines = np.clip(np.divide(matrix, scale, out=np.zeros_like(matrix), where=scale > 0), -1.0, 1.0)
        cosines[~good] = np.nan
        block: NDArray[np.float64] = cosines[np.ix_([place[row] for row in new], [place[row] for row in old])]
        return block

    def _shares_of(self, remembered: Remembered) -> Mapping[int, Words]:
        kept = self.kept.get(remembered.name)
        return kept.shares if kept is not None else {}

    def _inner(
        self, round: int, rows: Mapping[Row, Words], what: str, words: str
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The Gram matrix of the rows, in the updates' units, and which rows are in range. Raises Refused or Silent."""
        run, terms, count = self._run, self._terms, len(rows)
        most = terms.most_products
        if most and any(self._products.get(row, 0) + count > most for row in rows):
            raise Refused(
                f"another Gram question of {count} updates is refused: with more than {most} inner products under fresh"
                f" projections an update of {terms.length} coordinates could be computed; use k={terms.length + terms.length % 2}"
            )
        run.network.allow(max_bytes(terms, count))
        setup, number = run.setup, self._helpers.number()
        asked = list(rows.items())
        ended = gram(run.network, self._helpers.everybody, terms, setup.run, number, asked, setup.entropy)
        for row in rows:
            self._products[row] = self._products.get(row, 0) + count
        about = tuple(sorted({client for _, client in rows}))
        if not isinstance(ended, Unanswered):
            run.record.disclose(round, "server", what, about, count * (count + 1) // 2, words)
            self._put_on_record(number, list(rows))
        run.record.disclose(round, "second server", what, about, 0, "whose inner products were asked for, and none of them")
        run.record.disclose(round, "dealer", what, (), 1, "how many updates were compared, and nothing of them")
        if isinstance(ended, Unanswered):
            raise Silent(f"{what} of round {round} was not answered", ended.waited_for)
        return ended.gram.astype(np.float64) * terms.gram_unit, consistent(terms, ended.gram)

    def _put_on_record(self, question: int, rows: Sequence[Row]) -> None:
        """All inner products among these rows were told, and none with others: a key of their own."""
        for session in dict.fromkeys(session for session, _ in rows):
            cluster, round, kind = self._sharing.sources[session]
            clients = tuple(sorted(client for source, client in rows if source == session))
            key = f"Gram question {question}".encode()
            self._run.record.sketched.append(Sketched(key, "raw", kind, round, cluster, clients))

    # --- keeping and forgetting ---------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`. The second server is told to forget what is not kept."""
        self._grams.clear()
        handles = [handle for name, handle in remembered.items() if name in self.kept]
        shares = {r.name: {i: n for i, n in self._shares_of(r).items() if i in r.clients} for r in handles}
        self.kept = {r.name: replace(self.kept[r.name], shares=shares[r.name]) for r in handles if shares[r.name]}
        rows = sorted({(shared.session, client) for shared in self.kept.values() for client in shared.shares})
        sources = self._sharing.sources
        self._sharing.sources = {session: sources[session] for session in {session for session, _ in rows}}
        self._products = {row: self._products[row] for row in rows if row in self._products}
        forget(self._run.network, self._helpers.parties, self._run.setup.run, self._helpers.number(), rows)

    def save(self) -> Snapshot:
        """See `Part`."""
        remembered, counters = packed(self.kept, self._helpers.parties, self._products)
        return Snapshot({}, remembered, counters, Traffic())

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`."""
        self._grams.clear()
        self.kept, self._products = unpacked(snapshot, remembered, self._helpers.parties)
        self._sharing.sources = {kept.session: source_of(name) for name, kept in self.kept.items()}
