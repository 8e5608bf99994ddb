"""A sum that a client spoilt by what is no input: that is why a run ends, and not that somebody was lost in its midst."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from cloister.fl.algorithms.algorithm import Cluster, State
from cloister.fl.runs.lost_round import what_may_help, why_lost, why_withheld
from cloister.protocol import Encrypted, Masked, TwoServer
from cloister.protocol.core.errors import NO_SUM, OF_HELPERS, OF_NO_UPDATE, UNREADABLE, Fault
from cloister.protocol.core.session import SERVER
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
