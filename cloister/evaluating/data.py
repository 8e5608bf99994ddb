"""An evaluation's folder as its report reads it, and the numbers over seeds that follow from its cells."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from ..fl.runs.held_alone import GO_ON
from ..fl.runs.results_folder import Row, read_results
from ..grids.spread import Spread, metric, spread
from ..threat_models.broken import Bounds
from ..threat_models.cell import idle
from ..threat_models.chance import gave_up, guess_of, of_rows
from ..threat_models.evaluation import ABSENT
from .over_seeds import summed_up


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a cell stands, whatever its seed. attack, strength: None without attack. protection: as in `Grid`."""

    attack: str | None
    defence: str
    strength: float | None
    protection: str


@dataclass(frozen=True, slots=True)
class Grid:
    """What an evaluation's folder holds, of the evaluation that it describes now.

    cells: lines by where they stand, in the order of the seeds. foreign: how many lines stand elsewhere: of searches, or of a
    larger grid. earlier: how many stand in the grid, but were played with another attack, defence or scenario of that name.
    breakdown: what searches found, or empty; its `left_aside` counts those about other attacks, defences or scenarios of these
    names.

    A protection here is one on a partition, where the evaluation names partitions: "Plain on Dirichlet 0.5".
    """

    folder: str
    about: Row
    cells: Mapping[Spot, Sequence[Row]]
    foreign: int
    earlier: int
    breakdown: Row

    @property
    def attacks(self) -> list[str]:
        """Without the run without the attackers' data, which is none."""
        return [name for name in self.about["attacks"] if name != ABSENT]

    @property
    def defences(self) -> list[str]:
        return list(self.about["defences"])

    @property
    def protections(self) -> list[str]:
        return [place_words(p, of) for of in self.about["partitions"] or [""] for p in self.about["protections"]]

    @property
    def strengths(self) -> list[float]:
        return [float(s) for s in self.about["strengths"]]

    @property
    def bounds(self) -> Bounds:
        """When a defence is called broken."""
        return Bounds(**self.about["bounds"])

    def chances(self, protection: str) -> dict[int, float]:
        """Accuracy of a guess among the labels, by seed; without those of which no line says what labels there are."""
        by: dict[int, list[Row]] = {}
        for spot, rows in self.cells.items():
            for row in rows if spot.protection == protection else ():
                by.setdefault(row["seed"], []).append(row)
        return {seed: chance for seed, rows in by.items() if (chance := of_rows(rows)) is not None}

    def chance(self, protection: str) -> float | None:
        """The same in the mean of the seeds; None where no line says what there are."""
        found = self.chances(protection)
        return sum(found.values()) / len(found) if found else None

    def guess(self, protection: str) -> str:
        """What that guess is, in words."""
        return guess_of(row for spot, rows in self.cells.items() if spot.protection == protection for row in rows)

    @property
    def expected(self) -> int:
        """Cells of the whole grid."""
        return len(self.about["keys"])

    @property
    def unplayed(self) -> int:
        """Cells of it that have no line yet."""
        return self.expected - sum(map(len, self.cells.values()))

    def rows(self, attack: str | None, defence: str, strength: float | None, protection: str) -> list[Row]:
        """The lines of a spot that are done."""
        return [r for r in self.cells.get(Spot(attack, defence, strength, protection), ()) if r["status"] == "done"]

    def over_seeds(self, rows: Sequence[Row], *path: str) -> Spread | None:
        """A metric of some lines over their seeds."""
        return spread(metric(row, *path) for row in rows)

    def clean(self, defence: str, protection: str) -> Spread | None:
        """Accuracy without attack, late in the run, over seeds: of all clients, who are all loyal there."""
        return spread(self.clean_by_seed(defence, protection).values())

    def clean_of_loyal(self, attack: str, defence: str, strength: float | None, protection: str) -> Spread | None:
        """The same of those clients alone who are loyal in the runs of this attack at this strength."""
        return self.over_seeds(self.rows(attack, defence, strength, protection), "clean", "late")

    def clean_by_seed(self, defence: str, protection: str) -> dict[int, float]:
        """The same by seed."""
        return _by_seed(self.rows(None, defence, None, protection))

    def absent(self, defence: str, strength: float | None, protection: str) -> dict[int, float]:
        """Accuracy of the loyal clients without the attackers' data, by seed. Without seeds on which a round of that run came to
        nothing, since a protection or a rule had too few without them, or it is no better than a guess, as of a defence that
        moves nothing once somebody is missing, and the run without attack is: that is no measure of what their data are worth.
        """
        found = _by_seed([row for row in self.rows(ABSENT, defence, strength, protection) if is_measure(row)])
        clean, chances = self.clean_by_seed(defence, protection), self.chances(protection)
        return {t: v for t, v in found.items() if t not in clean or not gave_up(v, clean[t], chances.get(t))}

    def absent_at_end(self, defence: str, strength: float | None, protection: str) -> dict[int, float]:
        """The same in the last evaluation alone, of the same seeds."""
        known, rows = self.absent(defence, strength, protection), self.rows(ABSENT, defence, strength, protection)
        return {row["seed"]: metric(row, "accuracy", "final") for row in rows if row["seed"] in known}

    def built_for(self, defence: str, rows: Sequence[Row]) -> int | None:
        """Attackers in a round that the defence is built for: what the evaluation says, else what it says itself."""
        said = [self.about["limits"][defence]] if defence in self.about["limits"] else []
        return min((n for n in said or [row.get("built_for") for row in rows] if n is not None), default=None)

    def idle(self, defence: str, protection: str) -> str:
        """Why a defence never moved a model without attack, with some seed; empty where it works."""
        return next(filter(None, map(idle, self.rows(None, defence, None, protection))), "")

    def missing(self, defence: str, protection: str) -> int:
        """Cells under attack that have no line yet."""
        of = [Spot(a, defence, s, protection) for s in self.strengths for a in self.attacks]
        return len(of) * len(self.about["seeds"]) - sum(len(self.cells.get(spot, ())) for spot in of)

    def attacked(self, attack: str, defence: str, strength: float | None, protection: str) -> Spread | None:
        """The same under attack, of the loyal clients."""
        return self.over_seeds(self.rows(attack, defence, strength, protection), "accuracy", "late")

    def worst_attack(self, defence: str, strength: float, protection: str) -> str | None:
        """The attack that leaves the least accuracy, mean over the seeds that are done."""
        found = {a: self.attacked(a, defence, strength, protection) for a in self.attacks}
        seen = {a: s.mean for a, s in found.items() if s is not None}
        return min(seen, key=lambda a: seen[a]) if seen else None


def is_measure(absent: Row) -> bool:
    """Whether a run without the attackers' data says what they are worth: none of its rounds came to nothing."""
    return absent["status"] == "done" and not (absent.get("lost") or absent.get("unmoved"))


def at(grid: Grid, strength: float) -> str:
    """A strength in words: "6 attackers", "share of attackers 0.3"."""
    word = str(grid.about["strength"])
    return f"{strength:g} {word if strength != 1 else 'attacker'}" if word == "attackers" else f"{word} {strength:g}"


def place_words(protection: str, partition: str) -> str:
    """A protection on a partition, in words."""
    return f"{protection} on {partition}" if partition else protection


def _by_seed(rows: Sequence[Row]) -> dict[int, float]:
    found = {row["seed"]: metric(row, "accuracy", "late") for row in rows}
    return {seed: value for seed, value in found.items() if isfinite(value)}


def described_in(folder: Path) -> Row:
    """What an evaluation's folder says that it holds. Raises ValueError where it does not, or an earlier version wrote it."""
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    about = json_in(folder, "evaluation.json")
    if not about:
        raise ValueError(_undescribed(folder))
    if "bounds" not in about:
        raise ValueError(f"{folder} was written by an earlier version, which judged otherwise; run it again by {GO_ON}")
    return about


OF_LINES = (("method", "comparison", "compared", "compare"), ("numbers", "search", "attacked", "attack"))
"""By what its lines have and an evaluation's have not: the kind of a folder, what was done there, and the command."""


def _undescribed(folder: Path) -> str:
    """That a folder lacks the file which says what was played, and how to write it anew: as its lines tell, of an evaluation or
    of another grid.
    """
    lines = (folder / "results.jsonl").read_bytes().splitlines() if (folder / "results.jsonl").is_file() else []
    try:
        first = json.loads(lines[0]) if lines else {}
    except ValueError:
        first = {}
    kind, done, command = next((of for key, *of in OF_LINES if key in first), ("evaluation", "evaluated", "evaluate"))
    missing = f"{folder / f'{kind}.json'} is missing, so that {folder} does not say what was {done}"
    return f"{missing}; to write it anew: cloister {command} FILE --out {folder} --resume (resume=True in Python)"


def json_in(folder: Path, name: str) -> Row:
    """A JSON file of the folder; empty where it is not there. Raises ValueError where it is damaged."""
    if not (folder / name).is_file():
        return {}
    try:
        found: Row = json.loads((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder / name} cannot be read ({error}); run the evaluation again by {GO_ON}") from None
    return found


def read_grid(folder: Path) -> Grid:
    """Reads an evaluation's folder, finished or not. Raises ValueError where there is none to read."""
    rows = read_results(folder, "evaluation", "evaluate")
    about, breakdown = described_in(folder), json_in(folder, "breakdown.json")
    places = {
        "attack": {None, ABSENT, *about["attacks"]},
        "defence": set(about["defences"]),
        "protection": set(about["protections"]),
        "partition": set(about["partitions"]) or {""},
        "strength": {None, *map(float, about["strengths"])},
        "seed": set(about["seeds"]),
    }
    cells: dict[Spot, list[Row]] = {}
    present = set(about["keys"])
    foreign = earlier = 0
    for row in rows.values():
        if any(row.get(name, "") not in allowed for name, allowed in places.items()):
            foreign += 1
            continue
        if row["key"] not in present:
            earlier += 1
            continue
        place = place_words(row["protection"], row["partition"])
        cells.setdefault(Spot(row["attack"], row["defence"], row["strength"], place), []).append(row)
    order = {seed: k for k, seed in enumerate(about["seeds"])}
    ordered = {spot: sorted(found, key=lambda r: order[r["seed"]]) for spot, found in cells.items()}
    results = summed_up(breakdown)["results"]
    same = "bounds" in breakdown  # else by an earlier version, which judged otherwise
    current = [one for one in results if same and one.get("of") in about.get("searches", ())]
    found = {"bounds": {}, **breakdown, "results": current, "left_aside": len(results) - len(current)} if breakdown else {}
    return Grid(folder.resolve().name, about, ordered, foreign, earlier, found)
