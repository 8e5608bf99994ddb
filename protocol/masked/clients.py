"""How clients are made that hold their updates, and put them into masked sums and secret sketches."""

from collections.abc import Mapping
from functools import partial

from ..choosing.chooser import chooser_of
from ..choosing.messages import CHOICES
from ..choosing.messages import MESSAGES as CHOOSING
from ..drivers.roles import Party, Role
from ..pairs.roles import KINDS as PAIR_KINDS
from ..pairs.roles import identities_of, roles_of
from ..seeding.joining import exchange_of
from ..view.protection import Setup
from ..view.work import LocalWork
from ..wire.messages import Task
from ..work.conduct import Unfit
from ..work.keeping import keeping_client
from ..work.maker import SKETCH, WORK, Maker, Mine
from ..work.sketch_keys import RatchetedKeys, SketchKeys, SketchSecret
from ..work.slot_work import misfit
from ..work.uploads import UNUSABLE, usable
from .client import client_step
from .client_inputs import Inputs
from .input import beyond
from .joined import OPENED
from .known import charter_of, numbers_of, opening_policy, sketched_of
from .member import MaskingClient
from .messages import MESSAGES as MASKED
from .protection import Masked
from .receiver_opened.client import OpeningClient, member_step
from .receiver_opened.messages import MESSAGES as RECEIVER_OPENED
from .receiver_opened.opener import Opener
from .sum import idle_of
from .terms import SumPolicy

SUMS, OPENINGS = "sums", "openings"
"""Names of roles: in masked sums, and in those that a receiver opens."""


def masking_clients(how: Masked) -> Maker:
    """how: the protection."""
    kinds = {SUMS: MASKED, OPENINGS: RECEIVER_OPENED, CHOICES: CHOOSING, **PAIR_KINDS}
    return Maker(partial(_roles, how), kinds, _signs, exchange_of("masked"))


def _signs(setup: Setup, client: int) -> Mapping[str, str]:
    return {SUMS: f"masked sums {setup.run.hex()} identity {client}", **identities_of(setup, client)}


def _roles(how: Masked, mine: Mine) -> Mapping[str, Role]:
    setup, me, enrolled = mine.setup, mine.id, mine.enrolled[SUMS]
    secret = mine.shared.once((SKETCH, mine.seed), lambda: _secret(how, mine))
    mine.shared.draws[SKETCH] = secret if isinstance(secret, SketchSecret) else secret.offset
    unfit = unfit_of(how, len(setup.initial))
    client = keeping_client(mine, unfit, lambda task: lambda: secret(task.session.digest), secret)

    charter = mine.shared.once((SUMS, id(enrolled)), lambda: charter_of(how, setup, enrolled))  # of one directory
    identity, numbers = mine.identities[SUMS], numbers_of(how, len(setup.initial))
    policy = SumPolicy.of(charter, frozenset({OPENED}))  # whose inputs `blinded_input` makes, for such a sum alone
    idle = idle_of(charter, me, identity, policy, setup.entropy, bytes(32), mine.shared.verify, mine.shared.exchange)
    state = OpeningClient(me, setup.run, opening_policy(how), identity, enrolled, setup.entropy, {})
    opener = Opener(Party(me, state, member_step), client, numbers)
    member = MaskingClient(Party(me, idle, client_step), client, Inputs(me, numbers, opener))
    of_sums: dict[str, Role] = {WORK: client, SUMS: member, OPENINGS: opener}
    return {**of_sums, CHOICES: chooser_of(mine, client), **roles_of(mine, client)}


def _secret(how: Masked, mine: Mine) -> SketchKeys:
    terms = sketched_of(how, mine.setup)
    return RatchetedKeys(mine.seed, terms) if how.keys == "session" else SketchSecret(mine.seed, terms)


def unfit_of(how: Masked, d: int) -> Unfit:
    """What a client holds its work against before it says that it takes part."""

    def unfit(task: Task, work: LocalWork) -> str | None:
        if task.work == "slots":
            return misfit(work, len(task.models), d, task.most) or beyond(work.vector.ravel(), how.clip)
        if not usable(work.vector):
            return UNUSABLE
        return beyond(work.vector, how.clip) if how.noise is None else None

    return unfit
