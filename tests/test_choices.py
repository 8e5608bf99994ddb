"""What becomes of clients' choices."""

import numpy as np
import pytest

from cloister.fl.algorithms.hardened.choices import blocks, going_on, likeness_to, quorum
from cloister.fl.algorithms.hardened.evidence import Evidence, seen


@pytest.mark.parametrize(("clients", "share", "least"), [(20, 0.2, 4), (100, 0.2, 20), (7, 0.2, 2), (3, 0.2, 2), (21, 0.2, 5)])
def test_a_quorum_is_a_share_and_at_least_two(clients: int, share: float, least: int) -> None:
    assert quorum(clients, share) == least


def test_models_of_enough_clients_go_on_and_earlier_ones_need_a_third() -> None:
    chosen = {i: "a" if i < 3 else "b" if i < 14 else "old" for i in range(20)}
    assert going_on(chosen, ["a", "b"], ["a", "b", "old"], 20, 4) == ["b"]
    assert going_on({**chosen, 13: "old"}, ["a", "b"], ["a", "b", "old"], 20, 4) == ["b", "old"]
    assert going_on({0: "a", 1: "b"}, ["a", "b"], ["a", "b", "old"], 20, 4) == ["a"]  # somebody has to


def test_who_chose_what_goes_on_trains_it_and_others_go_where_they_were_or_to_kin() -> None:
    chosen = {0: "a", 1: "b", 2: "old", 3: "dead", 4: "dead"}
    own = {0: "b", 1: "b", 2: "b", 3: "dead", 4: "a"}
    kin = {"dead": ["dead", "b"], "a": [], "b": ["dead", "b"]}
    found = blocks(range(5), chosen, own, kin, ["a", "b"], Evidence())
    assert found == {"a": (0, 4), "b": (1, 2, 3)}


def test_who_has_nowhere_to_go_goes_to_those_it_was_like_or_nowhere() -> None:
    cosines = np.array([[1, 0.2, -0.4], [0.2, 1, 0.1], [-0.4, 0.1, 1]])
    evidence = seen(Evidence(), (0, 1, 2), cosines)
    chosen = {0: "dead", 1: "a", 2: "b"}
    assert blocks((0, 1, 2), chosen, {}, {}, ["a", "b"], evidence) == {"a": (0, 1), "b": (2,)}
    assert blocks((0, 1, 2), {0: "dead", 2: "b"}, {}, {}, ["b"], evidence) == {"b": (1, 2)}
    assert likeness_to(evidence, 0, (2,)) == pytest.approx(-0.4)
    assert likeness_to(evidence, 7, (0, 1)) == 0.0
