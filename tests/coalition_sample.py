"""Knowledge of small coalitions, made without a simulation, and a small scenario to attack."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.population import Examples
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp, initial
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Plain
from cloister.protocol.view.work import LocalWork
from cloister.threat_models.knowledge import Colluding, Level, Own, Situation, colluding

SMALL = Scenario(
    name="small",
    data=Digits(),
    partition=Iid(clients=10, samples=60),
    model=Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=FedAvg(),
    protection=Plain(),
    rounds=4,
)


def images(n: int = 40, seed: int = 0, channels: int = 1) -> Examples:
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.random((n, channels, 8, 8), dtype=np.float32))
    return Examples(x, torch.from_numpy(rng.integers(0, 10, n)))


def situation(member: int = 0, examples: Examples | None = None, place: int = 0, round: int = 0, **others: Any) -> Situation:
    module = initial(Mlp(hidden=(8,)), (1, 8, 8), 10, 7)
    start = np.concatenate([p.detach().numpy().ravel() for p in module.parameters()])
    known: dict[str, Any] = {
        "member": member,
        "place": place,
        "members": 4,
        "roster": tuple(range(10)),
        "round": round,
        "work": "update",
        "examples": images() if examples is None else examples,
        "classes": 10,
        "start": start,
        "previous": None,
        "module": module,
        "training": Training(epochs=2, batch=10, lr=0.1),
        "training_seed": 5,
        "data_rng": np.random.default_rng([member, 1]),
        "rng": np.random.default_rng([member, 2, round]),
        "agreed": np.random.default_rng(3),
    }
    return Situation(**{**known, **others})


def own(update: np.ndarray[Any, np.dtype[np.float32]], member: int = 0, samples: int = 10, **others: Any) -> Own:
    known = situation(member, place=member, **others)
    return Own(**{name: getattr(known, name) for name in Situation.__dataclass_fields__}, update=update, samples=samples)


def coalition(
    vectors: Sequence[np.ndarray[Any, np.dtype[np.float32]]], faulty: int, level: Level, rule: object = None, **others: Any
) -> Colluding:
    """Clients 0 .. faulty - 1 are members; the vectors are all clients' honest updates. Client i has 10 + i samples."""
    roster = tuple(range(len(vectors)))
    memory = others.pop("memory", {})
    members = {i: own(vectors[i], i, 10 + i, roster=roster, **others) for i in range(faulty)}
    honest = {i: LocalWork(vectors[i], 10 + i) for i in range(faulty, len(vectors))}
    return colluding(level, members, honest, rule, memory)


def gaussian(n: int, d: int, seed: int = 0, mean: float = 0.5) -> list[np.ndarray[Any, np.dtype[np.float32]]]:
    rng = np.random.default_rng(seed)
    centre = mean * rng.standard_normal(d)
    return [(centre + rng.standard_normal(d) * rng.uniform(0.5, 1.5)).astype(np.float32) for _ in range(n)]
