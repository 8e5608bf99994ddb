"""The space that is searched: who attacks with what, when, how they vote, in which layers, and which clients they are.

A point is named numbers (`fields.Numbers`). "attack" names a class; its fields follow under its name, such as "IPM.eps". Beside:

- variant: an upload as it is, or inside an attack that changes it (`variants`, `magnified`); boost: poisoned work scaled, or not;
- layers: all, or one (`partial`); votes: honest, or an attack on choices, where clients choose among models (`ASKS`);
- schedule: always, from a round on, or pulses of some rounds in every period, which alternate where the period is 2;
- samples: the true number of examples, or a multiple, where the defence weighs by it;
- which: any clients, or those with the most, the fewest or the oddest examples, or the most of two labels, where clients differ;
  or from one on by their ids, for a defence may trust some of them more than others.

Attacks of the user's own (`own`) are families like ours, their fields searched likewise; what makes a whole adversary of a
strength is played as it is. Where the defence has numbers of rounds of its own (FLIC's T, say), they are the usual start and
period of a schedule: who attacks a published defence knows them. An insider is told the defence's rule.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from types import MappingProxyType
from typing import Any, get_type_hints

from ...fl.data.population import Examples
from ...fl.near_names import in_short, listed, near
from ...fl.robust.averages import Mean
from ...fl.robust.mixing import Prepared
from ...fl.runs.scenario import Scenario
from ...protocol.uploaded.plain import Plain
from ...protocol.view.functionality import Functionality
from ..adversary import Adversary
from ..attack import CollusiveAttack, DataAttack, LoneAttack
from ..backdoors import Backdoor, misfit
from ..evaluation import backdoor_of, is_backdoor
from ..evaluation_attack import Applied, Informed
from ..functions import as_upload, place_of
from ..knowledge import Colluding, Level, Own, Situation
from ..label_attacks import LabelFlip, SwappedLabels
from ..liars import KernelPoison
from ..line_search import WithExtra, last_aggregate
from ..magnified import Diminished, Magnified
from ..membership import ALWAYS, Members, Pool, Schedule
from ..offers import Offered
from ..partial import InLayer, LoneInLayer
from ..semantic import SpuriousPatch
from ..simple_attacks import Honest, Scaled
from ..triggers import Parts, Patch, Sinusoid, Trigger, dba_bars
from ..variants import Jittered, SignBalanced
from .catalogue import AT_REQUEST, ATTACKS
from .choosing import Partly, Usual
from .fields import Choose, Makers, NotSearched, Numbers, family_of, hints_of, made
from .own import whole_adversary
from .who import ANY, FIRST, FROM, HOLDERS, WHICH

UPLOADED, TOGETHER, POISONED, TRAINED, VOTED = "upload", "upload together", "data", "local", "choice"
WHOLE = "adversary"
"""Of a function of a strength that makes an adversary."""
PLAIN, NONE, HONEST = "as it is", "none", "Honest"
NO_BACKDOOR = "backdoors alone are sought, and it has no `test` of what it is after"
OTHER_LABELS = "SwappedLabels of other labels"
OTHERS_SWAPPED = (
    "labels 0 and 1 alone change places, and holders are those of these two; to try others, name SwappedLabels(source, target)"
    " among an evaluation's attacks, and ask for it by that name"
)
ASKS = frozenset({Functionality.CHOICE, Functionality.SLOTS})
"""Where clients choose: the server asks them, or they take to slots inside their work."""
AROUND: tuple[type, ...] = (Jittered, SignBalanced, Magnified, Diminished, KernelPoison)
"""Attacks about another one."""


@cache
def slot_of(kind: type) -> str:
    """What of a member's work an attack replaces, by the types of its call."""
    hints = get_type_hints(kind.__call__)
    given, result = next(hint for name, hint in hints.items() if name != "return"), hints["return"]
    if given is Situation:
        return POISONED if result is Examples else TRAINED
    return {Own: UPLOADED, Offered: VOTED}.get(given, TOGETHER if issubclass(given, Colluding) else VOTED)


def check_named(names: Sequence[str], own: Iterable[str]) -> None:
    """Raises ValueError of one line for a name that is neither an attack of the catalogue nor one of a file's own."""
    known, theirs = {kind.__name__ for kind in ATTACKS}, list(own)
    if unknown := [name for name in names if name not in {*known, *theirs}]:
        file = f"; the file's own: {', '.join(theirs)}" if theirs else ""
        like = near(unknown[0], [*theirs, *known])
        raise ValueError(f"there is no attack {unknown[0]!r}{like}; there are: {listed(sorted(known))}{file}")


@dataclass(frozen=True, slots=True)
class Space:
    """What can be tried against a scenario, which has the defence and no adversary.

    knows: the most that the adversary knows. only: names of attacks; empty for all but the slow ones. distinct: whether clients
    differ so much that it may matter which of them attack. fixed: numbers that are not searched, by name. own: attacks of the
    user's own, by name, as an `Evaluation` takes them, or classes. backdoors: whether nothing else is sought. records: a few
    that backdoors must fit, with the number of classes; None where nothing is known of them. clients: how many there are, any of
    whom may attack; 0 where that is not searched. left_out: attacks that are not searched, with the reason.
    """

    scenario: Scenario
    knows: Level = Level.INSIDER
    only: tuple[str, ...] = ()
    distinct: bool = False
    fixed: Numbers = field(default_factory=dict, hash=False)
    own: Mapping[str, Any] = field(default_factory=dict, hash=False)
    backdoors: bool = False
    records: tuple[Examples, int] | None = field(default=None, hash=False)
    clients: int = 0
    misfits: dict[type, str] = field(init=False, hash=False)
    kinds: dict[str, tuple[str, Any]] = field(init=False)
    left_out: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        check_named(self.only, self.own)
        object.__setattr__(self, "misfits", {})
        object.__setattr__(self, "misfits", {k: why for k in self.poisons if is_backdoor(k) and (why := self._misfit(k))})
        first, *rest = ((kind.__name__, kind) for kind in ATTACKS if kind.__name__ not in self.own)
        kinds: dict[str, tuple[str, Any]] = {}
        left_out: dict[str, str] = {}
        for name, kind in (first, *self.own.items(), *rest):
            if self.only and name not in self.only:
                continue
            try:
                kinds[name] = self._own_slot(name, kind) if name in self.own else self._slot(kind)
            except NotSearched as error:
                left_out[name] = str(error) if name in self.own else error.reason  # nobody gives ours a default
        if SwappedLabels.__name__ in kinds.keys() - self.own.keys():
            left_out[OTHER_LABELS] = OTHERS_SWAPPED
        object.__setattr__(self, "kinds", kinds)
        object.__setattr__(self, "left_out", left_out)
        self._check_fixed()
        if not self.attacks:
            raise ValueError(f"none of {', '.join(self.only)} can be searched here: {'; '.join(left_out.values())}")

    def _check_fixed(self) -> None:
        """Raise ValueError for a number that is fixed and that the space does not have, or that cannot be this."""
        known: set[str] = set()
        for name in self.attacks if self.fixed else ():
            for schedule in ("always", "from", "pulses"):
                choose = Usual({"attack": name, "schedule": self.fixed.get("schedule", schedule)})
                self.adversary(choose, Pool(1))
                known |= choose.chosen.keys() - {"attack"}
        asked = Usual({WHICH: self.fixed.get(WHICH, FROM if self.clients > 1 else ANY)})
        chosen_which(self, asked)
        known |= asked.chosen.keys()
        if unknown := sorted(self.fixed.keys() - known):
            like = near(unknown[0], known)
            raise ValueError(f"the space has no number {unknown[0]!r}{like}; it has: {', '.join(sorted(known))}")

    def _misfit(self, kind: type) -> str:
        """Why a kind of backdoor, as it is by default, cannot be put into these records."""
        return "" if self.records is None else misfit(made(kind, Usual(), self.makers, self.scenario.rounds), *self.records)

    def _slot(self, kind: type) -> tuple[str, type]:
        """Raises NotSearched."""
        name = kind.__name__
        if name in AT_REQUEST and name not in self.only:
            raise NotSearched(f"{AT_REQUEST[name]}; ask for it by name")
        slot = slot_of(kind)
        self._check(slot, made(kind, Usual(), self.makers, self.scenario.rounds))
        return slot, kind

    def _own_slot(self, name: str, attack: Any) -> tuple[str, Any]:
        """Of one of the user's own. Raises NotSearched."""
        family = family_of(name, attack)
        try:
            usual = made(family, Usual(), self.makers, self.scenario.rounds)
        except NotSearched:
            raise
        except Exception as error:  # whatever a class of the user's raises
            raise NotSearched(in_short(error)) from None
        place = None if isinstance(usual, Informed) else place_of(usual)
        if place is None:
            adversary = whole_adversary(attack, name, 1, self.scenario)
            if adversary.knows > self.knows:
                raise NotSearched(f"it needs level {adversary.knows.name}")
            if self.backdoors and backdoor_of(adversary) is None:
                raise NotSearched(NO_BACKDOOR)
            return WHOLE, attack
        level = as_upload(usual, Level.OMNISCIENT).needs if place == UPLOADED else Level.OWN
        slot = TOGETHER if place == UPLOADED and level > Level.OWN else place
        self._check(slot, as_upload(usual, Level.OMNISCIENT) if place == UPLOADED else usual)
        return slot, family

    def _check(self, slot: str, attack: Any) -> None:
        """Raises NotSearched for an attack that nothing can be done with here."""
        if slot == VOTED and not ASKS & self.scenario.algorithm.needs:
            raise NotSearched("the defence asks for no choices")
        needs = Level.COLLUDING if hasattr(attack, "learn") and slot == POISONED else getattr(attack, "needs", Level.OWN)
        if needs > self.knows:
            raise NotSearched(f"it needs level {needs.name}")
        if needs == Level.INSIDER and rule_of(self.scenario.algorithm) is None:
            raise NotSearched("the defence has no rule that an insider could search against")
        poison = getattr(attack, "poison", None) if slot == TRAINED else attack
        if self.records is not None and is_backdoor(poison) and (why := misfit(poison, *self.records)):
            raise NotSearched(why)
        if self.backdoors and slot != VOTED and not (slot == TRAINED and poison is None) and not is_backdoor(poison):
            raise NotSearched(NO_BACKDOOR)

    @property
    def poisons(self) -> tuple[type, ...]:
        """What may be done to the data that another attack trains with, a backdoor first."""
        found = [k for k in ATTACKS if slot_of(k) == POISONED and k.__name__ not in AT_REQUEST and k not in self.misfits]
        found = [k for k in found if is_backdoor(k)] if self.backdoors else found
        return tuple(sorted(found, key=lambda k: k is not Backdoor))

    @property
    def makers(self) -> Makers:
        """What stands for a poison or a trigger inside another attack. Triggers are as they are by default: they are what the
        backdoor is about, and no number of the attack.
        """
        return MappingProxyType({DataAttack: self.poisons, Trigger: (corner_patch, sinusoid), Parts: (dba_bars,)})

    @property
    def pretences(self) -> Makers:
        """What stands for the data that a vote is cast by: poisons of labels or inputs that draw no random numbers."""
        return MappingProxyType({DataAttack: (LabelFlip, SpuriousPatch)})

    def of(self, *slots: str) -> list[str]:
        return [name for name, (slot, _) in self.kinds.items() if slot in slots]

    @property
    def votes(self) -> list[str]:
        return self.of(VOTED)

    @property
    def attacks(self) -> list[str]:
        """What members may do, honest work among it where they may vote."""
        found = self.of(UPLOADED, TOGETHER, POISONED, TRAINED, WHOLE)
        return [name for name in found if name != HONEST] + ([HONEST] if self.votes and not self.backdoors else [])

    @property
    def own_rounds(self) -> list[int]:
        """The defence's own numbers of rounds: whole fields above 1 that the run is long enough for."""
        algorithm: Any = self.scenario.algorithm
        values = [getattr(algorithm, f.name) for f in fields(algorithm) if "round" in f.name or f.name in ("every", "period")]
        return [v for v in values if type(v) is int and 1 < v < self.scenario.rounds]

    def adversary(self, choose: Choose, members: Members) -> Adversary:
        """The adversary at a point. Raises ValueError where numbers do not go together."""
        choose = Partly(choose, self.fixed)
        name = choose.one_of("attack", self.attacks)
        slot, kind = self.kinds.get(name, (UPLOADED, Honest))
        if slot == WHOLE:
            return whole_adversary(kind, name, members, self.scenario)
        made_of: dict[str, Any] = {"members": members, "when": self._schedule(choose)}
        attack = made(kind, choose, self.makers, self.scenario.rounds)
        if slot in (POISONED, TRAINED):
            made_of |= self._poisoned(slot, attack, choose)
        elif name != HONEST:
            made_of["upload"] = self._upload(slot, attack, choose)
        if self.votes and (vote := choose.one_of("votes", [HONEST, *self.votes])) != HONEST:
            made_of["choice"] = made(self.kinds[vote][1], choose, self.pretences, self.scenario.rounds)
        if getattr(self.scenario.algorithm, "by_samples", False) and choose.one_of("samples", ["true", "more"]) == "more":
            made_of["samples"] = choose.number("samples.factor", 1.0, 100.0, True, 10.0)
        return Adversary(**made_of, **self._known(made_of))

    def _upload(self, slot: str, attack: Any, choose: Choose) -> Any:
        attack = self._within(attack, CollusiveAttack if slot == TOGETHER else LoneAttack, choose)
        if choose.one_of("layers", ["all", "one"]) == "one":
            attack = made(InLayer if slot == TOGETHER else LoneInLayer, choose, self.makers, 1, attack=attack)
        return attack

    def _within(self, attack: Any, kind: Any, choose: Choose) -> Any:
        """The attack, or one that changes it."""
        around = {k.__name__: k for k in AROUND if hints_of(k)["attack"] is kind}
        if isinstance(self.scenario.protection, Plain):
            around.pop("KernelPoison", None)  # who sketches nothing has no sketch to pass
        chosen = choose.one_of("variant", [PLAIN, *around])
        return attack if chosen == PLAIN else made(around[chosen], choose, self.makers, 1, attack=attack)

    def _poisoned(self, slot: str, attack: Any, choose: Choose) -> dict[str, Any]:
        found: dict[str, Any] = {slot: attack}
        if slot == TRAINED and not hasattr(attack, "poison"):
            poisons = {k.__name__: k for k in self.poisons}
            if (poison := choose.one_of("data", [*([] if self.backdoors else [NONE]), *poisons])) != NONE:
                found["data"] = made(poisons[poison], choose, self.makers, self.scenario.rounds)
        if choose.one_of("boost", [NONE, "Scaled"]) != NONE:
            found["upload"] = made(Scaled, choose, self.makers, 1)
        return found

    def _schedule(self, choose: Choose) -> Schedule:
        kind, rounds, own = choose.one_of("schedule", ["always", "from", "pulses"]), self.scenario.rounds, self.own_rounds
        if kind == "always":
            return ALWAYS
        start = choose.whole("schedule.start", 0, max(1, rounds - 1), own[0] if own else rounds // 4)
        if kind == "from":
            return Schedule(start=start)
        longest = max(2, rounds // 2)
        period = choose.whole("schedule.period", 2, longest, min(longest, own[-1] if own else 5))
        active = max(1, round(choose.number("schedule.duty", 0.0, 1.0, False, 1.0) * (period - 1)))
        return Schedule(start=start, pauses=tuple((t + active, t + period) for t in range(start, rounds, period)))

    def _known(self, made_of: dict[str, Any]) -> dict[str, Any]:
        """What the adversary knows: a member's own where that will do; of those who collude, all honest updates if it may."""
        upload = as_upload(made_of.get("upload"), Level.OMNISCIENT)
        needs = max(getattr(one, "needs", Level.OWN) for one in (upload, made_of.get("choice")))
        if hasattr(made_of.get("data"), "learn"):
            needs = max(needs, Level.COLLUDING)
        if needs == Level.OWN:
            return {}
        if needs == Level.INSIDER:
            return {"knows": needs, "rule": rule_of(self.scenario.algorithm)}
        return {"knows": max(needs, min(self.knows, Level.OMNISCIENT))}


def chosen_which(space: Space, choose: Choose) -> str:
    """Which clients attack, and of those who are chosen by id the first. Raises ValueError where there is no such client."""
    options = [ANY, *(("most", "fewest", "oddest", HOLDERS) if space.distinct else ()), *((FROM,) if space.clients > 1 else ())]
    if len(options) == 1:
        return ANY
    choose = Partly(choose, space.fixed)
    if (which := choose.one_of(WHICH, options)) == FROM:
        last = space.clients - 1
        if not 0 <= (first := choose.whole(FIRST, 0, last, 0)) <= last:
            raise ValueError(f"{FIRST} is from 0 to {last}, not {first}")
    return which


def corner_patch() -> Patch:
    return Patch()


def sinusoid() -> Sinusoid:
    return Sinusoid()


def rule_of(algorithm: object) -> Any:
    """What an insider knows of the defence as a rule that a line search can try; the mean where it has none of its own."""
    rule: Any = getattr(algorithm, "rule", None)
    rule = getattr(algorithm, "inner", None) if rule is None else rule
    if rule is None:
        return Mean()
    last: Any = rule
    while isinstance(last, Prepared):
        last = last.rule
    if any(hasattr(last, name) for name in ("weights", "combine")) or callable(rule):
        return rule
    if hasattr(rule, "weights_with"):
        return WithExtra(rule, last_aggregate) if getattr(algorithm, "root", None) is None else None
    return Applied(rule)


def usual(space: Space, instead: dict[str, Any], members: Members) -> tuple[dict[str, Any], dict[str, Sequence[str]]]:
    """The point at which all is usual but what is named, and the options of its choices."""
    choose = Usual(instead)
    space.adversary(choose, members)
    chosen_which(space, choose)
    return dict(choose.chosen), dict(choose.options)
