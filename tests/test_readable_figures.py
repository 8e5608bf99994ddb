"""Figures where people read them: by defence, in one unit, whole at any width, and with what a replay is to show."""

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from cloister import algorithms, attacks, protections
from cloister.attacking.data import Search
from cloister.attacking.defence import expressed
from cloister.attacking.play import _expected
from cloister.attacking.points import markdown as points_markdown
from cloister.attacking.report import charts
from cloister.attacking.report import render as search_page
from cloister.attacking.tables import curve_table, point_json, points_table, verdict
from cloister.evaluating.data import Grid
from cloister.evaluating.heat import backdoors, heat_maps
from cloister.evaluating.panels import BROKE
from cloister.evaluating.report import render, write_evaluation_report
from cloister.evaluating.result import Evaluated
from cloister.evaluating.summaries import csv_text, defence_rows, markdown
from cloister.evaluating.tables import breakdown_words, grid_table
from cloister.fl.algorithms.usual import usual_words
from cloister.fl.runs.under_attack import deeds, under_attack
from cloister.grids.spread import in_points, percent, spread
from cloister.parts_from_text import made, tree_of
from cloister.protocol.core.errors import Refused
from cloister.reporting.headline import corrupt_in_words, down, loyal_in_words, up
from cloister.reporting.tree_drawing import PHONE, draw_outline
from cloister.summary import _scores, summary_rows
from cloister.tables_out import SHARE, print_table
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.collusion import IPM
from cloister.threat_models.knowledge import Level
from cloister.threat_models.membership import Pool, Schedule
from cloister.threat_models.partial import InLayer
from cloister.threat_models.search.found import Point, key_of
from cloister.threat_models.search.play import Harm, Try

from . import evaluation_sample as sample
from .test_verdicts import made_up

DASH = "\u2013"


def grid_of(path: Path, seeds: int = 3) -> Grid:
    """Multi-Krum holds, the median breaks and lets a backdoor through."""
    return made_up(
        path,
        {
            ("Multi-Krum", "BadNets"): [0.9] * seeds,
            ("Multi-Krum", "IPM"): [0.91] * seeds,
            ("median", "BadNets"): [0.88] * seeds,
            ("median", "IPM"): [0.5, 0.6, 0.7][:seeds],
        },
        success={("Multi-Krum", "BadNets"): [0.02] * seeds, ("median", "BadNets"): [0.83] * seeds},
    )


# --- by defence -------------------------------------------------------------------------------------------------------


def test_a_grid_has_a_row_for_each_defence_with_what_was_found(tmp_path: Path) -> None:
    grid = grid_of(tmp_path)
    by = {row["defence"]: row for row in defence_rows(grid)}
    median = by["median"]
    assert (median["finding"], median["attackers"], median["built_for"]) == ("breaks and lets a backdoor through", 3, 3)
    assert (median["clean"], median["absent"], median["attack"], median["attacked"]) == (0.9, 0.9, "IPM", pytest.approx(0.6))
    assert (median["lost"], median["lost_least"], median["lost_most"]) == pytest.approx((0.3, 0.2, 0.4))
    assert median["lost_low"] < 0.2 < 0.4 < median["lost_high"]
    assert (median["backdoor"], median["success"], median["gained"]) == ("BadNets", pytest.approx(0.83), pytest.approx(0.82))
    assert {row["unit"] for row in by.values()} == {SHARE}
    assert by["Multi-Krum"]["finding"] == "holds"
    table = list(csv.DictReader(io.StringIO(csv_text(grid))))
    assert [row["defence"] for row in table] == grid.defences
    assert float(table[grid.defences.index("median")]["lost"]) == pytest.approx(0.3)


def test_the_table_by_defence_is_read_in_per_cent_and_points(tmp_path: Path) -> None:
    words = markdown(grid_of(tmp_path))
    head = next(line for line in words.splitlines() if line.startswith("| defence"))
    for name in ("without attack, %", "absent, %", "held against, %", "under it, %", "lost, points", "gained, points"):
        assert f"| {name} |" in head
    row = next(line for line in words.splitlines() if line.startswith("| median"))
    assert (
        "| 3 (3) | breaks and lets a backdoor through | 3 | 90.0 ±0.0 | 90.0 ±0.0 | IPM | 90.0 ±0.0 | 60.0 ±24.8 | 30.0 ±24.8 |"
        " BadNets |" in row
    )
    assert "median breaks" in words
    assert "Broken is a defence where" in words


def test_a_defence_without_a_result_is_in_its_table_with_the_reason(tmp_path: Path) -> None:
    grid = made_up(tmp_path, {("a", "IPM"): [0.9] * 3}, not_done={"IPM": "too few | clients"})
    (row,) = defence_rows(grid)
    assert (row["strength"], row["finding"], row["lost"], row["reason"]) == (None, "failed", None, "too few | clients")
    assert f"| a | Plain | {DASH} | failed |" in markdown(grid)


def test_a_defence_without_a_result_has_one_row_whatever_the_strengths(tmp_path: Path) -> None:
    grid = made_up(tmp_path, {("a", "IPM"): [0.9] * 3}, strengths=(1, 2, 3), not_done={"IPM": "too few"})
    assert [(row["defence"], row["strength"]) for row in defence_rows(grid)] == [("a", None)]
    assert markdown(grid).count("| a |") == 1


def test_the_folder_and_python_have_the_table_by_defence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloister.evaluating.result.frame_of", list)  # which needs no pandas
    grid_of(tmp_path)
    write_evaluation_report(tmp_path)
    assert {"summary.csv", "summary.md", "table.csv", "table.md"} <= {file.name for file in tmp_path.iterdir()}
    result = Evaluated(tmp_path)
    assert result.frame("defences") == result.defences
    assert result.frame() == result.cells
    with pytest.raises(ValueError, match='rows of "cells" and "defences", not of \'defence\''):
        result.frame("defence")


# --- one unit ---------------------------------------------------------------------------------------------------------


def search_of(seeds: int = 3) -> Search:
    """One that broke a defence at two of three points."""
    points = []
    for attackers, loss in ((1, 0.01), (2, 0.123), (3, 0.5)):
        numbers: dict[str, Any] = {"attack": "IPM", "IPM.eps": 0.25, "layers": "an_uncommonly_long_name_of_a_layer_of_a_network"}
        harms = {seed: Harm(loss / 0.05, loss, 2 * loss, None, None) for seed in range(seeds)}
        points.append(Point(numbers, attackers, {0: harms[0]}, {s: h for s, h in harms.items() if s}, seconds=1.0))
    about: dict[str, Any] = {"name": "x", "defence": "y", "own": [], "held_out": [1, 2], "seeds": [0], "least": 1, "most": 3}
    about |= {"bounds": {"loss": 0.05, "success": 0.1}, "goal": "any", "clients": 8, "strengths": {"IPM": "IPM.eps"}}
    about |= {"runs": 20, "minutes": None, "knows": "INSIDER", "left_out": {}, "scenario": {}, "command": "cloister attack"}
    return Search("folder", about, [], 0, {key_of(p.numbers, p.attackers): p for p in points}, {"cheapest": None})


def test_a_search_says_what_is_lost_in_points(tmp_path: Path) -> None:
    search = search_of()
    assert "loses 50.0 points of accuracy (the client that loses most, in any seed, 100.0)" in verdict(search)
    assert point_json(next(iter(search.points.values())))["loss"] == 0.01
    titles = " ".join(str(table.title) for table in (points_table(search), curve_table(search)))
    assert titles.count("in points of 100") == 2
    assert "12.3" in [*points_table(search).columns[3].cells][1]
    assert "| loss, points | worst client, points | backdoor gained, points |" in points_markdown(search, [])
    page = search_page(search)
    for head in ("loss, points", "worst client, points", "largest loss, points", "accuracy lost, points, by seed"):
        assert f">{head}</th>" in page
    assert "0.123" not in page
    (chart,) = charts(search)
    assert chart["legend"][1][0] == "the bound, 5 points, above which is a break if it holds on every seed"
    assert chart["legend"][1][2]
    assert "the bound, 5 points, above which is a break if it holds on every seed</span>" in page


def test_figures_in_points_have_no_negative_nothing() -> None:
    assert [in_points(v) for v in (None, 0.12345, -0.0001, -0.02)] == [DASH, "12.3", "0.0", "-2.0"]


def test_an_interval_is_cut_to_what_can_be_and_two_seeds_have_none() -> None:
    assert percent(spread([0.9, 0.99, 1.0])) == "96.3 (82.7 to 100.0)"
    assert percent(spread([0.9, 0.91, 0.92])) == "91.0 ±2.5"
    assert percent(spread([-0.01, 0.0, 0.01]), -1) == "0.0 ±2.5"
    assert percent(spread([0.9, 1.0])) == "95.0 (90.0 and 100.0)"
    median = {"median": 5.0, "upper": 7.0, "low": 5.0, "high": 7.0, "coverage": 0.5}
    seeds = [{"seed": int(k), "reason": "", "breaks": k, "holds": None} for k in (5.0, 7.0)]
    assert breakdown_words({"median": median, "single": True, "seeds": seeds}, 9)[1] == "none; both seeds: 5 and 7"


def test_heat_maps_mark_what_is_above_a_bound(tmp_path: Path) -> None:
    grid = grid_of(tmp_path)
    cells = {name: dict(zip(grid.defences, of, strict=True)) for name, of in heat_maps(grid)[0].rows}
    assert (cells["IPM"]["median"].broke, cells["IPM"]["Multi-Krum"].broke) == (True, False)
    assert cells["IPM"]["median"].tip.endswith("above the bound in some seed, late or at the end")
    of = dict(zip(grid.defences, dict(backdoors(grid)[0].rows)["BadNets"], strict=True))
    assert (of["median"].broke, of["Multi-Krum"].broke) == (True, False)
    page = render(grid)
    assert page.count(f"<i>{BROKE}</i>") == 2
    assert "last poisoned round:</span>" in page
    assert "below 0: better than that reference" in page


# --- any width --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_word_of_a_table_is_cut_at_any_width(tmp_path: Path, width: int) -> None:
    for table in (points_table(search_of()), curve_table(search_of()), grid_table(grid_of(tmp_path / f"{width}"), "Plain")):
        out = io.StringIO()
        print_table(Console(file=out, width=width), table)
        seen = out.getvalue()
        assert "…" not in seen
        assert all(len(line) <= width for line in seen.splitlines())
        for column in table.columns:
            for cell in (column.header, *column.cells):
                for word in str(cell).split():
                    assert word in seen, word


def test_a_head_of_two_lines_is_one_where_rows_are_paragraphs() -> None:
    table, out = Table(), io.StringIO()
    table.add_column("claim")
    table.add_column("found\nat most")
    table.add_row("a" * 30, "0.153")
    print_table(Console(file=out, width=20), table)
    assert "found at most: 0.153" in " ".join(out.getvalue().split())
    assert "found\n" not in out.getvalue()


def test_a_long_point_stands_whole_on_a_line_of_its_own_at_80_columns() -> None:
    out = io.StringIO()
    print_table(Console(file=out, width=80), points_table(search_of()))
    first = next(line for line in out.getvalue().splitlines() if line.startswith("attackers: 1"))
    assert first.startswith("attackers: 1; point: IPM(eps 0.25), layers")
    assert "an_uncommonly_long_name_of_a_layer_of_a_network" in out.getvalue()


# --- a replay ---------------------------------------------------------------------------------------------------------


def test_a_run_with_an_adversary_says_who_is_corrupt_what_they_do_and_what_is_left() -> None:
    adversary = Adversary(members=Pool(2), upload=IPM(eps=0.5), samples=3, knows=Level.OMNISCIENT)
    lines = [{"accuracy": {"0": 0.1 * k, "1": 0.0, "2": 0.0, "3": 0.2 * k}} for k in range(8)]
    said = under_attack(adversary, [1, 2], range(4), [{}, *lines])
    assert (said["corrupt"], said["of"], said["evaluations"]) == (2, 4, 2)
    assert said["by"] == ["uploads by IPM(eps=0.5)", "numbers of examples times 3"]
    assert said["accuracy_loyal"] == pytest.approx((0.6 + 1.2 + 0.7 + 1.4) / 4)
    assert corrupt_in_words(said) == "2 of 4 clients, uploads by IPM(eps=0.5), numbers of examples times 3"
    assert loyal_in_words(said) == "97.5 % late in the run (the mean of the last 2 evaluations)"
    assert under_attack(adversary, [0, 1], [0, 1], lines)["accuracy_loyal"] is None


def test_what_attackers_do_is_whole_with_the_attack_inside_and_the_rounds() -> None:
    """Before: "uploads by InLayer(attack=a Jittered)" where the words were long, and nothing of the rounds."""
    inside = attacks.Jittered(attacks.SignBalanced(IPM(eps=0.123456789)), spread=0.000123456789)
    when = Schedule(start=2, pauses=((4, 7), (9, 12)))
    adversary = Adversary(members=Pool(2), upload=InLayer(inside, "first"), when=when, knows=Level.OMNISCIENT)
    uploads = "InLayer(attack=Jittered(attack=SignBalanced(attack=IPM(eps=0.123456789)), spread=0.000123456789), layer='first')"
    assert deeds(adversary) == [f"uploads by {uploads}", "from round 2 on, in turn 2 at work and 3 at rest"]
    assert deeds(Adversary(members=Pool(2), when=when)) == []


@pytest.mark.parametrize(
    ("when", "words"),
    [
        (Schedule(), ""),
        (Schedule(start=3), "from round 3 on"),
        (Schedule(start=3, stop=4), "in round 3 alone"),
        (Schedule(start=3, stop=9), "in rounds 3 to 8"),
        (Schedule(stop=0), "in no round"),
        (Schedule(period=3), "from the first round on, every 3 rounds"),
        (Schedule(start=1, stop=9, period=3), "in rounds 1 to 8, every 3 rounds"),
        (Schedule(pauses=((2, 3), (6, 9))), "from the first round on, without 2, 6 to 8"),
        (Schedule(pauses=((1, 2), (3, 4), (5, 6))), "from the first round on, in turn 1 at work and 1 at rest"),
    ],
)
def test_the_rounds_of_a_schedule_in_words(when: Schedule, words: str) -> None:
    assert when.in_words == words


def test_a_run_says_accuracy_in_per_cent_as_it_does_of_the_loyal() -> None:
    told = {"accuracy_mean": 0.9416, "accuracy_worst": 0.5, "accuracy_before_clustering": 0.7394, "clusters": [[0], [1]]}
    assert [*_scores(told)] == [
        ("accuracy before clustering", "73.9 %"),
        ("accuracy after clustering", "94.2 %  (worst client 50.0 %)"),
    ]
    assert [*_scores(told | {"accuracy_before_clustering": None})] == [("accuracy", "94.2 %  (worst client 50.0 %)")]


@pytest.mark.trains
def test_the_summary_of_a_run_under_attack_says_so(tmp_path: Path) -> None:
    from cloister import run

    adversary = Adversary(members=Pool(2), upload=IPM(eps=0.5), knows=Level.OMNISCIENT)
    result = run(replace(sample.scenario, rounds=1, adversary=adversary), tmp_path / "r", quiet=True)
    rows = dict(summary_rows(result.summary))
    assert rows["corrupt"].startswith("2 of 8 clients, uploads by IPM(eps=0.5): {")
    assert "late in the run (the last evaluation)" in rows["accuracy of the loyal"]
    assert all(rows.values()), "a row with nothing in it"
    assert "Corrupt: 2 of 8 clients, uploads by IPM(eps=0.5). Accuracy of the loyal" in result.report.read_text()


def test_a_written_scenario_says_its_seed_and_what_to_expect() -> None:
    numbers = {"attack": "IPM", "IPM.eps": 0.25}
    row = {"status": "done", "seed": 4, "key": "k", "reason": ""}
    attacked = row | {"numbers": numbers, "attackers": 2, "accuracy": 0.3, "of": {"0": 0.2, "3": 0.4}}
    clean = row | {"numbers": {}, "attackers": 0, "accuracy": 0.5, "of": {"0": 0.9, "1": 0.1, "3": 0.8}}
    search = replace(search_of(), rows=[clean, attacked])
    expected = "Seed 4: accuracy of loyal clients, late in the run, 30.0 %; without attack 85.0 %."
    assert _expected(search, Try(numbers, 2, 4)) == expected
    assert _expected(search, Try(numbers, 1, 4)) == "Seed 4."


# --- what was meant ---------------------------------------------------------------------------------------------------


def test_what_must_be_said_of_rounds_has_usual_values() -> None:
    words = "a quarter for rounds_before and an eighth for every: of 40 rounds, HardenedFLIC(rounds_before=10, every=5)"
    assert usual_words(algorithms.HardenedFLIC).endswith(words)
    tree = tree_of("HardenedFLIC()")
    assert tree is not None
    with pytest.raises(ValueError, match=r"missing 2 required.*of 40 rounds, HardenedFLIC\(rounds_before=10, every=5\)"):
        made(tree, "algorithm")
    assert usual_words(algorithms.FedAvg) == ""
    with pytest.raises(TypeError, match=r"missing 2 required.*of 40 rounds, HardenedFLIC\(rounds_before=10, every=5\)\n"):
        algorithms.HardenedFLIC()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'evry'\ndid you mean 'every'"):
        algorithms.HardenedFLIC(evry=5)  # type: ignore[call-arg]
    assert expressed("HardenedFLIC(every=7)", 40) == algorithms.HardenedFLIC(rounds_before=10, every=7)


def test_a_function_as_a_rule_under_masked_is_refused_by_its_own_name() -> None:
    def middle(updates: Any) -> Any:
        return updates[0]

    algorithm = algorithms.RobustFedAvg(rule=middle)  # type: ignore[arg-type]
    with pytest.raises(
        Refused, match=r"middle \(test_readable_figures.py, line \d+\) reads whole updates.*rules.OfGram\(mine\)"
    ) as of:
        replace(sample.scenario, algorithm=algorithm, protection=protections.Masked(floor=3))
    assert "FunctionRule" not in str(of.value)


# --- a phone ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 3, 12])
def test_the_whole_of_a_tree_of_splits_is_on_a_phone(depth: int) -> None:
    """Before: a tree of three levels was 596 pixels wide, and its leaves' accuracy was beyond the edge."""
    names = ["0" * k for k in range(1, depth + 1)]
    parents = {name: name[:-1] or None for name in names} | {name[:-1] + "1": name[:-1] for name in names[1:]}
    drawn = draw_outline(parents, {})
    assert {box.name for box in drawn.boxes} == parents.keys()
    assert max(box.x for box in drawn.boxes) + drawn.box[0] <= drawn.width <= PHONE
    assert len(drawn.edges) == len(parents) - 1
    spots = {box.name: box for box in drawn.boxes}
    assert all(parent is None or spots[parent].x < spots[name].x for name, parent in parents.items())
    assert len({box.y for box in drawn.boxes}) == len(parents)


@pytest.mark.parametrize("value", [1.1366, 6.8634, 0.099951, 8.0, 1e-5, 12345.6, 0.9999, 1.0001])
def test_what_is_spent_is_rounded_up_and_what_is_left_down(value):
    """Before: 6.87 was spent of a budget of 8, and 1.14 was left."""
    assert float(down(value)) <= value <= float(up(value))
    assert float(up(value)) - float(down(value)) <= 0.02 * value
    assert down(0.0) == "0"
