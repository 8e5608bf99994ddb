"""Comparisons that are made up, each from a number alone: methods level, near each other and apart, with seeds without a result,
clients without a model, and attacks, in every mixture.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from cloister.comparing.data import Found, read_comparison

from .verdict_tables import Row, drawn

METHODS = ("LOCAL", "FedAvg", "IFCA", "CFL", "FPFC")
CLIENTS = 4
FATES = {
    "done": 24, "failed": 1, "some failed": 2, "refused": 1, "unmeasured": 1, "some unmeasured": 1, "some served": 2, "served": 1,
    "some of each": 1,
}  # fmt: skip
"""What becomes of the runs of a method in a block: all are done, some have an error, no accuracy, or clients without a model."""
MOSTLY_DONE = FATES | {"done": 200}


@dataclass(frozen=True, slots=True)
class Compare:
    """What a folder says that it holds, and its lines."""

    about: Row
    rows: Sequence[Row]

    def found(self, path: Path) -> Found:
        """As it is read from a folder."""
        path.mkdir(parents=True, exist_ok=True)
        (path / "comparison.json").write_text(json.dumps(self.about))
        (path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in self.rows))
        return read_comparison(path)


def compare_of(number: int) -> Compare:
    """The comparison of this number."""
    rng = Random(number)
    methods = rng.sample(METHODS, drawn(rng, {1: 1, 2: 3, 3: 4, 4: 3, 5: 1}))
    data = rng.sample(["turned", "swapped"], drawn(rng, {1: 5, 2: 2}))
    first = rng.choice([0, 0, 7])
    protections = drawn(rng, {("Plain",): 4, ("Plain", "Masked"): 1})
    about: Row = {
        "name": "made up",
        "scale": "quick",
        "data": {name: {"rounds": 20, "training": {"epochs": 1, "batch": 10}} for name in data},
        "methods": {m: _method(rng, data) for m in methods},
        "protections": {p: p for p in protections},
        "attacks": {a: {} for a in drawn(rng, {(): 3, ("minus",): 3, ("minus", "backdoor"): 2})},
        "seeds": [first + k for k in range(drawn(rng, {1: 2, 2: 2, 3: 5, 4: 2}))],
        "search": None,
        "measures": [],
        "margin": rng.choice([0.01, 0.01, 0.03]),
        "yardstick": rng.choice(["LOCAL", "LOCAL", methods[0]]),
        "origin": {"file": "it.py", "settings": []},
    }
    about["attacked"] = list(protections[: rng.choice([1, 1, 2])]) if about["attacks"] else []
    weights = MOSTLY_DONE if rng.random() < 0.6 else FATES
    rows: list[Row] = []
    for where, protection in product(data, protections):
        base = {seed: rng.uniform(0.7, 0.8) for seed in about["seeds"]}
        for method in methods:
            rows += _block(rng, about, {"data": where, "method": method, "protection": protection}, base, weights)
    keys = [row["key"] for row in rows]
    if rng.random() < 0.08:
        rows = [row for row in rows if rng.random() < 0.9]
        there = {tuple(row[n] for n in _NAMES[1:5]) for row in rows if row["attack"] is None}
        rows = [row for row in rows if tuple(row[n] for n in _NAMES[1:5]) in there]  # an attack follows the run without
    return Compare(about | {"keys": keys}, rows)


def searched(table: Compare, rng: Random) -> Compare:
    """The same after a search that chose the first configuration of each method, of one to three."""
    search, rows = {"configurations": 3, "share": 0.2, "seeds": [50]}, list[Row]()
    counts = {m: drawn(rng, {1: 1, 2: 1, 3: 3}) for m in table.about["methods"]}
    methods = {
        m: of | {"configurations": [{"algorithm.kind": "abc"[k]} for k in range(counts[m])]}
        for m, of in table.about["methods"].items()
    }
    for data, (m, count) in product(table.about["data"], counts.items()):
        for k in range(count) if count > 1 else ():
            where = {"data": data, "method": m, "protection": None, "seed": 50, "configuration": k, "attack": None}
            of = {"mean": 0.9 - 0.1 * k, "worst": 0.5, "of": {}}
            rows.append(
                {"key": json.dumps(where), **where, "status": "done", "reason": "", "accuracy": of, "cost": {"seconds": 1}}
            )
    about = table.about | {"search": search, "methods": methods, "keys": [*(row["key"] for row in rows), *table.about["keys"]]}
    return Compare(about, [*rows, *table.rows])


def _method(rng: Random, data: Sequence[str]) -> Row:
    fits = [name for name in data if rng.random() < 0.4]
    return {"second_hand": rng.random() < 0.1, "work": "", "fits": fits, "configurations": [{}]}


def _block(rng: Random, about: Row, spot: Row, base: Mapping[int, float], weights: Mapping[str, int]) -> list[Row]:
    """The lines of a method in a block, without attack and under each."""
    above = drawn(rng, {0.0: 8, 0.002: 4, 0.1: 4, -0.1: 4, -0.004: 2, 0.03: 2, -0.65: 1})
    width = drawn(rng, {0.0: 3, 0.001: 3, 0.004: 2, 0.05: 2})
    late = {seed: round(v + above + rng.uniform(-width, width), 4) for seed, v in base.items()}
    fate = drawn(rng, weights)
    some = {seed for k, seed in enumerate(late) if k == 0 or rng.random() < 0.3}
    clean = {seed: _fated(rng, _done(rng, spot, seed, None, v, CLIENTS), fate, seed in some) for seed, v in late.items()}
    if rng.random() < 0.1:
        _troubled(rng, clean)
    for row in clean.values() if rng.random() < 0.9 else ():  # else of an earlier version, which did not say
        row |= {"classes": 10, "one_label": 0.12} if row["status"] == "done" else {}
    rows = [*clean.values()]
    for attack in about["attacks"] if spot["protection"] in about["attacked"] else ():
        cost = drawn(rng, {0.0: 2, 0.02: 2, 0.3: 2, 0.6: 1})
        fate, of_all = drawn(rng, weights), rng.random() < 0.1
        for seed, before in clean.items():
            row = _done(rng, spot, seed, attack, max(0.03, late[seed] - (0.2 if of_all else cost)), CLIENTS - 1)
            row |= {"members": [CLIENTS - 1], "success": rng.choice([0.1, 0.9]) if attack == "backdoor" else None}
            del row["clients"]
            row = _fated(rng, row, fate, seed in some)
            if before["status"] != "done":
                row = {k: row[k] for k in _NAMES} | {"status": before["status"], "reason": before["reason"]}
            rows.append(row)
    return rows


ENDS: Sequence[Row] = (
    {"diverged": {"first": 2.3, "last": 40.0, "guess": 2.3}}, {"diverged": {"first": 2.3, "last": 60.0}}, {"not_finite": 2},
    {"diverged": {"first": 2.4, "last": 2.3, "guess": 2.29}}, {"diverged": {"first": 2.4, "last": 2.3, "guess": 2.29}},
)  # fmt: skip
"""How training came to nothing: the last two without a loss that grew."""
_NAMES = ("key", "data", "method", "protection", "seed", "configuration", "attack")


def _done(rng: Random, spot: Row, seed: int, attack: str | None, mean: float, served: int) -> Row:
    where = {**spot, "seed": seed, "configuration": 0, "attack": attack}
    apart = round(rng.uniform(0, 0.05), 4)
    of = (
        {str(i): mean + apart * ((i % 2) - 0.5) for i in range(served)}
        if served % 2 == 0
        else dict.fromkeys(map(str, range(3)), mean)
    )
    row: Row = {"key": json.dumps(where), **where, "status": "done", "reason": "", "accuracy": _accuracy(of), "clients": CLIENTS}
    row |= {"groups": {}, "clusters": {"count": 2, "ari": 1.0, "purity": 1.0}, "bytes_up": 4000, "bytes_down": 8000}
    row |= {"cost": {"seconds": 1.5}, "pieced_together": {"span": {"largest": 0.25}}, "learned": {"server": []}}
    return row | {"compared": {"pairs": 10, "decided": 8}, "withheld": 0, "examples": {"least": 20, "mean": 20, "most": 20}}


def _accuracy(of: Mapping[str, float]) -> dict[str, Any]:
    return {"mean": fmean(of.values()) if of else "nan", "worst": min(of.values(), default="nan"), "of": dict(of)}


def _fated(rng: Random, row: Row, fate: str, some: bool) -> Row:
    """A line after what becomes of it. some: whether it is of a seed that what befalls some befalls."""
    if fate == "some of each":
        fate = rng.choice(["failed", "served", "unmeasured"]) if some else "done"
    if fate.startswith("some ") and not some:
        return row
    kept = {name: row[name] for name in _NAMES}
    match fate.removeprefix("some "):
        case "failed":
            return kept | {"status": "failed", "reason": "RuntimeError: no"}
        case "refused":
            return kept | {"status": "refused", "reason": "it may not"}
        case "unmeasured":
            return row | {"accuracy": _accuracy({})}
        case "served":
            of = dict([*row["accuracy"]["of"].items()][:-1])
            return row | {"accuracy": _accuracy({i: v + 0.1 for i, v in of.items()})}
    return row


def _troubled(rng: Random, clean: Mapping[int, Row]) -> None:
    """Something that is told of runs that are done."""
    kind = rng.choice(["nothing_summed", "first_withheld", "diverged", "diverged", "doubts"])
    for k, row in enumerate(clean.values()):
        if row["status"] != "done" or (k and rng.random() < 0.5):
            continue
        row |= {"nothing_summed": "too few"} if kind == "nothing_summed" else {}
        row |= rng.choice(ENDS) if kind == "diverged" else {}
        if kind == "doubts":
            row["doubts"] = ["no group is as large as a sum"]
        if kind == "first_withheld":
            first = {"round": rng.randrange(5), "slot": False, "reason": "too few", "may_help": "more clients"}
            row |= {"withheld": rng.choice([3, 3, 5]), "first_withheld": first}
