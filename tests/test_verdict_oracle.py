"""Every sentence of a verdict on grids that are made up by the hundred, read as it stands and held against the lines alone: one
that no reading is known of fails, as does one that is not so.
"""

import re
from pathlib import Path
from random import Random

import pytest

from cloister.evaluating.judging import findings
from cloister.evaluating.verdict import sentences, verdict

from .verdict_notes import Notes
from .verdict_oracle import Reader
from .verdict_surfaces import doubled, renamed, shuffled, surfaces, with_one_that_fails, worsened
from .verdict_tables import Table, table_of
from .verdict_truth import BREAKS, HOLDS, Truth

FEW, STEP, SETS = 25, 250, 8
"""Tables of a case of the fast test; and of one of the longer ones, and how many of these there are."""
OTHERS = {
    "FedAvg": "Aa", "mean": "Zz", "median": "Nn", "Multi-Krum": "Bb", "hardened late": "Yy", "mine": "Cc", "IPM": "Xx", "ALIE":
    "Oo", "mimic": "Dd", "BadNets": "Ww", "neurotoxin": "Ee",
}  # fmt: skip


def not_so(table: Table, path: Path) -> list[str]:
    """What is said of a table and is not so."""
    grid, truth = table.grid(path), Truth(table)
    said = sentences(grid)
    if said.places[0][0].startswith("No verdict: no defence has a result"):
        return [f"{part.defence} has a result" for part in truth.parts]
    reader = Reader(truth)
    reader.places(said)
    return reader.found + Notes(truth).read(said.notes) + surfaces(grid, truth)


def changed(table: Table, path: Path, rng: Random) -> list[str]:
    """What changes that should not once a table is changed."""
    found, grid = list[str](), table.grid(path / "own")
    words = {p: {(of.defence, of.strength, of.attackers): of.word for of in findings(grid, p)} for p in grid.protections}

    def again(other: Table, name: str) -> dict[str, dict[tuple[str, float, int], str]]:
        made = other.grid(path / name)
        return {p: {(of.defence, of.strength, of.attackers): of.word for of in findings(made, p)} for p in made.protections}

    mixed = shuffled(table, rng).grid(path / "mixed")
    if [*sentences(mixed).places] != [*sentences(grid).places] and not sentences(grid).places[0][0].startswith("No verdict"):
        found.append("another order of the lines changes what is found")
    new = renamed(table, OTHERS).grid(path / "renamed")
    for old, other in zip(sentences(grid).places, sentences(new).places, strict=True):
        told = " ".join([old[0], *old[1]])
        for name, of in OTHERS.items():
            told = re.sub(name, of, told, flags=re.IGNORECASE).replace("in the Zz", "in the mean")
        if told.lower() != " ".join([other[0], *other[1]]).lower():
            found.append(f"other names change what is found: {told} | {other}")
    more = again(with_one_that_fails(table), "more")
    found += [f"a defence that fails changes what is found of others: {words} {more}"] if more != words else []
    twice = again(doubled(table), "twice")
    for place, of in words.items():
        for spot, word in of.items():
            if word != twice[place].get(spot) and not (word == "undecided" and twice[place].get(spot) == HOLDS):
                found.append(f"seeds twice make of {word} {twice[place].get(spot)}: {spot}")
    if (worse := worsened(table, rng)) is not None:
        lower = again(worse[0], "lower")
        for place, of in words.items():
            for spot, word in of.items():
                if BREAKS in word and lower[place].get(spot) == HOLDS:
                    found.append(f"less accuracy makes of {word} holds: {spot}, {worse[1]}")
    return found


def _read(numbers: range, path: Path) -> dict[int, list[str]]:
    return {n: wrong for n in numbers if (wrong := not_so(table_of(n), path))}


@pytest.mark.parametrize("case", range(4))
def test_no_sentence_says_what_the_lines_do_not(tmp_path: Path, case: int) -> None:
    assert not _read(range(FEW * case, FEW * (case + 1)), tmp_path)


@pytest.mark.long
@pytest.mark.sweeps
@pytest.mark.parametrize("case", range(SETS))
def test_no_sentence_of_many_tables_says_what_the_lines_do_not(tmp_path: Path, case: int) -> None:
    assert not _read(range(10_000 + STEP * case, 10_000 + STEP * (case + 1)), tmp_path)


@pytest.mark.parametrize("case", range(2))
def test_words_change_only_as_they_should(tmp_path: Path, case: int) -> None:
    numbers = range(5000 + FEW * case, 5000 + FEW * (case + 1))
    found = {n: wrong for n in numbers if (wrong := changed(table_of(n), tmp_path, Random(n)))}
    assert not found


def test_a_sentence_that_nobody_can_read_is_told(tmp_path: Path) -> None:
    """Else a new one would be held against nothing."""
    truth = Truth(table_of(1))
    assert any("no reading" in one for one in Notes(truth).read(["All is well."]))
    reader = Reader(truth)
    reader.headline("Plain", "All is well.")
    assert reader.found == ["no reading | All is well."]
    assert verdict(table_of(1).grid(tmp_path))
