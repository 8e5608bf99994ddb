"""Fixed point: the weighted sum against exact arithmetic, the no-wrap bound at its edge, and what each rounding promises.

`python tests/test_fixed_point.py` measures a million values.
"""

import math
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.crypto.fixed_point import Conditional, FixedPoint, Nearest, Stochastic

KEY = bytes(range(32))


def key_of(i):
    return i.to_bytes(32, "big")


def total_of(fixed, vectors, weights, rounding_of=lambda _: Nearest()):
    total = np.zeros(len(vectors[0]) + 1, fixed.dtype)
    for i, (vector, weight) in enumerate(zip(vectors, weights, strict=True)):
        total += fixed.encode(vector, weight, rounding_of(i)).ring
    return total


@settings(max_examples=60)
@given(
    st.sampled_from([32, 64]),
    st.integers(1, 40),
    st.integers(1, 10_000),
    st.sampled_from([1e-4, 0.37, 1.0, 1e5]),
    st.integers(0, 2**32),
    st.sampled_from([np.float32, np.float64]),
)
def test_the_weighted_mean_is_within_the_stated_error(ring_bits, clients, max_weight, clip, seed, dtype):
    fixed = FixedPoint.finest(ring_bits, clip, clients, max_weight)
    rng = np.random.default_rng(seed)
    vectors = rng.uniform(-clip, clip, (clients, 7)).astype(dtype).clip(-clip, clip).astype(dtype)
    vectors[:, 0], vectors[:, 1], vectors[:, 2] = np.nextafter(dtype(clip), dtype(0)), -np.nextafter(dtype(clip), dtype(0)), 0
    weights = [int(w) for w in rng.integers(0, max_weight + 1, clients)]
    weights[0] = max_weight
    for rounding_of in (lambda _: Nearest(), lambda i: Stochastic(key_of(i))):
        decoded = fixed.decode(total_of(fixed, vectors, weights, rounding_of))
        assert decoded.weight == sum(weights)
        assert decoded.mean.dtype == np.float32
        for j in range(7):
            truth = sum(w * Fraction(float(v[j])) for v, w in zip(vectors, weights, strict=True)) / sum(weights)
            assert abs(Fraction(float(decoded.mean[j])) - truth) <= Fraction(fixed.error(rounding_of(0)))
        assert decoded.mean[2] == 0  # 0 is a level, so a sparse update stays sparse under every rounding


def test_the_bound_is_sharp():
    """n (2^bits - 1) max_weight < ring: 65535 x 65537 = 2^32 - 1 fits, one more does not."""
    FixedPoint(32, 16, 1.0, clients=65_537, max_weight=1)
    FixedPoint(32, 16, 1.0, clients=1, max_weight=65_537)
    for clients, weight in ((65_538, 1), (1, 65_538), (2, 32_769)):
        with pytest.raises(ValueError, match="wrap around"):
            FixedPoint(32, 16, 1.0, clients, weight)


@pytest.mark.parametrize("refused", [(32, 16, 100, 700), (32, 22, 1100, 1), (64, 31, 10**6, 10**7), (32, 31, 4, 1)])
def test_each_way_out_that_a_refusal_names_is_the_widest_that_fits(refused):
    ring_bits, bits, clients, max_weight = refused
    given_ = {"ring_bits": ring_bits, "bits": bits, "clip": 1.0, "clients": clients, "max_weight": max_weight}
    with pytest.raises(ValueError, match="change one: ") as error:
        FixedPoint(**given_)
    ways = [way.split("=") for way in str(error.value).split("change one: ")[1].split(", ")]
    assert {name for name, _ in ways} >= ({"bits"} if clients * max_weight < 2**ring_bits // 3 else set())
    assert ways
    for name, value in ways:
        FixedPoint(**{**given_, name: int(value)})
        if name != "ring_bits":
            with pytest.raises(ValueError, match="wrap around"):
                FixedPoint(**{**given_, name: int(value) + 1})


def test_finest_has_the_most_bits():
    fixed = FixedPoint.finest(32, 1.0, 100, 600)
    assert fixed.bits == 16
    with pytest.raises(ValueError, match="wrap around"):
        FixedPoint(32, 17, 1.0, 100, 600)
    assert FixedPoint.finest(64, 1.0, 2, 1).bits == 31
    with pytest.raises(ValueError, match="wrap around"):
        FixedPoint.finest(32, 1.0, 2**31, 2)


@pytest.mark.parametrize("clients", [1_000, 1_100, 5_000])
@pytest.mark.parametrize("ring_bits", [32, 64])
def test_thousands_of_clients_sum_right(clients, ring_bits):
    """Every client at the upper end, at full weight: the sum that is nearest to wrapping around."""
    fixed = FixedPoint.finest(ring_bits, 1.0, clients, 17)
    one = fixed.encode(np.array([1.0, -1.0, 0.25], np.float32), 17, Nearest()).ring
    total = np.zeros(4, fixed.dtype)
    for _ in range(clients):
        total += one
    exact = [clients * int(element) for element in one]
    assert [int(element) for element in total] == exact
    assert max(exact) < 2**ring_bits
    decoded = fixed.decode(total)
    assert np.abs(decoded.mean - [1, -1, 0.25]).max() <= fixed.error(Nearest())
    assert decoded.weight == 17 * clients


@pytest.mark.parametrize("bits", [2, 8, 24, 31])
def test_the_stated_error_is_reached_and_not_passed(bits):
    """Half a step off at the midpoints between levels, nearly a whole step where chance rounds a small part up."""
    fixed = FixedPoint(64, bits, 1.0, 10, 1)
    midpoints = (np.arange(-min(fixed.half, 500), min(fixed.half, 500)) + 0.5) * fixed.step
    off = np.abs(fixed.decode(fixed.encode(midpoints, 1, Nearest()).ring).mean - midpoints)
    assert 0.499 * fixed.step < off.max() <= fixed.error(Nearest())
    small = np.full(5_000, 0.01 * fixed.step)
    off = np.abs(fixed.decode(fixed.encode(small, 1, Stochastic(KEY)).ring).mean - small)
    assert 0.98 * fixed.step < off.max() <= fixed.error(Stochastic(KEY))


def test_clipping_is_reported_and_symmetric():
    fixed = FixedPoint(32, 16, 0.5, 10, 10)
    x = np.array([0.5, -0.5, 0.6, -0.6, 1e30, 0.1], np.float32)
    encoded = fixed.encode(x, 1, Nearest())
    assert (encoded.clipped, encoded.largest) == (3, float(np.float32(1e30)))
    assert encoded.ring[:5].tolist() == [2 * fixed.half, 0, 2 * fixed.half, 0, 2 * fixed.half]
    assert fixed.encode(x[:2], 1, Nearest()).clipped == 0
    mirrored = fixed.encode(-x, 1, Nearest()).ring
    assert (mirrored[:-1] + encoded.ring[:-1] == 2 * fixed.half).all()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"ring_bits": 48}, "ring_bits is 32 or 64"),
        ({"bits": 1}, "bits is 2 to 31"),
        ({"bits": 32, "ring_bits": 64}, "bits is 2 to 31"),
        ({"clip": 0.0}, "clip is positive"),
        ({"clip": math.nan}, "clip is positive"),
        ({"clip": math.inf}, "clip is positive"),
        ({"clients": 0}, "at least 1"),
        ({"max_weight": 0}, "at least 1"),
    ],
)
def test_parameters_out_of_range_are_refused(change, what):
    good = {"ring_bits": 32, "bits": 16, "clip": 1.0, "clients": 10, "max_weight": 10}
    FixedPoint(**good)
    with pytest.raises(ValueError, match=what):
        FixedPoint(**{**good, **change})


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 33_000])
def test_not_finite_is_refused(bad, at):
    x = np.zeros(40_000, np.float32)
    x[at] = bad
    with pytest.raises(ValueError, match="NaN or infinite"):
        FixedPoint(32, 16, 1.0, 10, 10).encode(x, 1, Nearest())


@pytest.mark.parametrize("weight", [-1, 11])
def test_a_weight_out_of_range_is_refused(weight):
    with pytest.raises(ValueError, match="max_weight=10"):
        FixedPoint(32, 16, 1.0, 10, 10).encode(np.zeros(2, np.float32), weight, Nearest())


def test_weight_zero_adds_nothing():
    fixed = FixedPoint(32, 16, 1.0, 10, 10)
    assert not fixed.encode(np.ones(5, np.float32), 0, Nearest()).ring.any()
    with pytest.raises(ValueError, match="sum of weights is 0"):
        fixed.decode(np.zeros(6, np.uint32))


def test_a_sum_that_no_clients_could_make_is_refused():
    fixed = FixedPoint(32, 16, 1.0, 10, 10)
    good = fixed.encode(np.ones(3, np.float32), 10, Nearest()).ring
    fixed.decode(good)
    for at, value in ((0, int(good[0]) + 1), (1, 2**31), (1, 2**32 - 1), (3, 101), (3, 0), (3, 9)):
        bad = good.copy()
        bad[at] = value
        with pytest.raises(ValueError, match=r"out of range|sum of weights"):
            fixed.decode(bad)
    with pytest.raises(ValueError, match="uint32"):
        fixed.decode(good.astype(np.uint64))


@pytest.mark.parametrize("rounding_of", [Stochastic, lambda key: Conditional(key, 10.0, 0.5)])
def test_stochastic_rounding_is_unbiased_and_never_more_than_a_step_off(rounding_of):
    fixed = FixedPoint(32, 5, 1.0, 10, 1)
    x = np.linspace(-1, 1, 41)
    levels = np.array([fixed.encode(x, 1, rounding_of(key_of(i))).ring[:-1] for i in range(4_000)]).astype(float) - fixed.half
    assert np.abs(levels * fixed.step - x).max() < fixed.step * (1 + 1e-9)
    part = np.abs(x / fixed.step - np.floor(x / fixed.step))
    deviation = np.sqrt(part * (1 - part) / 4_000)
    assert (np.abs(levels.mean(0) - x / fixed.step) <= 5 * deviation + 1e-9).all()


def test_roundings_depend_on_the_key_alone():
    fixed, x = FixedPoint(64, 20, 1.0, 10, 1), np.linspace(-1, 1, 70_000)
    one, again, other = (fixed.encode(x, 1, Stochastic(k)).ring for k in (KEY, KEY, key_of(1)))
    assert np.array_equal(one, again)
    assert 0.3 < np.mean(one != other) < 0.7
    with pytest.raises(ValueError, match="32 bytes"):
        fixed.encode(x, 1, Stochastic(bytes(16)))


def test_conditional_rounding_keeps_the_norm_and_discards_what_exceeds_it():
    """x = 0.3 steps in 400 coordinates: the squared norm is binomial, 120 +- 9 steps; with beta near 1 the bound is 36 + 100."""
    fixed = FixedPoint(32, 8, 1.0, 10, 1)
    x = np.full(400, 0.3 * fixed.step)
    l2, beta = float(np.linalg.norm(x)), 1 - 1e-9
    bound = fixed.l2_after(Conditional(KEY, l2, beta), 400)
    assert bound == pytest.approx(fixed.step * math.sqrt(136), rel=1e-4)

    def norm(rounding):
        levels = fixed.encode(x, 1, rounding).ring[:-1].astype(float) - fixed.half
        return float(np.linalg.norm(levels) * fixed.step)

    keys = [key_of(i) for i in range(400)]
    exceeding = [key for key in keys if norm(Stochastic(key)) > bound]
    assert 2 <= len(exceeding) <= 60
    assert all(norm(Conditional(key, l2, beta)) <= bound for key in exceeding)
    kept = next(key for key in keys if key not in exceeding)
    assert norm(Conditional(kept, l2, beta)) == norm(Stochastic(kept))
    with pytest.raises(ValueError, match="exceeds"):
        norm(Conditional(KEY, l2 * 0.99, 0.5))


@pytest.mark.parametrize(("l2", "beta"), [(0, 0.5), (math.inf, 0.5), (1, 0), (1, 1)])
def test_impossible_conditions_are_refused(l2, beta):
    with pytest.raises(ValueError, match="0 < beta < 1"):
        Conditional(KEY, l2, beta)


def _measure():
    """Print CPU ms for 1e6 float32."""
    x = (np.random.default_rng(0).standard_normal(1_000_000) * 0.01).astype(np.float32)
    for fixed in (FixedPoint.finest(32, 0.1, 100, 600), FixedPoint(64, 24, 0.1, 1000, 60_000)):
        total = fixed.encode(x, 77, Nearest()).ring
        for rounding in (Nearest(), Stochastic(KEY), Conditional(KEY, 10.5, 0.6)):
            ms = _milliseconds(fixed.encode, x, 77, rounding)
            print(f"ring {fixed.ring_bits}: encode {type(rounding).__name__} {ms:.2f} ms")
        print(f"ring {fixed.ring_bits}: decode {_milliseconds(fixed.decode, total):.2f} ms")


def _milliseconds(call, *arguments):
    times = []
    for _ in range(9):
        start = time.process_time()
        call(*arguments)
        times.append(time.process_time() - start)
    return 1e3 * min(times)


if __name__ == "__main__":
    _measure()
