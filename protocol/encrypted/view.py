"""The view of encryption: which part answers what."""

from ..choosing.choosing import Choosing
from ..choosing.messages import MESSAGES as CHOOSING
from ..parts.clients import Clients
from ..parts.gate import Gate
from ..parts.held import HeldUpdates
from ..parts.held_sums import HeldSums
from ..parts.models import Models
from ..parts.personal import Personal
from ..parts.record import Record
from ..parts.run import Harness, Run, network_of
from ..seeding.group_seed import seat
from ..seeding.messages import MESSAGES as SEEDING
from ..view.protection import Setup
from .clients import encrypting_clients, policy_of, sketched_of
from .holders import WITH_A_CLIENT, Holders, Openings
from .messages import MESSAGES as ENCRYPTED
from .protection import Encrypted
from .similarities import EncryptedSimilarities
from .slot_asking import EncryptedSlotSums
from .sums import EncryptedSums


class EncryptedView:
    """Answers sums by encrypted sums, and inner products by encrypted scores."""

    def __init__(self, setup: Setup, how: Encrypted) -> None:
        maker = encrypting_clients(how)
        clients = Clients(setup, maker)
        network = network_of(setup, ENCRYPTED, SEEDING, CHOOSING, before=seat(clients, setup, maker))
        record = Record(network, how.rules, with_a_client=WITH_A_CLIENT)
        openings = Openings()
        run = Run(setup, network, clients, Gate(how.rules, one_kind=True), record, learn=openings.learn)

        holders = Holders(run, policy_of(how), openings)
        models = Models(run, "clients")
        held = HeldUpdates(run, models)
        encrypted = EncryptedSums(run, models, held, holders)
        sums = HeldSums(run, held, encrypted.answer, False, encrypted.check)
        similar = EncryptedSimilarities(run, held, holders, sketched_of(how, setup))
        personal = Personal(run, models, held.survivors, encrypted.personal)
        choosing = Choosing(run, models)

        self.record = record
        self.harness = Harness(run, models.observe, (models, held, holders, encrypted, similar, personal, choosing))
        self.owner, self.advance, self.merge, self.extrapolate = models.owner, models.advance, models.merge, models.extrapolate
        self.revise, self.norm = models.revise, models.norm
        self.train, self.train_alone = held.train, models.train_alone
        self.least = record.least
        self.tells_energy, self.sums, self.train_and_sum = sums.tells_energy, sums.sums, sums.train_and_sum
        self.personal_sums, self.own_models = personal.personal_sums, personal.own_models
        self.slots = EncryptedSlotSums(run, models, held, holders).slots
        self.gram, self.cosines, self.recall = similar.gram, similar.cosines, similar.recall
        self.remember, self.keep, self.edge = similar.remember, similar.keep, similar.edge
        self.choose = choosing.choose
