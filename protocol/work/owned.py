"""The models that one client holds: those that clients own, and its own. It makes, lends and keeps them as it is told.

Spec: specs/owned_models.md. What clients of one process hold of equal content they hold once (`Making`).
"""

import hashlib
import struct
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from weakref import WeakValueDictionary

import numpy as np

from ...crypto.entropy import Entropy
from ...crypto.envelope import InvalidSeal, open_sealed, seal
from ...crypto.prg import derive_key
from ..core.errors import ProtocolError
from ..core.session import SERVER
from ..drivers.roles import drop_oldest
from ..view.answers import Vector
from ..view.protection import Setup
from ..wire.recipes import MOST_PARTS, SALT_BYTES, Holds, Lend, Lent, Recipe, RoundOver
from .uploads import from_bytes, to_bytes

MOST_MODELS = MOST_PARTS
"""That a client holds."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Kept:
    """A model or mean. vector: float32 (d,). digest: SHA-256 of its bytes."""

    vector: Vector = field(repr=False)
    digest: bytes


class Making:
    """Makes equal things once, as long as somebody holds what was made."""

    def __init__(self) -> None:
        self._made: WeakValueDictionary[Hashable, Kept] = WeakValueDictionary()
        self._equal: WeakValueDictionary[bytes, Kept] = WeakValueDictionary()

    def __call__(self, of: Hashable, make: Callable[[], Vector]) -> Kept:
        """What follows from `of`, and is made by `make` where nobody did."""
        if (found := self._made.get(of)) is None:
            vector = make()
            digest = hashlib.sha256(to_bytes(vector)).digest()
            found = self._made[of] = self._equal.setdefault(digest, Kept(vector, digest))
        return found


@dataclass(frozen=True, slots=True)
class Lending:
    """How clients hand models to each other through a server that cannot read them. secret: that all clients share."""

    secret: bytes = field(repr=False)
    entropy: Entropy = field(repr=False)

    def key(self, name: str, lender: int, salt: bytes) -> bytes:
        """Of one lent model: no salt is drawn twice for another content."""
        return derive_key(self.secret, "lent model", salt + lender.to_bytes(4, "big") + name.encode())


def lending_of(seed: bytes, setup: Setup) -> Lending:
    """Of clients that agreed on this seed."""
    return Lending(derive_key(seed, "lending", setup.run), setup.entropy)


def starts_of(setup: Setup) -> Mapping[str, Vector]:
    """The models that all parties know before the run, by name."""
    return {"init": setup.initial} | {f"init {k}": model for k, model in enumerate(setup.others, 1)}


class Owned:
    """One client's; public ones only where clients lend them. models: by name. mine: those of them that are its own alone, and
    are lent to nobody. means: by name, of this round. came: models that came with its tasks of this round, by name. opened: what
    a mean of a session is, from its bytes.
    """

    def __init__(
        self,
        me: int,
        starts: Mapping[str, Vector],
        making: Making,
        opened: Callable[[bytes, bytes], Vector],
        lending: Lending | None = None,
    ) -> None:
        self.me = me
        self.models: dict[str, Kept] = {}
        self.mine: set[str] = set()
        self.means: dict[str, Kept] = {}
        self.came: dict[str, Kept] = {}
        self._length = len(starts["init"])
        self._making = making
        self._opened = opened
        self._lending = lending
        for name, vector in starts.items() if lending is not None else ():
            self.models[name] = making(("start", name), partial(_itself, vector))

    def __getitem__(self, name: str) -> Vector:
        """A model that it holds, or that came in this round. Raises KeyError."""
        return (self.models if name in self.models else self.came)[name].vector

    def holds(self, name: str) -> bool:
        """Whether it holds a model of this name."""
        return name in self.models

    def learn(self, name: str, session: bytes, vector: bytes) -> None:
        """A mean was published to it. Of more than it can hold the oldest are forgotten."""
        of = "mean", session, hashlib.sha256(vector).digest()
        self.means[name] = self._making(of, lambda: self._opened(session, vector))
        drop_oldest(self.means, MOST_MODELS)

    def came_with(self, task: bytes, models: Mapping[str, Vector]) -> None:
        """Models that came with a task. task: SHA-256 of all of them, as they came."""
        for k, (name, vector) in enumerate(models.items()):
            self.came[name] = self._making(("came", task, len(models), k), partial(_itself, vector))
        drop_oldest(self.came, MOST_MODELS)

    def over(self) -> None:
        """The round is over: what came in it, and its means, are gone."""
        self.came.clear()
        self.means.clear()

    def hold(self, name: str, vector: Vector, *, alone: bool = False) -> None:
        """A model that it made on its own."""
        data = vector.tobytes()
        self._keep(name, self._making(("held", hashlib.sha256(data).digest()), lambda: vector), alone)

    def drop(self, name: str) -> None:
        """One that it made on its own, and needs no more."""
        self.models.pop(name, None)
        self.mine.discard(name)

    def restore(self, models: Mapping[str, Vector], mine: Iterable[str]) -> None:
        """Go on from what was kept."""
        self.models, self.mine, self.means, self.came = {}, set(mine), {}, {}
        for name, vector in models.items():
            self.hold(name, vector, alone=name in self.mine)

    # --- as it is told ------------------------------------------------------------------------------------------------

    def told(self, word: Recipe | Lend | Lent | RoundOver, updates: Mapping[str, Vector]) -> Holds | Lent | None:
        """What it answers. updates: its own work, by name. Raises ProtocolError for what it does not do."""
        match word:
            case Recipe():
                return self._make(word, updates)
            case Lend(name):
                return self._lend(name)
            case Lent():
                return self._borrow(word)
        for name in self.models.keys() - {*word.names}:
            del self.models[name]
        self.mine &= self.models.keys()
        self.came = {name: self.came[name] for name in word.names if name in self.came}
        self.means.clear()
        return None

    def _make(self, recipe: Recipe, updates: Mapping[str, Vector]) -> Holds | None:
        held = {**self.came, **self.models}
        missing = not held.keys() >= {*recipe.models} or recipe.mean not in {"", *self.means}
        if missing or recipe.update not in {"", *updates}:
            return None
        parts, first = [held[name] for name in recipe.models], held[recipe.models[0]]
        own = bool(self.mine & {*recipe.models}) or recipe.update != ""
        if recipe.mean:
            mean, step = self.means[recipe.mean], np.float32(recipe.times)
            of: Hashable = ("moved", first.digest, mean.digest, recipe.step)
            made = self._making(of, lambda: first.vector + step * mean.vector)
        elif recipe.update:
            made = self._making(object(), lambda: (first.vector + updates[recipe.update]).astype(np.float32, copy=False))
        else:
            of = ("combined", tuple(part.digest for part in parts), recipe.weights)
            made = self._making(of, lambda: combined([part.vector for part in parts], recipe.of))
        return self._keep(recipe.name, made, own)

    def _lend(self, name: str) -> Lent | None:
        if name not in self.models or name in self.mine:
            return None
        if self._lending is None:
            raise ProtocolError("a model to lend where the server owns them", SERVER)
        label = f"lent model {self.me} {name} {self.models[name].digest.hex()}"
        salt = self._lending.entropy.secret(label, SALT_BYTES)
        return Lent(name, self.me, salt, seal(self._lending.key(name, self.me, salt), to_bytes(self[name]), name.encode()))

    def _borrow(self, lent: Lent) -> Holds:
        content = lent.content
        if lent.lender != SERVER:
            if self._lending is None:
                raise ProtocolError("a sealed model where the server owns them", SERVER)
            try:
                content = open_sealed(self._lending.key(lent.name, lent.lender, lent.salt), content, lent.name.encode())
            except InvalidSeal:
                raise ProtocolError("a model that does not open", SERVER) from None
        elif self._lending is not None:
            raise ProtocolError("a model in the clear where clients own them", SERVER)
        if len(content) != 4 * self._length:
            raise ProtocolError(f"a model of {len(content)} bytes where {4 * self._length} belong", lent.lender)
        if lent.name not in self.models:
            made = self._making(("lent", hashlib.sha256(content).digest()), lambda: from_bytes(content))
            if lent.lender != SERVER:
                return self._keep(lent.name, made, False)
            self.came[lent.name] = made
        return Holds((lent.name,))

    def _keep(self, name: str, made: Kept, own: bool) -> Holds:
        if len(self.models) >= MOST_MODELS and name not in self.models:
            raise ProtocolError(f"more than {MOST_MODELS} models to hold", SERVER)
        self.models[name] = made
        self.mine = self.mine | {name} if own else self.mine - {name}
        return Holds((name,))


def _itself(vector: Vector) -> Vector:
    return vector


def combined(models: Sequence[Vector], weights: Iterable[float]) -> Vector:
    """Their sum, each times its weight, float32 (d,), added in float64."""
    total = np.zeros(len(models[0]))
    for vector, weight in zip(models, weights, strict=True):
        total += weight * vector
    return total.astype(np.float32)


def weights_of(weights: Iterable[float]) -> bytes:
    """As in a `Recipe`."""
    return b"".join(struct.pack(">d", weight) for weight in weights)
