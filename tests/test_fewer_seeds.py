"""What an evaluation says where some seeds have no result, where a defence learned nothing, and which attack is the worst."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cloister.evaluating.data import Grid
from cloister.evaluating.judging import DECIDE, State, seeds_needed, without_words
from cloister.evaluating.panels import why
from cloister.evaluating.summaries import markdown
from cloister.evaluating.tables import clean_words, reasons
from cloister.evaluating.verdict import verdict
from cloister.grids.spread import spread

from .judged import finding
from .test_verdicts import made_up


def failing(grid: Grid, attack: str, seeds: tuple[int, ...], why: str = "ValueError: my bug") -> Grid:
    """The same with the cells of an attack failed on these seeds."""

    def changed(row: Mapping[str, Any]) -> dict[str, Any]:
        ended = row["attack"] == attack and row["seed"] in seeds
        return {**row, **({"status": "failed", "reason": why} if ended else {})}

    return replace(grid, cells={spot: [changed(row) for row in rows] for spot, rows in grid.cells.items()})


def with_clean(grid: Grid, defence: str, accuracy: float) -> Grid:
    """The same with this accuracy of a defence without attack, and without the attackers' data."""

    def changed(row: dict[str, Any]) -> dict[str, Any]:
        own = {"clean": {"late": accuracy}} | ({} if row["attack"] in ("IPM", "ALIE") else {"accuracy": {"late": accuracy}})
        return row | own

    cells = {spot: [changed(dict(r)) if spot.defence == defence else r for r in rows] for spot, rows in grid.cells.items()}
    return replace(grid, cells=cells)


def test_the_worst_attack_is_the_one_that_costs_most_whether_or_not_it_is_decided(tmp_path: Path) -> None:
    """IPM costs 2 points, for certain; ALIE 1 in the mean, which three seeds cannot tell from more than the bound."""
    table = {("a", "IPM"): [0.88, 0.88, 0.88], ("a", "ALIE"): [0.92, 0.9, 0.852]}
    found = finding(made_up(tmp_path, table), "a", 3.0, "Plain")
    assert found.harm is not None
    assert (found.harm.attack, found.state) == ("IPM", State.UNDECIDED)
    breaks = finding(made_up(tmp_path / "b", table | {("a", "ALIE"): [0.93, 0.93, 0.84]}), "a", 3.0, "Plain")
    assert breaks.harm is not None
    assert breaks.harm.attack == "ALIE"


def test_a_break_by_seeds_that_are_left_is_marked_in_the_summary(tmp_path: Path) -> None:
    table = {("a", "IPM"): [0.2, 0.9], ("a", "ALIE"): [0.89, 0.89]}
    grid = failing(made_up(tmp_path, table), "IPM", (1,))
    row = next(line for line in markdown(grid).splitlines() if line.startswith("| a "))
    head = next(line for line in markdown(grid).splitlines() if line.startswith("| defence "))
    cells = dict(zip((h.strip() for h in head.split("|")), (c.strip() for c in row.split("|")), strict=True))
    assert cells["seeds"] == "1 of 2"
    assert reasons(grid, "Plain") == ["a under Plain, IPM: 1 failed: ValueError: my bug"]
    assert "Of fewer seeds than played: a under Plain 1 of 2." in verdict(grid)
    whole = made_up(tmp_path / "b", table)
    assert "Of fewer seeds" not in verdict(whole)
    assert not reasons(whole, "Plain")


def test_an_attack_with_a_result_on_some_seeds_is_not_said_to_have_none(tmp_path: Path) -> None:
    grid = failing(made_up(tmp_path, {("a", "IPM"): [0.9, 0.9], ("a", "ALIE"): [0.9, 0.9]}), "IPM", (1,))
    found = finding(grid, "a", 3.0, "Plain")
    assert why(found) == "no result on 1 of 2 seeds against IPM"
    assert "a is undecided (no result on 1 of 2 seeds against IPM with a)" in verdict(grid)
    assert without_words({"A": 2, "B": 1, "C": 1}, 2) == "no result against A; no result on 1 of 2 seeds against B, C"


def test_a_defence_that_learned_next_to_nothing_is_not_praised(tmp_path: Path) -> None:
    grid = made_up(tmp_path, {("fedavg", "IPM"): [0.1] * 3, ("mine", "IPM"): [0.09] * 3, ("good", "IPM"): [0.79] * 3})
    grid = with_clean(with_clean(grid, "mine", 0.09), "good", 0.8)
    words = verdict(grid)
    assert words.startswith("With as many attackers as it is built for, good holds against every attack played.")
    assert "Accuracy without attack, over all clients: good 80.0 %; the best of all, fedavg, 90.0 %." in words
    assert "mine learned little: 9.0 % without attack" in words
    alone = with_clean(made_up(tmp_path / "b", {("fedavg", "IPM"): [0.1] * 3, ("mine", "IPM"): [0.09] * 3}), "mine", 0.09)
    assert verdict(alone).startswith("No defence that learned half as much as fedavg does without attack holds against every")


def test_what_is_at_chance_by_the_number_of_classes_learned_nothing(tmp_path: Path) -> None:
    """Before: praised where nothing else had learned either, or all others half as little."""
    grid = made_up(tmp_path, {("mine", "IPM"): [0.1] * 3, ("other", "IPM"): [0.11] * 3})
    grid = with_clean(with_clean(grid, "mine", 0.1), "other", 0.12)
    assert verdict(grid).startswith("With as many attackers as they are built for, mine and other hold")  # of who knows how many

    def classes(grid: Grid, count: int) -> Grid:
        return replace(grid, cells={s: [{**r, "classes": count} for r in rows] for s, rows in grid.cells.items()})

    words = verdict(classes(grid, 10))
    assert words.startswith("No defence that learned more than chance, 10.0 %, holds against every attack played")
    assert "mine and other learned nothing without attack (10.0 and 12.0 %, as chance is 10.0 %)" in words
    assert "10.0 ±0.0 (at chance) |" in markdown(classes(grid, 10))
    assert verdict(classes(grid, 100)).startswith("With as many attackers as they are built for, mine and other hold")
    good = made_up(tmp_path / "b", {("good", "IPM"): [0.9] * 3, ("mine", "IPM"): [0.5] * 3})
    words = verdict(classes(with_clean(good, "mine", 0.51), 2))  # above half of the best
    assert "good holds (mine" not in words
    assert "mine learned nothing without attack (51.0 %, as chance is 50.0 %)" in words


def test_what_is_little_above_chance_is_flagged_and_what_is_well_above_is_not(tmp_path: Path) -> None:
    """Before: 15 to 20 % of ten labels stood there without a word."""
    for clean, classes, flag in (
        (0.14, 10, " (at chance)"),
        (0.16, 10, " (little above chance)"),
        (0.199, 10, " (little above chance)"),
        (0.21, 10, ""),
        (0.55, 2, " (little above chance)"),
        (0.6, 2, ""),
        (0.16, None, ""),
    ):
        grid = with_clean(made_up(tmp_path / f"{clean}-{classes}", {("a", "IPM"): [clean] * 3}), "a", clean)
        grid = replace(grid, cells={s: [{**r, "classes": classes} for r in rows] for s, rows in grid.cells.items()})
        assert clean_words(grid, "a", "Plain").partition("±0.0")[2] == flag
        said = f"Chance is {100 / (classes or 1):.1f} %, and a is little above it: there was little to lose."
        assert (said in verdict(grid)) == ("above" in flag)


def test_the_seeds_that_are_needed_are_as_many_as_decide_anything_and_none_where_cells_failed(tmp_path: Path) -> None:
    for values in ([0.1], [0.1, 0.1 + 1e-6]):
        of = spread(values)
        assert of is not None
        assert seeds_needed(0.5, of) >= DECIDE
    grid = failing(made_up(tmp_path, {("a", "IPM"): [0.89] * 4, ("a", "ALIE"): [0.9] * 4}), "IPM", (1, 2, 3))
    found = finding(grid, "a", 3.0, "Plain")
    assert (found.word, found.needs) == ("undecided", None)
    assert "seeds needed" not in verdict(grid)


def test_attacks_without_a_result_for_one_reason_are_one_line(tmp_path: Path) -> None:
    """A usual grid had a line for each of twenty."""
    names = ("IPM", "ALIE", "mimic", "Fang trim", "sign flip")
    grid = made_up(tmp_path, {("a", name): [0.8, 0.8] for name in names})
    for name in names:
        grid = failing(grid, name, (1,))
    (line,) = reasons(grid, "Plain")
    assert line == "a under Plain, ALIE, Fang trim, IPM and 2 more: 5 failed: ValueError: my bug"
