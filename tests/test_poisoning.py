"""Attacks on uploads against their definitions: closed forms, brute force, and searches against rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.stats import norm

from cloister.fl.robust.rule import Sight
from cloister.fl.runs.simulation import Simulation
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.collusion import ALIE, IPM, FangKrum, FangTrim, MinMax, MinSum, largest_hidden_z
from cloister.threat_models.geometry import PERTURBATIONS, geometry
from cloister.threat_models.knowledge import Insider, Level
from cloister.threat_models.line_search import (
    LineSearched,
    WithExtra,
    damage_of,
    last_aggregate,
    optimal_alie,
    optimal_ipm,
    worst_point,
)
from cloister.threat_models.membership import Fixed
from cloister.threat_models.simple_attacks import (
    GaussianNoise,
    MinusGradient,
    NormBounded,
    Null,
    Overwritten,
    RandomVector,
    Scaled,
    SignFlip,
    Stale,
)
from cloister.threat_models.targeted_uploads import ArbitraryTarget, Mimic, back_to_zero

from .coalition_sample import SMALL, coalition, gaussian, own

Vector = np.ndarray[Any, np.dtype[np.float32]]
Matrix = np.ndarray[Any, np.dtype[np.float64]]


def moments(seen: Sequence[Vector]) -> tuple[Matrix, Matrix]:
    stacked = np.stack(seen).astype(np.float64)
    return stacked.mean(axis=0), stacked.std(axis=0)


def only(found: Mapping[int, Vector]) -> Vector:
    """The one vector that all members send, as arrays of their own."""
    vectors = list(found.values())
    assert len({id(v) for v in vectors}) == len(vectors)
    assert all(np.array_equal(v, vectors[0]) for v in vectors)
    assert all(v.dtype == np.float32 for v in vectors)
    return vectors[0]


# --- alone ------------------------------------------------------------------------------------------------------------

UPDATE = np.array([3, -4, 0, 12], np.float32)


def test_closed_forms_of_lone_attacks() -> None:
    known = own(UPDATE)
    assert MinusGradient(2.5)(known).tolist() == [-7.5, 10, 0, -30]
    assert Null()(known).tolist() == [0, 0, 0, 0]
    assert Scaled(10)(known).tolist() == [30, -40, 0, 120]
    assert NormBounded(10, 13)(known).tolist() == pytest.approx([3, -4, 0, 12])
    assert NormBounded(0.5, 13)(known).tolist() == [1.5, -2, 0, 6]
    assert np.isnan(Overwritten(start=2, every=0)(known)).tolist() == [False, False, True, False]
    assert (UPDATE == [3, -4, 0, 12]).all()


def test_stale_uploads_are_what_the_global_model_changed_by() -> None:
    start = np.arange(4, dtype=np.float32)
    assert Stale()(own(UPDATE, start=start, previous=start - 5)).tolist() == [5, 5, 5, 5]
    assert not Stale()(own(UPDATE, start=start)).any()


def test_random_vectors_have_the_norm_of_the_own_update_and_noise_its_deviation() -> None:
    update = np.random.default_rng(0).standard_normal(100_000).astype(np.float32) * 3 + 1
    drawn = RandomVector()(own(update))
    assert np.linalg.norm(drawn) == pytest.approx(np.linalg.norm(update), rel=0.01)
    assert abs(drawn @ update) / np.linalg.norm(update) ** 2 < 0.02
    assert RandomVector(s=0.1)(own(update)).std() == pytest.approx(0.1, rel=0.01)
    noise = GaussianNoise(0.2)(own(update)) - update
    assert (noise.std(), noise.mean()) == (pytest.approx(0.2, rel=0.02), pytest.approx(0, abs=0.01))


# --- from mean and deviation ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [Level.COLLUDING, Level.OMNISCIENT])
def test_alie_ipm_and_sign_flip_are_their_formulas_on_what_is_seen(level: Level) -> None:
    updates = gaussian(9, 20_000)
    mean, deviation = moments(updates[:3] if level == Level.COLLUDING else updates[3:])
    known = coalition(updates, 3, level)
    assert np.allclose(only(ALIE(1.5)(known)), mean - 1.5 * deviation, atol=1e-5)
    assert np.allclose(only(ALIE(-1.5)(known)), mean + 1.5 * deviation, atol=1e-5)
    assert np.allclose(only(ALIE()(known)), mean - largest_hidden_z(9, 3) * deviation, atol=1e-5)
    assert np.allclose(only(IPM(0.1)(known)), -0.1 * mean, atol=1e-6)
    assert np.allclose(only(SignFlip()(known)), -mean, atol=1e-6)


def test_ipm_above_the_ratio_of_honest_to_corrupt_turns_the_mean() -> None:
    updates = gaussian(10, 50)
    mean, _ = moments(updates[3:])
    for eps, sign in ((0.9 * 7 / 3, 1), (1.1 * 7 / 3, -1)):
        forged = IPM(eps)(coalition(updates, 3, Level.OMNISCIENT))
        total = sum(updates[3:]) + sum(forged.values())
        assert np.sign(total @ mean) == sign


@pytest.mark.parametrize(("n", "f", "s"), [(50, 12, 14), (10, 2, 4), (25, 5, 8)])
def test_alies_z_is_the_papers_quantile(n: int, f: int, s: int) -> None:
    assert largest_hidden_z(n, f) == pytest.approx(norm.ppf((n - f - s) / (n - f)))


@pytest.mark.parametrize(("n", "f"), [(10, 6), (10, 10), (3, 2), (2, 1)])
def test_alies_z_stays_finite_where_members_are_a_majority(n: int, f: int) -> None:
    assert np.isfinite(largest_hidden_z(n, f))


def bisected(fits: Any) -> float:
    low, high = 0.0, 1e4
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@pytest.mark.parametrize("perturbation", ["mean", "sign", "deviation"])
@pytest.mark.parametrize("seed", range(3))
def test_min_max_and_min_sum_reach_their_bounds_found_by_bisection(perturbation: Any, seed: int) -> None:
    updates = gaussian(8, 60, seed)
    x = np.stack(updates[2:]).astype(np.float64)
    mean, deviation = moments(updates[2:])
    p = {"mean": -mean / np.linalg.norm(mean), "sign": -np.sign(mean), "deviation": -deviation}[perturbation]
    square = ((x[:, None] - x[None]) ** 2).sum(axis=2)
    largest = bisected(lambda g: ((mean + g * p - x) ** 2).sum(axis=1).max() <= square.max())
    summed = bisected(lambda g: ((mean + g * p - x) ** 2).sum() <= square.sum(axis=1).max())
    known = coalition(updates, 2, Level.OMNISCIENT)
    assert np.allclose(only(MinMax(perturbation)(known)), mean + largest * p, atol=1e-4)
    assert np.allclose(only(MinSum(perturbation)(known)), mean + summed * p, atol=1e-4)


def test_geometry_keeps_small_differences_of_large_updates() -> None:
    common = np.float32(1000) * np.random.default_rng(1).standard_normal(40_000).astype(np.float32)
    updates = [common + u for u in gaussian(5, 40_000, mean=0.0)]
    exact = np.stack(updates).astype(np.float64)
    distances = ((exact[:, None] - exact[None]) ** 2).sum(axis=2)
    assert np.allclose(geometry(updates, "sign").distances(), distances, rtol=1e-4)


def test_a_member_alone_or_equal_updates_give_the_mean_and_nothing_that_is_not_finite() -> None:
    equal = [UPDATE.copy() for _ in range(4)]
    for known in (coalition(gaussian(4, 30), 1, Level.COLLUDING), coalition(equal, 2, Level.OMNISCIENT)):
        for attack in (ALIE(), MinMax(), MinSum("sign"), FangKrum(), FangTrim()):
            assert all(np.isfinite(v).all() for v in attack(known).values())
    assert np.allclose(only(MinMax()(coalition(equal, 2, Level.OMNISCIENT))), UPDATE)


# --- Fang -------------------------------------------------------------------------------------------------------------


def krum(updates: Sequence[Vector], f: int) -> int:
    """By the definition: least sum of squared distances to the n - f - 2 nearest others."""
    x = np.stack(updates).astype(np.float64)
    square = ((x[:, None] - x[None]) ** 2).sum(axis=2)
    return int(np.argmin(np.sort(square, axis=1)[:, 1 : len(x) - f - 1].sum(axis=1)))


@pytest.mark.parametrize("mean", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("f", [1, 3, 5])
def test_krum_picks_fangs_vector_at_the_first_length_of_the_halving_that_it_accepts(f: int, mean: float) -> None:
    n, d = 14, 200
    updates = gaussian(n, d, f, mean)
    found = FangKrum()(coalition(updates, f, Level.OMNISCIENT))
    first, honest = found[0], np.stack(updates[f:]).astype(np.float64)
    factor = float(np.abs(first).max())
    assert np.allclose(first, -factor * np.sign(honest.mean(axis=0)))
    square = np.sort(((honest[:, None] - honest[None]) ** 2).sum(axis=2), axis=1)
    least = square[:, 1 : n - f - 1].sum(axis=1).min()
    start = np.sqrt(least / ((n - 2 * f - 1) * d)) + np.linalg.norm(honest, axis=1).max() / np.sqrt(d)  # Fang, theorem 1
    halvings = np.log2(start / factor)
    assert halvings == pytest.approx(round(halvings), abs=1e-4)
    assert krum([*found.values(), *updates[f:]], f) < f or factor < 1e-5
    if round(halvings) > 0:
        assert krum([*(2 * v for v in found.values()), *updates[f:]], f) >= f
    radius = [np.linalg.norm(v - first) / np.linalg.norm(first) for v in list(found.values())[1:]]
    assert radius == pytest.approx([1e-3] * (f - 1), rel=1e-3)


def test_fangs_coordinates_lie_beyond_all_honest_ones_within_the_factor() -> None:
    f, updates = 3, gaussian(10, 5_000, mean=1.0)
    found = FangTrim(b=2.0)(coalition(updates, f, Level.OMNISCIENT))
    honest = np.stack(updates[f:])
    mean, least, most = honest.mean(axis=0), honest.min(axis=0), honest.max(axis=0)
    for vector in found.values():
        down = np.where(least > 0, least / 2, 2 * least)
        up = np.where(most > 0, 2 * most, most / 2)
        assert (np.where(mean > 0, (vector <= least) & (vector >= down - 1e-5), (vector >= most) & (vector <= up + 1e-5))).all()
    vectors = list(found.values())
    assert (vectors[0] != vectors[1]).mean() > 0.9
    trimmed = np.sort(np.stack([*vectors, *updates[f:]]), axis=0)[f:-f].mean(axis=0)
    assert ((trimmed - mean) * np.sign(mean) < 0).mean() > 0.95


# --- one client, and any vector ---------------------------------------------------------------------------------------


def test_mimic_copies_the_client_that_is_named() -> None:
    updates = gaussian(6, 30)
    known = coalition(updates, 2, Level.OMNISCIENT)
    known = coalition(updates, 2, Level.OMNISCIENT, memory=Mimic(4).learn(known))
    assert np.array_equal(only(Mimic(4)(known)), updates[4])


def test_mimic_learns_the_principal_direction_and_copies_who_lies_farthest_along_it() -> None:
    rng = np.random.default_rng(0)
    axis = np.zeros(40)
    axis[7] = 1.0
    memory: Mapping[str, Vector] = {}
    place = np.array([0, 0, 0.4, -0.3, 5.0, 0.1, -0.2])  # client 4 lies far out along the axis
    for t in range(20):
        updates = [(place[i] * axis + 0.1 * rng.standard_normal(40)).astype(np.float32) for i in range(7)]
        known = coalition(updates, 2, Level.OMNISCIENT, memory=memory, round=t)
        memory = Mimic().learn(known)
    assert abs(memory["z"] @ axis) > 0.99
    assert all(v.dtype == np.float32 for v in memory.values())
    assert np.array_equal(only(Mimic()(coalition(updates, 2, Level.OMNISCIENT, memory=memory))), updates[4])


@pytest.mark.parametrize("by_samples", [False, True])
def test_one_member_makes_the_mean_any_vector(by_samples: bool) -> None:
    updates, target = gaussian(9, 300), np.linspace(-3, 3, 300).astype(np.float32)
    known = coalition(updates, 2, Level.INSIDER, rule="the mean")
    found = ArbitraryTarget(lambda start: target, by_samples)(known)
    assert np.array_equal(found[1], updates[1])
    weights = np.array([10.0 + i for i in range(9)]) if by_samples else np.ones(9)
    uploads = np.stack([found[0], found[1], *updates[2:]]).astype(np.float64)
    assert np.allclose(weights @ uploads / weights.sum(), target, atol=1e-5)


@pytest.mark.trains
@pytest.mark.parametrize("lie", [1.0, 3.0])
def test_one_member_resets_the_model_of_a_run_even_while_it_lies_about_its_count(lie: float) -> None:
    attack = ArbitraryTarget(back_to_zero, by_samples=True)
    adversary = Adversary(members=Fixed((3,)), upload=attack, knows=Level.INSIDER, rule="mean", samples=lie)
    algorithm = replace(SMALL.algorithm, by_samples=True)  # type: ignore[type-var]
    simulation = Simulation(replace(SMALL, algorithm=algorithm, adversary=adversary), None)
    simulation.step()
    assert np.abs(simulation.vectors()[0]).max() < 1e-6


# --- searches against a rule ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MultiKrum:
    f: int
    shift_invariant: bool = True

    def weights(self, gram: Matrix, rng: np.random.Generator) -> Matrix:
        square = np.diagonal(gram)[:, None] + np.diagonal(gram)[None] - 2 * gram
        n = len(gram)
        scores = np.sort(square, axis=1)[:, 1 : n - self.f - 1].sum(axis=1)
        weights = np.zeros(n)
        weights[np.argsort(scores, kind="stable")[: n - self.f]] = 1 / (n - self.f)
        return weights

    def __call__(self, updates: Sequence[Vector]) -> Vector:
        x = np.stack(updates).astype(np.float64)
        return (self.weights(x @ x.T, np.random.default_rng(0)) @ x).astype(np.float32)


@dataclass(frozen=True)
class Clipped:
    """The mean of updates cut to a norm: not shift invariant."""

    bound: float
    shift_invariant: bool = False

    def weights(self, gram: Matrix, rng: np.random.Generator) -> Matrix:
        return np.minimum(1, self.bound / np.sqrt(np.maximum(np.diagonal(gram), 1e-30))) / len(gram)

    def __call__(self, updates: Sequence[Vector]) -> Vector:
        x = np.stack(updates).astype(np.float64)
        return (self.weights(x @ x.T, np.random.default_rng(0)) @ x).astype(np.float32)


@dataclass(frozen=True)
class Trimmed:
    b: int

    def combine(self, block: Vector) -> Vector:
        return np.sort(block, axis=0)[self.b : -self.b].mean(axis=0)


@dataclass(frozen=True)
class Nearest:
    """A step: every row becomes the mean of the `count` rows nearest to it."""

    count: int
    shift_invariant: bool = True

    def mixing(self, gram: Matrix, rng: np.random.Generator) -> Matrix:
        square = np.diagonal(gram)[:, None] + np.diagonal(gram)[None] - 2 * gram
        mixing = np.zeros_like(gram)
        np.put_along_axis(mixing, np.argsort(square, axis=1, kind="stable")[:, : self.count], 1 / self.count, axis=1)
        return mixing


@dataclass(frozen=True)
class Stepped:
    """A coordinate-wise rule behind a step."""

    steps: tuple[Nearest, ...]
    rule: Trimmed
    sees: ClassVar = Sight.COORDINATES

    def weights(self, gram: Matrix, rng: np.random.Generator) -> Matrix:
        raise ValueError("no function of a Gram matrix")

    def combine_all(self, rows: Matrix) -> Vector:
        mixing = self.steps[0].mixing(rows @ rows.T, np.random.default_rng(0))
        return self.rule.combine((mixing @ rows).astype(np.float32))


@pytest.mark.parametrize(
    "rule",
    [
        MultiKrum(3),
        MultiKrum(3, shift_invariant=False),
        Clipped(5.0),
        Clipped(50.0),
        Trimmed(3),
        Stepped((Nearest(8),), Trimmed(3)),
    ],
)
@pytest.mark.parametrize("perturbation", ["mean", "sign", "deviation"])
def test_damage_in_gram_space_is_the_damage_of_the_vectors(rule: Any, perturbation: Any) -> None:
    updates = gaussian(12, 400, 3)
    shape = geometry(updates[3:], perturbation)
    damage = damage_of(rule, shape, updates[3:], 3, np.random.default_rng(0))
    mean, deviation = moments(updates[3:])
    p = PERTURBATIONS[perturbation](mean, deviation)  # type: ignore[arg-type]
    for t in (0.01, 0.5, 1.0, 3.0, 20.0):
        sent = [(mean + t * p).astype(np.float32)] * 3
        rows = [*updates[3:], *sent]
        if isinstance(rule, Stepped):
            result = rule.combine_all(np.stack(rows).astype(np.float64))
        else:
            result = rule.combine(np.stack(rows)) if isinstance(rule, Trimmed) else rule(rows)
        assert damage(t) == pytest.approx(float(((result - mean) ** 2).sum()), rel=1e-3, abs=1e-4)


@dataclass(frozen=True)
class CentredClipping:
    """v + mean of (x_i - v) cut to tau, with v the extra row."""

    tau: float

    def weights_with(self, gram: Matrix, rng: np.random.Generator) -> Matrix:
        n = len(gram) - 1
        square = np.diagonal(gram)[:n] - 2 * gram[:n, n] + gram[n, n]
        cut = np.minimum(1, self.tau / np.sqrt(np.maximum(square, 1e-30))) / n
        return np.append(cut, 1 - cut.sum())

    def directly(self, updates: Sequence[Vector], v: Vector) -> Matrix:
        moved = [(x.astype(np.float64) - v) * min(1, self.tau / np.linalg.norm(x - v)) for x in updates]
        return np.asarray(v + np.mean(moved, axis=0))


@pytest.mark.parametrize("tau", [3.0, 15.0, 1e6])
def test_damage_to_a_rule_that_remembers_is_that_of_the_vectors(tau: float) -> None:
    updates = gaussian(12, 400, 3)
    known = own(updates[0], start=updates[1], previous=updates[2])
    assert np.array_equal(last_aggregate(known), updates[1] - updates[2])
    v = last_aggregate(known)
    shape = geometry(updates[3:], "deviation", v)
    rule = CentredClipping(tau)
    damage = damage_of(WithExtra(rule, last_aggregate), shape, updates[3:], 3, np.random.default_rng(0))
    mean, deviation = moments(updates[3:])
    for t in (0.1, 1.0, 10.0):
        result = rule.directly([*updates[3:], *[(mean - t * deviation).astype(np.float32)] * 3], v)
        assert damage(t) == pytest.approx(float(((result - mean) ** 2).sum()), rel=1e-3)
    with pytest.raises(ValueError, match="extra"):
        damage_of(WithExtra(rule, last_aggregate), geometry(updates[3:], "deviation"), updates[3:], 3, np.random.default_rng(0))


def test_a_search_against_a_rule_that_remembers_runs_from_the_knowledge_of_an_insider() -> None:
    updates = gaussian(12, 610, 1)
    rule = WithExtra(CentredClipping(5.0), last_aggregate)
    first = only(optimal_alie()(coalition(updates, 3, Level.INSIDER, rule=rule)))
    later = only(optimal_alie()(coalition(updates, 3, Level.INSIDER, rule=rule, previous=10 * updates[5])))
    assert np.isfinite(first).all()
    assert np.isfinite(later).all()


def test_the_damage_of_a_plain_callable_is_evaluated_in_full_and_a_failing_point_never_wins() -> None:
    updates = gaussian(9, 50)
    shape = geometry(updates[2:], "sign")
    damage = damage_of(
        lambda x: x[-1] if abs(x[-1]).max() < 4 else x[-1] * np.nan, shape, updates[2:], 2, np.random.default_rng(0)
    )
    assert damage(1.0) == pytest.approx(50.0, rel=0.1)
    assert damage(1000.0) == -np.inf
    assert worst_point(damage, 1e-3, 1000.0, 20) < 10
    with pytest.raises(ValueError, match="no rule"):
        damage_of("krum", shape, updates, 2, np.random.default_rng(0))


def test_the_search_finds_the_peak_of_a_smooth_function() -> None:
    assert worst_point(lambda t: -((np.log(t) - np.log(2.7)) ** 2), 1e-3, 100, 40) == pytest.approx(2.7, rel=0.15)


@pytest.mark.parametrize("rule", [MultiKrum(3), Trimmed(3)])
def test_searched_attacks_harm_a_rule_no_less_than_fixed_ones_of_their_line(rule: Any) -> None:
    updates = gaussian(12, 500, 1)
    known = coalition(updates, 3, Level.INSIDER, rule=rule)
    assert isinstance(known, Insider)
    shape = geometry(updates[3:], "deviation")
    damage = damage_of(rule, shape, updates[3:], 3, np.random.default_rng(0))
    found = only(optimal_alie(evaluations=40)(known))
    mean, deviation = moments(updates[3:])
    z = float((mean - found) @ deviation / (deviation @ deviation))
    assert np.allclose(found, mean - z * deviation, atol=1e-4)
    assert all(damage(z) >= 0.95 * damage(other) for other in np.linspace(0.1, 10, 100))


def test_optimal_ipm_is_a_negative_multiple_of_the_mean() -> None:
    updates = gaussian(12, 500, 1)
    found = only(optimal_ipm()(coalition(updates, 3, Level.INSIDER, rule=MultiKrum(3))))
    mean, _ = moments(updates[3:])
    eps = float(-(found @ mean) / (mean @ mean))
    assert 0 <= eps <= 10
    assert np.allclose(found, -eps * mean, atol=1e-5)


def test_a_search_needs_bounds_and_evaluations() -> None:
    for wrong in ({"least": 0.0}, {"least": 2.0, "most": 1.0}, {"evaluations": 3}):
        with pytest.raises(ValueError, match="search"):
            LineSearched(**wrong)  # type: ignore[arg-type]
