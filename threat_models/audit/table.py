"""An audit as rows: every experiment on every observer's view, between its anchors, and the claims that it bears on."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from .claim import Claim, Judged, judged
from .experiment import Anchor, Budget, Evidence, Experiment, Finding
from .observer import Observer
from .scoring import Interval, Leakage, auc, leakage, tpr_at
from .stage import Stage
from .truth import Truth

POINTS = 60
RATES = (0.01, 0.001)
"""False positive rates at which the rate of true ones is given."""


@dataclass(frozen=True, slots=True)
class Told:
    """Of an experiment that tells members from others: area under the curve, and true positive rates at `RATES`."""

    area: Interval
    rates: tuple[Interval, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One experiment on one observer's view, all seeds together. reason: why there is nothing, if there is not.

    leakage: between its anchors, of which `anchor` is 0 and everything 1. told: on the view, and on its anchors. findings: the
    same three.
    """

    observer: str
    experiment: str
    unit: str
    side: str
    source: str
    leakage: Leakage | None
    told: tuple[Told, ...] = ()
    claims: tuple[Judged, ...] = ()
    worst: tuple[int, float] | None = None
    reason: str = ""
    anchor: Anchor = "sums alone"
    findings: tuple[Finding, ...] = field(default=(), repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        judged_ = [
            {
                "claim": j.claim.id,
                "whose": j.claim.whose,
                "statement": j.claim.statement,
                "bound": j.claim.bound,
                "side_information": j.claim.side_information,
                "verdict": j.verdict,
                "witness": j.witness,
            }
            for j in self.claims
        ]
        names = ("here", self.anchor, "everything")
        return {
            "observer": self.observer,
            "experiment": self.experiment,
            "unit": self.unit,
            "side_information": self.side,
            "source": self.source,
            "anchor": self.anchor,
            "leakage": None if self.leakage is None else asdict(self.leakage),
            "worst": None if self.worst is None else list(self.worst),
            "told": {name: asdict(t) for name, t in zip(names, self.told, strict=False)},
            "claims": judged_,
            "reason": self.reason,
            "values": {name: f.values.round(4).tolist() for name, f in zip(names, self.findings, strict=False)},
            "roc": {name: roc(f) for name, f in zip(names, self.findings, strict=False) if len(f.members) and len(f.others)},
            "figures": dict(self.findings[0].figures) if self.findings else {},
            "pictures": dict(self.findings[0].pictures) if self.findings else {},
        }


def roc(finding: Finding) -> list[list[float]]:
    """False and true positive rates at POINTS thresholds."""
    thresholds = np.sort(finding.others)[::-1]
    chosen = thresholds[np.unique(np.linspace(0, len(thresholds) - 1, POINTS).astype(int))]
    rates = [[float((side >= t).mean()) for side in (finding.others, finding.members)] for t in chosen]
    return [[0.0, float((finding.members > thresholds[0]).mean())], *rates]


def rows(
    played: Sequence[Stage],
    observers: Sequence[Observer],
    experiments: Sequence[Experiment],
    claims: Sequence[Claim],
    budget: Budget,
) -> Iterator[Row]:
    """Every experiment on every observer's view."""
    public = played[0].audited.public
    anchors: dict[tuple[str, Anchor, int], tuple[Finding, Finding]] = {}
    tried = {experiment.name for experiment in experiments}
    for observer in observers:
        evidence = [stage.evidence(observer) for stage in played]
        for experiment in experiments:
            about = [c for c in claims if c.experiment == experiment.name and c.adversary(observer)]
            about = [c for c in about if c.applies(public.protection, public.algorithm)]
            yield _row(played, evidence, experiment, about, budget, anchors)
        for claim in (c for c in claims if c.experiment not in tried and c.adversary(observer)):
            if claim.applies(public.protection, public.algorithm):
                lone = (judged(claim, None),)
                yield Row(observer.name, claim.experiment, "", "", "", None, claims=lone, reason="there is no experiment on it")


def _row(
    played: Sequence[Stage],
    evidence: Sequence[Evidence],
    experiment: Experiment,
    claims: Sequence[Claim],
    budget: Budget,
    anchors: dict[tuple[str, Anchor, int], tuple[Finding, Finding]],
) -> Row:
    anchor: Anchor = (
        "chance" if evidence[0].view.observer.network else experiment.anchor
    )  # who only watches links is not to learn what sums tell either
    words = (evidence[0].view.observer.name, experiment.name, experiment.unit, experiment.side, experiment.source)
    if reason := experiment.applies(evidence[0]):
        return Row(*words, None, claims=tuple(judged(c, None) for c in claims), reason=reason, anchor=anchor)
    found: list[tuple[Finding, ...]] = []
    for stage, seen in zip(played, evidence, strict=True):

        def of(seen: Evidence, truth: Truth, seed: int = stage.seed) -> Finding:
            return experiment(seen, truth, budget, np.random.default_rng(seed))

        if (key := (experiment.name, anchor, stage.seed)) not in anchors:
            low = stage.aggregate if anchor == "sums alone" else stage.nothing
            anchors[key] = of(low, stage.audited.truth), of(stage.plain, stage.clear.truth)
        three = (of(seen, stage.audited.truth), *anchors[key])
        same = [i for i in three[0].victims if all(i in f.victims for f in three)]
        found.append(tuple(_about(f, same) for f in three))
    here, alone, plain = (np.concatenate([f[k].values for f in found]) for k in range(3))
    if not len(here):
        return Row(*words, None, claims=tuple(judged(c, None) for c in claims), reason="nobody to try it on", anchor=anchor)
    bound = min((c.bound for c in claims), default=0.1)
    measured = leakage(here, alone, plain, np.random.default_rng(0), bound)
    victims = [i for f in found for i in f[0].victims]
    most = int(np.argmax(here))
    worst = victims[most], float(here[most])
    told = tuple(t for k in range(3) if (t := _told([f[k] for f in found])) is not None)
    verdicts = tuple(judged(c, measured, worst, victims) for c in claims)
    return Row(*words, measured, told, verdicts, worst, "", anchor, tuple(_joined([f[k] for f in found]) for k in range(3)))


def _about(finding: Finding, victims: Sequence[int]) -> Finding:
    at = [finding.victims.index(i) for i in victims]
    return replace(finding, victims=tuple(victims), values=finding.values[at])


def _joined(findings: Sequence[Finding]) -> Finding:
    """All seeds' together; pictures of the first."""
    victims = tuple(i for f in findings for i in f.victims)
    values, members, others = (np.concatenate([getattr(f, n) for f in findings]) for n in ("values", "members", "others"))
    figures = {name: float(np.mean([f.figures[name] for f in findings])) for name in findings[0].figures}
    return Finding(victims, values, members, others, figures, findings[0].pictures)


def _told(findings: Sequence[Finding]) -> Told | None:
    members, others = (np.concatenate([getattr(f, n) for f in findings]) for n in ("members", "others"))
    if not len(members) or not len(others):
        return None
    return Told(auc(members, others), tuple(tpr_at(rate, members, others) for rate in RATES))
