"""A comparison's folder as its tables read it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from ..fl.runs.held_alone import GO_ON
from ..fl.runs.results_folder import Row, read_results
from ..grids.spread import Spread, metric, spread
from ..reporting.run_data import DASH
from .run import Choice, by_configuration, choice_of

KIND = "comparison"


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a run of the table stands, whatever its seed. attack: None without."""

    data: str
    method: str
    protection: str
    attack: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What a comparison's folder holds, of the comparison that it describes now.

    cells: lines by where they stand, in the order of the seeds, of the configurations that were chosen. choices: what each
    search came to, by data set and method; None while it is not over. searching: CPU seconds of all searches. earlier: how many
    lines were left aside, of other settings, seeds or choices.
    """

    folder: str
    about: Row
    cells: Mapping[Spot, Sequence[Row]]
    choices: Mapping[tuple[str, str], Choice | None]
    searching: float
    earlier: int

    @property
    def data(self) -> list[str]:
        return list(self.about["data"])

    @property
    def methods(self) -> list[str]:
        return list(self.about["methods"])

    @property
    def protections(self) -> list[str]:
        return list(self.about["protections"])

    @property
    def attacks(self) -> list[str]:
        return list(self.about["attacks"])

    @property
    def measures(self) -> list[str]:
        """Headings of the comparison's own columns."""
        return list(self.about.get("measures", ()))

    @property
    def seeds(self) -> list[int]:
        return list(self.about["seeds"])

    @property
    def blocks(self) -> list[tuple[str, str]]:
        """Every data set under every protection: a table each."""
        return [(data, protection) for data in self.data for protection in self.protections]

    def method(self, name: str) -> Row:
        """What the comparison says of a method."""
        found: Row = self.about["methods"][name]
        return found

    def lines(self, spot: Spot) -> Sequence[Row]:
        """The lines of a spot that are done."""
        return [row for row in self.cells.get(spot, ()) if row["status"] == "done"]

    def over_seeds(self, spot: Spot, *path: str) -> Spread | None:
        """A number of a spot's lines over the seeds."""
        return spread(metric(row, *path) for row in self.lines(spot))

    def by_seed(self, spot: Spot, *path: str) -> dict[int, float]:
        """The same, each seed's."""
        return {row["seed"]: metric(row, *path) for row in self.lines(spot)}

    def without(self, spot: Spot) -> str:
        """Why a spot has no result with some seed, or of some client; empty where it has all."""
        rows = self.cells.get(spot, ())
        if bad := [row for row in rows if row["status"] != "done"]:
            some = f" (with seed {', '.join(str(row['seed']) for row in bad)})" if len(bad) < len(rows) else ""
            return f"{bad[0]['status']}: {bad[0]['reason']}{some}"
        missing = len(self.seeds) - len(self.cells.get(spot, ()))
        if missing:
            return f"not played yet: {missing} of {len(self.seeds)} seeds"
        return self.partial(spot)

    def partial(self, spot: Spot) -> str:
        """Why a mean of a spot's lines is not over all clients; empty where each is."""
        whole = {row["seed"]: int(row.get("clients", 0)) for row in self.lines(replace(spot, attack=None))}
        return next(filter(None, (_unscored(row, whole.get(row["seed"], 0)) for row in self.lines(spot))), "")

    def partly_served(self, spot: Spot) -> bool:
        """Whether some line of a spot has an accuracy, and not of every client."""
        whole = {row["seed"]: int(row.get("clients", 0)) for row in self.lines(replace(spot, attack=None))}
        return any(_missing(row, whole.get(row["seed"], 0)) > 0 for row in self.lines(spot))

    def lacks(self, spot: Spot) -> str:
        """What a mean of a spot's lines is not over, in words: "seeds", "clients", "seeds and clients", or nothing."""
        known = [v for v in self.by_seed(spot, "accuracy", "mean").values() if isfinite(v)]
        return " and ".join(["seeds"] * (len(known) < len(self.seeds)) + ["clients"] * self.partly_served(spot))

    def searched(self, name: str) -> str:
        """How many configurations of a method were searched, of how many that each may have; a dash without a search."""
        search = self.about["search"]
        return DASH if search is None else f"{len(self.method(name)['configurations'])} of {search['configurations']}"

    @property
    def complete(self) -> bool:
        """Whether every cell has a line."""
        spots = [Spot(d, m, p) for d, p in self.blocks for m in self.methods]
        spots += [Spot(s.data, s.method, s.protection, a) for s in spots if s.protection in self.attacked for a in self.attacks]
        return all(len(self.cells.get(spot, ())) == len(self.seeds) for spot in spots)

    @property
    def attacked(self) -> list[str]:
        return list(self.about["attacked"])


def _unscored(row: Row, clients: int) -> str:
    """Of a run that is done, who has no model, or none with an accuracy: a mean over the others is no other method's mean.

    clients: how many there are; those that attack are measured in no run.
    """
    if metric(row, "accuracy", "mean") != metric(row, "accuracy", "mean"):
        return f"partial: no accuracy with seed {row['seed']}"
    missing, loyal = _missing(row, clients), clients - len(row.get("members") or ())
    return f"partial: {missing} of {loyal} clients have no model with seed {row['seed']}" if missing > 0 else ""


def _missing(row: Row, clients: int) -> int:
    """How many clients that are measured have no accuracy, of a run in which some have."""
    known = row["accuracy"]["of"]
    return clients - len(row.get("members") or ()) - len(known) if known else 0


def read_comparison(folder: Path) -> Found:
    """Reads a comparison's folder, finished or not. Raises ValueError where there is none to read."""
    rows = read_results(folder, KIND, "compare")
    try:
        about = json.loads((folder / f"{KIND}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder} does not say what was compared ({error}); run the comparison again by {GO_ON}") from None
    present = set(about["keys"])
    current = [row for row in rows.values() if row["key"] in present]
    places = [(d, m) for d in about["data"] for m in about["methods"]]
    choices = {place: _choice(about, place, current) for place in places}
    cells: dict[Spot, list[Row]] = {}
    for row in current:
        choice = choices.get((row["data"], row["method"]))
        if row["protection"] is not None and choice is not None and row["configuration"] == choice.configuration:
            cells.setdefault(Spot(row["data"], row["method"], row["protection"], row["attack"]), []).append(row)
    order = {seed: k for k, seed in enumerate(about["seeds"])}
    ordered = {spot: sorted(found, key=lambda r: order[r["seed"]]) for spot, found in cells.items()}
    searches = [row for row in current if row["protection"] is None]
    seconds = sum(v for row in searches if (v := metric(row, "cost", "seconds")) == v)
    aside = len(rows) - len(searches) - sum(map(len, ordered.values()))
    return Found(folder.resolve().name, about, ordered, choices, seconds, aside)


def _choice(about: Row, place: tuple[str, str], rows: Sequence[Row]) -> Choice | None:
    """What the search of a method on a data set came to; None while it is not over."""
    count = len(about["methods"][place[1]]["configurations"])
    if about["search"] is None or count == 1:
        return Choice(0)
    found = by_configuration(r for r in rows if r["protection"] is None and (r["data"], r["method"]) == place)
    whole = len(found) == count and all(len(lines) == len(about["search"]["seeds"]) for lines in found.values())
    return choice_of(found) if whole else None
