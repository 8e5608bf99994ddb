"""Models and means at their owner, and what is done with them there: the part of a view that is about models."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain, count

import numpy as np

from .core.errors import Refused
from .core.session import SERVER
from .drivers.in_process import Fault, InProcess
from .sides import ClientSide, ServerSide
from .uploaded.uploads import usable
from .view.answers import Model, Owner, Sum, Vector
from .view.asks import LocalJob, Setup

Clients = tuple[int, ...]
UNUSABLE = "the vector is not finite, or too large to compare"


class ModelKeeping:
    """The two sides of a run. What the server's side holds is what a curious server holds.

    Models that a client moved by itself, or by a sum that it alone received, are its own, whoever owns the others.
    """

    tells_energy = False

    def __init__(self, setup: Setup, owner: Owner, clients: ClientSide, network: InProcess) -> None:
        self.server = ServerSide()
        self.clients = clients
        self._setup = setup
        self._owner: Owner = owner
        self._network = network
        self._models["init"] = setup.initial

    @property
    def owner(self) -> Owner:
        return self._owner

    @property
    def _models(self) -> dict[str, Vector]:
        return (self.server if self._owner == "server" else self.clients).models

    @property
    def _means(self) -> dict[str, Vector]:
        return (self.server if self._owner == "server" else self.clients).means

    def _model(self, model: Model) -> Vector:
        if model.name not in self._models:
            raise Refused(f"the model {model.name} is gone; keep its handle when retiring")
        return self._models[model.name]

    def advance(self, model: Model, mean: Sum, /, step: float = 1.0) -> Model:
        personal = isinstance(mean.recipient, int)
        means, models = (self.clients.means, self.clients.models) if personal else (self._means, self._models)
        before, owner = self.observe(model) if personal else self._model(model), self.clients.owners.get(model.name)
        if personal and owner not in (None, mean.recipient):
            raise Refused(
                f"the model {model.name} is client {owner}'s own; client {mean.recipient} moves its own or a public one"
            )
        if mean.name not in means:
            raise Refused(f"the mean {mean.name} is gone; move the model in the round that published it")
        at = (mean.recipient,) if isinstance(mean.recipient, int) else (SERVER,) if self._owner == "server" else mean.clients
        with self._network.timed(*at):
            moved = before + np.float32(step) * means[mean.name]
        name = self._new(mean.name)
        models[name] = moved
        if (owner := mean.recipient if isinstance(mean.recipient, int) else owner) is not None:
            self.clients.owners[name] = owner
        return Model(name)

    def _new(self, name: str) -> str:
        """A name that is no model's yet, public or a client's own: handles are told apart by it alone."""
        return unused(name, self.server.models.keys() | self.clients.models.keys())

    def _owned(self, client: int, name: str, model: Vector) -> Model:
        """A new model that this client alone holds."""
        made = Model(self._new(name))
        self.clients.models[made.name], self.clients.owners[made.name] = model, client
        return made

    def merge(self, models: Mapping[Model, float], /) -> Model:
        total = sum(models.values())
        if not total > 0 or min(models.values()) < 0:
            raise ValueError("the weights of models that are merged are not negative, and some are above 0")
        return self._combined({model: weight / total for model, weight in models.items()})

    def extrapolate(self, model: Model, before: Model, factor: float, /) -> Model:
        if not math.isfinite(factor):
            raise ValueError(f"the factor of an extrapolation is a finite number, not {factor}")
        return self._combined({model: 1 + factor, before: -factor} if model != before else {model: 1.0})

    def _combined(self, models: Mapping[Model, float]) -> Model:
        """The combination of public models with these weights."""
        if owned := sorted(model.name for model in models if model.name in self.clients.owners):
            raise Refused(f"the model {owned[0]} is one client's own, and nobody holds all of these; take public models")
        total = np.zeros(len(self._setup.initial))
        for model, weight in models.items():
            total += weight * self._model(model)
        name = self._new("+".join(sorted(model.name for model in models))[:200])
        self._models[name] = total.astype(np.float32)
        return Model(name)

    def revise(self, model: Model, change: Callable[[Vector], Vector], /) -> Model:
        if self._owner != "server" or model.name in self.clients.owners:
            raise Refused(f"clients own the model {model.name}, so the server cannot change it")
        before = self._model(model)
        with self._network.timed(SERVER):
            changed = np.asarray(change(before.copy()))
        if changed.shape != before.shape or changed.dtype != np.float32:
            raise ValueError(f"a changed model is float32 of shape {before.shape}, not {changed.dtype} of {changed.shape}")
        name = self._new(model.name)
        self._models[name] = changed
        return Model(name)

    def train_alone(self, round: int, models: Mapping[int, Model], /) -> Mapping[int, Model]:
        jobs = [LocalJob(i, round, "update", self.observe(models[i])) for i in sorted(models)]
        trained = {}
        for client, result in self._setup.workers(jobs):
            if not usable(result.vector):
                self._reject([client])
                trained[client] = models[client]
                continue
            trained[client] = self._owned(client, f"client {client}@{round}", self.observe(models[client]) + result.vector)
        return trained

    def observe(self, model: Model, /) -> Vector:
        return self.clients.models[model.name] if model.name in self.clients.models else self._model(model)

    def _reject(self, clients: Iterable[int], reason: str = UNUSABLE) -> None:
        self._network.faults += [Fault(i, reason, True) for i in clients]


def unused(name: str, taken: Collection[str]) -> str:
    """The name, or with a number behind it if it is taken."""
    return next(n for n in chain([name], (f"{name}#{k}" for k in count(2))) if n not in taken)
