"""Models and means at their owner, and what is done with them there."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, count

import numpy as np

from ..core.errors import Refused
from ..core.session import SERVER
from ..view.answers import Assignment, Model, Owner, Remembered, Snapshot, Sum, Traffic, Updates, Vector
from ..view.work import LocalJob
from ..work.uploads import usable
from .run import Run


class Models:
    """The models of a run. What the server holds is what a curious server holds.

    Models that a client moved by itself, or by a sum that it alone received, are its own, whoever owns the others.
    owner: of public models. held: the server's models. means: of the round, at the server. started: by the updates' handle, the
    public model, and who started from its own instead.
    """

    def __init__(self, run: Run, owner: Owner) -> None:
        self.owner: Owner = owner
        self.held: dict[str, Vector] = {}
        self.means: dict[str, Vector] = {}
        self.started: dict[str, tuple[Model, frozenset[int]]] = {}
        self._run = run
        self.public["init"] = run.setup.initial
        self.public.update({f"init {k}": model for k, model in enumerate(run.setup.others, 1)})

    @property
    def public(self) -> dict[str, Vector]:
        """Public models, by name, at their owner."""
        return self.held if self.owner == "server" else self._run.clients.models

    @property
    def public_means(self) -> dict[str, Vector]:
        """Means of public sums, by name, at the owner of public models."""
        return self.means if self.owner == "server" else self._run.clients.means

    def of(self, model: Model) -> Vector:
        """A public model. Raises Refused if it is gone."""
        if model.name not in self.public:
            raise Refused(f"the model {model.name} is gone; keep its handle when retiring")
        return self.public[model.name]

    def observe(self, model: Model, /) -> Vector:
        """The model itself, whosever it is."""
        own = self._run.clients.models
        return own[model.name] if model.name in own else self.of(model)

    # --- asked by algorithms ----------------------------------------------------------------------------------------------

    def advance(self, model: Model, mean: Sum, /, step: float = 1.0) -> Model:
        """See `MovesModels`."""
        clients, receiver = self._run.clients, mean.recipient
        personal = isinstance(receiver, int)
        means, models = (clients.means, clients.models) if personal else (self.public_means, self.public)
        before, owner = self.observe(model) if personal else self.of(model), clients.owners.get(model.name)
        if personal and owner not in (None, receiver):
            raise Refused(f"the model {model.name} is client {owner}'s own; client {receiver} moves its own or a public one")
        if mean.name not in means:
            raise Refused(f"the mean {mean.name} is gone; move the model in the round that published it")
        at = (receiver,) if isinstance(receiver, int) else (SERVER,) if self.owner == "server" else mean.clients
        with self._run.timed(*at):
            moved = before + np.float32(step) * means[mean.name]
        name = self._new(mean.name)
        models[name] = moved
        if (owner := receiver if isinstance(receiver, int) else owner) is not None:
            clients.owners[name] = owner
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
        if self.owner != "server" or model.name in self._run.clients.owners:
            raise Refused(f"clients own the model {model.name}, so the server cannot change it")
        before = self.of(model)
        with self._run.timed():
            changed = np.asarray(change(before.copy()))
        if changed.shape != before.shape or changed.dtype != np.float32:
            raise ValueError(f"a changed model is float32 of shape {before.shape}, not {changed.dtype} of {changed.shape}")
        name = self._new(model.name)
        self.public[name] = changed
        return Model(name)

    def train_alone(self, round: int, models: Mapping[int, Model], /) -> Mapping[int, Model]:
        """See `Trains`."""
        jobs = [LocalJob(i, round, "update", self.observe(models[i])) for i in sorted(models)]
        trained = {}
        for client, result in self._run.setup.workers(jobs):
            if not usable(result.vector):
                self._run.record.reject([client])
                trained[client] = models[client]
                continue
            trained[client] = self._owned(client, f"client {client}@{round}", self.observe(models[client]) + result.vector)
        return trained

    def own(self, updates: Updates, /) -> Mapping[int, Model]:
        """What clients that started from models of their own ended up with, before any sum."""
        start = self.started.get(updates.name)
        if start is None:
            raise Refused(f"nobody started from a model of its own in {updates.name}; see Assignment.own")
        (public, clients), found = start, {}
        for i in (i for i in updates.clients if i in clients):
            with self._run.timed(i):
                moved = self.observe(public) + self._run.clients.parties[i].held[updates.name].vector
            found[i] = self._owned(i, f"client {i}@{updates.round}", moved.astype(np.float32, copy=False))
        return found

    def begun(self, updates: Updates, assignment: Assignment) -> None:
        """These updates came of this work: note who of their clients started from a model of its own."""
        if own := frozenset(assignment.own) & set(updates.clients):
            self.started[updates.name] = assignment.model, own

    # --- inside -------------------------------------------------------------------------------------------------------------

    def _new(self, name: str) -> str:
        """A name that is no model's yet, public or a client's own: handles are told apart by it alone."""
        return unused(name, self.held.keys() | self._run.clients.models.keys())

    def _owned(self, client: int, name: str, model: Vector) -> Model:
        """A new model that this client alone holds."""
        made = Model(self._new(name))
        self._run.clients.models[made.name], self._run.clients.owners[made.name] = model, client
        return made

    def _combined(self, models: Mapping[Model, float]) -> Model:
        """The combination of public models with these weights."""
        if owned := sorted(model.name for model in models if model.name in self._run.clients.owners):
            raise Refused(f"the model {owned[0]} is one client's own, and nobody holds all of these; take public models")
        total = np.zeros(len(self._run.setup.initial))
        for model, weight in models.items():
            total += weight * self.of(model)
        name = self._new("+".join(sorted(model.name for model in models))[:200])
        self.public[name] = total.astype(np.float32)
        return Model(name)

    # --- keeping ------------------------------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`."""
        clients = self._run.clients
        for store in (self.held, clients.models):
            for name in store.keys() - models:
                del store[name]
        clients.owners = {name: i for name, i in clients.owners.items() if name in models}
        self._forget_round()

    def save(self) -> Snapshot:
        """See `Part`."""
        clients = self._run.clients
        return Snapshot({**self.held, **clients.models}, {}, {}, Traffic(), own=dict(clients.owners))

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`."""
        clients = self._run.clients
        self._forget_round()
        self.held.clear()
        clients.models.clear()
        clients.owners = dict(snapshot.own)
        for name, vector in snapshot.models.items():
            (clients.models if name in snapshot.own else self.public)[name] = vector

    def _forget_round(self) -> None:
        for store in (self.means, self._run.clients.means, self.started):
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
