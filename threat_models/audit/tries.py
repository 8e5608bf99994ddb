"""What attacks found, each tried once: on every observer's view, and on the anchors; and what a coalition has of its members."""

import json
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from ...fl.near_names import in_short, meant
from ...fl.own_code import has_own
from .experiment import Anchor, Budget, Evidence, Experiment, Finding, Values
from .kept import NOTHING_KEPT, Kept
from .made_up import NoExamples
from .observer import Observer
from .stage import Stage
from .truth import Truth

LIBRARIES = Path(traceback.__file__).resolve().parent
"""Where Python's own are."""
BLIND = ("labels", "label shares", "counts")
"""Experiments of ours by which a guess in the blue finds something: the usual shares of labels, the usual number of records."""
ALIKE = 0.005
"""What two guesses differ by, at most, that are shown as the same."""
LONGEST = 200
"""Letters of an error's message that a row repeats."""
T = TypeVar("T")
Findings = tuple[Finding, ...]
"""One for each seed."""


@dataclass(frozen=True, slots=True)
class Untried:
    """Why there is nothing: the experiment says nothing about such a run, or it failed."""

    reason: str
    failed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Tries:
    """Experiments on runs that were played. mine: names of attacks of the user's own, whose failing is a reason and no error;
    so is that of ours on a module or by a loss of the user's own, of which not everything is known.
    kept: what of ours was found before.
    """

    played: Sequence[Stage]
    budget: Budget
    mine: Collection[str] = ()
    kept: Kept = NOTHING_KEPT
    _views: dict[tuple[Observer, str], Findings | Untried] = field(default_factory=dict, init=False, repr=False)
    _anchors: dict[tuple[str, Anchor], tuple[Findings, Findings] | Untried] = field(default_factory=dict, init=False, repr=False)

    def of(self, observer: Observer, evidence: Sequence[Evidence], experiment: Experiment) -> Findings | Untried:
        """On this observer's view. evidence: of each seed."""

        def made() -> Findings | Untried:
            if reason := experiment.applies(evidence[0]):
                return Untried(reason)
            pairs = zip(self.played, evidence, strict=True)
            return tuple(self._found(experiment, observer.name, seen, stage.audited.truth, stage.seed) for stage, seen in pairs)

        key = observer, experiment.name
        if key not in self._views:
            self._views[key] = self._guarded(experiment, made)
        return self._views[key]

    def anchors(self, experiment: Experiment, anchor: Anchor) -> tuple[Findings, Findings] | Untried:
        """Where leakage is 0 and 1. Found once for all observers."""

        def made() -> tuple[Findings, Findings]:
            low, high = list[Finding](), list[Finding]()
            for stage in self.played:
                seen = stage.aggregate if anchor == "sums alone" else stage.nothing
                low.append(self._found(experiment, anchor, seen, stage.audited.truth, stage.seed))
                high.append(self._found(experiment, "everything", stage.plain, stage.clear.truth, stage.seed))
            return self._no_worse_than_a_guess(experiment, tuple(low)) if anchor == "sums alone" else tuple(low), tuple(high)

        key = experiment.name, anchor
        if key not in self._anchors:
            self._anchors[key] = self._guarded(experiment, made, "given what an end of the scale has, it ")
        return self._anchors[key]

    def _no_worse_than_a_guess(self, experiment: Experiment, by_sums: Findings) -> Findings:
        """Of an attack of the user's own, and of ours on BLIND, what it finds by sums, or by nothing where that is more: who is
        told sums may leave them aside, and a guess in the blue is no leak of a party that saw nothing.
        """
        if experiment.name not in self.mine and experiment.name not in BLIND:
            return by_sums
        try:
            seen = [(stage.nothing, stage.audited.truth, stage.seed) for stage in self.played]
            blind = tuple(self._found(experiment, "chance", *one) for one in seen)
        except (Exception, SystemExit):
            return by_sums  # it takes something to guess by
        return strongest(by_sums, {"nothing": blind})[0]

    def less_own_part(self, observer: Observer, experiment: Experiment) -> Findings | Untried:
        """Of what its clients may find out by sums: 0 of what is claimed against them."""

        def made() -> Findings:
            pairs = [(stage.less_own_part(observer), stage) for stage in self.played]
            known = f"sums less their own part, {observer.name}"
            return tuple(self._found(experiment, known, seen, stage.audited.truth, stage.seed) for seen, stage in pairs)

        return self._guarded(experiment, made, "given what clients may know of sums, it ")

    def of_members(self, coalition: Observer, experiment: Experiment) -> dict[str, Findings]:
        """What was found already on views of some of its parties, by their names."""
        found = {
            o.name: f for (o, e), f in self._views.items() if e == experiment.name and o.parties and o.parties < coalition.parties
        }
        return {name: f for name, f in found.items() if not isinstance(f, Untried)}

    def _found(self, experiment: Experiment, given: str, seen: Evidence, truth: Truth, seed: int) -> Finding:
        """given: what was, in words, whoever it is."""

        def find() -> Finding:
            return experiment(seen, truth, self.budget, np.random.default_rng(seed))

        if experiment.name not in self.mine:
            return self.kept.finding(f"{experiment.name} | {given} | seed {seed}", find)
        check(found := find())
        return found

    def _guarded(self, experiment: Experiment, made: Callable[[], T | Untried], when: str = "") -> T | Untried:
        if experiment.name in self.mine:
            try:
                return made()
            except (Exception, SystemExit) as error:
                return Untried(when + failure(error), failed=True)
        try:
            return made()
        except NoExamples as error:
            return Untried(str(error))
        except Exception as error:
            scenario = self.played[0].scenario
            if not has_own((scenario.model, scenario.training.loss)):
                raise
            own = "model" if has_own(scenario.model) else "loss"
            return Untried(f"{when}does not take this {own}: {in_short(error)}")


def check(found: Finding) -> None:
    """Raises ValueError or TypeError for a finding of a user's own experiment that no row could be made of."""
    if found.values.shape != (len(found.victims),) or not np.isfinite(found.values).all():
        raise ValueError(f"values are finite numbers, one for each of {len(found.victims)} victims")
    if any(side.ndim != 1 or not np.isfinite(side).all() for side in (found.members, found.others)):
        raise ValueError("scores of members and of others are finite numbers, in one dimension")
    json.dumps([{k: float(v) for k, v in found.figures.items()}, dict(found.pictures)])


def failure(error: BaseException) -> str:
    """In one line: "failed: ValueError at mine.py:12: words", at the innermost line that is the user's and no library's."""
    frames = [(frame.f_code.co_filename, line, frame) for frame, line in traceback.walk_tb(error.__traceback__)]
    others = [(file, line) for file, line, frame in frames if not frame.f_globals.get("__name__", "").startswith("cloister.")]
    own = [(file, line) for file, line in others if not Path(file).resolve().is_relative_to(LIBRARIES)]
    own = [(file, line) for file, line in own if "site-packages" not in Path(file).parts] or others
    place = f" at {Path(own[-1][0]).name}:{own[-1][1]}" if own else ""
    words = " ".join(str(error).split())[:LONGEST]
    return f"failed: {type(error).__name__}{place}" + (f": {words}" if words else "") + meant(error)


def members_first(observers: Iterable[Observer]) -> list[Observer]:
    """These and each of their parties alone, a coalition after all of its members."""
    wanted = dict.fromkeys(each for observer in observers for each in (observer, *observer.members))
    return sorted(wanted, key=lambda o: len(o.parties))


def strongest(own: Findings, members: Mapping[str, Findings]) -> tuple[Findings, str]:
    """Of what a coalition found and what members of it found alone, on the coalition's victims, what is most in the mean; and
    whose it is, empty for the coalition's own or what is as good. Whoever has all that a member has can make the member's guess;
    and of a victim of which another read more, as of an update that is left alone in a sum, what that one found.
    """
    best, name = own, ""
    all_ = {"": own}
    for member, theirs in members.items():
        also = tuple(_on_victims(alone, mine) for alone, mine in zip(theirs, own, strict=True))
        all_[member] = also
        if _mean(also) > _mean(best):
            best, name = also, member
    most = tuple(_read_most(of) for of in zip(best, *all_.values(), strict=True))
    if any(of is not one for of, one in zip(most, best, strict=True)):
        best, name = most, ""  # nobody's alone
    if name and _mean(best) <= _mean(own) + ALIKE:  # as good: its own attack with the member's values
        pairs = zip(own, best, strict=True)
        as_good = (
            replace(mine, values=found.values, moves=found.moves, records=found.records, chances=found.chances)
            for mine, found in pairs
        )
        return tuple(as_good), ""
    return best, name


def _read_most(found: Sequence[Finding]) -> Finding:
    """The first of these, on the same victims; of one of whom another read more records, or updates, what that one found."""
    best, *others = found
    values, records = best.values.copy(), dict(best.records)
    if len(best.moves) or len(best.chances):
        return best
    for other in others:
        for k, i in enumerate(best.victims):
            if i in records and other.records.get(i, (0, 0))[0] > records[i][0]:
                values[k], records[i] = max(values[k], other.values[k]), other.records[i]
    return best if records == dict(best.records) else replace(best, values=values, records=records)


def _on_victims(alone: Finding, mine: Finding) -> Finding:
    known = dict(zip(alone.victims, alone.values, strict=True))
    values = np.array([known.get(i, value) for i, value in zip(mine.victims, mine.values, strict=True)], np.float64)
    moves, chances = (_of(alone, mine, name) for name in ("moves", "chances"))
    records = {**mine.records, **{i: n for i, n in alone.records.items() if i in known}}
    return replace(alone, victims=mine.victims, values=values, moves=moves, records=records, chances=chances)


def _of(alone: Finding, mine: Finding, name: str) -> Values:
    """An array of what a member found alone, for the coalition's victims."""
    of, own = getattr(alone, name), getattr(mine, name)
    known = dict(zip(alone.victims, of, strict=True)) if len(of) else {}
    return np.array([known.get(i, one) for i, one in zip(mine.victims, own, strict=True)] if len(own) else [], np.float64)


def _mean(findings: Findings) -> float:
    values = np.concatenate([f.values for f in findings])
    return float(values.mean()) if len(values) else 0.0
