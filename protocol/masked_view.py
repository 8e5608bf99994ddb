"""Secure aggregation: the server learns sums, by the masked sum, and a noisy Gram matrix, by the two-stage secret sketch.

Clients hold their updates. A sum is one session of the masked sum (specs/masked_sum.md) among the clients that it is about,
with their sample counts inside. Inner products come from sketches (sketches.py), uploaded when they are asked for. The server
owns the models: it knows the sums.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ..crypto.fixed_point import FixedPoint
from .answers import Functionality, Remembered, Snapshot, Sum, Traffic, Updates, Weights
from .errors import Refused
from .group_seed import PROTOCOL as SEED_EXCHANGE
from .group_seed import agree
from .held_view import Question
from .in_process import Fault
from .masked_input import InputTerms, beyond
from .masked_server import Advertising, Failed, Summed, propose, server_step
from .masked_sum import Members, max_bytes
from .masked_terms import PROTOCOL, Plan, Policy, Terms, encode_weights
from .masking_graph import Parameters, solve
from .messages import Task
from .roles import Deadline, Party, Worked
from .session import SERVER, Session
from .sketch_view import Keys, SketchSecret, SketchView
from .span import Row
from .uploads import to_bytes
from .view import LocalWork, Setup
from .view_base import unused


@dataclass(frozen=True, slots=True)
class Masked:
    """Clients add masks that cancel in the sum; similarities come from secret sketches.

    sketch: measurements of an update that a sketch has, at most half of its coordinates (fewer are taken then). keys: "run"
    for one secret sketch, so that updates of different rounds compare; "session" for one per (round, cluster). floor: fewest
    clients in a sum, held by clients too. clip: largest absolute coordinate of an update; a client whose update exceeds it
    sits out and says so. max_samples: likewise for its number of samples, in sums that count them. ring_bits: 32 or 64.
    corrupt, dropped: largest shares of a sum's clients that collude with a malicious server, and that drop out.
    """

    sketch: int = 1024
    keys: Keys = "run"
    floor: int = 3
    clip: float = 4.0
    max_samples: int = 10_000
    ring_bits: int = 32
    corrupt: float = 0.1
    dropped: float = 0.25

    def __post_init__(self) -> None:
        if self.keys not in ("run", "session"):
            raise ValueError(f'keys is "run" or "session", not {self.keys!r}')
        if self.floor < 2:
            raise ValueError(f"floor is at least 2, not {self.floor}: a sum of one update is that update")
        if self.sketch < 1 or self.max_samples < 1:
            raise ValueError("sketch and max_samples are at least 1")
        FixedPoint.finest(self.ring_bits, self.clip, self.floor, 1)

    @property
    def gives(self) -> frozenset[Functionality]:
        given = {Functionality.SUMS, Functionality.GRAM, Functionality.PAIRS}
        return frozenset(given | {Functionality.GRAM_REMEMBER} if self.keys == "run" else given)

    def open(self, setup: Setup, /) -> "MaskedView":
        return MaskedView(setup, self)


class MaskedView(SketchView):
    """Answers sums by masked sums. Implements `ServerView`."""

    compares_pairs = True

    def __init__(self, setup: Setup, how: Masked) -> None:
        session = Session(SEED_EXCHANGE, setup.run, 0, "all", tuple(sorted(setup.clients)), len(setup.clients))
        seed, network = agree(session, setup.entropy, setup.tap)
        d = len(setup.initial)
        secret = SketchSecret(seed, setup.run, how.keys, d, min(how.sketch, max(d // 2, 1)))
        before = Traffic(network.messages, network.bytes_up, network.bytes_down)
        super().__init__(setup, "server", how.floor, secret, before)
        self.add_costs(network)
        self._how = how
        members = Members.enrol(session.roster, setup.entropy)
        policy = Policy(min_cohort=how.floor, min_survivors=how.floor)
        self._enrolled = members.enrolled
        self._maskers = members.parties(setup.run, bytes(32), policy, setup.entropy)

    def _unfit(self, work: LocalWork) -> str | None:
        return super()._unfit(work) or beyond(work.vector, self._how.clip)

    def _sum(self, questions: Sequence[Question]) -> Mapping[str, Sum]:
        """One masked sum for each question, all in one pass."""
        asked = {q.label: (q, self._inputs(q)) for q in questions}
        with self._network.timed(SERVER):
            plans = {label: self._plan(q, inputs) for label, (q, inputs) in asked.items()}
            proposals = [(SERVER, send) for plan in plans.values() for send in propose(plan)]
        servers = {label: Party(SERVER, Advertising(plan), server_step) for label, plan in plans.items()}
        label_of = {client: q.label for q in questions for client in q.row}

        def perform(tasks: list[tuple[int, Task]]) -> Iterator[tuple[int, Worked]]:
            names = {client: asked[label_of[client]][0].updates.name for client, _ in tasks}
            for client, work in self._results(names):
                question, inputs = asked[label_of[client]]
                with self._network.timed(client):
                    reason = inputs.unfit(work)
                    ring = inputs.encode(work, question.row[client]) if reason is None else None
                if reason is not None:
                    self._reject([client], reason)
                    continue
                yield client, Worked(ring, 1)

        for label, client in ((q.label, i) for q in questions for i in q.row):
            self._maskers[client].state = replace(self._maskers[client].state, model=plans[label].terms.model)
        self._network.allow(max(max_bytes(plan.terms) for plan in plans.values()))
        sessions = {plan.session.digest: servers[label] for label, plan in plans.items()}
        self._network.run(self._maskers, sessions, proposals, perform, self._learn)
        for client in label_of:
            self._maskers[client].handle(Deadline())
        found = {label: self._read(q, inputs, servers[label].state) for label, (q, inputs) in asked.items()}
        return {label: answer for label, answer in found.items() if answer is not None}

    def _countable(self, updates: Updates, rows: Mapping[str, Row], name: str, weights: Weights) -> None:
        """Clients give one update to sums among the same clients only (masked_span.py): others are refused here."""
        super()._countable(updates, rows, name, weights)
        summed = [row for row in rows.values() if len(row) >= self._floor] if len(rows[name]) >= self._floor else []
        for other in [*self.server.published[updates.name], *summed]:
            if other.keys() != rows[name].keys() and not other.keys().isdisjoint(rows[name]):
                raise Refused(f"sum {name} overlaps with a sum of the same updates over other clients; clients would not answer")

    def _inputs(self, question: Question) -> InputTerms:
        how = self._how
        largest = max(abs(a) for a in question.row.values())
        counted = how.max_samples if question.times_samples else 0
        return InputTerms(how.ring_bits, how.clip, len(question.row), largest, counted)

    def _plan(self, question: Question, inputs: InputTerms) -> Plan:
        """Raises Refused if no masking graph serves so few clients."""
        made, updates = self._known(question.updates), question.updates
        roster = tuple(sorted(question.row))
        try:
            graph = _parameters(len(roster), self._how.corrupt, self._how.dropped)
        except ValueError as error:
            raise Refused(f"sum {question.label} cannot be masked: {error}") from None
        name = f"{PROTOCOL}/{made.kind}/{question.number}"
        session = Session(name, self._setup.run, updates.round, updates.cluster, roster, self._how.floor)
        model = hashlib.sha256(to_bytes(self.server.models[made.model.name])).digest()
        seed = self._setup.entropy.secret(f"masking graph {made.session.hex()}", 32)  # one for all sums of the same updates
        row = (made.session, encode_weights(roster, question.row), int(question.times_samples))
        size = (self._how.ring_bits, inputs.length(len(self._setup.initial)), inputs.fixed.bits, self._how.clip, 1)
        terms = Terms(*size, graph.neighbours, graph.threshold, seed, model, *row)
        return Plan.of(session, terms, self._enrolled)

    def _read(self, question: Question, inputs: InputTerms, ended: Summed | Failed) -> Sum | None:
        """The answer in the end of a masked sum; None, and a fault on record, if there is none."""
        if isinstance(ended, Failed):
            who = "" if ended.client is None else f" for client {ended.client}"
            reason = (
                f"the masked sum {question.label} failed at stage {ended.stage}: {ended.have} of {ended.need} were there{who}"
            )
            self._network.faults += [Fault(i, reason) for i in ended.blame or (SERVER,)]
            return None
        self._network.faults += [Fault(i, "a share that was not the one it was dealt") for i in ended.bad]
        weights = np.array([question.row[i] for i in ended.clients])
        try:
            with self._network.timed(SERVER):
                total = inputs.decode(ended.total, weights)
        except ValueError as error:
            self._network.faults.append(Fault(SERVER, f"the masked sum {question.label} cannot be read: {error}"))
            return None
        if total is None:
            return None
        words = "the sum of the updates" + (", and of the sample counts" if question.times_samples else "")
        self._disclose(question.updates.round, "server", "sums", ended.clients, len(ended.total), words)
        self._disclose(
            question.updates.round, "clients", "sums", ended.clients, len(total.mean), "the mean update of their own cluster"
        )
        name = unused(question.label, self._means)
        self._means[name] = total.mean
        norm = float(np.linalg.norm(total.mean.astype(np.float64)))
        return Sum(name, "server", ended.clients, total.weight, total.relative, norm, total.error)

    # --- keeping ------------------------------------------------------------------------------------------------------

    def save(self) -> Snapshot:
        saved = super().save()
        spent = {i: {**saved.next_round[i], **masker.state.next_round} for i, masker in self._maskers.items()}
        return replace(saved, next_round=spent)

    def restore(self, snapshot: Snapshot, remembered: Iterable[Remembered], /) -> None:
        super().restore(snapshot, remembered)
        for i, masker in self._maskers.items():
            spent = snapshot.next_round.get(i, {})
            sums = {name: round for name, round in spent.items() if name.startswith(PROTOCOL)}
            masker.state = replace(masker.state, next_round=sums)


@lru_cache(maxsize=256)
def _parameters(clients: int, corrupt: float, dropped: float) -> Parameters:
    return solve(clients, corrupt, dropped, malicious=True)
