"""Families of attacks on the hardened FLIC, each with numbers that a search draws: what `hardened_flic_search.py` plays.

Those that are nowhere else: an attack that waits for the member's own choice, and a coalition of two minds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from cloister.protocol.view.answers import Vector
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.attack import UploadAttack
from cloister.threat_models.backdoors import Backdoor
from cloister.threat_models.cluster_attacks import Hider, Tilted
from cloister.threat_models.cluster_timing import Fragmentation
from cloister.threat_models.collusion import ALIE, IPM, MinMax
from cloister.threat_models.forged_choices import WorstModel
from cloister.threat_models.knowledge import Colluding, Level, Own, forged
from cloister.threat_models.membership import Pool, Schedule
from cloister.threat_models.offers import Offered
from cloister.threat_models.simple_attacks import MinusGradient, RandomVector, Scaled
from cloister.threat_models.triggers import Patch
from cloister.threat_models.variants import Jittered

Numbers = Mapping[str, float]
ROUNDS = 40
"""Of a run: attacks in pulses last as long."""


# --- attacks that are nowhere else ------------------------------------------------------------------------------------


@dataclass
class AfterChoice:
    """-strength times the own update, from `wait` rounds after the member was last asked to choose, for `lasting` rounds.

    Honest otherwise, and in its choice: all that a member sees of when the server groups is that it is asked.
    """

    strength: float
    wait: int
    lasting: int
    asked: int = -1
    needs: ClassVar[Level] = Level.OWN

    def __call__(self, own: Own, /) -> Vector:
        since = own.round - self.asked - self.wait
        return np.float32(-self.strength) * own.update if 0 < since <= self.lasting else own.update

    def listen(self) -> "Listening":
        return Listening(self)


@dataclass(frozen=True)
class Listening:
    """An honest choice, of which the attack is told."""

    attack: AfterChoice
    needs: ClassVar[Level] = Level.OWN

    def __call__(self, offered: Offered, /) -> int:
        self.attack.asked = offered.round
        return 0 if offered.honest is None else offered.honest


@dataclass(frozen=True)
class TwoMinds:
    """Half of the members send -strength times their own update, the others what a collusive attack says."""

    strength: float
    attack: Any
    needs: ClassVar[Level] = Level.OMNISCIENT
    identical: ClassVar[bool] = False

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        together = self.attack(coalition)
        found = []
        for k, (member, own) in enumerate(sorted(coalition.own.items())):
            found.append(np.float32(-self.strength) * own.update if k % 2 else together[member])
        return forged(coalition, found)


# --- families ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Family:
    """numbers: the range of each, as (least, most, logarithmic). make: the adversary of so many with these numbers."""

    numbers: Mapping[str, tuple[float, float, bool]]
    make: Callable[[Numbers, int], Adversary]
    triggered: Callable[[Numbers], Backdoor] | None = field(default=None)

    def drawn(self, rng: np.random.Generator) -> dict[str, float]:
        """Each number uniform in its range, or its logarithm."""
        return {name: self._at(name, rng.random()) for name in self.numbers}

    def varied(self, around: Numbers, rng: np.random.Generator) -> dict[str, float]:
        """Near these numbers: a deviation of a tenth of the range."""
        places = {name: self._place(name, around[name]) for name in self.numbers}
        return {name: self._at(name, float(np.clip(p + 0.1 * rng.standard_normal(), 0, 1))) for name, p in places.items()}

    def _at(self, name: str, place: float) -> float:
        least, most, logarithmic = self.numbers[name]
        return float(least * (most / least) ** place) if logarithmic else float(least + (most - least) * place)

    def _place(self, name: str, value: float) -> float:
        least, most, logarithmic = self.numbers[name]
        return float(np.log(value / least) / np.log(most / least)) if logarithmic else (value - least) / (most - least)


def uploading(attack: UploadAttack, count: int, **others: Any) -> Adversary:
    """By so many members, who know the honest updates of the round if the attack needs them."""
    knows = Level.OWN if attack.needs == Level.OWN else Level.OMNISCIENT
    return Adversary(members=Pool(count), upload=attack, knows=knows, **others)


def pulsed(n: Numbers, count: int) -> Adversary:
    """Attacks in the first rounds of every period."""
    period = round(n["period"])
    active = max(1, round(n["duty"] * (period - 1)))
    begin = round(n["start"])
    pauses = tuple((t + active, t + period) for t in range(begin, ROUNDS, period))
    return uploading(MinusGradient(n["strength"]), count, when=Schedule(start=begin, pauses=pauses))


def after_choice(n: Numbers, count: int) -> Adversary:
    attack = AfterChoice(n["strength"], round(n["wait"]), round(n["lasting"]))
    return Adversary(members=Pool(count), upload=attack, choice=attack.listen())


def voting(n: Numbers, count: int) -> Adversary:
    """Votes for the worst, and uploads that are honest or, in half of the draws, a weak attack."""
    upload = None if n["upload"] < 0.5 else MinusGradient(n["strength"])
    return Adversary(members=Pool(count), upload=upload, choice=WorstModel(), when=Schedule(start=round(n["start"])))


def min_max(n: Numbers, count: int) -> Adversary:
    kinds: tuple[Any, ...] = ("deviation", "sign", "mean")
    return uploading(Jittered(MinMax(kinds[min(2, int(n["kind"]))]), n["spread"]), count)


def patch(n: Numbers) -> Backdoor:
    row, column, size = int(n["row"]), int(n["column"]), 2 + int(n["size"])
    return Backdoor(Patch(row, column, size, size), target=0, share=n["share"])


STRENGTH = (1e-3, 1e3, True)
FAMILIES: dict[str, Family] = {
    "minus gradient": Family({"strength": STRENGTH}, lambda n, count: uploading(MinusGradient(n["strength"]), count)),
    "IPM": Family({"strength": STRENGTH}, lambda n, count: uploading(IPM(n["strength"]), count)),
    "scaled": Family({"strength": STRENGTH}, lambda n, count: uploading(Scaled(n["strength"]), count)),
    "pulses": Family(
        {"strength": (0.1, 10, True), "period": (2, 12, False), "duty": (0, 1, False), "start": (0, 30, False)}, pulsed
    ),
    "after choice": Family({"strength": (0.1, 10, True), "wait": (0, 4, False), "lasting": (1, 8, False)}, after_choice),
    "votes": Family({"upload": (0, 1, False), "strength": (0.01, 3, True), "start": (0, 20, False)}, voting),
    "ALIE": Family(
        {"z": (0, 3, False), "spread": (0, 1.5, False)},
        lambda n, count: uploading(Jittered(ALIE(n["z"]), n["spread"]), count),
    ),
    "Min-Max": Family({"kind": (0, 3, False), "spread": (0, 1.5, False)}, min_max),
    "tilted": Family(
        {"angle": (0.5, 3.1, False), "scale": (0.3, 3, True)},
        lambda n, count: uploading(Tilted(n["angle"], n["scale"]), count),
    ),
    "hider": Family(
        {"quantile": (0, 0.5, False), "scale": (0.5, 3, True)},
        lambda n, count: uploading(Hider(n["quantile"], scale=n["scale"]), count),
    ),
    "noise": Family({"s": (1e-4, 1, True)}, lambda n, count: uploading(RandomVector(n["s"]), count)),
    "fragmentation": Family(
        {"scale": (0.3, 10, True), "steps": (1, 6, False)},
        lambda n, count: Adversary(members=Pool(count), local=Fragmentation(steps=round(n["steps"]), scale=n["scale"])),
    ),
    "two minds": Family(
        {"strength": (0.01, 100, True), "z": (0, 3, False)},
        lambda n, count: uploading(TwoMinds(n["strength"], ALIE(n["z"])), count),
    ),
    "backdoor": Family(
        {"share": (0.1, 1, False), "row": (0, 5, False), "column": (0, 5, False), "size": (0, 2, False), "factor": (1, 5, True)},
        lambda n, count: Adversary(members=Pool(count), data=patch(n), upload=Scaled(n["factor"])),
        patch,
    ),
}
