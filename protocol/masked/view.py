"""The view of secure aggregation: which part answers what."""

import math
from collections.abc import Mapping

from ..choosing.choosing import Choosing
from ..choosing.messages import MESSAGES as CHOOSING
from ..pairs.asking import AskingPairs
from ..pairs.messages import MESSAGES as PAIRS
from ..parts.charter import Numbers
from ..parts.gate import Gate
from ..parts.held import Held, keeping_clients
from ..parts.held_sums import HeldSums
from ..parts.models import Models
from ..parts.offsets import OffsetSketches
from ..parts.personal import Personal
from ..parts.record import UNUSABLE, Record
from ..parts.run import Harness, Part, Run, anything, network_of
from ..parts.sketches import Sketches
from ..privacy.ledger import Ledger, Unit
from ..seeding.group_seed import agree, session_of
from ..seeding.messages import MESSAGES as SEEDING
from ..view.protection import Setup
from ..view.work import LocalWork
from ..wire.messages import Task
from ..work.conduct import Unfit
from ..work.sketch_keys import RatchetedKeys, SketchSecret, SketchTerms
from ..work.slot_work import misfit
from ..work.uploads import usable
from .input import beyond
from .masking import MaskedSessions
from .messages import MESSAGES as MASKED
from .noise import Cohorts
from .noisy_sums import NoisySums
from .protection import Masked
from .receiver_opened.messages import MESSAGES as RECEIVER_OPENED
from .receiver_opened.opening import OpenedTerms, ReceiverOpened
from .receiver_opened.terms import OpeningPolicy
from .slot_sums import MaskedSlots
from .sums import MaskedSums

WITH_A_CLIENT = "the numbers of each sketch, as linear measurements of the update: clients share the seed that draws them"
BESIDE = "the sums of its updates, by an epsilon of their own"


class MaskedView:
    """Answers sums by masked sums, and inner products by secret sketches."""

    def __init__(self, setup: Setup, how: Masked) -> None:
        d, clients = len(setup.initial), tuple(sorted(setup.clients))
        noise = None if how.noise is None else how.noise.terms
        noisy = None if noise is None else NoisySums(Cohorts(noise, how.rules, how.dropped, d, how.ring_bits), clients)
        agreed = agree(session_of("masked", setup.run, clients), setup.entropy, setup.tap, check=setup.verify)
        sketched = SketchTerms(how.keys, setup.run, d, min(how.sketch, max(d // 2, 1)), how.clip * math.sqrt(d))
        secret = RatchetedKeys(agreed.seed, sketched) if how.keys == "session" else SketchSecret(agreed.seed, sketched)

        network = network_of(setup, MASKED, RECEIVER_OPENED, SEEDING, CHOOSING, PAIRS, most=4 * d, before=agreed.network)
        record = Record(network, how.rules, with_a_client=WITH_A_CLIENT)
        gate = Gate(how.rules, same_clients=True, behind_offsets=how.keys == "session")
        keeping = keeping_clients(setup, unfit_of(how, d), lambda task: lambda: secret(task.session.digest), secret)
        allow = anything if how.noise is None else how.noise.check
        run = Run(setup, network, keeping, gate, record, allow)

        models = Models(run, "server")
        held = Held(run, models)
        numbers = Numbers(d, how.ring_bits, how.clip, how.max_samples, how.rules, noise)
        sessions = MaskedSessions(
            run, models, held, numbers, how.dropped, OpeningPolicy(how.floor, how.colluding, corrupt=how.corrupt)
        )
        masked = MaskedSums(run, models, held, sessions, numbers, noisy)
        sums = HeldSums(run, held, masked.answer, noisy is None, masked.check)
        raw = Sketches(run, held, sketched, secret)
        opened = ReceiverOpened(
            run, models, held, sessions, OpenedTerms(how.ring_bits, how.clip, how.colluding), noisy is not None
        )
        personal = Personal(run, models, held.survivors, opened.answer, opened.allies, opened.check_together)
        choosing = Choosing(run, models)
        pairs = AskingPairs(run)
        parts: tuple[Part, ...] = (models, held, masked, sessions, raw, opened, personal, choosing, pairs)

        self.record = record
        self.owner, self.advance, self.merge, self.extrapolate = models.owner, models.advance, models.merge, models.extrapolate
        self.revise = models.revise
        self.train, self.train_alone = held.train, models.train_alone
        self.tells_energy, self.sums, self.train_and_sum = sums.tells_energy, sums.sums, sums.train_and_sum
        self.personal_sums, self.own_models = personal.personal_sums, personal.own_models
        self.slots = MaskedSlots(run, models, held, sessions, numbers, how.slot_spare, noisy is not None).slots
        self.accumulate, self.gram_with, self.remember = raw.history.accumulate, raw.history.gram_with, raw.history.remember
        if isinstance(secret, RatchetedKeys):
            offset = OffsetSketches(run, held, sketched, raw, secret.offset)
            parts = (*parts, offset)
            self.gram, self.cosines, self.recall = offset.gram, offset.cosines, offset.recall
            self.edge, self.keep = offset.edge, offset.keep
        else:
            parts = (*parts, raw.history)
            self.gram, self.cosines, self.recall = raw.gram, raw.cosines, raw.recall
            self.edge, self.keep = raw.history.edge, raw.history.keep
        self.choose = choosing.choose
        self.pairs = pairs.pairs
        self.harness = Harness(run, models.observe, parts)
        _enter_ledgers(record, pairs, noisy)


def _enter_ledgers(record: Record, pairs: AskingPairs, noisy: NoisySums | None) -> None:
    """Put on record what clients spend: on being compared, and on noisy sums, each beside the other."""
    if noisy is None:
        record.ledgers_of.append(pairs.ledgers)
        return

    def beside() -> Mapping[tuple[int, Unit], Ledger]:
        return {key: ledger.without(BESIDE) for key, ledger in pairs.ledgers().items()}

    record.ledgers_of += [beside, lambda: noisy.ledgers]
    record.noted = noisy.noted


def unfit_of(how: Masked, d: int) -> Unfit:
    """What a client holds its work against before it says that it takes part."""

    def unfit(task: Task, work: LocalWork) -> str | None:
        if task.work == "slots":
            return misfit(work, len(task.models), d, task.most) or beyond(work.vector.ravel(), how.clip)
        if not usable(work.vector):
            return UNUSABLE
        return beyond(work.vector, how.clip) if how.noise is None else None

    return unfit
