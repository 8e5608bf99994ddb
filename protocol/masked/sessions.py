"""Sessions of the masked sum in a view: planned for clients that hold updates, played to their end, several in one pass."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ...crypto.entropy import Entropy
from ...crypto.identity import verify, verifying_once
from ..answers import Remembered, Snapshot, Traffic, Updates
from ..errors import Refused
from ..gate import Rules
from ..in_process import Fault, InProcess, no_work
from ..leverage import Row
from ..offset_view import OffsetSketches
from ..participant import Unfit
from ..roles import Deadline, Party
from ..session import SERVER, Session
from ..sketch_keys import SketchKeys
from ..uploads import to_bytes
from ..view import Setup
from ..view_base import Clients
from .client_inputs import Inputs, Numbers
from .graph import Parameters, agreed
from .joined import update_of
from .member import Input, Member
from .server import Advertising, Failed, Summed, propose, server_step
from .sum import Members, max_bytes
from .terms import PROTOCOL, Plan, Policy, Terms, encode_weights


@dataclass(frozen=True, slots=True)
class Shape:
    """What a view decides of a masked sum. size: ring_bits, length, bits, clip and max_weight, as in `Terms`. row: the public
    weights, over the roster."""

    label: str
    protocol: str
    threshold: int
    size: tuple[int, int, int, float, int]
    row: Row
    times_samples: bool = False
    purpose: bytes = b""
    """Of several sums of one kind of work whose inputs are not the same: what sets this one's apart."""

    @property
    def roster(self) -> Clients:
        return tuple(sorted(self.row))


@dataclass(frozen=True, slots=True)
class Masking:
    """One session to be played. input: in place of what members make of their own work."""

    plan: Plan
    updates: Updates
    input: Input | None = None


class MaskingView(OffsetSketches):
    """The clients' and the server's parts in masked sums. rules: also what clients insist on. dropped: largest share
    of a sum's clients that drops out."""

    def __init__(
        self, setup: Setup, rules: Rules, secret: SketchKeys, network: InProcess, dropped: float, unfit: Unfit, numbers: Numbers
    ) -> None:
        before = Traffic(network.messages, network.bytes_up, network.bytes_down)
        super().__init__(setup, "server", rules, secret, before, unfit)
        self.add_costs(network)
        self._dropped = dropped
        if len(setup.clients) >= rules.least:
            try:
                self._graph_of(len(setup.clients))
            except ValueError as error:
                raise Refused(f"a sum of all clients cannot be masked: {error}") from None
        self._members = members = Members.enrol(
            tuple(sorted(setup.clients)), setup.entropy, f"masked sums {setup.run.hex()} identity"
        )
        unheld = frozenset({"opened"})  # which `blinded_input` makes, for this sum alone
        policy = Policy(min_cohort=rules.least, min_survivors=rules.floor, corrupt=rules.corrupt, unheld=unheld, dropped=dropped)
        self._enrolled = members.enrolled
        check = verifying_once() if setup.checks_once else verify
        maskers = members.parties(setup.run, bytes(32), policy, setup.entropy, check)
        self._maskers = {i: Member(masker, self.clients.parties[i], Inputs(i, numbers)) for i, masker in maskers.items()}

    @property
    def _entropy(self) -> Entropy:
        return self._setup.entropy

    def _plan(self, updates: Updates, shape: Shape) -> Plan:
        """Raises Refused if no masking graph serves so few clients."""
        made, roster = self._known(updates), shape.roster
        try:
            graph = self._graph_of(len(roster))
        except ValueError as error:
            raise Refused(f"sum {shape.label} cannot be masked: {error}") from None
        session = Session(shape.protocol, self._setup.run, updates.round, updates.cluster, roster, shape.threshold)
        model = self._model_digest(updates)
        seed = self._entropy.secret(f"masking graph {made.session.hex()}", 32)  # one for all sums of the same updates
        row = (update_of(made.session, shape.purpose), encode_weights(roster, shape.row), int(shape.times_samples))
        terms = Terms(*shape.size, graph.neighbours, graph.threshold, seed, model, *row)
        return Plan.of(session, terms, self._enrolled)

    def _planned(self, updates: Updates, shape: Shape) -> Plan | None:
        """The same; None, and a fault on record, for a sum of too few clients to be masked: it ends below the floor."""
        try:
            return self._plan(updates, shape)
        except Refused as error:
            self._network.faults.append(Fault(SERVER, str(error)))
            return None

    def _graph_of(self, clients: int) -> Parameters:
        """The masking graph of so many clients. Raises ValueError, which says why, if there is none."""
        return agreed(clients, self._gate.rules.corrupt, self._dropped)

    def _started(self, updates: Updates, client: int) -> bytes:
        """SHA-256 of the models that came to this client with the task; empty if none did."""
        taken = self.clients.parties[client].taken.get(updates.name)
        return b"" if taken is None else taken.model

    def _model_digest(self, updates: Updates) -> bytes:
        """SHA-256 of the public models that these updates belong to."""
        models = self._known(updates).models
        return hashlib.sha256(b"".join(to_bytes(self.server.models[m.name]) for m in models)).digest()

    def _mask(self, sessions: Mapping[str, Masking]) -> dict[str, Summed | None]:
        """How each session ended, by label; None, and a fault on record, for one without a sum. No client is in two."""
        if not sessions:
            return {}
        plans = {label: each.plan for label, each in sessions.items()}
        with self._network.timed(SERVER):
            proposals = [(SERVER, send) for plan in plans.values() for send in propose(plan)]
        servers = {label: Party(SERVER, Advertising(plan), server_step) for label, plan in plans.items()}
        label_of = {client: label for label, plan in plans.items() for client in plan.session.roster}
        for client, label in label_of.items():
            input, session = sessions[label].input, plans[label].session.digest
            self._maskers[client].instead = {} if input is None else {session: (sessions[label].updates.name, input)}
        self._network.allow(max(max_bytes(plan.terms) for plan in plans.values()))
        by_digest = {plan.session.digest: servers[label] for label, plan in plans.items()}
        self._network.run(self._maskers, by_digest, proposals, no_work, self._learn)
        for client in label_of:
            self._maskers[client].handle(Deadline())
        return {label: self._ended(label, server.state) for label, server in servers.items()}

    def _ended(self, label: str, ended: Summed | Failed) -> Summed | None:
        if isinstance(ended, Failed):
            who = "" if ended.client is None else f" for client {ended.client}"
            reason = f"the masked sum {label} failed at stage {ended.stage}: {ended.have} of {ended.need} were there{who}"
            self._network.faults += [Fault(i, reason) for i in ended.blame or (SERVER,)]
            return None
        self._network.faults += [Fault(i, "a share that was not the one it was dealt") for i in ended.bad]
        return ended

    def _unreadable(self, label: str, error: ValueError) -> None:
        self._network.faults.append(Fault(SERVER, f"the masked sum {label} cannot be read: {error}"))

    def _signed(self, updates: Updates, client: int) -> int:
        """Of how many survivors a client signed the sum of these updates; 0 if it signed none."""
        given = self._maskers[client].state.given.updates.get(self._known(updates).session)
        return 0 if given is None else len(given.alive) // 4

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
            masker.restart(replace(masker.state, next_round=sums))
