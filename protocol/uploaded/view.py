"""The view over uploads: `Plain` is this view with the identity, `Permuted` with a transform the server lacks.

The server's side and the clients' side are two objects. What the parts hold is what a curious server holds.
"""

from ..choosing.choosing import Choosing
from ..choosing.messages import MESSAGES as CHOOSING
from ..pairs.asking import AskingPairs
from ..pairs.messages import MESSAGES as PAIRS
from ..parts.clients import Clients
from ..parts.gate import Gate
from ..parts.history import History
from ..parts.models import Models
from ..parts.personal import Personal
from ..parts.record import Record
from ..parts.run import Harness, Part, Run, network_of
from ..seeding.group_seed import seat
from ..seeding.messages import MESSAGES as SEEDING
from ..view.protection import Setup
from .fusing import Fusing
from .similarities import UploadSimilarities
from .slots import UploadSlots
from .sums import UploadSums
from .uploading import Answering, Uploads

WITH_A_CLIENT = "every update in full: the clients share the secret that they transform updates by"


class UploadView:
    """Answers every functionality from uploads that the server collected. Implements `ServerView`."""

    def __init__(self, setup: Setup, how: Answering) -> None:
        clients = Clients(setup, how.clients)
        before = seat(clients, setup, how.clients)
        network, clear = network_of(setup, SEEDING, CHOOSING, PAIRS, most=4 * how.length, before=before), how.owner == "server"
        shared = "" if clear else WITH_A_CLIENT
        record = Record(network, how.rules, sees_updates=clear, holds_transformed=not clear, with_a_client=shared)
        run = Run(setup, network, clients, Gate(how.rules), record)

        models = Models(run, how.owner)
        uploads = Uploads(run, models, how)
        history = History(run, uploads.lasting)
        sums = UploadSums(run, models, uploads, how)
        similarities = UploadSimilarities(run, uploads, history, how)
        personal = Personal(run, models, uploads.survivors, sums.personal)
        fusing = Fusing(run, models, uploads, sums, how)
        choosing = Choosing(run, models)
        pairs = AskingPairs(run, uploads.model if clear else None)
        record.ledgers_of.append(pairs.ledgers)

        self.record = record
        parts: tuple[Part, ...] = (models, uploads, history, personal, fusing, choosing, pairs)
        if (noise := sums.noise) is not None:
            parts = (*parts, noise)
            record.ledgers_of.append(lambda: noise.ledgers)
            record.noted = noise.noted
        self.harness = Harness(run, models.observe, parts)

        self.owner, self.advance, self.merge, self.extrapolate = models.owner, models.advance, models.merge, models.extrapolate
        self.revise, self.norm = models.revise, models.norm
        self.train, self.train_alone = uploads.train, models.train_alone
        self.least = record.least
        self.tells_energy, self.sums, self.train_and_sum = sums.tells_energy, sums.sums, sums.train_and_sum
        self.coordinates = sums.coordinates
        self.slots = UploadSlots(run, models, uploads, sums, how).slots
        self.personal_sums, self.own_models = personal.personal_sums, personal.own_models
        self.fuse, self.pulls, self.distances, self.last_means = fusing.fuse, fusing.pulls, fusing.distances, fusing.last_means
        self.gram, self.recall, self.cosines = similarities.gram, similarities.recall, similarities.cosines
        self.remember, self.keep, self.edge = history.remember, history.keep, history.edge
        self.accumulate, self.gram_with = history.accumulate, history.gram_with
        self.choose = choosing.choose
        self.pairs = pairs.pairs
