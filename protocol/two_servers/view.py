"""Two servers: clients share their updates between two servers that do not collude; the first learns sums and inner products.

Protocol: specs/two_servers.md. Whatever is asked, is asked about the update that was shared, so no client can be two-faced; and
Gram questions are answered on projections that are drawn after the upload, so none can aim beside them.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ProtocolError, Refused
from ..core.session import SECOND_SERVER, SERVER, Session
from ..drivers.in_process import Fault, InProcess
from ..drivers.roles import Role
from ..history import EDGE, KEPT, of_split, parted
from ..parts.gram import centred, cosines_about
from ..sides import ClientSide
from ..uploaded.uploads import Policy, to_bytes
from ..view.account import Sketched, source_of
from ..view.answers import Assignment, BelowFloor, Functionality, Gram, Model, Remembered, Snapshot, Sum, Updates, Weights, Work
from ..view.asks import Setup
from ..view_base import asked, unused
from .asking import Unanswered, consistent
from .questions import Row
from .run import client_parties, collect, forget, gram, helper_parties, max_bytes, sums
from .sides import QUESTION, FirstServer, Shared, packed, unpacked
from .slots import TwoServerSlots, conduct_of
from .terms import PROTOCOL, Terms, Words
from .upload import Collected


@dataclass(frozen=True, slots=True)
class TwoServer:
    """Updates are shared between two servers that must not collude, nor the dealer of random triples with either.

    max_norm: largest norm of an update; a client whose update exceeds it sits out and says so. The fixed point's step is a
    fraction of it. k: inner products are those of random projections to k coordinates (even), exact where updates have at
    most k. floor: fewest honest clients in a sum, held by the second server too. corrupt: clients of the run, at most, that pool
    what they know with the first server; 0: the first server alone.

    Slots are answered in one upload, where max_norm is that of each vector in a slot. Both servers learn how many chose each
    slot, neither who did; the second opens to the first the sums of those that `floor` clients chose, and checks that they did.
    """

    max_norm: float = 64.0
    k: int = 4096
    floor: int = 3
    corrupt: int = 0

    def __post_init__(self) -> None:
        Terms(1, self.k, self.max_norm, self.floor, self.corrupt)

    @property
    def gives(self) -> frozenset[Functionality]:
        given = {Functionality.SUMS, Functionality.CHOICE, Functionality.SLOTS, Functionality.REVISION}
        compared = {Functionality.GRAM, Functionality.GRAM_ORIGIN, Functionality.GRAM_EDGE, Functionality.GRAM_RECALL}
        return frozenset(given | compared | {Functionality.GRAM_REMEMBER})

    def open(self, setup: Setup, /) -> "TwoServerView":
        return TwoServerView(setup, Terms(len(setup.initial), self.k, self.max_norm, self.floor, self.corrupt))


class TwoServerView(TwoServerSlots):
    """Answers everything by questions to the second server. Implements `ServerView`. helpers: the second server, the dealer."""

    server: FirstServer
    with_a_client = "that client's own update, and nothing of the others; both servers together read every update"

    def __init__(self, setup: Setup, terms: Terms) -> None:
        policy = Policy(min_cohort=1)
        roles = client_parties(setup.clients, setup.run, terms, policy, setup.entropy)
        clients = ClientSide(roles.values(), conduct_of(terms))
        network = InProcess(setup.tap, max_bytes=max_bytes(terms, len(setup.clients)), computers=setup.workers, judge=setup.judge)
        super().__init__(setup, "server", terms.rules, clients, network)
        self.server = FirstServer(self.server.models)
        self.helpers = helper_parties(setup.run, terms, policy, setup.entropy)
        self._terms = terms
        self._questions = 0
        self._products: dict[Row, int] = {}
        self._sources: dict[bytes, tuple[str, int, Work]] = {}  # by session: cluster, round and kind of what it collected
        self._grams: dict[str, Gram] = {}
        self._rejected: dict[str, set[int]] = {}

    @property
    def _parties(self) -> dict[int, Role]:
        return {**self.clients.parties, **self.helpers}

    # --- work ---------------------------------------------------------------------------------------------------------

    def train(self, round: int, work: Mapping[str, Assignment], kind: Work = "update", /) -> Mapping[str, Updates]:
        if any(assignment.own for assignment in work.values()):
            raise Refused("clients have no models of their own under two servers; use Plain, Permuted, Masked or Encrypted")
        self._forget_shares(name for name, c in self.server.shares.items() if c.session.round != round)
        sessions = []
        for cluster, assignment in work.items():
            session = Session(f"{PROTOCOL}/{kind}", self._setup.run, round, cluster, assignment.participants, 1)
            model = assignment.model.name
            sessions.append((session, kind, (model,), to_bytes(self._model(assignment.model))))

        answered = {}
        for cluster, collected in zip(work, collect(self._network, self._parties, self._terms, sessions), strict=True):
            self._reject(collected.withheld, f"the {kind} is not finite, or its norm exceeds max_norm={self._terms.max_norm}")
            if collected.alone:
                self._network.faults.append(Fault(SECOND_SERVER, f"it did not say whose keys of {cluster}@{round} it holds"))
            self._disclose_uploads(round, kind, collected)
            if not collected.received:
                continue
            survivors = tuple(sorted(collected.received))
            updates = Updates(f"{cluster}@{round}/{kind}", cluster, round, survivors, work[cluster].members)
            self.server.shares[updates.name] = collected
            self._gate.begin(updates.name)
            self._sources[collected.session.digest] = cluster, round, kind
            answered[cluster] = updates
        return answered

    def _disclose_uploads(self, round: int, kind: Work, collected: Collected) -> None:
        if collected.heard:
            words = f"of each {kind}: its sample count, and a share that is uniform to whoever lacks the second server's key"
            self._disclose(round, "server", f"{kind}s", collected.heard, len(collected.heard), words)
        if collected.withheld:
            words = f"whose {kind} is not finite, or exceeds the bound"
            self._disclose(round, "server", f"{kind}s withheld", tuple(sorted(collected.withheld)), 0, words)
        if survivors := tuple(sorted(collected.received)):
            words = f"who sent {kind}s; of each: a key, which says nothing without the server's share"
            self._disclose(round, "second server", f"{kind}s", survivors, 0, words)

    def train_and_sum(
        self, round: int, work: Mapping[str, Assignment], weights: Mapping[str, Weights], /
    ) -> Mapping[str, Sum | BelowFloor]:
        """Shares are kept until the survivors are agreed on: 8 bytes for each coordinate of each client's update."""
        handles = self.train(round, work)
        answered: dict[str, Sum | BelowFloor] = {}
        for cluster in work:
            if cluster in handles:
                answered |= self.sums(handles[cluster], {cluster: weights[cluster]})
                self._forget_shares([handles[cluster].name])
            else:
                answered[cluster] = self._unsummed(f"{cluster}@{round}", ())
        return answered

    # --- sums ---------------------------------------------------------------------------------------------------------

    def sums(self, updates: Updates, weights: Mapping[str, Weights], /) -> Mapping[str, Sum | BelowFloor]:
        collected, rejected = self._collected(updates), self._rejected.get(updates.name, set())
        samples = {i: n for i, (_, n) in sorted(collected.received.items()) if i not in rejected}
        rows = asked(weights, samples)
        with self._network.timed(SERVER):
            enough = {name: row for name, row in rows.items() if len(row) >= weights[name].fewest}
            weighed = {name: self._terms.weigh(row) for name, row in enough.items() if math.fsum(row.values()) != 0}
        safe = self._safe(updates, {name: whole for name, (whole, _) in weighed.items()})
        answered: dict[str, Sum | BelowFloor] = {}
        for name, row in rows.items():
            label = f"{name}@{updates.round}"
            found = self._sum(updates, label, row, *weighed[name]) if name in safe else None
            answered[name] = found or self._unsummed(label, tuple(row), weights[name].fewest)
            if found is not None:
                self._open(updates, found, row)
        return answered

    def _sum(self, updates: Updates, label: str, row: Mapping[int, float], whole: Mapping[int, int], unit: float) -> Sum | None:
        """One sum; None, and a fault on record, if there is none."""
        collected, terms = self._collected(updates), self._terms
        weights = [(i, q, collected.received[i][0]) for i, q in whole.items()]
        source = collected.session.digest
        ended = sums(self._network, self._parties, terms, self._setup.run, self._next_question(), source, weights)
        clients = tuple(row)
        if not isinstance(ended, Unanswered):
            self._disclose(updates.round, "server", "sums", clients, terms.length, "the sum of the updates")
        self._disclose(updates.round, "second server", "sums", clients, len(row), "the weights of the sum, and nothing of it")
        if isinstance(ended, Unanswered):
            self._network.faults.append(Fault(ended.waited_for, f"the sum {label} was not answered"))
            return None
        with self._network.timed(SERVER):
            total = terms.decode(ended.total, unit)
            norm = float(np.linalg.norm(total))
        if norm > math.fsum(abs(q) for q in whole.values()) * unit * terms.radius * terms.step * (1 + 1e-9):
            reason = f"the sum {label} is out of range: some client's share is not of an update; a Gram question says whose"
            self._network.faults.append(Fault(SERVER, reason))
            return None
        weight = math.fsum(row.values())
        mean = (total / weight).astype(np.float32)
        name = unused(label, self._means)
        self._means[name] = mean
        self._disclose(updates.round, "clients", "sums", clients, len(mean), "the mean update of their own cluster")
        error = terms.sum_error(row, whole, unit) / abs(weight)
        return Sum(name, "server", clients, weight, 0.0, norm / abs(weight), error)

    def coordinates(
        self, updates: Updates, name: str, rule: Callable[[NDArray[np.float32]], NDArray[np.float32]], /
    ) -> Sum | BelowFloor:
        raise Refused("two servers add shares and multiply them; order statistics of coordinates need a (signed) permutation")

    # --- inner products -----------------------------------------------------------------------------------------------

    def gram(self, updates: Updates, /, *, origin: bool = False) -> Gram:
        """Of the survivors whose rows are in range; the others are rejected, and stay out of later sums."""
        found = self._about_the_origin(updates)
        return found if origin else replace(found, matrix=centred(found.matrix))

    def _about_the_origin(self, updates: Updates) -> Gram:
        if updates.name not in self._grams:
            source = self._collected(updates).session.digest
            rows = {(source, i): self._collected(updates).received[i][0] for i in updates.clients}
            matrix, good = self._inner(updates.round, rows, "gram", "all inner products and norms of the updates")
            self._reject_rows(updates, [i for i, kept in zip(updates.clients, good, strict=True) if not kept])
            clients = tuple(i for i, kept in zip(updates.clients, good, strict=True) if kept)
            matrix = matrix[np.ix_(good, good)]
            self._grams[updates.name] = Gram(clients, matrix, self._terms.gram_tolerance(np.diagonal(matrix)))
        return self._grams[updates.name]

    def edge(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        return self._kept(updates, clients, EDGE)

    def remember(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        return self._kept(updates, clients, KEPT)

    def _kept(self, updates: Updates, clients: Sequence[int], purpose: str) -> Remembered:
        collected, chosen = self._collected(updates), tuple(sorted(clients))
        if missing := [i for i in chosen if i not in collected.received]:
            raise Refused(f"no update of client {missing[0]} in {updates.name}; ask about its survivors")
        name = unused(f"{updates.name}{purpose}", self.server.kept)
        self.server.kept[name] = Shared(collected.session.digest, {i: collected.received[i][0] for i in chosen})
        return Remembered(name, chosen, of=len(updates.clients))

    def keep(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        return self.remember(updates, clients)

    def recall(self, round: int, kept: Sequence[Remembered], /) -> Gram:
        """One Gram question about all of them; who is out of range is left out."""
        shares: dict[int, tuple[Row, Words]] = {}
        for handle in kept:
            found = self._shares_of(handle)
            if not set(handle.clients) <= found.keys():
                raise Refused(f"the kept updates {handle.name} are gone; keep their handle when retiring")
            shares |= {i: ((self.server.kept[handle.name].session, i), found[i]) for i in handle.clients}
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
        """All rows enter one Gram question: the inner products among the new and among the old are disclosed as well.

        The row of a client that is rejected for it is NaN.
        """
        if not set(remembered.clients) <= self._shares_of(remembered).keys():
            raise Refused(f"the remembered updates {remembered.name} are gone; keep their handle when retiring")
        collected = self._collected(updates)
        if not remembered.clients:
            return np.zeros((len(updates.clients), 0))
        kept = self.server.kept[remembered.name]
        new = {(collected.session.digest, i): collected.received[i][0] for i in updates.clients}
        old = {(kept.session, i): kept.shares[i] for i in remembered.clients}
        rows = dict(sorted((new | old).items()))
        words = "all inner products and norms of the updates and of those of earlier rounds that they are compared with"
        matrix, good = self._inner(updates.round, rows, "gram(remember)", words)
        place = {row: at for at, row in enumerate(rows)}
        self._reject_rows(updates, [i for source, i in new if not good[place[source, i]]])
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
        kept = self.server.kept.get(remembered.name)
        return kept.shares if kept is not None else {}

    def _inner(
        self, round: int, rows: Mapping[Row, Words], what: str, words: str
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The Gram matrix of the rows, in the updates' units, and which rows are in range. Raises Refused or ProtocolError."""
        terms, count = self._terms, len(rows)
        most = terms.most_products
        if most and any(self._products.get(row, 0) + count > most for row in rows):
            raise Refused(
                f"another Gram question of {count} updates is refused: with more than {most} inner products under fresh"
                f" projections an update of {terms.length} coordinates could be computed; use k={terms.length + terms.length % 2}"
            )
        self._network.allow(max_bytes(terms, count))
        run, number = self._setup.run, self._next_question()
        ended = gram(self._network, self._parties, terms, run, number, list(rows.items()), self._setup.entropy)
        for row in rows:
            self._products[row] = self._products.get(row, 0) + count
        about = tuple(sorted({client for _, client in rows}))
        if not isinstance(ended, Unanswered):
            self._disclose(round, "server", what, about, count * (count + 1) // 2, words)
            self._put_on_record(number, list(rows))
        self._disclose(round, "second server", what, about, 0, "whose inner products were asked for, and none of them")
        self._disclose(round, "dealer", what, (), 1, "how many updates were compared, and nothing of them")
        if isinstance(ended, Unanswered):
            raise ProtocolError(f"{what} of round {round} was not answered", ended.waited_for)
        return ended.gram.astype(np.float64) * terms.gram_unit, consistent(terms, ended.gram)

    def _put_on_record(self, question: int, rows: Sequence[Row]) -> None:
        """All inner products among these rows were told, and none with others: a key of their own."""
        for session in dict.fromkeys(session for session, _ in rows):
            cluster, round, kind = self._sources[session]
            clients = tuple(sorted(client for source, client in rows if source == session))
            key = f"Gram question {question}".encode()
            self.sketched.append(Sketched(key, "raw", kind, round, cluster, clients))

    # --- keeping and forgetting ---------------------------------------------------------------------------------------

    def retire(self, models: Iterable[Model], remembered: Iterable[Remembered], /) -> None:
        remembered = list(remembered)
        super().retire(models, remembered)
        handles = [r for r in remembered if r.name in self.server.kept]
        shares = {r.name: {i: n for i, n in self._shares_of(r).items() if i in r.clients} for r in handles}
        self.server.kept = {r.name: replace(self.server.kept[r.name], shares=shares[r.name]) for r in handles if shares[r.name]}
        rows = sorted({(shared.session, client) for shared in self.server.kept.values() for client in shared.shares})
        self._sources = {session: self._sources[session] for session in {session for session, _ in rows}}
        self._products = {row: self._products[row] for row in rows if row in self._products}
        forget(self._network, self.helpers, self._setup.run, self._next_question(), rows)

    def _forget_round(self) -> None:
        super()._forget_round()
        self._forget_shares(list(self.server.shares))

    def _forget_shares(self, names: Iterable[str]) -> None:
        for name in list(names):
            for store in (self.server.shares, self._grams, self._rejected, self._gate.published):
                store.pop(name, None)

    def save(self) -> Snapshot:
        saved = super().save()
        remembered, counters = packed(self.server.kept, self.helpers)
        counters[SERVER] = {QUESTION: self._questions}
        return replace(saved, remembered=remembered, next_round={**saved.next_round, **counters})

    def restore(self, snapshot: Snapshot, remembered: Iterable[Remembered], /) -> None:
        super().restore(snapshot, ())
        self.server.kept, self._products = unpacked(snapshot, remembered, self.helpers)
        self._questions = snapshot.next_round[SERVER][QUESTION]
        self._sources = {kept.session: source_of(name) for name, kept in self.server.kept.items()}

    # --- inside -------------------------------------------------------------------------------------------------------

    def _collected(self, updates: Updates) -> Collected:
        if updates.name not in self.server.shares:
            raise Refused(f"the updates of {updates.name} are gone; ask in the round that collected them, or remember them")
        return self.server.shares[updates.name]

    def _next_question(self) -> int:
        self._questions += 1
        return self._questions - 1

    def _reject_rows(self, updates: Updates, clients: Iterable[int]) -> None:
        rejected = self._rejected.setdefault(updates.name, set())
        new = [i for i in clients if i not in rejected]
        rejected.update(new)
        self._reject(new, "what was shared is out of range: no update of norm up to max_norm has these inner products")
