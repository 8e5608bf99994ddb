"""A run that diverged without any number that is not finite says so; one that learns, or is short, says nothing of the kind."""

import re
from dataclasses import replace
from math import inf, log, sqrt
from pathlib import Path
from typing import Any

import pytest
import torch

import cloister
from cloister import attacks
from cloister.comparing.data import read_comparison
from cloister.comparing.learning import learning_words
from cloister.comparing.notes import footnotes
from cloister.evaluating.verdict import verdict
from cloister.fl.data.population import Client, Examples, Population
from cloister.fl.runs.diverged import Guess, diverged, guess_of
from cloister.reporting.headline import diverged_in_words
from cloister.threat_models.cell_metrics import clean_metrics
from cloister.threat_models.trial import played

from . import comparison_sample
from . import evaluation_sample as sample
from .test_verdict_sentences import edited
from .test_verdicts import made_up

GUESS = Guess(0.1, 1000)
CE, MSE = "cross entropy", "mean squared error"


def lines(*losses: float | None, accuracy: float | None = 0.1) -> list[dict[str, Any]]:
    """Rounds with these mean losses of two clients."""
    of = [None if loss is None else {"0": loss * 0.9, "1": loss * 1.1} for loss in losses]
    return [{"round": t, **({} if loss is None else {"loss": loss, "accuracy_mean": accuracy})} for t, loss in enumerate(of)]


@pytest.mark.parametrize(
    ("rounds", "loss", "classes"),
    [
        (lines(2.2, 1e6), CE, 10),
        (lines(1e6, 1e6, accuracy=0.4), CE, 10),  # already after the first round
        (lines(3.0, 90.0, accuracy=None), MSE, 1),
        (lines(0.5, 3.0, accuracy=0.3), lambda outputs, targets: outputs, 3),
        (lines(2.31, 2.31, 2.31, 2.31, 2.32), CE, 10),
        (lines(4.8, None, 5.1, None, 6.4, accuracy=0.115), CE, 10),
    ],
)
def test_what_diverged_or_learned_nothing_is_found(rounds: list[dict[str, Any]], loss: Any, classes: int) -> None:
    assert diverged(rounds, loss, classes, GUESS)["last"] > 0.9 * rounds[-1]["loss"]["0"]


@pytest.mark.parametrize(
    ("rounds", "loss", "classes"),
    [
        (lines(2.3, 1.8, 1.2, 0.9, 0.7, accuracy=0.8), CE, 10),
        (lines(0.3, 0.5, 0.9, 1.4, 2.0, accuracy=0.7), CE, 10),  # overfits
        (lines(2.35, 2.34, accuracy=0.1), CE, 10),  # two rounds
        (lines(2.31, 2.31, 2.30, 2.30, 2.29, accuracy=0.2), CE, 10),  # slow
        (lines(2.5, 2.5, 2.5, 2.5, 2.5, accuracy=0.4), CE, 10),  # sure of itself, and right more often than by chance
        (lines(80.0, 3.0, 4.0, accuracy=None), MSE, 1),
        (lines(3.0, 9.0, accuracy=None), MSE, 1),
        (lines(2.0, inf), CE, 10),  # said as not finite
        (lines(None, None), CE, 10),
        ([], CE, 10),
    ],
)
def test_training_that_is_fine_or_was_not_looked_at_raises_no_alarm(
    rounds: list[dict[str, Any]], loss: Any, classes: int
) -> None:
    assert diverged(rounds, loss, classes, GUESS) == {}


def test_a_loss_that_is_not_finite_is_said_by_itself() -> None:
    assert diverged([{"loss": {"0": 2.0}}, {"loss": {"0": None, "1": 1e9}}], CE, 10, GUESS) == {}


def test_few_clients_by_which_a_mean_is_large_are_counted_and_the_run_is_not_said_to_have_diverged() -> None:
    """A client says its own loss: one of them had a report say "Training diverged"."""
    fine = {str(i): 0.4 for i in range(9)}
    found = diverged([{"loss": fine, "accuracy_mean": 0.9}, {"loss": fine | {"9": 3e38}, "accuracy_mean": 0.9}], CE, 10, GUESS)
    assert (found["clients"], found["of"]) == (1, 10)
    assert diverged_in_words({"diverged": found}) == (
        "The loss of 1 of 10 clients is far too large, and so is the mean: the loss on held-out data is 3e+37 at the end, and was"
        " 0.4 at first and that of guessing 2.3: their models came to nothing, or what they say is not so"
    )
    many = {str(i): 40.0 if i < 5 else 0.4 for i in range(10)}
    assert "clients" not in diverged([{"loss": many, "accuracy_mean": 0.9}], CE, 10, GUESS)


@pytest.mark.parametrize("records", [100, 1000, 10000])
def test_accuracy_is_that_of_guessing_within_two_standard_errors_of_the_test_set(records: int) -> None:
    """Of 1000 records and ten labels up to 11.9 %."""
    most = 0.1 + 2 * sqrt(0.09 / records)
    at, above = (lines(2.31, 2.31, 2.3, 2.3, 2.291, accuracy=accuracy) for accuracy in (most - 1e-6, most + 1e-6))
    assert diverged(at, CE, 10, Guess(0.1, records))["last"] == pytest.approx(2.291)
    assert diverged(above, CE, 10, Guess(0.1, records)) == {}


def test_the_loss_of_a_guess_has_a_margin_too() -> None:
    for factor, said in ((1.01, True), (0.975, True), (0.965, False)):
        assert bool(diverged(lines(*[factor * log(10)] * 5), CE, 10, GUESS)) is said


def test_labels_that_are_not_alike_often_are_guessed_at_less_than_the_logarithm_of_their_number() -> None:
    """A run that put out the commonest of three labels in every round was called neither bad nor good."""
    guess = Guess(0.448, 502, 1.0357)
    stuck = lines(*[1.0319] * 5, accuracy=0.4494)
    assert diverged(stuck, CE, 3, guess) == {"first": 1.0319, "last": 1.0319, "guess": 1.0357}
    assert diverged(stuck, CE, 3, Guess(0.448, 502)) == {}  # of which that is not known
    assert diverged(lines(*[0.9] * 5, accuracy=0.4494), CE, 3, guess) == {}  # it is less sure than by chance
    assert diverged(lines(*[1.0319] * 5, accuracy=0.6), CE, 3, guess) == {}


def test_a_guess_knows_the_most_frequent_label_and_counts_shared_records_once() -> None:
    def client(i: int, y: torch.Tensor) -> Client:
        of = Examples(torch.zeros(len(y), 1), y)
        return Client(i, of, of)

    mine, shared = torch.tensor([0, 0, 1, 2]), torch.tensor([0, 1, 1, 0, 0, -1])
    clients = {0: client(0, mine), 1: client(1, shared), 2: client(2, shared)}
    assert guess_of(Population(clients, {}, 3, (1,))) == Guess(5 / 9, 9, pytest.approx(0.936888, abs=1e-6))
    assert guess_of(Population({0: client(0, torch.tensor([0.5, 1.5]))}, {}, 1, (1,))) == Guess(1.0, 0)
    assert guess_of(Population({0: client(0, torch.tensor([0, 1, 2, 3]))}, {}, 10, (1,))) == Guess(0.25, 4, pytest.approx(log(4)))


def test_words() -> None:
    grown = {"first": 2.2, "last": 1e6, "guess": log(10)}
    assert diverged_in_words({"diverged": grown}) == (
        "Training diverged: the loss on held-out data is 1e+06 at the end, and was 2.2 at first and that of guessing 2.3:"
        " smaller training.lr, inputs of one scale may help"
    )
    assert diverged_in_words({"diverged": {"first": 3.0, "last": 90.0}}).startswith(
        "Training diverged: the loss on held-out data is 90 at the end, and was 3 at first: smaller training.lr"
    )
    said = diverged_in_words({"diverged": {"first": 2.31, "last": 2.32, "guess": log(10)}, "privacy": {"epsilon": 1}})
    assert said.endswith("more rounds, another training.lr, inputs of one scale, or less noise may help")
    assert said.startswith(
        "Nothing was learned: at the end the loss on held-out data, 2.32, is no less than that of guessing, 2.303,"
    )
    said = diverged_in_words({"diverged": {"first": 2.31, "last": 2.291, "guess": log(10)}})
    assert "2.291, is hardly less than that of guessing, 2.303, and accuracy is no better than" in said


@pytest.mark.long
@pytest.mark.trains
def test_a_run_says_it_in_its_result_its_table_and_its_reports_first_lines(tmp_path: Path) -> None:
    far = replace(sample.scenario, training=replace(sample.scenario.training, lr=500.0), rounds=2)
    result = cloister.run(far, tmp_path / "far", quiet=True)
    assert result.summary["diverged"]["last"] > 5 * log(10)
    assert "not_finite" not in result.summary
    assert re.search("^training +Training diverged: the loss", str(result), re.MULTILINE)
    assert "Training diverged: the loss" in result._repr_html_()
    assert '<p class="alert">Training diverged: the loss' in result.report.read_text()
    fine = cloister.run(replace(sample.scenario, rounds=2), tmp_path / "fine", quiet=True)
    assert "diverged" not in fine.summary
    assert not re.search("^training ", str(fine), re.MULTILINE)


@pytest.mark.trains
def test_under_attack_the_attackers_are_why(tmp_path: Path) -> None:
    adversary = attacks.Adversary(members=attacks.Pool(2), upload=attacks.Scaled(1e4))
    result = cloister.run(replace(sample.scenario, adversary=adversary, rounds=2), tmp_path / "run", quiet=True)
    assert result.summary["loss_mean"] > 5 * log(10)
    assert "diverged" not in result.summary


@pytest.mark.long
def test_a_verdict_names_whose_training_diverged_without_attack(tmp_path: Path) -> None:
    """Accuracy may be as good as that of any other: what an attack took of such a model is not to be known."""
    grown = {"diverged": {"first": 2.0, "last": 900.0, "guess": log(10)}}
    good = {(d, "IPM"): [0.89] * 3 for d in "abc"}
    made_up(tmp_path, good)
    assert "diverged" not in verdict(edited(tmp_path, lambda row: row))

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        if row["attack"] is not None:
            return row | grown  # under attack the attackers are why
        return row | (grown if row["defence"] == "a" and row["seed"] else {"not_finite": 2} if row["defence"] == "b" else {})

    words = verdict(edited(tmp_path, edit))
    assert "Training diverged without attack: by a on 2 of 3 seeds, b on 3 of 3 seeds. Others here learned" in words
    words = verdict(edited(tmp_path, lambda row: row | grown if row["attack"] is None else row))
    assert words.endswith("A smaller training.lr, or inputs of one scale, may help.")


def test_who_is_at_chance_without_attack_did_not_learn_from_the_same_data(tmp_path: Path) -> None:
    """Before: "others here learned from the same data" of defences that the same verdict says learned nothing."""
    made_up(tmp_path, {(d, "IPM"): [0.1] * 3 for d in "ab"}, clean=0.1, absent=0.1)
    grown = {"diverged": {"first": 2.0, "last": 900.0, "guess": log(10)}}

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        return row | {"classes": 10} | (grown if (row["attack"], row["defence"]) == (None, "a") else {})

    words = verdict(edited(tmp_path, edit))
    assert "a and b learned nothing without attack" in words
    assert "without attack: by a on 3 of 3 seeds. A smaller training.lr, or inputs of one scale, may help." in words


@pytest.mark.trains
def test_cells_keep_what_it_takes(tmp_path: Path) -> None:
    far = replace(sample.scenario, training=replace(sample.scenario.training, lr=500.0), rounds=2)
    assert clean_metrics(played(far, None, None))["diverged"]["last"] > 5 * log(10)
    fine = clean_metrics(played(replace(sample.scenario, rounds=2), None, None))
    assert not {"diverged", "not_finite"} & fine.keys()


@pytest.mark.trains
def test_a_comparisons_notes_name_method_data_protection_and_seeds(tmp_path: Path) -> None:
    base = comparison_sample.tiny.data["iid"]
    far = replace(base, training=replace(base.training, lr=500.0))
    comparison = replace(comparison_sample.tiny, search=None, data={"far": far, "near": base})
    cloister.compare(replace(comparison, seeds=(0, 1)), tmp_path / "c", quiet=True, workers=1)
    found = read_comparison(tmp_path / "c")
    words, *_ = [line for line in learning_words(found) if line.startswith("Training diverged: ")]
    assert words.startswith("Training diverged: LOCAL on far under Plain (seeds 0, 1); CFL on far under Plain")
    assert "near" not in words
    assert words in footnotes(found)
