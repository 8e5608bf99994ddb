"""The view of two servers: which part answers what. Everything but work is asked of the second server."""

from ..choosing.choosing import Choosing
from ..choosing.messages import MESSAGES as CHOOSING
from ..parts.clients import Clients
from ..parts.gate import Gate
from ..parts.models import Models
from ..parts.record import Record
from ..parts.run import Harness, Run, network_of
from ..view.protection import Setup
from ..wire.messages import HEAD_BYTES
from ..work.uploads import Policy
from .clients import sharing_clients
from .helpers import Helpers
from .messages import MESSAGES as SHARES
from .protection import TwoServer
from .run import max_bytes
from .sharing import HeldShares
from .similarities import SharedSimilarities
from .slot_asking import TwoServerSlots
from .slot_messages import MESSAGES as SLOTS
from .sums import SharedSums

WITH_A_CLIENT = (
    "that client's own update, so sums less it, and by the inner products every compared update's part along it; both servers"
    " together read every update"
)


class TwoServerView:
    """Answers everything by questions to the second server. helpers: the second server and the dealer."""

    def __init__(self, setup: Setup, how: TwoServer) -> None:
        terms = how.terms(len(setup.initial))
        policy = Policy(min_cohort=1)
        network = network_of(setup, SHARES, SLOTS, CHOOSING, most=max_bytes(terms, len(setup.clients)) - HEAD_BYTES)
        record = Record(network, terms.rules, with_a_client=WITH_A_CLIENT)
        run = Run(setup, network, Clients(setup, sharing_clients(how)), Gate(terms.rules, one_kind=True), record)

        self.helpers = Helpers(run, terms, policy)
        models = Models(run, "server")
        sharing = HeldShares(run, models, self.helpers, terms)
        sums = SharedSums(run, models, sharing, self.helpers, terms)
        similar = SharedSimilarities(run, sharing, self.helpers, terms)
        choosing = Choosing(run, models)

        self.record = record
        self.harness = Harness(run, models.observe, (models, self.helpers, sharing, similar, choosing))
        self.owner, self.advance, self.merge, self.extrapolate = models.owner, models.advance, models.merge, models.extrapolate
        self.revise, self.norm = models.revise, models.norm
        self.train, self.train_alone = sharing.train, models.train_alone
        self.least = record.least
        self.tells_energy, self.sums, self.train_and_sum = sums.tells_energy, sums.sums, sums.train_and_sum
        self.slots = TwoServerSlots(run, models, self.helpers, terms).slots
        self.gram, self.cosines, self.recall = similar.gram, similar.cosines, similar.recall
        self.remember, self.keep, self.edge = similar.remember, similar.keep, similar.edge
        self.choose = choosing.choose
