"""Sessions of the masked sum in a view: planned for clients that hold updates, played to their end, several in one pass."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..core.errors import UNREADABLE, Refused
from ..core.session import SERVER, Session
from ..drivers.in_process import no_work
from ..drivers.roles import Deadline, Party
from ..parts.charter import Charter
from ..parts.held import HeldUpdates
from ..parts.models import Models
from ..parts.run import Run, nothing
from ..view.answers import Remembered, Snapshot, Updates
from ..work.uploads import to_bytes
from .clients import OPENINGS, SUMS
from .graph import GraphParameters, agreed, fewest
from .joined import update_of
from .server import Advertising, NoSum, Unmasked, propose, server_step
from .shape import Shape
from .sum import max_bytes
from .terms import Plan, SumTerms, encode_weights


class MaskedSessions:
    """Plays masked sums. charter: what clients hold sums against. maskers: their parts in masked sums. openers: in those that a
    receiver opens.
    """

    def __init__(self, run: Run, models: Models, held: HeldUpdates, charter: Charter) -> None:
        self.charter = charter
        self.openers = run.clients.of(OPENINGS)
        self.maskers = run.clients.of(SUMS)
        self._run = run
        self._models = models
        self._held = held
        self._seeds: dict[bytes, bytes] = {}  # of masking graphs, by the work session
        if len(run.setup.clients) >= run.gate.rules.least:
            try:
                self.graph_of(len(run.setup.clients))
            except ValueError as error:
                remedy = in_fields(run.gate.rules.least, run.gate.rules.corrupt, self.dropped)
                raise Refused(f"a sum of all clients cannot be masked: {error}; {remedy}") from None

    @property
    def dropped(self) -> float:
        """Largest share of a sum's clients that drops out."""
        return self.charter.dropped or 0.0

    def plan(self, updates: Updates, shape: Shape) -> Plan:
        """Raises Refused if no masking graph serves so few clients."""
        made, roster = self._held.known(updates), shape.roster
        try:
            graph = self.graph_of(len(roster))
        except ValueError as error:
            raise Refused(f"sum {shape.label} cannot be masked: {error}") from None
        session = Session(shape.protocol, self._run.setup.run, updates.round, updates.cluster, roster, shape.threshold)
        if made.session not in self._seeds:  # one for all sums of the same updates
            self._seeds[made.session] = self._run.setup.entropy.secret(f"masking graph {made.session.hex()}", 32)
        seed = self._seeds[made.session]
        row = (update_of(made.session, shape.purpose), encode_weights(roster, shape.row), int(shape.times_samples))
        terms = SumTerms(*shape.size, graph.neighbours, graph.threshold, seed, self.model_digest(updates), *row)
        return replace(Plan.of(session, terms, self.charter), verify=self._run.clients.verify)

    def planned(self, updates: Updates, shape: Shape) -> Plan | None:
        """The same; None, and a fault on record, for a sum of too few clients to be masked: it ends below the floor."""
        try:
            return self.plan(updates, shape)
        except Refused as error:
            self._run.record.fault(SERVER, str(error))
            return None

    def graph_of(self, clients: int) -> GraphParameters:
        """The masking graph of so many clients. Raises ValueError, which says why, if there is none."""
        return agreed(clients, self._run.gate.rules.corrupt, self.dropped)

    def model_digest(self, updates: Updates) -> bytes:
        """SHA-256 of the public models that these updates belong to."""
        models = self._held.known(updates).models
        return hashlib.sha256(b"".join(to_bytes(self._models.held[m.name]) for m in models)).digest()

    def mask(self, plans: Mapping[str, Plan]) -> dict[str, Unmasked | None]:
        """The sum of each session, by label; None, and a fault on record, for one without. No client is in two."""
        return {label: self.sum_in(label, ended) for label, ended in self.play(plans).items()}

    def play(self, plans: Mapping[str, Plan]) -> dict[str, Unmasked | NoSum]:
        """How each session ended, by label. No client is in two."""
        if not plans:
            return {}
        run = self._run
        with run.timed():
            proposals = [(SERVER, send) for plan in plans.values() for send in propose(plan)]
        servers = {label: Party(SERVER, Advertising(plan), server_step) for label, plan in plans.items()}
        run.network.allow(max(max_bytes(plan.terms) for plan in plans.values()))
        by_digest = {plan.session.digest: servers[label] for label, plan in plans.items()}
        run.network.run(self.maskers, by_digest, proposals, no_work, run.learn)
        for client in (client for plan in plans.values() for client in plan.session.roster):
            self.maskers[client].handle(Deadline())
        return {label: server.state for label, server in servers.items()}

    def unreadable(self, label: str, error: ValueError) -> None:
        """Put on record that a sum holds what no inputs have."""
        self._run.record.fault(SERVER, f"the masked sum {label} {UNREADABLE}{error}")

    def sum_in(self, label: str, ended: Unmasked | NoSum) -> Unmasked | None:
        """The sum that a session ended with; None, and a fault on record, if it has none."""
        record = self._run.record
        if isinstance(ended, NoSum):
            who = "" if ended.client is None else f" for client {ended.client}"
            reason = f"the masked sum {label} failed at stage {ended.stage}: {ended.have} of {ended.need} were there{who}"
            for i in ended.blame or (SERVER,):
                record.fault(i, reason)
            return None
        for i in ended.bad:
            record.fault(i, "a share that was not the one it was dealt")
        return ended

    # --- keeping ------------------------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`."""
        self._seeds.clear()

    def save(self) -> Snapshot:
        """See `Part`."""
        return nothing()

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`."""
        self._seeds.clear()


def in_fields(least: int, corrupt: int, dropped: float) -> str:
    """What to change where clients are too few to be masked, by the fields of the scenario."""
    fields = [f"protection.corrupt ({corrupt})"] * (corrupt > 0) + [f"protection.dropped ({dropped:g})"]
    more = f"{fewest(least, corrupt, dropped)} clients or more, or " if dropped < 0.5 else ""
    return f"take {more}a lower {' or '.join(fields)}"
