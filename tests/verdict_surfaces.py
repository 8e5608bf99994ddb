"""What tables, panels and heat maps say of a folder, held against its lines, so that none says "holds" where another says
"breaks"; and the folder changed in ways that may change words only as they should.
"""

from copy import deepcopy
from math import isnan
from random import Random
from typing import Any

import pytest

from cloister.evaluating.data import Grid
from cloister.evaluating.heat import backdoors, heat_maps
from cloister.evaluating.panels import defences
from cloister.evaluating.summaries import defence_rows
from cloister.evaluating.tables import grid_json, grid_table
from cloister.evaluating.texts import cell_rows

from .verdict_tables import Row, Table
from .verdict_truth import HOLDS, THROUGH, Truth, mean_of, nothing_taken

SHORT = {" and lets a backdoor through": ", backdoor", "lets a backdoor through": "backdoor", "learned nothing without attack":
         "learned nothing"}  # fmt: skip
SPENT = {"no model changed", "attack refused", "no attacker at work", "learned nothing without attack", "never moved",
         "trigger works without attack"}  # fmt: skip


def surfaces(grid: Grid, truth: Truth) -> list[str]:
    """What any of them says that is not so."""
    found = list[str]()
    so = sorted((p.place, p.defence, p.strength, p.attackers, p.word) for p in truth.parts)
    places = {(p, of): f"{p} on {of}" if of else p for p in grid.about["protections"] for of in grid.about["partitions"] or [""]}
    rows = [row for row in defence_rows(grid) if row["attackers"] is not None]
    for row in rows:
        place = places[row["protection"], row["partition"]]
        part = next((p for p in truth.parts if (p.place, p.defence, p.strength, p.attackers) == (place, row["defence"],
                     row["strength"], row["attackers"])), None)  # fmt: skip
        if part is None:
            found.append(f"summary: no such part {row}")
            continue
        of = part.losses[row["attack"]]
        figures = (row["lost"], row["lost_least"], row["lost_most"], row["seeds"])
        if figures != pytest.approx((mean_of(of), min(of), max(of), len(of))):
            found.append(f"summary: {row} where {of}")
        if row["backdoor"] and row["gained"] != pytest.approx(mean_of(part.gains[row["backdoor"]])):
            found.append(f"summary: {row} where {part.gains}")
    said = sorted(
        (places[r["protection"], r["partition"]], r["defence"], r["strength"], r["attackers"], r["finding"]) for r in rows
    )
    found += [f"summary: {said} where {so}"] if said != so else []
    said = sorted((r["protection"], r["defence"], r["strength"], r["attackers"], r["finding"]) for r in grid_json(grid)["found"])
    found += [f"json: {said} where {so}"] if said != so else []
    for place in truth.places:
        here = [p for p in truth.parts if p.place == place]
        shown = sorted((r["defence"], r["found"]["word"]) for r in defences(grid, place) if r["found"])
        found += [f"panel: {shown}"] if shown != sorted((p.defence, p.word) for p in here) else []
        columns = [[*column.cells] for column in grid_table(grid, place).columns]
        told = [str(cell).removesuffix(" (beyond)") for cell in columns[-1] if cell]
        words = [p.word for p in here]
        for long, short in SHORT.items():
            words = [word.replace(long, short) for word in words]
        found += [f"table: {told} where {words}"] if sorted(told) != sorted(words) else []
    return found + _cells(grid, truth) + _heat(grid, truth)


def _cells(grid: Grid, truth: Truth) -> list[str]:
    """Each run by itself, and what is found where it stands."""
    found, by = list[str](), {(truth.place(row), row["defence"], row["attack"], row["strength"], row["seed"]): row for row in
                              truth.rows}  # fmt: skip
    for cell in cell_rows(grid):
        place = f"{cell['protection']} on {cell['partition']}" if cell["partition"] else cell["protection"]
        strength = None if cell["strength"] in ("", None) else float(cell["strength"])
        row = by[place, cell["defence"], cell["attack"] or None, strength, cell["seed"]]
        if row["attack"] in (None, "absent") or row["status"] != "done" or isnan(truth.lost(row)):
            if cell["verdict"]:
                found.append(f"cell: {cell['verdict']} of {row}")
            continue
        late, end = truth.lost(row) > truth.loss, truth.ruined(row)
        words = ["breaks" if late else "breaks at the end"] * (late or end)
        words += [THROUGH] * (truth.gained(row) > truth.success)
        so = " and ".join(words) or HOLDS
        nothing = truth.learned_nothing(place, row["defence"]) or not row["attackers"] or row["same_models"] or nothing_taken(row)
        nothing = nothing or truth.full(row) or truth.idle(place, row["defence"])
        if cell["verdict"] != so and not (so == HOLDS and nothing and cell["verdict"] in SPENT):
            found.append(f"cell: {cell['verdict']} where {so}: {row}")
        if so == HOLDS and nothing and cell["verdict"] == HOLDS:
            found.append(f"cell: holds against nothing: {row}")
        parts = [p for p in truth.parts if any(row is one for of in p.rows.values() for one in of)]
        if parts and cell["finding"] != parts[0].word:
            found.append(f"cell: finding {cell['finding']} where {parts[0].word}: {row}")
        if words and parts and not (parts[0].broken or parts[0].nothing):
            found.append(f"cell breaks, and the defence does not: {row}")
    return found


def _heat(grid: Grid, truth: Truth) -> list[str]:
    """Marks of what breaks."""
    found = list[str]()
    for maps, is_so in (
        (heat_maps(grid), lambda row: truth.lost(row) > truth.loss or truth.ruined(row)),
        (backdoors(grid), lambda row: truth.gained(row) > truth.success),
    ):
        for one in maps:
            for attack, cells in one.rows:
                for defence, cell in zip(one.defences, cells, strict=True):
                    strength = next(s for s in truth.strengths if one.title.endswith(f", {truth.at(s)}"))
                    place = one.title.removesuffix(f", {truth.at(strength)}")
                    rows = truth.of.get((place, defence, attack, strength), {}).values()
                    if attack in truth.attacks and cell.broke != any(is_so(r) for r in rows if r["status"] == "done"):
                        found.append(f"heat: {place} {defence} {attack} {strength}: {cell.broke}")
    return found


# --- tables that are changed --------------------------------------------------------------------------------------------


def shuffled(table: Table, rng: Random) -> Table:
    """The same lines in another order."""
    return Table(table.about, rng.sample([*table.rows], len(table.rows)))


def renamed(table: Table, names: dict[str, str]) -> Table:
    """Defences and attacks by other names."""
    about: Row = deepcopy(table.about)
    for kind in ("attacks", "defences", "limits"):
        about[kind] = {names.get(name, name): of for name, of in about[kind].items()}
    rows = [row | {n: names.get(row[n], row[n]) for n in ("attack", "defence") if row[n]} for row in table.rows]
    return Table(about, rows)


def with_one_that_fails(table: Table) -> Table:
    """With a defence more, of which nothing has a result."""
    first = next(iter(table.about["defences"]))
    names = ("key", "attack", "strength", "seed", "defence", "protection", "partition")
    more = [
        {**{n: row[n] for n in names}, "defence": "fails", "key": row["key"] + "f", "status": "failed", "reason": "no"}
        for row in table.rows
        if row["defence"] == first
    ]
    about = table.about | {"defences": {**table.about["defences"], "fails": {"type": "RobustFedAvg"}}}
    return Table(about | {"keys": [*about["keys"], *(row["key"] for row in more)]}, [*table.rows, *more])


def doubled(table: Table) -> Table:
    """Every seed once more, with the same numbers."""
    more = [row | {"seed": row["seed"] + 100, "key": row["key"] + "d"} for row in table.rows]
    seeds = table.about["seeds"]
    keys = [*table.about["keys"], *(row["key"] for row in more)]
    return Table(table.about | {"seeds": [*seeds, *(seed + 100 for seed in seeds)], "keys": keys}, [*table.rows, *more])


def worsened(table: Table, rng: Random) -> tuple[Table, Row] | None:
    """One run under attack with less accuracy; and which it was."""
    there = [k for k, row in enumerate(table.rows) if row["attack"] not in (None, "absent") and row["status"] == "done"
             and isinstance(row["accuracy"]["late"], float)]  # fmt: skip
    if not there:
        return None
    k, by = rng.choice(there), rng.uniform(0.01, 0.6)
    row: dict[str, Any] = deepcopy(table.rows[k])
    row["accuracy"] |= {name: max(0.0, row["accuracy"][name] - by) for name in ("late", "final", "worst")}
    return Table(table.about, [*table.rows[:k], row, *table.rows[k + 1 :]]), row
