"""CFL's parameter tree: names are paths, newcomers go to the side of the nearest update, models from general to special."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.fl.algorithms.parameter_tree import ROOT, Node, closer_child, generalities, names_of_children, path_to
from cloister.protocol.view.answers import Model


def node(name: str) -> Node:
    return Node((1, 2), Model(f"at {name}"), 0, 3, names_of_children(name), ())


@given(st.lists(st.integers(0, 1), max_size=12))
def test_a_name_is_the_path_from_the_root(turns: list[int]) -> None:
    name, passed = ROOT, [ROOT]
    for turn in turns:
        name = names_of_children(name)[turn]
        passed.append(name)
    assert path_to(name) == passed


@pytest.mark.parametrize(
    ("left", "right", "child"),
    [
        ([0.1, 0.9], [0.8], "00"),  # the nearest single update, not the mean
        ([0.1, 0.2], [0.3, -1.0], "01"),
        ([0.5], [0.5, 0.1], "01"),  # a tie goes to the second
        ([-0.2], [-0.9, -0.3], "00"),
        ([], [-0.9], "01"),  # nobody of the other side sent a sketch
        ([-0.9], [], "00"),
    ],
)
def test_the_closer_child(left: list[float], right: list[float], child: str) -> None:
    clients = tuple(range(len(left) + len(right)))
    parted = replace(node("0"), sides=(clients[: len(left)], clients[len(left) :]))
    assert closer_child(parted, clients, np.array([*left, *right])) == child
    assert closer_child(parted, clients[::-1], np.array([*left, *right][::-1])) == child, "by client, not by place"


def test_generalities_go_from_the_fl_solution_to_the_clusters_own_model() -> None:
    tree = {name: node(name) for name in ("0", "01", "011", "00")}
    clusters = {name: Model(f"now {name}") for name in ("000", "001", "010", "0110", "0111")}
    named = {name: [m.name for m in generalities(tree, clusters, name)] for name in clusters}
    assert named["0111"] == ["at 0", "at 01", "at 011", "now 0111"]
    assert named["010"] == ["at 0", "at 01", "now 010"]
    assert generalities({}, {"0": Model("only")}, "0") == [Model("only")]
