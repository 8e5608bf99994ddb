"""The cells of a comparison: one run each, by name, with what it resolves to and a key for that."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from .comparison import Comparison, Method, Validating
from .scenario import Scenario, described

FORMAT = 1
"""Of a cell's record; cells of another format are run anew."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One run, by the names that the comparison gives. protection: None in the search. configuration: which of the method's;
    None where the search came to nothing. attack: None for the run without.
    """

    data: str
    method: str
    protection: str | None
    seed: int
    configuration: int | None
    attack: str | None = None


def search_cells(comparison: Comparison, data: str, method: str) -> list[Cell]:
    """What must be known before a method's configuration is chosen; nothing where there is no choice."""
    count = len(comparison.methods[method].configurations)
    if comparison.search is None or count == 1:
        return []
    return [Cell(data, method, None, seed, k) for k in range(count) for seed in comparison.search.seeds]


def table_cells(comparison: Comparison, data: str, method: str, configuration: int | None) -> list[Cell]:
    """The runs without attack of a method on a data set."""
    return [Cell(data, method, p, seed, configuration) for p in comparison.protections for seed in comparison.seeds]


def attacked_cells(comparison: Comparison, clean: Cell) -> list[Cell]:
    """The cells that are compared with this run without attack."""
    there = clean.protection in comparison.under_attack
    return [replace(clean, attack=attack) for attack in comparison.attacks] if there else []


def places(comparison: Comparison) -> list[tuple[str, str]]:
    """Every data set with every method, data set by data set."""
    return [(data, method) for data in comparison.data for method in comparison.methods]


def resolved(comparison: Comparison, cell: Cell) -> Scenario:
    """The scenario of a cell. Raises as `Comparison.without_attack`, and ValueError without a configuration."""
    if cell.configuration is None:
        raise ValueError("no configuration was found")
    search = comparison.search
    if cell.protection is None:
        if search is None:
            raise ValueError("the comparison has no search")
        found = comparison.without_attack(cell.data, cell.method, cell.configuration, search.protection, cell.seed)
        return replace(found, partition=Validating(found.partition, search.share, cell.seed), evaluate_every=found.rounds)
    protection = comparison.protections[cell.protection]
    found = comparison.without_attack(cell.data, cell.method, cell.configuration, protection, cell.seed)
    return found if cell.attack is None else replace(found, adversary=comparison.attacks[cell.attack])


def key_of(comparison: Comparison, cell: Cell) -> str:
    """A name for what the cell resolves to: 24 hex digits of a hash of all that its run is made of, as far as it is described.

    The code of functions and classes of the user's own is part of it; the data are not.
    """
    made_of: dict[str, Any] = {"format": FORMAT, "cell": asdict(cell), "scale": comparison.scale}
    if comparison.measures and cell.protection is not None and cell.attack is None:
        made_of["measures"] = described(comparison.measures)
    try:
        made_of["scenario"] = described(resolved(comparison, cell))
    except ValueError:  # refused, or without a configuration: the cell's line will say it
        base, method = comparison.data[cell.data], replace(comparison.methods[cell.method], fits=(), second_hand=False, work="")
        protection = None if cell.protection is None else comparison.protections[cell.protection]
        made_of |= {"base": described(base), "method": described(method), "protection": described(protection)}
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:24]


def keys_of(comparison: Comparison) -> list[str]:
    """The keys of all cells that there may be, whatever the search finds: what tells them from earlier ones of their names."""
    found = []
    for data, method in places(comparison):
        indices = [*range(len(comparison.methods[method].configurations)), None]
        cleans = [cell for index in indices for cell in table_cells(comparison, data, method, index)]
        cells = [*search_cells(comparison, data, method), *cleans]
        found += [key_of(comparison, c) for c in [*cells, *(a for clean in cleans for a in attacked_cells(comparison, clean))]]
    return found


def description(comparison: Comparison) -> dict[str, Any]:
    """The comparison as plain JSON values: what its folder records before anything is played."""
    return {
        "name": comparison.name,
        "scale": comparison.scale,
        "data": {name: described(scenario) for name, scenario in comparison.data.items()},
        "methods": {name: _described(method) for name, method in comparison.methods.items()},
        "protections": {name: repr(protection) for name, protection in comparison.protections.items()},
        "seeds": list(comparison.seeds),
        "search": described(comparison.search),
        "attacks": {name: described(attack) for name, attack in comparison.attacks.items()},
        "attacked": list(comparison.under_attack) if comparison.attacks else [],
        "measures": list(comparison.measures),
        "yardstick": comparison.yardstick,
        "margin": comparison.margin,
        "keys": keys_of(comparison),
    }


def _described(method: Method) -> dict[str, Any]:
    configurations = [{path: described(value) for path, value in found.items()} for found in method.configurations]
    return {**described(method), "configurations": configurations}
