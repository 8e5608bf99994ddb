"""What an evaluation takes for an attack, and the adversary of a given strength that it makes of it.

Besides there is the run without the attackers' data. What it costs is what the data of that many
clients are worth. No defence that leaves attackers out can do better, so harm is held against it.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..fl.clients.corruption import Corruption
from ..fl.functions import Unfit, brief
from ..fl.own_code import has_own
from ..fl.robust.aggregate import aggregate
from ..fl.robust.averages import Mean
from ..fl.robust.mixing import Prepared
from ..fl.runs.scenario import Scenario, described
from .adversary import Adversary
from .functions import as_upload, place_of
from .knowledge import Level
from .membership import ALWAYS, Members, Pool
from .simple_attacks import Overwritten

ABSENT = "absent"
"""The name of the run without the attackers' data, among the attacks of an evaluation."""


@dataclass(frozen=True, slots=True)
class Informed:
    """An attack that is made for the run it enters: told its defence, as an insider is, or its number of clients or rounds.

    make: from the strength and the cell's scenario, which has no adversary yet.
    """

    make: Callable[[float, Scenario], Corruption]


SUITE = "attacks by name: put them beside the others, attacks={**attacks.strongest(), 'mine': mine}"
"""What is to be done with a suite that stands in the place of an attack."""

Attack = Callable[[Any], Any] | Informed
"""An adversary of a given strength: a function of the strength (a number or share of attackers, or whatever the evaluation's
strengths are), or `Informed`. Or what its members do, by as many of them as the strength says: an attack of this package, or a
function whose first parameter says by its type what it attacks (`Own`, `Omniscient`, ... for uploads, `Situation` for data and
training, `Offered` for choices)."""


def adversary_of(name: str, attack: Attack, strength: float, scenario: Scenario) -> Corruption:
    """The attack's adversary. scenario: the cell's, without one. Raises Unfit for what is no attack, with its name."""
    if isinstance(attack, Informed):
        found: Any = attack.make(strength, scenario)
    elif (place := place_of(attack)) is not None:
        found = by_members(place, attack, strength, scenario)
    elif callable(attack):
        found = attack(strength)
    elif isinstance(attack, Mapping):
        raise Unfit(f"attack {name!r} is a dict of {SUITE}")
    else:
        raise Unfit(
            f"attack {name!r} is {brief(attack)}; give an attack, for example attacks.MinusGradient(), or a function from a"
            " strength to an Adversary"
        )
    if isinstance(found, Mapping):
        raise Unfit(f"attack {name!r} makes a dict of {SUITE}")
    if not hasattr(found, "corrupt"):
        raise Unfit(
            f"attack {name!r} gave {brief(found)} for the strength {strength:g}; it is taken for a function from a strength to an"
            " Adversary, unless its first parameter has a type: own: attacks.Own for an attack on uploads, situation:"
            " attacks.Situation for data"
        )
    adversary: Corruption = found
    return adversary


def by_members(place: str, attack: Any, strength: float, scenario: Scenario) -> Adversary:
    """As many members as the strength says, drawn for the whole run, who do this. They know the honest updates of the round if
    the attack needs more than a member's own, and the rule if it needs that.
    """
    level = as_upload(attack, Level.OMNISCIENT).needs if place == "upload" else getattr(attack, "needs", Level.OWN)
    learns = place == "data" and hasattr(attack, "learn")
    knows = Level.OWN if level == Level.OWN and not learns else max(level, Level.OMNISCIENT)
    what: dict[str, Any] = {place: attack}
    rule = insiders_rule(scenario) if knows == Level.INSIDER else None
    return Adversary(members=Pool(strength), knows=knows, rule=rule, **what)  # type: ignore[arg-type]


def insiders_rule(scenario: Scenario) -> Any:
    """The rule of a run's defence as an insider knows it: that of its clusters where it has them; the mean without one."""
    algorithm: Any = scenario.algorithm
    found = getattr(algorithm, "rule", None) or getattr(algorithm, "inner", None) or Mean()
    return found if hasattr(found, "weights") or hasattr(found, "combine") or isinstance(found, Prepared) else Applied(found)


@dataclass(frozen=True, slots=True)
class Applied:
    """A rule that reads whole updates, as a function of them: it is evaluated in full at every point that a search tries, and
    keeps nothing of it.
    """

    rule: Any

    def __call__(self, updates: Any, /) -> Any:
        rule = deepcopy(self.rule) if has_own(self.rule) else self.rule
        return aggregate(rule, updates, np.random.default_rng(0)).vector


def absent_adversary(attacks: Mapping[str, Attack], strength: float, scenario: Scenario) -> Adversary | None:
    """The members that all attacks of this strength have in common, without their data; None where attacks differ in them."""
    found: dict[str, Members] = {}
    for name, attack in attacks.items():
        with suppress(Exception):  # whatever an attack of the user's raises: its cells' lines will say it
            members: Any = getattr(adversary_of(name, attack, strength, scenario), "members", None)
            found |= {} if members is None else {str(described(members)): members}
    if len(found) != 1:
        return None
    return absent_of(next(iter(found.values())), scenario)


def absent_of(members: Members, scenario: Scenario) -> Adversary:
    """These members without their data: they never answer. Where the defence is a rule, they send what is rejected instead: it
    then knows so many of those that it is built for, and trims or leaves out as many fewer of the others.
    """
    rejected = hasattr(scenario.algorithm, "rule")
    return Adversary(members=members, upload=Overwritten()) if rejected else Adversary(members=members, silent=ALWAYS)
