"""What a comparison says of methods that were not searched alike or learned nothing, of how many attack, and of its intervals."""

import csv
import io
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

import cloister
from cloister.comparing.caveats import caveats
from cloister.comparing.data import Found, Spot, read_comparison
from cloister.comparing.learning import LONGER, LOOK, SMALLER, learning_words
from cloister.comparing.notes import footnotes
from cloister.comparing.panels import tiles
from cloister.comparing.report import render
from cloister.comparing.scale import attackers_words
from cloister.comparing.texts import csv_text, markdown
from cloister.comparing.verdict import headline, sentences
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.runs.comparison import Comparison, Method

from . import comparison_sample as sample
from .compared_tables import Compare, compare_of, searched

GUESSES = {"diverged": {"first": 2.31, "last": 2.3, "guess": 2.3}}
GROWN = {"diverged": {"first": 2.3, "last": 40.0, "guess": 2.3}}


def table_of(suits: Callable[[Compare], bool]) -> Compare:
    """The first made-up comparison of the kind, all of whose runs are done, with nothing to be told of them."""
    tables = (compare_of(n) for n in range(4000))
    untold = ("diverged", "not_finite", "nothing_summed", "first_withheld", "doubts")
    return next(
        t for t in tables
        if suits(t) and all(row["status"] == "done" and not any(row.get(name) for name in untold) for row in t.rows)
        and len({row["key"] for row in t.rows}) == len(t.about["keys"])
        and all(row["accuracy"]["of"] and row["accuracy"]["mean"] > 0.2 for row in t.rows if row["attack"] is None)
    )  # fmt: skip


def searches(method: Mapping[str, Any]) -> int:
    return len(method["configurations"])


def plain(t: Compare) -> bool:
    return len(t.about["methods"]) == 3 and len(t.about["seeds"]) == 3 and len(t.about["data"]) == 1 and not t.about["attacks"]


def edited(table: Compare, method: str, path: Path, change: Mapping[str, Any], seeds: int = 9) -> Found:
    """With something else in the lines of a method, of so many seeds."""
    rows = deepcopy([*table.rows])
    for row in [row for row in rows if row["method"] == method][:seeds]:
        row.update(change)
    return Compare(table.about, rows).found(path)


def test_a_headline_says_which_methods_were_not_searched_alike(tmp_path: Path) -> None:
    """Before: "Highest mean accuracy on iid: mine; behind it: FedAvg", of a mean with three learning rates and one with one."""
    table = table_of(plain)
    a, b, c = table.about["methods"]
    some = searched(table, Random(1)).about
    alike = {m: of | {"configurations": [{}]} for m, of in some["methods"].items()}
    unlike = {
        m: of | {"configurations": [{"x": str(k)} for k in range(n)]} for (m, of), n in zip(alike.items(), (1, 3, 2), strict=True)
    }
    assert "alike" not in headline(Compare(some | {"methods": alike}, table.rows).found(tmp_path / "alike"))
    keys = [f"{k}" for k in range(5)]
    rows = [
        {"data": next(iter(some["data"])), "method": m, "protection": None, "seed": 50, "configuration": k, "attack": None}
        | {"key": key, "status": "done", "reason": "", "accuracy": {"mean": 0.9 - 0.1 * k}, "cost": {"seconds": 1}}
        for key, (m, k) in zip(keys, [(b, 0), (b, 1), (b, 2), (c, 0), (c, 1)], strict=True)
    ]
    about = some | {"methods": unlike, "keys": [*keys, *table.about["keys"]]}
    found = Compare(about, [*rows, *table.rows]).found(tmp_path / "unlike")
    words = f"Not searched alike: {b} over 3 configurations; {c} over 2; {a} not at all."
    assert headline(found).endswith(words)
    assert words in markdown(found)
    assert words in " ".join([sentences(found).places[0][0], *sentences(found).notes])
    assert next(tile.detail for tile in tiles(found) if tile.label == "methods") == "1 to 3 configurations of each searched"
    nothing = Compare(about | {"search": None}, table.rows).found(tmp_path / "none")
    assert "alike" not in headline(nothing)


def test_of_several_data_sets_the_page_says_it_once(tmp_path: Path) -> None:
    table = table_of(lambda t: len(t.about["data"]) == 2 and len(t.about["methods"]) > 1)
    made = next(of for n in range(50) if len({*map(searches, (of := searched(table, Random(n))).about["methods"].values())}) > 1)
    found = made.found(tmp_path)
    (words,) = sentences(found).notes
    assert headline(found).endswith(words)
    assert render(found).count("Not searched alike") == 1


def test_intervals_are_said_to_hold_for_one_data_set_under_one_protection(tmp_path: Path) -> None:
    """Before: "for all pairs of the table at once", where the whole grid is called one table."""
    one, two = (
        table_of(lambda t, n=n: len(t.about["data"]) * len(t.about["protections"]) == n).found(tmp_path / f"{n}") for n in (1, 2)
    )
    (said,), (of_two,) = ([note for note in footnotes(found) if "Bonferroni" in note] for found in (one, two))
    assert "all pairs of one data set under one protection at once (Bonferroni)" in said
    assert "at once, and not for all 2 such tables together (Bonferroni)" in of_two


def test_each_way_of_coming_to_nothing_has_its_remedy(tmp_path: Path) -> None:
    """Before: "A smaller training.lr, or inputs of one scale, may help", of one whose learning rate was too small."""
    table = table_of(plain)
    (data,), (a, *_) = table.about["data"], table.about["methods"]
    spot = f"{a} on {data} under Plain"
    assert not learning_words(table.found(tmp_path / "well"))
    seeds = table.about["seeds"]
    assert learning_words(edited(table, a, tmp_path / "grown", GROWN, 1)) == [
        f"Training diverged: {spot} (seed {seeds[0]}). {SMALLER}."
    ]
    guesses = edited(table, a, tmp_path / "guesses", GUESSES, 2)
    words = f"Training came to nothing, with loss and accuracy of a guess: {spot} (seeds {seeds[0]}, {seeds[1]}). {LOOK}."
    assert learning_words(guesses) == [words]
    assert words in caveats(guesses)
    everybody = Compare(table.about, [row | GUESSES for row in table.rows]).found(tmp_path / "all")
    (line,) = learning_words(everybody)
    assert line.endswith(f" {LONGER}.")


@pytest.mark.parametrize(("mean", "said"), [(0.099, True), (0.16, False)])
def test_a_method_that_is_no_better_than_a_guess_is_named(tmp_path: Path, mean: float, said: bool) -> None:
    """Before: nothing, of runs of fewer than five rounds."""
    table = table_of(plain)
    (data,), (a, *_) = table.about["data"], table.about["methods"]
    accuracy = {"mean": mean, "worst": mean, "of": dict.fromkeys("0123", mean)}
    guess = {"classes": 10, "one_label": 0.1, "accuracy": accuracy}
    lines = learning_words(edited(table, a, tmp_path, guess))
    words = f"Learned nothing without attack: {a} on {data} under Plain (9.9 %, as chance is 10.0 %). {LOOK}."
    assert lines == ([words] if said else [])


def test_how_many_clients_attack_stands_in_the_tables(tmp_path: Path) -> None:
    table = table_of(lambda t: [*t.about["attacks"]] == ["minus"] and len(t.about["data"]) == 1)
    found = table.found(tmp_path / "a")
    assert attackers_words(found) == "Attackers: minus: 1 of 4 clients."
    assert attackers_words(found) in markdown(found)
    rows = [*csv.DictReader(io.StringIO(csv_text(found)))]
    assert {row["attackers_minus_mean"] for row in rows if row["protection"] in table.about["attacked"]} == {"1"}
    more = Compare(
        table.about, [row | ({"members": [2, 3]} if k % 2 and row["attack"] else {}) for k, row in enumerate(table.rows)]
    )
    assert attackers_words(more.found(tmp_path / "b")) == "Attackers: minus: 1 to 2 of 4 clients."
    two = table_of(lambda t: [*t.about["attacks"]] == ["minus"] and len(t.about["data"]) == 2)
    first, second = two.about["data"]
    uneven = Compare(
        two.about, [row | ({"members": [2, 3]} if row["attack"] and row["data"] == second else {}) for row in two.rows]
    )
    words = f"Attackers: minus on {first}: 1 of 4 clients; minus on {second}: 2 of 4 clients."
    assert attackers_words(uneven.found(tmp_path / "c")) == words


def nothing_moves(updates: Tensor) -> Tensor:
    return torch.zeros(updates.shape[1])


@pytest.mark.trains
def test_a_run_of_two_rounds_that_moves_no_model_is_said_to_have_learned_nothing(tmp_path: Path) -> None:
    methods = {"still": Method(algorithm=RobustFedAvg(rule=nothing_moves)), "FedAvg": Method(algorithm=FedAvg())}
    about: Comparison = sample.comparison
    scenario = next(iter(about.data.values()))
    short = Comparison(name="short", scale="quick", data={"a": scenario}, methods=methods, yardstick="FedAvg", seeds=(0,))
    cloister.compare(short, tmp_path / "out", workers=1, quiet=True)
    found = read_comparison(tmp_path / "out")
    (row,) = found.lines(Spot("a", "still", "Plain"))
    assert row["classes"] == 10
    assert 0.1 <= row["one_label"] < 0.3
    near = row["accuracy"]["mean"] <= row["one_label"]  # of the first weights, which are none of a search
    assert not near or any("Learned nothing without attack: still on a under Plain (" in line for line in caveats(found))
