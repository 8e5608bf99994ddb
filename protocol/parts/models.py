"""Models and means at their owner, and what is done with them there."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import chain, count

import numpy as np

from ..core.errors import NobodyAnswered, Refused
from ..core.session import SERVER
from ..view.answers import Assignment, Model, Owner, Remembered, Snapshot, Sum, Traffic, Updates, Vector
from ..wire.recipes import Recipe
from ..work.making import combined, weights_of
from ..work.owned import starts_of
from .clients import SILENT, UNMADE
from .handles import Handles
from .run import Ids, Run

MOVES, GIVEN = ("moves of round", "moves"), "given "
TOLD, VAIN = "told to hold ", "asked to lend in vain"
"""By what a snapshot has the `Handles.at`, and the models that tasks named."""


class Models:
    """The models of a run, as the server has them: its own, or handles on what clients hold (`Handles`).

    Models that a client moved by itself, or by a sum that it alone received, are its own, whoever owns the others.
    owner: of public models. held: the server's models; what it holds is what a curious server holds. means: of the round, at the
    server. started: by the updates' handle, the public model, and who started from its own instead.
    """

    def __init__(self, run: Run, owner: Owner) -> None:
        self.owner: Owner = owner
        self.held: dict[str, Vector] = dict(starts_of(run.setup)) if owner == "server" else {}
        self.means: dict[str, Vector] = {}
        self.started: dict[str, tuple[Model, frozenset[int]]] = {}
        self.handles = Handles(run, self.held if owner == "server" else None)
        self._run = run

    def check(self, model: Model) -> None:
        """Raises Refused if a public model is gone."""
        if model.name not in (self.held if self.owner == "server" else self.handles.known):
            raise Refused(f"the model {model.name} is gone; keep its handle when retiring")

    def observe(self, model: Model, /) -> Vector:
        """The model itself, whosever it is."""
        if model.name in self.held:
            return self.held[model.name]
        clients, handles = self._run.clients, self.handles
        for i in sorted(handles.known.get(model.name) or {i for name, i in handles.owners.items() if name == model.name}):
            if (found := clients.model(i, model.name)) is not None:
                return found
        raise Refused(f"the model {model.name} is gone; keep its handle when retiring")

    def taught(self, label: str, clients: Ids, key: str = "") -> str:
        """What a mean is called that these clients were sent. key: what they hold it by, if not by that name."""
        name = self.mean_name(label)
        self.handles.taught(name, key or name, clients)
        return name

    def mean_name(self, label: str) -> str:
        """What a mean can be called."""
        return unused(label, self.means.keys() | self.handles.means.keys())

    # --- asked by algorithms ----------------------------------------------------------------------------------------------

    def advance(self, model: Model, mean: Sum, /, step: float = 1.0) -> Model:
        """See `MovesModels`."""
        handles, receiver = self.handles, mean.recipient
        personal = isinstance(receiver, int)
        owner = handles.owners.get(model.name)
        if personal and owner not in (None, receiver):
            raise Refused(f"the model {model.name} is client {owner}'s own; client {receiver} moves its own or a public one")
        if not (personal and owner is not None):
            self.check(model)
        if mean.name not in (self.means if receiver == "server" else handles.means):
            raise Refused(f"the mean {mean.name} is gone; move the model in the round that published it")
        name = self._new(mean.name)
        if receiver == "server":
            with self._run.timed():
                self.held[name] = self.held[model.name] + np.float32(step) * self.means[mean.name]
            return Model(name)
        owner = receiver if isinstance(receiver, int) else owner
        lesson = handles.means[mean.name]
        recipe = Recipe(name, (model.name,), weights_of([1.0]), lesson.key, "", weights_of([step]))
        handles.make(recipe, lesson.clients if owner is None else {owner} & lesson.clients, owner)
        return Model(name)

    def merge(self, models: Mapping[Model, float], /) -> Model:
        """See `MovesModels`."""
        total = sum(models.values())
        if not total > 0 or min(models.values()) < 0:
            raise ValueError("the weights of models that are merged are not negative, and some are above 0")
        return self._combined({model: weight / total for model, weight in models.items()})

    def extrapolate(self, model: Model, before: Model, factor: float, /) -> Model:
        """See `MovesModels`."""
        if not math.isfinite(factor):
            raise ValueError(f"the factor of an extrapolation is a finite number, not {factor}")
        return self._combined({model: 1 + factor, before: -factor} if model != before else {model: 1.0})

    def revise(self, model: Model, change: Callable[[Vector], Vector], /) -> Model:
        """See `Revises`."""
        before = self._server_s(model, "change")
        with self._run.timed():
            changed = np.asarray(change(before.copy()))
        if changed.shape != before.shape or changed.dtype != np.float32:
            raise ValueError(f"a changed model is float32 of shape {before.shape}, not {changed.dtype} of {changed.shape}")
        name = self._new(model.name)
        self.held[name] = changed
        return Model(name)

    def norm(self, model: Model, /) -> float:
        """See `Revises`."""
        return float(np.linalg.norm(self._server_s(model, "measure").astype(np.float64)))

    def train_alone(self, round: int, models: Mapping[int, Model], /) -> Mapping[int, Model]:
        """See `Trains`. Nobody is told of it, so nothing is sent: each client does it by itself."""
        starts = {i: (model.name, self._public(model.name, i)) for i, model in models.items()}
        names = {i: self._new(f"client {i}@{round}") for i in models}
        trained = {}
        for client, reason in self._run.clients.train_alone(round, starts, names).items():
            if reason:
                if reason == UNMADE:
                    self._run.record.fault(client, reason)
                elif reason != SILENT:  # who is away is no fault, as in a round with others
                    self._run.record.reject([client], reason)
                trained[client] = models[client]
                continue
            self.handles.owners[names[client]] = client
            trained[client] = Model(names[client])
        return trained

    def _public(self, name: str, client: int) -> Vector | None:
        """A public model that this client is not known to hold; None for one that it holds. Raises Refused for another's own."""
        if self.handles.owners.get(name, client) != client:
            raise Refused(f"client {client} cannot train {name}, which is another client's own")
        if name not in self.handles.owners:
            self.check(Model(name))
        if client in self.handles.known.get(name, ()) or name in self.handles.owners:
            return None
        if self.owner == "clients":
            self.handles.hand_out({name: (client,)})
            return None
        return self.observe(Model(name))

    def own(self, updates: Updates, /) -> Mapping[int, Model]:
        """What clients that started from models of their own ended up with, before any sum: of those that say so."""
        start = self.started.get(updates.name)
        if start is None:
            raise Refused(f"nobody started from a model of its own in {updates.name}; see Assignment.own")
        (public, clients), found = start, {}
        for i in (i for i in updates.clients if i in clients):
            name = self._new(f"client {i}@{updates.round}")
            recipe = Recipe(name, (public.name,), weights_of([1.0]), "", updates.name)
            with suppress(NobodyAnswered):
                self.handles.make(recipe, (i,), i)
                found[i] = Model(name)
        return found

    def begun(self, updates: Updates, assignment: Assignment) -> None:
        """These updates came of this work: note who of their clients started from a model of its own."""
        if own := frozenset(assignment.own) & set(updates.clients):
            self.started[updates.name] = assignment.model, own

    # --- inside -------------------------------------------------------------------------------------------------------------

    def _new(self, name: str) -> str:
        """A name that is no model's yet, public or a client's own: handles are told apart by it alone."""
        return unused(name, self.held.keys() | self.handles.known.keys() | self.handles.owners.keys())

    def _server_s(self, model: Model, what: str) -> Vector:
        """A model that the server holds. what: it does with it."""
        if self.owner != "server" or model.name in self.handles.owners:
            raise Refused(f"clients own the model {model.name}, so the server cannot {what} it")
        self.check(model)
        return self.held[model.name]

    def _combined(self, models: Mapping[Model, float]) -> Model:
        """The combination of public models with these weights."""
        if owned := sorted(model.name for model in models if model.name in self.handles.owners):
            raise Refused(f"the model {owned[0]} is one client's own, and nobody holds all of these; take public models")
        for model in models:
            self.check(model)
        names, weights = [model.name for model in models], tuple(models.values())
        name = self._new("+".join(sorted(names))[:200])
        if self.owner == "server":
            with self._run.timed():
                self.held[name] = combined([self.held[n] for n in names], weights)
        else:
            self.handles.make(
                Recipe(name, tuple(names), weights_of(weights)), set().union(*(self.handles.known[n] for n in names))
            )
        return Model(name)

    # --- keeping ------------------------------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`."""
        for name in self.held.keys() - models:
            del self.held[name]
        self.handles.over(models)
        self._forget_round()

    def save(self) -> Snapshot:
        """See `Part`."""
        known = {name: tuple(sorted(clients)) for name, clients in self.handles.known.items()}
        numbers = dict(zip(MOVES, self.handles.at, strict=True)) | {f"{GIVEN}{name}": 1 for name in sorted(self.handles.given)}
        lists = {f"{TOLD}{name}": sorted(clients) for name, clients in self.handles.told.items()} | {VAIN: self.handles.vain}
        kept = {name: np.array(clients, np.int64) for name, clients in lists.items() if clients}
        return Snapshot(dict(self.held), kept, {SERVER: numbers}, Traffic(), own=dict(self.handles.owners), known=known)

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`."""
        self._forget_round()
        self.held.clear()
        numbers = snapshot.next_round.get(SERVER, {})
        given = {name.removeprefix(GIVEN) for name in numbers if name.startswith(GIVEN)}
        kept = {name: of.tolist() for name, of in snapshot.remembered.items() if name == VAIN or name.startswith(TOLD)}
        vain = kept.pop(VAIN, [])
        told = {name.removeprefix(TOLD): clients for name, clients in kept.items()}
        at = numbers.get(MOVES[0], 0), numbers.get(MOVES[1], 0)
        self.handles.restart(snapshot.known, snapshot.own, at, given, told, vain)
        self.held |= snapshot.models

    def _forget_round(self) -> None:
        self.handles.means.clear()
        for store in (self.means, self.started):
            store.clear()


def check_own(assignment: Assignment, kind: str, held: Collection[str], owners: Mapping[str, int]) -> None:
    """Raises Refused for own models that these participants do not hold, or that this kind of work does not start from.

    The public model may stand for a client's own, as it does before the first round. owners: of models that one client holds.
    """
    if not assignment.own:
        return
    if kind != "update":
        raise Refused(f'work from models of their own is of the kind "update", not {kind!r}')
    if strangers := sorted(assignment.own.keys() - set(assignment.participants)):
        raise Refused(f"client {strangers[0]} has a model to start from and takes no part; leave it out of own")
    if gone := [m.name for m in assignment.own.values() if m.name not in held and m != assignment.model]:
        raise Refused(f"the model {gone[0]} is no client's own, or is gone; keep its handle when retiring")
    if lent := [(i, m.name) for i, m in assignment.own.items() if owners.get(m.name, i) != i]:
        raise Refused(f"client {lent[0][0]} cannot start from {lent[0][1]}, which is another client's own")


def unused(name: str, taken: Collection[str]) -> str:
    """The name, or with a number behind it if it is taken."""
    return next(n for n in chain([name], (f"{name}#{k}" for k in count(2))) if n not in taken)
