"""A cell of a comparison played and recorded, whatever becomes of it."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ..fl.emd.record import undecided
from ..fl.meters.record import said
from ..fl.runs.comparison import Comparison
from ..fl.runs.comparison_cells import Cell, key_of, resolved
from ..fl.runs.diverged import one_label
from ..fl.runs.feasibility import doubts
from ..fl.runs.results_folder import Row
from ..fl.runs.scenario import described
from ..threat_models.cell import recorded
from ..threat_models.cell_metrics import came_to_nothing, clusters_of, price, trouble
from ..threat_models.evaluation import backdoor_of
from ..threat_models.trial import Trial, played, success_of
from .matrix import Looked
from .scale import examples_of, here


def play_cell(comparison: Comparison, cell: Cell, data: Path | None) -> Row:
    """The cell's line."""
    row = {"key": key_of(comparison, cell), **asdict(cell), "scale": comparison.scale, "played": here()}
    if cell.configuration is not None:
        row["settings"] = _settings(comparison, cell)
    return recorded(row, lambda: _metrics(comparison, cell, data))


def _settings(comparison: Comparison, cell: Cell) -> dict[str, Any]:
    chosen = comparison.methods[cell.method].configurations[cell.configuration or 0]
    return {path: described(value) for path, value in chosen.items()}


def _metrics(comparison: Comparison, cell: Cell, data: Path | None) -> dict[str, Any]:
    """Of a search the accuracy on validation data alone, of a run under attack what it did, of any other run all columns."""
    scenario = resolved(comparison, cell)
    target = backdoor_of(scenario.adversary)
    looked = Looked()
    trial = played(scenario, None, data, looked)
    found = {"accuracy": _accuracy(trial), "cost": price(trial)["cost"]}
    if cell.protection is None:
        return found
    if cell.attack is not None:
        rate = None if target is None else success_of(trial, target, None).mean
        return found | {"members": sorted(trial.members), "success": rate} | trouble(trial)
    planted = trial.simulation.population.groups
    clusters = clusters_of(trial) | ({} if len({*planted.values()}) > 1 else {"purity": None, "ari": None})
    found |= {"algorithm": described(scenario.algorithm), "training": described(scenario.training)}
    found |= {"examples": examples_of([len(c.train) for c in trial.simulation.population.clients.values()])}
    found |= {"clients": len(trial.clients), "groups": {str(i): g for i, g in sorted(planted.items())}, "clusters": clusters}
    found |= price(trial) | trouble(trial) | {"pieced_together": _account(trial), "compared": undecided(trial.simulation.state)}
    found |= came_to_nothing(trial)
    found |= {"classes": trial.simulation.population.classes, "one_label": one_label(trial.simulation.population)}
    if doubtful := doubts(scenario, len(trial.simulation.population.clients), planted):
        found["doubts"] = doubtful
    if comparison.measures:
        found["measures"] = {name: float(measure(trial.simulation)) for name, measure in comparison.measures.items()}
    return found | ({"matrix": looked.plain()} if cell.seed == comparison.seeds[0] else {})


def _accuracy(trial: Trial) -> dict[str, Any]:
    """At the end, of the loyal clients that have a model: of each, their mean and the least. NaN where there is none."""
    last = dict(zip(trial.clients, trial.accuracy[-1].tolist(), strict=True))
    of = {i: last[i] for i in trial.measured if np.isfinite(last[i])}
    mean = float(np.mean(list(of.values()))) if of else float("nan")
    return {"mean": mean, "worst": min(of.values(), default=float("nan")), "of": {str(i): a for i, a in of.items()}}


def _account(trial: Trial) -> dict[str, Any]:
    """What the server pieces together. sees: what it holds anyway, where no meter measures it."""
    simulation = trial.simulation
    if not simulation.watch.on:
        return {"sees": "every update"}
    return said(simulation.watch, simulation.view, (entry.as_dict() for entry in simulation.view.record.log))
