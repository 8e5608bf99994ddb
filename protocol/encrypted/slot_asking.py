"""Sums into K slots with the choice hidden, in the view of the encrypted sum: one input, whose open slots members open."""

from collections.abc import Sequence
from typing import Any

from ...crypto.ckks import SUMS as SUM_PARAMETERS
from ..core.errors import Refused
from ..core.session import SERVER, Session
from ..drivers.roles import Party
from ..parts.held import HeldUpdates
from ..parts.models import Models
from ..parts.run import Ids, Run
from ..parts.slot_words import counts_in_words, too_few_chose
from ..view.answers import Assignment, BelowFloor, Sum, Updates
from ..view.functionality import Functionality
from ..wire.messages import HEAD_BYTES
from ..work.slot_work import check
from . import slot_server
from .holders import Holders
from .keys import KeyName
from .messages import SEALED_BYTES
from .slots import PROTOCOL, EncryptedSlots

OF_ALL = "nothing without the seed that every client holds; with it, what each client chose and computed"
OF_SUMS = "the mean and the weight of every open slot; they hold the key to every client's ciphertexts, and are sent none"

OTHERWISE = "one of those who open it counted otherwise than most"


class EncryptedSlotSums:
    """Answers sums into slots."""

    def __init__(self, run: Run, models: Models, held: HeldUpdates, holders: Holders) -> None:
        self._run = run
        self._models = models
        self._held = held
        self._holders = holders

    def slots(self, round: int, name: str, work: Assignment, most: int = 1, /) -> Sequence[Sum | BelowFloor]:
        """See `Slots`. Members open the counts, then the sums of slots that reach the floor, and tell counts and weights.

        A slot that fewer than `floor` survivors chose stays shut: the server sends nothing of it to anybody, and a member opens
        none that is small by its own count. Whoever holds the key could open what it is not sent.
        """
        run = self._run
        run.allow(Functionality.SLOTS)
        count, d = check(work, most), len(run.setup.initial)
        labels = [f"{name}/{k}@{round}" for k in range(count)]
        how = EncryptedSlots(count, d, most, max(run.gate.rules.least, 2))
        members = work.members or work.participants
        updates = self._held.hear(round, {name: work}, "slots", most=most)[name]
        run.gate.into_slots(updates.name, updates.clients)
        try:
            ended, session = self._summed(how, updates, members)
        except Refused as error:
            run.record.fault(SERVER, f"slots of {name}@{round}: {error}")
            return tuple(run.record.unsummed(label, (), shut=str(error)) for label in labels)
        answered: list[Sum | BelowFloor] = []
        for k, slot in enumerate(labels):
            if k not in ended.weights:
                chose = ended.counts[k]
                shut = too_few_chose(chose, how.floor) if chose < how.floor else OTHERWISE
                answered.append(run.record.unsummed(slot, (), shut=shut))
                continue
            mean_name = self._models.taught(slot, members, f"{session.hex()}/{k}")
            weight = ended.weights[k]
            error_bound = how.error(len(ended.clients), weight)  # whose inputs are in it, zeros too
            answered.append(Sum(mean_name, "clients", ended.clients, weight, 2.0**-24, None, error_bound))
        run.record.open_slots(round, name, answered)
        return answered

    def _summed(self, how: EncryptedSlots, updates: Updates, members: Ids) -> tuple[slot_server.SlotsSummed, bytes]:
        """How the session ended, and its digest. Raises Refused where there are none."""
        run = self._run
        label, roster = updates.name.replace("/slots", " slots"), updates.clients
        if len(roster) < how.floor:
            raise Refused(f"{len(roster)} clients take part where {how.floor} are the fewest")
        ciphertexts = how.length // SUM_PARAMETERS.slots
        run.network.allow(ciphertexts * (SUM_PARAMETERS.ciphertext_bytes + 4) + SEALED_BYTES + HEAD_BYTES)
        session = Session(PROTOCOL, run.setup.run, updates.round, label, roster, how.floor)
        name = KeyName(run.setup.run, "slots", updates.round, label)
        if (key := self._holders.new_keys({name: roster}).get(name)) is None:
            raise Refused(f"no client made the key of {label}")
        plan = slot_server.SlotPlan(session, key, how, members, self._held.known(updates).session)

        server = Party(SERVER, slot_server.AddingSlots(plan), slot_server.server_step)
        self._holders.play({session.digest: server}, slot_server.invite(plan))
        held = session.digest in self._holders.opened
        self._disclose_slots(how, updates, plan, server.state, held)
        ended = server.state
        if not isinstance(ended, slot_server.SlotsSummed):
            self._holders.behind(key)
            raise Refused(f"{label} failed at stage {ended.stage}: {ended.have} of {ended.need} were there")
        for i in ended.blame:
            run.record.fault(i, "other counts or weights of slots than most members found")
        if not ended.opened:
            few = f"no slot was chosen by {how.floor} clients: {list(ended.counts)}"
            raise Refused(OTHERWISE if any(how.chosen(ended.counts)) else few)
        if not held or not ended.weights:
            self._holders.behind(key)
            raise Refused(f"the open slots of {label} were not opened")
        return ended, session.digest

    def _disclose_slots(self, how: EncryptedSlots, updates: Updates, plan: slot_server.SlotPlan, ended: Any, held: bool) -> None:
        """Enter what was learned, also where the session has no end."""
        about: Ids = ended.clients if isinstance(ended, slot_server.SlotsSummed) else updates.clients
        counts = counts_in_words(getattr(ended, "counts", None), len(about))
        self._run.record.disclose(updates.round, "server", "ciphertexts of slots", about, 0, OF_ALL)
        if isinstance(ended, slot_server.SlotsSummed) or ended.stage != "add":  # members were sent the counts
            self._run.record.disclose(updates.round, "clients", "slots", about, how.count, counts)
        if not isinstance(ended, slot_server.SlotsSummed):
            return
        self._run.record.disclose(updates.round, "server", "slots", about, how.count, counts)
        if held:  # though the server may not have heard of it
            numbers, words = len(ended.opened) * (how.d + 1), OF_SUMS + self._run.setup.carried
            self._run.record.disclose(updates.round, "clients", "slots", about, numbers, words)
        if ended.weights:
            self._run.record.disclose(
                updates.round, "server", "slots", about, len(ended.weights), "the weights of the open slots"
            )
