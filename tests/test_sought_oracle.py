"""Every sentence of searches for a break that are made up by the hundred, read as it stands and held against the lines alone: one
that no reading is known of fails, as does one that is not so.
"""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from cloister.attacking.points import point_rows
from cloister.attacking.tables import verdict

from .sought_surfaces import Surfaces, page
from .sought_tables import Sought, sought_of
from .sought_truth import Truth

FEW, STEP, SETS = 80, 400, 8
"""Tables of a case of the fast test; and of one of the longer ones, and how many of these there are."""


def not_so(table: Sought, path: Path, pages: bool = False) -> list[str]:
    """What is said of a search and is not so."""
    search, reader = table.search(path), Surfaces(Truth(table))
    reader.headline(verdict(search))
    reader.surfaces(search)
    if pages:
        page(search, reader)
    return reader.found


def _words(table: Sought, path: Path) -> dict[tuple[str, float, int], str]:
    rows = point_rows(table.search(path))
    return {(row["attack"], row["strength"], row["attackers"]): row["verdict"] for row in rows}


def changed(table: Sought, path: Path, rng: Random) -> list[str]:
    """What changes that should not once a search is changed."""
    wrong, words = list[str](), _words(table, path)
    mixed = _words(replace(table, rows=rng.sample([*table.rows], len(table.rows))), path)
    wrong += [f"another order of the lines: {words} {mixed}"] if mixed != words else []
    there = [k for k, row in enumerate(table.rows) if row["numbers"].get("attack") and row["status"] == "done"]
    if not there:
        return wrong
    rows = [*table.rows]
    k, by = rng.choice(there), rng.uniform(0.01, 0.4)
    row = deepcopy(rows[k])
    for name in ("of", "final"):
        row[name] = {i: v - by for i, v in row[name].items()}
    rows[k] = row | {"accuracy": row["accuracy"] - by}
    more = _words(replace(table, rows=rows), path)
    wrong += [f"more loss makes of a break {more[spot]}" for spot, word in words.items() if word == "breaks" != more[spot]]
    kept = ("key", "numbers", "attackers", "seed", "about", "own", "cost")
    rows[k] = {n: row[n] for n in kept} | {"status": "failed", "reason": "no"}
    less = _words(replace(table, rows=rows), path)
    wrong += [f"an error makes of {words[spot]} a break" for spot, word in less.items() if word == "breaks" != words[spot]]
    wrong += [f"an error is no break: {word}" for spot, word in less.items() if word == "no break" != words[spot]]
    return wrong


def _read(numbers: range, path: Path) -> dict[int, list[str]]:
    return {n: wrong for n in numbers if (wrong := not_so(sought_of(n), path, pages=n % 50 == 7))}


@pytest.mark.parametrize("case", range(3))
def test_no_sentence_of_a_search_says_what_the_lines_do_not(tmp_path: Path, case: int) -> None:
    assert not _read(range(FEW * case, FEW * (case + 1)), tmp_path)


@pytest.mark.long
@pytest.mark.sweeps
@pytest.mark.parametrize("case", range(SETS))
def test_no_sentence_of_many_searches_says_what_the_lines_do_not(tmp_path: Path, case: int) -> None:
    assert not _read(range(10_000 + STEP * case, 10_000 + STEP * (case + 1)), tmp_path)


def test_words_of_a_search_change_only_as_they_should(tmp_path: Path) -> None:
    found = {n: wrong for n in range(5000, 5080) if (wrong := changed(sought_of(n), tmp_path, Random(n)))}
    assert not found


def test_a_sentence_of_a_search_that_nobody_can_read_is_told() -> None:
    """Else a new one would be held against nothing."""
    reader = Surfaces(Truth(sought_of(1)))
    reader.headline("All is well.")
    assert reader.found
