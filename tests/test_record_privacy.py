"""What DP-SGD costs: against closed forms, integrals and Opacus' accountant; ledgers; and scenarios that void an epsilon."""

import math
from dataclasses import is_dataclass, replace
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy import integrate, optimize, stats

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl import algorithms
from cloister.fl.algorithms.cfl import CFL, Absolute
from cloister.fl.algorithms.cfl_gp import CFLGP
from cloister.fl.algorithms.emd_cfl import EMDCFL
from cloister.fl.algorithms.fed_clust import FedClust
from cloister.fl.algorithms.fedavg import FedAvg, FedProx, Local, Oracle
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
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.clients.record_privacy import BESIDE, RecordPrivacy, multiplier_for
from cloister.fl.clients.spending import Spending, together
from cloister.fl.clients.training import Job, Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.population import Examples
from cloister.fl.data.source import Digits
from cloister.fl.emd import Euclidean, MeanDistance, Size
from cloister.fl.models.papers import Mlp
from cloister.fl.robust.averages import Mean
from cloister.fl.runs.noise_check import check_training
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked, Noise, Plain
from cloister.protocol.core.errors import Refused
from cloister.protocol.pairs import noise as pairs_noise
from cloister.protocol.pairs.choices import MeanSketch
from cloister.protocol.privacy.accountant import spent
from cloister.protocol.privacy.adjacency import Adjacency
from cloister.protocol.privacy.ledger import BudgetExceeded, Release

DELTA = 1e-5
PRIVACY = RecordPrivacy(clip=1.0, multiplier=1.0, budget=1000.0, delta=DELTA)
ONE_MORE = replace(PRIVACY, adjacency="add or remove", records=100)


def epsilon(privacy: RecordPrivacy, examples: int, epochs: int, batch: int, dimension: int = 1) -> float:
    return spent([privacy.release(examples, epochs, batch, dimension).event], privacy.adjacency, DELTA).epsilon


@pytest.mark.parametrize(("z", "steps", "expected"), [(1.0, 50, 54.4), (5.0, 50, 6.57), (10.0, 100, 4.38)])
def test_without_sampling_it_is_the_closed_form(z: float, steps: int, expected: float) -> None:
    found = epsilon(replace(ONE_MORE, multiplier=z), 100, steps, 100)
    assert found == pytest.approx(expected, rel=2e-3)
    halved = replace(PRIVACY, multiplier=2 * z)  # replacing one moves a sum by 2 C
    assert epsilon(halved, 100, steps, 100) == pytest.approx(found, rel=1e-4)


@pytest.mark.long
def test_the_known_answer_under_poisson_sampling() -> None:
    assert epsilon(ONE_MORE, 100, 10, 10) == pytest.approx(7.05, abs=0.02)
    assert epsilon(ONE_MORE, 101, 10, 10) == epsilon(ONE_MORE, 100, 10, 10)  # of a public number, and not of the client's own


PRV = {(0.1, 1.0, 100): 7.057, (0.05, 0.8, 400): 10.743, (0.02, 1.5, 1000): 1.978, (0.2, 3.0, 300): 5.485}
"""By Opacus 1.6.0's PRVAccountant at delta 1e-5 (eps_error 0.01): by rate, multiplier and steps."""


@pytest.mark.long
@pytest.mark.parametrize(("q", "z", "steps"), PRV)
def test_it_agrees_with_opacus(q: float, z: float, steps: int) -> None:
    event = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(z)), steps)
    assert spent([event], "add or remove", DELTA).epsilon == pytest.approx(PRV[q, z, steps], rel=0.02)


@pytest.mark.long
def test_opacus_says_what_is_written_here() -> None:
    accountants = pytest.importorskip("opacus.accountants")
    for (q, z, steps), written in PRV.items():
        theirs = accountants.PRVAccountant()
        theirs.history = [(z, q, steps)]
        assert theirs.get_epsilon(DELTA) == pytest.approx(written, abs=0.02)


@pytest.mark.parametrize(
    ("q", "z"), [(0.5, 2.0), pytest.param(0.1, 1.0, marks=pytest.mark.slow), pytest.param(0.3, 0.7, marks=pytest.mark.slow)]
)
@pytest.mark.long
def test_one_step_under_replacement_is_the_integral(q: float, z: float) -> None:
    """One record may be +C where the other is -C, each there with chance q: the worst case in one dimension."""

    def delta(eps: float) -> float:
        def over(x: float) -> float:
            base = (1 - q) * stats.norm.pdf(x, 0, z)
            one, other = (base + q * stats.norm.pdf(x, at, z) for at in (1, -1))
            return max(one - math.exp(eps) * other, 0.0)

        return integrate.quad(over, -12 * z, 12 * z, limit=500, epsabs=1e-12)[0]

    exact = optimize.brentq(lambda eps: delta(eps) - DELTA, 1e-3, 60, xtol=1e-5)
    records = 1000
    found = epsilon(replace(PRIVACY, multiplier=z, records=records), records, 1, round(q * records))
    one_step = replace(PRIVACY, multiplier=z, records=records).release(records, 1, round(q * records), 1).event.event
    assert spent([one_step], "replace", DELTA).epsilon == pytest.approx(exact, rel=5e-3)
    assert spent([one_step], "replace", DELTA).epsilon >= exact * (1 - 1e-4)
    assert found >= exact


@pytest.mark.long
def test_the_grid_costs_little_and_never_nothing() -> None:
    exact = epsilon(ONE_MORE, 100, 10, 10, dimension=1)
    wide = epsilon(ONE_MORE, 100, 10, 10, dimension=1_000_000)
    assert exact < wide < 1.01 * exact
    release = PRIVACY.release(100, 2, 30, 400)
    assert release.event.count == 2 * 4
    assert release.sensitivity == pytest.approx(2.0, rel=1e-3)
    assert release.sensitivity >= 2.0
    assert (release.unit, release.adjacency) == ("record", "replace")


@pytest.mark.long
def test_noise_can_be_found_for_a_budget() -> None:
    z = multiplier_for(2.0, DELTA, 0.25, 20)
    found = epsilon(replace(PRIVACY, multiplier=z), 100, 5, 25, dimension=100_000)
    assert 1.95 < found <= 2.0
    z = multiplier_for(6.57, DELTA, 1.0, 50, "add or remove")
    assert z == pytest.approx(5.0, rel=0.012)


def job(client: int, count: int = 40) -> Job:
    import torch

    return Job(client, np.zeros(50, np.float32), Examples(torch.zeros(count, 2), torch.zeros(count, dtype=torch.int64)), client)


def spending(training: Training, clients: tuple[int, ...] = (1, 2), beside: Any = lambda _: ()) -> Spending:
    return Spending.of(training, SimulatedEntropy(0), clients, beside)


@pytest.mark.long
def test_a_client_looks_at_its_ledger_before_it_trains() -> None:
    training = Training(epochs=1, batch=20, lr=0.1, privacy=replace(PRIVACY, multiplier=8.0, budget=2.0))
    books = spending(training)
    done, secrets = 0, set()
    while True:
        admitted, reasons = books.admit([job(1), job(2, 2000)])
        assert admitted[-1].client == 2  # another client's ledger is its own
        if reasons:
            break
        done += 1
        secrets |= {each.secret for each in admitted}
    assert list(reasons) == [1]
    assert "past its budget of 2" in reasons[1]
    assert "\n" not in reasons[1]
    assert books.declined == {1}
    assert len(secrets) == 2 * done > 4
    assert len(books.ledgers[1].releases) == done
    assert books.ledgers[1].spent <= 2.0
    with pytest.raises(BudgetExceeded):
        books.ledgers[1] + training.privacy.release(40, 1, 20, 50)
    again = spending(training)
    again.restore(books.save())
    assert again.ledgers == books.ledgers
    assert again.admit([job(1)])[1] == books.admit([job(1)])[1]
    assert again.admit([job(2, 2000)])[0][0].secret not in secrets


def test_a_client_does_all_of_its_jobs_or_none() -> None:
    """Several models in one round: each costs, and no two share noise, although they are of one seed."""
    one = PRIVACY.release(40, 1, 40, 50)
    budget = spent([one.event] * 3, "replace", DELTA).epsilon * 1.001
    books = spending(Training(epochs=1, batch=40, lr=0.1, privacy=replace(PRIVACY, budget=budget)))
    admitted, reasons = books.admit([job(1), job(1), job(2)])
    assert not reasons
    assert len({each.secret for each in admitted}) == 3
    assert len(books.ledgers[1].releases) == 2
    admitted, reasons = books.admit([job(1), job(1), job(2)])
    assert [each.client for each in admitted] == [2]
    assert list(reasons) == [1]
    assert len(books.ledgers[1].releases) == 2
    assert not books.admit([job(1)])[1]
    assert spending(Training(epochs=1, batch=40, lr=0.1)).admit([job(1)])[0][0].secret == b""


def test_what_was_released_otherwise_counts_as_well() -> None:
    one = PRIVACY.release(40, 1, 40, 50)
    budget = spent([one.event] * 2, "replace", DELTA).epsilon * 1.001
    beside = Release(dp_event.GaussianDpEvent(1.0), 1.0, "replace", "record", "Gaussian", "a sketch")
    training = Training(epochs=1, batch=40, lr=0.1, privacy=replace(PRIVACY, budget=budget))
    assert not spending(training).admit([job(1), job(1)])[1]
    assert list(spending(training, beside=lambda _: (beside,)).admit([job(1), job(1)])[1]) == [1]
    ledger = training.privacy.opened(1)
    whole = together(ledger + one, ledger + beside)
    assert whole.releases == (one, beside)
    assert whole.spent > max((ledger + one).spent, (ledger + beside).spent)
    with pytest.raises(ValueError, match="differ"):
        together(ledger, replace(ledger, delta=1e-6))


BASE = Scenario(
    name="records",
    data=Digits(),
    partition=Iid(clients=8, samples=60),
    model=Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=10, lr=0.1, privacy=PRIVACY),
    algorithm=FedAvg(by_samples=False),
    protection=Plain(),
    rounds=1,
    validation=0.5,
)


@pytest.mark.parametrize(
    "algorithm",
    [
        FedAvg(),
        FedProx(mu=0.1),
        Local(),
        CFL(thresholds=Absolute(0.1, 0.2)),
        CFL(thresholds=Absolute(0.1, 0.2), similarities="every round"),
        FedClust(threshold=1.0),
        FPFC(rounds=2),
        PFedGraph(),
    ],
    ids=lambda algorithm: type(algorithm).__name__,
)
def test_whatever_is_made_of_updates_alone_is_covered(algorithm: Any) -> None:
    replace(BASE, algorithm=algorithm)


@pytest.mark.parametrize(
    ("algorithm", "names"),
    [
        (FLIC(rounds_before=2), ("choice",)),
        (HardenedFLIC(rounds_before=2, every=1), ("choice",)),
        (CFL(thresholds=Absolute(0.1, 0.2), similarity="gradient"), ("full gradients",)),
        (CFLGP(models=2), ("full gradients",)),
        (EMDCFL(eps=0.2), ("pairs",)),
        (PACFL(beta=10.0), ("pairs",)),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, tuple) else "+".join(value),
)
def test_what_else_is_told_of_records_is_acknowledged_or_refused(algorithm: Any, names: tuple[str, ...]) -> None:
    with pytest.raises(Refused) as refused:
        replace(BASE, algorithm=algorithm)
    words = str(refused.value)
    assert "\n" not in words
    assert all(f"{name} (" in words for name in names)
    assert "training.privacy.acknowledge=" in words
    acknowledged = replace(BASE.training, privacy=replace(PRIVACY, acknowledge=names))
    replace(BASE, algorithm=algorithm, training=acknowledged)
    replace(BASE, algorithm=algorithm, training=replace(BASE.training, privacy=None))


DECIDED: dict[str, tuple[Any, str | tuple[str, ...]]] = {
    "CFL": (CFL(thresholds=Absolute(0.1, 0.2)), ()),
    "CFLGP": (CFLGP(models=2), ("full gradients",)),
    "EMDCFL": (EMDCFL(eps=0.2), ("pairs",)),
    "FLIC": (FLIC(rounds_before=2), ("choice",)),
    "FLDetector": (FLDetector(), ()),
    "FPFC": (FPFC(rounds=2), ()),
    "FeSEM": (FeSEM(models=2), ()),
    "FedAvg": (FedAvg(), ()),
    "FedCE": (FedCE(models=2), "weigh"),
    "FedClust": (FedClust(threshold=1.0), ()),
    "FedEM": (FedEM(models=2), "weigh"),
    "FedProx": (FedProx(mu=0.1), ()),
    "FedRC": (FedRC(models=2), "weigh"),
    "FedSaC": (FedSaC(), ("pairs",)),
    "FedSoft": (FedSoft(models=2), "weigh"),
    "FlexCFL": (FlexCFL(groups=2), ()),
    "HardenedFLIC": (HardenedFLIC(rounds_before=2, every=1), ("choice",)),
    "IFCA": (IFCA(models=2), "weigh"),
    "Local": (Local(), ()),
    "Oracle": (Oracle(), ()),
    "PACFL": (PACFL(beta=10.0), ("pairs",)),
    "PFedGraph": (PFedGraph(), ()),
    "PerFedAvg": (PerFedAvg(alpha=0.1), "adds no noise"),
    "RobustFedAvg": (RobustFedAvg(rule=Mean()), ()),
}
"""Of every algorithm, what has to be acknowledged, or why there is no claim. PrivateCFL, whose comparisons have noise of their
own, is of `test_private_clustering`."""


def test_every_algorithm_is_decided_on() -> None:
    found = set()
    for module in (import_module(f"cloister.fl.algorithms.{each.name}") for each in iter_modules(algorithms.__path__)):
        for name, value in vars(module).items():
            if isinstance(value, type) and value.__module__ == module.__name__ and is_dataclass(value):
                found |= {name} if {"needs", "local", "init", "round"} <= set(dir(value)) else set()
    bases = {"SeveralModels", "WeighedModels", "PersonalGraph"}
    assert found - bases - {"PrivateCFL"} == set(DECIDED)


@pytest.mark.parametrize("name", DECIDED)
def test_no_epsilon_is_claimed_where_work_goes_by_records_beyond_their_gradients(name: str) -> None:
    algorithm, decided = DECIDED[name]
    names = decided if isinstance(decided, tuple) else tuple(BESIDE)
    training = replace(BASE.training, privacy=replace(PRIVACY, acknowledge=names))
    if isinstance(decided, tuple):
        check_training(algorithm, training, BASE.execution, 0.5)
        if decided:
            with pytest.raises(Refused, match="would be void"):
                check_training(algorithm, BASE.training, BASE.execution, 0.5)
        return
    with pytest.raises(Refused, match=decided) as refused:
        check_training(algorithm, training, BASE.execution, 0.5)
    assert "\n" not in str(refused.value)
    check_training(algorithm, replace(training, privacy=None), BASE.execution, 0.5)


def test_training_that_adds_no_noise_is_refused() -> None:
    with pytest.raises(Refused, match="MetaSteps, which adds no noise"):
        replace(BASE, algorithm=PerFedAvg(alpha=0.1))

    def own(*_: Any) -> Any:
        raise AssertionError

    with pytest.raises(Refused, match="adds no noise"):
        replace(BASE, execution=own)


def test_one_record_more_or_less_is_another_claim() -> None:
    training = replace(BASE.training, privacy=ONE_MORE)
    with pytest.raises(Refused, match="drawn by position"):
        replace(BASE, training=training)
    with pytest.raises(Refused, match=r"number of examples \(") as told:
        replace(BASE, training=training, validation=0.0)
    assert "take an algorithm" not in str(told.value)  # there is none that does not tell it
    acknowledged = replace(ONE_MORE, acknowledge=("number of examples",))
    replace(BASE, training=replace(training, privacy=acknowledged), validation=0.0)
    with pytest.raises(ValueError, match="set records"):
        replace(PRIVACY, adjacency="add or remove")
    for bad in ({"clip": 0.0}, {"multiplier": math.inf}, {"delta": 1.0}, {"budget": -1.0}, {"records": 0}, {"adjacency": "x"}):
        with pytest.raises(ValueError):
            replace(PRIVACY, **bad)
    with pytest.raises(ValueError, match="no answer that could be acknowledged"):
        replace(PRIVACY, acknowledge=("updates",))
    with pytest.raises(ValueError, match=r"takes several names: acknowledge=\('choice',\)"):
        replace(PRIVACY, acknowledge="choice")
    with pytest.raises(ValueError, match="names 'gram', which is made of updates, and so is covered: leave it out"):
        replace(PRIVACY, acknowledge=("choice", "gram"))
    with pytest.raises(ValueError, match="delta is 1e-20, and 1e-12 is the least at which an epsilon is known"):
        replace(PRIVACY, delta=1e-20)


def test_comparisons_with_noise_share_the_ledger_of_training() -> None:
    noise = pairs_noise.Noise(clip=4.0, multiplier=5.0, reference_multiplier=5.0, budget=1000.0, delta=DELTA)
    means = {"distance": MeanDistance(Euclidean()), "eps": 0.2, "size": Size(30), "by_samples": False}
    sketched = EMDCFL(choice=MeanSketch(noise=noise), **means)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="sums"):
        replace(BASE, algorithm=sketched, training=replace(BASE.training, privacy=None))
    replace(BASE, algorithm=sketched)  # the sums are of updates that have noise
    other = EMDCFL(choice=MeanSketch(noise=replace(noise, budget=4.0)), **means)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="count together"):
        replace(BASE, algorithm=other)


def test_noise_of_whole_clients_stands_beside_it() -> None:
    noise = Noise(epsilon=6.0, delta=1e-4, rounds=3, l2=0.5)
    replace(BASE, protection=Masked(noise=noise), algorithm=FedAvg(by_samples=False))


@pytest.mark.parametrize("adjacency", ["add or remove", "replace", "zero out"])
def test_noise_that_is_not_a_number_has_no_epsilon(adjacency: Any) -> None:
    """It had one of 0."""
    event = dp_event.GaussianDpEvent(math.nan)
    for each in (
        event,
        dp_event.SelfComposedDpEvent(event, 3),
        dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(1.0), event]),
        dp_event.PoissonSampledDpEvent(0.5, event),
        dp_event.PoissonSampledDpEvent(math.nan, dp_event.GaussianDpEvent(1.0)),
        dp_event.LaplaceDpEvent(math.nan),
    ):
        with pytest.raises(ValueError, match="is not a number"):
            spent([each], adjacency, DELTA)


@pytest.mark.parametrize(
    ("epsilon", "records", "batch", "epochs", "rounds", "parameters", "adjacency"),
    [
        pytest.param(8.0, 100, 50, 1, 5, 1_000_000, "replace", marks=pytest.mark.slow),
        (2.0, 100, 32, 2, 2, 5_000, "add or remove"),
        (0.5, 1000, 1000, 1, 4, 20_000_000, "replace"),
        (3.0, 1000, 2000, 3, 10, 1_000, "add or remove"),
    ],
)
@pytest.mark.long
def test_settings_for_an_epsilon_cost_no_more_on_the_ledger(
    epsilon: float, records: int, batch: int, epochs: int, rounds: int, parameters: int, adjacency: Adjacency
) -> None:
    """All rounds are put on a client's own ledger, which refuses what is past its budget; one more round would be."""
    privacy = RecordPrivacy.for_epsilon(
        epsilon,
        delta=DELTA,
        clip=1.0,
        records=records,
        batch=batch,
        epochs=epochs,
        rounds=rounds,
        adjacency=adjacency,
        parameters=parameters,
    )
    assert privacy.budget == epsilon
    ledger = privacy.opened(0)
    for _ in range(rounds):
        ledger += privacy.release(records, epochs, batch, parameters)
    assert 0.97 * epsilon < ledger.spent <= epsilon
    with pytest.raises(BudgetExceeded):
        ledger + privacy.release(records, epochs, batch, parameters) + privacy.release(records, epochs, batch, parameters)


@pytest.mark.long
def test_numbers_that_are_none_of_a_training_are_refused() -> None:
    how = {"delta": DELTA, "clip": 1.0, "records": 100, "batch": 10, "epochs": 1, "rounds": 5}
    with pytest.raises(ValueError, match="at least 1"):
        RecordPrivacy.for_epsilon(1.0, **{**how, "rounds": 0})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="epsilon and clip are finite"):
        RecordPrivacy.for_epsilon(0.0, **how)  # type: ignore[arg-type]
    for bad in ({"clip": -1.0}, {"clip": math.nan}, {"delta": 1e-300}, {"adjacency": "x"}):  # at once, and not after a search
        with pytest.raises(ValueError):
            RecordPrivacy.for_epsilon(1.0, **{**how, **bad})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"on the grid of a model of 1000000 parameters \(parameters: of the model, at most\)"):
        RecordPrivacy.for_epsilon(0.001, **how)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="adjacency"):
        RecordPrivacy.for_epsilon(1.0, **how, adjacency="zero out")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"records": 96.5}, "records is 96.5; give a whole number"),
        ({"epsilon": "8"}, "epsilon is '8'; give a number"),
        ({"delta": None}, "delta is None; give a number"),
    ],
)
def test_an_argument_of_another_kind_is_refused_by_its_name(wrong: dict[str, object], words: str) -> None:
    """Before: "an event is composed 80.0 times", and "'<' not supported"."""
    how = {"epsilon": 8.0, "delta": 1e-5, "clip": 1.0, "records": 96, "batch": 20, "epochs": 1, "rounds": 2} | wrong
    with pytest.raises(ValueError, match=r"RecordPrivacy.for_epsilon: ") as caught:
        RecordPrivacy.for_epsilon(**how)  # type: ignore[arg-type]
    assert str(caught.value) == f"RecordPrivacy.for_epsilon: {words}"
