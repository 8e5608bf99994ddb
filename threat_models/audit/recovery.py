"""How much of a client's update the observer recovers, beyond what the published sums alone tell of it."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from .estimates import Estimate, means
from .experiment import Anchor, Budget, Evidence, Finding
from .reading import Instance
from .truth import Truth
from .unread import unread


@dataclass(frozen=True, slots=True)
class UpdateRecovery:
    """1 - |x' - x|^2 / |x - m|^2 over a client's rounds, x' the estimate and m the mean of the smallest published sum with it.

    So it is 0 for who knows the sums alone and 1 for who has the updates. An estimate that is worse than the mean counts as it.
    """

    name: str = "updates"
    unit: str = "share of what sets an update apart from its cluster's mean"
    side: str = "a run of its own, for how updates vary"
    source: str = "linear estimation; gradient disaggregation (Lam et al. 2021) where rosters differ"
    anchor: Anchor = "sums alone"

    def applies(self, evidence: Evidence, /) -> str:
        return unread(evidence)

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        found = evidence.estimated(evidence.view)
        return replace(recovered(evidence, found, truth), noticed=noticed(found))


def noticed(found: Mapping[Instance, Estimate]) -> str:
    """Whose update stands in frames as it is, in words; empty if nobody's."""
    bare = sorted(key for key, one in found.items() if one.how == "bare")
    if not bare:
        return ""
    t, kind, client = bare[0]
    return f"client {client}'s {kind} of round {t} stands in its frames as it is; so do {len(bare)} of {len(found)}"


def recovered(evidence: Evidence, found: Mapping[Instance, Estimate], truth: Truth) -> Finding:
    """Of every honest client, the share of what sets its updates apart that these estimates have."""
    alone = means(evidence.sums)
    left, whole = defaultdict[int, float](float), defaultdict[int, float](float)
    for (t, kind, client), x in truth.updates.items():
        if client in evidence.view.observer.clients:
            continue
        wide = x.astype(np.float64)
        mean = alone.get((t, kind, client), np.zeros(len(wide)))
        apart = float(np.square(wide - mean).sum())
        guess = found.get((t, kind, client))
        missed = apart if guess is None or len(guess.vector) != len(wide) else float(np.square(guess.vector - wide).sum())
        left[client] += min(missed, apart)
        whole[client] += apart
    victims = tuple(sorted(whole))
    return Finding(victims, np.array([1 - left[i] / whole[i] if whole[i] else 0.0 for i in victims]))
