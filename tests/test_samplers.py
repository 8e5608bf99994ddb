"""Noise samplers against exact probabilities, exact sums and the uniform numbers at the edges of their tables."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.special import ive

from cloister.crypto import samplers
from cloister.crypto.samplers import Table, discrete_gaussian, gaussian_table, skellam, skellam_table

KEY = bytes(range(32))
BITS = 2**256


def gaussian_pmf(variance: float, x: np.ndarray) -> np.ndarray:
    reach = np.arange(-int(40 * math.sqrt(variance)) - 40, int(40 * math.sqrt(variance)) + 41)
    return np.exp(-(x**2) / (2 * variance)) / np.exp(-(reach**2) / (2 * variance)).sum()


def skellam_pmf(variance: float, x: np.ndarray) -> np.ndarray:
    return ive(np.abs(x), variance)


def chi_square(samples: np.ndarray, pmf, variance: float, bins: int = 60) -> float:
    """p-value of the samples against the exact probabilities, in about `bins` bins that all expect 20 or more."""
    reach = int(12 * math.sqrt(variance)) + 30
    support = np.arange(-reach, reach + 1)
    expected = pmf(variance, support) * len(samples)
    cells = np.minimum(np.cumsum(expected) * bins / len(samples), bins - 1e-9).astype(int)
    observed = np.bincount(cells[samples + reach], minlength=bins)
    wanted = np.bincount(cells, weights=expected, minlength=bins)
    keep = wanted > 20
    assert wanted[keep].sum() > 0.99 * len(samples)
    observed, wanted = np.append(observed[keep], observed[~keep].sum()), np.append(wanted[keep], wanted[~keep].sum() + 1e-9)
    if wanted[-1] < 20:
        observed, wanted = observed[:-1], wanted[:-1]
    return float(stats.chi2.sf(((observed - wanted) ** 2 / wanted).sum(), len(wanted) - 1))


@pytest.mark.parametrize("variance", [Fraction(1, 10), Fraction(1, 2), Fraction(4), Fraction(10**4, 7), Fraction(2**22)])
def test_gaussian_table_holds_the_exact_probabilities(variance):
    table = gaussian_table(variance)
    probabilities = np.diff([0, *table.cumulative]).astype(object) / BITS
    support = table.first + np.arange(len(probabilities))
    expected = gaussian_pmf(float(variance), support.astype(float))
    assert np.abs(np.array(probabilities, dtype=float) - expected).sum() < 1e-12
    assert table.first == -support[-1]
    assert 2 * math.exp(-(table.first**2) / (2 * variance)) < 2.0**-200


@pytest.mark.parametrize("variance", [Fraction(1, 10), Fraction(3), Fraction(500), Fraction(2**18)])
def test_skellam_table_holds_the_exact_probabilities(variance):
    table = skellam_table(variance)
    probabilities = np.diff([0, *table.cumulative]).astype(object) / BITS
    support = table.first + np.arange(len(probabilities))
    assert np.abs(np.array(probabilities, dtype=float) - skellam_pmf(float(variance), support)).sum() < 1e-10


def test_skellam_table_is_the_difference_of_poisson_variables_to_many_digits():
    """Independent of Bessel values: sum_j p(j + x) p(j) with exact rational Poisson weights of mean 1."""
    table = skellam_table(Fraction(2))
    terms = [Fraction(1, math.factorial(j)) for j in range(120)]
    weight = {x: sum(terms[j + x] * terms[j] for j in range(120 - x)) for x in range(60)}
    total = weight[0] + 2 * sum(weight[x] for x in range(1, 60))
    for x in range(12):
        at = x - table.first
        probability = Fraction(table.cumulative[at] - table.cumulative[at - 1], BITS)
        assert abs(probability - weight[x] / total) < Fraction(1, 2**180)


@pytest.mark.parametrize(
    ("sample", "pmf", "variance"),
    [
        (discrete_gaussian, gaussian_pmf, Fraction(1, 3)),
        (discrete_gaussian, gaussian_pmf, Fraction(4)),
        (discrete_gaussian, gaussian_pmf, Fraction(10**7, 3)),
        (discrete_gaussian, gaussian_pmf, Fraction(2**22 + 1)),
        (discrete_gaussian, gaussian_pmf, Fraction(10**9, 7)),
        (skellam, skellam_pmf, Fraction(1, 3)),
        (skellam, skellam_pmf, Fraction(4)),
        (skellam, skellam_pmf, Fraction(10**5)),
    ],
)
def test_a_million_samples_fit_the_exact_distribution(sample, pmf, variance):
    count = 10**6
    samples = sample(KEY, count, variance)
    assert samples.dtype == np.int64
    assert samples.shape == (count,)
    assert chi_square(samples, pmf, float(variance)) > 1e-4
    deviation = samples.std()
    assert abs(samples.mean()) < 5 * deviation / math.sqrt(count)
    support = np.arange(-int(12 * float(variance) ** 0.5) - 30, int(12 * float(variance) ** 0.5) + 31)
    exact = float((pmf(float(variance), support) * support.astype(float) ** 2).sum())
    kurtosis = float((pmf(float(variance), support) * support.astype(float) ** 4).sum()) / exact**2
    assert abs((samples**2).mean() / exact - 1) < 5 * math.sqrt((kurtosis - 1) / count)
    assert abs(np.corrcoef(samples[1:], samples[:-1])[0, 1]) < 5 / math.sqrt(count)


def test_the_fit_notices_a_rounded_gaussian():
    """The test above can fail: at sigma = 0.6 the rounded continuous Gaussian is another distribution."""
    rounded = np.rint(np.random.default_rng(0).normal(0, 0.6, 10**6)).astype(np.int64)
    assert chi_square(rounded, gaussian_pmf, 0.36) < 1e-12


def test_largest_deviation_has_the_right_moments_and_residues():
    """At sigma = 2^20 = fine + step * coarse, no trace of the step is left."""
    _, step, _ = samplers._split(Fraction(2**40))
    samples = discrete_gaussian(KEY, 10**6, 2**40)
    assert abs((samples.astype(float) ** 2).mean() / 2**40 - 1) < 5 * math.sqrt(2 / 10**6)
    assert stats.kstest(samples / 2**20, "norm").pvalue > 1e-4
    residues = np.bincount(samples % step, minlength=step)
    assert stats.chisquare(residues).pvalue > 1e-4


@pytest.mark.parametrize("variance", [Fraction(2**22) + Fraction(1, 9), Fraction(10**9, 7), Fraction(2**40)])
def test_split_is_exact_and_smooth(variance):
    fine, step, coarse = samplers._split(variance)
    assert fine + step**2 * coarse == variance
    assert max(fine, coarse) <= samplers.GAUSSIAN_TABLE_DEVIATION**2
    smooth = fine * step**2 * coarse / variance / step**2
    assert 2 * math.exp(-2 * math.pi**2 * float(smooth)) < 2.0**-195


def test_sum_of_fine_and_coarse_is_the_discrete_gaussian():
    """The convolution lemma at a size where all probabilities can be written down, with the constant in use."""
    step, fine, coarse = 3, 7.0 * 9, 100.0
    x = np.arange(-400, 401)
    low, high = gaussian_pmf(fine, x.astype(float)), gaussian_pmf(coarse, x.astype(float))
    total = np.zeros(len(x))
    for j in range(-120, 121):
        total += high[400 + j] * np.interp(x - step * j, x, low, left=0, right=0)
    relative = total / gaussian_pmf(fine + step**2 * coarse, x.astype(float))
    middle = np.abs(x) <= 150
    assert np.abs(relative[middle] - 1).max() < 1e-9


def test_inversion_compares_all_256_bits():
    """Uniform numbers whose top word equals an entry's are decided by the rest, from either side of the entry."""
    top = 2**63
    leading = np.array([top, 2**64 - 1], dtype=np.uint64)
    below, above = (Table(5, ((top << 192) | low, BITS), leading) for low in (0, 2**192 - 1))
    words = np.full(100, top, dtype=np.uint64)
    assert (below.invert(words, KEY) == 6).all()  # U >= entry
    assert (above.invert(words, KEY) == 5).all()  # U < entry
    assert (below.invert(words - np.uint64(1), KEY) == 5).all()
    assert (below.invert(np.full(3, 2**64 - 1, dtype=np.uint64), KEY) == 6).all()


def test_extreme_uniform_numbers_stay_in_the_table():
    table = gaussian_table(Fraction(4))
    samples = table.invert(np.array([0, 2**64 - 1], dtype=np.uint64), KEY)
    assert table.first <= samples[0] < -15
    assert 15 < samples[1] <= -table.first


@pytest.mark.parametrize("sample", [discrete_gaussian, skellam])
def test_a_key_names_its_samples(sample):
    assert np.array_equal(sample(KEY, 100, 9), sample(KEY, 100, 9))
    assert not np.array_equal(sample(KEY, 100, 9), sample(KEY[::-1], 100, 9))
    assert sample(KEY, 0, 9).shape == (0,)


def test_the_two_distributions_draw_apart():
    left, right = discrete_gaussian(KEY, 10**5, 100), skellam(KEY, 10**5, 100)
    assert abs(np.corrcoef(left, right)[0, 1]) < 0.02


@pytest.mark.parametrize(
    ("sample", "variance"),
    [(discrete_gaussian, 0), (discrete_gaussian, -1), (discrete_gaussian, 2**40 + 1), (skellam, 2**24 + 1)],
)
def test_variances_out_of_range_are_refused(sample, variance):
    with pytest.raises(ValueError, match="variance"):
        sample(KEY, 1, variance)
