"""What an audit takes for found is more than a guess finds: areas of few, runs of the same clients, victims that are exposed."""

from itertools import combinations
from math import comb

import numpy as np
import pytest

from cloister.threat_models.audit.claim import judged
from cloister.threat_models.audit.counts import SampleCounts
from cloister.threat_models.audit.experiment import Finding
from cloister.threat_models.audit.from_chance import from_chance
from cloister.threat_models.audit.labels import LabelInference
from cloister.threat_models.audit.membership import found_of
from cloister.threat_models.audit.ranks import by_chance, shares_of_pairs
from cloister.threat_models.audit.scoring import Leakage, auc_within, exposed_of, leakage
from cloister.threat_models.audit.shares_of_labels import LabelShares
from cloister.threat_models.audit.table import _chances
from cloister.threat_models.audit.tries import BLIND, strongest
from cloister.threat_models.claims import CLAIMS


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (3, 4)])
def test_chances_of_ranks_are_counted(m: int, n: int) -> None:
    counted = np.zeros(m * n + 1)
    for members in combinations(range(m + n), m):
        others = [k for k in range(m + n) if k not in members]
        counted[sum(a > b for a in members for b in others)] += 1
    assert shares_of_pairs(m, n) == pytest.approx(counted / comb(m + n, m))


def test_a_perfect_area_of_few_is_one_that_a_guess_may_have() -> None:
    """Before: [1.00, 1.00] of one client on either side, and "can tell what 'coin' seeks (100 %)"."""
    one = np.array([1.0]), np.array([0.0])
    three = np.arange(3.0) + 3, np.arange(3.0)
    four = np.arange(4.0) + 4, np.arange(4.0)
    assert by_chance([one]) == pytest.approx(0.5)
    for runs in ([one], [one, one], [three]):
        assert auc_within(runs).low <= 0.5
    for runs in ([four], [three, three], [one] * 6):
        assert auc_within(runs).low > 0.5
    assert auc_within([one] * 4, alike=True).low <= 0.5, "four coins"
    assert auc_within([four[::-1]]).high < 0.5


def test_guessing_is_told_from_nothing_about_as_often_as_is_said() -> None:
    """Of 400 sets of three runs of few, at most 5 % have a half below their interval, where 2.5 % are to."""
    rng = np.random.default_rng(5)
    above = sum(auc_within([(rng.normal(size=4), rng.normal(size=4)) for _ in range(3)]).low > 0.5 for _ in range(400))
    assert above <= 20


def test_runs_of_the_same_clients_make_no_interval_narrower() -> None:
    """Before: twelve runs of the same members and others were taken for independent: .53 to .58 where there is nothing."""
    rng = np.random.default_rng(1)
    members, others = rng.normal(0.3, 1, 40), rng.normal(0, 1, 40)
    runs = [(members + 1e-3 * rng.normal(size=40), others + 1e-3 * rng.normal(size=40)) for _ in range(12)]
    once, same = auc_within(runs[:1]), auc_within(runs, same=True)
    assert same.high - same.low == pytest.approx(once.high - once.low, rel=0.05)
    assert auc_within(runs).high - auc_within(runs).low < (same.high - same.low) / 2


def test_lucky_guesses_expose_nobody() -> None:
    """Before: of two victims with a record or two each one was "exposed" by chance in a quarter of audits."""
    rng = np.random.default_rng(2)
    lucky = sure = 0
    for _ in range(200):
        found = found_of((0, 1), [rng.normal(size=4) for _ in range(2)], [rng.normal(size=4) for _ in range(2)])
        lucky += bool(exposed_of(found.values, np.zeros(2), np.ones(2)))
        sure += bool(exposed_of(found.values, np.zeros(2), np.ones(2), found.chances))
    assert lucky > 20
    assert sure <= 10
    known = found_of((0, 1), [np.arange(9.0) + 9, np.arange(9.0)], [np.arange(9.0), np.arange(9.0)])
    assert exposed_of(known.values, np.zeros(2), np.ones(2), known.chances) == (0,)


def test_of_guesses_that_many_parties_make_one_is_lucky_sooner() -> None:
    """Before: six records of one client of seven told from six others (one of 924 guesses) were said to be known to a party of
    eight that were tried; three more runs showed nothing.
    """
    sides = [np.arange(6.0) + 6, *(np.arange(6.0) for _ in range(6))]
    found = found_of(tuple(range(7)), sides, [np.arange(6.0)] * 7)
    exposed = [exposed_of(found.values, np.zeros(7), np.ones(7), _chances([found], guesses)) for guesses in (1, 8)]
    assert exposed == [(0,), ()]
    assert _chances([found, Finding((0,), np.ones(1))], 1) is None


def test_one_client_that_is_exposed_every_time_is_told_though_the_mean_is_little() -> None:
    """Before: of six clients one whose label is its own was "inconclusive", and "no attack works even in clear"."""
    here = plain = np.ones(12)
    alone = np.array(([0.0] + [1.0] * 5) * 2)
    whose, seeds = [*range(6)] * 2, [0] * 6 + [1] * 6
    found = leakage(here, alone, plain, np.random.default_rng(0), seeds=seeds, whose=whose)
    assert (found.valid, found.lone, found.exposed) == (False, True, (0, 6))
    claim = next(c for c in CLAIMS if c.whose == "Cloister")
    assert judged(claim, found).verdict == "refuted"
    once = leakage(here, np.array([0.0] + [1.0] * 11), plain, np.random.default_rng(0), seeds=seeds, whose=whose)
    assert (once.lone, once.exposed) == (False, ()), "in one run of two"


def test_who_is_exposed_is_held_against_what_is_known_of_it_without_the_view() -> None:
    """Before: where sums alone did worse than a guess in the mean, they counted as nothing for each, and a view that was the same
    sums "exposed" whoever they were right about by chance.
    """
    values = np.array([0, 0, -0.5, -0.5, 1, -0.5])
    plain = np.full(6, 0.9)
    zero = np.zeros(6)
    assert leakage(values, zero, plain, np.random.default_rng(0)).exposed == (4,)
    known = leakage(values, zero, plain, np.random.default_rng(0), alone=np.maximum(values, 0.0))
    assert known.exposed == ()


def test_what_a_member_found_alone_keeps_its_chances() -> None:
    own = Finding((0, 1), np.array([0.1, 0.1]), chances=np.array([0.4, 0.4]))
    alone = Finding((1, 0), np.array([0.9, 0.8]), chances=np.array([0.01, 0.02]))
    (best,), by = strongest((own,), {"client 0": (alone,)})
    assert by == "client 0"
    assert best.chances.tolist() == [0.02, 0.01]


def test_a_guess_in_the_blue_is_known_of_labels_and_counts() -> None:
    """Before: a party that is told nothing "refuted" what is promised of labels by guessing the usual shares."""
    assert set(BLIND) == {LabelInference().name, LabelShares().name, SampleCounts().name}


def test_the_same_guess_by_sums_and_by_a_view_is_no_difference() -> None:
    """Before: sums that did worse than a guess counted as one and the view did not: -0.53 of a property, [< -1, 1.63]."""
    unlucky, plain, rng = np.array([0.4, -0.6, -0.8, 0.2] * 6), np.full(24, 0.9), np.random.default_rng(0)
    for moved in (None, [unlucky, unlucky, plain]):
        ways = from_chance(unlucky, unlucky, moved)
        same = leakage(ways.here, ways.alone, plain, rng, moves=ways.moved, alone=ways.known)
        assert (round(same.value, 9), round(same.low, 9), same.valid, same.exposed) == (0, 0, True, ())
        assert same.upper < 0.13
    assert ways.known - ways.lift == pytest.approx(np.maximum(unlucky, 0))


@pytest.mark.parametrize(
    ("here", "alone", "value"), [(0.3, -0.4, 1 / 3), (-0.1, -0.4, 0), (-0.4, -0.1, -1 / 3), (-0.2, 0.3, -5 / 6)]
)
def test_who_does_worse_than_a_guess_guesses(here: float, alone: float, value: float) -> None:
    spread = np.array([-0.2, 0.2] * 10)
    ways = from_chance(here + spread, alone - spread, None)
    found = leakage(ways.here, ways.alone, np.full(20, 0.9), np.random.default_rng(0), alone=ways.known)
    assert found.value == pytest.approx(value)
    assert found.low < found.value < found.high, "whoever guesses has a spread"


def test_where_victims_of_a_run_go_right_or_wrong_together_fewer_than_five_runs_decide_nothing() -> None:
    """Before: "not refuted; found at most 0.080" of three runs, with 36 victims taken as independent; and one run that got all
    right was refuted, as a coin does it every second time.
    """
    about = next(c for c in CLAIMS if c.experiment == "property" and c.bound == 0.1)
    nothing, everything = np.zeros(60), np.ones(60)

    def found(here: np.ndarray[tuple[int], np.dtype[np.float64]], runs: int) -> Leakage:
        seeds = np.repeat(np.arange(runs), 60 // runs).tolist()
        return leakage(
            here, nothing, everything, np.random.default_rng(0), seeds=seeds, moves=[here, nothing, everything], alike=True
        )

    for runs in (1, 3, 4):
        for here in (nothing, everything):
            one = found(here, runs)
            assert (one.few_runs, one.low, one.high, one.upper, one.exposed) == (True, 0.0, 1.0, 1.0, ())
            assert judged(about, one, seeds=runs).verdict == "inconclusive"
            assert "fewer than 5 runs decide nothing: take 5 seeds" in judged(about, one, seeds=runs).witness
    assert judged(about, found(nothing, 5), seeds=5).verdict == "not refuted"
    assert judged(about, found(everything, 5), seeds=5).verdict == "refuted"
