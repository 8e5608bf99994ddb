"""The view of encryption: which part answers what."""

from ..choosing.choosing import Choosing
from ..choosing.messages import MESSAGES as CHOOSING
from ..parts.gate import Gate
from ..parts.held import Held, keeping_clients
from ..parts.held_sums import HeldSums
from ..parts.models import Models
from ..parts.personal import Personal
from ..parts.record import UNUSABLE, Record
from ..parts.run import Harness, Run, network_of
from ..seeding.group_seed import agree, session_of
from ..seeding.messages import MESSAGES as SEEDING
from ..view.protection import Setup
from ..view.work import LocalWork
from ..wire.messages import Task
from ..work.conduct import Unfit
from ..work.lending import lending_of
from ..work.sketch_keys import SketchSecret, SketchTerms
from ..work.slot_work import misfit
from ..work.uploads import usable
from .client_phases import Policy
from .holders import WITH_A_CLIENT, Holders, Openings
from .messages import MESSAGES as ENCRYPTED
from .protection import Encrypted
from .scaling import unsketchable, unsummable
from .similarities import EncryptedSimilarities
from .slot_asking import EncryptedSlotSums
from .sums import EncryptedSums


class EncryptedView:
    """Answers sums by encrypted sums, and inner products by encrypted scores."""

    def __init__(self, setup: Setup, how: Encrypted) -> None:
        d = len(setup.initial)
        agreed = agree(session_of("encrypted", setup.run, setup.clients), setup.entropy, setup.tap, check=setup.verify)
        seed = agreed.seed
        secret = SketchSecret(seed, SketchTerms(how.keys, setup.run, d, min(how.k, max(d // 2, 1))))
        network = network_of(setup, ENCRYPTED, SEEDING, CHOOSING, before=agreed.network)
        record = Record(network, how.rules, with_a_client=WITH_A_CLIENT)
        keeping = keeping_clients(
            setup, unfit_of(d), lambda task: (lambda: secret(b"")) if how.keys == "run" else None, None, lending_of(seed, setup)
        )
        openings = Openings()
        run = Run(setup, network, keeping, Gate(how.rules), record, learn=openings.learn)

        policy = Policy(how.rules.least, how.rules.least, how.keys, how.digits)
        holders = Holders(run, policy, seed, secret, openings)
        models = Models(run, "clients")
        held = Held(run, models)
        encrypted = EncryptedSums(run, models, held, holders)
        sums = HeldSums(run, held, encrypted.answer, False, encrypted.check)
        similar = EncryptedSimilarities(run, held, holders, secret)
        personal = Personal(run, models, held.survivors, encrypted.personal)
        choosing = Choosing(run, models)

        self.record = record
        self.harness = Harness(run, models.observe, (models, held, holders, encrypted, similar, personal, choosing))
        self.owner, self.advance, self.merge, self.extrapolate = models.owner, models.advance, models.merge, models.extrapolate
        self.revise = models.revise
        self.train, self.train_alone = held.train, models.train_alone
        self.tells_energy, self.sums, self.train_and_sum = sums.tells_energy, sums.sums, sums.train_and_sum
        self.personal_sums, self.own_models = personal.personal_sums, personal.own_models
        self.slots = EncryptedSlotSums(run, models, held, holders).slots
        self.gram, self.cosines, self.recall = similar.gram, similar.cosines, similar.recall
        self.remember, self.keep, self.edge = similar.remember, similar.keep, similar.edge
        self.choose = choosing.choose


def unfit_of(d: int) -> Unfit:
    """What a client holds its work against before it says that it takes part."""

    def unfit(task: Task, work: LocalWork) -> str | None:
        if task.work == "slots":
            return misfit(work, len(task.models), d, task.most) or unsummable(work.vector.ravel(), 1)
        if not usable(work.vector):
            return UNUSABLE
        return unsummable(work.vector, 1) or unsketchable(work.sketched)

    return unfit
