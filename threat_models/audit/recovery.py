"""How much of a client's update the observer recovers, beyond what the published sums alone tell of it."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...protocol.uploaded.plain import Plain
from .bare_frames import NOTICED
from .carried import carried
from .estimates import Estimate, means
from .experiment import Anchor, Budget, Evidence, Finding
from .reading import Instance
from .truth import Truth
from .unread import unread

WHOLE = 1e-3
"""Of what sets an update apart, at most so much is missing of one that is known wholly."""


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
        hidden = not isinstance(evidence.view.public.protection, Plain)
        seen = noticed(evidence, found) or (next(carried(evidence.view, truth), "") if hidden else "")
        return replace(recovered(evidence, found, truth), noticed=seen)


def noticed(evidence: Evidence, found: Mapping[Instance, Estimate]) -> str:
    """Whose update stands in frames as it is, in words; empty if nobody's.

    By signs alone: those of random bytes, read as whatever they may be, are fair coins, and <signs, mean> is above NOTICED |mean|
    with a chance of at most exp(-NOTICED^2 / 2) (Hoeffding 1963).
    """
    if not (bare := {key: one.vector for key, one in found.items() if one.how == "bare"}):
        return ""
    known = means(evidence.view)
    sure = [k for k, v in sorted(bare.items()) if float(np.sign(v) @ known[k]) > NOTICED * float(np.linalg.norm(known[k]))]
    if not sure:
        return ""
    t, kind, client = sure[0]
    return f"client {client}'s {kind} of round {t} stands in its frames as it is; so do {len(sure)} of {len(found)}"


def recovered(evidence: Evidence, found: Mapping[Instance, Estimate], truth: Truth) -> Finding:
    """Of every honest client, the share of what sets its updates apart that these estimates have, and how many have it WHOLE."""
    alone = means(evidence.sums)
    left, whole = defaultdict[int, float](float), defaultdict[int, float](float)
    known, all_ = defaultdict[int, int](int), defaultdict[int, int](int)
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
        known[client] += missed <= WHOLE * apart and apart > 0
        all_[client] += 1
    victims = tuple(sorted(whole))
    values = np.array([1 - left[i] / whole[i] if whole[i] else 0.0 for i in victims])
    return Finding(victims, values, records={i: (known[i], all_[i]) for i in victims})
