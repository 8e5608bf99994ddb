"""What clients know of sums together, by the models that they start from, and with which weights."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cloister.protocol import Masked, TwoServer
from cloister.protocol.core.session import SECOND_SERVER
from cloister.threat_models.audit.hidden_counts import counts_of
from cloister.threat_models.audit.observer import Observer
from cloister.threat_models.audit.own_part import left_alone, mean_of_others
from cloister.threat_models.audit.shown_sums import Models, shown_sums
from cloister.threat_models.audit.view import PublishedSum

COUNTS = {0: 30, 1: 50, 2: 70, 3: 10}
UPDATES = {i: np.random.default_rng(i).normal(size=6).astype(np.float32) for i in range(4)}
COHORTS = ((0, 2), (1, 3), (0, 2), (1, 3))


def published(t: int, row: Mapping[int, float], by_samples: bool = False) -> PublishedSum:
    weights = {i: a * (COUNTS[i] if by_samples else 1) for i, a in row.items()}
    total = sum(weights.values())
    mean = sum((w * UPDATES[i] for i, w in weights.items()), np.zeros(6)) / total
    return PublishedSum(t, "all", "update", row, by_samples, "server", total, mean=mean.astype(np.float32))


def told(observer: Observer, protection: object, sums: list[PublishedSum]) -> list[PublishedSum]:
    """Of a run in which clients of the sum's row start from the model, and all end with the last."""
    models = [np.zeros(6, np.float32)]
    for s in sums:
        assert s.mean is not None
        models.append(models[-1] + s.mean)
    starts = {(s.round, i): models[s.round] for s in sums for i in s.row}
    public: Any = SimpleNamespace(protection=protection, initial=models[0])
    return [*shown_sums(sums, observer, public, Models(starts, dict.fromkeys(COUNTS, models[-1])), lambda s: COUNTS)]


@pytest.mark.parametrize(
    ("clients", "rounds"), [((0, 1), [0, 1, 2, 3]), ((0,), []), ((1,), [0, 3]), ((0, 2), []), ((2, 3), [0, 1, 2, 3])]
)
def test_clients_of_unlike_cohorts_know_sums_by_models_that_one_alone_has_no_two_of(
    clients: tuple[int, ...], rounds: list[int]
) -> None:
    """Before: no sum of a round after which the client that was in it sat one out. What the first began with, and what the last
    came to, all know."""
    sums = [published(t, dict.fromkeys(cohort, 1.0)) for t, cohort in enumerate(COHORTS)]
    assert [s.round for s in told(Observer(clients=frozenset(clients)), Masked(), sums)] == rounds


def test_weights_are_known_to_who_is_told_them() -> None:
    s = published(0, {0: 1.0, 1: 0.5, 2: 0.25})
    two = Observer(clients=frozenset({0, 1}))
    (masked,), (shared,) = told(two, Masked(), [s]), told(two, TwoServer(), [s])
    (second,) = told(Observer(frozenset({SECOND_SERVER}), frozenset({0, 1})), TwoServer(), [s])
    assert masked.row == second.row == s.row
    assert shared.row == {0: 1.0, 1: 1.0, 2: 1.0}, "before: the audit took weights that no client has"


@pytest.mark.parametrize("clients", [(0, 1, 2), (0,), ()])
def test_the_second_server_knows_counts_up_to_a_factor(clients: tuple[int, ...]) -> None:
    """Before: it was to guess them, and missed the one update that three of four leave alone."""
    s = published(0, dict.fromkeys(COUNTS, 1.0), by_samples=True)
    observer = Observer(frozenset({SECOND_SERVER}), frozenset(clients))
    (known,) = told(observer, TwoServer(), [s])
    assert (known.mean is None, known.weight) == (not clients, 0.0)
    held = {i: SimpleNamespace(updates={(0, "update"): UPDATES[i]}, examples=range(COUNTS[i])) for i in clients}
    public = SimpleNamespace(protection=TwoServer(), kinds={})
    view: Any = SimpleNamespace(public=public, observer=observer, sums=[known], held=held, frames=(), compared=(), tasks={})
    assert counts_of(view, [*COUNTS], 40.0, 0.5) == pytest.approx([*COUNTS.values()])
    if clients:
        others = [i for i in COUNTS if i not in clients]
        mean = np.average([UPDATES[i] for i in others], axis=0, weights=[COUNTS[i] for i in others])
        assert np.allclose(mean_of_others(view, known), mean, atol=1e-5)
        assert [key for key, _ in left_alone(view)] == [(0, "update", i) for i in others if len(others) == 1]
