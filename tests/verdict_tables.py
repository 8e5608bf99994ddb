"""Grids that are made up, each from a number alone: losses near the bounds, cells without a result, attacks that did nothing,
defences that learned nothing, in every mixture.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from cloister.evaluating.data import Grid, read_grid
from cloister.threat_models.evaluation import ABSENT

Row = dict[str, Any]

DEFENCES: Mapping[str, Row] = {
    "FedAvg": {"type": "FedAvg"},
    "mean": {"type": "RobustFedAvg", "rule": {"type": "Mean"}},
    "median": {"type": "RobustFedAvg", "rule": {"type": "Median"}},
    "Multi-Krum": {"type": "RobustFedAvg", "rule": {"type": "MultiKrum", "f": 2}},
    "hardened late": {"type": "HardenedFLIC"},
    "alone": {"type": "Local"},
    "mine": {"type": "RobustFedAvg", "rule": {"type": "mine", "its code": "0a1b"}},
}
BACKDOORS = ("BadNets", "neurotoxin")
ATTACKS = ("IPM", "ALIE", "mimic", *BACKDOORS)
ROUNDS = [*range(30)]
HARMS = {
    "none": 5, "little": 5, "near": 5, "breaks": 5, "one seed": 4, "noisy": 4, "gains": 1, "chance": 3, "end": 3,
}  # fmt: skip
"""What an attack does to accuracy, and how often it is drawn."""
CALM = {"none": 10, "little": 8, "near": 1, "noisy": 1, "gains": 2}
"""The same in half of the tables, in which some defences are to hold."""
FATES = {
    "done": 30, "failed": 1, "some failed": 2, "refused": 1, "unmeasured": 1, "unchanged": 2, "nothing taken": 2, "some taken": 1,
    "nobody": 1, "nobody on some": 1, "no room": 1,
}  # fmt: skip
"""What becomes of the cells of an attack on a defence at one strength."""
MOSTLY_DONE = FATES | {"done": 150}


@dataclass(frozen=True, slots=True)
class Table:
    """What a folder says that it holds, and its lines."""

    about: Row
    rows: Sequence[Row]

    def grid(self, path: Path) -> Grid:
        """As it is read from a folder."""
        path.mkdir(parents=True, exist_ok=True)
        (path / "evaluation.json").write_text(json.dumps(self.about))
        (path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in self.rows))
        return read_grid(path)


def drawn(rng: Random, weights: Mapping[Any, int]) -> Any:
    return rng.choices([*weights], [*weights.values()])[0]


def table_of(number: int) -> Table:
    """The table of this number."""
    rng = Random(number)
    counted = rng.random() < 0.75
    strengths = rng.sample([0, 1, 2, 3, 4] if counted and rng.random() < 0.1 else [1, 2, 3, 4], drawn(rng, {1: 5, 2: 4, 3: 2}))
    strengths = strengths if counted else [s / 10 for s in strengths]
    defences = rng.sample([*DEFENCES], drawn(rng, {1: 2, 2: 4, 3: 3, 4: 2}))
    attacks = rng.sample(ATTACKS, drawn(rng, {1: 3, 2: 4, 3: 2, 4: 1}))
    first = rng.choice([0, 0, 7])
    built = {d: drawn(rng, {None: 2, 0: 1, 1: 2, 2: 3, 3: 4, 4: 3}) for d in defences}
    said = {d: f for d, f in built.items() if f is not None and rng.random() < 0.5}
    about: Row = {
        "name": "made up",
        "attacks": {a: {} for a in attacks},
        "defences": {d: DEFENCES[d] for d in defences},
        "strengths": strengths,
        "strength": "attackers" if counted else "share of attackers",
        "protections": {p: p for p in drawn(rng, {("Plain",): 4, ("Plain", "Masked"): 1})},
        "partitions": {p: p for p in drawn(rng, {(): 5, ("IID", "skewed"): 1})},
        "limits": said,
        "bounds": {"loss": drawn(rng, {0.05: 6, 0.1: 1, 0.3: 1}), "success": 0.1},
        "seeds": [first + k for k in range(drawn(rng, {1: 1, 2: 2, 3: 5, 4: 1}))],
        "known_breaks": {},
        "doubts": [],
    }
    rows: list[Row] = []
    played = {s: rng.random() < 0.8 for s in strengths}
    calm = rng.random() < 0.5
    more = {a: drawn(rng, {0: 8, 1: 1, -1: 1}) for a in attacks}
    for protection, partition in product(about["protections"], about["partitions"] or [""]):
        labels = {"classes": drawn(rng, {10: 8, None: 1, 2: 1}), "one_label": drawn(rng, {0.11: 8, 0.6: 1})}
        for defence in defences:
            spot = {"defence": defence, "protection": protection, "partition": partition}
            made = _Defence(rng, about, spot, labels, built[defence], calm and rng.random() < 0.8)
            rows += made.clean()
            for strength in strengths:
                absent = made.absent(strength) if played[strength] else []
                rows += absent
                for attack in attacks:
                    rows += made.attacked(attack, float(strength), more[attack])
    about["keys"] = [row["key"] for row in rows]
    return Table(about, rows)


class _Defence:
    """The lines of one defence in one place."""

    def __init__(self, rng: Random, about: Row, spot: Row, labels: Row, built: int | None, calm: bool) -> None:
        self.rng, self.about, self.spot, self.labels, self.built, self.calm = rng, about, spot, labels, built, calm
        self.kind = drawn(
            rng, {"good": 50 if calm else 20, "fair": 3, "weak": 2, "chance": 2, "idle": 1, "fails": 1, "one weak": 1}
        )
        base = {"fair": 0.6, "weak": 0.35, "chance": 0.11, "idle": 0.1}.get(self.kind, 0.9)
        self.of = {seed: self._near(base - 0.03 * rng.random(), 0.01) for seed in about["seeds"]}
        if self.kind == "one weak":
            self.of[about["seeds"][0]] = 0.12
        self.bad = drawn(rng, {"": 14, "diverged": 1, "nothing": 1, "not_finite": 1, "nothing_summed": 1})

    def _near(self, value: float, width: float) -> float:
        return round(min(1.0, max(0.0, value + self.rng.uniform(-width, width))), 4)

    def _row(self, attack: str | None, strength: float | None, seed: int, **others: Any) -> Row:
        where = {"attack": attack, "strength": strength, "seed": seed, **self.spot}
        return {"key": json.dumps(where), **where, "status": "done", "reason": "", **others}

    def _numbers(self, late: float, **others: Any) -> Row:
        of = {"late": late, "final": late, "worst": max(0.0, late - 0.03), "best_of_last_50": late}
        clusters = {"count": drawn(self.rng, {1: 3, 2: 1})}
        withheld, rng = drawn(self.rng, {0: 9, 3: 1}), self.rng
        first = {"round": rng.randrange(3), "reason": "a sum was none", "may_help": "more clients", "slot": rng.random() < 0.3}
        work = {"stood": round(0.2 * rng.random(), 4), "withheld": withheld, "clusters": clusters}
        work |= {"first_withheld": first if withheld else None}
        return {"accuracy": of, **self.labels, "rounds": ROUNDS, "lost": None, "unmoved": None, **work, **others}

    def clean(self) -> list[Row]:
        rows = []
        for seed, late in self.of.items():
            row = self._row(None, None, seed, **self._numbers(late))
            if self.kind == "idle":
                row["unmoved"] = {"rounds": 30, "reason": "it needs 7 updates"}
            if self.bad and self.rng.random() < 0.7:
                grown = {"first": 2.3, "last": 2.4 if self.bad == "nothing" else 9.7, "guess": 2.3}
                row |= {"diverged": grown} if self.bad in ("diverged", "nothing") else {self.bad: "no sum was made"}
            rows.append(row | {"status": "failed", "reason": "no"} if self.kind == "fails" else row)
        return rows

    def absent(self, strength: float) -> list[Row]:
        rng, rows = self.rng, []
        below = drawn(rng, {0.0: 6, 0.02: 2, 0.1: 1, 0.4: 1, -0.03: 1})
        self.without: dict[int, float] = {}
        for seed, clean in self.of.items():
            late = self._near(drawn(rng, {clean - below: 12, 0.1: 1}), 0.005)
            row = self._row(ABSENT, float(strength), seed, **self._numbers(late), attackers=2, built_for=self.built)
            row["clean"] = {"late": clean, "final": clean}
            if rng.random() < 0.05:
                row["lost"] = {"rounds": 2, "reason": "too few"}
            rows.append(row | {"status": "failed", "reason": "no"} if self.kind == "fails" or rng.random() < 0.04 else row)
        return rows

    def attacked(self, attack: str, strength: float, more: int) -> list[Row]:
        rng = self.rng
        fate, harm = drawn(rng, MOSTLY_DONE if self.calm else FATES), drawn(rng, CALM if self.calm else HARMS)
        there = int(strength) if self.about["strength"] == "attackers" else round(10 * strength)
        through = drawn(rng, {"no": 40 if self.calm else 6, "near": 2, "yes": 2, "one seed": 2}) if attack in BACKDOORS else ""
        early, alone = rng.random() < 0.15, rng.random() < 0.15
        rows = []
        for k, (seed, clean) in enumerate(self.of.items()):
            own = self._near(clean, 0.0 if rng.random() < 0.7 else 0.01)
            late = self._near(own - self._loss(harm, k), 0.0)
            row = self._row(attack, strength, seed, **self._numbers(late), built_for=self.built, loyal=drawn(rng, {6: 40, 0: 1}))
            row |= {"attackers": max(0, there + more) if there else 0, "same_models": False, "rejected": {"members": 0}}
            row["clean"] = {"late": own, "final": own, "worst": max(0.0, own - 0.02)}
            if harm == "end" and (k != 1 or rng.random() < 0.5):
                row["accuracy"]["final"] = self._near(own - rng.uniform(0.03, 0.5), 0.0)
            row["success"] = self._success(through, k, early, fate == "no room" and rng.random() < 0.7) if through else None
            if alone and rng.random() < 0.7:
                row["accuracy"]["worst"] = self._near(row["accuracy"]["worst"] - rng.uniform(0.1, 0.7), 0.0)
                if row["success"]:
                    row["success"]["worst"] = self._near(row["success"]["worst"] + rng.uniform(0.1, 0.7), 0.0)
            rows.append(self._fated(row, fate, k))
        return rows

    def _loss(self, harm: str, k: int) -> float:
        rng, bound = self.rng, self.about["bounds"]["loss"]
        some = {
            "none": 0.0,
            "little": rng.uniform(-0.005, 0.02),
            "near": bound * rng.uniform(0.8, 1.01),
            "breaks": bound * rng.uniform(1.02, 6),
            "one seed": bound * (rng.uniform(1.0, 3) if k == 1 else rng.uniform(-0.5, 0.3)),
            "noisy": bound * rng.uniform(-1, 0.98),
            "gains": -rng.uniform(0.0, 0.05),
            "chance": bound * (rng.uniform(1.02, 8) if k != 2 else rng.uniform(-4, 0.5)),
            "end": rng.uniform(-0.01, 0.8 * bound),
        }
        return round(some[harm], 4)

    def _success(self, through: str, k: int, early: bool, full: bool) -> Row:
        rng = self.rng
        clean = 0.95 if full else round(rng.uniform(0, 0.03), 4)
        gain = {"no": rng.uniform(-0.01, 0.04), "near": rng.uniform(0.07, 0.105), "yes": rng.uniform(0.12, 0.9)}.get(
            through, 0.4 if k == 1 else 0.01
        )
        last = self._near(clean + gain, 0.0)
        peak = max(last, 0.6 if early else 0.0)
        of = {"last_poisoned_round": 19, "measured_after": [19], "durability": 2, "worst": last, "clean_worst": clean}
        return {"last_poisoned": last, "peak": peak, "mean": last, "clean_mean": clean, **of}

    def _fated(self, row: Row, fate: str, k: int) -> Row:
        rng = self.rng
        some = k == 0 or rng.random() < 0.3
        done: Row = {"status": "failed", "reason": "RuntimeError: no", "attackers": None, "success": None}
        kept = {name: row[name] for name in ("key", "attack", "strength", "seed", "status", "reason", *self.spot)}
        if self.kind == "fails" or fate == "failed" or (fate == "some failed" and some):
            return kept | {name: done[name] for name in ("status", "reason")}
        if fate == "refused":
            return kept | {"status": "refused", "reason": "too many"}
        if fate == "unmeasured" and some:
            return row | {"accuracy": {"late": "nan", "final": "nan"}}
        same = {"accuracy": {**row["accuracy"], **dict.fromkeys(("late", "final"), row["clean"]["late"])}}
        if fate == "unchanged":
            return row | same | {"same_models": True}
        if fate in ("nothing taken", "some taken"):
            sent = row["attackers"] * len(ROUNDS)
            return row | (same if fate == "nothing taken" else {}) | {
                "rejected": {"members": sent if fate == "nothing taken" else min(3, sent)}}  # fmt: skip
        if fate == "nobody" or (fate == "nobody on some" and some):
            return row | same | {"attackers": 0}
        return row
