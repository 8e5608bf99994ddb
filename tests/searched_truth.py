"""What is so of breakdown searches, reckoned anew from the lines that were played for them: of each seed the smallest strength
that breaks, and the median of these.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb, inf, isfinite

from .searched_tables import Searches
from .verdict_tables import Row, Table
from .verdict_truth import Truth, number


@dataclass(frozen=True)
class Seed:
    """One search. tried: by strength, whether it broke. reason: why there is no result, or empty."""

    seed: int
    tried: dict[float, bool]
    by: dict[float, str]
    reason: str

    @property
    def breaks(self) -> float:
        return min((s for s, broke in self.tried.items() if broke), default=inf)

    @property
    def single(self) -> bool:
        return all(broke == (s >= self.breaks) for s, broke in self.tried.items())


class One:
    """An attack on a defence under a protection, over the seeds."""

    def __init__(self, truth: "Lines", attack: str, defence: str, protection: str) -> None:
        self.so, self.attack, self.defence, self.protection = truth, attack, defence, protection
        self.seeds = [self._seed(seed) for seed in truth.base.seeds]
        self.done = [one for one in self.seeds if not one.reason]

    def _rows(self, seed: int | None = None) -> list[Row]:
        t, found = self.so.base, list[Row]()
        for (place, defence, attack, _), rows in t.of.items():
            if (place, defence, attack) == (self.protection, self.defence, self.attack):
                found += [row for s, row in rows.items() if seed in (None, s)]
        return sorted(found, key=lambda row: float(row["strength"]))

    def _seed(self, seed: int) -> Seed:
        t = self.so.base
        clean = t.of[self.protection, self.defence, None, None][seed]
        if clean["status"] != "done":
            return Seed(seed, {}, {}, str(clean["reason"]))
        if clean["unmoved"] and clean["unmoved"]["rounds"] >= len(clean["rounds"]):
            return Seed(seed, {}, {}, f"it does not work without attack either: {clean['unmoved']['reason']}")
        tried, by = dict[float, bool](), dict[float, str]()
        for row in self._rows(seed):
            why = row["reason"] if row["status"] != "done" else "" if isfinite(t.lost(row)) else "it has no accuracy"
            if why:
                return Seed(seed, {}, {}, f"at strength {row['strength']:g}: {why}")
            words = ["accuracy"] if t.lost(row) > t.loss else ["accuracy at the end"] if t.ruined(row) else []
            gain = number(row, "success", "last_poisoned") - number(row, "success", "clean_mean")
            words += ["backdoor"] if gain > t.success else []
            tried[row["strength"]], by[row["strength"]] = bool(words), " and ".join(words)
        return Seed(seed, tried, by, "")

    @cached_property
    def points(self) -> list[float]:
        return sorted(one.breaks for one in self.done)

    @property
    def median(self) -> tuple[float, float]:
        n = len(self.points)
        return self.points[(n - 1) // 2], self.points[n // 2]

    @property
    def interval(self) -> tuple[float, float, float]:
        """Its ends, and how often it covers the median: the narrowest at 95 %, else the widest."""
        n, best = len(self.points), None
        for r in range(1, n // 2 + 1):
            covers = 1 - 2 * sum(comb(n, k) for k in range(r)) / 2**n
            if covers >= 0.95 or best is None:
                best = self.points[r - 1], self.points[n - r], covers
        return best or (self.points[0], self.points[0], 0.0)

    @property
    def nothing(self) -> bool:
        return self.so.base.learned_nothing(self.protection, self.defence)

    @property
    def limit(self) -> tuple[int, int, bool] | None:
        """For how many attackers it is built, on how many seeds it breaks with no more, and whether the median is of more."""
        rows = [row for row in self._rows() if row["status"] == "done"]
        told = [row["built_for"] for row in rows if row["built_for"] is not None]
        limit = self.so.base.about["limits"].get(self.defence, min(told, default=None))
        if limit is None:
            return None
        at_work = {s: max(row["attackers"] for row in rows if row["strength"] == s) for s in {row["strength"] for row in rows}}
        within = sum(at_work[s] <= limit for s in self.points if s < inf)
        return int(limit), within, bool(self.points) and at_work.get(self.median[0], inf) > limit

    @property
    def beyond(self) -> int | None:
        """For how many attackers it is built, where nothing breaks it with no more, and half of the seeds or more with more."""
        found = self.limit
        return found[0] if found and found[2] and not found[1] and self.median[0] < inf else None

    @property
    def within(self) -> tuple[int, int] | None:
        """The same, and on how many seeds it breaks with no more, where the median does not."""
        found = self.limit
        return found[:2] if found and found[2] and found[1] else None

    @property
    def taken(self) -> list[float]:
        """Of each seed the least strength below its break that takes more than the bound of the accuracy without attack."""
        t, found = self.so.base, list[float]()
        for one in self.done:
            of = {row["strength"]: number(row, "clean", "late") - number(row, "accuracy", "late") for row in self._rows(one.seed)}
            whole = [s for s, broke in one.tried.items() if not broke and s < one.breaks and of[s] > t.loss]
            found += [min(whole)] if whole else []
        return found

    @property
    def in_vain(self) -> list[str]:
        t, rows = self.so.base, [row for row in self._rows() if row["status"] == "done"]
        kinds = {
            "no attacker was at work in any round": [not row["attackers"] for row in rows],
            "every loyal client ended with the very model that it has without attack": [
                bool(row["attackers"] and row["same_models"]) for row in rows],
            "its trigger works on the models without attack already, so that a backdoor could gain no more than the bound":
                [bool(row["success"]) and t.full(row) for row in rows],
        }  # fmt: skip
        return [f"in {sum(of)} of {len(of)} runs {words}" for words, of in kinds.items() if any(of)]


class Lines:
    """All searches."""

    def __init__(self, of: Searches) -> None:
        evaluation = of.evaluation
        about: Row = {
            "bounds": {"loss": evaluation.bounds.loss, "success": evaluation.bounds.success}, "seeds": [*evaluation.seeds],
            "attacks": dict.fromkeys(evaluation.attacks), "defences": dict.fromkeys(evaluation.defences), "strength": "attackers",
            "strengths": [], "partitions": {}, "protections": {**evaluation.named_protections}, "limits": {**evaluation.limits},
        }  # fmt: skip
        self.base = Truth(Table(about, of.rows))
        self.steps: Sequence[float] = [of.steps.least + k * of.steps.step for k in range(1000)]
        self.steps = [s for s in self.steps if s <= of.steps.most + 1e-9]
        self.of = [One(self, a, d, p) for p in about["protections"] for d in about["defences"] for a in about["attacks"]]

    def strength(self, value: float) -> str:
        return f"over {max(self.steps):g}" if value == inf else f"{value:g}"

    def median(self, one: One) -> str:
        low, high = map(self.strength, one.median)
        return low if low == high else f"{low} to {high}"
