"""An algorithm says by the type of its view what it may ask: nothing else is there, for a type checker or at run time."""

import subprocess
import sys
from inspect import isfunction
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.cfl_gp import CFLGP
from cloister.fl.algorithms.emd_cfl import EMDCFL
from cloister.fl.algorithms.fed_clust import FedClust
from cloister.fl.algorithms.fedavg import FedAvg, Local
from cloister.fl.algorithms.fedce import FedCE
from cloister.fl.algorithms.fedem import FedEM
from cloister.fl.algorithms.fedrc import FedRC
from cloister.fl.algorithms.fedsac import FedSaC
from cloister.fl.algorithms.fedsoft import FedSoft
from cloister.fl.algorithms.fesem import FeSEM
from cloister.fl.algorithms.fl_detector import FLDetector
from cloister.fl.algorithms.flex_cfl import FlexCFL
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.fpfc import FPFC
from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.algorithms.pacfl import PACFL
from cloister.fl.algorithms.per_fedavg import PerFedAvg
from cloister.fl.algorithms.pfed_graph import PFedGraph
from cloister.fl.algorithms.private_cfl import PrivateCFL
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.robust.weiszfeld import GeometricMedian
from cloister.fl.runs.scenario import PROTECTIONS
from cloister.protocol.pairs.noise import one_release
from cloister.protocol.view import asks
from cloister.protocol.view.asks import functionalities
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Protection, Setup

ALGORITHMS = (
    FedAvg(),
    Local(),
    CFL(thresholds=ScaleFree(eps1=0.1, eps2=0.2)),
    CFL(thresholds=ScaleFree(eps1=0.1, eps2=0.2), similarities="every round", remember=False),
    FLIC(rounds_before=3),
    FLIC(rounds_before=3, similarities="recalled"),
    HardenedFLIC(rounds_before=3, every=4),
    EMDCFL(eps=0.5),
    RobustFedAvg(rule=GeometricMedian()),
    FPFC(rounds=3),
    FLDetector(),
    IFCA(models=2),
    FedEM(),
    FedRC(),
    FedSoft(),
    FedCE(),
    PerFedAvg(alpha=0.1),
    PFedGraph(),
    FedSaC(),
    FedSaC(l1=0.0),
    PACFL(beta=10.0),
    PrivateCFL(noise=one_release(2.0, 1e-5, clip=0.5, coordinates=500), records=400),
    CFLGP(models=2),
    FedClust(threshold=1.0),
    FedClust(threshold=1.0, newcomers=True),
    FlexCFL(groups=2),
    FeSEM(models=2),
    FeSEM(models=2, centres="printed"),
    FlexCFL(groups=2, eta_g=0.1, newcomers="random"),
)


def view_type(algorithm: Any) -> type:
    found: type = get_type_hints(type(algorithm).round)["view"]
    return found


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: type(a).__name__)
def test_what_an_algorithm_needs_can_be_asked_of_its_view(algorithm: Any) -> None:
    assert algorithm.needs <= functionalities(view_type(algorithm))
    assert view_type(algorithm) is not asks.ServerView, "it names what it asks for, and no more"


def test_every_functionality_is_asked_by_one_protocol() -> None:
    found = [f for asked in asks.ASKED_BY.values() for f in asked]
    assert sorted(found) == sorted(Functionality)
    assert functionalities(asks.ServerView) == frozenset(Functionality)
    assert functionalities(asks.Trains) == frozenset()


@pytest.mark.parametrize("protection", PROTECTIONS, ids=str)
def test_a_view_has_what_its_protection_gives_and_lacks_what_no_number_of_it_could(protection: Protection) -> None:
    view = protection.open(
        Setup(bytes(16), np.zeros(24, np.float32), tuple(range(8)), lambda jobs: iter(()), SimulatedEntropy(1))
    )
    for ask, asked in asks.ASKED_BY.items():
        names = [name for name, member in vars(ask).items() if isfunction(member) and not name.startswith("_")]
        assert names
        if asked & protection.gives:
            assert all(hasattr(view, name) for name in names)
    if type(protection).__name__ in ("Encrypted", "TwoServer"):
        assert not hasattr(view, "coordinates")
        assert not hasattr(view, "pairs")
        assert not hasattr(view, "accumulate")
    assert not [name for name in ("observe", "save", "restore", "retire", "log", "faults") if hasattr(view, name)]


MISFIT = """
from typing import Any
from cloister import Scenario
from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.emd_cfl import EMDCFL
from cloister.protocol import Encrypted, Masked

def fits(data: Any, partition: Any, model: Any, training: Any) -> None:
    algorithm = CFL(thresholds=ScaleFree(eps1=0.1, eps2=0.2))
    Scenario(name="", data=data, partition=partition, model=model, training=training, rounds=1,
             algorithm=algorithm, protection=Masked())

def fits_not(data: Any, partition: Any, model: Any, training: Any) -> None:
    Scenario(name="", data=data, partition=partition, model=model, training=training, rounds=1,
             algorithm=EMDCFL(eps=0.5), protection=Encrypted())
"""


@pytest.mark.slow
def test_a_scenario_whose_parts_do_not_fit_fails_the_type_checker(tmp_path: Path) -> None:
    (tmp_path / "misfit.py").write_text(MISFIT, encoding="utf-8")
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", str(root / "pyproject.toml"), str(tmp_path / "misfit.py")],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
    )
    assert "misfit.py:14: error" in done.stdout, done.stdout
    assert "misfit.py:10" not in done.stdout
