"""Every sentence of comparisons that are made up by the hundred, read as it stands and held against the lines alone: one that no
reading is known of fails, as does one that is not so.
"""

from pathlib import Path
from random import Random

import pytest

from cloister.comparing.notes import fits, fits_words
from cloister.comparing.verdict import headline, standings

from .compared_surfaces import Surfaces, doubled, failing, page, renamed, shuffled, worsened
from .compared_tables import Compare, compare_of, searched
from .compared_truth import Lines

FEW, STEP, SETS = 50, 250, 8
"""Tables of a case of the fast test; and of one of the longer ones, and how many of these there are."""
OTHERS = {"LOCAL": "Zz", "FedAvg": "Bb", "IFCA": "Yy", "CFL": "Dd", "FPFC": "Xx", "minus": "plus", "backdoor": "door"}


def not_so(table: Compare, path: Path, pages: bool = False) -> list[str]:
    """What is said of a comparison and is not so."""
    found, reader = table.found(path), Surfaces(Lines(table))
    reader.headline(headline(found))
    reader.fits(fits_words(found, fits(found)))
    reader.surfaces(found)
    reader.notes(found)
    if pages:
        page(found, reader)
    return reader.found


def changed(table: Compare, path: Path, rng: Random) -> list[str]:
    """What changes that should not once a comparison is changed."""
    wrong, found = list[str](), table.found(path / "own")
    words = headline(found), fits_words(found, fits(found))
    mixed = shuffled(table, rng).found(path / "mixed")
    if (headline(mixed), fits_words(mixed, fits(mixed))) != words:
        wrong.append(f"another order of the lines: {words} {headline(mixed)}")
    new = renamed(table, OTHERS).found(path / "renamed")
    for old, other in zip(words, (headline(new), fits_words(new, fits(new))), strict=True):
        told = old
        for name, of in OTHERS.items():
            told = told.replace(name, of)
        wrong += [f"other names: {told} | {other}"] if told != other else []
    twice, lower, gone = doubled(table).found(path / "twice"), worsened(table, rng), failing(table, rng)
    for block in found.blocks:
        before = standings(found, *block)
        after = standings(twice, *block)
        for m, of in before.items():
            pair, more = of.against, after[m].against
            if pair and more and len(found.seeds) > 1 and pair.outcome in ("win", "loss") and more.outcome != pair.outcome:
                wrong.append(f"seeds twice make of {pair.outcome} {more.outcome}: {block} {m}")
        if lower is not None:
            row, less = lower[1], standings(lower[0].found(path / "lower"), *block)
            m = row["method"]
            if m in before and (row["data"], row["protection"]) == block and less[m].best and not before[m].best:
                wrong.append(f"less accuracy makes {m} the best: {block}")
        if gone is not None and (gone[1]["data"], gone[1]["protection"]) == block:
            rest = standings(gone[0].found(path / "gone"), *block)
            if gone[1]["method"] in rest:
                wrong.append(f"{gone[1]['method']} is compared without a seed: {block}")
    return wrong


def _read(numbers: range, path: Path) -> dict[int, list[str]]:
    return {n: wrong for n in numbers if (wrong := not_so(_of(n), path, pages=n % 50 in (7, 8)))}


def _of(n: int) -> Compare:
    """Every other one after a search."""
    return searched(compare_of(n), Random(n)) if n % 2 else compare_of(n)


@pytest.mark.parametrize("case", range(3))
def test_no_sentence_of_a_comparison_says_what_the_lines_do_not(tmp_path: Path, case: int) -> None:
    assert not _read(range(FEW * case, FEW * (case + 1)), tmp_path)


@pytest.mark.long
@pytest.mark.sweeps
@pytest.mark.parametrize("case", range(SETS))
def test_no_sentence_of_many_comparisons_says_what_the_lines_do_not(tmp_path: Path, case: int) -> None:
    assert not _read(range(10_000 + STEP * case, 10_000 + STEP * (case + 1)), tmp_path)


def test_words_of_a_comparison_change_only_as_they_should(tmp_path: Path) -> None:
    found = {n: wrong for n in range(5000, 5060) if (wrong := changed(compare_of(n), tmp_path, Random(n)))}
    assert not found


def test_a_sentence_of_a_comparison_that_nobody_can_read_is_told() -> None:
    """Else a new one would be held against nothing."""
    reader = Surfaces(Lines(compare_of(1)))
    reader.headline("All is well.")
    reader.fits("All is well.")
    assert len(reader.found) == 2
