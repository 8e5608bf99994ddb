"""Searches for a break that are made up, each from a number alone: points near the bounds, breaks that hold and that do not,
seeds without a result, budgets that ended, searches that were stopped or resumed, in every mixture.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from cloister.attacking.data import Search, read_search
from cloister.attacking.tables import point_json

from .verdict_tables import Row, drawn

ATTACKS: Mapping[str, str] = {"IPM": "IPM.eps", "ALIE": "ALIE.z", "BadNets": "BadNets.scale", "mine": "mine.factor"}
BACKDOOR = "BadNets"
CLIENTS, LOYAL = 8, 3
HARMS = {"none": 3, "little": 4, "near": 3, "breaks": 7, "gains": 2, "end": 2}
CALM = {"none": 5, "little": 5, "near": 1, "gains": 2}


@dataclass(frozen=True, slots=True)
class Sought:
    """What a folder says that was sought, its lines, and what it found when it ended; empty where it did not."""

    about: Row
    rows: Sequence[Row]
    ended: bool
    found: Row

    def search(self, path: Path) -> Search:
        """As it is read from a folder."""
        path.mkdir(parents=True, exist_ok=True)
        (path / "search.json").write_text(json.dumps(self.about))
        (path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in self.rows))
        (path / "found.json").unlink(missing_ok=True)
        if self.found:
            (path / "found.json").write_text(json.dumps(self.found))
        return read_search(path)


def sought_of(number: int) -> Sought:
    """The search of this number."""
    rng = Random(number)
    first = rng.choice([0, 7])
    seeds = [first + k for k in range(drawn(rng, {1: 4, 2: 1}))]
    held = [seeds[-1] + 1 + k for k in range(drawn(rng, {1: 1, 2: 4}))]
    names = rng.sample([*ATTACKS], drawn(rng, {1: 1, 2: 2, 3: 2}))
    least = drawn(rng, {1: 4, 2: 1})
    about: Row = {
        "name": "made up", "defence": "median", "about": "x", "scenario": {}, "clients": CLIENTS, "least": least, "most": 4,
        "built_for": drawn(rng, {None: 1, 2: 1}), "in_a_round": drawn(rng, {CLIENTS: 4, 4: 1}), "seeds": seeds, "held_out": held,
        "bounds": {"loss": drawn(rng, {0.05: 4, 0.1: 1}), "success": 0.1},
        "goal": drawn(rng, {"any": 4, "accuracy": 1, "backdoor": 1}),
        "runs": drawn(rng, {400: 3, 5: 1}), "minutes": None, "knows": "INSIDER", "attacks": [*ATTACKS], "own": {"mine": "0a1b"},
        "strengths": dict(ATTACKS), "left_out": {}, "as_given": {}, "command": "cloister attack it.py", "fixed": {},
    }  # fmt: skip
    made = _Made(rng, about)
    weights = CALM if rng.random() < 0.5 else HARMS
    for _ in range(drawn(rng, {0: 1, 1: 2, 3: 4, 6: 4})):
        made.point(rng.choice(names), rng.randint(least, 4), drawn(rng, weights))
    rows = made.rows
    if rng.random() < 0.1:
        rows = rows + made.foreign()
    whole = Sought(about, rows, True, {})
    ended, later = rng.random() < 0.8, rng.random() < 0.3
    found: Row = {}
    if ended and rows:
        part = Sought(about, rows[: len(rows) // 2] if later else rows, True, {})
        found = _ended(part)
    return Sought(about, whole.rows, ended, found)


def _ended(sought: Sought) -> Row:
    """What a search writes in the end, of points as they are read; whether they are read so is not asked here."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        search = sought.search(Path(folder))
    best = min(
        search.breaks, key=lambda p: (p.attackers, float(p.numbers[ATTACKS[str(p.numbers["attack"])]]), -p.severity), default=None
    )
    found: Row = {"cheapest": None, "worst": None}
    if best is not None:
        found["cheapest"] = point_json(best) | {"after_runs": 3, "after_seconds": 1.5, "fewer_tried": 0, "file": "break.py"}
    return found


class _Made:
    """The lines of a search, with the runs beside each."""

    def __init__(self, rng: Random, about: Row) -> None:
        self.rng, self.about, self.rows = rng, about, list[Row]()
        self.base = drawn(rng, {0.9: 12, 0.11: 1, 0.13: 1})
        self.clean: dict[int, Row] = {}
        self.absent: dict[tuple[int, int], Row] = {}
        self.below = drawn(rng, {0.0: 5, 0.03: 2, 0.2: 1, 0.79: 1})
        self.n = 0
        self.failing = drawn(rng, {0.0: 3, 0.1: 2, 0.5: 1})
        self.cut = rng.random() < 0.2

    def _line(self, numbers: Row, attackers: int, seed: int, mean: float, **others: Any) -> Row:
        apart = round(self.rng.uniform(0, 0.1), 3)
        of = {str(i): round(mean + apart * (i - 1), 6) for i in range(LOYAL if attackers else CLIENTS)}
        mean = sum(of.values()) / len(of)
        row: Row = {
            "key": f"{numbers} {attackers} {seed}",
            "numbers": numbers,
            "attackers": attackers,
            "seed": seed,
            "about": "x",
        }
        row |= {"own": self.about["own"].get(str(numbers.get("attack")), ""), "status": "done", "reason": "", "accuracy": mean}
        row |= {"of": of, "final": dict(of), "classes": 10, "unmoved": 0, "lost": 0, "success": None, "members": []}
        row |= {} if attackers else {"one_label": 0.11}
        return row | {"cost": {"seconds": 0.5, "beside": 0.25}} | others

    def beside(self, attackers: int, seed: int) -> tuple[Row, Row]:
        """The runs without attack and without the attackers' data."""
        rng = self.rng
        if seed not in self.clean:
            self.clean[seed] = self._line({}, 0, seed, self.base - 0.02 * rng.random())
            self.rows.append(self.clean[seed])
        if (attackers, seed) not in self.absent:
            row = self._line(
                {"which": "any"}, attackers, seed, max(0.02, self.clean[seed]["accuracy"] - self.below * rng.random())
            )
            row["key"] = f"absent {attackers} {seed}"
            row["lost"] = drawn(rng, {0: 9, 2: 1})
            self.absent[attackers, seed] = row
            self.rows.append(row)
        return self.clean[seed], self.absent[attackers, seed]

    def point(self, attack: str, attackers: int, harm: str) -> None:
        """A point as a search plays it: first on the seeds that are searched, then, where it broke there, on those held out."""
        rng, about = self.rng, self.about
        self.n += 1
        numbers: Row = {"attack": attack, ATTACKS[attack]: round(0.1 * self.n, 2)}
        fails = rng.random() < self.failing
        holds = drawn(rng, {"all": 4, "none": 2, "some": 2, "no result": 2})
        for seed in about["seeds"]:
            self.rows.append(self._played(numbers, attackers, seed, harm, fails and rng.random() < 0.7))
        if harm not in ("breaks", "end", "near") or (fails and rng.random() < 0.5):
            return
        if self.cut and rng.random() < 0.5:
            return
        for k, seed in enumerate(about["held_out"]):
            if self.cut and k:
                return
            here = harm if holds in ("all", "no result") or (holds == "some" and not k) else "little"
            self.rows.append(
                self._played(numbers, attackers, seed, here, holds == "no result" and bool(k == len(about["held_out"]) - 1))
            )
            if here == "little":
                return

    def _played(self, numbers: Row, attackers: int, seed: int, harm: str, fails: bool) -> Row:
        rng, bound = self.rng, self.about["bounds"]["loss"]
        clean, absent = self.beside(attackers, seed)
        before = sum(clean["of"][str(i)] for i in range(LOYAL)) / LOYAL
        lost = {"none": 0.0, "little": rng.uniform(-0.02, 0.8 * bound), "near": bound * rng.uniform(0.8, 1.2), "gains": -0.03,
                "breaks": bound * rng.uniform(1.1, 6), "end": 0.0}[harm]  # fmt: skip
        held = min(before, absent["accuracy"]) if not absent["lost"] else before
        row = self._line(numbers, attackers, seed, min(1.0, max(0.0, held - lost)))
        if harm == "end" and rng.random() < 0.7:
            row["final"] = {i: max(0.0, v - rng.uniform(1.1, 4) * bound) for i, v in row["of"].items()}
        if numbers["attack"] == BACKDOOR:
            rate = round(0.02 + (rng.uniform(0.12, 0.9) if harm == "breaks" else rng.uniform(-0.01, 0.11)), 4)
            row["success"] = {"last_poisoned": rate, "worst": rate, "clean_mean": 0.02}
        if fails:
            kept = {k: row[k] for k in ("key", "numbers", "attackers", "seed", "about", "own", "cost")}
            status = rng.choice(["failed", "refused"])
            return kept | {"status": status, "reason": {"failed": "RuntimeError: no", "refused": "it may not"}[status]}
        return row

    def foreign(self) -> list[Row]:
        """Lines of another seed of the same search, as of an earlier time, on which everything was worse."""
        rows = []
        for row in self.rows:
            if row["seed"] == self.about["seeds"][0]:
                more = row | {"seed": 99, "key": row["key"] + "f"}
                if row["status"] == "done":
                    low = 0.9 if row["attackers"] == 0 else 0.05
                    of = {i: v * low for i, v in row["of"].items()}
                    more |= {"of": of, "final": of, "accuracy": row["accuracy"] * low}
                rows.append(more)
        return rows
