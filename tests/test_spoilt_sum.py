"""A sum that a client spoilt by what is no input: that is why a run ends, and not that somebody was lost in its midst."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from cloister.fl.algorithms.algorithm import Cluster, State
from cloister.fl.runs.lost_round import why_lost, why_withheld
from cloister.protocol import Masked, TwoServer
from cloister.protocol.core.errors import OF_HELPERS, OF_NO_UPDATE, UNREADABLE, Fault
from cloister.protocol.core.session import SERVER
from cloister.protocol.view.answers import BelowFloor, Model

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
