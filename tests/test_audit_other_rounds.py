"""Once clients are split, sums of their clusters tell of updates of the rounds before."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from cloister.threat_models.audit.estimates import Estimate, _lasting
from cloister.threat_models.audit.other_rounds import apart_in_other_rounds, own_in_other_rounds
from cloister.threat_models.audit.view import PublishedSum

SIDES = ((0, 1, 2), (3, 4))
ALL = (*SIDES[0], *SIDES[1])
RNG = np.random.default_rng(5)
GROUP = RNG.normal(0, 1, (2, 20))


def updates(scale: float) -> np.ndarray:
    """Of five clients of two groups, in one round."""
    return np.stack([scale * GROUP[0 if i in SIDES[0] else 1] for i in ALL]) + RNG.normal(0, 0.2, (5, 20))


def seen(rounds: int, split: int, corrupt: frozenset[int] = frozenset()) -> tuple[Any, dict[tuple[int, int], np.ndarray]]:
    """The sums of so many rounds, of all clients before the split and of each side from then on; and the updates."""
    sums, of = [], {}
    for t in range(rounds):
        made = updates(1.0 - 0.05 * t)
        of |= {(t, i): made[i] for i in ALL}
        for part in [ALL] if t < split else SIDES:
            mean = made[list(part)].mean(axis=0).astype(np.float32)
            sums.append(PublishedSum(t, "c", "update", dict.fromkeys(part, 1.0), False, -1, mean=mean))
    return SimpleNamespace(sums=sums, observer=SimpleNamespace(clients=corrupt)), of


def left(view: Any, of: dict[tuple[int, int], np.ndarray], rounds: range) -> float:
    """Of what sets updates of these rounds apart from the mean, the share that is not known."""
    found, missed, whole = dict(apart_in_other_rounds(view)), 0.0, 0.0
    means = {(s.round, i): np.asarray(s.mean, np.float64) for s in view.sums for i in s.row}
    for t in rounds:
        for i in ALL:
            apart = of[t, i] - means[t, i]
            missed += float(np.square(apart - found[t, "update", i]).sum())
            whole += float(np.square(apart).sum())
    return missed / whole


def test_sides_of_a_split_tell_most_of_what_set_updates_apart_before_it() -> None:
    """Before: audits found 0.000 of such updates, of which the difference of later means has .6 to .9."""
    view, of = seen(8, split=4)
    assert left(view, of, range(4)) < 0.2
    assert {key[0] for key, _ in apart_in_other_rounds(view)} == set(range(4)), "sides themselves have no parts"


def test_nothing_is_told_without_a_split_nor_by_who_happened_to_be_there() -> None:
    assert dict(apart_in_other_rounds(seen(6, split=6)[0])) == {}
    assert dict(apart_in_other_rounds(seen(5, split=4)[0])) == {}, "sides that were seen once"


def test_an_observers_own_clients_are_not_told() -> None:
    view, _ = seen(8, split=4, corrupt=frozenset({1}))
    assert {i for (_, _, i), _ in apart_in_other_rounds(view)} == set(ALL) - {1}


def test_what_was_measured_of_a_client_in_one_round_is_its_own_in_others() -> None:
    """Before: each round's measurements were read for that round alone, .026 of updates where it is .1 and more."""
    view, of = seen(6, split=4)
    measured = {(3, "update", i): of[3, i] for i in ALL}
    known = {
        (s.round, s.kind, i): np.asarray(s.mean, np.float64) for s in sorted(view.sums, key=lambda s: -len(s.row)) for i in s.row
    }
    found = own_in_other_rounds(view, measured, known)  # type: ignore[arg-type]
    assert {key[0] for key in found} == {0, 1, 2, 4, 5}
    before, after = found[2, "update", 0], found[5, "update", 0]
    assert np.allclose(before, of[3, 0] - known[3, "update", 0])
    assert np.allclose(after, of[3, 0] - np.mean([of[3, i] for i in SIDES[0]], axis=0)), "its side has its mean by then"
    missed = np.linalg.norm(of[2, 0] - known[2, "update", 0] - before) / np.linalg.norm(of[2, 0] - known[2, "update", 0])
    assert missed < 0.7


def test_what_the_round_itself_tells_is_kept_and_the_rest_is_added() -> None:
    key = (0, "update", 0)
    mean, told, lasting = np.array([1.0, 1.0, 1.0]), np.array([2.0, 0.0, 0.0]), np.array([5.0, 3.0, 0.0])
    found: Any = {key: Estimate(mean + told, "products")}
    [(_, one)] = _lasting({key: mean}, found, {key: lasting})  # type: ignore[dict-item]
    assert np.allclose(one.vector, mean + np.array([2.0, 3.0, 0.0]))
    assert one.how == "products"
    found = {key: Estimate(mean, "mean")}
    [(_, one)] = _lasting({key: mean}, found, {key: lasting})  # type: ignore[dict-item]
    assert np.allclose(one.vector, mean + lasting)
    assert one.how == "other rounds"
