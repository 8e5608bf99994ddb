"""Cuts of the clients of one model in two sides that go different ways: what the hardened FLIC looks for.

All tests look at two sides: those with entries above and below 0 in one of the first eigenvectors of a matrix of cosines, after
which everybody goes to the side that it is more like. None asks which side is loyal: each goes on with a model of its own, and
clients choose.

- **Opposed**: cosines between the sides are below 0 by more than chance gives the best of all cuts. On the averages of all rounds
  this finds who works against whom, however short, long or rare the updates are.
- **Turned**: one round's cosines, or those of late, held against what the pair's have been so far. Data make each pair alike in a
  way of its own, and that way stays. Of clients that turn little of it is left, or its opposite, with all others at once: what is
  sought is the cut between whose sides the slope of today's cosines over the usual ones is least, next to the slope inside. It is
  found at once, in the round in which it happens, before anything is summed, and clients that differ by their data alone, who
  pull different ways late in training, do not look like it: they do so as ever. Beside it stands a test whether cosines times the
  usual ones are opposed.
- **Parted**: who was cut from each other by a round itself, of late. It fades, more slowly every time; until then it holds,
  however they behave.
- **Tight**: what one side shares, and the other does not, is more than chance and different data give: copies (ALIE, Min-Max), a
  backdoor, a planted group. Its eigenvalue stands out of the rest. Who only leans to it stays with the others. Over all sessions
  of many clients little of it is enough: coalitions that push one way share less than copies, and all their lives.
- **Lengths**: no norm within a factor of three of where the sides meet.

A few clients can make it look as if all others were of two kinds: half of them with one half of the others and against the rest,
which moves everybody's averages. So the first four tests ask it once more of those of either side that show it least, with the
other half left out: between sides that really go different ways, every client shows it. Of fewer than eight who may have turned
there is no half that says anything, and they are not asked again.

What they do not see: what is no more than chance. Who keeps orthogonal to the loyal and is not like others of its kind is
summed, and so is who turns when honest updates themselves are noise, for as long as they are.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from .evidence import Mask, Matrix

Sides = tuple[list[int], list[int]]
LOST = 8.5
"""Standard errors by which less is left of the usual cosines between sides of 20 clients than inside of them, when it is no
chance: the best of all cuts had up to 9 without attack, in one of 700 rounds."""
LEFT = 0.25
"""And it is less than this share of what is left inside."""
STILL_LEFT = 0.5
"""And less than this share is left between those of either side that turned least."""
ENOUGH = 0.125
"""Of the weight of all pairs between two sides: those who are asked once more have at least about that."""
DIRECTIONS = 3
"""Eigenvectors that are looked at: who is of several minds at once must not hide one behind another."""
MOVES = 10
"""Rounds of moves that settle the sides."""
CHANCE, FEW_CLIENTS = 2.4, 90.0
"""Below -(CHANCE + FEW_CLIENTS / n^2) deviations / sqrt(n) the mean cosine of the best of all cuts is no chance: noise of 4 to
40 clients gets there once in a hundred cuts or less; its median is about -1.7."""
OUTSTANDING = 2.0
"""An eigenvalue that stands out is so many times the next."""
TIGHT = 0.4
"""Mean cosine about the mean that is more than different data give."""
STILL_TIGHT = 0.3
"""Mean cosine about the mean among that half of a tight side that is least so."""
TIGHT_BY_NOW, STILL_BY_NOW = 0.06, 0.04
"""The same of the averages of all sessions, in which chance is small: there it is by its eigenvalue that a side stands out. Of
clean runs of 20 it is 1.0 to 1.7 times the next, of coalitions that push one way 2 to 5 times, and of those that hide it
(`Together`) 1.2 to 1.95, which pass. Of `A_CROWD` or more."""
A_CROWD = 16
"""Clients of whom that can be said: of 8 or 10 honest ones of skewed labels some stood out by twice, and were parted."""
CORE = 0.75
"""Times the likeness of whoever is most like a tight side: who has less does not belong to it."""
FEW, SEVERAL = 8, 10
"""Clients among whom likeness is looked for, on average over rounds, and in a single one. FEW too are those who may have turned
of whom the quieter half is asked once more."""
APART = 3.0
"""Ratio of norms that are not of one kind."""
FAR = 5.0
"""Ratio of norms that no two clients of a kind have: a few loyal ones may be where long attackers are many."""
KIND = 4
"""Clients of one length that are a kind: of two or three honest ones of five it happens by chance, late in training."""


def directions(matrix: Matrix, known: Mask) -> Iterator[tuple[Sides | None, float, float]]:
    """The sides of the first eigenvectors, None where there is but one, with their eigenvalues and the next one."""
    values, vectors = np.linalg.eigh(matrix)
    for k in range(1, min(DIRECTIONS, len(values) - 1) + 1):
        above = settled(matrix, known, vectors[:, -k] >= 0)
        sides = [int(i) for i in np.flatnonzero(above)], [int(i) for i in np.flatnonzero(~above)]
        yield sides if sides[0] and sides[1] else None, float(values[-k]), float(values[-k - 1])


def settled(matrix: Matrix, known: Mask, above: Mask) -> Mask:
    """The side of each client, bool (n,), after a few rounds in which all move to the side that they are more like on average."""
    for _ in range(MOVES):
        likeness = []
        for side in (above, ~above):
            count = known[:, side].sum(axis=1)
            likeness.append(np.divide(matrix[:, side].sum(axis=1), count, out=np.zeros(len(matrix)), where=count > 0))
        moved = np.where(likeness[0] == likeness[1], above, likeness[0] > likeness[1])
        if np.array_equal(moved, above):
            break
        above = moved
    return above


def opposed(cosines: Matrix, known: Mask) -> Sides | None:
    """The two sides whose cosines between each other are farthest below 0, if that is more than chance.

    cosines: (n, n), symmetric, 0 on the diagonal and where not known. Deviations are of known cosines from their side's mean.
    """
    best, found = -(CHANCE + FEW_CLIENTS / max(1, len(cosines)) ** 2), None
    for sides, _, _ in directions(cosines, known):
        if sides is None:
            continue
        one, other = sides
        between = cosines[np.ix_(one, other)][known[np.ix_(one, other)]]
        inside = [cosines[np.ix_(side, side)][known[np.ix_(side, side)]] for side in (one, other)]
        if not len(between):
            continue
        rest = np.concatenate([values - values.mean() for values in (between, *inside) if len(values)])
        share = known.sum() / max(1, len(known) * (len(known) - 1))
        error = max(float(rest.std()), 1e-9) / np.sqrt(len(known) * share)
        if between.mean() / error < best and cosines[np.ix_(*quieter(cosines, known.astype(np.float64), one, other))].sum() < 0:
            best, found = float(between.mean()) / error, (one, other)
    return found


def turned(now: Matrix, usual: Matrix, known: Mask) -> Sides | None:
    """The two sides between which cosines are least what they usually are, next to those inside of them, if that is no chance.

    now, usual: (n, n), symmetric. What is left of the usual is a slope: of least squares, of the cosines now over those that are
    usual. A side has two clients or more. Of four or five clients that are as usual but for noise as large as what their pairs
    differ by it parts some in three to four of a hundred rounds, of eight or more in fewer than one.
    """
    usual = np.where(known, usual, 0.0)
    square = usual**2
    if not square.any():
        return None
    pull = usual * now - square * float((usual * now).sum() / square.sum())
    best, found = -LOST * np.sqrt(len(now) / 20), None
    for vector in np.linalg.eigh(pull)[1].T[: -DIRECTIONS - 1 : -1]:
        above = swung(pull, vector >= 0)
        one, other = ([int(i) for i in np.flatnonzero(side)] for side in (above, ~above))
        if min(len(one), len(other)) < 2:
            continue
        inside = (above[:, None] == above[None, :]) & known
        across = (above[:, None] != above[None, :]) & known
        weights = float(square[inside].sum()), float(square[across].sum())
        if min(weights) == 0:
            continue
        slopes = [float((usual * now)[part].sum()) / weight for part, weight in zip((inside, across), weights, strict=True)]
        rest = (now - usual * np.where(inside, *slopes))[known]
        error = max(float(rest.std()), 1e-9) * np.sqrt(2 / weights[0] + 2 / weights[1])
        if slopes[1] >= LEFT * slopes[0] or (slopes[1] - slopes[0]) / error >= best:
            continue
        block = np.ix_(*quieter(usual * now - square * slopes[0], square, one, other))
        if len(now) < FEW or float((usual * now)[block].sum()) < STILL_LEFT * slopes[0] * float(square[block].sum()):
            best, found = (slopes[1] - slopes[0]) / error, (one, other)
    return found


def quieter(shown: Matrix, weight: Matrix, one: Sequence[int], other: Sequence[int]) -> tuple[list[int], list[int]]:
    """Both sides without the half of each that shows most against the other, one after another, while enough weight is left.

    shown: (n, n), the less the more a pair shows; weight: (n, n), what a pair counts; both 0 where nothing is known. A few may
    make two sides of all others look apart: without them they do not.
    """
    sides = list(one), list(other)
    left = [len(side) // 2 for side in sides]
    enough = ENOUGH * float(weight[np.ix_(*sides)].sum())
    while any(left) and weight[np.ix_(*sides)].sum() > enough:
        sums = [shown[np.ix_(*sides)].sum(axis=1 - k) for k in (0, 1)]
        k = min((k for k in (0, 1) if left[k]), key=lambda k: float(sums[k].min()))
        del sides[k][int(np.argmin(sums[k]))]
        left[k] -= 1
    return sides


def swung(pull: Matrix, above: Mask) -> Mask:
    """The side of each client, bool (n,), after moves, one at a time, by which pairs on one side pull each other the more."""
    sign = np.where(above, 1.0, -1.0)
    for _ in range(len(pull) * MOVES):
        gain = sign * (pull @ sign)
        if gain.min() >= 0:
            break
        sign[int(np.argmin(gain))] *= -1
    return sign > 0


def tight(centred: Matrix, known: Mask, fewest: int, enough: float = TIGHT, still: float = STILL_TIGHT) -> Sides | None:
    """The two sides of which one is tightest about the mean of all, if that is more than different data give.

    centred: cosines about the mean, (n, n), 0 on the diagonal and where not known; fewest: least n. enough: what the tightest has
    inside at least, in the mean. still: and among those of it that show least.
    """
    if len(centred) < fewest:
        return None
    cuts = list(directions(centred, known))
    last = max((k for k, (_, value, following) in enumerate(cuts) if value >= OUTSTANDING * max(following, 0.0)), default=-1)
    best, found = enough, None
    for sides, _, _ in cuts[: last + 1]:
        for side in sides or ():
            inside = centred[np.ix_(side, side)][known[np.ix_(side, side)]]
            if len(inside) and inside.mean() >= best and quietest(centred, known, side) >= still:
                best, found = float(inside.mean()), cored(centred, known, side)
    return found


def cored(centred: Matrix, known: Mask, side: Sequence[int]) -> Sides:
    """The side without those that are less like it, in the mean, than `CORE` times whoever is most, one by one; and all others.

    Who merely leans to what some share, as a loyal client to a coalition that pushes its way, is not of their kind.
    """
    core = list(side)
    while len(core) > 2:
        block = np.ix_(core, core)
        likeness = centred[block].sum(axis=1) / np.maximum(known[block].sum(axis=1), 1)
        if likeness.min() >= CORE * likeness.max():
            break
        del core[int(np.argmin(likeness))]
    return core, sorted({*range(len(centred))} - {*core})


def quietest(centred: Matrix, known: Mask, side: Sequence[int]) -> float:
    """Mean of the known values among that half of a side that shows least, when one after another is left out; 0 for none."""
    rest = list(side)
    while len(rest) > max(2, (len(side) + 1) // 2):
        block = np.ix_(rest, rest)
        del rest[int(np.argmax(centred[block].sum(axis=1) / np.maximum(known[block].sum(axis=1), 1)))]
    block = np.ix_(rest, rest)
    return float(centred[block].sum()) / max(1, int(known[block].sum()))


def lengths(norms: Matrix, least: int) -> Sides | None:
    """The short and the long, where neighbouring norms differ most: by `APART` or more with at least `least` on each side, or by
    `FAR`, however few the short are, where the long are more, a kind, and not alone. A few long ones are shortened."""
    order = np.argsort(norms, kind="stable")
    ratios = norms[order][1:] / np.maximum(norms[order][:-1], 1e-300)
    inner, fewer = ratios[least - 1 : len(norms) - least], ratios[: (len(norms) - 1) // 2]
    if len(norms) > KIND + 1 and fewer.max() >= FAR:
        cut = int(np.argmax(fewer)) + 1
    elif len(inner) and inner.max() >= APART:
        cut = int(np.argmax(inner)) + least
    else:
        return None
    return sorted(int(i) for i in order[:cut]), sorted(int(i) for i in order[cut:])
