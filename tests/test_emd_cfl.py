"""EMD-CFL, Algorithm 1: one comparison a pair, clusters as printed, means by samples, newcomers one by one, resumed runs."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloister.fl.algorithms.algorithm import Cluster, Few, Start
from cloister.fl.algorithms.emd_cfl import AS_PUBLISHED, EMDCFL, PRINTED, Gap, Replicates, Share, State
from cloister.fl.algorithms.fedavg import Oracle
from cloister.fl.clients.embedders import parted
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid, Rotation
from cloister.fl.data.source import Digits
from cloister.fl.emd.clusters import components, majorities, neighbourhoods
from cloister.fl.emd.distances import Euclidean, ExactEmd, MeanDistance, Sinkhorn
from cloister.fl.emd.figure import distance_figure
from cloister.fl.emd.subsample import Size
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.codec import from_plain, to_plain
from cloister.fl.runs.experiment import run
from cloister.fl.runs.metrics import adjusted_rand_index
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Encrypted, Masked, Permuted, Plain
from cloister.protocol.core.errors import Refused
from cloister.protocol.pairs.choices import PER_PAIR, PUBLIC, Distances, MeanSketch, PerClient, PerPair
from cloister.protocol.pairs.noise import Noise
from cloister.protocol.view.answers import Model
from cloister.protocol.view.functionality import Functionality

from .scripted_pairs import Scripted

DIGITS = Scenario(
    name="rotated digits",
    data=Digits(),
    partition=Rotation(clients=8, angles=(0, 90)),
    model=Mlp(hidden=(32,)),
    training=Training(epochs=8, batch=10, lr=0.1),
    algorithm=EMDCFL(eps=Gap(), choice=PER_PAIR, size=Size(30)),
    protection=Plain(),
    rounds=3,
    validation=0.3,
)


def played(scenario: Scenario, folder: Path | None = None) -> Simulation:
    simulation = Simulation(scenario, folder)
    for _ in range(scenario.rounds):
        simulation.step()
    return simulation


def members(state: State) -> list[tuple[int, ...]]:
    return sorted(cluster.members for cluster in state.clusters.values())


def ari(simulation: Simulation) -> float:
    return adjusted_rand_index(members(simulation.state), simulation.population.groups)


def accuracy(simulation: Simulation) -> float:
    return float(np.mean([score.accuracy for score in simulation.evaluate().values()]))


# --- the algorithm against a view whose answers are written down -----------------------------------------------------------


def mean(clients: Any) -> float:
    return sum((10.0 + i) * i for i in clients) / sum(10.0 + i for i in clients)


def start(clients: Any, **changes: Any) -> tuple[EMDCFL, State]:
    algorithm = EMDCFL(eps=0.1, **changes)
    return algorithm, algorithm.init(Start(tuple(clients), {}, Model("init")))


def test_one_round_is_algorithm_1() -> None:
    view, rng = Scripted(), np.random.default_rng(0)
    algorithm, state = start(range(7))
    assert members(state) == [(i,) for i in range(7)]
    state = algorithm.round(state, view, rng)
    assert members(state) == [(0, 3, 6), (1, 4), (2, 5)]
    for cluster in state.clusters.values():
        assert view.models[cluster.model.name] == pytest.approx(mean(cluster.members))
    asked = len(view.asked)
    assert asked == 21
    after = algorithm.round(state, view, rng)
    assert len(view.asked) == asked  # one-shot
    assert members(after) == members(state)
    for cluster in after.clusters.values():
        assert view.models[cluster.model.name] == pytest.approx(2 * mean(cluster.members))


def test_every_pair_is_asked_once_under_partial_participation_and_all_end_in_their_group() -> None:
    view, rng = Scripted(), np.random.default_rng(1)
    algorithm, state = start(range(9), participation=0.4, sampling="random")
    for _ in range(60):
        before = state
        state = algorithm.round(state, view, rng)
        assert before.round + 1 == state.round
    assert len(view.asked) == len(set(view.asked)) == 36
    assert members(state) == [(0, 3, 6), (1, 4, 7), (2, 5, 8)]


def test_one_side_that_refuses_is_enough_and_other_rules_than_the_printed_forgive_it() -> None:
    """Clients 0, 3, 6 with the edge 3-6 refused by 6: as printed three clusters, else one."""
    for grouping, expected in {neighbourhoods: [(0,), (3,), (6,)], components: [(0, 3, 6)], majorities: [(0, 3, 6)]}.items():
        algorithm, state = start((0, 3, 6), grouping=grouping)
        assert members(algorithm.round(state, Scripted(refuses=((6, 3),)), np.random.default_rng(0))) == expected
    assert (EMDCFL().grouping, EMDCFL().eps) == (majorities, Replicates())


def test_the_authors_mean_is_over_the_neighbourhood() -> None:
    view = Scripted(refuses=((6, 3),))
    algorithm, state = start((0, 3, 6), over="neighbourhood", grouping=neighbourhoods)
    state = algorithm.round(state, view, np.random.default_rng(0))
    values = [view.models[c.model.name] for _, c in sorted(state.clusters.items())]
    assert values == pytest.approx([mean((0, 3, 6)), mean((0, 3)), mean((0, 6))])


def test_a_newcomer_is_compared_and_averaged_in_from_the_initial_model() -> None:
    view, rng = Scripted(), np.random.default_rng(0)
    algorithm, state = start((0, 1, 3, 4))
    state = algorithm.round(state, view, rng)
    known = len(view.asked)
    state = algorithm.join(state, (6,))
    assert (6,) in members(state)
    state = algorithm.round(state, view, rng)
    assert view.asked[known:] == [(0, 6), (1, 6), (3, 6), (4, 6)]
    assert members(state) == [(0, 3, 6), (1, 4)]
    moved = 2 * mean((0, 3)) * (20 + 3) + 6.0 * 16  # two clients from their cluster's model, one from the initial one
    assert view.models[state.clusters["0000"].model.name] == pytest.approx(moved / (23 + 16))


def test_below_the_floor_a_cluster_keeps_its_members_model_until_all_pairs_are_decided() -> None:
    """Then its clients train alone, in the rounds that they are chosen for; who joins makes them begin again with everybody."""
    algorithm, state = start((0, 1, 3))
    view, rng = Scripted(floor=2, loses=lambda round, a, b: round == 0 and (a, b) == (0, 1)), np.random.default_rng(0)
    state = algorithm.round(state, view, rng)
    assert members(state) == [(0, 3), (1,)]
    assert state.clusters["0001"].model == Model("init")
    for t in range(1, 5):
        state = algorithm.round(state, view, rng)
        assert members(state) == [(0, 3), (1,)]
        assert state.clusters["client 1"].alone == Few((1,), 2)
        assert view.models[state.clusters["client 1"].model.name] == t
        assert view.models[state.clusters["0000"].model.name] == pytest.approx((t + 1) * 39 / 23)
    assert from_plain(State, to_plain(state)) == state
    state = algorithm.join(state, [4])
    assert state.clusters["0001"] == Cluster((1,), state.start, state.round)
    for _ in range(2):
        state = algorithm.round(state, view, rng)
    assert members(state) == [(0, 3), (1, 4)]
    assert not any(c.alone for c in state.clusters.values())


def test_a_cluster_of_two_below_the_floor_is_parted() -> None:
    algorithm, state = start((0, 1, 3, 4, 6))
    view, rng = Scripted(floor=3), np.random.default_rng(0)
    for t in range(1, 4):
        state = algorithm.round(state, view, rng)
        assert members(state) == [(0, 3, 6), (1,), (4,)]
        assert [view.models[state.clusters[f"client {i}"].model.name] for i in (1, 4)] == [t, 4 * t]


def test_the_state_serialises() -> None:
    algorithm, state = start(range(5), participation=0.6, sampling="random")
    view, rng = Scripted(), np.random.default_rng(0)
    for _ in range(3):
        state = algorithm.round(state, view, rng)
        state = replace(state, distances={(0, 1): 0.5}, references={0: 0.1}, lost=((3, 4),))
        assert from_plain(State, to_plain(state)) == state


def test_bad_parameters_are_refused() -> None:
    once = {"eps": Replicates(), "choice": PerClient()}
    for bad in ({"participation": 0}, {"over": "all"}, {"over": "neighbourhood"}, {"eps": float("nan")}, once):
        with pytest.raises(ValueError):
            EMDCFL(**bad)
    with pytest.raises(Refused, match="pairs"):
        replace(DIGITS, protection=Encrypted(), algorithm=replace(DIGITS.algorithm, by_samples=False))
    with pytest.raises(Refused, match=r"set validation of the scenario, to 0\.1"):
        replace(DIGITS, validation=0.0)
    assert EMDCFL().needs == {Functionality.SUMS, Functionality.PAIRS}


# --- whole runs -----------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.trains
def test_rotated_digits_are_grouped_and_the_accuracy_is_the_oracles() -> None:
    found, oracle = played(DIGITS), played(replace(DIGITS, algorithm=Oracle()))
    assert ari(found) == 1.0
    assert found.view.record.faults == []
    assert abs(accuracy(found) - accuracy(oracle)) <= 0.01


@pytest.mark.trains
def test_without_rotation_there_is_one_cluster() -> None:
    assert len(members(played(replace(DIGITS, partition=Iid(clients=8), rounds=1)).state)) == 1


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("protection", [Permuted(floor=2), Masked(floor=3, clip=8.0)], ids=lambda p: type(p).__name__)
def test_other_protections_find_the_same_groups(protection: Any) -> None:
    found = played(replace(DIGITS, protection=protection, rounds=2))
    assert ari(found) == 1.0
    assert not any("everything" in d.words for d in found.view.record.log)


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("choice", [PUBLIC, PerClient(), Distances(embedding="public")], ids=repr)
def test_a_public_embedding_is_enough_here(choice: Any) -> None:
    found = played(replace(DIGITS, algorithm=replace(DIGITS.algorithm, choice=choice), rounds=1))
    assert ari(found) == 1.0
    assert not any("models" in d.words for d in found.view.record.log if d.what == "pairs")


@pytest.mark.long
@pytest.mark.trains
def test_calibrated_tolerances_are_kept_and_recorded() -> None:
    for eps in (Gap(), Share(0.3)):
        found = Simulation(replace(DIGITS, algorithm=replace(DIGITS.algorithm, eps=eps)), None)
        found.step()
        first, matrix = found.state.eps, found.state.matrix()
        assert matrix.shape == (8, 8)
        assert np.isfinite(matrix).all()
        found.step()
        assert found.state.eps == first


@pytest.mark.trains
@pytest.mark.long
def test_a_fixed_tolerance_decides_by_bounds_and_keeps_distances_where_asked() -> None:
    """The same edges; the distances are known, and can be drawn, where all of them are measured."""
    gap = played(replace(DIGITS, rounds=1)).state
    found = {}
    for measured in (False, True):
        algorithm = replace(DIGITS.algorithm, eps=gap.eps, measured=measured)
        found[measured] = played(replace(DIGITS, rounds=1, algorithm=algorithm)).state
    assert found[False].accepts == found[True].accepts == gap.accepts
    assert (found[False].distances, found[True].distances) == ({}, gap.distances)
    figure = distance_figure(found[True].matrix(), found[True].eps, found[True].clients)
    assert len(figure.axes) == 3


@pytest.mark.long
@pytest.mark.trains
def test_the_noise_of_the_references_sets_a_tolerance_that_finds_the_groups() -> None:
    """In the groups W - tau was at most 0.03 over eight seeds, across them at least 0.12."""
    for seed in (0, 5):
        simulation = played(replace(DIGITS, algorithm=replace(DIGITS.algorithm, eps=Replicates()), seed=seed, rounds=1))
        assert 0.02 < simulation.state.eps < 0.1
        assert ari(simulation) == 1.0


def test_tau_is_measured_on_a_half_of_the_validation_data_that_goes_with_the_other_client() -> None:
    simulation = Simulation(replace(DIGITS, algorithm=replace(DIGITS.algorithm, eps=Replicates(), size=Size(20))), None)
    embedders = simulation.setup.embedders
    halves = [embedders.examples(3, f"validation {k}") for k in (0, 1)]
    assert not {row.tobytes() for row in halves[0]} & {row.tobytes() for row in halves[1]}
    held = simulation.validation[3].train.x.numpy().reshape(-1, 64)
    assert {row.tobytes() for half in halves for row in half} <= {row.tobytes() for row in held}
    with pytest.raises(KeyError):
        embedders.examples(3, "validation")
    for noisy, apart in ((False, 1), (True, 54)):  # dealt by labels, or, where noise covers single records, by position
        dealt = parted(simulation.validation, 2, lambda client, part: client, noisy)
        counts = [np.bincount(dealt[f"validation {k}"][3].train.y.numpy(), minlength=10) for k in (0, 1)]
        assert np.abs(counts[0] - counts[1]).max() <= apart


@pytest.mark.trains
def test_before_the_noise_is_known_a_share_of_the_references_decides_and_is_not_kept() -> None:
    """Two clients a round, so the first pair is all that there is."""
    algorithm = replace(DIGITS.algorithm, eps=Replicates(), participation=0.25, sampling="random")
    simulation = Simulation(replace(DIGITS, algorithm=algorithm), None)
    simulation.step()
    assert len(simulation.state.accepts) == 2
    assert simulation.state.eps is None


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("form", [PRINTED, AS_PUBLISHED], ids=["printed", "as published"])
def test_the_two_published_forms_run(form: EMDCFL) -> None:
    """Groups need more data than digits leave of ten per cent; the forms are told apart by what they release."""
    size = replace(form.size, limit=30, share=None)
    simulation = played(replace(DIGITS, algorithm=replace(form, size=size, eps=0.1), rounds=1))
    assert simulation.view.record.faults == []
    assert len(simulation.state.accepts) == 56
    pairs = form.choice
    assert (pairs.target, pairs.reference) == {PRINTED: ("train", "plain"), AS_PUBLISHED: ("validation", "apart")}[form]
    assert form.grouping is neighbourhoods


@pytest.mark.long
@pytest.mark.trains
def test_answers_that_are_lost_are_asked_for_again_until_all_pairs_are_decided(tmp_path: Path) -> None:
    """A tenth of all answers is lost on the way: some pairs stay open, and none after a few rounds."""
    rng = np.random.default_rng(0)
    value = replace(DIGITS, faults=lambda frame: [] if frame.kind == "PairClouds" and rng.random() < 0.1 else [frame])
    simulation = Simulation(value, None)
    known = []
    for _ in range(4):
        simulation.step()
        known.append(len(simulation.state.accepts) // 2)
        assert set(members(simulation.state)) == {(0, 1, 2, 3), (4, 5, 6, 7)}
    assert known[0] < known[-1] == 28
    assert simulation.state.lost == ()


BESIDE = ("sums", "embedding model")
NOISE = Noise(clip=4.0, multiplier=5.0, reference_multiplier=5.0, budget=50.0, delta=1e-5, acknowledge=BESIDE)


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize(
    ("changes", "releases", "words"),
    [
        ({"choice": MeanSketch(noise=NOISE), "distance": MeanDistance(Euclidean())}, 1, None),
        ({"choice": PerClient(noise=NOISE)}, 2, None),
        ({"choice": Distances(noise=NOISE)}, 7 * 3, "trained on the same records without noise"),
        ({"choice": PerPair(noise=replace(NOISE, trained_privately=True))}, 7 * 3, "as is claimed"),
        ({"choice": PerPair(embedding="public", noise=replace(NOISE, unit="attribute"))}, 7 * 2, None),
    ],
    ids=["mean", "once", "distances", "pairs", "attribute"],
)
def test_the_record_says_what_was_spent_and_on_what_embedding(
    tmp_path: Path, changes: dict[str, Any], releases: int, words: str | None
) -> None:
    algorithm = replace(DIGITS.algorithm, eps=0.2, **changes)
    scenario = replace(DIGITS, algorithm=algorithm, rounds=1, training=replace(DIGITS.training, epochs=1))
    list(run(scenario, tmp_path))
    unit = changes["choice"].noise.unit
    told = json.loads((tmp_path / "privacy.json").read_text())[unit]
    assert 0 < told["epsilon_worst"] <= 50.0
    assert sum(release["times"] for release in told["clients"]["0"]["releases"]) == releases
    assert ("Kenthapadi" in told["clients"]["0"]["releases"][0]["noise"]) == (unit == "attribute")
    assert told["acknowledged"] == list(BESIDE)
    assert told["of"] == "what it released to be compared"
    assert "sums, embedding model" in told["beside"]
    about_model = [line for line in told["not_covered"] if "the embedding model" in line]
    assert [words in line for line in about_model] == ([] if words is None else [True])
    assert json.loads((tmp_path / "summary.json").read_text())["privacy"][unit]["epsilon_worst"] == told["epsilon_worst"]


def test_noise_is_refused_where_nobody_knows_what_it_covers() -> None:
    with pytest.raises(ValueError, match="Euclidean"):
        EMDCFL(choice=MeanSketch(noise=NOISE))
    for distance in (ExactEmd(Euclidean()), MeanDistance(), Sinkhorn(0.1)):
        with pytest.raises(Refused, match="exact transport"):
            EMDCFL(choice=PerClient(noise=NOISE), distance=distance)


@pytest.mark.long
@pytest.mark.trains
def test_the_log_has_every_pair_once_as_the_state_knows_it(tmp_path: Path) -> None:
    scenario = replace(DIGITS, algorithm=replace(DIGITS.algorithm, participation=0.6, sampling="random"), rounds=4)
    list(run(scenario, tmp_path))
    state = played(scenario).state
    lines = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    assert len({line["round"] for line in lines}) == len(lines) > 1
    pairs = [pair for line in lines for pair in line["pairs"]]
    assert len(pairs) == len(state.accepts)
    assert {(i, j): edge for i, j, edge, _ in pairs} == state.accepts
    known = {(i, j): value for i, j, _, value in pairs if value is not None}
    assert known == pytest.approx(state.distances, rel=1e-5)
    assert known
    assert {line["eps"] for line in lines} == {state.eps}


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize(
    "changes", [{"choice": PerClient()}, {"choice": PerClient(noise=NOISE), "eps": 0.2}], ids=["clear", "noise"]
)
def test_a_run_that_stops_and_goes_on_ends_as_an_undisturbed_one(tmp_path: Path, changes: dict[str, Any]) -> None:
    algorithm = replace(DIGITS.algorithm, participation=0.6, sampling="random", **changes)
    value = replace(DIGITS, algorithm=algorithm, arrivals={7: 2}, rounds=5)
    list(run(value, tmp_path / "whole"))
    steps = run(value, tmp_path / "parts")
    next(steps), next(steps)
    steps.close()
    list(run(value, tmp_path / "parts", resume=True))
    assert (tmp_path / "whole" / "privacy.json").exists() == ("eps" in changes)
    for name in ("*.safetensors", "disclosure.jsonl", "pairs.jsonl", "privacy.json"):
        for whole in (tmp_path / "whole").rglob(name):
            if "checkpoints" in whole.parts:
                continue
            assert whole.read_bytes() == (tmp_path / "parts" / whole.relative_to(tmp_path / "whole")).read_bytes()
    whole, parts = (json.loads((tmp_path / n / "summary.json").read_text()) for n in ("whole", "parts"))
    for told in ("bytes_up", "bytes_down", "accuracy_mean", "clusters", "disclosed", "faults"):
        assert whole[told] == parts[told]


@pytest.mark.trains
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_rotated_mnist_in_small(seed: int) -> None:
    """12 clients, 4 rotations: the planted groups, and Oracle's accuracy within 0.01; without rotation one cluster."""
    import importlib.util

    folder = os.environ.get("CLOISTER_DATA")
    if folder is None:
        pytest.skip("set CLOISTER_DATA to a folder with MNIST")
    path = Path(__file__).parents[1] / "examples" / "emd_cfl_rotated_mnist.py"
    spec = importlib.util.spec_from_file_location("emd_cfl_rotated_mnist", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    found, oracle = (played(replace(value, seed=seed), Path(folder)) for value in (example.quick, example.oracle))
    assert ari(found) == 1.0
    assert abs(accuracy(found) - accuracy(oracle)) <= 0.01
    assert len(members(played(replace(example.base, seed=seed, rounds=1), Path(folder)).state)) == 1
