"""Heat maps of an evaluation, attack by defence: accuracy of loyal clients, and success of backdoors."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

from ..grids.spread import Spread, spread
from ..reporting.run_data import DASH
from ..threat_models.broken import gained
from ..threat_models.evaluation import ABSENT
from .data import Grid, at
from .losses import ends_ruined, lost_by_seed


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One cell of a heat map: the worst seed above, the mean over seeds below. shade: of either, from 0 to 1; NaN for none.

    marked: the worst attack of its defence. broke: it breaks in some seed.
    """

    worst: str
    mean: str
    worst_shade: float
    mean_shade: float
    tip: str = ""
    marked: bool = False
    broke: bool = False


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A heat map: rows by name, each with a cell for every defence that has a result."""

    title: str
    defences: Sequence[str]
    rows: Sequence[tuple[str, Sequence[HeatCell]]]


def heat_maps(grid: Grid) -> list[HeatMap]:
    """Accuracy of the loyal clients, attack by defence, for each protection and strength; above all the run without attack."""
    maps = []
    for protection in grid.protections:
        clean = [_heat(grid.clean(d, protection), f"{d} without attack") for d in grid.defences]
        for strength in grid.strengths:
            worst = {d: grid.worst_attack(d, strength, protection) for d in grid.defences}
            rows: list[tuple[str, Sequence[HeatCell]]] = [("no attack, all clients", clean)]
            without = {d: spread(grid.absent(d, strength, protection).values()) for d in grid.defences}
            if any(without.values()):
                rows.append((ABSENT, [_heat(spot, f"{d} without the attackers' data") for d, spot in without.items()]))
            for attack in grid.attacks:
                spots = {d: grid.attacked(attack, d, strength, protection) for d in grid.defences}
                over = {d: _broke(grid, attack, d, strength, protection) for d in grid.defences}
                rows.append((attack, [_heat(s, f"{attack} on {d}", worst[d] == attack, over[d]) for d, s in spots.items()]))
            if any(cell.worst for _, cells in rows for cell in cells):
                maps.append(_map(grid, protection, strength, rows))
    return maps


def _broke(grid: Grid, attack: str, defence: str, strength: float, protection: str) -> bool:
    """Whether it breaks in some seed by accuracy, late in the run or at its end."""
    rows, bound = grid.rows(attack, defence, strength, protection), grid.bounds.loss
    absent, ends = (of(defence, strength, protection) for of in (grid.absent, grid.absent_at_end))
    return any(v > bound for v in lost_by_seed(rows, absent).values()) or any(ends_ruined(r, absent, ends, bound) for r in rows)


def backdoors(grid: Grid) -> list[HeatMap]:
    """Success of backdoors in their last poisoned round, without the target class, worst seed and mean, beside the clean
    models'.
    """
    maps = []
    for protection in grid.protections:
        for strength in grid.strengths:
            rows: list[tuple[str, Sequence[HeatCell]]] = []
            for attack in grid.attacks:
                cells = {d: grid.rows(attack, d, strength, protection) for d in grid.defences}
                rates = {d: grid.over_seeds(found, "success", "last_poisoned") for d, found in cells.items()}
                if not any(rates.values()):
                    continue
                before = {d: grid.over_seeds(found, "success", "clean_mean") for d, found in cells.items()}
                gains = {d: [gained(row.get("success")) or 0.0 for row in found] for d, found in cells.items()}
                over = {d: any(gain > grid.bounds.success for gain in of) for d, of in gains.items()}
                rows.append((attack, [_rate(rates[d], before[d], f"{attack} on {d}", over[d]) for d in grid.defences]))
            if rows:
                maps.append(_map(grid, protection, strength, rows))
    return maps


def _map(grid: Grid, protection: str, strength: float, rows: Sequence[tuple[str, Sequence[HeatCell]]]) -> HeatMap:
    """Of the defences that have a result: those without one are named below, and would be columns of dashes."""
    kept = [k for k in range(len(grid.defences)) if any(cells[k].worst for _, cells in rows)]
    left = [(name, [cells[k] for k in kept]) for name, cells in rows]
    return HeatMap(_title(grid, protection, strength), [grid.defences[k] for k in kept], left)


def _title(grid: Grid, protection: str, strength: float) -> str:
    return f"{protection}, {at(grid, strength)}"


def _heat(spot: Spread | None, tip: str, marked: bool = False, broke: bool = False) -> HeatCell:
    if spot is None:
        return HeatCell("", DASH, nan, nan, f"{tip}: no result")
    low, high = spot.ends()
    interval = f" ({100 * low:.1f} to {100 * high:.1f} with 95 % confidence)" if spot.tells else ""
    words = f"{tip}: worst of {spot.count} seeds {100 * spot.least:.1f} %, mean {100 * spot.mean:.1f} %{interval}"
    words += "; above the bound in some seed, late or at the end" if broke else ""
    return HeatCell(f"{100 * spot.least:.0f}", f"{100 * spot.mean:.0f}", spot.least, spot.mean, words, marked, broke)


def _rate(spot: Spread | None, clean: Spread | None, tip: str, broke: bool) -> HeatCell:
    """Shaded the other way round: a backdoor that works is dark."""
    if spot is None:
        return HeatCell("", DASH, nan, nan, f"{tip}: no result")
    before = f"{100 * clean.mean:.0f}" if clean else DASH
    words = f"{tip}: mean {100 * spot.mean:.1f} %, worst of {spot.count} seeds {100 * spot.most:.1f} %, clean models {before} %"
    words += "; above the bound in some seed" if broke else ""
    mean = f"{100 * spot.mean:.0f} / {before}"
    return HeatCell(f"{100 * spot.most:.0f}", mean, 1 - spot.most, 1 - spot.mean, words, broke=broke)
