"""Encryption under a key that the clients share: the server adds and compares ciphertexts, and owns no model.

Clients hold their updates. A sum is one session of the encrypted sum (specs/encrypted.md) among the clients that it is about; its
members open it. Inner products are of encrypted secret sketches: one client opens them and says rounded cosines and norms.
Whoever has the seed that all clients share opens every ciphertext: server and any one client together read every update.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...crypto.ckks import MOST_DIGITS, PRODUCTS, SUMS
from ...crypto.ckks import Encrypted as Ciphertexts
from ...crypto.projection import TwoStage
from ..answers import Functionality, Gram, Model, Owner, Remembered, Snapshot, Sum, Updates, Work
from ..errors import ProtocolError, Refused
from ..group_seed import PROTOCOL as SEED_EXCHANGE
from ..group_seed import agree
from ..held_view import Question
from ..in_process import Fault, InProcess
from ..messages import HEAD_BYTES, Task
from ..personal import PersonalQuestion
from ..roles import Effect, Learned, Party, Worked
from ..session import SERVER, Session
from ..sides import ServerSide
from ..sketch_view import DEVIATIONS, Keys, SketchSecret
from ..span import Row
from ..uploads import from_bytes
from ..view import LocalWork, Setup
from ..view_base import Clients, unused
from . import keys as encrypted_keys
from . import scores as encrypted_scores
from . import sum as encrypted_sum
from .client import client_step, sketch_of
from .client_phases import SCORES, SKETCH, SUM, Idle, Policy
from .keys import Failed, KeyName, RelayedKey
from .messages import SEALED_BYTES, products_of
from .scaling import MOST_SAMPLES, Weighting, mean_error, score_tolerance, sum_tolerance, unsketchable, unsummable
from .slot_sums import EncryptedSlotSums, Perform

OF_MEMBERS = "the mean update of their own cluster and its total weight"
OF_ONE = "its own weighted mean of these updates; others' too, if it kept what is not for it"
OF_ALL = "nothing without the seed that every client holds; with it, all of it"


@dataclass(frozen=True, slots=True)
class Encrypted:
    """Clients encrypt under a key that they share; the server adds and multiplies what it cannot read.

    k: measurements of an update that a sketch has, at most half of its coordinates (fewer are taken then); up to 4096 cost
    the same. digits: decimals of the cosines and of the logarithms of norms that the server is told. keys: "run" for one
    sketch and one key for sketches, so that updates of different rounds compare; "session" for one per (round, cluster).
    Keys of sums are always new. floor: fewest clients in a sum, counted by the clients that open it.

    Slots are answered in one sum, opened in two steps: counts, which members tell the server, then those slots that `floor`
    clients chose, by the server's count and by each member's own. Whoever holds the key could open more.
    """

    k: int = 1024
    digits: int = 3
    keys: Keys = "run"
    floor: int = 3

    def __post_init__(self) -> None:
        if self.keys not in ("run", "session"):
            raise ValueError(f'keys is "run" or "session", not {self.keys!r}')
        if self.floor < 2:
            raise ValueError(f"floor is at least 2, not {self.floor}: a sum of one update is that update")
        if self.k < 1 or not 1 <= self.digits <= MOST_DIGITS // 2:
            raise ValueError(f"k is at least 1, and digits are 1 to {MOST_DIGITS // 2}: more would show the encryption's noise")

    @property
    def gives(self) -> frozenset[Functionality]:
        given = {Functionality.SUMS, Functionality.GRAM, Functionality.CHOICE, Functionality.SLOTS, Functionality.PERSONAL_SUMS}
        return frozenset(given | {Functionality.GRAM_REMEMBER} if self.keys == "run" else given)

    def open(self, setup: Setup, /) -> "EncryptedView":
        return EncryptedView(setup, self)


class EncryptedServer(ServerSide):
    """What the server holds beside: encrypted sketches of the round and of remembered updates, and keys, public or sealed."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: dict[KeyName, RelayedKey] = {}
        self.sketches: dict[str, Mapping[int, Ciphertexts]] = {}
        self.kept: dict[str, Mapping[int, Ciphertexts]] = {}
        self.scores: dict[str, encrypted_scores.Compared] = {}
        self.shown: dict[str, list[Row]] = {}  # what members have been sent sums of, by the updates' handle: of the survivors


class EncryptedView(EncryptedSlotSums):
    """Answers sums by encrypted sums, and inner products by encrypted scores. Implements `ServerView`."""

    server: EncryptedServer

    def __init__(self, setup: Setup, how: Encrypted) -> None:
        session = Session(SEED_EXCHANGE, setup.run, 0, "all", tuple(sorted(setup.clients)), len(setup.clients))
        seed, exchanged = agree(session, setup.entropy, setup.tap)
        network = InProcess(setup.tap, max_bytes=HEAD_BYTES)
        network.add_costs(exchanged)
        network.messages, network.bytes_up, network.bytes_down = exchanged.messages, exchanged.bytes_up, exchanged.bytes_down
        super().__init__(setup, "clients", how.floor, network)
        self.server = EncryptedServer()
        self._how = how
        self._everybody = session.roster
        d = len(setup.initial)
        self._sketch = SketchSecret(seed, setup.run, how.keys, d, min(how.k, max(d // 2, 1)))
        policy = Policy(how.floor, how.floor, how.keys, how.digits)
        self._holders = {i: Party(i, Idle(i, setup.run, policy, seed, self._sketch, d), client_step) for i in session.roster}
        self._opened: dict[bytes, NDArray[np.float32]] = {}  # at the clients: means by session digest
        self._remembered: dict[str, dict[int, NDArray[np.float32]]] = {}  # at the clients: what they encrypted, to do it again
        network.allow(PRODUCTS.context_bytes + PRODUCTS.encrypting_bytes + SEALED_BYTES + HEAD_BYTES)
        network.allow(-(-(d + 2) // SUMS.slots) * (SUMS.ciphertext_bytes + 4) + SEALED_BYTES + HEAD_BYTES)

    def _unfit(self, work: LocalWork) -> str | None:
        return super()._unfit(work) or unsummable(work.vector, 1) or unsketchable(work.sketched)

    def _run(self, parties: Mapping[bytes, Party], opening: Iterable[Effect], perform: Perform | None = None) -> None:
        """Play these sessions of the server among the clients that hold keys."""
        sent: Iterator[tuple[int, Effect]] = ((SERVER, effect) for effect in opening)
        self._network.run(self._holders, parties, sent, perform or (lambda tasks: iter(())), self._learn)

    def _learn(self, client: int, effect: Learned) -> None:
        if effect.session not in self._opened:
            self._opened[effect.session] = from_bytes(effect.vector)

    def _failed(self, ended: Failed, what: str) -> None:
        reason = f"{what} failed at stage {ended.stage}: {ended.have} of {ended.need} were there"
        self._network.faults.append(Fault(SERVER, reason))

    # --- keys ---------------------------------------------------------------------------------------------------------

    def _new_keys(self, rosters: Mapping[KeyName, Clients]) -> dict[KeyName, RelayedKey]:
        """A fresh key for each name, made by the lowest client that answers; those that nobody made are left out."""
        states = {name: encrypted_keys.Asking(name, name.session(roster)) for name, roster in rosters.items()}
        parties = {name: Party(SERVER, state, encrypted_keys.server_step) for name, state in states.items()}
        opening = [effect for state in states.values() for effect in encrypted_keys.ask(state)]
        self._run({states[name].session.digest: party for name, party in parties.items()}, opening)
        found = {}
        for name, party in parties.items():
            if isinstance(party.state, encrypted_keys.Keyed):
                found[name] = party.state.key
            else:
                self._failed(party.state, f"the key {name.name} of round {name.round}")
        return found

    def _sketch_key(self, round: int, label: str, roster: Clients) -> RelayedKey:
        """The key of sketches: the run's, or of the updates of this round and label. Raises ProtocolError if nobody makes one."""
        of_run = self._how.keys == "run"
        name = KeyName(self._setup.run, "products", 0 if of_run else round, "all" if of_run else label)
        if name not in self.server.keys:
            roster = self._everybody if of_run else roster
            self.server.keys |= self._new_keys({name: roster})
            if name not in self.server.keys:
                raise ProtocolError(f"no client made the key for the sketches of {label}", roster[0])
        return self.server.keys[name]

    # --- sums ---------------------------------------------------------------------------------------------------------

    def _sum(self, questions: Sequence[Question]) -> Mapping[str, Sum]:
        """The sums of updates that nothing was shown of in one pass, then the others one by one.

        Before a sum is sent, what survived of it is held against what members have: clients lost after the question was
        found safe could leave a sum that shows too few with another. Disjoint sums of enough clients cannot, so they go together.
        """
        self.server.shown = {name: rows for name, rows in self.server.shown.items() if name in self._made}
        fresh = [q for q in questions if not self.server.shown.get(q.updates.name)]
        found = dict(self._sum_at_once(fresh)) if fresh else {}
        for question in (q for q in questions if q not in fresh):
            found |= self._sum_at_once([question])
        return found

    def _sum_at_once(self, questions: Sequence[Question]) -> Mapping[str, Sum]:
        """One key and one encrypted sum for each question, all in one pass."""
        run, d = self._setup.run, len(self._setup.initial)
        named = {q.label: f"{q.label}/{self._known(q.updates).kind}/{q.number}" for q in questions}
        names = {q.label: KeyName(run, "sums", q.updates.round, named[q.label]) for q in questions}
        keys = self._new_keys({names[q.label]: tuple(sorted(q.row)) for q in questions})
        plans: dict[str, tuple[Question, encrypted_sum.SumPlan]] = {}
        for q in (q for q in questions if names[q.label] in keys):
            least = self._how.floor + (q.alone in q.row)
            session = Session(SUM, run, q.updates.round, named[q.label], tuple(sorted(q.row)), least)
            weighting = Weighting(q.row, q.times_samples)
            shown = () if q.alone is not None else tuple(self.server.shown.get(q.updates.name, ()))
            common = session, keys[names[q.label]], weighting, d, q.receivers
            plans[q.label] = q, encrypted_sum.SumPlan(*common, shown=shown, floor=self._how.floor)
        question_of = {client: q for q, _ in plans.values() for client in q.row}

        def perform(tasks: list[tuple[int, Task]]) -> Iterator[tuple[int, Worked]]:
            for client, work in self._results({i: question_of[i].updates.name for i, _ in tasks}):
                counted = work.samples if question_of[client].times_samples else 1
                if (reason := unsummable(work.vector, counted)) is not None:
                    self._reject([client], reason)
                    continue
                yield client, Worked(work.vector, counted)

        servers = {label: Party(SERVER, encrypted_sum.Adding(p), encrypted_sum.server_step) for label, (_, p) in plans.items()}
        opening = (effect for _, plan in plans.values() for effect in encrypted_sum.invite(plan))
        self._run({plan.session.digest: servers[label] for label, (_, plan) in plans.items()}, opening, perform)
        found = {label: self._read(q, plan, servers[label].state) for label, (q, plan) in plans.items()}
        self._opened.clear()
        return {label: answer for label, answer in found.items() if answer is not None}

    def _read(self, question: Question, plan: encrypted_sum.SumPlan, ended: encrypted_sum.Summed | Failed) -> Sum | None:
        """The answer in the end of an encrypted sum; None, and a fault on record, if there is none."""
        round, d, digest = question.updates.round, plan.length, plan.session.digest
        told = ("sums", OF_MEMBERS) if question.alone is None else ("personal sums", OF_ONE)
        about = ended.clients if isinstance(ended, encrypted_sum.Summed) else ended.shown or tuple(sorted(question.row))
        if question.alone is None:
            sent = isinstance(ended, encrypted_sum.Summed) or bool(ended.shown)
            self._came_true(question, [{i: question.row[i] for i in about}] if sent else [])
        self._disclose(round, "server", "ciphertexts of updates", about, 0, OF_ALL)
        if isinstance(ended, Failed):
            self._failed(ended, f"the encrypted sum {question.label}")
            if digest in self._opened:  # members have it; the server did not hear of it
                self._disclose(round, "clients", told[0], about, d + 1, told[1], question.alone)
            return None
        self._network.faults += [Fault(i, "another total weight than most members found") for i in ended.blame]
        if question.times_samples:
            self._disclose(round, "server", "total weight", about, 1, "the sum of the weights times sample counts, rounded")
        self._disclose(round, "clients", told[0], about, d + 1, told[1], question.alone)
        name = unused(question.label, self._means)
        self._means[name] = self._opened[plan.session.digest]
        unit, of = plan.weighting.unit, [plan.weighting.of[i] for i in about]
        most = sum(map(abs, of)) * MOST_SAMPLES if question.times_samples else sum(map(abs, of))
        weights = abs(ended.weight) if min(of) > 0 or max(of) < 0 else most
        error = mean_error(d, len(about), weights / unit, abs(ended.weight) / unit)
        tolerance = sum_tolerance(d) + plan.weighting.weight_error / abs(ended.weight)
        to: Owner | int = "clients" if question.alone is None else question.alone
        return Sum(name, to, about, ended.weight, tolerance, None, error)

    def _came_true(self, question: Question, rows: list[Row]) -> None:
        """Put the rows of the survivors, if anything was sent, in the place of what was asked for."""
        name = question.updates.name
        self.server.shown.setdefault(name, []).extend(rows)
        others = [row for row in self.server.published[name] if row is not question.row]
        self.server.published[name] = [*others, *rows]

    def _personal(self, updates: Updates, questions: list[PersonalQuestion]) -> Mapping[int, Sum]:
        """An encrypted sum for each receiver, which the server sends to nobody else. Whoever holds the key could open it."""
        found: dict[int, Sum] = {}
        for q in questions:
            number = self._numbered[updates.name]
            self._numbered[updates.name] += 1
            asked = Question(q.label, updates, number, q.row, False, (q.receiver,), q.receiver)
            if (answer := self._sum([asked]).get(q.label)) is not None:
                found[q.receiver] = answer
        return found

    # --- inner products -----------------------------------------------------------------------------------------------

    def gram(self, updates: Updates, /) -> Gram:
        sketches = self._sketches(updates)
        clients, digits = tuple(sketches), self._how.digits
        if not clients:
            return Gram((), np.zeros((0, 0)), 0.0)
        found = self._scores(updates, updates.name, list(sketches.values()), [])
        size = len(clients) * (len(clients) + 1) // 2
        words = f"inner products of sketches and norms of the updates, as cosines and logarithms of {digits} decimals"
        self._disclose(updates.round, "server", "gram", clients, size, words)
        error = self._sketch(self._sketch_session(updates).digest).error
        matrix = found.cosines * np.outer(found.norms, found.norms)
        return Gram(clients, matrix, DEVIATIONS * error + score_tolerance(digits))

    def _sketch_of(self, task: Task, kind: Work) -> Callable[[], TwoStage] | None:
        return (lambda: self._sketch(b"")) if self._how.keys == "run" else None

    def _sketch_session(self, updates: Updates) -> Session:
        return Session(SKETCH, self._setup.run, updates.round, updates.name, updates.clients, 1)

    def _scores(
        self, updates: Updates, label: str, rows: Sequence[Ciphertexts], columns: Sequence[Ciphertexts]
    ) -> encrypted_scores.Compared:
        """Have one client of the updates open the products of these sketches, once. Raises ProtocolError if nobody does."""
        if label in self.server.scores:
            return self.server.scores[label]
        roster = tuple(self._sketches(updates))
        key = self._sketch_key(updates.round, updates.name, roster)
        session = Session(SCORES, self._setup.run, updates.round, label, roster, 1)
        with self._network.timed(SERVER):
            state = encrypted_scores.comparison(session, key, rows, columns, self._how.digits)
        count = products_of(len(rows), len(columns))
        self._network.allow(count * (PRODUCTS.ciphertext_bytes + 16) + SEALED_BYTES + HEAD_BYTES)
        server = Party(SERVER, state, encrypted_scores.server_step)
        self._run({session.digest: server}, encrypted_scores.ask(state))
        words = "one of the clients opens the inner products of encrypted sketches, unrounded"
        self._disclose(updates.round, "key holder", "gram", roster, count, words)
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
        return received

    def remember(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        self._needs_one_key()
        sketches, chosen = self._sketches(updates), tuple(sorted(clients))
        self._all_there(updates, sketches, chosen)
        name = unused(f"{updates.name}/kept", self.server.kept)
        self.server.kept[name] = {i: sketches[i] for i in chosen}
        held, digest = self.clients.held[updates.name], self._sketch_session(updates).digest
        shown = {i: held[i].sketched for i in chosen}
        self._remembered[name] = {i: sketch_of(self._holders[i].state, digest, x).astype(np.float32) for i, x in shown.items()}
        return Remembered(name, chosen)

    def cosines(self, updates: Updates, remembered: Remembered, /) -> NDArray[np.float64]:
        self._needs_one_key()
        kept = self.server.kept.get(remembered.name, {})
        if any(i not in kept for i in remembered.clients):
            raise Refused(f"the remembered updates {remembered.name} are gone; keep their handle when retiring")
        columns = [kept[i] for i in remembered.clients]
        sketches = self._sketches(updates)
        self._all_there(updates, sketches, updates.clients)
        rows = [sketches[i] for i in updates.clients]
        if not rows or not columns:
            return np.zeros((len(rows), len(columns)))
        label = f"{updates.name} to {','.join(map(str, remembered.clients))} of {remembered.name}"
        found = self._scores(updates, label if len(label) <= 256 else hashlib.sha256(label.encode()).hexdigest(), rows, columns)
        about = tuple(sorted({*updates.clients, *remembered.clients}))
        words = f"cosines of sketches with those of earlier rounds, of {self._how.digits} decimals"
        self._disclose(updates.round, "server", "gram(remember)", about, found.cosines.size, words)
        return found.cosines

    def coordinates(self, updates: Updates, name: str, rule: Callable[[NDArray[np.float32]], NDArray[np.float32]], /) -> Sum:
        raise Refused("order statistics of coordinates need the coordinates, which this protection hides; use Plain or Permuted")

    def _needs_one_key(self) -> None:
        if self._how.keys != "run":
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

    def _forget_round(self) -> None:
        super()._forget_round()
        self.server.sketches.clear()
        self.server.scores.clear()
        self.server.keys = {name: key for name, key in self.server.keys.items() if name.name == "all"}

    def save(self) -> Snapshot:
        rows = {name: np.stack(list(kept.values())) for name, kept in self._remembered.items() if kept}
        return replace(super().save(), remembered=rows)

    def restore(self, snapshot: Snapshot, remembered: Iterable[Remembered], /) -> None:
        """Continue from a snapshot. What is remembered is encrypted again, under the key of this run of the program."""
        handles = list(remembered)
        for i, party in self._holders.items():
            latest = max(snapshot.next_round.get(i, {}).values(), default=0)
            party.state = replace(party.state, round=latest, spent=frozenset())
        self._remembered = {r.name: dict(zip(r.clients, snapshot.remembered[r.name], strict=True)) for r in handles if r.clients}
        self.server.kept = {}
        if self._remembered:
            public = self._sketch_key(0, "all", self._everybody).public
            for name, rows in self._remembered.items():
                self.server.kept[name] = {i: public.read(public.encrypt(row).to_bytes(), len(row)) for i, row in rows.items()}
        super().restore(snapshot, [])
