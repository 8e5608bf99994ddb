"""The models that one client holds: those that clients own, and its own. It makes, lends and keeps them as it is told.

Spec: specs/owned_models.md. What clients of one process hold of equal content they hold once (`Making`).
"""

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from ..core.errors import ProtocolError
from ..core.session import SERVER
from ..drivers.roles import drop_oldest
from ..view.answers import Vector
from ..view.protection import Setup
from ..wire.recipes import MOST_PARTS, Holds, Lend, Lent, Recipe, RoundOver
from .lending import Lending
from .making import KeptModel, Making, combined
from .uploads import from_bytes, to_bytes

MOST_MODELS = MOST_PARTS
"""That a client holds."""
WEIGHTS_ERROR = 1e-6
"""Of weights that add up to 1, in float64."""


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
        self.models: dict[str, KeptModel] = {}
        self.mine: set[str] = set()
        self.known = {*starts}  # models made of nothing but those that everybody knows
        self.means: dict[str, KeptModel] = {}
        self.came: dict[str, KeptModel] = {}
        self.length = len(starts["init"])
        self._starts = frozenset(starts)
        self._making = making
        self._opened = opened
        self._lending = lending
        for name, vector in starts.items() if lending is not None else ():
            self.models[name] = making(("start", name), partial(_itself, vector))

    def __getitem__(self, name: str) -> Vector:
        """A model that it holds, or that came in this round. Raises KeyError."""
        return (self.models if name in self.models else self.came)[name].vector

    def __contains__(self, name: str) -> bool:
        """Whether it holds it, or it came in this round."""
        return name in self.models or name in self.came

    @property
    def served(self) -> bool:
        """Whether public models come from the server."""
        return self._lending is None

    def holds(self, name: str) -> bool:
        """Whether it holds a model of this name."""
        return name in self.models

    def learn(self, name: str, session: bytes, vector: bytes) -> None:
        """A mean was published to it. Of more than it can hold the oldest are forgotten."""
        of = "mean", session, vector  # its bytes themselves: to hash them by Python is faster, and equal ones are compared
        self.means[name] = self._making(of, lambda: self._opened(session, vector))
        drop_oldest(self.means, MOST_MODELS)

    def came_with(self, task: bytes, names: Sequence[str], vectors: Sequence[Vector]) -> None:
        """Models that came with a task, by the first of its names. task: SHA-256 of all of them, as they came."""
        alone = task if len(vectors) == 1 else b""
        for k, vector in enumerate(vectors):
            self.came[names[k]] = self._making(("came", task, len(vectors), k), partial(_itself, vector), alone)
        drop_oldest(self.came, MOST_MODELS)

    def over(self) -> None:
        """The round is over: what came in it, and its means, are gone."""
        self.came.clear()
        self.means.clear()

    def hold(self, name: str, vector: Vector, *, alone: bool = False) -> None:
        """A model that it made on its own."""
        digest = hashlib.sha256(to_bytes(vector)).digest()
        self._keep(name, self._making(("held", digest), lambda: vector, digest), alone)

    def drop(self, name: str) -> None:
        """One that it made on its own, and needs no more."""
        self.models.pop(name, None)
        self.mine.discard(name)

    def restore(self, models: Mapping[str, Vector], mine: Iterable[str], known: Iterable[str] = ()) -> None:
        """Go on from what was kept."""
        self.models, self.mine, self.means, self.came = {}, set(mine), {}, {}
        self.known = {*self._starts, *known}
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
        self.known &= {*self._starts, *self.models}
        self.came = {name: self.came[name] for name in word.names if name in self.came}
        self.means.clear()
        return None

    def _make(self, recipe: Recipe, updates: Mapping[str, Vector]) -> Holds | None:
        if abs(sum(recipe.of) - 1) > WEIGHTS_ERROR:
            raise ProtocolError(
                "a model of weights that do not add up to 1: it could be made of one that everybody knows", SERVER
            )
        if self.holds(recipe.name):
            return Holds((recipe.name,))
        held = {**self.came, **self.models}
        missing = not held.keys() >= {*recipe.models} or recipe.mean not in {"", *self.means}
        if missing or recipe.update not in {"", *(name for name, work in updates.items() if work.shape == (self.length,))}:
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
        if not made.finite:
            raise ProtocolError("a model that is not finite", SERVER)
        if {*recipe.models} <= self.known and not recipe.mean and not recipe.update:
            self.known.add(recipe.name)
        return self._keep(recipe.name, made, own)

    def _lend(self, name: str) -> Lent | None:
        if name not in self.models or name in self.mine:
            return None
        if self._lending is None:
            raise ProtocolError("a model to lend where the server owns them", SERVER)
        kept = self.models[name]
        return self._lending.lent(self.me, name, to_bytes(kept.vector), kept.digest)

    def _borrow(self, lent: Lent) -> Holds:
        content = lent.content
        if lent.lender != SERVER:
            if self._lending is None:
                raise ProtocolError("a sealed model where the server owns them", SERVER)
            content = self._lending.opened(lent)
        elif self._lending is not None:
            raise ProtocolError("a model in the clear where clients own them", SERVER)
        if len(content) != 4 * self.length:
            raise ProtocolError(f"a model of {len(content)} bytes where {4 * self.length} belong", lent.lender)
        if lent.name not in self.models:
            digest = hashlib.sha256(content).digest()
            made = self._making(("lent", digest), lambda: from_bytes(content), digest)
            if lent.lender != SERVER:
                return self._keep(lent.name, made, False)
            self.came[lent.name] = made
            drop_oldest(self.came, MOST_MODELS)
        return Holds((lent.name,))

    def _keep(self, name: str, made: KeptModel, own: bool) -> Holds:
        if len(self.models) >= MOST_MODELS and name not in self.models:
            raise ProtocolError(f"more than {MOST_MODELS} models to hold", SERVER)
        self.models[name] = made
        self.mine = self.mine | {name} if own else self.mine - {name}
        return Holds((name,))


def _itself(vector: Vector) -> Vector:
    return vector
