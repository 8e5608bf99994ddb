"""The papers' tables as comparisons in examples/: each is there in `quick` and at the paper's scale, and builds.

That a file loads says that no configuration is misspelt, and none is of a scenario that is gone.
"""

from typing import Any

import pytest

from cloister.fl.runs.comparison import Comparison

from .example_files import load

TABLES = ("table1", "table7", "table8", "table10", "table11")
PAPER = {"table1": {40}, "table7": {18}, "table8": {15, 30}, "table10": {40}, "table11": {40}}
"""How many clients the paper has."""


def sizes(of: Comparison) -> list[tuple[int, int, int]]:
    """Clients, rounds and epochs of each data set."""
    found: list[Any] = list(of.data.values())
    return [(value.partition.clients, value.rounds, value.training.epochs) for value in found]


@pytest.fixture(scope="module")
def emd() -> Any:
    return load("emd_cfl_tables")


@pytest.mark.long
@pytest.mark.parametrize("name", TABLES)
def test_tables_of_emd_cfl_are_there_in_small_and_as_published(emd: Any, name: str) -> None:
    quick, paper = getattr(emd, name), getattr(emd, f"paper_{name}")
    assert (quick.scale, paper.scale) == ("quick", "paper")
    assert quick.methods == paper.methods
    assert len(quick.methods) == 18, "the 17 of the paper, and LOCAL"
    assert {clients for clients, _, _ in sizes(paper)} == PAPER[name]
    assert {(rounds, epochs) for _, rounds, epochs in sizes(paper)} == {(10, 10)}


def test_fpfc_figure_1_is_there_in_small_and_as_published() -> None:
    figure = load("fpfc_fig1")
    assert (figure.comparison.scale, figure.paper.scale) == ("quick", "paper")
    assert figure.comparison.methods.keys() == figure.paper.methods.keys()
    assert sizes(figure.paper) == [(20, 200, 10)] * 2
    assert {clients for clients, _, _ in sizes(figure.comparison)} == {12}
