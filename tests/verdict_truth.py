"""What is so in a folder of an evaluation, reckoned anew from its lines alone: nothing of `cloister.evaluating` is asked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import inf, isfinite, nan, sqrt
from statistics import fmean, stdev
from typing import Any

from scipy.stats import t as student

from .verdict_tables import Row, Table

ABSENT = "absent"
BREAKS, AT_END, THROUGH = "breaks", "breaks at the end", "lets a backdoor through"
NOTHING, UNCHANGED, REFUSED = "learned nothing without attack", "no model changed", "attack refused"
NOBODY, HOLDS, UNDECIDED = "no attacker at work", "holds", "undecided"


def number(row: Row | None, *path: str) -> float:
    """A number of a line; NaN where there is none."""
    value: Any = row
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, int | float) else nan


def known(values: Iterable[float]) -> list[float]:
    return [v for v in values if isfinite(v)]


def mean_of(values: Iterable[float]) -> float:
    """Of what is known; NaN of nothing."""
    return fmean(of) if (of := known(values)) else nan


@cache
def quantile(n: int, pairs: int = 1) -> float:
    return float(student.ppf(1 - 0.025 / pairs, n - 1))


def half(values: Sequence[float], pairs: int = 1) -> float:
    """Half of Student's t interval of the mean, of which so many hold at once; inf of one value."""
    return quantile(len(values), pairs) * stdev(values) / sqrt(len(values)) if len(values) > 1 else inf


def seeds_for(gap: float, values: Sequence[float], pairs: int = 1) -> float:
    """The least number of seeds above these whose interval is shorter than the gap; 3 of one value, inf beyond 1000."""
    if len(values) < 2:
        return 3
    deviation = stdev(values)
    numbers = range(max(3, len(values) + 1), 1001)
    return next((n for n in numbers if quantile(n, pairs) * deviation / sqrt(n) < abs(gap)), inf)


class Truth:
    """A folder's lines, and what follows from them."""

    def __init__(self, table: Table) -> None:
        self.about, self.rows = table.about, table.rows
        self.loss, self.success = self.about["bounds"]["loss"], self.about["bounds"]["success"]
        self.seeds = self.about["seeds"]
        self.attacks, self.defences = [*self.about["attacks"]], [*self.about["defences"]]
        self.strengths = sorted(map(float, self.about["strengths"]))
        self.counted = self.about["strength"] == "attackers"
        self.guesses: dict[str, dict[int, float]] = {}
        self.of: dict[tuple[str, str, str | None, float | None], dict[int, Row]] = {}
        for row in self.rows:
            spot = self.place(row), row["defence"], row["attack"], row["strength"]
            self.of.setdefault(spot, {})[row["seed"]] = row
        self.places = [f"{p} on {of}" if of else p for of in self.about["partitions"] or [""] for p in self.about["protections"]]

    @staticmethod
    def place(row: Row) -> str:
        return f"{row['protection']} on {row['partition']}" if row["partition"] else str(row["protection"])

    def at(self, strength: float) -> str:
        if self.counted:
            return f"{strength:g} attacker{'s' * (strength != 1)}"
        return f"{self.about['strength']} {strength:g}"

    def under(self, place: str) -> str:
        return f" under {place}" if len(self.places) > 1 else ""

    # --- without attack -----------------------------------------------------------------------------------------------

    def clean_rows(self, place: str, defence: str) -> list[Row]:
        return [row for row in self.of.get((place, defence, None, None), {}).values() if row["status"] == "done"]

    def clean(self, place: str, defence: str) -> float:
        """Accuracy of all clients without attack, mean over seeds."""
        return mean_of(number(row, "accuracy", "late") for row in self.clean_rows(place, defence))

    def idle(self, place: str, defence: str) -> bool:
        """Whether no round moved a model on some seed."""
        return any((row.get("unmoved") or {}).get("rounds", 0) >= len(row["rounds"]) for row in self.clean_rows(place, defence))

    def chances(self, place: str) -> dict[int, float]:
        """Accuracy of the best guess, by seed."""
        if place in self.guesses:
            return self.guesses[place]
        found: dict[int, float] = {}
        for row in (row for row in self.rows if self.place(row) == place):
            guesses = [1 / row["classes"]] if row.get("classes") else []
            for guess in [*guesses, row.get("one_label") or 0]:
                found[row["seed"]] = max(found.get(row["seed"], 0), guess)
        self.guesses[place] = {seed: guess for seed, guess in found.items() if guess}
        return self.guesses[place]

    def chance(self, place: str) -> float:
        return mean_of(self.chances(place).values())

    @staticmethod
    def no_better(accuracy: float, chance: float) -> bool:
        """A twentieth of the way from chance to 1, or less."""
        return accuracy <= chance + 0.05 * (1 - chance)

    def learned_nothing(self, place: str, defence: str) -> bool:
        return self.no_better(self.clean(place, defence), self.chance(place))

    def best(self, place: str) -> float:
        return max(known(self.clean(place, d) for d in self.defences), default=0.0)

    def learns(self, place: str, defence: str) -> bool:
        """Better than chance, and half as much as the best."""
        own = self.clean(place, defence)
        return not (self.learned_nothing(place, defence) or own < 0.5 * self.best(place))

    # --- under attack -------------------------------------------------------------------------------------------------

    def absent(self, row: Row) -> Row | None:
        """The run without the attackers' data beside this one; None where there is none, or it is no measure."""
        place, seed = self.place(row), row["seed"]
        found = self.of.get((place, row["defence"], ABSENT, row["strength"]), {}).get(seed)
        late = number(found, "accuracy", "late")
        if found is None or found["status"] != "done" or found.get("lost") or found.get("unmoved") or not isfinite(late):
            return None
        own = number(self.of.get((place, row["defence"], None, None), {}).get(seed), "accuracy", "late")
        chance = self.chances(place).get(seed, nan)
        return None if self.no_better(late, chance) and isfinite(own) and not self.no_better(own, chance) else found

    def held(self, row: Row) -> float:
        """What a run is held against: the lower of the two, where there are two."""
        clean, absent = number(row, "clean", "late"), self.absent(row)
        return clean if absent is None else min(clean, number(absent, "accuracy", "late"))

    def lost(self, row: Row) -> float:
        return self.held(row) - number(row, "accuracy", "late")

    def held_at_end(self, row: Row) -> float:
        of = [number(row, "clean", name) for name in ("late", "final")]
        of += [number(self.absent(row), "accuracy", name) for name in ("late", "final")]
        return min(known(of), default=nan)

    def lost_at_end(self, row: Row) -> float:
        return self.held_at_end(row) - number(row, "accuracy", "final")

    def ruined(self, row: Row) -> bool:
        late, final = (number(row, "accuracy", name) for name in ("late", "final"))
        return self.lost_at_end(row) > self.loss and late - final > self.loss

    def full(self, row: Row) -> bool:
        """Whether a backdoor could not gain more than the bound."""
        return number(row, "success", "clean_mean") >= 1 - self.success

    def gained(self, row: Row) -> float:
        """NaN of what is no backdoor, or could gain nothing."""
        return nan if self.full(row) else number(row, "success", "last_poisoned") - number(row, "success", "clean_mean")

    def measured(self, row: Row | None) -> bool:
        """Whether a run has what it is judged by."""
        if row is None or row["status"] != "done" or not isfinite(self.lost(row)):
            return False
        return not row.get("success") or isfinite(self.gained(row))

    def limit(self, place: str, defence: str, strength: float) -> int | None:
        """How many attackers in a round a defence is built for: what the evaluation says, else what its lines do."""
        if defence in self.about["limits"]:
            return int(self.about["limits"][defence])
        spots = (self.of.get((place, defence, attack, strength), {}) for attack in self.attacks)
        said = [
            row["built_for"] for of in spots for row in of.values() if row["status"] == "done" and row["built_for"] is not None
        ]
        return min(said, default=None)

    @cached_property
    def parts(self) -> list["Part"]:
        """Every defence in every place at every strength: within what it is built for, and beyond, each by itself."""
        found = []
        for place in self.places:
            for defence in self.defences:
                for strength in self.strengths:
                    if not self.idle(place, defence):
                        found += self._parts(place, defence, strength)
        return found

    def _parts(self, place: str, defence: str, strength: float) -> list["Part"]:
        limit, found = self.limit(place, defence, strength), []
        done = {
            a: [r for r in self.of.get((place, defence, a, strength), {}).values() if r["status"] == "done"] for a in self.attacks
        }
        for within in (None,) if limit is None else (True, False):
            rows = {
                a: [r for r in of if within is None or ((r["attackers"] or 0) <= (limit or 0)) is within]
                for a, of in done.items()
            }
            lacking = {a: len(self.seeds) - sum(map(self.measured, of)) for a, of in done.items() if rows[a] or not of}
            part = Part(self, place, defence, strength, within, limit, rows, {a: n for a, n in lacking.items() if n})
            if any(isfinite(self.lost(r)) for of in rows.values() for r in of):
                found.append(part)
        return found


@dataclass(frozen=True)
class Part:
    """What was played of a defence in one place at one strength, with no more attackers than it is built for or with more.

    rows: by attack, the lines that are done. lacking: by attack, how many seeds have no result.
    """

    truth: Truth
    place: str
    defence: str
    strength: float
    within: bool | None
    limit: int | None
    rows: Mapping[str, Sequence[Row]]
    lacking: Mapping[str, int]

    @property
    def attackers(self) -> int:
        return max((r["attackers"] or 0 for of in self.rows.values() for r in of), default=0)

    @cached_property
    def losses(self) -> dict[str, list[float]]:
        return {a: v for a, of in self.rows.items() if (v := known(map(self.truth.lost, of)))}

    @cached_property
    def gains(self) -> dict[str, list[float]]:
        return {a: v for a, of in self.rows.items() if (v := known(map(self.truth.gained, of)))}

    def ends(self, attack: str) -> list[float]:
        return known(map(self.truth.lost_at_end, self.rows[attack]))

    @property
    def nothing(self) -> bool:
        """Whether it learned nothing without attack, so that none takes anything of it."""
        return self.truth.learned_nothing(self.place, self.defence)

    @property
    def over_bound(self) -> list[str]:
        return [a for a, of in self.losses.items() if max(of) > self.truth.loss]

    @property
    def broken_late(self) -> list[str]:
        return [] if self.nothing else self.over_bound

    @property
    def ruined(self) -> list[str]:
        """Attacks that ruin a run at its end that was none that breaks late."""
        t = self.truth
        if self.nothing:
            return []
        return [a for a, of in self.rows.items() if any(t.ruined(row) and not t.lost(row) > t.loss for row in of)]

    @property
    def let_through(self) -> list[str]:
        if self.nothing:
            return []
        return [a for a, of in self.gains.items() if max(of) > self.truth.success]

    @cached_property
    def open(self) -> dict[str, float]:
        """By attack of which seeds do not tell, about how many would."""
        found: dict[str, float] = {}
        t = self.truth
        for bound, values in ((t.loss, self.losses), (t.success, self.gains)):
            for attack, of in values.items():
                if max(of) <= bound and not (len(of) > 1 and fmean(of) + half(of) <= bound + 1e-12):
                    found[attack] = max(found.get(attack, 0), seeds_for(bound - fmean(of), of))
        return found

    @property
    def met(self) -> list[Row]:
        return [row for of in self.rows.values() for row in of if row["attackers"]]

    @cached_property
    def word(self) -> str:
        """What is so of it, in the words of a verdict."""
        if self.nothing:
            return NOTHING
        late = BREAKS if self.broken_late else AT_END if self.ruined else ""
        if late or self.let_through:
            return " and ".join(filter(None, [late, THROUGH if self.let_through else ""]))
        if not self.met:
            return NOBODY
        if not self.lacking and all(row["same_models"] for row in self.met):
            return UNCHANGED
        if not self.lacking and all(row["same_models"] or nothing_taken(row) for row in self.met):
            return REFUSED
        return UNDECIDED if self.open or self.lacking else HOLDS

    @property
    def broken(self) -> bool:
        return bool(self.broken_late or self.ruined or self.let_through)


def nothing_taken(row: Row) -> bool:
    """Whether all that attackers sent was refused."""
    sent = row["attackers"] * len(row["rounds"])
    return bool(0 < sent <= (row.get("rejected") or {}).get("members", 0))
