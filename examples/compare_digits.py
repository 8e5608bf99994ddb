"""Every method that there is on three kinds of handwritten digits, beside each other: 16 clients, 20 rounds of the same work.

Run it:  cloister compare examples/compare_digits.py               scale quick, one seed: ten minutes on two cores
         cloister compare examples/compare_digits.py:seeds          the same with that seed and four more, which tell more
         cloister compare examples/compare_digits.py:few            a quarter takes part in a round; five minutes
         cloister compare examples/compare_digits.py:sizes          with 8 and with 48 clients; five minutes

`turned`: two groups, one of which sees its digits upside down. `swapped`: two groups, each with two labels swapped. `skewed`: no
groups, labels by Dirichlet(.3). A method `fits` where the data are of the kind that its paper is about: clients in groups for
those that cluster; inputs that differ for EMD-CFL, which looks at embeddings and cannot see swapped labels; skewed labels for
Per-FedAvg. FPFC-l1 fits nothing: its penalty shrinks all differences, and the paper's own table has it below LOCAL. `Masked` has
as many measurements as FedSaC needs, twice its default. FLIC counts every client alike: by examples, one client of `skewed` would
be most of a small cluster's sum, which `Masked` does not open. Where a grid lies was chosen by looking at validation data of
seeds 100 to 102, none of which is the table's. **Two numbers were not**: `FIFTH_OUT` and `ENOUGH` come of looking at test data
of `turned` with seeds 0 to 4, so that the table's are others.

One line makes a new method part of it.
"""

from dataclasses import replace
from typing import Any

from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.cfl_gp import CFLGP
from cloister.fl.algorithms.emd_cfl import EMDCFL, Replicates
from cloister.fl.algorithms.fed_clust import FedClust
from cloister.fl.algorithms.fedavg import FedAvg, FedProx, Local, Oracle
from cloister.fl.algorithms.fedce import FedCE
from cloister.fl.algorithms.fedem import FedEM
from cloister.fl.algorithms.fedrc import FedRC
from cloister.fl.algorithms.fedsac import ENOUGH, FedSaC
from cloister.fl.algorithms.fedsoft import FedSoft
from cloister.fl.algorithms.fesem import FeSEM
from cloister.fl.algorithms.flex_cfl import FlexCFL
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.fpfc import FPFC
from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.algorithms.pacfl import PACFL
from cloister.fl.algorithms.per_fedavg import PerFedAvg
from cloister.fl.algorithms.pfed_graph import PFedGraph
from cloister.fl.clients.training import Training
from cloister.fl.clustering.fusion import L1, Scad
from cloister.fl.data.partition import Dirichlet, LabelSwap, Partition, Rotation
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.comparison import Comparison, Method, Search
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked, Plain
from cloister.threat_models import membership
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.backdoors import Backdoor
from cloister.threat_models.simple_attacks import MinusGradient, Scaled
from cloister.threat_models.triggers import Patch

CLIENTS, ROUNDS = 16, 20
RATES = (0.1, 0.2, 0.4)
"""Learning rates, of methods that have nothing else to search."""
GROUPED = ("turned", "swapped")
FIFTH_OUT = 0.21
"""Of each client of `turned`, as the paper of EMD-CFL holds out a fifth of its data of other inputs: 19 examples, and seven whole
batches to train on. EMD-CFL compares samples of as many as are held out: with 9, distances within groups overlap those across.
Chosen, of 10, 20, 21 and 30 %, by what came out on test data of seeds 0 to 4.
"""
FIFTH = membership.Share(0.2)
"""Who is corrupt."""


def digits(name: str, partition: Partition, validation: float = 0.1) -> Scenario:
    """The data set's scenario: what all methods have in common."""
    return Scenario(
        name=name,
        data=Digits(),
        partition=partition,
        model=Mlp(hidden=(32,)),
        training=Training(epochs=3, batch=10, lr=0.1),
        algorithm=FedAvg(),
        protection=Plain(),
        rounds=ROUNDS,
        validation=validation,
        evaluate_every=ROUNDS,
    )


def groups(base: Scenario) -> int:
    """How many models a method that must be told is told of: the planted groups, 2 where there are none."""
    match base.partition:
        case Rotation(angles=angles):
            return len(angles)
        case LabelSwap(groups=count):
            return count
    return 2


cfl = CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.1), patience=5)
ALL = "a client trains every model that it gives a share, not one"
ASKED = "a client's gradient over all of its examples is asked for in every other of the first ten rounds, too"
TWO_BATCHES = "a step takes two batches, so that there are half as many of them; one more gradient makes a model a client's own"


def fpfc(base: Scenario) -> FPFC:
    """Whose models are grouped five rounds before the end, in which clients train as in all others, each group its model."""
    return FPFC(rounds=max(1, base.rounds - 5), penalty=Scad(lam=0.3, a=12), rho=0.1, nu=0.5, refine=True)


def fpfc_l1(base: Scenario) -> FPFC:
    """The same with the convex penalty."""
    return replace(fpfc(base), penalty=L1(lam=0.05))


comparison = Comparison(
    name="methods on digits",
    scale="quick",
    data={
        "turned": digits("turned", Rotation(clients=CLIENTS, angles=(0, 180)), FIFTH_OUT),
        "swapped": digits("swapped", LabelSwap(clients=CLIENTS, groups=2)),
        "skewed": digits("skewed", Dirichlet(clients=CLIENTS, alpha=0.3)),
    },
    methods={
        "LOCAL": Method(algorithm=Local(), grid={"training.lr": RATES}),
        "FedAvg": Method(algorithm=FedAvg(), grid={"training.lr": RATES}),
        "FedProx": Method(algorithm=FedProx(mu=0.1), grid={"algorithm.mu": (0.01, 0.1, 1.0)}),
        "Oracle": Method(algorithm=Oracle(), grid={"training.lr": RATES}, fits=GROUPED),
        "CFL": Method(algorithm=cfl, grid={"algorithm.thresholds.eps1": (0.3, 0.4, 0.6)}, fits=GROUPED),
        "FLIC": Method(
            algorithm=FLIC(rounds_before=10, by_samples=False), grid={"algorithm.rounds_before": (5, 8, 12)}, fits=GROUPED
        ),
        "EMD-CFL": Method(algorithm=EMDCFL(), grid={"algorithm.eps": (0.002, 0.005, Replicates())}, fits=("turned",)),
        "FPFC": Method(algorithm=fpfc, grid={"algorithm.penalty.lam": (0.2, 0.3, 0.4)}, fits=GROUPED),
        "FPFC-l1": Method(algorithm=fpfc_l1, grid={"algorithm.penalty.lam": (0.02, 0.05, 0.1)}),
        "IFCA": Method(algorithm=lambda base: IFCA(models=groups(base)), grid={"training.lr": RATES}, fits=GROUPED),
        "FedEM": Method(algorithm=lambda base: FedEM(models=groups(base)), grid={"training.lr": RATES}, fits=GROUPED, work=ALL),
        "FedRC": Method(algorithm=lambda base: FedRC(models=groups(base)), grid={"training.lr": RATES}, fits=GROUPED, work=ALL),
        "FedSoft": Method(algorithm=lambda base: FedSoft(models=groups(base)), grid={"training.lr": RATES}, fits=GROUPED),
        "FedCE": Method(
            algorithm=lambda base: FedCE(models=groups(base)), grid={"training.lr": RATES}, fits=GROUPED, second_hand=True
        ),
        "FlexCFL": Method(algorithm=lambda base: FlexCFL(groups=groups(base)), grid={"training.lr": RATES}, fits=GROUPED),
        "FeSEM": Method(algorithm=lambda base: FeSEM(models=groups(base)), grid={"training.lr": RATES}, fits=GROUPED),
        "CFL-GP": Method(
            algorithm=lambda base: CFLGP(models=groups(base)), grid={"training.lr": RATES}, fits=GROUPED, work=ASKED
        ),
        "FedClust": Method(
            algorithm=FedClust(threshold=0.6),
            grid={"algorithm.threshold": (0.4, 0.6, 0.8)},
            fits=GROUPED,
            second_hand=True,
        ),
        "PACFL": Method(
            algorithm=PACFL(beta=56.0, measure="aligned"), grid={"algorithm.beta": (20.0, 40.0, 56.0)}, fits=("turned",)
        ),
        "pFedGraph": Method(algorithm=PFedGraph(), grid={"algorithm.lam": (0.4, 0.8, 1.6)}, fits=GROUPED),
        "FedSaC": Method(algorithm=FedSaC(), grid={"algorithm.l2": (0.7, 1.4, 2.8)}, fits=GROUPED),
        "Per-FedAvg": Method(
            algorithm=PerFedAvg(alpha=0.1),
            grid={"training.lr": (0.4,), "algorithm.alpha": (0.05, 0.1, 0.2)},
            fits=("skewed",),
            work=TWO_BATCHES,
        ),
    },
    protections={"Plain": Plain(), "Masked": Masked(sketch=ENOUGH)},
    seeds=(5,),
    search=Search(seeds=(100, 101, 102), configurations=3),
    attacks={
        "minus gradient": Adversary(members=FIFTH, upload=MinusGradient()),
        "backdoor": Adversary(
            members=FIFTH, data=Backdoor(Patch(row=0, column=0, height=2, width=2), target=0), upload=Scaled(3)
        ),
    },
)
seeds = replace(comparison, name="methods on digits, five seeds", seeds=(5, 6, 7, 8, 9))
"""None of which anything above was chosen by."""


def taking_part(share: float) -> dict[str, Method]:
    """The methods in which not all clients take part in a round, with this share of them."""

    def made(method: Method) -> Method:
        of: Any = method.algorithm
        return replace(
            method,
            algorithm=lambda base: replace(of if hasattr(of, "needs") else of(base), participation=share),
            fits=(),
        )

    return {name: made(method) for name, method in comparison.methods.items() if name != "LOCAL"}


swapped = digits("swapped", LabelSwap(clients=CLIENTS, groups=2))
few = replace(
    comparison,
    name="methods on digits, a quarter of 16 clients a round",
    data={"swapped": replace(swapped, rounds=4 * ROUNDS, evaluate_every=4 * ROUNDS)},
    methods=taking_part(0.25),
    protections={"Plain": Plain()},
    seeds=(1, 2, 3),
    attacks={},
)
"""In four times as many rounds, so that every client works as often as in the others."""
sizes = replace(
    comparison,
    name="methods on digits, 8 and 48 clients",
    data={f"{n} clients": replace(swapped, partition=LabelSwap(clients=n, groups=2)) for n in (8, 48)},
    methods={name: replace(method, fits=()) for name, method in comparison.methods.items()},
    protections={"Plain": Plain()},
    seeds=(1, 2, 3),
    attacks={},
)
