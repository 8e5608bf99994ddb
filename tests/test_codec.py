"""States to plain JSON and back: every value returns as it was, and what does not fit its type is refused."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cloister.fl.algorithms.algorithm import Cluster, Measured
from cloister.fl.algorithms.cfl import State
from cloister.fl.algorithms.fedavg import State as Flat
from cloister.fl.algorithms.parameter_tree import Node
from cloister.fl.clustering.bipartition import Bipartition
from cloister.fl.clustering.split_gate import Looks
from cloister.fl.runs.codec import from_plain, to_plain
from cloister.protocol.view.answers import BelowFloor, Gram, Model, Owner, Remembered, Sum, Traffic, Work

ids = st.lists(st.integers(0, 2**31 - 1), max_size=6, unique=True).map(lambda i: tuple(sorted(i)))
names = st.text(max_size=12)
models = st.builds(Model, names)
clusters = st.dictionaries(names, st.builds(Cluster, ids, models, st.integers(0, 1000)), max_size=4)
remembered = st.builds(Remembered, names, ids)
nodes = st.builds(
    Node,
    ids,
    models,
    st.integers(0, 99),
    st.integers(0, 99),
    st.tuples(names, names),
    st.tuples(ids, ids),
    st.none() | remembered,
)
looks = st.builds(
    Looks,
    st.integers(0, 99),
    st.integers(1, 9),
    st.builds(Bipartition, ids, ids, st.floats(-1, 1)),
    st.integers(0, 4).map(lambda n: Gram(tuple(range(n)), np.random.default_rng(n).standard_normal((n, n)), 0.1 * n)),
)
states = st.builds(
    State,
    st.integers(0, 10**6),
    clusters,
    st.dictionaries(names, nodes, max_size=3),
    st.dictionaries(st.integers(0, 2**31 - 1), names, max_size=4),
    st.lists(names, max_size=3).map(tuple),
    st.none() | st.floats(allow_nan=False),
    st.dictionaries(names, looks, max_size=2),
    st.dictionaries(names, st.integers(0, 99), max_size=2),
)


def round_trip(value: Any) -> Any:
    return from_plain(type(value), json.loads(json.dumps(to_plain(value))))


def test_fields_that_came_later_take_their_defaults_and_others_must_be_there() -> None:
    assert from_plain(Remembered, {"name": "x", "clients": [1]}) == Remembered("x", (1,), together=False)
    for wrong in ({"name": "x"}, {"clients": [1]}, [], "x", None):
        with pytest.raises(ValueError, match="does not fit"):
            from_plain(Remembered, wrong)
    with pytest.raises(ValueError, match="does not fit"):
        from_plain(Traffic, [])  # all of whose fields have defaults


@pytest.mark.long
@given(states)
def test_states_of_cfl_return_as_they_were(state: State) -> None:
    assert to_plain(round_trip(state)) == to_plain(state)
    settled = replace(state, unsure={})  # the matrices of what is unsure are compared above
    assert round_trip(settled) == settled
    assert list(round_trip(state).clusters) == list(state.clusters)


@given(st.builds(Flat, st.integers(0, 100), clusters))
def test_states_of_fedavg_return_as_they_were(state: Flat) -> None:
    assert round_trip(state) == state


@given(st.builds(Traffic, st.integers(0), st.integers(0), st.integers(0)))
def test_traffic_returns_as_it_was(traffic: Traffic) -> None:
    assert round_trip(traffic) == traffic


def test_records_are_left_out() -> None:
    measured = {"0": Measured(0.1, 1.0, (3,), np.eye(1))}
    state = State(1, {"0": Cluster((3,), Model("m"))}, {}, {}, (), 1.0, measured=measured)
    assert "measured" not in to_plain(state)
    assert round_trip(state).measured == {}
    assert round_trip(state) == replace(state, measured={})


@dataclass(frozen=True)
class Inner:
    pair: tuple[str, int]
    maybe: Mapping[str, tuple[bool, ...]] | None = None


@dataclass(frozen=True)
class Outer:
    inner: tuple[Inner, ...]
    by_id: Mapping[int, Inner]
    number: float
    note: str = field(default="", compare=False)


INNER = st.builds(
    Inner,
    st.tuples(names, st.integers()),
    st.none() | st.dictionaries(names, st.lists(st.booleans(), max_size=3).map(tuple), max_size=3),
)
OUTER = st.builds(
    Outer,
    st.lists(INNER, max_size=3).map(tuple),
    st.dictionaries(st.integers(), INNER, max_size=3),
    st.floats(allow_nan=False),
)


@given(OUTER)
def test_nested_dataclasses_return_as_they_were(value: Outer) -> None:
    assert round_trip(value) == value


def test_a_whole_number_is_a_float_where_a_float_belongs() -> None:
    assert from_plain(float, 3) == 3.0
    assert type(from_plain(float, 3)) is float


GOOD = to_plain(Outer((Inner(("a", 1), {"k": (True,)}),), {7: Inner(("b", 2))}, 0.5))


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (int, "3"),
        (int, 3.0),
        (int, True),
        (int, None),
        (str, 3),
        (bool, 1),
        (float, "0.5"),
        (float, True),
        (float, None),
        (tuple[int, ...], 3),
        (tuple[int, ...], [1, "2"]),
        (tuple[str, ...], "abc"),  # a string is not a tuple of its characters
        (tuple[str, int], ["a"]),
        (tuple[str, int], ["a", 1, 2]),
        (tuple[str, ...], {"a": 1}),
        (Mapping[int, str], {"keys": [1], "values": []}),
        (Mapping[int, str], {"keys": ["1"], "values": ["a"]}),
        (Mapping[int, str], {"1": "a"}),
        (Mapping[int, str], [1, "a"]),
        (int | None, "x"),
        (Model, None),
        (Model, "name"),
        (Model, []),
        (Model, {}),
        (Model, {"name": 3}),
        (Outer, {**GOOD, "number": "x"}),
        (Outer, {k: v for k, v in GOOD.items() if k != "inner"}),
        (Outer, {**GOOD, "inner": [{"pair": ["a", "1"], "maybe": None}]}),
        (State, to_plain(Flat(0, {}))),
    ],
)
def test_what_does_not_fit_is_refused(kind: Any, plain: Any) -> None:
    with pytest.raises(ValueError):
        from_plain(kind, plain)


@pytest.mark.parametrize("value", [object(), {1, 2}, np.zeros(3, np.float32), np.zeros(3, np.int64), b"bytes", Model, 1j])
def test_what_is_not_plain_is_not_written(value: Any) -> None:
    with pytest.raises(ValueError, match="cannot write"):
        to_plain(value)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple), st.integers(0, 2**32))
def test_arrays_return_bit_for_bit(shape: tuple[int, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers, bits = rng.standard_normal(shape), rng.random(shape) < 0.5
    numbers = np.where(bits, numbers, np.inf)
    for kind, value in ((NDArray[np.float64], numbers), (NDArray[np.bool_], bits), (NDArray[np.float64], numbers.T)):
        read = from_plain(kind, json.loads(json.dumps(to_plain(value))))
        assert read.dtype == value.dtype
        assert read.shape == value.shape
        assert read.tobytes() == np.ascontiguousarray(value).tobytes()


@pytest.mark.parametrize(
    "broken",
    [
        {"dtype": "float32"},
        {"dtype": "bool"},
        {"dtype": "object"},
        {"shape": [2, 3]},
        {"shape": [-2, -2]},
        {"shape": "22"},
        {"shape": [10**9, 10**9]},
        {"base64": "AAAA"},
        {"base64": "!" * 44},
        {"base64": 4},
    ],
)
def test_arrays_that_are_not_what_they_say_are_refused(broken: Any) -> None:
    plain = to_plain(np.eye(2))
    with pytest.raises(ValueError):
        from_plain(NDArray[np.float64], {**plain, **broken})


def test_words_and_unions_are_read_as_what_they_fit() -> None:
    answers = (Sum("a", 3, (3, 4), 2.0, 0.0), BelowFloor("b", (1,), 3), Sum("c", "clients", (0, 1), 2.0, 0.1, energy=0.5))
    for value, kind in (("server", Owner | int), (3, Owner | int), (answers, tuple[Sum | BelowFloor, ...])):
        assert from_plain(kind, json.loads(json.dumps(to_plain(value)))) == value
    assert from_plain(Work | None, None) is None
    for wrong in ("nobody", 1.5, True, None, []):
        with pytest.raises(ValueError, match="does not fit"):
            from_plain(Owner | int, wrong)
