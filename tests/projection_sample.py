"""EMD-CFL's comparisons as they are shipped, and what a server and its colluders saw of them: for attacks."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import torch

from cloister.fl.algorithms.emd_cfl import EMDCFL
from cloister.fl.clients.training import Job, PlainLoop, Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.population import Client, Examples, Population
from cloister.fl.data.source import Digits
from cloister.fl.emd.distances import Euclidean, ExactEmd, MeanDistance
from cloister.fl.emd.judging import tau_of
from cloister.fl.emd.subsample import Size
from cloister.fl.models.papers import Mlp, initial
from cloister.fl.models.vector import load_vector, to_vector
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import INITIAL, Simulation
from cloister.protocol import Plain
from cloister.protocol.core.session import SERVER
from cloister.protocol.messages import decode
from cloister.protocol.pairs.choices import MeanSketch
from cloister.protocol.pairs.messages import PairClouds, PairDistance, PairOffer
from cloister.protocol.pairs.question import PairQuestion
from cloister.protocol.pairs.terms import PairTerms
from cloister.protocol.view.answers import Assignment
from cloister.protocol.view.work import LocalWork

from . import sides

LIMIT = 1 << 28


@dataclass(frozen=True)
class Cloud:
    """One client's answer as the server decodes it. peer: None where it answers once for all."""

    client: int
    peer: int | None
    terms: PairTerms
    own: np.ndarray
    other: np.ndarray | None
    reference: float


@dataclass(frozen=True)
class Held:
    """What a colluding client's own computer had when it answered."""

    client: int
    peer: int | None
    projection: np.ndarray | None
    own: np.ndarray | None
    others: np.ndarray | None


@dataclass(frozen=True)
class Colluders:
    """An adversary whose members show the server what their computers have. models: what they say that they have trained."""

    members: frozenset[int]
    models: Mapping[int, np.ndarray] = field(default_factory=dict)
    held: list[Held] = field(default_factory=list)
    shown: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)

    def corrupt(self, computers: Any) -> "Colluding":
        return Colluding(self, computers)


@dataclass
class Colluding:
    conduct: Colluders
    computers: Any

    @property
    def members(self) -> frozenset[int]:
        return self.conduct.members

    def __call__(self, jobs: Any) -> Any:
        chosen = self.conduct.models
        for job in jobs:
            if job.client in chosen:
                yield job.client, LocalWork((chosen[job.client] - job.start).astype(np.float32), 10)
        yield from self.computers.honest([job for job in jobs if job.client not in chosen], {})

    def judge(self, offer: Any) -> Any:
        return self.computers.judge(offer)

    def embedders(self, honest: Any) -> "Watching":
        return Watching(honest, self.conduct)

    def save(self) -> Mapping[str, np.ndarray]:
        return {}

    def restore(self, memory: Any) -> None:
        pass


class Watching:
    """The clients' computers; those of colluders note what they had."""

    def __init__(self, honest: Any, conduct: Colluders) -> None:
        self.honest, self.conduct = honest, conduct

    def __getattr__(self, name: str) -> Any:
        return getattr(self.honest, name)

    def sent(self, client: int, occasion: Any, honest: Any) -> Any:
        if client in self.conduct.members:
            terms = occasion.terms
            peer = terms.peer(client) if len(terms.session.roster) == 2 else None
            self.conduct.held.append(Held(client, peer, occasion.projection, occasion.own, occasion.others))
        return honest


@dataclass
class Shown:
    """A colluder's own computer, which notes the embeddings that it is shown where clients measure."""

    own: Any
    client: int
    conduct: Colluders

    def release(self, *arguments: Any) -> Any:
        return self.own.release(*arguments)

    def show(self, *arguments: Any) -> Any:
        return self.own.show(*arguments)

    def report(self, terms: Any, own: Any, others: Any, theirs: np.ndarray) -> Any:
        self.conduct.shown[self.client, terms.peer(self.client)] = theirs
        return self.own.report(terms, own, others, theirs)


def nobody(directions: Any) -> dict[tuple[int, int], bool]:
    """A judge that joins nobody: what the server was sent is what matters here."""
    return {(d.client, d.other): False for d in directions}


@dataclass(frozen=True)
class OneLabelEach:
    """Client i has examples of label i mod classes alone."""

    clients: int
    samples: int

    def __call__(self, source: Any, rng: np.random.Generator) -> Population:
        found = {}
        for i in range(self.clients):
            of = [np.flatnonzero(split.y.numpy() == i % source.classes) for split in (source.train, source.test)]
            turns = self.clients // source.classes + 1
            train, test = (torch.from_numpy(places[i // source.classes :: turns][: self.samples].copy()) for places in of)
            found[i] = Client(i, source.train.take(train), source.test.take(test))
        return Population(found, dict.fromkeys(found, 0), source.classes, source.shape)


def public_network(source: Any, hidden: int, epochs: int = 5, count: int = 2000) -> Any:
    """A builder of an embedding that was trained on the last `count` test examples of the source, which no client has."""
    module = initial(Mlp(hidden=(hidden,)), source.shape, source.classes, 5)
    held = source.test.take(torch.arange(max(0, len(source.test) - count), len(source.test)))
    job = Job(0, to_vector(module), held, 1)
    ((_, update),) = PlainLoop()(module, [job], Training(epochs=epochs, batch=10, lr=0.1), 0)
    load_vector(module, job.start + update)
    return lambda shape: module.embedding


class Played:
    """One round of EMD-CFL, with every frame that reached or left the server."""

    def __init__(self, choice: Any, *, colluders: Colluders | None = None, **changes: Any) -> None:
        self.frames: list[Any] = []
        self.colluders = colluders

        def tap(frame: Any) -> list[Any]:
            self.frames.append(frame)
            return [frame]

        rows, public, pairs = changes.pop("rows", 64), changes.pop("public", None), changes.pop("pairs", None)
        distance = MeanDistance(Euclidean()) if isinstance(choice, MeanSketch) else ExactEmd()
        algorithm = EMDCFL(eps=0.05, choice=choice, distance=distance, size=Size(rows), public=public)
        known: dict[str, Any] = {
            "name": "compared",
            "data": Digits(),
            "partition": Iid(clients=3),
            "model": Mlp(hidden=(64,)),
            "training": Training(epochs=8, batch=10, lr=0.1),
            "protection": Plain(),
            "rounds": 1,
            "validation": 0.25,
        }
        self.sim = Simulation(Scenario(algorithm=algorithm, faults=tap, adversary=colluders, **{**known, **changes}), None)
        if colluders is not None:
            for i in colluders.members:
                role = sides.comparers(self.sim.view)[i].role
                role.state = replace(role.state, computer=Shown(role.state.computer, i, colluders))
        clients = tuple(sorted(self.sim.population.clients))
        asked = tuple(combinations(clients, 2)) if pairs is None else pairs
        work = {"all": Assignment(INITIAL, clients, clients)}
        updates = self.sim.view.train(0, work)
        self.sim.view.pairs(0, work, updates, PairQuestion(asked, choice, tau_of(distance), nobody))

    @property
    def envelopes(self) -> list[Any]:
        return [decode(f.data, f.sender, LIMIT) for f in self.frames]

    def clouds(self) -> list[Cloud]:
        """All that the server was answered, in order."""
        terms, found = {}, []
        for envelope in self.envelopes:
            match envelope.message:
                case PairOffer() as offer:
                    terms[envelope.session] = PairTerms.offered(offer)
                case PairClouds(own, other, reference) if envelope.receiver == SERVER:
                    of = terms[envelope.session]
                    peer = of.peer(envelope.sender) if len(of.session.roster) == 2 else None
                    rows = [np.frombuffer(x, "<f4").reshape(-1, of.p) if x else None for x in (own, other)]
                    found.append(Cloud(envelope.sender, peer, of, *rows, *struct.unpack(">d", reference)))
        return found

    def cloud(self, client: int, peer: int | None = None) -> Cloud:
        return next(c for c in self.clouds() if c.client == client and c.peer == peer)

    def distances(self) -> dict[tuple[int, int], tuple[float, float]]:
        """What the server was told where clients measure: the distance and tau, by (client, other)."""
        terms, found = {}, {}
        for envelope in self.envelopes:
            match envelope.message:
                case PairOffer() as offer:
                    terms[envelope.session] = PairTerms.offered(offer)
                case PairDistance(distance, reference) if envelope.receiver == SERVER:
                    of = terms[envelope.session]
                    found[envelope.sender, of.peer(envelope.sender)] = struct.unpack(">dd", distance + reference)
        return found

    def held(self, client: int, peer: int | None = None) -> Held:
        """What this colluder had when it was compared with that client."""
        assert self.colluders is not None
        return next(h for h in self.colluders.held if h.client == client and h.peer == peer)

    # --- what a server under Plain has, or everybody --------------------------------------------------------------------

    def model_of(self, client: int) -> np.ndarray:
        """Of the client's upload, as Plain's server has it, the part that embeds."""
        kind = next(type(e.message) for e in self.envelopes if type(e.message).__name__ == "Upload")
        for envelope in self.envelopes:
            if isinstance(envelope.message, kind) and envelope.sender == client:
                update = np.frombuffer(envelope.message.vector, "<f4")
                return self.computers.weights_of(self.start + update)
        raise LookupError(client)

    @property
    def start(self) -> np.ndarray:
        return to_vector(self.sim.module)

    @cached_property
    def computers(self) -> Any:
        return self.sim.setup.embedders

    def embed_public(self, weights: np.ndarray | None, count: int = 5000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Embeddings, labels and inputs of public examples: the source's test examples, which nobody trains on."""
        source = self.sim.scenario.data(None)
        x = source.test.x[:count].numpy().reshape(-1, self.computers.inputs)
        return self.computers.embed_examples(x, weights), source.test.y[:count].numpy(), x

    # --- the truth, for scores alone ------------------------------------------------------------------------------------

    def truth(self, client: int, weights: np.ndarray | None, part: str = "train") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The client's own embeddings, labels and inputs, row by row."""
        computers = self.computers
        examples: Examples = computers._samples[client, part]
        return computers.embed(client, part, weights), examples.y.numpy(), computers.examples(client, part)
