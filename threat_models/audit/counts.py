"""How many samples a client has, where sums are weighted by them and nobody is told the weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .estimates import DIVERSE
from .experiment import Anchor, Budget, Evidence, Finding
from .hidden_counts import counts_of, told_of_counts
from .labels import honest
from .participation import clusters_of, rows_of
from .reading import samples
from .truth import Truth
from .unread import unread

ALIKE = 0.02
"""Spread of counts, relative to their mean, up to which there is nothing to find out."""


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """Of each client 1 - (n' - n)^2 / variance, n and n' less the means of its cluster, corrupt ones among them: in the mean R^2,
    so 0 for who knows how many a cluster has in all, 1 for who knows each, and of a client far from the mean less than 0.

    A client's cluster are those of the last published sum that it is in, whose total is published with it; all, of a run without.
    Counts that are sent in clear, or up to one factor, are read. Else they are those that fit best to all that is known of them
    at once, as far as it goes by the spread of counts in the attacker's own run, or a usual one if all have as many there: totals
    of sums, which differ with who is in them; with the clients' seed, sketches of the updates, of which that of the published
    mean is the weighted mean; without it, sketches under one key, of which products of weighted means are those of the published
    ones; and differences in a Gram matrix, which with the right weights are as far apart as the sum's energy says.
    """

    name: str = "counts"
    unit: str = "share of what sets a client's number of samples apart from its cluster's mean"
    side: str = "a run of its own, for how counts vary"
    source: str = "least squares on totals, sketches and Gram matrices"
    anchor: Anchor = "chance"

    def applies(self, evidence: Evidence, /) -> str:
        if reason := unread(evidence):
            return reason
        told = samples(evidence.view).keys() & set(honest(evidence.view))
        if not told and not any(s.times_samples for s in evidence.sums.sums):
            return "sums do not count samples, and no count is sent to it"
        return ""

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        view = evidence.view
        clients, all_ = honest(view), view.public.clients
        together = clusters_of(rows_of(evidence.sums.sums)) or dict.fromkeys(all_, all_)
        true = {i: float(len(truth.population.clients[i].train)) for i in together}
        apart = _less_means(true, together)
        spread = float(np.std([*apart.values()]))
        if spread <= ALIKE * float(np.mean([*true.values()])):
            return Finding((), np.zeros(0), why="all clients of a cluster have as many samples")
        known = np.array([len(c.train) for c in evidence.known.population.clients.values()], np.float64)
        usual = float(known.std() / known.mean())
        guess = counts_of(view, clients, float(known.mean()), usual if usual > ALIKE else DIVERSE)
        of = dict(zip(clients, guess, strict=True))
        if told_of_counts(view):  # who is told nothing tells nobody from its own
            of |= {i: float(len(held.examples)) for i, held in view.held.items()}
        believed = _less_means(of, together)
        victims = tuple(i for i in clients if len(together.get(i, ())) > 1)
        return Finding(victims, np.array([1 - ((believed[i] - apart[i]) / spread) ** 2 for i in victims]))


def _less_means(counts: Mapping[int, float], together: Mapping[int, Sequence[int]]) -> dict[int, float]:
    """Less the mean of the cluster, as far as it is counted."""
    return {
        i: counts[i] - float(np.mean([counts[j] for j in near if j in counts])) for i, near in together.items() if i in counts
    }
