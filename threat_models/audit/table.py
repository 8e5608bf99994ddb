"""An audit as rows: every experiment on every observer's view, between its anchors, and the claims that it bears on."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from ...fl.data.natural import Natural
from .claim import Claim, Judged, Victim, Worst, judged, tested
from .experiment import Anchor, Budget, Experiment, Finding, Values
from .final_models import FinalModelMembership
from .from_chance import Ways, from_chance
from .kept import NOTHING_KEPT, Kept
from .observer import Observer
from .scoring import BOUND, Interval, Leakage, auc_within, leakage, remedy, tpr_at
from .stage import Stage
from .tries import Findings, Tries, Untried, members_first, strongest

BY_CHANCE = "so few on either side may rank so by chance: more clients would tell, or from five seeds on"
SAME = ", which of the same clients in all runs tell less"
"""What it takes to know whether a guess ranks as well."""
NOBODY = "nobody to try it on"
POINTS = 60
RATES = (0.01, 0.001)
"""False positive rates at which the rate of true ones is given."""


@dataclass(frozen=True, slots=True)
class Told:
    """Of an experiment that tells members from others: area under the curve of each run, and true positive rates at
    `RATES` of all runs together, None where there are too few others.
    """

    area: Interval
    rates: tuple[Interval | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One experiment on one observer's view, all seeds together. reason: why there is nothing, if there is not.

    leakage: between its anchors, of which `anchor` is 0 and everything 1. told: on the view, and on its anchors. findings: the
    same three. records: that were read, or whole updates, on the view and on its anchors, as `counted` has them. by: of a
    coalition, the member that found alone what stands here, as all together found less; else empty. failed: an attack of the
    user's ended in an error, which is the reason. remedy: where nothing can be said, what it would take. tested: by exact tests
    that looked at something, and no leakage is measured: the reason says of what.
    """

    observer: str
    experiment: str
    unit: str
    side: str
    source: str
    leakage: Leakage | None
    told: tuple[Told, ...] = ()
    claims: tuple[Judged, ...] = ()
    worst: Worst | None = None
    reason: str = ""
    anchor: Anchor = "sums alone"
    findings: tuple[Finding, ...] = field(default=(), repr=False)
    by: str = ""
    failed: bool = False
    remedy: str = ""
    tested: bool = False
    records: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        judged_ = [
            {
                "claim": j.claim.id,
                "whose": j.claim.whose,
                "statement": j.claim.statement,
                "bound": j.claim.bound,
                "side_information": j.claim.side_information,
                "upper": j.upper,
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
            "worst": None if self.worst is None else self.worst.as_dict(),
            "by": self.by,
            "remedy": self.remedy,
            "failed": self.failed,
            "tested": self.tested,
            "told": {name: asdict(t) for name, t in zip(names, self.told, strict=False)},
            "claims": judged_,
            "reason": self.reason,
            "values": {name: f.values.round(4).tolist() for name, f in zip(names, self.findings, strict=False)},
            "roc": {name: roc(f) for name, f in zip(names, self.findings, strict=False) if len(f.members) and len(f.others)},
            "figures": dict(self.findings[0].figures) if self.findings else {},
            "records": dict(self.records),
            "pictures": dict(self.findings[0].pictures) if self.findings else {},
        }


def counted(found: Sequence[Finding], seeds: Sequence[int]) -> dict[str, Any]:
    """Of findings of records or updates, one a seed: how many were read, of how many and whom, and whose; else empty."""
    of = [(seed, i, *f.records[i]) for seed, f in zip(seeds, found, strict=True) for i in f.victims if i in f.records]
    whose = [{"seed": seed, "client": i, "read": read} for seed, i, read, _ in of if read]
    sums = {"read": sum(one["read"] for one in whose), "of": sum(one[3] for one in of)}
    return {**sums, "clients": len(whose), "victims": len(of), "whose": whose} if of else {}


def roc(finding: Finding) -> list[list[float]]:
    """False and true positive rates at POINTS thresholds."""
    thresholds = np.sort(finding.others)[::-1]
    chosen = thresholds[np.unique(np.linspace(0, len(thresholds) - 1, POINTS).astype(int))]
    rates = [[float((side >= t).mean()) for side in (finding.others, finding.members)] for t in chosen]
    return [[0.0, float((finding.members > thresholds[0]).mean())], *rates]


def asked_of(observer: Observer, experiments: Sequence[Experiment], mine: Collection[str] = ()) -> list[Experiment]:
    """Of an outsider what reads the models that a run ends with, ours and the user's own (mine); of others what reads a run."""
    if observer.outsider:
        return [e for e in experiments if isinstance(e, FinalModelMembership) or e.name in mine]
    return [e for e in experiments if not isinstance(e, FinalModelMembership)]


def rows(
    played: Sequence[Stage],
    observers: Sequence[Observer],
    experiments: Sequence[Experiment],
    claims: Sequence[Claim],
    budget: Budget,
    mine: Collection[str] = (),
    kept: Kept = NOTHING_KEPT,
) -> Iterator[Row]:
    """Every experiment on every observer's view: of a coalition, the best guess that any of its parties, or some together that
    are tried too, could make, or all together. mine: names of experiments that may fail, and are then a row that says so. kept:
    what others found before.
    """
    public, sums = played[0].audited.public, [stage.audited.sums for stage in played]
    tries = Tries(played, budget, mine, kept)
    tried = {experiment.name for experiment in experiments}
    everybody, done = members_first(observers), set[Observer]()
    for observer in dict.fromkeys(observers):
        asked = asked_of(observer, experiments, mine)
        inside = [each for each in everybody if each.parties and each.parties < observer.parties]
        for member in (each for each in inside if each not in done):
            evidence = [stage.evidence(member) for stage in played]
            for experiment in asked:
                tries.of(member, evidence, experiment)
            done.add(member)
        evidence = [] if observer in done else [stage.evidence(observer) for stage in played]
        done.add(observer)
        for experiment in asked:
            about = [c for c in claims if c.experiment == experiment.name and c.adversary(observer)]
            about = [c for c in about if c.about(public, sums)]
            guesses = sum(experiment in asked_of(each, experiments, mine) for each in everybody)
            yield _row(tries, observer, experiment, about, tries.of(observer, evidence, experiment), guesses)
        for claim in (c for c in claims if c.experiment not in tried and c.adversary(observer)):
            if claim.about(public, sums):
                lone = (judged(claim, None, "there is no experiment on it"),)
                yield Row(observer.name, claim.experiment, "", "", "", None, claims=lone, reason="there is no experiment on it")


def _row(
    tries: Tries, observer: Observer, experiment: Experiment, claims: Sequence[Claim], own: Findings | Untried, guesses: int
) -> Row:
    """guesses: how many parties' are made in the audit, each of which may be lucky with somebody."""
    no_party = observer.network or observer.outsider  # who is of no party is not to learn sums either
    anchor: Anchor = "chance" if no_party else experiment.anchor
    words = (observer.name, experiment.name, experiment.unit, experiment.side, experiment.source)

    def untried(why: Untried) -> Row:
        lone = tuple(judged(c, None, why.reason) for c in claims)
        return Row(*words, None, claims=lone, reason=why.reason, anchor=anchor, failed=why.failed)

    if isinstance(own, Untried):
        return untried(own)
    seeds = [stage.seed for stage in tries.played]
    if exact := [f.examined for f in own if f.examined is not None]:
        verdicts = tuple(tested(c, exact, seeds) for c in claims)
        came = [f"not looked at: {one.missed}" if one.nothing else one.witness or one.looked for one in exact]
        words_of = "; ".join(f"seed {seed}: {one}" for seed, one in zip(seeds, came, strict=True))
        looked = not all(one.nothing for one in exact)
        return Row(*words, None, claims=verdicts, reason=words_of, anchor=anchor, tested=looked)
    if not any(f.victims for f in own):
        return untried(Untried(next((f.why for f in own if f.why), NOBODY)))
    ends = tries.anchors(experiment, anchor)
    if isinstance(ends, Untried):
        return untried(ends)
    best, by = strongest(own, tries.of_members(observer, experiment))
    if getattr(experiment, "whole_is_all", False):  # who decides it knows it, whatever the run in clear came to
        ends = ends[0], tuple(replace(f, values=np.ones(len(f.victims))) for f in best)
    found = list[Findings]()
    for three in zip(best, *ends, strict=True):
        same = [i for i in three[0].victims if all(i in f.victims for f in three)]
        found.append(tuple(_about(f, same) for f in three))
    here, alone, plain = (np.concatenate([f[k].values for f in found]) for k in range(3))
    if not len(here):
        return untried(Untried(NOBODY))
    bound = BOUND if observer.clients else min((c.bound for c in claims), default=BOUND)
    victims = [
        Victim(i, stage.seed, stage.audited.truth.population.names.get(i, ""))
        for stage, f in zip(tries.played, found, strict=True)
        for i in f[0].victims
    ]
    moved, own_data = _moves([[f[k] for f in found] for k in range(3)]), _same_clients(tries.played)
    ways = from_chance(here, alone, moved) if any(len(f[1].members) for f in found) else Ways(here, alone, alone, moved)
    alike = getattr(experiment, "alike_in_a_run", False)
    measured = leakage(
        ways.here, ways.alone, plain, np.random.default_rng(0), bound, [victim.seed for victim in victims], ways.moved,
        [victim.client for victim in victims], own_data, ways.known, _chances([f[0] for f in found], guesses), alike,
    )  # fmt: skip
    most = int(np.argmax(ways.here - ways.known))
    beyond = float(here[most]), float(ways.known[most] - ways.lift)
    worst = Worst(victims[most], *beyond, anchor, experiment.unit, "", float(plain[most]))
    told = tuple(t for k in range(3) if (t := _told([f[k] for f in found], alike, own_data)) is not None)
    seen = next((f"seed {seed}: {f.noticed}" for seed, f in zip(seeds, own, strict=True) if f.noticed), "")
    if claims and observer.clients and anchor == "sums alone" and not seen:
        less, sides = tries.less_own_part(observer, experiment), [tuple(f[k] for f in found) for k in range(3)]
        beside = f"{measured.value:.2f} beyond {anchor}"
        verdicts = _of_clients(claims, less, sides[0], sides[2], victims, worst.unit, beside, guesses, alike)
    else:
        verdicts = tuple(
            Judged(c, "refuted", seen) if seen else judged(c, measured, "", worst, victims, len(tries.played)) for c in claims
        )
    joined = tuple(_joined([f[k] for f in found]) for k in range(3))
    seeds, needed = [stage.seed for stage in tries.played], remedy(measured, len(tries.played), bound)
    if measured.valid and not measured.few_runs and measured.value > bound and told and told[0].area.low <= 0.5:
        needed = BY_CHANCE + (SAME if own_data else "")
    read = {name: counted([f[k] for f in found], seeds) for k, name in enumerate(("here", anchor, "everything"))}
    records = read if read["here"] else {}
    return Row(*words, measured, told, verdicts, worst, "", anchor, joined, by, remedy=needed, records=records)


def _of_clients(
    claims: Sequence[Claim],
    less: Findings | Untried,
    here: Findings,
    plain: Findings,
    victims: Sequence[Victim],
    unit: str,
    beside: str,
    guesses: int,
    alike: bool,
) -> tuple[Judged, ...]:
    """Verdicts on what is claimed against clients: of what was found beyond what the sums tell them who know their own part.

    beside: what was found by the row's own anchor, in words.
    """
    if isinstance(less, Untried):
        return tuple(judged(c, None, less.reason) for c in claims)
    may = tuple(_about(known, of.victims) for known, of in zip(less, here, strict=True))
    found, known, everything = (np.concatenate([f.values for f in of]) for of in (here, may, plain))
    moved = _moves([here, may, plain])
    ways = from_chance(found, known, moved) if any(len(f.members) for f in may) else Ways(found, known, known, moved)
    most = int(np.argmax(ways.here - ways.known))
    beyond = float(found[most]), float(ways.known[most] - ways.lift)
    worst = Worst(victims[most], *beyond, "sums less their own part", unit, beside)
    seeds, whose, sure = [victim.seed for victim in victims], [victim.client for victim in victims], _chances(here, guesses)
    leaks = [
        leakage(
            ways.here,
            ways.alone,
            everything,
            np.random.default_rng(0),
            c.bound,
            seeds,
            ways.moved,
            whose,
            False,
            ways.known,
            sure,
            alike,
        )
        for c in claims
    ]
    return tuple(judged(c, one, "", worst, victims) for c, one in zip(claims, leaks, strict=True))


def _same_clients(played: Sequence[Stage]) -> bool:
    """Whether clients and their data are the same in all runs."""
    return len(played) > 1 and isinstance(played[0].scenario.partition, Natural)


def _chances(here: Sequence[Finding], guesses: int) -> Values | None:
    """How likely one of so many guesses is to find as much of each victim, all seeds together; None where that is not known."""
    if any(len(f.chances) != len(f.victims) for f in here):
        return None
    return np.asarray(np.minimum(1.0, guesses * np.concatenate([f.chances for f in here])), np.float64)


def _moves(three: Sequence[Sequence[Finding]]) -> list[Values] | None:
    """What is resampled of findings here, at 0 and at 1, all seeds together; None where that is their values."""
    if not any(len(f.moves) for found in three for f in found):
        return None
    return [np.concatenate([f.moves if len(f.moves) else f.values for f in found]) for found in three]


def _about(finding: Finding, victims: Sequence[int]) -> Finding:
    at = [finding.victims.index(i) for i in victims]
    moves, chances = (of[at] if len(of) else of for of in (finding.moves, finding.chances))
    return replace(finding, victims=tuple(victims), values=finding.values[at], moves=moves, chances=chances)


def _joined(findings: Sequence[Finding]) -> Finding:
    """All seeds' together; pictures of the first."""
    victims = tuple(i for f in findings for i in f.victims)
    values, members, others = (np.concatenate([getattr(f, n) for f in findings]) for n in ("values", "members", "others"))
    figures = {
        name: float(np.mean([f.figures[name] for f in findings]))
        for name in findings[0].figures
        if all(name in f.figures for f in findings)
    }
    return Finding(victims, values, members, others, figures, findings[0].pictures)


def _told(findings: Sequence[Finding], alike: bool, same: bool) -> Told | None:
    if not any(len(f.members) and len(f.others) for f in findings):
        return None
    members, others = (np.concatenate([getattr(f, n) for f in findings]) for n in ("members", "others"))
    area = auc_within([(f.members, f.others) for f in findings], alike, same)
    return Told(area, tuple(tpr_at(rate, members, others) for rate in RATES))
