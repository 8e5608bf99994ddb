"""What is so in a folder of a search, reckoned anew from its lines alone: nothing of `cloister.attacking` is asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean

from .sought_tables import ATTACKS, Sought
from .verdict_tables import Row

Spot = tuple[str, float, int]


@dataclass(frozen=True)
class Harm:
    """Of one run. end: what is lost in the last evaluation, where that alone is ruined; None elsewhere."""

    loss: float
    client: float
    severity: float
    end: float | None
    rates: tuple[float, float] | None


@dataclass
class Point:
    """One that was tried: harm by seed, and why there is none."""

    spot: Spot
    harms: dict[int, Harm] = field(default_factory=dict)
    without: dict[int, tuple[str, str]] = field(default_factory=dict)


class Truth:
    """A folder's lines, and what follows from them."""

    def __init__(self, table: Sought) -> None:
        self.about, self.rows = table.about, table.rows
        self.seeds: list[int] = self.about["seeds"]
        self.held_out: list[int] = self.about["held_out"]
        self.loss, self.goal = self.about["bounds"]["loss"], self.about["goal"]
        own = [row for row in self.rows if row["seed"] in (*self.seeds, *self.held_out)]
        self.clean = {row["seed"]: row for row in own if not row["attackers"]}
        self.absent = {(row["attackers"], row["seed"]): row for row in own if row["attackers"] and "attack" not in row["numbers"]}
        self.points: dict[Spot, Point] = {}
        for row in (row for row in own if "attack" in row["numbers"]):
            name = row["numbers"]["attack"]
            point = self.points.setdefault(spot := (name, row["numbers"][ATTACKS[name]], row["attackers"]), Point(spot))
            if row["status"] == "done":
                point.harms[row["seed"]] = self.harm(row)
            else:
                point.without[row["seed"]] = row["status"], row["reason"]

    def harm(self, row: Row) -> Harm:
        clean, absent = self.clean[row["seed"]], self.absent[row["attackers"], row["seed"]]
        before = {i: clean["of"][i] for i in row["of"]}
        usual, chance = fmean(before.values()), 0.11
        measure = not absent["lost"] and not absent["unmoved"]
        gave_up = absent["accuracy"] <= chance + 0.05 * (1 - chance) < usual
        held = absent["of"] if measure and not gave_up and absent["accuracy"] < usual else before
        now, final = fmean(row["of"].values()), fmean(row["final"].values())
        loss = fmean(held[i] for i in row["of"]) - now
        ends = [usual, fmean(clean["final"][i] for i in row["of"])]
        ends += [absent["accuracy"], fmean(absent["final"].values())] if measure and not gave_up else []
        end = min(ends) - final
        ended = end if end > self.loss and now - final > self.loss else None
        rates = row["success"] and (row["success"]["last_poisoned"], row["success"]["clean_mean"])
        of = {"accuracy": max(loss, ended or 0) / self.loss, "backdoor": (rates[0] - rates[1]) / 0.1 if rates else 0.0}
        severity = max(of.values()) if self.goal == "any" else of[self.goal]
        return Harm(loss, max(held[i] - v for i, v in row["of"].items()), severity, ended, rates)

    # --- points -------------------------------------------------------------------------------------------------------

    def searched(self, point: Point) -> list[Harm]:
        return [h for s, h in point.harms.items() if s in self.seeds]

    def held(self, point: Point) -> Mapping[int, Harm]:
        return {s: h for s, h in point.harms.items() if s in self.held_out}

    def played(self, point: Point) -> bool:
        return bool(self.searched(point))

    def suspected(self, point: Point) -> bool:
        of = self.searched(point)
        return bool(of) and fmean(h.severity for h in of) > 1

    def refuted(self, point: Point) -> bool:
        return self.suspected(point) and any(h.severity <= 1 for h in self.held(point).values())

    def state(self, point: Point) -> str:
        """What is known of a point."""
        if not self.played(point):
            return "not played"
        if not self.suspected(point):
            return "undecided" if {*point.without} & {*self.seeds} else "no break"
        if self.refuted(point):
            return "refuted"
        if point.without:
            return "without"
        return "breaks" if {*self.held(point)} == {*self.held_out} else "open"

    def of(self, *states: str) -> list[Point]:
        return [p for p in self.points.values() if self.state(p) in states]

    @cached_property
    def nothing(self) -> bool:
        """Whether it learned nothing without attack."""
        clean = [row["accuracy"] for row in self.clean.values()]
        return bool(clean) and fmean(clean) <= 0.11 + 0.05 * (1 - 0.11)

    @staticmethod
    def mean(point: Point, what: str) -> float:
        return fmean(getattr(h, what) for h in point.harms.values())
