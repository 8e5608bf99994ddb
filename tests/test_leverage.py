"""Leverages against exact arithmetic, and the attacks that they are there to stop."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cloister.protocol.core.errors import Refused
from cloister.protocol.parts.gate import TOLERANCE, Gate, Rules
from cloister.protocol.parts.leverage import ERROR, MOST_ROWS, largest, leverages, with_losses, without

TINY = 1e-6
"""What exact arithmetic may find above a bound: TOLERANCE and ERROR, after columns are taken away."""


def exact(rows, clients):
    """The leverage of every client, in fractions: by Gram and Schmidt on rows that are not scaled."""
    basis = []
    for row in rows:
        rest = [Fraction(row.get(i, 0)) for i in clients]
        for other in basis:
            factor = _dot(rest, other) / _dot(other, other)
            rest = [a - factor * b for a, b in zip(rest, other, strict=True)]
        if any(rest):
            basis.append(rest)
    return [sum((row[k] ** 2 / _dot(row, row) for row in basis), Fraction(0)) for k in range(len(clients))]


def _dot(a, b):
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def fewest(rows, clients):
    """The fewest clients that a combination rests on: the least set of columns without which the rows lose rank."""
    rank = sum(exact(rows, clients), Fraction(0))
    for size in range(1, len(clients) + 1):
        for gone in combinations(clients, size):
            left = [i for i in clients if i not in gone]
            if sum(exact(rows, left), Fraction(0)) < rank:
                return size
    return None


def rows_of(matrix):
    return [{i: float(a) for i, a in enumerate(row)} for row in matrix]


def ones(clients, a=1.0):
    return dict.fromkeys(clients, a)


exponents = st.one_of(st.just(0), st.integers(-3, 3), st.integers(-60, 60), st.integers(-300, 300))
numbers = st.builds(lambda a, e: a * 10.0**e, st.floats(-4, 4, width=32), exponents)
alike = st.builds(lambda a, b, e: a + b * 10.0**e, st.just(1.0), st.integers(-3, 3), st.integers(-17, 0))
plain = st.integers(-2, 2).map(float)


@st.composite
def matrices(draw):
    """Rows of weights: plain, nearly alike or wild, some of them multiples or sums of others, each at a scale of its own."""
    n = draw(st.integers(1, 9))
    entry = draw(st.sampled_from([plain, alike, numbers, st.one_of(plain, alike, numbers)]))
    rows = draw(st.lists(st.lists(entry, min_size=n, max_size=n), min_size=1, max_size=3))
    for kind in draw(st.lists(st.sampled_from(["sum", "again", "nearly"]), max_size=2)):
        if kind == "sum":
            rows.append([sum(column) for column in zip(*rows, strict=True)])
        elif kind == "again":
            rows.append([draw(st.sampled_from([-2.0, 0.5, 0.1, 3.0])) * a for a in rows[0]])
        else:
            rows.append([a * (1 + draw(st.integers(-4, 4)) * 2.0**-52) for a in rows[-1]])
    scales = draw(st.lists(st.integers(-200, 200), min_size=len(rows), max_size=len(rows)))
    with np.errstate(over="ignore"):
        scaled = [[float(np.ldexp(a, e)) for a in row] for row, e in zip(rows, scales, strict=True)]
    return [[a if np.isfinite(a) else 1.0 for a in row] for row in scaled]


@given(matrices())
@example([[1.0, 1.0, 1.0, 1.0], [1.5e-9, 1e-9, 1e-9, 1e-9]])
@example([[1.0, 1.0, 1.0, 1e-300], [1.0, 1.0, 1.0, 2e-300]])
@example([[1e300, 1e-300, 1.0], [1e300, 1e-300, 1.0]])
@example([[5e-324, 5e-324, 5e-324]])
@settings(max_examples=120)
def test_a_leverage_is_that_of_exact_arithmetic_or_in_doubt_1(matrix):
    rows, clients = rows_of(matrix), range(len(matrix[0]))
    found = leverages(rows)
    assert set(found) == {i for row in rows for i, a in row.items() if a}
    for i, truth in zip(clients, exact(rows, clients), strict=True):
        if i in found:
            assert found[i] == 1.0 or abs(found[i] - truth) <= ERROR
        else:
            assert truth == 0


@pytest.mark.long
@given(matrices(), st.integers(2, 4), st.integers(0, 2))
@example([[1.0] * 9, [1.0] * 8 + [2.0]], 2, 1)
@example([[1.0, 1.0, 1.0, 2.0, 2.0, 2.0], [1.0] * 6], 2, 0)
@settings(max_examples=120)
def test_what_is_accepted_holds_the_floor_without_any_of_the_corrupt(matrix, floor, corrupt):
    """In exact arithmetic, with the columns of any corrupt clients taken away: nobody outweighs, no combination is of too few."""
    rows, clients, rules = rows_of(matrix), list(range(len(matrix[0]))), Rules(floor, corrupt)
    if rules.reveals(rows):
        return
    for gone in combinations(clients, min(corrupt, len(clients))):
        honest = [i for i in clients if i not in gone]
        assert max(exact(rows, honest), default=0) <= Fraction(1, floor) + Fraction(TINY)
        least = fewest(rows, honest)
        assert least is None or least >= floor


@pytest.mark.long
def test_the_limit_with_corrupt_clients_is_needed_and_is_enough():
    """Rows within 1/3 that two corrupt clients break are common; of those within 1/5 none is broken."""
    rng, broken, held = np.random.default_rng(0), 0, 0
    for _ in range(100):
        matrix = rng.uniform(0.2, 1.0, (2, 12))
        if rng.integers(2):
            matrix = (1 + matrix / 20) * [np.ones(12), rng.permutation([1, -1] * 6)]
        rows = rows_of(matrix)
        h, worst = largest(rows), 0.0
        for gone in combinations(range(12), 2):
            worst = max(worst, largest([{i: a for i, a in row.items() if i not in gone} for row in rows]))
        assert worst <= without(h, 2) + ERROR
        if h <= 1 / 5:
            held += 1
            assert worst <= 1 / 3
        elif h <= 1 / 3:
            broken += worst > 1 / 3
    assert broken > 5
    assert held > 0


@pytest.mark.parametrize("eps", 10.0 ** -np.arange(0, 13, 2.0))
def test_weights_that_leave_one_client_are_refused(eps):
    row = {0: 1.0, **ones(range(1, 24), float(eps))}
    assert leverages([row])[0] == pytest.approx(1 / (1 + 23 * eps**2))
    assert Rules(3).fit(row) == (1 / (1 + 23 * eps**2) <= 1 / 3)


def test_a_floor_of_one_asks_for_nothing_and_a_sum_of_nobody_shows_nothing():
    assert not Rules(1).reveals([{0: 1.0}])
    assert Rules(1).fit({0: 1.0})
    assert largest([]) == largest([{}, {1: 0.0}]) == 0.0
    assert not Rules(100).reveals([{}])
    assert not Rules(1).fit({})


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_an_error(bad):
    with pytest.raises(ValueError, match="finite"):
        leverages([{0: 1.0, 1: bad}])


# --- attacks --------------------------------------------------------------------------------------------------------------


def test_the_attack_works_on_sums_that_are_refused():
    """Differencing: a sum over all and a sum over all but one give that one's update, to the last bit of float64."""
    updates = np.random.default_rng(0).standard_normal((5, 8))
    everyone, others = ones(range(5)), ones(range(4))
    sums = [sum(a * updates[i] for i, a in row.items()) for row in (everyone, others)]
    assert np.allclose(sums[0] - sums[1], updates[4])
    assert leverages([everyone, others])[4] == pytest.approx(1.0)
    assert Rules(2).reveals([everyone, others])
    assert not Rules(4).reveals([everyone])
    assert not Rules(4).reveals([others])


@pytest.mark.parametrize("missing", range(1, 5))
def test_a_difference_of_k_clients_has_leverages_of_one_in_k(missing):
    rows = [ones(range(10)), ones(range(10 - missing))]
    assert largest(rows) == pytest.approx(1 / missing)
    assert Rules(missing + 1).reveals(rows)
    assert not Rules(missing).reveals(rows)


def test_three_sums_that_are_pairwise_safe_and_together_not():
    """No two of these show fewer than 2 clients; a + b - c shows client 0 alone, twice."""
    a, b, c = ones([0, 1, 2, 3]), ones([0, 4, 5, 6]), ones([1, 2, 3, 4, 5, 6])
    for pair in combinations([a, b, c], 2):
        assert not Rules(2).reveals(pair)
    assert leverages([a, b, c])[0] == pytest.approx(1.0)


@pytest.mark.parametrize("step", [2.0**-52, 1e-15, 1e-9, 1e-3])
def test_weights_that_are_almost_equal_are_not_equal(step):
    assert Rules(2).reveals([ones(range(5)), {**ones(range(5)), 2: 1 + step}])


def test_sums_over_disjoint_clusters_pass_however_many():
    rows = [ones(range(5 * k, 5 * k + 5), a=0.1 * (k + 1)) for k in range(20)]
    assert not Rules(5).reveals(rows)
    assert Rules(6).reveals(rows)


@pytest.mark.parametrize("scale", [1.0, -1.0, 0.5, 3.0, 1 / 1024])
def test_the_same_sum_again_scaled_reveals_nothing_new(scale):
    row = {0: 3.0, 1: 5.0, 2: 7.0, 3: 1.0}
    assert leverages([row, {i: scale * a for i, a in row.items()}]) == pytest.approx(leverages([row]))


def test_a_row_that_is_exactly_the_sum_of_others_reveals_nothing_new():
    parts = [ones(range(4), 0.5), ones(range(4, 8), 2.0)]
    assert largest([*parts, {**ones(range(4), 0.25), **ones(range(4, 8), 1.0)}]) == pytest.approx(1 / 4)
    assert largest([{**ones(range(8), 3.0)}, ones(range(4)), ones(range(4, 8))]) == pytest.approx(1 / 4)


def test_a_scale_that_rounds_makes_another_sum():
    """0.1 times a weight is not exactly a tenth of it, so the check does not take the two for one."""
    row = {0: 3.0, 1: 5.0, 2: 7.0, 3: 1.0}
    assert largest([row, {i: 0.1 * a for i, a in row.items()}]) == 1.0


def test_whole_numbers_beyond_float64_are_told_apart():
    row = dict.fromkeys(range(6), 2**62 + 1)
    assert largest([row, row]) == pytest.approx(1 / 6)
    assert largest([row, {**row, 5: 2**62 + 2}]) == 1.0


def test_more_rows_than_there_may_be_are_refused():
    rows = rows_of(np.random.default_rng(2).standard_normal((MOST_ROWS + 1, 400)))
    assert largest(rows[:-1]) < 0.2
    assert largest(rows) == 1.0


@given(st.integers(0, 2**31), st.integers(1, 3), st.integers(0, 2))
@settings(max_examples=40)
def test_losses_never_take_a_leverage_beyond_what_is_said(seed, count, lost):
    rng = np.random.default_rng(seed)
    rows = rows_of(rng.uniform(0.5, 1.0, (count, 10)))
    bound = with_losses(rows, lost)
    for _ in range(60):
        gone = [(int(rng.integers(count)), int(rng.integers(10))) for _ in range(lost)]
        left = [{i: a for i, a in row.items() if (k, i) not in gone} for k, row in enumerate(rows)]
        assert largest(left) <= bound + ERROR


# --- the gate -------------------------------------------------------------------------------------------------------------


def test_a_gate_leaves_out_what_is_below_the_floor_and_refuses_what_differs_in_few():
    gate = Gate(Rules(3))
    gate.begin("u")
    few, skewed, good = ones([0, 1]), {0: 1.0, **ones(range(1, 9), 0.01)}, ones(range(9))
    assert gate.admit("u", {"few": few, "skewed": skewed, "good": good}) == ["good"]
    with pytest.raises(Refused, match="sums other of u are refused"):
        gate.admit("u", {"other": ones(range(8))})
    assert gate.told["u"].rows == [good]
    assert gate.admit("u", {"again": good, "apart": ones(range(20, 24))}) == ["again", "apart"]
    gate.begin("v")
    assert gate.admit("v", {"other": ones(range(8))}) == ["other"]


def test_what_came_true_takes_the_place_of_what_was_asked():
    gate = Gate(Rules(3))
    gate.begin("u")
    row = ones(range(9))
    gate.admit("u", {"a": row})
    gate.replace("u", row, [ones(range(8))])
    assert gate.told["u"].rows == [ones(range(8))]
    gate.forget()
    assert not gate.told


def test_the_corrupt_are_counted_beside_the_floor():
    assert not Rules(3, 2).fit(ones(range(4)))
    assert Rules(3, 2).fit(ones(range(5)))
    assert largest([ones(range(5))]) <= 1 / 5 + TOLERANCE
    with pytest.raises(ValueError, match="corrupt is a whole number of clients, 0 or more, not -1"):
        Rules(3, -1)
