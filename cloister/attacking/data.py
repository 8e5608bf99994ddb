"""A search's folder as its report reads it: what was tried, what broke the defence, and how loss grows with cost."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..fl.runs.held_alone import GO_ON
from ..fl.runs.results_folder import Row, read_results
from ..threat_models.broken import Bounds
from ..threat_models.chance import nothing_words
from ..threat_models.search.found import Key, Point, key_of, points_of, try_of
from ..threat_models.search.play import Sought, is_measure
from ..threat_models.search.spent import spent
from .workers import KIND


@dataclass(frozen=True, slots=True)
class Search:
    """What a search's folder holds. rows: the lines of this search, in the order in which they were played; foreign: how many are
    of earlier searches of other defences or settings, or of an attack before it was edited. found: what the
    search wrote when it ended; empty before.
    """

    folder: str
    about: Row
    rows: Sequence[Row]
    foreign: int
    points: Mapping[Key, Point]
    found: Row

    @property
    def sought(self) -> Sought:
        """What counts as a break."""
        return sought_in(self.about)

    @property
    def seconds(self) -> float:
        """CPU seconds of all runs, and of what was done beside them."""
        return sum(map(spent, self.rows))

    @property
    def counts(self) -> list[int]:
        """Numbers of attackers that were tried."""
        return sorted({p.attackers for p in self.points.values()})

    @property
    def seed_searched(self) -> str:
        """The seed, or seeds, that were searched, as words."""
        return "the seed searched" if len(self.about["seeds"]) == 1 else "the seeds searched"

    def at(self, count: int) -> list[Point]:
        return [p for p in self.points.values() if p.attackers == count]

    @property
    def failed(self) -> Mapping[str, int]:
        """Why points could not be played, and how many."""
        reasons: dict[str, int] = {}
        for point in self.points.values():
            if point.failed:
                reasons[point.failed] = reasons.get(point.failed, 0) + 1
        return reasons

    @property
    def played(self) -> list[Point]:
        """Points that were played, which says something of the defence."""
        return [p for p in self.points.values() if not p.failed]

    @property
    def erred(self) -> bool:
        """Whether an attack of the user's own ended in an error, or no point could be played."""
        own = any(p.erred for p in self.points.values() if p.numbers["attack"] in self.about["own"])
        return own or (bool(self.points) and not self.played)

    @property
    def unsettled(self) -> Point | None:
        """Of a search that was stopped before it said what it found: the break by the fewest attackers, if there is one."""
        return None if self.found or not self.points else min(self.breaks, key=lambda p: (p.attackers, -p.severity), default=None)

    @property
    def breaks(self) -> list[Point]:
        """Points that break the defence on every seed that was held out."""
        return [p for p in self.points.values() if p.breaks(self.about["held_out"])]

    @property
    def refuted(self) -> int:
        """Points that broke it where they were searched and did not hold."""
        return sum(p.refuted() for p in self.points.values())

    @property
    def open(self) -> int:
        """Points that broke it where they were searched, and that the budget left untried on some seed that was held out."""
        return sum(map(self.unconfirmed, self.points.values()))

    def unconfirmed(self, point: Point) -> bool:
        """Whether it broke the defence where it was searched, and was not tried on every seed that was held out."""
        return self._unsettled(point) and not point.without

    def without(self, point: Point) -> bool:
        """Whether it broke the defence where it was searched, and has no result on another seed, as of an error."""
        return self._unsettled(point) and bool(point.without)

    def _unsettled(self, point: Point) -> bool:
        return point.suspected and not point.refuted() and not point.breaks(self.about["held_out"])

    def undecided(self, point: Point) -> bool:
        """Whether it broke nothing on the seeds searched that have a result, and another of these has none."""
        return bool(self.missing(point)) and not (point.failed or point.suspected)

    def missing(self, point: Point) -> list[int]:
        """Seeds that are searched on which it has no result."""
        return [seed for seed in self.about["seeds"] if seed in point.without]

    @property
    def own(self) -> list[Row]:
        """Lines of the seeds that are searched or held out now, and not of those that an earlier search had."""
        seeds = {*self.about["seeds"], *self.about["held_out"]}
        return [row for row in self.rows if row["seed"] in seeds]

    def absent(self, count: int) -> float | None:
        """Accuracy of the loyal clients without the attackers' data: mean over the runs with so many attackers."""
        seen = [row["accuracy"] for row in self.own if row["attackers"] == count and try_of(row).is_absent and is_measure(row)]
        return sum(seen) / len(seen) if seen else None

    def of_clean(self) -> tuple[Point, float] | None:
        """The point that takes most of the accuracy without attack, whatever is missing without the attackers' data, and how
        much, in the mean of its seeds; None where none takes anything of it.
        """
        done = [row for row in self.own if row["status"] == "done" and row.get("of")]
        clean = {row["seed"]: row for row in done if row["attackers"] == 0}
        taken: dict[Key, list[float]] = {}
        for row in done:
            one = try_of(row)
            key = key_of(one.numbers, one.attackers)
            if key in self.points and one.seed in clean:
                usual = sum(float(clean[one.seed]["of"][i]) for i in row["of"]) / len(row["of"])
                taken.setdefault(key, []).append(usual - float(row["accuracy"]))
        means = {key: sum(of) / len(of) for key, of in taken.items()}
        most = max(means, key=lambda key: means[key], default=None)
        return None if most is None or means[most] <= 0 else (self.points[most], means[most])

    @property
    def nothing(self) -> str:
        """That the defence learned nothing without attack, so that there was nothing to take; empty where it learned. Who says
        the most frequent label always has learned nothing, however frequent that is.
        """
        clean = [row for row in self.own if row["attackers"] == 0 and row["status"] == "done"]
        return nothing_words(sum(row["accuracy"] for row in clean) / max(1, len(clean)), clean)

    def growth(self) -> list[tuple[int, float, float]]:
        """After how many runs the worst that was known became worse: (runs, severity, loss)."""
        found: list[tuple[int, float, float]] = []
        top = 0.0
        for n, row in enumerate(self.rows, 1):
            one = try_of(row)
            point = self.points.get(key_of(one.numbers, one.attackers))
            harm = None if point is None else point.searched.get(one.seed)
            if harm is not None and harm.severity > top:
                top = harm.severity
                found.append((n, harm.severity, harm.loss))
        return found


def sought_in(about: Row) -> Sought:
    return Sought(bounds=Bounds(**about["bounds"]), goal=about["goal"])


def read_search(folder: Path) -> Search:
    """Reads a search's folder, finished or not. Raises ValueError where there is none to read."""
    rows = read_results(folder, KIND, "attack")
    try:
        about = json.loads((folder / f"{KIND}.json").read_text(encoding="utf-8"))
        found = json.loads((folder / "found.json").read_text()) if (folder / "found.json").exists() else {}
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder} does not say what was attacked ({error}); run the search again by {GO_ON}") from None
    if "goal" not in about:
        raise ValueError(f"{folder} was written by an earlier version, which judged otherwise; search again, in another folder")
    if not isinstance(about["own"], dict):
        raise ValueError(
            f"{folder} was written by an earlier version, which did not tell edited attacks; search again by {GO_ON}"
        )
    own = [row for row in rows.values() if row.get("about") == about["about"] and _is_of(row, about["own"])]
    points = points_of(own, about["seeds"], about["held_out"], sought_in(about))
    found = found if _is_still(found, points, about["held_out"]) else {}
    return Search(folder.resolve().name, about, own, len(rows) - len(own), points, found)


def _is_still(found: Row, points: Mapping[Key, Point], held_out: Sequence[int]) -> bool:
    """Whether what a search wrote when it ended is so of its lines now: one that went on, and was stopped, may have found a
    break since, or one by fewer attackers, or have other seeds held out.
    """
    breaks = [point for point in points.values() if point.breaks(held_out)]
    best = found.get("cheapest")
    if not found or best is None:
        return not breaks
    same = any(point.attackers == best["attackers"] and point.numbers == best["numbers"] for point in breaks)
    return same and min(point.attackers for point in breaks) >= best["attackers"]


def _is_of(row: Row, own: Mapping[str, str]) -> bool:
    """Whether a line is of the code that its attack has now."""
    return bool(row.get("own", "") == own.get(str(row["numbers"].get("attack")), ""))


def curve(search: Search) -> list[dict[str, Any]]:
    """How harm grows with cost: by number of attackers the largest loss and the largest gain of a backdoor, each of any point."""
    rows = []
    for count in search.counts:
        points = [p for p in search.at(count) if not p.failed]
        gains = [gain for p in points if (gain := gained_of(p)) is not None]
        rows.append(
            {
                "attackers": count,
                "tried": len(search.at(count)),
                "failed": len(search.at(count)) - len(points),
                "broken": any(p.breaks(search.about["held_out"]) for p in points),
                "unconfirmed": any(search.unconfirmed(p) or search.without(p) for p in points),
                "undecided": sum(map(search.undecided, points)),
                "nothing": bool(search.nothing),
                "absent": search.absent(count),
                "loss": max((p.loss for p in points), default=None),
                "gained": max(gains, default=None),
            }
        )
    return rows


def found_words(row: Mapping[str, Any]) -> str:
    """Whether a number of attackers has a break, of a row of the curve."""
    if row["broken"]:
        return "yes"
    if row["unconfirmed"] or row["failed"] == row["tried"]:
        return "unconfirmed" if row["unconfirmed"] else "not played"
    less = [f"{n} {words}" for n, words in ((row["failed"], "not played"), (row.get("undecided"), "not on every seed")) if n]
    return ", ".join(["nothing to take" if row.get("nothing") else "none found", *less])


def gained_of(point: Point) -> float | None:
    """By how much more often a backdoor succeeds, mean over the seeds that were played; None where it is none."""
    seen = [h.gained for h in point.seen if h.gained is not None]
    return sum(seen) / len(seen) if seen else None
