"""Audits of shipped code paths: what they play is the real thing, claims are the ledgers', and faults are flagged."""

import io
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from cloister.auditing.self_test import as_table, in_words
from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.clients.dp_sgd import one_by_one
from cloister.fl.clients.training import Job
from cloister.fl.models.papers import Mlp
from cloister.fl.models.vector import load_vector, to_vector
from cloister.protocol.masked import gaussian
from cloister.protocol.masked.gaussian import Place
from cloister.protocol.masked.server import Unmasked
from cloister.protocol.masked.sum import Plan, SumPolicy, masked_sum, parties_of
from cloister.protocol.pairs import compute
from cloister.protocol.pairs.computer import OwnComputer
from cloister.protocol.parts.members import Members
from cloister.protocol.privacy.gaussian import gaussian_epsilon
from cloister.threat_models.privacy import (
    central_sum,
    distance_releases,
    head_release,
    local_training,
    names,
    noisy_sum,
    pair_releases,
    self_test,
)
from cloister.threat_models.privacy.discriminant import Discriminant
from cloister.threat_models.privacy.fault import Fault
from cloister.threat_models.privacy.faults import FAULTS
from cloister.threat_models.privacy.mechanism import InOneRun, Mechanism, Observed

from .masked_sum_session import charter_of


@pytest.fixture(scope="module")
def shipped() -> dict[str, Any]:
    return {found.name: found for found in (make() for make in self_test.SHIPPED)}


# --- what is played -------------------------------------------------------------------------------------------------------------


def test_a_masked_sum_opens_what_the_audit_adds_up() -> None:
    """The masks that the audit leaves out change nothing."""
    entropy, policy = SimulatedEntropy(6), SumPolicy(unheld=frozenset({"gaussian"}))
    members = Members.enrol(noisy_sum.CLIENTS, entropy)
    charter = charter_of(members.enrolled, policy)
    for round, (proposed, inside) in enumerate(noisy_sum.joined(noisy_sum.charter())):
        updates = {i: noisy_sum.update(i, round, True) for i in noisy_sum.CLIENTS}
        rings = noisy_sum.inputs(inside, updates.__getitem__, 5)
        plan = Plan.of(proposed.session, proposed.terms, charter)
        parties = parties_of(members, charter, proposed.terms.model, policy, entropy)
        end, network = masked_sum(plan, parties, rings.__getitem__)
        assert isinstance(end, Unmasked), network.faults
        assert end.total.tolist() == reduce(np.add, rings.values()).tolist()


@pytest.mark.long
def test_the_claims_are_those_of_the_closed_forms(shipped: dict[str, Any]) -> None:
    """Mean: one Gaussian of half a sensitivity. Clouds: 3.6 and a distance of 50. Sums: all of the budget."""
    assert shipped[pair_releases.MEAN].epsilon == pytest.approx(gaussian_epsilon(1 / 0.5, 1e-5), rel=1e-2)
    both = (1 / 3.6**2 + 1 / 50**2) ** 0.5
    assert shipped[pair_releases.CLOUDS].epsilon == pytest.approx(gaussian_epsilon(both, 1e-5), rel=1e-2)
    three = gaussian_epsilon(3**0.5 / 0.8, 1e-5)
    assert shipped[distance_releases.NAME].epsilon == pytest.approx(three, rel=1e-2), "two distances and a reference"
    assert 9.9 < shipped[central_sum.NAME].epsilon <= 10.0
    assert 9.99 < shipped[noisy_sum.NAME].epsilon <= 10.0
    assert {name: mechanism.delta for name, mechanism in shipped.items() if mechanism.delta != 1e-5} == {
        local_training.RARE: 0.02
    }
    others = [name for name, mechanism in shipped.items() if not mechanism.gaussian]
    assert others == [local_training.SAMPLED, local_training.RARE]
    assert all(mechanism.auditor == "Clopper-Pearson" for mechanism in shipped.values() if not mechanism.gaussian)


@pytest.mark.long
def test_the_shipped_functions_are_what_runs(monkeypatch: pytest.MonkeyPatch, shipped: dict[str, Any]) -> None:
    called: list[str] = []

    def noted(owner: Any, name: str) -> None:
        real = owner.__dict__[name]
        monkeypatch.setattr(owner, name, lambda *args: (called.append(name), real(*args))[1])

    noted(Place, "encode")
    noted(gaussian, "discrete_gaussian")
    shipped[noisy_sum.NAME].play(True, 1)
    assert called == ["encode", "discrete_gaussian"] * 6  # three clients, two rounds
    called.clear()
    noted(OwnComputer, "_asked")
    noted(compute, "noised")
    shipped[pair_releases.MEAN].play(True, 1)
    assert called == ["_asked", "noised"] * 2


def test_trials_differ_by_their_noise_and_neighbours_by_one_record(shipped: dict[str, Any]) -> None:
    for name in (noisy_sum.NAME, pair_releases.MEAN):
        play = shipped[name].play
        assert np.array_equal(play(True, 3), play(True, 3))
        assert not np.isclose(play(True, 3), play(True, 4)).any()
        moved = [play(True, seed) - play(False, seed) for seed in (3, 4)]
        assert np.linalg.norm(moved[0]) > 0.01
        assert np.linalg.norm(moved[0] - moved[1]) < 0.2 * np.linalg.norm(moved[0])  # up to the grid
    mean = shipped[pair_releases.MEAN]
    half = len(mean.play(True, 3)) // 2
    assert np.array_equal(mean.play(True, 3)[half:], mean.play(False, 3)[half:])  # client 2 is the same


def test_neighbours_differ_in_one_record_of_one_client() -> None:
    for number in range(5):
        before, after = pair_releases.neighbours(number)
        changed = [(before.examples(i, "train") != after.examples(i, "train")).any(axis=1).sum() for i in (1, 2)]
        assert changed[0] <= 1
        assert changed[1] == 0


@pytest.mark.parametrize("width", [local_training.NARROW, local_training.WIDE])
@pytest.mark.parametrize("round", range(local_training.ROUNDS))
def test_the_audited_record_outweighs_all_others_and_either_label_is_as_likely(round: int, width: int) -> None:
    """Else a clip of the mean would bound it too, or one of its labels would have no gradient."""
    module = Mlp(hidden=(local_training.HIDDEN,))((1, 1, width), local_training.CLASSES)
    load_vector(module, local_training.starts(local_training.ROUNDS, width)[round])
    for rows in (local_training.RECORDS, local_training.PUBLIC + 1):
        data = [local_training.examples(1, label, rows, width) for label in (0, 1)]
        jobs = [Job(1, to_vector(module), of, 0, secret=bytes(32)) for of in data]
        own, other = (one_by_one(module, job, torch.arange(rows - 1, rows), 1e30) for job in jobs)
        others = one_by_one(module, jobs[0], torch.arange(rows - 1), 1e30)
        assert min(own.norm(), other.norm()) > 1.5 * others.norm()
        assert float(torch.cosine_similarity(own, other, dim=0)) == pytest.approx(-1, abs=1e-3)


def test_what_the_audited_record_moves_changes_sides_between_rounds() -> None:
    """So that noise which is the same in both goes away in their difference, and what the record moves does not."""
    moved = []
    for start in local_training.starts(local_training.ROUNDS):
        module = Mlp(hidden=(local_training.HIDDEN,))((1, 1, local_training.NARROW), local_training.CLASSES)
        load_vector(module, start)
        job = Job(1, start, local_training.examples(1, 0), 0, secret=bytes(32))
        last = torch.arange(local_training.RECORDS - 1, local_training.RECORDS)
        moved.append(one_by_one(module, job, last, 0.01))
    assert float(torch.cosine_similarity(*moved, dim=0)) < -0.9


# --- the score ------------------------------------------------------------------------------------------------------------------


def test_the_discriminant_finds_what_has_no_noise() -> None:
    """Two coordinates with the same noise: alone they tell little, their difference all."""
    rng = np.random.default_rng(2)
    noise = rng.standard_normal((2, 500, 1))
    seen = [np.concatenate([n + 0.1 * way, n, np.full((500, 1), 7.0)], axis=1) for n, way in zip(noise, (1, 0), strict=True)]
    score = Discriminant.between(seen[0][:100], seen[1][:100])
    assert score(seen[0][100:]).min() > score(seen[1][100:]).max()


def test_the_discriminant_is_fishers_where_noise_is_plain() -> None:
    rng = np.random.default_rng(3)
    deviations, moved = np.array([1.0, 2.0, 5.0]), np.array([1.0, 1.0, 1.0])
    seen = [way * moved + deviations * rng.standard_normal((20_000, 3)) for way in (1, 0)]
    weights = Discriminant.between(*seen).weights
    assert weights / weights[0] == pytest.approx([1, 1 / 4, 1 / 25], rel=0.1, abs=0.02)


def test_only_trials_that_choose_share_seeds() -> None:
    seeds: dict[bool, list[int]] = {True: [], False: []}

    def play(neighbour: bool, seed: int, /) -> Any:
        seeds[neighbour].append(seed)
        return np.random.default_rng(seed).standard_normal(2) + neighbour

    mechanism = Mechanism("noise", 4.38, 1e-5, True, "GDP", play)
    observed = Observed.of(mechanism, 100, 1)
    assert seeds[True][:20] == seeds[False][:20]
    assert len({*seeds[True], *seeds[False]}) == 180
    assert observed.lower_bound("GDP", 0.95).epsilon > observed.lower_bound("Clopper-Pearson", 0.95).epsilon >= 0
    with pytest.raises(ValueError, match="too few"):
        mechanism.observe(9, 1)
    with pytest.raises(ValueError, match="GDP does not hold"):
        Mechanism("other noise", 1.0, 1e-5, False, "Clopper-Pearson", play).audit(100, 1, 0.95, "GDP")


def test_an_audit_that_knows_the_mechanism_comes_near_its_epsilon() -> None:
    """A plain Gaussian of several coordinates, through the same machinery: near 4.38, and not above."""

    def play(neighbour: bool, seed: int, /) -> Any:
        return np.random.default_rng(seed).standard_normal(4) + neighbour * np.array([0.6, 0.0, 0.8, 0.0])

    found = Mechanism("noise", 4.38, 1e-5, True, "GDP", play).audit(4000, 3, 0.95)
    assert 3.4 < found.epsilon < 4.38
    assert not found.refutes(4.38)

    def once(coins: Any, seed: int, /) -> Any:
        noise = np.random.default_rng(seed).standard_normal((len(coins), 3))
        return noise + np.where(coins, 0.5, -0.5)[:, None] * [1.0, 0.0, 0.0], np.array([1.0, 0.0, 0.0])

    one = InOneRun("noise", 4.38, 1e-5, True, 2000, 200, once).audit(3, 0.95)
    assert 1.5 < one.epsilon < 4.38


# --- faults ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.mechanism}-{fault.name}")
def test_a_fault_is_there_as_long_as_it_is_injected(fault: Fault) -> None:
    owners = [(owner, name, owner.__dict__[name]) for owner, name, _ in fault.swaps()]

    def fail() -> None:
        with fault.injected():
            assert all(owner.__dict__[name] is not shipped for owner, name, shipped in owners)
            raise RuntimeError("within")

    with pytest.raises(RuntimeError, match="within"):
        fail()
    assert all(owner.__dict__[name] is shipped for owner, name, shipped in owners)


def test_every_shipped_path_has_faults_and_every_fault_a_path(shipped: dict[str, Any]) -> None:
    assert {fault.mechanism for fault in FAULTS} == set(shipped)
    assert len({(fault.mechanism, fault.name) for fault in FAULTS}) == len(FAULTS)
    everywhere = {"noise / n", "all-zero noise key"}
    parts = {"a block of coordinates without noise", "a layer without noise", "a reference distance without noise"}
    for name in shipped.keys() - {local_training.RARE}:  # there for faults in sampling, which no other shows
        names = {fault.name for fault in FAULTS if fault.mechanism == name}
        assert everywhere <= names
        assert "no clip" in names or name == distance_releases.NAME, "which are bounded by their cost"
        assert parts & names


# --- the self-test --------------------------------------------------------------------------------------------------------------


AUDITS = len(self_test.SHIPPED)
"""Of correct code, with a seed."""
FEW = {
    ("a layer without noise", local_training.LOOP),
    ("variance for deviation", local_training.LOOP),
    ("label-dependent subsample", local_training.SAMPLED),
    ("no sampling, charged as sampled", local_training.RARE),
    ("clip of the mean gradient", local_training.STACKED),
    ("half of the noise", local_training.STACKED),
    ("the same noise key in all rounds", local_training.STACKED),
    ("the same noise key in all steps", local_training.STACKED),
    ("no clip", head_release.NAME),
    ("noise / n", pair_releases.CLOUDS),
    ("clip after noise", pair_releases.CLOUDS),
    ("all-zero noise key", pair_releases.CLOUDS),
    ("variance for deviation", pair_releases.MEAN),
    ("deviation for variance", central_sum.NAME),
    ("a reference distance without noise", distance_releases.NAME),
    ("the same noise for distance and reference", distance_releases.NAME),
    ("the same noise key in all rounds", noisy_sum.NAME),
}


TRAINING = {local_training.LOOP, local_training.STACKED, local_training.SAMPLED, local_training.RARE}
"""What takes more trials than the others, for half of the noise to show."""


@pytest.mark.parametrize(("training", "trials"), [(True, 200), (False, 120)])
@pytest.mark.long
def test_a_small_self_test_passes(training: bool, trials: int, shipped: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_training, "CANARIES", 400)
    wanted = [faults for faults in FEW if (faults[1] in TRAINING) == training]
    faults = [fault for fault in self_test.QUICK if (fault.name, fault.mechanism) in wanted]
    assert len(faults) == len(wanted)
    makers = [make for name, make in zip(shipped, self_test.SHIPPED, strict=True) if (name in TRAINING) == training]
    rows = self_test.self_test(trials, (1,), makers, faults)
    assert [str(row) for row in rows if not row.right] == []
    assert len(rows) == len(makers) + len(wanted)
    assert {row.confidence for row in rows} == {1 - 0.001 / len(makers)}
    assert all("not flagged" in str(row) for row in rows if row.fault is None)


def test_every_mechanism_is_in_a_small_self_test(shipped: dict[str, Any]) -> None:
    assert tuple(shipped) == names.MECHANISMS
    assert shipped.keys() > TRAINING
    assert {mechanism for _, mechanism in FEW} == shipped.keys()


def test_a_self_test_that_is_blind_or_trigger_happy_says_so() -> None:
    """Of code without any noise that claims epsilon 1, and of a fault that changes nothing."""

    def broken() -> Mechanism:
        return Mechanism("broken", 1.0, 1e-5, True, "GDP", lambda neighbour, seed: np.array([float(neighbour)]))

    def sound() -> Mechanism:
        def play(neighbour: bool, seed: int, /) -> Any:
            return np.random.default_rng(seed).standard_normal(1)

        return Mechanism("sound", 1.0, 1e-5, True, "GDP", play)

    harmless = Fault("nothing", "sound", "GDP", lambda: ())
    rows = self_test.self_test(400, (1,), (broken, sound), (harmless,))
    assert [row.right for row in rows] == [False, True, False]
    assert str(rows[0]).startswith("broken, as shipped: flagged: WRONG by GDP, epsilon at least ")
    with pytest.raises(ValueError, match="not audited"):
        self_test.self_test(400, (1,), (broken,), (harmless,))
    again = self_test.self_test(400, (1, 2, 3), (sound,), (harmless,), fault_seeds=2)
    assert [(row.fault, row.seed) for row in again if row.fault] == [("nothing", 1), ("nothing", 2)]
    with pytest.raises(ValueError, match="needs a seed"):
        self_test.self_test(400, (), (broken,), ())


@pytest.mark.slow
def test_correct_code_is_never_flagged_in_20_repetitions_and_every_fault_is() -> None:
    rows = self_test.self_test(fault_seeds=2)
    assert [str(row) for row in rows if not row.right] == []
    assert sum(row.fault is None for row in rows) == 20 * AUDITS
    assert sum(row.fault is not None for row in rows) == 2 * len(FAULTS)


def test_what_a_self_test_found_is_said_with_how_far_it_goes() -> None:
    def row(fault: str | None, bound: float) -> self_test.Row:
        return self_test.Row("noise", fault, "GDP", 0, 1.0, bound, 0.9999, 1e-5, "client")

    whole = in_words([row(None, 0.4), row("half of the noise", 2.0)])
    assert whole == "no shipped mechanism flagged, all 1 faults flagged"
    assert "where 0.00 is shown of code as shipped the test says little" in in_words([row(None, 0.0), row("half", 2.0)])
    assert in_words([row(None, 2.0), row("half", 0.5)]).startswith("1 of 1 audits of shipped mechanisms flagged, 0 of 1 faults")
    assert "no fault of these was tried" in in_words([row(None, 0.4)])
    sure = replace(row(None, 0.4), confidence=1 - 0.001 / 20, auditor="Clopper-Pearson")
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(as_table([sure]))
    lines = console.export_text().splitlines()
    assert {line[-1] for line in lines[2:]} <= set("┓┃┩│┘")  # nothing is cut off
    said = " ".join(" ".join(lines).split())
    assert all(words in said for words in ("99.995 %", "Clopper-Pearson", "client,"))
