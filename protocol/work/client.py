"""One client of a run, whole: what it begins with, and the roles that a driver reaches it by."""

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, cast

from ...crypto.identity import SigningKey, VerifyingOnce
from ..drivers.roles import Effect, Role
from ..view.answers import Memory, Vector
from ..view.protection import Setup
from ..view.work import LocalJob, LocalWork, Unwilling
from .maker import SECRET_BYTES, SEED, WORK, Joining, Keeps, MadeOnce, Maker, Mine, Spends, Unseated
from .owned import Owned
from .participant import Participant
from .uploads import UNUSABLE, usable

if TYPE_CHECKING:
    from ..privacy.ledger import Ledger


class InProcessClient:
    """A client in this process. roles: by name, as far as they are made. identities: that it has already, at least those that
    it needs; None: it draws them.
    """

    def __init__(
        self, id: int, setup: Setup, maker: Maker, shared: MadeOnce, identities: Mapping[str, SigningKey] | None = None
    ) -> None:
        self.id = id
        self.roles: dict[str, Role] = {}
        self._maker = maker
        if identities is None:
            drawn = {use: setup.entropy.lasting(label, SECRET_BYTES) for use, label in maker.identities(setup, id).items()}
            noted = shared.verify.note if isinstance(shared.verify, VerifyingOnce) else None
            identities = {use: SigningKey(secret, noted) for use, secret in drawn.items()}
        self._mine = Mine(id, setup, shared, identities)

    @property
    def public(self) -> Mapping[str, bytes]:
        """Its public identities, by what it signs for, to be enrolled."""
        return {use: identity.public for use, identity in self._mine.identities.items()}

    def enrol(self, enrolled: Mapping[str, Mapping[int, bytes]]) -> bool:
        """Everybody's identities: it is ready to join the exchange of the seed, or, where there is none, for the run."""
        self._mine = replace(self._mine, enrolled=enrolled)
        self.roles = dict(self._maker.made(self._mine)) if self._maker.exchange is None else self._joins()
        return True

    @property
    def admission(self) -> tuple[Mapping[str, Mapping[int, bytes]], bytes]:
        """Everybody's identities, and the seed, empty where it holds none: what it needs to `rejoin`."""
        return self._mine.enrolled, self._mine.seed

    def rejoin(self, enrolled: Mapping[str, Mapping[int, bytes]], seed: bytes) -> None:
        """Be ready for the run as it was before: its secrets are those of before, too."""
        self._mine = replace(self._mine, enrolled=enrolled, seed=seed)
        seated = seed or self._maker.exchange is None
        self.roles = (dict(self._maker.made(self._mine)) if seated else self._unseated()) | self._joins()

    def hello(self, name: str = SEED) -> tuple[Effect, ...]:
        """What it says first in the exchange in which it has this role."""
        return self._joining(name).hello()

    def left_out(self, name: str = SEED) -> tuple[tuple[int, str], ...]:
        """Whom it left out there, and why."""
        return self._joining(name).left_out

    def holds(self, name: str) -> bool:
        """Whether it holds that exchange's seed."""
        return bool(self._joining(name).seed)

    def begin(self) -> bool:
        """The exchange is over: whether it holds the seed, and is ready for the run."""
        if seed := self._joining(SEED).seed:
            self._mine = replace(self._mine, seed=seed)
            self.roles |= self._maker.made(self._mine)
        else:
            self.roles = self._unseated() | self.roles
        return bool(seed)

    @property
    def seated(self) -> bool:
        """Whether it is ready for the run."""
        return isinstance(self.roles.get(WORK), Participant)

    def _joins(self) -> dict[str, Role]:
        """Its role in the exchange of the seed."""
        exchange = self._maker.exchange
        return {} if exchange is None else {SEED: exchange.joining(self._mine, exchange.session(self._mine.setup))}

    def _unseated(self) -> dict[str, Role]:
        return dict.fromkeys((WORK, *self._maker.messages), Unseated(self.id))

    # --- for whoever plays a simulation -----------------------------------------------------------------------------------

    def model(self, name: str) -> Vector | None:
        """A model that it holds, for whoever measures a simulation."""
        owned = self._owned
        return owned[name] if owned is not None and owned.holds(name) else None

    def mean(self, name: str) -> Vector | None:
        """A mean that it was sent in this round, for whoever measures a simulation."""
        owned = self._owned
        kept = None if owned is None else owned.means.get(name)
        return None if kept is None else kept.vector

    def alone(self, round: int, start: str, given: Vector | None) -> LocalJob | None:
        """What it does to train by itself, and tell nobody; None without a seat or a model to start from.

        given: a public model of this name that it does not hold.
        """
        owned = self._owned
        if owned is None or (start not in owned if given is None else not owned.served or len(given) != owned.length):
            return None
        return LocalJob(self.id, round, "update", owned[start] if given is None else given)

    def keep(self, name: str, job: LocalJob, work: LocalWork | Unwilling) -> str:
        """Hold what it trained by itself as a model of its own; why it is none, or empty."""
        if isinstance(work, Unwilling):
            return work.reason
        if (owned := self._owned) is None or not usable(work.vector):
            return UNUSABLE
        owned.hold(name, job.start + work.vector, alone=True)
        return ""

    def train_alone(self, round: int, start: str, given: Vector | None, name: str) -> bool:
        """Do both."""
        if (job := self.alone(round, start, given)) is None:
            return False
        ((_, work),) = self._mine.setup.workers([job])
        return not self.keep(name, job, work)

    def drop(self, name: str) -> None:
        """Forget a model of its own."""
        if (owned := self._owned) is not None:
            owned.drop(name)

    @property
    def ledger(self) -> "Ledger | None":
        """Of what it released with noise to be compared, if it did."""
        return next((role.ledger for role in self.roles.values() if isinstance(role, Spends)), None)

    @property
    def ledgers(self) -> "tuple[Ledger, ...]":
        """All of its own: that of comparisons, and that of noisy sums, which a server keeps an account of by itself."""
        found = [self.ledger, *(getattr(role, "of_sums", None) for role in self.roles.values())]
        return tuple(ledger for ledger in found if ledger is not None)

    def save(self) -> Memory:
        """What it keeps between rounds."""
        return reduce(or_, (role.save() for role in self.roles.values() if isinstance(role, Keeps)), Memory())

    def restore(self, memory: Memory) -> None:
        """Go on from that; it takes part in no round before `memory.since`. Raises ValueError for what is not its own."""
        for role in self.roles.values():
            if isinstance(role, Keeps):
                role.restore(memory)

    @property
    def _owned(self) -> Owned | None:
        """The models that it holds; None of a client that lacks the seed of the run."""
        work = self.roles[WORK]
        return work.owned if isinstance(work, Participant) else None

    def _joining(self, name: str) -> Joining:
        return cast("Joining", self.roles[name])
