"""What a guess is worth, with intervals: areas, rates at few false alarms, leakage between sums alone and everything."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta
from scipy.stats import t as student

from .ranks import by_chance, pairs_won

Values = NDArray[np.float64]
CONFIDENCE = 0.95
SEEDS = 3
"""Runs from which on intervals are over runs, too: of fewer nothing can be said of how runs differ."""
THROWS = 5
"""Runs from which on they tell anything, where all victims of one go right or wrong together: fewer coins may well fall alike."""
RESAMPLED = 4000
BOUND = 0.1
"""Leakage that is to be spoken of, where no claim has another bound."""
APART = 0.2
"""Least difference between everything and sums alone for a leakage to mean something."""

KNOWN = 0.5
"""Of what there is to find, from which on it is said that it is known without the view."""
GOOD = 30.0
"""dB of PSNR at which a picture counts as recovered: hardly to be told from the original."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate between bounds, each exceeded with probability (1 - CONFIDENCE) / 2."""

    low: float
    value: float
    high: float


def proportion(hits: int, of: int, confidence: float = CONFIDENCE) -> Interval:
    """A share, by Clopper and Pearson (1934)."""
    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, hits, of - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, of - hits)) if hits < of else 1.0
    return Interval(low, hits / of if of else 0.0, high)


def auc(members: Values, others: Values) -> Interval:
    """The chance that a member scores higher than another, ties half; interval by Hanley and McNeil (1982), eq. 1, of the area
    with half a pair more to either side, as else it has no width where all pairs are ranked right.
    """
    m, n = len(members), len(others)
    won = pairs_won(members, others)
    area, about = won / (m * n), (won + 0.5) / (m * n + 1)
    q1, q2 = about / (2 - about), 2 * about**2 / (1 + about)
    variance = (about * (1 - about) + (m - 1) * (q1 - about**2) + (n - 1) * (q2 - about**2)) / (m * n)
    half = 1.96 * float(np.sqrt(max(variance, 0.0)))
    return Interval(max(0.0, area - half), area, min(1.0, area + half))


def auc_within(runs: Sequence[tuple[Values, Values]], alike: bool = False, same: bool = False) -> Interval:
    """The chance that a member scores higher than another of the same run: scores of two runs have no common scale. Each run
    counts by its pairs, and runs are independent. runs: members and others of each, one at least with both.

    The interval is over scores, and over runs if that is wider (Student's t); it holds a half where a guess ranks as many pairs
    right by chance. alike: whether the scores of a run go right or wrong together, so that one run is one throw of a coin, and
    its interval everything. same: whether runs are of the same members and others, so that more runs do not make it narrower.
    """
    both = [(auc(members, others), len(members) * len(others)) for members, others in runs if len(members) and len(others)]
    shares = np.array([pairs for _, pairs in both]) / sum(pairs for _, pairs in both)
    area = float(shares @ [one.value for one, _ in both])
    halves = np.array([max(one.high - one.value, one.value - one.low) for one, _ in both])
    half = float(shares @ halves) if same else float(np.sqrt((shares**2) @ halves**2))
    if len(both) > 1:
        deviation = float(np.std([one.value for one, _ in both], ddof=1))
        half = max(half, float(student.ppf(0.975, len(both) - 1)) * deviation / np.sqrt(len(both)))
    elif alike:
        half = 1.0
    tail = (1 - CONFIDENCE) / 2
    above, below = by_chance(runs, same), by_chance([(others, members) for members, others in runs], same)
    if alike and len(both) < THROWS:
        above = below = 1.0
    low = max(0.0, area - half) if above < tail else min(0.5, max(0.0, area - half))
    return Interval(low, area, min(1.0, area + half) if below < tail else max(0.5, min(1.0, area + half)))


def tpr_at(fpr: float, members: Values, others: Values) -> Interval | None:
    """Share of members found at a threshold that at most this share of the others passes; None where that is less than one of
    them: of so few a guess finds more.
    """
    if len(others) * fpr < 1:
        return None
    ordered = np.sort(others)[::-1]
    allowed = int(np.floor(fpr * len(others)))
    return proportion(int((members > ordered[allowed]).sum()), len(members))


MANY = 10**6
"""Victims, at most, that are said to be needed."""
EXPOSED = 0.5
"""Share of what there is to find of a victim at which it counts as exposed."""


@dataclass(frozen=True, slots=True)
class Leakage:
    """How much of the way from sums alone (0) to everything (1) a view goes. here, aggregate, plain: mean values on the way.

    low, value, high: as in `Interval`; value is above 1 where a coalition's view tells more than the updates in clear alone.
    upper: at least what is exceeded with probability 1 - CONFIDENCE. high and upper are no less than the share of exposed victims
    that there may be among others, if of these none or so few are. exposed: which of them are, by
    place. needed: victims at which the interval would be on one side of `bound`, if it went on like this; 0 where it is, and
    where no number of victims tells: the anchors are not APART, or what was found is at the bound. valid: whether they are, and
    surely so: by resampling, too, plain is above aggregate, or a victim that was compared with no other is exposed. lone: they
    are not, as what there is to find is of few of the victims, and of some of these it was found for certain. ranked: who is
    exposed was held against what a guess would find. few_runs: the victims of a run go right or wrong together, and runs are
    fewer than THROWS: low to high is everything, and nobody counts as exposed.
    """

    here: float
    aggregate: float
    plain: float
    low: float
    value: float
    high: float
    upper: float
    victims: int
    needed: int
    valid: bool
    exposed: tuple[int, ...] = ()
    lone: bool = False
    ranked: bool = False
    few_runs: bool = False


def leakage(
    here: Values,
    aggregate: Values,
    plain: Values,
    rng: np.random.Generator,
    bound: float = BOUND,
    seeds: Sequence[int] = (),
    moves: Sequence[Values] | None = None,
    whose: Sequence[Hashable] = (),
    same: bool = False,
    alone: Values | None = None,
    chances: Values | None = None,
    alike: bool = False,
) -> Leakage:
    """Of values of the same victims, (n,) each, larger for more leaked: (here - aggregate) / (plain - aggregate) of the means.

    Intervals by resampling runs, and of each its victims, each of whom brings its three values (Davison and Hinkley 1997, section
    3.8). seeds: (n,), of whose run each victim is. Of fewer than SEEDS runs victims alone are resampled, as if all were of one:
    runs of other seeds vary by more than that interval. moves: what is resampled in the place of the three values, where victims
    were compared with each other. Resampling does not see what happens to few: so the upper bound is at
    least that of Clopper and Pearson on the share of exposed victims.

    whose: (n,), the client that each victim is. same: whether clients are the same in all runs: then they are resampled, each
    with all of its runs, if that is wider. alone: what is known of each victim without the view, where that is not `aggregate`,
    for who is exposed; chances: of each, how likely one of the guesses that were made is to find as much. alike: whether all
    victims of a run go right or wrong together.
    """
    n, few_runs = len(here), alike and len(set(seeds)) < THROWS
    stacked = np.stack([here, aggregate, plain])
    means = stacked.mean(axis=1)
    runs = np.unique(seeds, return_inverse=True)[1] if len(set(seeds)) >= SEEDS else np.zeros(n, np.int64)
    drawn = _resampled(stacked if moves is None else np.stack(moves), runs, rng)
    ways = np.abs(drawn[2] - drawn[1])
    ratios = np.where(ways > 0, (drawn[0] - drawn[1]) / np.where(ways > 0, drawn[2] - drawn[1], 1.0), 0.0)
    tail = (1 - CONFIDENCE) / 2
    with np.errstate(invalid="ignore"):  # of numbers that are none, none
        low, high, resampled = np.quantile(ratios, [tail, 1 - tail, CONFIDENCE])
    if same and len(whose) == n:
        by_client = np.quantile(
            _of_clients(stacked if moves is None else np.stack(moves), whose, rng), [tail, 1 - tail, CONFIDENCE]
        )
        low, (high, resampled) = min(low, by_client[0]), np.maximum((high, resampled), by_client[1:])
    apart = float(means[2] - means[1])
    value = float((means[0] - means[1]) / apart) if apart else 0.0
    found = exposed_of(here, aggregate if alone is None else alone, plain, chances)
    upper = np.maximum(resampled, share_at_most(len(found), n))
    there, sums, all_ = (float(mean) for mean in means)
    surely = float(np.mean(drawn[2] > drawn[1])) > CONFIDENCE
    valid = apart >= APART and (surely or (moves is None and bool(found)))
    lone = not valid and moves is None and (bool(found) if chances is not None else _every_time(found, whose))
    found = found if (valid or lone) and not few_runs else ()
    spread = (max(value - float(low), 0.0), max(float(resampled) - value, 0.0))
    if few_runs:
        low, upper, high = min(value, 0.0), max(value, 1.0), max(value, 1.0)
    undecided = valid and low <= bound < upper and not found and not few_runs
    needed = _needed(max(value, 0.0), spread, n, bound) if undecided else 0
    high = max(float(high), share_at_most(len(found), n, 1 - tail))  # each of two sides is exceeded with half the probability
    high, ranked = float(high), chances is not None
    return Leakage(there, sums, all_, float(low), value, high, float(upper), n, needed, valid, found, lone, ranked, few_runs)


def _resampled(stacked: Values, runs: NDArray[np.int64], rng: np.random.Generator) -> Values:
    """Means (3, RESAMPLED) of values (3, n): of as many runs as there are, drawn anew, and of each as many of its victims."""
    places = [np.flatnonzero(runs == run) for run in range(int(runs.max()) + 1)]
    sums, counts = np.zeros((len(stacked), RESAMPLED)), np.zeros(RESAMPLED)
    for drawn in rng.integers(0, len(places), (len(places), RESAMPLED)):
        for run, place in enumerate(places):
            here = np.flatnonzero(drawn == run)
            victims = place[rng.integers(0, len(place), (len(here), len(place)))]
            sums[:, here] += stacked[:, victims].sum(axis=2)
            counts[here] += len(place)
    return np.asarray(sums / counts)


def _of_clients(stacked: Values, whose: Sequence[Hashable], rng: np.random.Generator) -> Values:
    """The way gone, (RESAMPLED,), by clients drawn anew, each with the mean over its runs. stacked: (3, n)."""
    clients = list(dict.fromkeys(whose))
    at = np.array([clients.index(one) for one in whose])
    means = np.stack([stacked[:, at == k].mean(axis=1) for k in range(len(clients))], axis=1)
    drawn = means[:, rng.integers(0, len(clients), (RESAMPLED, len(clients)))].mean(axis=2)
    way = drawn[2] - drawn[1]
    return np.where(way != 0, (drawn[0] - drawn[1]) / np.where(way != 0, way, 1.0), 0.0)


def _every_time(found: tuple[int, ...], whose: Sequence[Hashable]) -> bool:
    """Whether a client is exposed in each of its runs, of which there are two at least."""
    exposed = [whose[k] for k in found] if whose else []
    return any(exposed.count(one) == list(whose).count(one) >= 2 for one in set(exposed))


def exposed_of(here: Values, aggregate: Values, plain: Values, chances: Values | None = None) -> tuple[int, ...]:
    """Places of victims of whom EXPOSED of what there is to find was found, and APART at least; where sums tell more of some by
    chance than the view does, twice that much. None of whom the updates in clear tell less than APART more than sums: what was
    found of such a one is chance. chances: how likely a guess is to find as much of each; of n victims less than a twentieth / n.
    """
    beyond, whole = here - aggregate, plain - aggregate
    noise = float(np.max(-beyond, initial=0.0))
    least = np.maximum(np.maximum(EXPOSED * whole, 2 * noise), APART)
    sure = np.ones(len(here), bool) if chances is None else chances * len(here) < 1 - CONFIDENCE
    return tuple(np.flatnonzero(np.isfinite(beyond) & (beyond >= least) & (whole >= APART) & sure).tolist())


def share_at_most(hits: int, of: int, confidence: float = CONFIDENCE) -> float:
    """What a share is above with probability 1 - confidence at most, by Clopper and Pearson (1934), one-sided."""
    return float(beta.ppf(confidence, hits + 1, of - hits)) if hits < of else 1.0


def fewest_victims(bound: float) -> int:
    """Victims without which a leakage of at most this cannot be shown, even where none is exposed; the bound is above 0."""
    return int(np.ceil(np.log(1 - CONFIDENCE) / np.log(1 - bound)))


def remedy(found: Leakage, seeds: int = 1, bound: float = BOUND) -> str:
    """What it would take to tell whether a leakage is above the bound; empty where it can be told. seeds: that were played."""
    if not found.valid:
        if (apart := max(0.0, found.plain - found.aggregate)) >= APART:
            by_chance = f"which {found.victims} victims may show by chance: take more than {seeds} seed{'s' * (seeds > 1)}"
            return f"in clear the attack finds {apart:.2f} more than is known without it, {by_chance}"
        if found.aggregate >= KNOWN:
            both = f"{found.aggregate:.2f} is known without the view already, and {found.plain:.2f} in clear"
            return f"{both}: too little between them to take shares of"
        words = f"in clear the attack finds only {apart:.2f} more than is known without it, too little to take shares of"
        if found.lone:
            return words
        return f"{words} (from {APART} on): it takes data or training on which the attack works, and not more victims"
    if not np.isfinite(found.value):
        return "what was found is no number"
    if found.few_runs:
        together = "all victims of a run go right or wrong together"
        return f"{together}, so that fewer than {THROWS} runs decide nothing: take {THROWS} seeds"
    if found.low > bound or found.upper <= bound or found.exposed:
        return ""
    if not found.needed:
        return "what was found is at the bound, and no number of victims would tell"
    more = max(seeds + 1, -(-found.needed * seeds // found.victims))
    return f"about {found.needed} victims would tell, and {found.victims} were tried: take {more} seeds in the place of {seeds}"


def _needed(value: float, spread: tuple[float, float], n: int, bound: float) -> int:
    """So many victims until the bound is outside of the interval, with as large a spread, to either side, and none exposed."""
    if not np.isfinite(value) or value == bound:
        return 0
    side = spread[0] if value > bound else spread[1]
    most = max(n + 1, int(min(np.ceil(n * (side / (bound - value)) ** 2), MANY)))
    return max(most, fewest_victims(bound)) if value < bound else most
