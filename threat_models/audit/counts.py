"""How many samples a client has, where sums are weighted by them and nobody is told the weights."""

from dataclasses import dataclass

import numpy as np

from .experiment import Anchor, Budget, Evidence, Finding
from .hidden_counts import counts_of
from .labels import honest
from .reading import samples
from .truth import Truth
from .unread import unread

ALIKE = 0.02
"""Spread of counts, relative to their mean, up to which there is nothing to find out."""


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """Of each client 1 - (n' - n)^2 / variance, n and n' less the means of all: in the mean R^2, so 0 for who knows how many
    there are in all, 1 for who knows each, and of a client that is far from the mean less than 0.

    Counts that are sent in clear are read. Else they are those that fit best to all that is known of them at once, as far as it
    goes by the spread of counts in the attacker's own run: totals of sums, which differ with who is in them; with the clients'
    seed, sketches of the updates, of which that of the published mean is the weighted mean; without it, sketches under one key,
    of which products of weighted means are those of the published ones; and differences in a Gram matrix, which with the right
    weights are as far apart as the sum's energy says.
    """

    name: str = "counts"
    unit: str = "share of what sets a client's number of samples apart from the mean"
    side: str = "a run of its own, for how counts vary"
    source: str = "least squares on totals, sketches and Gram matrices"
    anchor: Anchor = "chance"

    def applies(self, evidence: Evidence, /) -> str:
        if reason := unread(evidence):
            return reason
        counts = [len(c.train) for c in evidence.known.population.clients.values()]
        if np.std(counts) <= ALIKE * np.mean(counts):
            return "all clients have as many samples"
        told = samples(evidence.view).keys() & set(honest(evidence.view))
        if not told and not any(s.times_samples for s in evidence.sums.sums):
            return "sums do not count samples, and no count is sent to it"
        return ""

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        view = evidence.view
        clients = honest(view)
        true = np.array([len(truth.population.clients[i].train) for i in clients], np.float64)
        known = np.array([len(c.train) for c in evidence.known.population.clients.values()], np.float64)
        guess = counts_of(view, clients, float(known.mean()), float(known.std() / known.mean()))
        missed = (guess - guess.mean()) - (true - true.mean())
        values = 1 - np.square(missed) / float(true.var()) if true.var() > 0 else np.zeros(len(true))
        return Finding(clients, values)
