"""A column that numbers a table's rows is said to, as it is no input."""

import csv

import numpy as np

from cloister import data
from cloister.fl.data.identifiers import FEWEST, numbered_rows
from cloister.fl.data.source import Digits


def table(folder, name, rows, first=0):
    order = np.random.default_rng(0).permutation(rows)
    with (folder / name).open("w", newline="") as file:
        lines = [[f"{first + int(k):05d}", k / 7, k % 3, "ab"[k % 2]] for k in order]
        csv.writer(file).writerows([["pupil", "age", "absences", "label"], *lines])


def test_a_column_that_numbers_each_clients_rows_is_named(tmp_path):
    """It was an input without a word, and nothing was learned."""
    table(tmp_path, "a.csv", 30)
    table(tmp_path, "b.csv", 40, first=100)
    (words,) = numbered_rows(data.from_csv(tmp_path)(None))
    expected = "which is an input here: is it an identifier? Leave it out (from_csv: without)"
    assert words == f"'pupil' of {tmp_path.stem} numbers the rows of each client, {expected}"


def test_what_has_gaps_or_serves_twice_or_is_of_few_rows_is_an_input(tmp_path):
    table(tmp_path, "a.csv", 30)
    table(tmp_path, "b.csv", FEWEST - 1)
    assert numbered_rows(data.from_csv(tmp_path)(None)) == []
    assert numbered_rows(Digits()(None)) == []
    x = np.stack([np.arange(60), np.arange(60) * 2, np.arange(60) // 2], axis=1)
    given = data.from_datasets({"a": (x[:30].astype(float), np.arange(30) % 2), "b": (x[30:].astype(float), np.arange(30) % 2)})
    assert numbered_rows(given(None)) == ["column 0 of the inputs of data sets numbers the rows of each client, which is an input"
                                          " here: is it an identifier? Leave it out (from_csv: without)"]  # fmt: skip
