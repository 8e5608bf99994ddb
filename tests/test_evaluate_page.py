"""The page of an evaluation in a browser: what a phone shows of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from cloister.evaluating.data import Grid
from cloister.evaluating.report import render
from cloister.evaluating.verdict import sentences, verdict

from .test_report import on_paper, on_phone
from .test_verdicts import made_up

pytestmark = pytest.mark.sweeps

HEAT = """[...f.contentDocument.querySelectorAll(".heat")].map(h => h.closest(".scroll"))
      .map(s => s.scrollWidth > s.clientWidth).join(" ")"""
CUT = """[...f.contentDocument.querySelectorAll(".scroll")].filter(s => !s.closest("details") && !s.querySelector(".heat"))
      .map(s => s.getAttribute("aria-label") + (s.scrollWidth > s.clientWidth ? " CUT" : "")).join("; ")"""


def with_price(grid: Grid) -> Grid:
    """The same, with words and bytes as whole runs have them."""
    learned = {"server": [{"words": "the sum of the updates, and of their squared norms", "scalars": 390_015, "times": 81}]}
    more = {"learned": learned, "bytes_up": 1_234_567, "bytes_down": 1_234_567, "cost": {"seconds": 1.0, "server_ms": 1234.5}}
    return replace(grid, cells={spot: [{**row, **more} for row in rows] for spot, rows in grid.cells.items()})


@pytest.mark.long
def test_no_table_of_words_is_cut_on_a_phone(tmp_path: Path) -> None:
    """Before: the price's columns of bytes and time, and the reasons of what failed, were out of sight at 390 pixels."""
    grid = made_up(
        tmp_path / "g",
        {("a defence of a long name", "IPM"): [0.5] * 3, ("a defence of a long name", "ALIE"): [0.9] * 3},
        not_done={"ALIE": "RuntimeError: a reason of so many words that no line of a telephone is long enough for it"},
    )
    said = on_phone(tmp_path, render(with_price(grid)), CUT, 390)
    assert {"What servers learned", "Cells without a result"} <= set(said.split("; "))
    assert "CUT" not in said


@pytest.mark.long
def test_three_defences_have_room_side_by_side_on_a_phone(tmp_path: Path) -> None:
    names = ("FedAvg", "clipped mean", "Multi-Krum")
    grid = made_up(tmp_path / "g", {(d, a): [0.5] * 3 for d in names for a in ("minus gradient x0.2", "dynamic label flip")})
    assert on_phone(tmp_path, render(grid), HEAT, 390) == "false"


@pytest.mark.long
def test_no_table_of_an_evaluation_is_cut_off_on_paper(tmp_path: Path) -> None:
    """Before, a third of its columns was beyond the sheet."""
    grid = made_up(tmp_path, {("a", "IPM"): [0.2, 0.3, 0.4], ("b", "IPM"): [0.89, 0.88, 0.9]})
    assert on_paper(tmp_path, render(grid)) == "true; 0"


def test_the_verdict_is_a_list_and_not_one_long_paragraph(tmp_path: Path) -> None:
    """Before: seventeen lines without a break stood above everything else."""
    table = {("a", "IPM", 2.0): [0.89] * 3, ("a", "IPM", 4.0): [0.2] * 3}
    grid = made_up(tmp_path, {}, strengths=(2, 4), by_strength=table)
    page, said = render(grid).replace("\N{NO-BREAK SPACE}", " "), sentences(grid)
    ((first, others),) = said.places
    assert verdict(grid) == " ".join([first, *others, *said.notes])
    assert len(others) == 2
    assert all(f"<li>{line}</li>" in page for line in others)
    assert f'<p class="lead">{first}</p>' in page
