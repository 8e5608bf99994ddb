"""A sum that a client spoilt by what is no input: that is why a run ends, and not that somebody was lost in its midst."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from cloister.fl.algorithms.algorithm import Cluster, State
from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.runs.lost_round import what_may_help, why_lost, why_withheld
from cloister.fl.runs.unsummed import nothing_summed
from cloister.protocol import Encrypted, Masked, TwoServer
from cloister.protocol.core.errors import (
    FEW_KEYS,
    LOST_BETWEEN,
    NO_SUM,
    OF_EITHER,
    OF_HELPERS,
    OF_NO_COUNTS,
    OF_NO_UPDATE,
    OF_NO_WEIGHT,
    OF_NO_ZEROS,
    UNREADABLE,
    Fault,
)
from cloister.protocol.core.session import DEALER, SECOND_SERVER, SERVER
from cloister.protocol.view.answers import BelowFloor, Model
from cloister.reporting.headline import unsummed_in_words

from .served import SMALL

READ = f"the masked sum 0@1 {UNREADABLE}the sum of weights is 606029195, not within 1 and 6"
SHARED = f"the sum 0@1 {OF_NO_UPDATE}, as a Gram question says, {OF_HELPERS}"
LOST = BelowFloor("0@1", (0, 1, 2), 2, alike=True)


@pytest.mark.parametrize(
    ("protection", "reason"),
    [(Masked(), READ), (Masked(corrupt=1), READ), (TwoServer(), SHARED)],
)
def test_the_last_line_says_what_happened_whose_it_may_be_and_what_helps(protection: object, reason: str) -> None:
    scenario = replace(SMALL, protection=protection)
    state = cast(State, SimpleNamespace(clusters={"0": Cluster((0, 1, 2), Model("init"))}, measured={}, round=2))
    found = why_lost(scenario, 1, state, {Model("init")}, True, [Fault(SERVER, reason)], [LOST], (0, 1, 2), ())
    assert found.words.startswith(f"a sum over 3 clients was spoilt by an input that is no update ({reason})")
    assert f"whose it is cannot be told under {type(protection).__name__}" in found.words
    assert ("unless the method compares updates" in found.words) == isinstance(protection, TwoServer)
    for untrue in ("lost in the middle", "more clients", "protection.corrupt", "protection.floor"):
        assert untrue not in found.words
    assert not found.hopeless


def test_a_sum_that_was_not_opened_says_so_of_itself_and_of_no_other() -> None:
    assert why_withheld(LOST, [Fault(SERVER, READ)]).startswith("a sum over 3 clients was spoilt")
    assert why_withheld(LOST, [Fault(SERVER, READ, by=2)]) == LOST.words  # a client's word
    assert why_withheld(replace(LOST, name="0@10"), [Fault(SERVER, READ)]) == LOST.words
    assert why_withheld(LOST, [Fault(SERVER, "the masked sum 0@1 failed at stage advertise: 0 of 2 were there")]) == LOST.words


COUNT = f"{NO_SUM}a sum of other clients than the 3 that are said to be in it"
OPENED = Fault(SERVER, "the encrypted sum 0@1 failed at stage open: 1 of 3 were there; client 0, who made its key, is asked last")
BY_LINK = [Fault(SERVER, COUNT, by=0), Fault(SERVER, COUNT, by=1), OPENED]
IN_PROCESS = [Fault(SERVER, COUNT), Fault(SERVER, COUNT), OPENED]


@pytest.mark.parametrize("faults", [BY_LINK, IN_PROCESS], ids=["by a link", "in process"])
@pytest.mark.parametrize("first", [True, False])
def test_where_members_refuse_a_sum_no_lower_floor_and_no_other_training_is_advised(faults: list[Fault], first: bool) -> None:
    """Before: "as when one of them is lost in the middle of a round", and a floor for fewer liars."""
    scenario = replace(SMALL, protection=Encrypted(floor=3))
    state = cast(State, SimpleNamespace(clusters={"0": Cluster((0, 1, 2), Model("init"))}, measured={}, round=2))
    below = replace(LOST, floor=3)
    found = why_lost(scenario, 1, state, {Model("init")}, first, faults, [below], (0, 1, 2), ()).words
    assert f"2 clients that were to open it found {COUNT}" in found
    assert "whose it is cannot be told under Encrypted" in found
    helps = what_may_help(below, scenario, faults)
    assert why_withheld(below, faults).startswith("a sum over 3 clients was spoilt by an input that is no update (2 clients")
    for untrue in ("lost in the middle", "protection.floor", "more clients", "training.lr"):
        assert untrue not in found + helps
    assert "protection.floor" in what_may_help(below, scenario)


def test_members_words_alone_are_none_of_a_sum_that_was_opened_or_fell_otherwise() -> None:
    assert why_withheld(LOST, BY_LINK[:2]) == LOST.words
    assert why_withheld(LOST, [OPENED]) == LOST.words  # nobody said that it is none
    assert why_withheld(replace(LOST, name="0@10"), BY_LINK) == LOST.words
    said = Fault(SERVER, OPENED.reason, by=2)
    assert why_withheld(LOST, [*BY_LINK[:2], said]) == LOST.words


def test_a_run_in_which_every_sum_was_spoilt_is_not_advised_a_lower_floor() -> None:
    why = why_withheld(LOST, BY_LINK)
    assert "protection.floor" not in unsummed_in_words({"nothing_summed": why, "rounds": 3})
    assert "protection.floor" in unsummed_in_words({"nothing_summed": LOST.words, "rounds": 3})
    few = f"the second server says that it has the keys of 0 of the 6 {FEW_KEYS}"
    why = nothing_summed([{"below_floor": [{"members": []}], "unanswered": few}], [], [])
    assert why == few
    assert "protection.floor" not in unsummed_in_words({"nothing_summed": why, "rounds": 3})


def lost(scenario, faults, refused, first=True):
    now = Model("init") if first else Model("learned")
    state = cast(State, SimpleNamespace(clusters={"0": Cluster((0, 1, 2), now)}, measured={}, round=2))
    return why_lost(scenario, 1, state, {now}, first, faults, refused, (0, 1, 2), ())


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("protection", "reason"),
    [
        (Masked(), f"the slots of models@1 {UNREADABLE}the sum of weights is 10, not within 1 and 6"),
        (Masked(), f"the slots of models@1 stay shut: 3 clients {OF_NO_COUNTS}"),
        (Masked(), f"the slots of models@1 {UNREADABLE}{OF_NO_ZEROS}"),
        (TwoServer(), f"3 clients {OF_NO_COUNTS}"),
        (TwoServer(), f"slot 0 has a weight that no 3 {OF_NO_WEIGHT}"),
    ],
)
def test_slots_that_an_input_spoilt_say_so_and_advise_no_other_training(protection: object, reason: str, first: bool) -> None:
    """Before: "inputs of one scale, or a smaller training.lr, may help", in every form of it."""
    scenario = replace(SMALL, algorithm=IFCA(models=2), protection=protection)
    shut = [BelowFloor(f"models/{k}@1", (), 3, shut=reason) for k in range(2)]
    found = lost(scenario, [Fault(SERVER, f"slots of models@1: {reason}")], shut, first).words
    assert f"what clients put into slots was spoilt by an input that is no update ({reason})" in found
    assert f"whose it is cannot be told under {type(protection).__name__}" in found
    assert why_withheld(shut[0], ()).startswith("what clients put into slots was spoilt")
    assert "training.lr" not in found + what_may_help(shut[0], scenario)
    assert "fewer models" not in found + what_may_help(shut[0], scenario)


def test_clients_that_are_lost_between_counts_and_sums_are_said_to_be() -> None:
    reason = f"the slots of models@1 {LOST_BETWEEN}"
    shut = [BelowFloor("models/0@1", (), 3, shut=reason)]
    found = lost(replace(SMALL, algorithm=IFCA(models=2), protection=Masked()), [Fault(SERVER, reason)], shut).words
    assert "clients were lost between counts and sums" in found
    assert "a larger protection.slot_spare" in found
    assert "training.lr" not in found


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("fault", "refused", "words"),
    [
        (Fault(SECOND_SERVER, f"it says that it has the keys of 0 of the 3 {FEW_KEYS}"), [], "says that it has the keys of 0 of"),
        (Fault(SECOND_SERVER, f"it says that it has the keys of 0 of the 3 {FEW_KEYS}"), [BelowFloor("0@1", (), 2)], "keys of 0"),
        (Fault(SECOND_SERVER, "a share of a sum of 8 bytes where 16 belong"), [LOST], "did not answer as it should"),
        (
            Fault(SECOND_SERVER, f"shares that do not add up: {OF_EITHER}"),
            [],
            "the second server or the dealer did not answer as",
        ),
        (Fault(DEALER, "gram of round 1 was not answered"), [], "the dealer did not answer as it should"),
    ],
)
def test_a_second_server_by_which_there_is_no_sum_is_named(
    fault: Fault, refused: list[BelowFloor], words: str, first: bool
) -> None:
    """Before: rounds that were over in no time and a run that ended well, untrained; or "more clients or a lower floor"."""
    found = lost(replace(SMALL, protection=TwoServer()), [fault], refused, first)
    assert found.helper
    assert words in found.words
    assert "see that it runs and is reached, by clients too, and its log" in found.words
    for untrue in ("more clients", "protection.floor", "training.lr"):
        assert untrue not in found.words


def test_a_sum_of_the_few_whose_keys_the_second_server_has_is_laid_to_it() -> None:
    few = Fault(SECOND_SERVER, f"it says that it has the keys of 1 of the 6 {FEW_KEYS}")
    found = lost(replace(SMALL, protection=TwoServer()), [few], [BelowFloor("0@1", (4,), 3)])
    assert not found.helper, "clients that lie may have sent it nothing: a run that learned something plays on"
    assert "the second server says that it has the keys of 1 of the 6" in found.words


def test_a_sum_that_is_too_small_without_the_second_server_too_is_not_laid_to_it() -> None:
    silent = Fault(SECOND_SERVER, "the sum 1@1 was not answered")
    found = lost(replace(SMALL, protection=TwoServer()), [silent], [BelowFloor("0@1", (0, 1), 3)])
    assert not found.helper
    assert "a sum over 2 clients is below the floor of 3" in found.words
