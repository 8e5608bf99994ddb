"""The tables of every cell in an evaluation's report: means over seeds of all that a line records."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

from ..fl.runs.results_folder import Row
from ..grids.spread import metric, spread
from ..reporting.byte_words import byte_words
from ..reporting.run_data import DASH
from ..threat_models.evaluation import ABSENT
from .data import Grid
from .losses import lost_by_seed

METRICS: tuple[tuple[str, tuple[str, ...], bool], ...] = (
    ("final", ("accuracy", "final"), True),
    ("late", ("accuracy", "late"), True),
    ("best of 50", ("accuracy", "best_of_last_50"), True),
    ("worst client", ("accuracy", "worst"), True),
    ("below no attack", ("impact", "late"), True),
    ("ASR, last poisoned round", ("success", "last_poisoned"), True),
    ("ASR, peak", ("success", "peak"), True),
    ("ASR, last round of all", ("success", "mean"), True),
    ("ASR, worst client", ("success", "worst"), True),
    ("ASR, clean", ("success", "clean_mean"), True),
    ("TPR", ("detection", "tpr"), True),
    ("FPR", ("detection", "fpr"), True),
    ("AUC", ("detection", "auc"), False),
    ("FLIC's purity", ("clusters", "purity"), False),
    ("ARI", ("clusters", "ari"), False),
    ("loyal clusters", ("clusters", "loyal"), False),
    ("mean size", ("clusters", "loyal_mean_size"), False),
    ("loyal lost", ("clusters", "loyal_lost"), False),
)
"""Column, path in a line, and whether it is shown in per cent."""

MORE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("durability", ("success", "durability")),
    ("kappa", ("kappa", "mean")),
    ("kappa, largest", ("kappa", "max")),
    ("bound", ("kappa", "bound")),
    ("least", ("kappa", "least")),
    ("up", ("bytes_up",)),
    ("down", ("bytes_down",)),
    ("server ms", ("cost", "server_ms")),
    ("peak MB", ("cost", "peak_mb")),
    ("epsilon", ("epsilon",)),
)
"""Column of the second table, and path in a line."""


def headed(name: str, share: bool) -> str:
    """A column's heading with its unit."""
    return f"{name}, {'points' if name == 'below no attack' else '%'}" if share else name


def details(grid: Grid) -> list[dict[str, Any]]:
    """Every spot under attack: its metrics, mean over seeds, for the first table and for the second."""
    rows = []
    for protection in grid.protections:
        for defence in grid.defences:
            for strength in grid.strengths:
                for attack in (ABSENT, *grid.attacks):
                    cells = grid.rows(attack, defence, strength, protection)
                    if not cells:
                        continue
                    names = {"protection": protection, "defence": defence, "attack": attack, "strength": f"{strength:g}"}
                    absent = {} if attack == ABSENT else grid.absent(defence, strength, protection)
                    lost = spread(v for v in lost_by_seed(cells, absent).values() if isfinite(v))
                    values = [DASH if lost is None or attack == ABSENT else f"{100 * lost.mean:.1f}"]
                    values += [_value(cells, path, share) for _, path, share in METRICS]
                    rows.append(names | {"values": values, "more": [_more(cells, name, path) for name, path in MORE]})
    return rows


def _more(cells: Sequence[Row], name: str, path: tuple[str, ...]) -> str:
    if name == "durability":
        return lasting(cells)
    if name in ("up", "down"):
        spot = spread(metric(row, *path) for row in cells)
        return DASH if spot is None else byte_words(spot.mean)
    if name == "epsilon":
        return epsilon_words(cells)
    return _value(cells, path, False)


def epsilon_words(cells: Sequence[Row]) -> str:
    """With its delta, and what has no noise beside it."""
    found = _value(cells, ("epsilon",), False)
    deltas = sorted({of["delta"] for row in cells for of in (row.get("privacy") or {}).values()})
    found += f" at delta {' and '.join(f'{delta:g}' for delta in deltas)}" * bool(deltas and found != DASH)
    if beside := sorted({each for row in cells for each in row.get("epsilon_leaves_out") or ()}):
        return f"{found} without {', '.join(beside)}"
    return found


def lasting(cells: Sequence[Row]) -> str:
    """Rounds until the backdoor's success was under half, mean over the seeds in which it fell, and in how many it never did."""
    measured = [row["success"] for row in cells if row.get("success") and row["success"].get("measured_after")]
    if not measured:
        return DASH
    fell = [of["durability"] for of in measured if of["durability"] is not None]
    never = f"never in {len(measured) - len(fell)} of {len(measured)}"
    if not fell:
        return "never fell"
    return f"{sum(fell) / len(fell):.3g}" + (f", {never}" if len(fell) < len(measured) else "")


def _value(cells: Sequence[Row], path: tuple[str, ...], share: bool) -> str:
    """The mean over seeds, infinite where one is."""
    values = [metric(row, *path) for row in cells]
    if any(v == float("inf") for v in values):
        return "∞"
    spot = spread(values)
    if spot is None:
        return DASH
    return f"{100 * spot.mean:.1f}" if share else f"{spot.mean:.3g}"
