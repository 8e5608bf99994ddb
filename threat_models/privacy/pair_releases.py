"""The audits of what clients release with noise to be compared: means of embeddings, and clouds of them.

Each trial goes through the clients' own computers (`OwnComputer.release`): held-out data, subsample, embedding, clip, projection,
noise, and the ledger that is charged before. Neighbours are whole data sets with one record replaced, input and label. The
subsample's positions and the projection are public, as the claim takes them, so they are the same in all trials; which of some
data sets and neighbours are played is chosen beforehand, by what the record moves where the noise is the same.
"""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...crypto.entropy import SimulatedEntropy
from ...fl.clients.embedders import SimulatedEmbedders
from ...fl.data.population import Client, Examples
from ...fl.emd.distances import COSINE, ExactEmd
from ...fl.emd.embedding import LAST_LINEAR
from ...fl.emd.judging import tau_of
from ...fl.emd.subsample import Size
from ...fl.models.papers import EmbeddingAndHead
from ...fl.runs.simulation import held_out
from ...protocol.core.session import Session
from ...protocol.pairs.choices import MeanSketch, PerClient
from ...protocol.pairs.computer import OwnComputer
from ...protocol.pairs.noise import Noise
from ...protocol.pairs.projection import drawn
from ...protocol.pairs.question import Comparing, Embedders, Released
from ...protocol.pairs.terms import ONCE, PairTerms, terms_of
from ...protocol.privacy.ledger import Ledger
from .bound import Floats
from .mechanism import InOneRun, Mechanism
from .names import CLOUDS_OF_FOUR, MEAN_SKETCH

MEAN, CLOUDS = MEAN_SKETCH, CLOUDS_OF_FOUR
D = 16
CLASSES = 4
FAR = 30.0
"""Norm of an embedding, about, over the clip."""
TRIED = 24
"""Pairs of neighbouring data sets from which the one that moves most is played."""
RECORDS, MEAN_ROWS = 200, 60
"""Of each client whose mean is released, and those in its subsample."""
ROWS = 250
"""Records of each client's cloud, all of them canaries."""
SECRET = bytes(range(32))
TAU = tau_of(ExactEmd(COSINE))


@lru_cache(maxsize=1)
def public_network() -> nn.Module:
    """From images (1, 4, 4) to D coordinates."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(nn.Flatten(), nn.Linear(D, D, bias=False))


def direction(number: int = 0) -> Floats:
    """float64 (D,): of a record; all records of a data set are far along it, or far against it."""
    found = np.random.default_rng([number, 0xD1]).standard_normal(D)
    return np.asarray(found / np.linalg.norm(found))


def records(signs: NDArray[np.bool_], labels: NDArray[np.int64], along: Floats) -> Examples:
    """A client's records: each one way or the other along this direction, far outside of any clip."""
    x = FAR * np.where(signs[:, None], 1.0, -1.0) * along
    return Examples(torch.from_numpy(x.astype(np.float32)).reshape(-1, 1, 4, 4), torch.from_numpy(labels))


def embedders(train: Mapping[int, Client], validation: Mapping[int, Client], size: Size) -> SimulatedEmbedders:
    """The clients' computers for noisy releases under a public embedding."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        module = EmbeddingAndHead(nn.Sequential(nn.Flatten(), nn.Linear(D, 4)), nn.Linear(4, 2))
    parts = {"train": train, "validation": validation}
    return SimulatedEmbedders(module, LAST_LINEAR, parts, size, lambda i, _: i, public_network(), noisy=True)


def asked(choice: MeanSketch | PerClient, sizes: Embedders, client: int) -> PairTerms:
    """What a server asks of a client that answers once for all."""
    return terms_of(Session(ONCE, bytes(range(16)), 0, f"client {client}", (client,), 1), choice, sizes, 0)


def released(choice: MeanSketch | PerClient, own: Embedders, client: int, seed: int) -> tuple[Released, Ledger]:
    """What the client's own computer answers, and its ledger after it. Raises ValueError where it charged nothing."""
    computer = OwnComputer(client, own, SimulatedEntropy(seed))
    computer.comparing = Comparing(choice, TAU)
    found = computer.release(asked(choice, own, client), SECRET, None, None)
    if computer.ledger is None:
        raise ValueError("a release without noise has no epsilon to audit")
    return found, computer.ledger


# --- means: independent trials ------------------------------------------------------------------------------------------------


def mean_sketch(multiplier: float = 0.5) -> Mechanism:
    """Unit: one record of client 1. The server sees client 2's mean beside client 1's."""
    choice = MeanSketch(noise=Noise(clip=1.0, multiplier=multiplier, reference_multiplier=1.0, budget=1e3, delta=1e-5))

    def seen(own: SimulatedEmbedders, seed: int) -> Floats:
        return np.concatenate([released(choice, own, i, seed)[0].own.ravel() for i in (1, 2)]).astype(np.float64)

    def moved(pair: tuple[SimulatedEmbedders, SimulatedEmbedders]) -> float:
        return float(np.linalg.norm(seen(pair[0], 0) - seen(pair[1], 0)))

    before, after = max((neighbours(tried) for tried in range(TRIED)), key=moved)
    ledger = released(choice, before, 1, 0)[1]

    def play(neighbour: bool, seed: int, /) -> Floats:
        return seen(after if neighbour else before, seed)

    return Mechanism(MEAN, ledger.spent, ledger.delta, True, "GDP", play, unit=ledger.unit)


def neighbours(number: int) -> tuple[SimulatedEmbedders, SimulatedEmbedders]:
    """Two computers of clients 1 and 2: on random data sets, and with one record of client 1 turned round and relabelled."""
    rng = np.random.default_rng([number, 0x4E])
    signs, labels = rng.random((2, RECORDS)) < 0.5, rng.integers(0, CLASSES, (2, RECORDS))
    at = int(rng.integers(RECORDS))
    other_signs, other_labels = signs.copy(), labels.copy()
    other_signs[0, at] = not signs[0, at]
    other_labels[0, at] = (labels[0, at] + 1 + rng.integers(CLASSES - 1)) % CLASSES
    found = []
    for way, names in ((signs, labels), (other_signs, other_labels)):
        clients = [Client(i, data := records(way[i - 1], names[i - 1], direction(number)), data) for i in (1, 2)]
        halves = {c.id: held_out(c, 0.4, c.id) for c in clients}
        train, validation = ({i: half[k] for i, half in halves.items()} for k in (0, 1))
        found.append(embedders(train, validation, Size(MEAN_ROWS)))
    return found[0], found[1]


# --- clouds: one run -----------------------------------------------------------------------------------------------------------


def clouds(multiplier: float = 3.6) -> InOneRun:
    """Unit: one record of any of four clients; a coin of its own turns each one round. The noise of the reference distance is
    large, so that nearly all of the claim is about the clouds."""
    clients, rows = (1, 2, 3, 4), ROWS
    noise = Noise(clip=0.01, multiplier=multiplier, reference_multiplier=50.0, budget=1e3, delta=1e-5)
    choice = PerClient(noise=noise)

    def own(coins: NDArray[np.bool_]) -> SimulatedEmbedders:
        labels = np.arange(rows) % CLASSES
        train = {i: records(coins[(i - 1) * rows : i * rows], labels, direction()) for i in clients}
        held = records(labels < 1, labels, direction())
        return embedders(
            {i: Client(i, data, data) for i, data in train.items()}, {i: Client(i, held, held) for i in clients}, Size(rows)
        )

    def play(coins: NDArray[np.bool_], seed: int, /) -> tuple[Floats, Floats]:
        computers = own(coins)
        each = np.stack([released(choice, computers, i, seed)[0].own.astype(np.float64) for i in clients])
        beside = [np.concatenate(np.roll(each, -i, axis=0), axis=1) for i in range(len(clients))]
        embedded = computers.embed_examples(direction().astype(np.float32)[None], None)[0].astype(np.float64)
        towards = np.zeros(beside[0].shape[1])
        towards[: each.shape[2]] = embedded @ drawn(asked(choice, computers, 1), SECRET)
        return np.concatenate(beside), towards

    everyone = len(clients) * rows
    ledger = released(choice, own(np.zeros(everyone, np.bool_)), 1, 0)[1]
    return InOneRun(CLOUDS, ledger.spent, ledger.delta, True, everyone, everyone // 10, play, ledger.unit)
