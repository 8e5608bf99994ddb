"""Clients that upload their updates: how they are made, and how they treat their work."""

from collections.abc import Mapping
from functools import partial
from typing import Literal

from ...crypto.orthonormal import Identity, Transform
from ...crypto.prg import derive_key
from ..choosing.chooser import chooser_of
from ..choosing.messages import CHOICES
from ..choosing.messages import MESSAGES as CHOOSING
from ..drivers.roles import Party, Role
from ..pairs.roles import KINDS as PAIR_KINDS
from ..pairs.roles import identities_of, roles_of
from ..seeding.joining import exchange_of
from ..view.answers import Vector
from ..view.protection import Setup
from ..view.work import LocalWork
from ..wire.messages import Task
from ..work.conduct import Conduct
from ..work.keeping import participant_of
from ..work.lending import Lending, lending_of
from ..work.maker import TRANSFORM, WORK, Maker, Mine
from ..work.slot_work import misfit, packed
from ..work.upload_client import IdleUploader, SharedTransform, client_step
from ..work.uploads import Policy, from_bytes

KINDS = {CHOICES: CHOOSING, **PAIR_KINDS}


def uploading_clients() -> Maker:
    """They upload what they computed."""
    return Maker(_in_the_clear, KINDS, identities_of)


def transforming_clients(transform: type[Transform], keys: Literal["run", "session"] = "run") -> Maker:
    """They upload it under a secret map. keys: as in `Permuted`."""
    return Maker(partial(_transformed, transform, keys), KINDS, identities_of, exchange_of("permuted"))


def _in_the_clear(mine: Mine) -> Mapping[str, Role]:
    identity = mine.shared.once(TRANSFORM, lambda: Identity(len(mine.setup.initial)))
    return _roles(mine, lambda session: identity, None)


def _transformed(transform: type[Transform], keys: str, mine: Mine) -> Mapping[str, Role]:
    setup, d = mine.setup, len(mine.setup.initial)
    secret = mine.shared.once((TRANSFORM, mine.seed), lambda: SharedSecret(mine.seed, setup.run, transform, keys, d))
    mine.shared.draws[TRANSFORM] = secret
    return _roles(mine, secret, lending_of(mine.seed, setup))


def _roles(mine: Mine, transform: SharedTransform, lending: Lending | None) -> Mapping[str, Role]:
    """lending: how clients hand each other models, where they own them."""
    conduct = conduct_of(mine.setup, transform, hides=lending is not None)
    role = Party(mine.id, IdleUploader(mine.id, mine.setup.run, Policy(), transform), client_step)
    client = participant_of(mine, role, conduct, lending)
    return {WORK: client, CHOICES: chooser_of(mine, client), **roles_of(mine, client)}


class SharedSecret:
    """What every client of a run holds: the seed, and the transforms drawn from it. The last few are kept drawn."""

    KEPT = 32

    def __init__(self, seed: bytes, run: bytes, transform: type[Transform], keys: str, d: int) -> None:
        self._seed = seed
        self._run = run
        self._transform = transform
        self._keys = keys
        self._d = d
        self._drawn: dict[bytes, Transform] = {}

    def __call__(self, session: bytes) -> Transform:
        """The transform of the session with this digest."""
        context = self._run if self._keys == "run" else session
        if context not in self._drawn:
            if len(self._drawn) >= self.KEPT:
                del self._drawn[next(iter(self._drawn))]
            self._drawn[context] = self._transform.draw(derive_key(self._seed, "transform", context), self._d)
        return self._drawn[context]


def conduct_of(setup: Setup, transform: SharedTransform, hides: bool) -> Conduct:
    """Clients upload what they computed; they keep it where they may embed by it, or started from models of their own."""
    d = len(setup.initial)

    def unfit(task: Task, work: LocalWork) -> str | None:
        return misfit(work, len(task.models), d, task.most) if task.work == "slots" else None

    def put(task: Task, work: LocalWork) -> Vector:
        return packed(work) if task.work == "slots" else work.vector

    def opened(session: bytes, vector: bytes) -> Vector:
        return transform(session).invert(from_bytes(vector))

    def holds(task: Task) -> bool:
        return setup.embedders is not None or task.own != ""

    return Conduct(unfit, put, holds, lambda task: None, opened, uploads=True, hides=hides)
