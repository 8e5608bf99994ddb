"""One private release a client: what it costs, what one record moves, the noise that is really there, and its clusters."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import fft, stats
from torch import nn
from torch.nn import functional

from cloister.fl.algorithms.private_cfl import ALL, PrivateCFL, head_noise
from cloister.fl.algorithms.private_emd_cfl import private_emd_cfl
from cloister.fl.clients.embedders import SimulatedEmbedders
from cloister.fl.clients.head_gradients import HeadGradients, head_gradients
from cloister.fl.clustering.noise_edge import NullSpread, bipartitions, leaves, look
from cloister.fl.clustering.subspaces import Unmeasured
from cloister.fl.data.population import Client, Examples, Population
from cloister.fl.emd.embedding import LAST_LINEAR
from cloister.fl.emd.subsample import Size
from cloister.fl.models.papers import Mlp, initial
from cloister.fl.models.thumbnails import FrequencyRegression, LowFrequencies, ThumbnailRegression, Thumbnails
from cloister.fl.runs.experiment import run
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked, Permuted, Plain
from cloister.protocol.core.errors import Refused
from cloister.protocol.core.session import Session
from cloister.protocol.pairs import compute
from cloister.protocol.pairs.choices import PerClient
from cloister.protocol.pairs.compute import Respondent, answer_of
from cloister.protocol.pairs.noise import Noise, multiplier_of, noised, one_release, opened, release
from cloister.protocol.pairs.terms import ONCE, terms_of
from cloister.protocol.privacy.ledger import BudgetExceeded

from . import sides
from .example_files import load
from .neighbours import RUN, flagged
from .quadratic_clients import CLIENTS, GROUPS, Run

SHAPE, LABELS, DELTA = (1, 8, 8), 4, 1e-5
PUBLIC = ThumbnailRegression(side=4)
SWAPS = ((0, 1), (2, 3), (0, 2))


# --- what it costs ------------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0, 8.0]), st.sampled_from([1e-6, 1e-5, 1e-3]), st.integers(1, 2000))
def test_one_release_spends_the_budget_and_no_more(epsilon: float, delta: float, coordinates: int) -> None:
    noise = one_release(epsilon, delta, clip=0.5, coordinates=coordinates)
    entry = release(noise, noise.multiplier, 0.01, coordinates, "it")
    after = opened(noise, 3) + entry
    assert 0.9999 * epsilon < after.spent <= epsilon
    with pytest.raises(BudgetExceeded):
        after + entry


def gaussian_delta(multiplier: float, epsilon: float) -> float:
    """Balle and Wang 2018, theorem 8, for a Gaussian of so many sensitivities."""
    half, ratio = 1 / (2 * multiplier), epsilon * multiplier
    return float(stats.norm.cdf(half - ratio) - math.exp(epsilon) * stats.norm.cdf(-half - ratio))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_the_ledger_is_the_closed_form_of_a_gaussian(epsilon: float) -> None:
    """But for the grid, which costs sqrt(p) steps of 65,536."""
    multiplier = multiplier_of(epsilon, DELTA, 16)
    assert gaussian_delta(multiplier, epsilon) <= DELTA
    assert gaussian_delta(multiplier * (1 - 3 * multiplier * 4 / 65536), epsilon) >= DELTA * (1 - 1e-6)


def test_noise_that_no_grid_carries_is_refused() -> None:
    with pytest.raises(ValueError, match="rounding spends more"):
        multiplier_of(0.01, 1e-9, 10**12)


# --- what one record moves --------------------------------------------------------------------------------------------------


def images(rng: np.random.Generator, n: int, labels: int = LABELS) -> Examples:
    """Images, some of one shade, some far outside of [0, 1]."""
    x = rng.random((n, *SHAPE)) * rng.choice([0.0, 1.0, 1.0, 50.0], size=(n, 1, 1, 1))
    return Examples(torch.from_numpy(x.astype(np.float32)), torch.from_numpy(rng.integers(0, labels, n)))


def replaced(examples: Examples, at: int, x: torch.Tensor, y: int) -> Examples:
    changed, labels = examples.x.clone(), examples.y.clone()
    changed[at], labels[at] = x, y
    return Examples(changed, labels)


def model(kind: str) -> nn.Module:
    factory = PUBLIC if kind == "regression" else Mlp(hidden=(6,))
    return initial(factory, SHAPE, LABELS, 3)


def gradients_of(examples: Examples, records: int, kind: str) -> Any:
    return HeadGradients({1: Client(1, examples, examples)}, model(kind), records, lambda i: 11 * i)


def thumbnails_of(examples: Examples, records: int, side: str) -> Any:
    parts = {"train": {1: Client(1, examples, examples)}}
    public = Thumbnails(int(side))(SHAPE)
    return SimulatedEmbedders(model("perceptron"), LAST_LINEAR, parts, Size(records), lambda i, _: 11 * i, public, noisy=True)


MAKERS = {"regression": gradients_of, "perceptron": gradients_of, "2": thumbnails_of, "4": thumbnails_of}


def choice_of(kind: str, records: int) -> Any:
    if MAKERS[kind] is thumbnails_of:
        public = Thumbnails(int(kind))
        return private_emd_cfl(epsilon=1.0, delta=DELTA, records=records, shape=SHAPE, public=public).choice
    return PrivateCFL(noise=head_noise(2.0, DELTA, shape=SHAPE, classes=LABELS, public=PUBLIC), records=records).choice


def released(examples: Examples, records: int, kind: str) -> tuple[NDArray[np.float64], float]:
    """What the client would release, always with the same noise, and the sensitivity that its ledger is told."""
    embedders, choice = MAKERS[kind](examples, records, kind), choice_of(kind, records)
    terms = terms_of(Session(ONCE, RUN, 0, "1", (1,), 1), choice, embedders, 0)

    def embedded(part: str) -> Any:
        return embedders.embed(1, part, None)

    asked = Respondent(terms, 1, embedders, embedded, None, None, Unmeasured(), choice.noise, bytes(range(32)))
    answer = answer_of(asked, bytes(32))
    (entry,) = answer.releases
    return answer.release().own.astype(np.float64), entry.sensitivity


def moved(one: Examples, other: Examples, records: int, kind: str) -> float:
    """By how many sensitivities; less what float32 takes away."""
    (before, claimed), (after, _) = released(one, records, kind), released(other, records, kind)
    return max(0.0, float(np.linalg.norm(after - before)) - 4e-7 * float(np.linalg.norm(before))) / claimed


@pytest.mark.long
@pytest.mark.parametrize("kind", MAKERS)
def test_no_random_neighbour_moves_the_release_farther_than_the_ledger_was_told(kind: str) -> None:
    rng = np.random.default_rng(5)
    found = []
    for _ in range(12):
        own = images(rng, int(rng.integers(12, 40)))
        records = int(rng.integers(5, len(own) + 1))
        for _ in range(4):
            other = images(rng, 1)
            found.append(moved(own, replaced(own, int(rng.integers(len(own))), other.x[0], int(other.y[0])), records, kind))
    assert max(found) <= 1.0
    assert max(found) > 0.3, "or nothing would have been tried"


WORST = {"regression": 0.95, "perceptron": 0.6, "2": 0.99, "4": 0.99}


def farthest(kind: str) -> float:
    """A record for another that is as far from it as records can be: its negative, or one that is bright where it is dark."""
    half = torch.zeros(SHAPE)
    half[:, :4] = 1.0
    own = images(np.random.default_rng(6), 9)
    pairs = [(half, 0, 1 - half, 0), (half, 0, half, 1), (100 * half, 2, -100 * half, 3), (0 * half, 1, half, 1)]
    return max(moved(replaced(own, 4, a, y), replaced(own, 4, b, z), 9, kind) for a, y, b, z in pairs)


@pytest.mark.parametrize(("kind", "least"), WORST.items())
def test_the_worst_neighbour_comes_near_the_claim_and_stays_below(kind: str, least: float) -> None:
    assert least < farthest(kind) <= 1.0


@pytest.mark.parametrize("kind", WORST)
def test_a_clip_that_does_nothing_is_seen(kind: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(Noise, "clipped", lambda self, rows: 3 * np.asarray(rows, np.float64))
    assert farthest(kind) > 1.0


def test_gradients_are_those_of_autograd() -> None:
    own = images(np.random.default_rng(1), 7)
    for kind in ("regression", "perceptron"):
        network = model(kind)
        found = head_gradients(network, own)
        assert found.dtype == np.float32
        for row, x, y in zip(found, own.x, own.y, strict=True):
            head = network.get_submodule("head")
            assert isinstance(head, nn.Linear)
            loss = functional.cross_entropy(network(x[None]), y[None])
            weight, bias = torch.autograd.grad(loss, [head.weight, head.bias])
            expected = torch.cat([weight, bias[:, None]], dim=1).flatten()
            np.testing.assert_allclose(row, expected.numpy(), atol=2e-6)


def test_gradients_show_nothing_else_and_depend_on_one_record_each() -> None:
    own = images(np.random.default_rng(1), 20)
    embedders = gradients_of(own, 10, "regression")
    assert (embedders.rows, embedders.d, embedders.inputs) == (10, LABELS * 17, 64)
    for asked in (lambda: embedders.examples(1, "train"), lambda: embedders.embed(1, "validation", None)):
        with pytest.raises(Refused):
            asked()
    with pytest.raises(ValueError, match="fewer than records=21"):
        gradients_of(own, 21, "regression")
    mixing = nn.Sequential(nn.Flatten(), nn.Softmax(dim=0), nn.Linear(64, LABELS))
    with pytest.raises(Refused, match="depends on the others"):
        HeadGradients({1: Client(1, own, own)}, mixing, 10, lambda i: i)


def test_low_frequencies_are_weighted_coefficients_of_a_cosine_transform() -> None:
    x = torch.rand((3, 2, 8, 8), generator=torch.Generator().manual_seed(0))
    rows = LowFrequencies(8, 3)(x).numpy()
    u, v = np.indices((8, 8))
    kept = (u + v >= 1) & (u + v <= 3)
    expected = (fft.dctn(x.double().numpy(), axes=(2, 3), norm="ortho")[:, :, kept] * (1 + u + v)[kept]).reshape(3, -1)
    expected *= np.sqrt(expected.shape[1]) / np.linalg.norm(expected, axis=1, keepdims=True)
    assert rows.shape == (3, 18)
    np.testing.assert_allclose(rows, expected, atol=1e-5)
    assert np.abs(LowFrequencies(8, 3)(torch.full((1, 1, 8, 8), 0.7)).numpy()).max() < 1e-2


def test_a_public_model_of_frequencies_is_of_images_that_have_them() -> None:
    """All gradients of the default model are longer than the default clip, so that only their direction counts."""
    for shape in ((1, 28, 28), (1, 8, 8), (1, 7, 9)):
        network = FrequencyRegression()(shape, 10)
        own = Examples(torch.rand((20, *shape), generator=torch.Generator().manual_seed(1)), torch.arange(20) % 10)
        found = head_gradients(network, own)
        assert found.shape == (20, 280)
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), math.sqrt(0.9 * 28), rtol=1e-4)
    for shape in ((64,), (1, 6, 28)):
        with pytest.raises(ValueError, match="no images"):
            FrequencyRegression()(shape, 10)
    for wrong in ({"most": 0}, {"most": 14}, {"side": 6}):
        with pytest.raises(ValueError, match="most is a frequency"):
            FrequencyRegression(**wrong)


# --- the edge -----------------------------------------------------------------------------------------------------------------


def test_clients_of_one_distribution_are_rarely_cut() -> None:
    """Noise, and sampling errors in few directions, each at its bound: 2 in 100 of 100 honest looks, 9 at most by chance."""
    rng = np.random.default_rng(0)
    null = NullSpread(deviation=1.0, spread=20.0, widest=4.0, error=0.02, draws=200)
    cuts = 0
    for _ in range(100):
        vectors = rng.standard_normal((12, 40))
        vectors[:, :5] += 2.0 * rng.standard_normal((12, 5))
        cuts += look(vectors, range(12), null, rng).cut is not None
    assert cuts <= 9
    bare = replace(null, spread=0.0, widest=0.0)
    assert look(vectors, range(12), bare, rng).cut is not None, "without the sampling error it would be taken for groups"


def test_groups_are_found_below_the_noise_of_single_clients() -> None:
    """Clients' vectors are 20 long by noise alone, and groups 11 apart: pairs tell little, the leading directions everything."""
    rng = np.random.default_rng(2)
    centres = 11 * np.linalg.qr(rng.standard_normal((400, 4)))[0].T / math.sqrt(2)
    vectors = np.repeat(centres, 6, axis=0) + rng.standard_normal((24, 400))
    looks = bipartitions(vectors, range(24), NullSpread(deviation=1.0), rng)
    assert leaves(looks, range(24)) == tuple(tuple(range(k, k + 6)) for k in (0, 6, 12, 18))
    assert len([found for found in looks if found.cut is not None]) == 3
    first = looks[0]
    assert first.clients == tuple(range(24))
    assert first.eigenvalues[0] > first.edge


def test_one_client_is_a_cluster_and_what_cannot_be_is_refused() -> None:
    rng, null = np.random.default_rng(0), NullSpread(deviation=1.0)
    assert leaves(bipartitions(np.ones((1, 3)), [7], null, rng), [7]) == ((7,),)
    with pytest.raises(ValueError, match="finite"):
        look(np.full((2, 3), np.nan), [0, 1], null, rng)
    for wrong in ({"deviation": 0.0}, {"spread": 1.0}, {"spread": 1.0, "widest": 2.0}, {"error": 1e-4}):
        with pytest.raises(ValueError):
            NullSpread(**{"deviation": 1.0, **wrong})


# --- the algorithm under views ------------------------------------------------------------------------------------------------

RECORDS = 400


@lru_cache(maxsize=1)
def population() -> Population:
    """Clients of three groups, each of which swaps two labels."""
    patterns = np.random.default_rng(4).random((LABELS, *SHAPE)) < 0.5
    clients = {}
    for i in CLIENTS:
        rng = np.random.default_rng(80 + i)
        y = rng.integers(0, LABELS, RECORDS)
        x = 0.7 * patterns[y] + 0.3 * rng.random((RECORDS, *SHAPE))
        table = np.arange(LABELS)
        table[list(SWAPS[i // 4])] = table[list(SWAPS[i // 4])[::-1]]
        own = Examples(torch.from_numpy(x.astype(np.float32)), torch.from_numpy(table[y]))
        clients[i] = Client(i, own, own)
    return Population(clients, {i: i // 4 for i in CLIENTS}, LABELS, SHAPE)


def algorithm(epsilon: float = 2.0, **changes: Any) -> PrivateCFL:
    noise = head_noise(epsilon, DELTA, shape=SHAPE, classes=LABELS, public=PUBLIC, acknowledge=("sums",))
    return PrivateCFL(**{"noise": noise, "records": RECORDS, "public": PUBLIC, "by_samples": False, "widest": 0.5} | changes)


class Recording(HeadGradients):
    """The clients' computers, which note what they sent."""

    def sent(self, client: int, occasion: Any, honest: Any, /) -> Any:
        self.__dict__.setdefault("notes", {})[client] = (occasion.projection, honest)
        return honest


def computers() -> Any:
    return Recording(population().clients, initial(PUBLIC, SHAPE, LABELS, 0), RECORDS, lambda i: i)


def losing(client: int) -> Any:
    """A network that loses this client's release."""
    return lambda frame: () if frame.kind == "PairClouds" and frame.sender == client else (frame,)


@pytest.mark.parametrize("protection", [Plain(floor=2), Permuted(floor=2), Masked(floor=2)], ids=lambda p: type(p).__name__)
def test_groups_are_found_from_one_release_within_the_budget(protection: Any) -> None:
    run = Run(algorithm(), protection, embedders=computers())
    run.step()
    assert run.members == GROUPS
    assert sorted(run.active[0, "update"]) == list(CLIENTS), "they train in the round in which they are grouped"
    assert run.state.measured[ALL].communities == GROUPS
    run.step()
    ledgers = sides.pair_ledgers(run.view)
    assert sorted(ledgers) == list(CLIENTS)
    for ledger in ledgers.values():
        assert 1.999 < ledger.spent <= 2.0
        (entry,) = ledger.releases
        assert entry.sensitivity == pytest.approx(2 * 0.5 / RECORDS, rel=1e-3)
        assert (ledger.unit, ledger.adjacency, ledger.acknowledged) == ("record", "replace", ("sums",))
        assert ledger.not_covered == ("that it takes part, the size of its sample, its edges and cluster",)
    assert not run.view.record.faults


def residuals(embedders: Any, run: Run) -> Mapping[int, NDArray[np.float64]]:
    """By client: what it released less the mean of its clipped gradients, in deviations that the algorithm goes by."""
    deviation, found = run.algorithm.null.deviation, {}
    for i, (projection, honest) in embedders.notes.items():
        rows = embedders.embed(i, "train", None).astype(np.float64)
        mean = (rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True) / 0.5)).mean(axis=0)
        found[i] = (honest.own[0] - mean @ projection) / deviation
    return found


def one_key_for_all(monkeypatch: Any) -> None:
    monkeypatch.setattr(Respondent, "deviate", lambda self, label: bytes(32))


def too_little(monkeypatch: Any) -> None:
    monkeypatch.setattr(compute, "noised", lambda values, deviation, key: noised(values, 0.8 * deviation, key))


def test_the_noise_is_that_of_the_ledger_and_every_clients_own(monkeypatch: Any) -> None:
    for fault in (None, one_key_for_all, too_little):
        with monkeypatch.context() as patched:
            if fault is not None:
                fault(patched)
            embedders = computers()
            run = Run(algorithm(), Plain(floor=2), embedders=embedders)
            run.step()
            assert bool(flagged(dict(residuals(embedders, run)))) == (fault is not None)


def test_who_does_not_answer_is_alone_and_nobody_joins_later() -> None:
    run = Run(algorithm(), Plain(floor=2), embedders=computers(), tap=losing(9))
    run.state = run.algorithm.join(run.state, [])
    run.step()
    assert run.members == (GROUPS[0], GROUPS[1], (8, 10, 11), (9,))
    with pytest.raises(ValueError, match="compared once"):
        run.algorithm.join(run.state, [9])


def test_clients_refuse_a_release_past_their_budget() -> None:
    short = algorithm()
    short = replace(short, noise=replace(short.noise, budget=1.9))
    run = Run(short, Plain(floor=2), embedders=computers())
    run.step()
    assert not run.state.clusters, "nothing was released, so nobody is compared, and all are asked again"
    assert not any(ledger.releases for ledger in sides.pair_ledgers(run.view).values())
    assert all("past its budget" in fault.reason for fault in run.view.record.faults)
    assert len(run.view.record.faults) == len(CLIENTS)


def test_what_no_claim_holds_for_is_refused() -> None:
    for changes in (
        {"noise": replace(algorithm().noise, unit="attribute")},
        {"noise": replace(algorithm().noise, nonnegative=True)},
        {"records": 0},
        {"widest": 0.0},
        {"error": 1.0},
    ):
        with pytest.raises(ValueError):
            algorithm(**changes)
    for shape in ((64,), (1, 3, 3)):
        with pytest.raises(ValueError, match="no images"):
            Thumbnails(4)(shape)


# --- whole runs ---------------------------------------------------------------------------------------------------------------


def scenario_of(choice_or_algorithm: Any, **changes: Any) -> Scenario:
    example = load("private_clustering")
    value = Scenario(
        name="private clustering",
        data=example.DrawnImages(examples=1200),
        partition=example.EMD.partition(6, 2, 200),
        model=Mlp(hidden=(4,)),
        training=example.Training(epochs=1, batch=100, lr=0.05),
        algorithm=choice_or_algorithm,
        protection=Masked(floor=3),
        rounds=1,
    )
    return replace(value, **changes)


def test_noise_beside_training_without_any_must_be_acknowledged() -> None:
    silent = {"epsilon": 1.0, "delta": DELTA, "records": 200, "shape": (1, 28, 28)}
    with pytest.raises(Refused, match="sums"):
        scenario_of(private_emd_cfl(**silent))  # type: ignore[arg-type]
    with pytest.raises(Refused, match="sums"):
        scenario_of(replace(algorithm(), noise=replace(algorithm().noise, acknowledge=())))


@pytest.mark.trains
def test_a_mean_sketch_needs_no_validation_data_and_takes_all_records() -> None:
    own = private_emd_cfl(epsilon=4.0, delta=DELTA, records=200, shape=(1, 28, 28), acknowledge=("sums",))
    for share, records in ((0.0, 200), (0.1, 180)):
        simulation = Simulation(scenario_of(own, validation=share), None)
        simulation.step()
        (entry,) = sides.pair_ledgers(simulation.view)[0].releases
        assert entry.sensitivity == pytest.approx(math.sqrt(2) / records, rel=1e-3)
    with pytest.raises(ValueError, match="set validation"):
        Simulation(scenario_of(replace(own, choice=PerClient(), eps=0.2)), None)


@pytest.mark.trains
@pytest.mark.long
def test_both_methods_find_the_groups_at_the_epsilons_that_are_claimed() -> None:
    """Four seeds of drawn images, 12 clients of 400 records: every index is 1 by a wide margin of noise."""
    example = load("private_clustering")
    for seed in range(4):
        found = example.small(seed)
        assert len(found) == 2
        for key, cell in found.items():
            claimed = 1.0 if "EMD" in key else 2.0
            assert cell["ari"] >= 0.95, key
            assert 0.99 * claimed < cell["epsilon"] <= claimed
            assert cell["releases"] == 1
    assert "| drawn images | EMD-CFL, 4 x 4 cells | 400 | 1.00 (least 1.00) |" in example.table(found)


@pytest.mark.long
@pytest.mark.trains
def test_a_run_goes_on_from_its_folder_and_says_what_it_spent(tmp_path: Path) -> None:
    example = load("private_clustering")
    noise = head_noise(2.0, DELTA, shape=(1, 28, 28), classes=10, acknowledge=("sums",))
    value = scenario_of(PrivateCFL(noise=noise, records=200), partition=example.CFL.partition(6, 2, 200), rounds=2)
    whole = list(run(value, tmp_path / "whole", None))
    list(run(replace(value, rounds=1), tmp_path / "parts", None))
    parts = list(run(value, tmp_path / "parts", None, resume=True))
    assert [done.round for done in whole] == [1, 2]
    assert parts[-1].accuracy == whole[-1].accuracy
    for folder in ("whole", "parts"):
        spent = json.loads((tmp_path / folder / "privacy.json").read_text())["record"]
        assert 1.999 < spent["epsilon_worst"] <= 2.0
        assert spent["acknowledged"] == ["sums"]
        assert all(len(client["releases"]) == 1 for client in spent["clients"].values())
