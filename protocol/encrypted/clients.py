"""How clients are made that hold their updates and the keys that all of them are encrypted under."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from ..choosing.chooser import chooser_of
from ..choosing.messages import CHOICES
from ..choosing.messages import MESSAGES as CHOOSING
from ..drivers.roles import Party, Role
from ..seeding.joining import exchange_of
from ..view.protection import Setup
from ..view.work import LocalWork
from ..wire.messages import Task
from ..work.conduct import Unfit
from ..work.keeping import keeping_client
from ..work.lending import lending_of
from ..work.maker import SKETCH, WORK, Maker, Mine
from ..work.sketch_keys import SketchSecret, SketchTerms
from ..work.slot_work import misfit
from ..work.uploads import UNUSABLE, usable
from .client import client_step
from .client_phases import EncryptionPolicy, IdleEncryptor
from .holder import KeyHolder
from .messages import MESSAGES as ENCRYPTED
from .protection import Encrypted
from .scaling import unsketchable, unsummable

KEYS = "keys"
"""The name of the role of keys, and of sums and scores under them."""


def encrypting_clients(how: Encrypted) -> Maker:
    """how: the protection."""
    return Maker(partial(_roles, how), {KEYS: ENCRYPTED, CHOICES: CHOOSING}, exchange=exchange_of("encrypted"))


def _roles(how: Encrypted, mine: Mine) -> Mapping[str, Role]:
    setup, d = mine.setup, len(mine.setup.initial)
    secret = mine.shared.once((SKETCH, mine.seed), lambda: SketchSecret(mine.seed, sketched_of(how, setup)))
    mine.shared.draws[SKETCH] = secret

    early = (lambda: secret(b"")) if how.keys == "run" else None  # with the work: sketches are of one key
    client = keeping_client(mine, unfit_of(d), lambda task: early, None, lending_of(mine.seed, setup))
    idle = IdleEncryptor(mine.id, setup.run, replace(policy_of(how), clients=frozenset(setup.clients)), mine.seed, secret, d)
    holder = KeyHolder(Party(mine.id, idle, client_step), client)
    return {WORK: client, KEYS: holder, CHOICES: chooser_of(mine, client)}


def policy_of(how: Encrypted) -> EncryptionPolicy:
    """What clients insist on."""
    return EncryptionPolicy(how.rules.least, how.rules.least, how.keys, how.digits)


def sketched_of(how: Encrypted, setup: Setup) -> SketchTerms:
    """Of the run's sketches."""
    d = len(setup.initial)
    return SketchTerms(how.keys, setup.run, d, min(how.k, max(d // 2, 1)))


def unfit_of(d: int) -> Unfit:
    """What a client holds its work against before it says that it takes part."""

    def unfit(task: Task, work: LocalWork) -> str | None:
        if task.work == "slots":
            return misfit(work, len(task.models), d, task.most) or unsummable(work.vector.ravel(), 1)
        if not usable(work.vector):
            return UNUSABLE
        return unsummable(work.vector, 1) or unsketchable(work.sketched)

    return unfit
