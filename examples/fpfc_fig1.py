"""FPFC on MNIST and Fashion-MNIST with swapped labels (Yu, Liu, Sun, Wang, AAAI 2023, Fig. 1): every method of the figure.

20 clients in 4 groups with unequal shares of every label (Dirichlet(1)); group g swaps the labels of the g-th pair. Half of the
clients take part in a round. The paper prints no setting; these are of its authors' code, but for three things: their rate falls
by a tenth every fifth round, here a little in each; the code fuses the last layer alone, here all of the model is fused, as the
paper says; and the code never groups clients, here it does after K rounds.

    cloister compare examples/fpfc_fig1.py --data FOLDER                 # quick: 12 clients of 250 images, 15 rounds; minutes
    cloister compare examples/fpfc_fig1.py:paper --data FOLDER           # 200 rounds of 10 epochs: hours
"""

from dataclasses import dataclass, replace

import numpy as np
import torch

from cloister.fl.algorithms.cfl import CFL, Absolute, ScaleFree
from cloister.fl.algorithms.fedavg import FedAvg, Local, Oracle
from cloister.fl.algorithms.fpfc import FPFC
from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.algorithms.per_fedavg import PerFedAvg
from cloister.fl.clients.training import Training
from cloister.fl.clustering.fusion import L1, Scad
from cloister.fl.data.dealing import blocks
from cloister.fl.data.population import Examples, Population, Source
from cloister.fl.data.skew import Dirichlet
from cloister.fl.data.source import FashionMnist, Mnist
from cloister.fl.models.papers import FpfcCnn
from cloister.fl.runs.comparison import Comparison, Method, Search
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Plain

PAIRS = ((0, 8), (1, 7), (2, 6), (3, 5))
GROUPS = ("MNIST", "Fashion-MNIST")


@dataclass(frozen=True, slots=True)
class SkewedSwaps:
    """Unequal shares of every label by Dirichlet(alpha); groups of neighbouring ids, of which the g-th swaps PAIRS[g].

    samples: most training examples of a client; None for no limit.
    """

    clients: int
    alpha: float = 1.0
    samples: int | None = None

    def __call__(self, source: Source, rng: np.random.Generator) -> Population:
        dealt = Dirichlet(clients=self.clients, alpha=self.alpha, samples=self.samples)(source, rng)
        groups = blocks(self.clients, len(PAIRS))
        clients = {
            i: replace(c, train=_swapped(c.train, *PAIRS[groups[i]]), test=_swapped(c.test, *PAIRS[groups[i]]))
            for i, c in dealt.clients.items()
        }
        return replace(dealt, clients=clients, groups=groups)


def _swapped(examples: Examples, first: int, second: int) -> Examples:
    table = torch.arange(10)
    table[[first, second]] = table[[second, first]]
    return replace(examples, y=table[examples.y])


def scenario(name: str) -> Scenario:
    """One data set at the paper's scale."""
    return Scenario(
        name=f"FPFC figure 1, {name}",
        data=Mnist() if name == "MNIST" else FashionMnist(),
        partition=SkewedSwaps(clients=20),
        model=FpfcCnn(),
        training=Training(epochs=10, batch=100, lr=0.01, lr_decay=0.9**0.2),
        algorithm=FedAvg(),
        protection=Plain(),
        rounds=200,
        validation=0.1,
        evaluate_every=200,
    )


def fpfc(base: Scenario) -> FPFC:
    """lambda and xi as in the authors' readme."""
    return FPFC(rounds=base.rounds, penalty=Scad(lam=0.4, xi=1e-3), rho=1.0, nu=0.1, participation=0.5)


paper = Comparison(
    name="FPFC, figure 1",
    scale="paper",
    data={name: scenario(name) for name in GROUPS},
    methods={
        "LOCAL": Method(algorithm=Local()),
        "FedAvg": Method(algorithm=FedAvg(participation=0.5, sampling="random")),
        "Per-FedAvg": Method(
            algorithm=PerFedAvg(alpha=0.05, participation=0.5, sampling="random"),
            work="a step takes two batches, so that there are half as many of them",
        ),
        "IFCA": Method(algorithm=IFCA(models=4, participation=0.5), fits=GROUPS),
        "CFL": Method(algorithm=CFL(thresholds=Absolute(eps1=0.05, eps2=0.1), participation=0.5), fits=GROUPS),
        "FPFC-l1": Method(
            algorithm=lambda base: replace(fpfc(base), penalty=L1(lam=0.05)), grid={"algorithm.penalty.lam": (0.02, 0.05, 0.1)}
        ),
        "FPFC": Method(algorithm=fpfc, grid={"algorithm.penalty.lam": (0.4, 0.8, 1.6)}, fits=GROUPS),
        "Oracle": Method(algorithm=Oracle(participation=0.5, sampling="random"), fits=GROUPS),
    },
    seeds=(0, 1, 2),
    search=Search(seeds=(100,), configurations=3),
)


def small_fpfc(base: Scenario) -> FPFC:
    """For few rounds: a weaker pull and a penalty that reaches farther; grouped three rounds before the end, and refined."""
    return FPFC(rounds=base.rounds - 3, penalty=Scad(lam=0.3, a=12), rho=0.1, nu=0.5, participation=0.5, refine=True)


LAMBDAS = (0.2, 0.3, 0.4)
SMALL = {"partition": SkewedSwaps(clients=12, samples=250), "rounds": 15, "evaluate_every": 15}
STEPS = Training(epochs=5, batch=10, lr=0.05)
GENTLE = {"thresholds": ScaleFree(eps1=0.4, eps2=0.1), "patience": 4}
comparison = replace(
    paper,
    scale="quick",
    data={name: replace(value, training=STEPS, **SMALL) for name, value in paper.data.items()},
    methods={
        **paper.methods,
        "CFL": Method(algorithm=CFL(**GENTLE), grid={"algorithm.thresholds.eps1": (0.3, 0.4, 0.6)}, fits=GROUPS),
        "FPFC-l1": Method(
            algorithm=lambda base: replace(small_fpfc(base), penalty=L1(lam=0.05)),
            grid={"algorithm.penalty.lam": (0.02, 0.05, 0.1)},
        ),
        "FPFC": Method(algorithm=small_fpfc, grid={"algorithm.penalty.lam": LAMBDAS}, fits=GROUPS),
    },
    seeds=(0,),
)
