"""Receiver-opened sums in the view of secure aggregation: a masked sum for each receiver, which it alone can open.

Spec: specs/receiver_opened.md. The receiver's own update is not in the masked sum: it adds that itself.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ....crypto.fixed_point import Nearest
from ...core.errors import Refused
from ...core.session import SERVER, Session
from ...drivers.in_process import no_work
from ...drivers.roles import Deadline, Effect, Party
from ...parts.held import HeldUpdates
from ...parts.leverage import largest
from ...parts.models import Models
from ...parts.personal import PersonalQuestion
from ...parts.run import Run, nothing
from ...view.answers import Remembered, Snapshot, Sum, Updates
from ...wire.messages import HEAD_BYTES
from ..masking import MaskedSessions
from ..server import Unmasked
from ..terms import Plan
from .server import Inviting, NotOpened, SendersAgreed, forward, invite, server_step
from .terms import PROTOCOL, OpeningPolicy, ReceiverSum, most_bits

UNDER_MASKS = "who is in the sum for one client, and the sum under masks that only this client can take off"
OWN_SUM = "a weighted sum of these clients' updates, which it alone can open, and its weights"


@dataclass(frozen=True, slots=True)
class OpenedTerms:
    """Public, of a run. colluding: groups of clients whose sums are checked as if they put them together."""

    ring_bits: int
    clip: float
    colluding: tuple[frozenset[int], ...] = ()


class ReceiverOpened:
    """Answers personal sums, each by a masked sum that its receiver alone opens. openers: the clients' parts in it."""

    def __init__(
        self, run: Run, models: Models, held: HeldUpdates, sessions: MaskedSessions, terms: OpenedTerms, noisy: bool
    ) -> None:
        rules = run.gate.rules
        self._run = run
        self._models = models
        self._held = held
        self._sessions = sessions
        self._terms = terms
        self._noisy = noisy
        self._policy = OpeningPolicy(rules.floor, terms.colluding, corrupt=rules.corrupt)
        self.openers = sessions.openers

    def allies(self, receiver: int) -> frozenset[int]:
        """The receiver, and who is taken to know what it knows."""
        return self._policy.group(receiver)

    def check_together(self, updates: Updates, questions: list[PersonalQuestion]) -> None:
        """Raises Refused for sums that together show too much to receivers that are known to collude."""
        openings = self._openings(updates, questions)
        for at, opening in enumerate(openings):
            if self._policy.reveals(opening, openings[:at]):
                raise Refused(
                    f"the sum for client {opening.receiver} could show it and those that collude with it what fewer than"
                    f" {self._run.gate.rules.floor} of the others sent"
                )

    def answer(self, updates: Updates, questions: list[PersonalQuestion]) -> Mapping[int, Sum]:
        """All keys, then a masked sum for each receiver: clients are in all of them."""
        if self._noisy:
            raise Refused("noise covers one sum of each client a round, not its personal ones; leave protection.noise out")
        agreed = self._agreed(self._apart(self._openings(updates, questions)))
        found = {}
        for q in questions:
            if (state := agreed.get(q.receiver)) is None:
                continue
            summed = self._masked_total(updates, q, state)
            if summed is not None and (answer := self._opened_sum(updates, q, state, summed)) is not None:
                found[q.receiver] = answer
        for opener in self.openers.values():  # clients leave all openings
            opener.handle(Deadline())
        return found

    def _apart(self, openings: list[ReceiverSum]) -> list[ReceiverSum]:
        """Those, in order, that corrupt receivers may put together; of the others none is opened, and a fault on record."""
        found: list[ReceiverSum] = []
        for opening in openings:
            if self._policy.reveals_to_corrupt(opening, found):
                told = f"the sum for client {opening.receiver} is not opened: beside those of others it could show"
                self._run.record.fault(SERVER, f"{told} {self._policy.corrupt} corrupt receivers what too few clients sent")
            else:
                found.append(opening)
        return found

    def _openings(self, updates: Updates, questions: list[PersonalQuestion]) -> list[ReceiverSum]:
        of = self._sessions.model_digest(updates), self._held.known(updates).session
        return [self._opening(updates, question, *of) for question in questions]

    def _opening(self, updates: Updates, question: PersonalQuestion, model: bytes, update: bytes) -> ReceiverSum:
        """Below its threshold nothing is opened: the floor, and where receivers may collude as many as may be left at least.

        Where several may be corrupt, nobody may be left out: equal rows of other survivors would tell who dropped out.
        """
        how, others, setup = self._terms, question.others, self._run.setup
        rules = self._run.gate.rules
        allies = self.allies(question.receiver)
        leverage = largest([{i: a for i, a in question.row.items() if i not in allies}])
        spare = math.floor((1 / leverage if leverage else 0.0) - rules.least + 1e-6)  # so many may be lost: `without`
        least = max(rules.least + len(allies & set(others)), len(others) - max(spare, 0))
        if len(allies) > 1:
            least = max(least, len(others) - math.floor(self._sessions.dropped * len(others) + 1e-9))
        if rules.corrupt > 1:
            least = max(least, len(others))
        label = f"{updates.cluster} for {question.receiver}"
        session = Session(PROTOCOL, setup.run, updates.round, label, others, least)
        weights = tuple(question.row[i] for i in others)
        bits = most_bits(how.ring_bits, len(others))
        try:
            return ReceiverSum(
                session,
                question.receiver,
                weights,
                how.ring_bits,
                len(setup.initial),
                bits,
                how.clip,
                model,
                update,
                question.row.get(question.receiver, 0.0),
            )
        except ValueError as error:
            raise Refused(f"{question.label} cannot be opened by one client: {error}") from None

    def _agreed(self, openings: list[ReceiverSum]) -> dict[int, SendersAgreed | None]:
        """Of each receiver, who shares a mask with it; None, and a fault on record, where these are too few."""
        enrolled = self._sessions.charter.enrolled
        servers = {o.receiver: Party(SERVER, Inviting(o, enrolled), server_step) for o in openings}
        largest = max(120 * len(o.session.roster) + 4 * o.length for o in openings)
        self._run.network.allow(HEAD_BYTES + 200 + largest)
        self._carry({o.session.digest: servers[o.receiver] for o in openings}, (e for o in openings for e in invite(o)))
        found: dict[int, SendersAgreed | None] = {}
        for receiver, server in servers.items():
            found[receiver] = server.state if isinstance(server.state, SendersAgreed) else None
            if isinstance(ended := server.state, NotOpened):
                reason = f"the sum for client {receiver} failed at stage {ended.stage}: {ended.have} of {ended.need} were there"
                self._run.record.fault(SERVER if ended.stage == "senders" else receiver, reason)
        return found

    def _masked_total(self, updates: Updates, question: PersonalQuestion, agreed: SendersAgreed) -> Unmasked | None:
        opening, senders = agreed.opening, agreed.senders
        try:
            graph = self._sessions.graph_of(len(senders))
        except ValueError as error:
            self._run.record.fault(SERVER, f"sum {question.label} cannot be masked: {error}")
            return None
        seed = self._run.setup.entropy.secret(f"masking graph {opening.binding.hex()}", 32)
        terms = opening.sum_terms(graph.neighbours, graph.threshold, seed)
        plan = Plan.of(opening.sum_session(senders), terms, self._sessions.charter)
        summed = self._sessions.mask({question.label: plan})[question.label]
        if summed is not None:
            self._run.record.disclose(updates.round, "server", "personal sums", summed.clients, 0, UNDER_MASKS)
        return summed

    def _opened_sum(self, updates: Updates, question: PersonalQuestion, agreed: SendersAgreed, summed: Unmasked) -> Sum | None:
        """What the receiver makes of the total; None, and a fault on record, if it did not get it or could not open it."""
        opening, receiver = agreed.opening, question.receiver
        if (receiver, opening.session.digest) not in self._carry({}, [forward(agreed, summed)]):
            self._run.record.fault(receiver, f"the sum for client {receiver} was not opened")
            return None
        d = opening.d
        self._run.record.disclose(updates.round, "clients", "personal sums", summed.clients, d, OWN_SUM, receiver)
        if (weight := opening.weight(summed.clients)) == 0:
            return None
        clients = tuple(sorted({*summed.clients, receiver})) if opening.own else summed.clients
        error = math.sqrt(d) * opening.error(len(summed.clients), Nearest()) * opening.largest / abs(weight)
        name = self._models.taught(question.label, (receiver,), opening.session.digest.hex())
        return Sum(name, receiver, clients, weight, 0.0, None, error)

    def _carry(self, servers: Mapping[bytes, Party], effects: Iterable[Effect]) -> set[tuple[int, bytes]]:
        """Play these sessions; returns who says of which that it opened the sum."""
        opened: set[tuple[int, bytes]] = set()
        sent = ((SERVER, effect) for effect in effects)
        self._run.network.run(self.openers, servers, sent, no_work, lambda i, effect: opened.add((i, effect.session)))
        return opened

    # --- keeping ------------------------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`."""

    def save(self) -> Snapshot:
        """See `Part`."""
        return nothing()

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`."""
