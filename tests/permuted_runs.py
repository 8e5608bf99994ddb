"""Whole runs under `Permuted`: what the server received, taken out of frames, and beside it what clients computed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from cloister.crypto.orthonormal import Transform
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.dealing import PartitionOptions
from cloister.fl.data.images import Digits, Mnist
from cloister.fl.data.population import Client, Examples, Population, Source
from cloister.fl.models.papers import Mlp
from cloister.fl.models.vector import load_vector, to_vector
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol.core.link import Frame
from cloister.protocol.core.session import SERVER
from cloister.protocol.messages import decode
from cloister.protocol.uploaded.permuted import Permuted
from cloister.protocol.view.work import LocalJob, LocalWork
from cloister.protocol.wire.messages import Mean, Task, Upload
from cloister.threat_models.inference.permutation_dead_relu import dead_model

Array = NDArray[np.float32]
MOST = 1 << 24


@dataclass
class Server:
    """A tap that passes everything on. What the server received and sent: uploads and samples by round and client, and means."""

    uploads: dict[tuple[int, int], Array] = field(default_factory=dict)
    samples: dict[tuple[int, int], int] = field(default_factory=dict)
    means: dict[int, Array] = field(default_factory=dict)
    rounds: dict[bytes, int] = field(default_factory=dict)

    def __call__(self, frame: Frame) -> Iterable[Frame]:
        if SERVER in (frame.sender, frame.receiver) and frame.kind in ("Task", "Upload", "Mean"):
            envelope = decode(frame.data, frame.sender, MOST)
            match envelope.message:
                case Task() as task:
                    self.rounds[task.session.digest] = task.round
                case Upload() as upload:
                    at = self.rounds[envelope.session], envelope.sender
                    self.uploads[at] = np.frombuffer(upload.vector, "<f4")
                    self.samples[at] = upload.samples
                case Mean() as mean:
                    self.means[self.rounds[envelope.session]] = np.frombuffer(mean.vector, "<f4")
        return [frame]


@dataclass
class Played:
    """server: what it saw. clear: what clients computed, by round and client. start: theta_0. models: theta_t, from 0 on."""

    server: Server
    clear: dict[tuple[int, int], Array]
    models: list[Array]
    module: nn.Module
    population: Population

    @property
    def start(self) -> Array:
        return self.models[0]

    @property
    def clients(self) -> list[int]:
        return sorted(self.population.clients)

    def sent(self, client: int) -> Array:
        """A client's uploads as they came, (rounds, length)."""
        return np.stack([v for (_, i), v in sorted(self.server.uploads.items()) if i == client])

    def computed(self, client: int) -> Array:
        """The same in clear, (rounds, d)."""
        return np.stack([v for (_, i), v in sorted(self.clear.items()) if i == client])

    def received(self, round: int) -> Array:
        """All uploads of a round, (clients, length)."""
        return np.stack([self.server.uploads[round, i] for i in self.clients])

    def meant(self, round: int) -> Array:
        """The same in clear, (clients, d)."""
        return np.stack([self.clear[round, i] for i in self.clients])

    def histograms(self) -> NDArray[np.float64]:
        classes = self.population.classes
        found = [np.bincount(self.population.clients[i].train.y.numpy(), minlength=classes) for i in self.clients]
        return np.stack([f / f.sum() for f in found])


def played(
    data: Any,
    partition: Any,
    model: Any,
    training: Training,
    transform: type[Transform],
    rounds: int = 1,
    keys: Any = "run",
    seed: int = 0,
    adversary: Any = None,
) -> Played:
    """FedAvg's uploads are those of a CFL that has not split yet."""
    server = Server()
    value = Scenario(
        name="permuted",
        data=data,
        partition=partition,
        model=model,
        training=training,
        algorithm=FedAvg(by_samples=False),
        protection=Permuted(transform, keys=keys),
        rounds=rounds,
        seed=seed,
        faults=server,
        adversary=adversary,
    )
    simulation = Simulation(value, None)
    clear: dict[tuple[int, int], Array] = {}
    workers = simulation.watch.workers

    def work(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        rounds_of = {job.client: job.round for job in jobs}
        for client, done in workers(jobs):
            clear[rounds_of[client], client] = done.vector
            yield client, done

    simulation.watch.workers = work
    models = [to_vector(simulation.module)]
    for _ in range(rounds):
        simulation.step()
        models.append(next(iter(simulation.vectors().values())))
    return Played(server, clear, models, simulation.module, simulation.population)


@dataclass(frozen=True)
class MnistTest:
    """The 10,000 test images of MNIST, all of them for training, and 1,000 of them to test on."""

    def __call__(self, folder: Path | None) -> Source:
        test = Mnist()(folder).test
        return Source("MNIST", test, test.take(torch.arange(1000)), 10)


@dataclass(frozen=True)
class EvenOrOdd:
    """The digits with two labels: whether they are odd."""

    def __call__(self, folder: Path | None) -> Source:
        source = Digits()(folder)
        train, test = (Examples(part.x, part.y % 2) for part in (source.train, source.test))
        return Source("even or odd", train, test, 2)


@dataclass(frozen=True, kw_only=True)
class OneClass(PartitionOptions):
    """Client i has `each` examples of label i mod classes and no other. skip: examples of each label that nobody gets."""

    clients: int
    each: int
    skip: int = 0

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        found = {}
        places = {k: rng.permutation(np.flatnonzero(source.train.y.numpy() == k)) for k in range(source.classes)}
        for i in range(self.clients):
            turn, label = divmod(i, source.classes)
            first = self.skip + turn * self.each
            own = source.train.take(torch.from_numpy(places[label][first : first + self.each]))
            found[i] = Client(i, own, source.test.take(torch.arange(1)))
        return Population(found, dict.fromkeys(found, 0), source.classes, source.shape)


@dataclass(frozen=True, kw_only=True)
class DirichletEach(PartitionOptions):
    """Client i has exactly `each` examples whose labels are drawn from its own Dirichlet(alpha)."""

    clients: int
    each: int
    alpha: float

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        y, found = source.train.y.numpy(), {}
        for i in range(self.clients):
            counts = rng.multinomial(self.each, rng.dirichlet(np.full(source.classes, self.alpha)))
            own = [rng.choice(np.flatnonzero(y == k), n, replace=n > (y == k).sum()) for k, n in enumerate(counts)]
            index = torch.from_numpy(rng.permutation(np.concatenate(own)))
            found[i] = Client(i, source.train.take(index), source.test.take(torch.arange(1)))
        return Population(found, dict.fromkeys(found, 0), source.classes, source.shape)


@dataclass(frozen=True, kw_only=True)
class OneKnown(PartitionOptions):
    """Client 0 has `many` examples, every other client one."""

    clients: int
    many: int

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        order = torch.from_numpy(rng.permutation(len(source.train)))
        cuts = [0, *(self.many + k for k in range(self.clients))]
        hands = {i: source.train.take(order[a:b]) for i, (a, b) in enumerate(pairwise(cuts))}
        found = {i: Client(i, hand, source.test.take(torch.arange(1))) for i, hand in hands.items()}
        return Population(found, dict.fromkeys(found, 0), source.classes, source.shape)


@dataclass(frozen=True)
class Dead:
    """An MLP that begins at `dead_model`, answering q to every input."""

    q: tuple[float, ...]
    width: int

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        module = Mlp(hidden=(self.width,))(shape, classes)
        start = dead_model(self.width, torch.Size(shape).numel(), np.array(self.q), np.random.default_rng(0))
        load_vector(module, start)
        return module
