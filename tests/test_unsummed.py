"""A run in which no update was ever summed says so, and why; one with some sums, or under attack, does not. A comparison says
where some were withheld.
"""

import html
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import cloister
from cloister import Scenario, Training, algorithms, attacks, data, models, partitions, protections
from cloister.comparing.caveats import withheld_of
from cloister.comparing.data import read_comparison
from cloister.comparing.notes import footnotes
from cloister.fl.runs.lost_round import why_withheld
from cloister.fl.runs.unsummed import nothing_summed
from cloister.protocol.core.errors import Fault
from cloister.protocol.parts.gate import Rules
from cloister.protocol.parts.record import Record
from cloister.protocol.view.answers import BelowFloor
from cloister.reporting.headline import unsummed_in_words
from cloister.threat_models.trial import played as trial_of

BELOW = [
    {"below_floor": [{"round": t, "cluster": "a", "members": [1, 2], "why": "a sum over 2 clients is below the floor of 3"}]}
    for t in range(3)
]
SHUT = {"round": 2, "client": -1, "reason": "the slots of models@2 stay shut: no slot was chosen by 6 clients", "rejected": False}
COUNTS = {"what": "slots", "words": "how many clients chose each of 5 slots, of small ones too", "scalars": 5}
PRESENT = {"what": "participation", "words": "which clients took part (slots); no data", "scalars": 0}


def test_in_every_round_no_sum_was_made() -> None:
    assert nothing_summed(BELOW, [COUNTS, PRESENT], [SHUT]) == SHUT["reason"]
    assert nothing_summed(BELOW, [PRESENT], []) == "a sum over 2 clients is below the floor of 3"


@pytest.mark.parametrize("what", ["sums", "slots", "personal sums"])
def test_one_sum_is_enough(what: str) -> None:
    answer = {"what": what, "words": "sums of the slots that enough chose", "scalars": 9}
    assert nothing_summed(BELOW, [COUNTS, answer], [SHUT]) == ""
    assert nothing_summed([*BELOW, {"below_floor": []}], [COUNTS], [SHUT]) == ""
    assert nothing_summed([], [], []) == ""


def test_words() -> None:
    assert unsummed_in_words({"nothing_summed": "why", "rounds": 3}) == (
        "Nothing was summed in any of 3 rounds, so that every client has what it began with or learned alone (why): more clients,"
        " fewer models or clusters, or a lower protection.floor may help"
    )
    assert unsummed_in_words({"nothing_summed": "why", "rounds": 1}).startswith("Nothing was summed in the only round, so")
    assert unsummed_in_words({"rounds": 3}) == ""


ADVERSARY = attacks.Adversary(members=attacks.Pool(1), upload=attacks.MinusGradient())


def scenario_of(floor: int, **changed: Any) -> Scenario:
    return Scenario(
        name="slots",
        data=data.Digits(),
        partition=partitions.Iid(clients=6, samples=20),
        model=models.Mlp(hidden=(8,)),
        training=Training(epochs=1, batch=10, lr=0.1),
        algorithm=algorithms.FedSoft(models=5, most=1),
        protection=protections.Masked(floor=floor),
        rounds=2,
        **changed,
    )


def played(folder: Path, floor: int, **changed: Any) -> Any:
    return cloister.run(scenario_of(floor, **changed), folder, quiet=True)


@pytest.mark.trains
@pytest.mark.filterwarnings("ignore::cloister.fl.runs.feasibility.Doubt")
@pytest.mark.long
def test_a_run_says_it_in_its_result_and_its_reports_first_lines(tmp_path: Path) -> None:
    result = played(tmp_path / "none", 5)
    assert "no slot was chosen by 6 clients" in result.summary["nothing_summed"]
    assert re.search("^no sum +Nothing was summed in any of 2 rounds, so that", str(result), re.MULTILINE)
    assert "so their training stopped" not in str(result)
    assert '<p class="alert">Nothing was summed in any of 2 rounds' in result.report.read_text()
    assert "nothing_summed" not in played(tmp_path / "attacked", 5, adversary=ADVERSARY).summary
    fine = played(tmp_path / "some", 2)
    assert any(answer["what"] == "slots" and "how many" not in answer["words"] for answer in fine.summary["disclosed"]["server"])
    assert "nothing_summed" not in fine.summary


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.filterwarnings("ignore::cloister.fl.runs.feasibility.Doubt")
@pytest.mark.parametrize("floor", [5, 2])
def test_an_evaluations_verdict_and_a_comparisons_notes_say_it(floor: int, tmp_path: Path) -> None:
    soft, none = algorithms.FedSoft(models=5, most=1), floor == 5
    scenario = scenario_of(floor)
    evaluation = cloister.Evaluation(
        name="slots", scenario=scenario, attacks={"minus": lambda count: ADVERSARY}, defences={"soft": soft}, strengths=(1,),
        seeds=(0,), absent=False,
    )  # fmt: skip
    evaluated = cloister.evaluate(evaluation, tmp_path / "e", quiet=True, workers=1)
    verdict = evaluated.verdict
    assert ("(nothing summed)" in str(evaluated)) == none
    said = "In no round was an update summed without attack, so that accuracies are of clients alone: by soft on 1 of 1 seed (the"
    assert (said in verdict) == none
    methods = {"soft": cloister.Method(algorithm=soft)}
    comparison = cloister.Comparison(
        name="slots", data={"iid": scenario}, methods=methods, protections={"Masked": scenario.protection}, seeds=(0,),
        scale="quick",
    )  # fmt: skip
    compared = cloister.compare(comparison, tmp_path / "c", quiet=True, workers=1)
    assert ("(nothing summed)" in str(compared)) == none
    notes = " ".join(footnotes(read_comparison(tmp_path / "c")))
    said = "In no round was an update summed, so that accuracies are of clients alone: soft on iid under Masked (seed 0: "
    assert (said in notes) == none


@pytest.mark.parametrize(
    ("clients", "spent", "words"),
    [
        ((0, 1, 2), (0, 1), "the privacy budget of 2 of 3 clients allows no more"),
        ((), (0, 1), "the privacy budget of 2 clients allows no more"),
        ((0, 1, 2, 3), (9,), "a sum over 4 clients was withheld: one of them has more of it than the floor of 2 allows"),
        ((0,), (), "a sum over 1 client is below the floor of 2"),
    ],
)
def test_a_budget_that_is_spent_is_why_a_sum_is_withheld(clients: tuple[int, ...], spent: tuple[int, ...], words: str) -> None:
    faults = [Fault(i, f"another release would take client {i} past its budget of 2") for i in spent]
    assert why_withheld(BelowFloor("a@1", clients, 2), faults).startswith(words)


def test_where_all_weigh_alike_nobody_is_said_to_have_too_much() -> None:
    """Before: "one of them has more of it than the floor of 2 allows", where a link was lost, with by_samples=False."""
    alike = BelowFloor("a@1", (0, 1), 2, alike=True)
    assert alike.words == "a sum over 2 clients could not be opened, as when one of them is lost in the middle of a round"
    assert BelowFloor("a@1", (0,), 2, alike=True).words == "a sum over 1 client is below the floor of 2"
    record = Record(cast("Any", None), Rules(2, 0))
    assert record.unsummed("a@1", (0, 1), weights=(1.0, 1.0)).alike
    assert not record.unsummed("a@1", (0, 1), weights=(1.0, 2.0)).alike
    assert not record.unsummed("a@1", (0, 1)).alike


SWAPPED = Scenario(
    name="swapped",
    data=data.Digits(),
    partition=partitions.LabelSwap(clients=8, groups=2, pairs=((1, 7), (3, 8)), shared_test=True),
    model=models.Mlp(hidden=(16,)),
    training=Training(epochs=2, batch=10, lr=0.3),
    algorithm=algorithms.IFCA(models=2),
    protection=protections.Masked(),
    rounds=2,
)
"""With seed 0 two clients of eight choose the second model in round 0, and nobody does later."""


@pytest.mark.trains
@pytest.mark.parametrize("protection", [protections.Masked(), protections.Plain(floor=3)], ids=["Masked", "Plain"])
def test_a_slot_that_nobody_chose_has_nothing_withheld(protection: Any) -> None:
    """Before: a sum was withheld in every round, though the slot had a client in the first alone."""
    trial = trial_of(replace(SWAPPED, protection=protection), None, None)
    assert [below.name for below in trial.simulation.view.record.below_floor] == ["models/1@0", "models/1@1"]
    assert trial.withheld == 1
    assert trial.first_withheld is not None
    assert trial.first_withheld.round == 0
    spare = ", a lower protection.slot_spare" if protection == protections.Masked() else ""
    assert trial.first_withheld.may_help == f"more clients, fewer models{spare} or a lower protection.floor"


@pytest.mark.trains
@pytest.mark.long
def test_a_comparison_says_where_sums_were_withheld_and_why(tmp_path: Path) -> None:
    """Before: 75.0 % and one cluster of IFCA under masks, where it has 92.2 % and two without, and not a word of why."""
    methods = {
        "IFCA": cloister.Method(algorithm=algorithms.IFCA(models=2)),
        "one": cloister.Method(algorithm=algorithms.FedAvg()),
    }
    comparison = cloister.Comparison(
        name="slots", data={"swapped": SWAPPED}, methods=methods, seeds=(0, 1), scale="quick",
        protections={"Masked": protections.Masked(), "Plain": protections.Plain()},
    )  # fmt: skip
    cloister.compare(comparison, tmp_path / "c", quiet=True, workers=1)
    (words,) = withheld_of(read_comparison(tmp_path / "c"))
    assert words == (
        "Sums were withheld by the protection, and what was in them moved no model: IFCA on swapped under Masked in 1 of "
        "2 rounds (seeds 0, 1; first in round 0 of seed 0, of a slot: 2 clients chose it, where it is opened for 4 or "
        "more: the floor of 3, and 1 who may drop out before it is summed). A model whose slot stayed shut is as it was, "
        "and clients may go by others for good. What may help: more clients, fewer models, a lower protection.slot_spare "
        "or a lower protection.floor."
    )
    assert words in footnotes(read_comparison(tmp_path / "c"))
    assert words in html.unescape((tmp_path / "c" / "report.html").read_text())
