"""How much an update counts in its community's sum, in the hardened FLIC. Nothing here asks for more than cosines and norms.

- **Shortening.** An update longer than `factor` times the median norm of its part, or twice what is usual there, is shortened
  to that. With a factor of 1, the usual one, nobody's counts for more than that of the client in the middle, and half of the
  honest ones are shortened; only with labels dealt by Dirichlet(0.1) did that cost anything that was measured, .007. With 1.5,
  usual before, updates orthogonal to what others share did half as much harm again. A sum that would rest on too few for its
  floor is of updates shortened to `LOOSE` times the median. None is ever left out for its length, and its direction is evidence
  whatever its length. Both medians are over all clients of the part, also those that are not in the session, by the norms that
  they were seen with last: of a few that are drawn those who lie may be most, and next to updates of next to nothing all others
  would be shortened to nothing, too. Before all of a part were drawn, twice the least norm stands for the median, as the first
  few may be theirs, and a model that they carry away in the first round is no start for anybody, while one that hardly moves
  until then is. An update of less than a third of the median counts the less, the shorter it is, as one of zero counts for
  nothing: else it would shorten the step. Who is more than half of a part can slow it.
- **Likeness.** Who shares with others what the rest lacks counts the less, the more there are of its kind: m copies count as one.
- **In line.** Over all sessions, a client counts as much as its mean cosine to the others, next to the upper quartile of theirs.
  An update orthogonal to what the others share is against nobody and parted from nobody, but many of them carry a model away;
  half of a part that is not loyal draws the median down with it, and not the upper quartile. Who leans to what is shared counts
  for more, and does less harm: with a sharper rule, such as the square, what leans by half did more than it prevented. Clients
  of odd labels count the less, too: with labels dealt by Dirichlet(0.1) that cost .01 of accuracy in the mean, and .015 to .03
  where half of the clients were drawn; elsewhere nothing beyond noise. A sum that would show too much of one client under the
  floor is made without.
- **Against.** An update that is against its part's by more than a standard error is not summed in that round.

What they do not stand against: updates that lean a little to what the others share, are of usual length, and for the rest like
nobody else's.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from .evidence import Matrix

ENOUGH = 4
"""Clients of whom a mean cosine has an error worth the name."""
MANY = 6
"""Clients of whom it can be told who goes the others' way less than usual; of five who are drawn it cost clean runs accuracy."""
UPPER = 0.75
"""Which quantile of clients' mean cosines counts in full."""
SLACK = 0.1
"""Likeness about the mean that is chance."""
USUAL = 2.0
"""Times what was usual that an update may be long."""
EARLY = 2.0
"""Times the least norm, which stand for the median until all of a part were drawn: with less, honest updates count so unlike
that a sum at the floor is withheld."""
LOOSE = 1.5
"""Times the median norm, to which updates are shortened where more would leave a sum to too few of them."""
SHORT = 0.3
"""Of the median, below which an update counts the less, the shorter it is."""
GROWTH = 1.2
"""By how much what is usual for a client may grow from session to session; it may fall at once."""


def shortened(
    norms: Matrix, factor: float, elsewhere: Sequence[float] = (), usual: float | None = None, all_drawn: bool = True
) -> Matrix:
    """Factors of at most 1, (n,), for updates of these norms, (n,); 0 for an update of 0, which does not count in the median.

    elsewhere: the last norms of the part's other clients. usual: of all of them before this session, None if that is not known.
    all_drawn: whether all of the part were drawn once; else the least norm, times `EARLY`, stands for the median, and
    short ones count in full.
    """
    some = [*norms[norms > 0], *elsewhere]
    if not some:
        return np.zeros_like(norms)
    limit = factor * (float(np.median(some)) if all_drawn else EARLY * min(some))
    limit = limit if usual is None else min(limit, USUAL * usual)
    factors = np.minimum(1.0, np.divide(limit, norms, out=np.zeros_like(norms), where=norms > 0))
    return factors * np.minimum(1.0, norms / (SHORT * float(np.median(some)))) if all_drawn else factors


def lengthened(lengths: Mapping[int, float], clients: Sequence[int], norms: Matrix) -> Mapping[int, float]:
    """The norms that clients were seen with last, with those of a session, (n,), of which none grows faster than `GROWTH`."""
    of = zip(clients, norms, strict=True)
    return {**lengths, **{i: min(float(norm), GROWTH * lengths[i]) if i in lengths else float(norm) for i, norm in of}}


def of_their_own(centred: Matrix) -> Matrix:
    """1 / (1 + likeness to others above chance) for each client: (n,) from cosines about the mean, (n, n), diagonal 0."""
    found: Matrix = 1 / (1 + np.maximum(centred - SLACK, 0.0).sum(axis=1))
    return found


def in_line(cosines: Matrix) -> Matrix:
    """min(1, m / upper quartile of all m), at least 0, for each client of `MANY` or more: (n,).

    m: a client's mean cosine to the others. 1 for all where the quartile is not above 0, and nothing is shared. cosines: (n, n);
    the diagonal does not count.
    """
    n = len(cosines)
    if n < MANY:
        return np.ones(n)
    mean = cosines[~np.eye(n, dtype=np.bool_)].reshape(n, n - 1).mean(axis=1)
    usual = float(np.quantile(mean, UPPER))
    return np.clip(mean / usual, 0.0, 1.0) if usual > 0 else np.ones(n)


def against(cosines: Matrix) -> list[int]:
    """The positions whose mean cosine to the others is below 0 by more than its standard error; of `ENOUGH` or more.

    cosines: (n, n); the diagonal does not count.
    """
    n = len(cosines)
    if n < ENOUGH:
        return []
    others = cosines[~np.eye(n, dtype=np.bool_)].reshape(n, n - 1)
    return [int(k) for k in np.flatnonzero(others.mean(axis=1) < -others.std(axis=1, ddof=1) / np.sqrt(n - 1))]


def enough(choices: Sequence[Matrix], floor: int) -> Matrix:
    """The first of these weights, (n,) each, that rest on as many equal clients as the floor, or the last."""
    return next((weights for weights in choices if rests_on(weights) >= floor), choices[-1])


def rests_on(weights: Matrix) -> float:
    """As many equal clients as a sum with these weights, (n,), hides each of its own among: the squares' sum over the largest."""
    square = weights**2
    return float(square.sum() / square.max()) if square.any() else 0.0


def counted(clients: Sequence[int], factors: Matrix) -> Mapping[int, float]:
    """The factors by client, without those that are 0."""
    return {i: float(factor) for i, factor in zip(clients, factors, strict=True) if factor > 0}
