"""The distributed discrete Gaussian: accounted with who really added noise, as precise as theory says, never wrapping around."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import optimize, stats

from cloister.crypto import samplers
from cloister.crypto.entropy import OsEntropy, SimulatedEntropy
from cloister.crypto.fixed_point import Conditional
from cloister.crypto.prg import derive_key
from cloister.crypto.samplers import discrete_gaussian, discrete_gaussian_reach
from cloister.protocol.core.errors import Refused
from cloister.protocol.core.session import Session
from cloister.protocol.masked.gaussian import PAPER_BETA, DistributedGaussian, decode, reserve, rotation
from cloister.protocol.masked.gaussian_solver import Target, solve
from cloister.protocol.masked.server import NoSum, Unmasked
from cloister.protocol.masked.sum import Plan, masked_sum, parties_of
from cloister.protocol.masked.terms import SumPolicy
from cloister.protocol.parts.members import Members
from cloister.protocol.privacy.ledger import BudgetExceeded, Ledger

from .masked_sum_session import MODEL, RUN, charter_of, losing, terms

TARGET = Target(
    epsilon=4.0,
    delta=1e-5,
    rounds=3,
    clients=9,
    corrupt=1,
    dropouts=2,
    d=100,
    l2=1.0,
    ring_bits=32,
    overflow=2**-30,
    adjacency="zero out",
)
SMALL = DistributedGaussian(13, 1.0, 2**-8, 400, 9, 1, 32, PAPER_BETA, 2**-20)


def ledger(client=1, budget=1e9, **given):
    return Ledger(**({"client": client, "unit": "client", "adjacency": "zero out", "budget": budget, "delta": 1e-5} | given))


def session_of(parameters, roster=tuple(range(1, 10)), threshold=7, round=0):
    return Session(parameters.protocol, RUN, round, "root", roster, threshold)


def place(parameters, client=1, threshold=7, **given):
    return reserve(parameters, session_of(parameters, threshold=threshold), ledger(client, **given))


def gaussian_epsilon(multiplier, rounds, delta):
    """Of so many Gaussians, exactly (Balle and Wang 2018)."""
    mu = math.sqrt(rounds) / multiplier

    def off(epsilon):
        return stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu) - delta

    return optimize.brentq(off, 0, 100, xtol=1e-12)


# --- accounting --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ring_bits", "rounds", "clients"), [(32, 1, 9), (32, 10, 200), (64, 100, 30)])
def test_on_a_fine_grid_it_costs_what_the_continuous_gaussian_costs(ring_bits, rounds, clients):
    target = replace(TARGET, ring_bits=ring_bits, rounds=rounds, clients=clients, d=1000)
    found = solve(target)
    multiplier = math.sqrt(found.variance * target.honest) / found.sensitivity
    spent = target.spent(found.release(clients - target.dropouts, "zero out"))
    assert spent == pytest.approx(gaussian_epsilon(multiplier, rounds, 1e-5), rel=1e-5)
    assert 0.999 * target.epsilon < spent <= target.epsilon
    needed = optimize.brentq(lambda z: gaussian_epsilon(z, rounds, 1e-5) - target.epsilon, 0.5 * math.sqrt(rounds), 100)
    noise = found.granularity * math.sqrt(found.variance * target.honest)  # in the values' own units, for norm l2 = 1
    assert needed < noise < 1.011 * needed


def test_the_ledger_composes_rounds_one_by_one_as_the_solver_did_at_once():
    found, book = solve(TARGET), ledger(budget=TARGET.epsilon)
    for round in range(TARGET.rounds):
        book = reserve(found, session_of(found, round=round), book).settled(7)
    assert book.spent == pytest.approx(TARGET.spent(found.release(7, "zero out")))
    with pytest.raises(BudgetExceeded):
        reserve(found, session_of(found, round=TARGET.rounds), book)


def test_fewer_survivors_cost_more_and_the_corrupt_do_not_count():
    spent = [(ledger() + SMALL.release(survivors, "zero out")).spent for survivors in range(9, 1, -1)]
    assert all(a < b for a, b in pairwise(spent))
    for survivors in (9, 5):
        event = SMALL.release(survivors, "zero out").event
        assert event.zcdp.rho == pytest.approx(SMALL.sensitivity**2 / (2 * 400 * (survivors - 1)))
        assert event.gaussian[0] == pytest.approx(SMALL.sensitivity / math.sqrt(400 * (survivors - 1)), rel=2e-3)
        assert replace(SMALL, corrupt=3).release(survivors + 2, "zero out").event == event
    with pytest.raises(Refused, match="may have added no noise"):
        SMALL.release(1, "zero out")


def test_replacing_a_vector_costs_twice_the_sensitivity_and_the_roster_is_not_hidden():
    one, two = SMALL.release(5, "zero out"), SMALL.release(5, "replace")
    assert two.sensitivity == 2 * one.sensitivity
    assert two.event.zcdp.rho == pytest.approx(4 * one.event.zcdp.rho)
    assert two.event.gaussian[0] == pytest.approx(2 * one.event.gaussian[0])
    with pytest.raises(Refused, match="public"):
        SMALL.release(5, "add or remove")


def test_the_closeness_of_the_sum_to_one_gaussian_is_paid_for():
    coarse = replace(SMALL, variance=1, granularity=0.25)
    exact = coarse.sensitivity**2 / (2 * 8)
    event = coarse.release(9, "zero out").event.zcdp
    assert event.rho + event.xi / 10 > exact * (1 + 1e-6)


def test_a_budget_that_the_threshold_could_break_is_refused_before_any_secret_is_drawn():
    enough = (ledger() + SMALL.release(9, "zero out")).spent
    book = ledger(budget=enough * 1.001)
    kept = reserve(SMALL, session_of(SMALL, threshold=9), book)
    assert kept.settled(9).spent == enough
    with pytest.raises(BudgetExceeded, match="the sum of 8 clients would take client 1"):
        reserve(SMALL, session_of(SMALL, threshold=8), book)


def test_what_is_kept_until_the_end_is_the_worst_and_settling_gives_back():
    kept = place(SMALL, threshold=5)
    assert kept.ledger.spent == kept.settled(5).spent > kept.settled(8).spent > 0
    assert kept.ledger.not_covered == ("who took part and who survived",)
    with pytest.raises(ValueError, match="where 5 are needed"):
        kept.settled(4)


def test_a_place_is_only_for_these_parameters_this_client_and_whole_vectors():
    other = replace(SMALL, variance=401)
    for session, book, reason in [
        (session_of(other), ledger(), "not one with these parameters"),
        (replace(session_of(SMALL), roster=tuple(range(1, 11))), ledger(), "more than 9 clients"),
        (session_of(SMALL), ledger(77), "not client 77"),
        (session_of(SMALL), ledger(unit="record"), "unit"),
        (session_of(SMALL, threshold=1), ledger(), "may have added no noise"),
    ]:
        with pytest.raises(Refused, match=reason):
            reserve(SMALL, session, book)
    names = {replace(SMALL, **change).protocol for change in ({}, {"l2": 2.0}, {"corrupt": 0}, {"beta": 0.5}, {"d": 14})}
    assert len(names) == 5
    assert all(len(name) <= 64 for name in names)


# --- the solver --------------------------------------------------------------------------------------------------------------


def test_the_solver_refuses_with_its_reason():
    for change, reason in [
        ({"dropouts": 8}, "leave nobody to add noise"),
        ({"d": 2**48}, "rounding would more than double the noise"),
        ({"epsilon": 1e-12, "d": 10**6}, "rounding would more than double the noise"),
    ]:
        with pytest.raises(Refused, match=reason) as refusal:
            solve(replace(TARGET, **change))
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "change", [{}, {"d": 10**6, "clients": 1000}, {"epsilon": 0.5}, {"adjacency": "replace"}, {"rounds": 50}]
)
def test_what_the_solver_finds_keeps_the_target_for_the_worst_survivors(change):
    target = replace(TARGET, **change)
    found = solve(target)
    worst = found.release(target.clients - target.dropouts, target.adjacency)
    assert target.spent(worst) <= target.epsilon
    assert target.clients * (2**found.bits - 1) < 2**target.ring_bits
    less = replace(found, variance=int(found.variance * 0.99))
    assert target.spent(less.release(target.clients - target.dropouts, target.adjacency)) > target.epsilon


# --- no sum wraps around -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", [1, 17, 10**4, 2**22, 2**22 + 1, 2**38])
def test_the_reach_of_the_sampler_is_that_of_its_tables(variance):
    """The largest sum of what is at the ends of its tables."""
    if variance <= 2**22:
        ends = [(samplers.gaussian_table(variance), 1)]
    else:
        fine, step, coarse = samplers._split(samplers.Fraction(variance))
        ends = [(samplers.gaussian_table(fine), 1), (samplers.gaussian_table(coarse), step)]
    assert -sum(table.first * step for table, step in ends) == discrete_gaussian_reach(variance)
    assert sum((table.first + len(table.cumulative) - 1) * step for table, step in ends) == discrete_gaussian_reach(variance)
    assert abs(discrete_gaussian(bytes(32), 1000, variance)).max() <= discrete_gaussian_reach(variance)


def test_parameters_that_could_wrap_are_refused_and_the_way_out_works():
    """1000 clients leave 22 bits of 32 to each: levels up to 2^21 - 1. In the 64-bit ring a level has at most 31 bits."""
    fits = replace(SMALL, d=1, clients=1000, granularity=2**-20, overflow=0.5)
    assert 2**20 < fits.reach < 2**21
    replace(fits, granularity=2**-29, ring_bits=64)
    for change, ring in [({"granularity": 2**-21}, 32), ({"granularity": 2**-30, "ring_bits": 64}, 64)]:
        with pytest.raises(ValueError, match=rf"1000 clients with levels of up to \d+ could wrap around modulo 2\^{ring}") as why:
            replace(fits, **change)
        assert "\n" not in str(why.value)
        assert ("ring_bits=64" in str(why.value)) == (ring == 32)
        times = float(str(why.value).split("granularity ")[1].split(" times")[0])
        replace(fits, **{**change, "granularity": change["granularity"] * times * 1.01, "variance": 1})


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_levels_and_the_largest_noise_of_all_clients_do_not_wrap(sign):
    widest = DistributedGaussian(1, 1.0, 2**-20, 2**22, 900, 1, 32, PAPER_BETA, 0.5)
    assert widest.clients * 2 ** (widest.bits + 1) >= 2**32  # one bit more would not fit
    inputs = np.full(widest.length, widest.grid.half + sign * widest.reach, np.uint32)
    inputs[-1] = 1
    total = np.zeros_like(inputs)
    for _ in range(widest.clients):
        total += inputs
    mean = widest.grid.decode(total)
    assert mean.mean.tolist() == [pytest.approx(sign * widest.reach * widest.grid.step)] * widest.padded


@pytest.mark.parametrize("shape", ["one", "sign", "normal"])
def test_rotated_coordinates_exceed_the_bound_no_more_often_than_claimed(shape):
    """Of 400 sessions, each with its own rotation. Under half the bound, they exceed it almost always."""
    d, claim, sessions = 256, 0.25, 400
    p = DistributedGaussian(d, 1.0, 2**-16, 1, 2, 0, 32, PAPER_BETA, claim)
    assert p.flat < 0.5 * 2**16
    rng = np.random.default_rng(1)
    one = np.zeros(d, np.float32)
    one[3] = 1
    vectors = {
        "one": lambda: one,
        "sign": lambda: (rng.integers(0, 2, d) * 2 - 1).astype(np.float32) / 16,
        "normal": lambda: (x := rng.normal(size=d)) / np.linalg.norm(x),
    }
    largest = []
    for round in range(sessions):
        turn = rotation(p, session_of(p, (1, 2), 2, round))
        largest.append(max(float(np.abs(turn.apply(vectors[shape]().astype(np.float32))).max()) for _ in range(2)) * 2**16)
    over = sum(x > p.flat for x in largest)
    assert stats.binomtest(over, sessions, claim, alternative="greater").pvalue > 0.01
    assert sum(x > p.flat / 2 for x in largest) > 0.9 * sessions


# --- what a client sends -----------------------------------------------------------------------------------------------------


def test_rounded_vectors_keep_the_papers_bound_and_a_draw_is_discarded_as_rarely_as_beta_says():
    """Theorem 1 with the grid as unit: c^2 + d/4 + sqrt(2 ln(1/beta)) (c + sqrt(d)/2), or (c + sqrt d)^2 if that is less."""
    d, c = 4096, 37.0
    for beta in (PAPER_BETA, 1e-3):
        p = DistributedGaussian(d, 1.0, 1 / c, 25, 9, 1, 32, beta, 0.5)
        likely = math.sqrt(c * c + d / 4 + math.sqrt(2 * math.log(1 / beta)) * (c + math.sqrt(d) / 2))
        assert p.sensitivity == pytest.approx(min(likely, c + math.sqrt(d)), rel=1e-5)
        worst = np.full(d, c / math.sqrt(d) / c)  # every coordinate is c/64 of a step: the norm grows
        norms = []
        for k in range(200):
            ring = p.grid.encode(worst, 1, Conditional(k.to_bytes(32, "big"), 1.0, beta)).ring
            norms.append(np.linalg.norm(ring[:-1].astype(np.int64) - p.grid.half))
        assert max(norms) <= p.sensitivity
        assert max(norms) > 1.2 * c  # rounding does cost


def test_noise_is_the_exact_samplers_and_nothing_else():
    """A vector of zeros rounds to zeros, so its input is the noise: of this key, this variance, and different each time."""
    p = replace(SMALL, d=4096)
    entropy = SimulatedEntropy(5)
    mine = place(p)
    ring = mine.encode(np.zeros(p.d, np.float32), entropy)
    noise = ring[:-1].astype(np.int64) - p.grid.half
    secret = entropy.secret(f"distributed gaussian 1 {mine.session.digest.hex()}", 32)
    expected = discrete_gaussian(derive_key(secret, "distributed noise", mine.session.digest), p.padded, p.variance)
    assert (noise == expected).all()
    assert ring[-1] == 1
    x = np.arange(-100, 101)
    weight = np.exp(-(x**2) / 800)
    cells = np.clip((x + 60) // 4, 0, 29)
    want = np.bincount(cells, weights=weight / weight.sum() * p.d, minlength=30)
    have = np.bincount(np.clip((noise + 60) // 4, 0, 29), minlength=30)
    keep = want > 5
    assert stats.chisquare(have[keep], want[keep] * have[keep].sum() / want[keep].sum()).pvalue > 1e-3
    others = [place(p, client).encode(np.zeros(p.d, np.float32), entropy) for client in (2, 3)]
    fresh = [mine.encode(np.zeros(p.d, np.float32), OsEntropy()) for _ in range(2)]
    for one, other in [(ring, others[0]), (others[0], others[1]), tuple(fresh)]:
        both = np.corrcoef(one[:-1].astype(float), other[:-1].astype(float))[0, 1]
        assert abs(both) < 5 / math.sqrt(p.d)


@pytest.mark.parametrize("scale", [1e-30, 0.3, 1.0, 1e6, 1e38])
def test_inputs_fit_the_terms_whatever_the_vector(scale):
    p = replace(SMALL, overflow=0.9)
    for seed in range(20):
        vector = np.random.default_rng(seed).normal(size=13).astype(np.float32)
        vector *= np.float32(scale) / np.abs(vector).max()
        ring = place(p).encode(vector, SimulatedEntropy(seed))
        assert ring.shape == (p.length,)
        assert int(ring.max()) <= 2**p.bits - 2
    for bad in (np.array([math.nan] * 13), np.array([math.inf] * 13), np.zeros(12)):
        with pytest.raises(ValueError, match=r"NaN|13 coordinates"):
            place(p).encode(bad, SimulatedEntropy(0))


# --- the whole -----------------------------------------------------------------------------------------------------------------


def play(parameters, vectors, threshold, tap=None, corrupt=()):
    """A session of masked sum in which each client sends its encoding. corrupt: clients that add no noise."""
    roster = tuple(vectors)
    session = session_of(parameters, roster, threshold)
    entropy = SimulatedEntropy(11)
    members = Members.enrol(roster, entropy)
    grid = parameters.grid
    size = {"ring_bits": grid.ring_bits, "length": parameters.length, "bits": grid.bits, "clip": grid.clip, "max_weight": 1}
    policy = SumPolicy(unheld=frozenset({"gaussian"}))
    charter = charter_of(members.enrolled, policy)
    plan = Plan.of(session, terms(len(roster), **size), charter)
    places = {i: reserve(parameters, session, ledger(i)) for i in roster}

    def send(i):
        if i in corrupt:
            return np.append(np.full(parameters.padded, grid.half, np.uint32), np.uint32(1))
        return places[i].encode(vectors[i], entropy)

    end, network = masked_sum(plan, parties_of(members, charter, MODEL, policy, entropy), send, tap)
    assert not network.faults
    return end, places


def test_the_mean_of_the_survivors_comes_out_with_the_error_that_theory_gives():
    """Squared error over its expectation: chi-square with d degrees of freedom, two-sided at 1e-4."""
    d = 1000
    parameters = DistributedGaussian(d, 1.0, 2**-12, 60**2, 9, 1, 32, PAPER_BETA, 2**-20)
    rng = np.random.default_rng(3)
    vectors = {i: (x := rng.normal(size=d)) / np.linalg.norm(x) for i in range(1, 10)}
    end, places = play(parameters, vectors, 6, losing({2: 0, 7: 2, 9: 4}))
    assert isinstance(end, Unmasked)
    assert end.clients == (1, 3, 4, 5, 6, 8, 9)
    error = decode(parameters, end) - np.mean([vectors[i] for i in end.clients], axis=0)
    statistic = float((error.astype(float) ** 2).sum()) / parameters.deviation(7) ** 2
    assert stats.chi2.ppf(5e-5, d) < statistic < stats.chi2.ppf(1 - 5e-5, d)
    assert abs(error.mean()) < 4 * parameters.deviation(7) / math.sqrt(d)
    assert places[1].settled(6).spent == places[1].ledger.spent > places[1].settled(7).spent


def test_vectors_over_the_clip_are_scaled_down_to_it():
    parameters = DistributedGaussian(16, 1.0, 2**-15, 1, 9, 1, 64, PAPER_BETA, 2**-20)
    vectors = {i: np.full(16, 10.0 * i, np.float32) for i in range(1, 10)}
    end, _ = play(parameters, vectors, 9)
    assert decode(parameters, end) == pytest.approx(np.full(16, 0.25), abs=6 * parameters.deviation(9))


def test_a_corrupt_client_that_adds_no_noise_leaves_what_was_accounted():
    """Three of nine add none: the noise measured is that of six, which is what the release says."""
    d = 4096
    parameters = DistributedGaussian(d, 1.0, 2**-12, 60**2, 9, 3, 32, PAPER_BETA, 2**-20)
    end, _ = play(parameters, {i: np.zeros(d, np.float32) for i in range(1, 10)}, 9, corrupt=(1, 2, 3))
    noise = decode(parameters, end).astype(float) * 9 / parameters.grid.step
    statistic = float((noise**2).sum()) / (6 * 60**2)
    assert stats.chi2.ppf(5e-5, d) < statistic < stats.chi2.ppf(1 - 5e-5, d)
    assert "6 discrete Gaussians" in parameters.release(9, "zero out").noise


def test_under_the_threshold_nothing_is_opened():
    end, _ = play(SMALL, {i: np.zeros(13, np.float32) for i in range(1, 10)}, 8, losing({1: 2, 2: 2}))
    assert isinstance(end, NoSum)


def test_a_total_that_is_no_sum_of_encodings_is_refused():
    end, _ = play(SMALL, {i: np.zeros(13, np.float32) for i in range(1, 10)}, 8)
    decode(SMALL, end)
    twice = end.total.copy()
    twice[-1] += 1
    far = end.total.copy()
    far[0] += np.uint32(2**31)
    for wrong, reason in [(twice, "count as 10"), (far, "out of range"), (end.total[1:], "other parameters")]:
        with pytest.raises(ValueError, match=f"{reason}|weights is 10"):
            decode(SMALL, replace(end, total=wrong))
    with pytest.raises(ValueError, match="other parameters"):
        decode(replace(SMALL, variance=401), end)
