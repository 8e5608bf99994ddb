"""What a verdict's numbers cannot show of attacks that were played: those that did nothing, those that could gain nothing more,
and runs in which nobody was loyal.
"""

from collections.abc import Mapping, Sequence

from ..fl.runs.results_folder import Row
from ..threat_models.evaluation import ABSENT
from .caveats import runs_in_which
from .data import Grid, at
from .judging import Finding
from .losses import cannot_gain


def did_nothing(grid: Grid) -> list[str]:
    """Attacks under which loyal clients ended with the models that they have without, as of votes that nobody asks for."""
    words = (
        "In {runs} of {attack} every loyal client ended with the very model that it has without attack: there the attack did"
        " nothing, or the defence took nothing of those clients without attack either."
    )
    return runs_in_which(grid, lambda row: bool(row.get("same_models")) if row.get("attackers") else None, words)


def without_some(grid: Grid, found: Mapping[str, Sequence[Finding]]) -> list[str]:
    """Who holds, while some of the attacks, though not all, changed no loyal client's model: of these nothing is known."""
    said: dict[str, list[str]] = {}
    for place, several in found.items():
        under = f" under {place}" if len(found) > 1 else ""
        for one in (one for one in several if one.holds):
            for attack in one.unchanged:
                said.setdefault(attack, []).append(f"{one.defence}{under} with {at(grid, one.strength)}")
    first = "Held against the other attacks alone, as no loyal client's model was changed by"
    by = "; ".join(f"{attack} ({', '.join(of)})" for attack, of in said.items())
    return [f"{first} {by}."] if said else []


def nobody_loyal(grid: Grid) -> list[str]:
    """Attacks in whose runs any client may be corrupt in some round."""
    words = (
        "In {runs} of {attack} every client was an attacker in some round, or may have been drawn as one: accuracies there are of"
        " all, attackers of some rounds among them."
    )
    return runs_in_which(grid, lambda row: row.get("loyal") == 0, words)


def works_without(grid: Grid) -> list[str]:
    """Backdoors whose trigger the models without attack are taken in by so often that the bound cannot be passed."""
    words = (
        "In {runs} of {attack} its trigger works on the models without attack already, so that it could not gain more than the"
        " bound: of a backdoor nothing is known there."
    )
    return runs_in_which(grid, lambda row: cannot_gain(row, grid.bounds.success) if row.get("success") else None, words)


def absent_failed(grid: Grid) -> list[str]:
    """Of whom runs without the attackers' data have no result: harm is held against the runs without attack alone there."""
    said = []
    for spot, rows in grid.cells.items():
        if spot.attack == ABSENT and (bad := [row for row in rows if row["status"] != "done"]):
            place = f" under {spot.protection}" if len(grid.protections) > 1 else ""
            where = f"{spot.defence}{place} with {at(grid, spot.strength or 0.0)} on {len(bad)} of {len(rows)} seeds"
            said.append(f"{where} ({bad[0]['status']}: {bad[0]['reason']})")
    return [f"Runs without the attackers' data have no result: {'; '.join(said)}."] if said else []


def stopped_by_errors(grid: Grid) -> list[str]:
    """Attacks under which runs ended in an error where the run without attack did not: whoever attacks so stops the run."""
    by: dict[str, list[Row]] = {}
    for spot, rows in grid.cells.items():
        clean = {row["seed"] for row in grid.rows(None, spot.defence, None, spot.protection)}
        if spot.attack not in (None, ABSENT):
            by.setdefault(str(spot.attack), []).extend(row for row in rows if row["status"] == "failed" and row["seed"] in clean)
    several = [
        f"{len(rows)} run{'s' * (len(rows) != 1)} of {attack} ({rows[0]['reason']})" for attack, rows in by.items() if rows
    ]
    return [
        f"An error ended {', '.join(several)}: where it is the defence's, whoever attacks so stops the run, which counts for no"
        " break here."
    ] * bool(several)
