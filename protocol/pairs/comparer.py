"""One client that is compared: its role, its own computer, and the embedding model that it takes from its own work."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..core.session import SERVER
from ..drivers.roles import Deadline, Effect, Event, Party, Persist, Received, Role
from ..privacy.ledger import Ledger
from ..seeding.joining import Joiner, joiner_of
from ..view.answers import Memory
from ..wire.codec import Envelope
from ..work.maker import Mine
from ..work.participant import Participant
from .client import AwaitingEdge, PairingClient, peer_step
from .computer import OwnComputer
from .memory import entries_of, fields_of, ledger_entries, ledger_of
from .messages import PairOffer
from .policy import PairPolicy, policy_of
from .question import Comparing
from .roles import PAIR_SEED, PAIRS, seeding_of


class Comparer:
    """A client. role: of comparisons. client: who it is and what it holds. joiner: it, in the exchange of the secret of all."""

    def __init__(self, role: Party, client: Participant, computer: OwnComputer, joiner: Joiner) -> None:
        self.id = role.id
        self.role = role
        self._client = client
        self._computer = computer
        self._joiner = joiner
        self._open: set[bytes] = set()  # sessions that need its embedding model, and the round that it is of
        self._round = -1

    @property
    def state(self) -> Any:
        """Of its role."""
        return self.role.state

    @property
    def ledger(self) -> Ledger | None:
        """Of what it released with noise, if it did."""
        return self._computer.ledger

    def asked(self, comparing: Comparing) -> None:
        """It learns what it will be asked, and refuses anything else."""
        self._computer.comparing = comparing
        self.role.state = replace(self.state, policy=policy_of(comparing.choice, self._computer.embedders))

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Advance by one event and return the effects. Raises ProtocolError."""
        before = self.ledger
        if isinstance(event, Received):
            self._prepare(event.envelope)
        try:
            effects = self.role.handle(event)
        finally:
            self._forget(event)
        if self.ledger is before:
            return effects
        charged = ledger_entries(self.ledger, 0 if before is None else len(before.releases))
        return (*(Persist(*entry) for entry in charged.items()), *effects)  # before anything leaves

    def _prepare(self, envelope: Envelope) -> None:
        """What an offer needs of what it holds: the secret of all, and its embedding model of the offer's round."""
        offer, comparing = envelope.message, self._computer.comparing
        if not isinstance(offer, PairOffer) or envelope.sender != SERVER or comparing is None:
            return
        if self.state.group is None and self._joiner.seed:
            self.role.state = replace(self.state, group=self._joiner.seed)
        if "public" in (offer.embedding, getattr(comparing.choice, "embedding", "public")):
            return
        if self.state.weights is None or offer.round != self._round:
            self._computer.forget()
            model, self._round = self._client.trained(offer.round), offer.round
            weights = None if model is None else self._computer.embedders.weights_of(model)
            self.role.state = replace(self.state, weights=weights)

    def _forget(self, event: Event) -> None:
        """Its embedding model, once no session needs it, and at the end of a comparison what it embedded."""
        if isinstance(event, Deadline):
            self._open.clear()
            self._computer.forget()
        elif isinstance(event, Received):
            session = event.envelope.session
            phase = self.state.phases.get(session)
            if phase is None or isinstance(phase, AwaitingEdge):
                self._open.discard(session)
            else:
                self._open.add(session)
        if not self._open and self.state.weights is not None:
            self.role.state = replace(self.state, weights=None)

    # --- keeping ------------------------------------------------------------------------------------------------------

    def save(self) -> Memory:
        """What it has answered, said and spent, and what it was told."""
        peer = self.state
        stored = entries_of(peer.spent, peer.edges, peer.said, peer.group or self._joiner.seed or None)
        return Memory(0, stored | ledger_entries(self.ledger))

    def restore(self, memory: Memory) -> None:
        """Go on from that."""
        self.role.restart(replace(self.state, **fields_of(memory.stored), weights=None, phases={}))
        self._open.clear()
        self._computer.forget()
        self._computer.ledger = ledger_of(memory.stored)


def comparer_of(mine: Mine, client: Participant) -> Mapping[str, Role]:
    """The roles of a client of a run that is compared. It answers nothing before it knows what it will be asked."""
    setup, embedders = mine.setup, mine.setup.embedders
    if embedders is None:
        raise ValueError("a client that cannot embed its data is not compared")
    computer, joiner = (
        OwnComputer(mine.id, embedders, setup.entropy, setup.besides),
        joiner_of(mine, seeding_of(setup), PAIR_SEED),
    )
    nothing = PairPolicy(d=embedders.d, inputs=embedders.inputs, rows=embedders.rows, released=frozenset())
    peer = PairingClient(mine.id, setup.run, nothing, mine.identities[PAIRS], mine.enrolled[PAIRS], setup.entropy, computer)
    comparer = Comparer(Party(mine.id, peer, peer_step), client, computer, joiner)
    if setup.comparing is not None:
        comparer.asked(setup.comparing)
    return {PAIRS: comparer, PAIR_SEED: joiner}
