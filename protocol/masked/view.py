"""The view of secure aggregation: which part answers what."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..choosing.choosing import Choosing
from ..choosing.messages import MESSAGES as CHOOSING
from ..pairs.asking import AskingPairs
from ..pairs.messages import MESSAGES as PAIRS
from ..parts.clients import Clients
from ..parts.gate import Gate
from ..parts.held import HeldUpdates
from ..parts.held_sums import HeldSums
from ..parts.models import Models
from ..parts.offsets import OffsetSketches
from ..parts.personal import Personal
from ..parts.record import Record
from ..parts.run import Harness, Part, Run, anything, network_of
from ..parts.sketches import Sketches
from ..seeding.group_seed import seat
from ..seeding.messages import MESSAGES as SEEDING
from ..view.answers import Gram, Updates
from ..view.protection import Setup
from .clients import SUMS, masking_clients
from .graph import fewest
from .known import charter_of, numbers_of, sketched_of
from .masking import MaskedSessions
from .messages import MESSAGES as MASKED
from .protection import Masked
from .receiver_opened.messages import MESSAGES as RECEIVER_OPENED
from .receiver_opened.opening import OpenedTerms, ReceiverOpened
from .slot_sums import MaskedSlots
from .sums import MaskedSums

if TYPE_CHECKING:
    from ..parts.charter import Numbers
    from ..privacy.ledger import Ledger, Unit
    from .noisy_sums import NoisySums

WITH_A_CLIENT = (
    "that client's own update, so sums less it, and the numbers of each sketch, as linear measurements of the update: clients"
    " share the seed that draws them"
)
BESIDE = "the sums of its updates, by an epsilon of their own"


class MaskedView:
    """Answers sums by masked sums, and inner products by secret sketches."""

    def __init__(self, setup: Setup, how: Masked) -> None:
        d, everybody = len(setup.initial), tuple(sorted(setup.clients))
        numbers, sketched = numbers_of(how, d), sketched_of(how, setup)
        noisy = _noisy(how, numbers, everybody)
        maker = masking_clients(how)
        clients = Clients(setup, maker)
        before = seat(clients, setup, maker)

        network = network_of(setup, MASKED, RECEIVER_OPENED, SEEDING, CHOOSING, PAIRS, most=4 * d, before=before)
        least = fewest(how.rules.least, how.corrupt, how.dropped)
        record = Record(network, how.rules, with_a_client=WITH_A_CLIENT, least=least)
        gate = Gate(how.rules, same_clients=True, behind_offsets=how.keys == "session", one_kind=True)
        allow = anything if how.noise is None else how.noise.check
        run = Run(setup, network, clients, gate, record, allow)

        models = Models(run, "server")
        held = HeldUpdates(run, models)
        sessions = MaskedSessions(run, models, held, charter_of(how, setup, clients.enrolled[SUMS]))
        masked = MaskedSums(run, models, held, sessions, numbers, noisy)
        sums = HeldSums(run, held, masked.answer, noisy is None, masked.check)
        raw = Sketches(run, held, sketched)
        opened = ReceiverOpened(
            run, models, held, sessions, OpenedTerms(how.ring_bits, how.clip, how.colluding), noisy is not None
        )
        personal = Personal(run, models, held.survivors, opened.answer, opened.allies, opened.check_together)
        choosing = Choosing(run, models)
        pairs = AskingPairs(run)
        parts: tuple[Part, ...] = (models, held, masked, sessions, raw, opened, personal, choosing, pairs)

        self.record = record
        self.owner, self.advance, self.merge, self.extrapolate = models.owner, models.advance, models.merge, models.extrapolate
        self.revise, self.norm = models.revise, models.norm
        self.train, self.train_alone = held.train, models.train_alone
        self.least = record.least
        self.tells_energy, self.sums, self.train_and_sum = sums.tells_energy, sums.sums, sums.train_and_sum
        self.personal_sums, self.own_models = personal.personal_sums, personal.own_models
        self.slots = MaskedSlots(run, models, held, sessions, numbers, how.slot_spare, noisy is not None).slots
        self.accumulate, self.gram_with, self.remember = raw.history.accumulate, raw.history.gram_with, raw.history.remember
        if how.keys == "session":
            offset = OffsetSketches(run, held, sketched, raw)
            parts = (*parts, offset)
            self.gram, self.cosines, self.recall = offset.gram, offset.cosines, offset.recall
            self.edge, self.keep = offset.edge, offset.keep
        else:
            parts = (*parts, raw.history)
            self.gram, self.cosines, self.recall = raw.gram, raw.cosines, raw.recall
            self.edge, self.keep = raw.history.edge, raw.history.keep
        if noisy is not None:
            self.gram = _of_paying(noisy, self.gram)
        self.choose = choosing.choose
        self.pairs = pairs.pairs
        self.harness = Harness(run, models.observe, parts)
        _enter_ledgers(record, pairs, noisy)


def _noisy(how: Masked, numbers: "Numbers", clients: tuple[int, ...]) -> "NoisySums | None":
    """What is read of noisy sums; None where they have none, and no accountant is loaded."""
    if numbers.noise is None:
        return None
    from .cohorts import Cohorts
    from .noisy_sums import NoisySums

    return NoisySums(Cohorts(numbers.noise, how.rules, how.dropped, numbers.d, how.ring_bits), clients)


def _of_paying(noisy: "NoisySums", gram: Callable[..., Gram]) -> Callable[..., Gram]:
    """The Gram matrix of those whose budget allows the sum that comes beside it: without that it would be told for nothing."""

    def of_paying(updates: Updates, /, *, origin: bool = False) -> Gram:
        able = noisy.paying(updates.clients)[0]
        return gram(replace(updates, clients=able), origin=origin) if able else Gram((), np.zeros((0, 0)), 0.0)

    return of_paying


def _enter_ledgers(record: Record, pairs: AskingPairs, noisy: "NoisySums | None") -> None:
    """Put on record what clients spend: on being compared, and on noisy sums, each beside the other."""
    if noisy is None:
        record.ledgers_of.append(pairs.ledgers)
        return

    def beside() -> "Mapping[tuple[int, Unit], Ledger]":
        return {key: ledger.without(BESIDE) for key, ledger in pairs.ledgers().items()}

    record.ledgers_of += [beside, lambda: noisy.ledgers]
    record.noted = noisy.noted
