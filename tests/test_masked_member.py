"""What a client puts into masked sums is its own affair: it holds a proposal against its work, whatever the server planned."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import Masked
from cloister.protocol.core.session import Session
from cloister.protocol.masked import masking
from cloister.protocol.masked.graph import agreed
from cloister.protocol.masked.masking import MaskedSessions
from cloister.protocol.masked.sums import MaskedSums
from cloister.protocol.masked.terms import SumPolicy, SumTerms
from cloister.protocol.parts.held_sums import Question
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Sum, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalJob, LocalWork

from . import sides

CLIENTS, D = tuple(range(6)), 40
MEAN = Weights(dict.fromkeys(CLIENTS, 1.0))
COUNTED = replace(MEAN, times_samples=True)
ENERGY = replace(MEAN, energy=True)
START = Assignment(Model("init"), CLIENTS, CLIENTS)


def update(client: int) -> np.ndarray:
    return np.random.default_rng(client).uniform(-1, 1, D).astype(np.float32)


def work(jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork]]:
    for job in jobs:
        yield job.client, LocalWork(update(job.client), 5 + job.client % 2)


def opened(**fields: Any) -> Any:
    entropy = SimulatedEntropy(5)
    setup = Setup(entropy.secret("run", 16), np.zeros(D, np.float32), CLIENTS, work, entropy)
    return Masked(floor=2, **fields).open(setup)


def planning(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """The server proposes other terms than those that belong to the updates."""

    def other(*fields: Any) -> SumTerms:
        terms = SumTerms(*fields)
        return replace(terms, **{name: change(getattr(terms, name)) for name, change in changes.items()})

    monkeypatch.setattr(masking, "SumTerms", other)


@pytest.mark.parametrize("weights", [MEAN, ENERGY, COUNTED], ids=["mean", "energy", "samples"])
@pytest.mark.parametrize("streamed", [True, False])
def test_clients_find_out_for_themselves_what_a_sum_is_of(weights: Weights, streamed: bool) -> None:
    view = opened()
    if streamed:
        answer = view.train_and_sum(0, {"0": START}, {"0": weights})["0"]
    else:
        answer = view.sums(view.train(0, {"0": START})["0"], {"0": weights})["0"]
    assert isinstance(answer, Sum)
    counts = np.array([5 + i % 2 if weights.times_samples else 1 for i in CLIENTS], float)
    expected = counts @ np.stack([update(i) for i in CLIENTS]) / counts.sum()
    assert np.abs(view.harness.observe(view.advance(Model("init"), answer)) - expected).max() <= answer.error + 1e-6
    assert not view.record.faults


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"length": lambda n: n - 1}, "do not belong to a sum of this update"),
        ({"length": lambda n: n + 1}, "do not belong to a sum of this update"),
        ({"bits": lambda n: n - 1}, "do not belong to a sum of this update"),
        ({"clip": lambda x: 2 * x}, "do not belong to a sum of this update"),
        ({"model": lambda x: bytes(31) + b"\1"}, "another model than the one received"),
        ({"update": lambda x: bytes(31) + b"\1"}, "another model than the one received"),
    ],
    ids=["a shorter input", "a longer one", "fewer bits", "another clip", "another model", "another update"],
)
def test_clients_give_nothing_on_terms_that_are_not_of_their_work(
    changes: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = opened()
    updates = view.train(0, {"0": START})["0"]
    planning(monkeypatch, **changes)
    assert isinstance(view.sums(updates, {"0": MEAN})["0"], BelowFloor)
    told = [fault for fault in view.record.faults if reason in fault.reason]
    assert len(told) == len(CLIENTS)


def test_a_sum_by_samples_is_not_given_to_without_the_sums_of_weights_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that forgets, or makes up, what the first session said."""
    view = opened()
    updates = view.train(0, {"0": START})["0"]
    sessions = sides.part(view, MaskedSessions)
    kept = sessions.mask

    def without(asked: Any) -> Any:
        ended = kept(asked)
        for member in sides.maskers(view).values():
            member._inputs.before.clear()
        return ended

    monkeypatch.setattr(sessions, "mask", without)
    assert isinstance(view.sums(updates, {"0": COUNTED})["0"], BelowFloor)
    assert any("without sums of the weights before it" in fault.reason for fault in view.record.faults)


@pytest.mark.parametrize(
    "changes",
    [{"threshold": lambda t: t - 1}, {"threshold": lambda t: t + 1}, {"neighbours": lambda k: 4}],
    ids=["a lower threshold", "a higher one", "fewer neighbours"],
)
def test_clients_take_the_masking_graph_that_they_find_themselves(changes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that lowers the threshold, or the degree, is refused by each client's own solver."""
    view = opened(corrupt=1)
    updates = view.train(0, {"0": START})["0"]
    planning(monkeypatch, **changes)
    assert isinstance(view.sums(updates, {"0": MEAN})["0"], BelowFloor)
    told = [
        fault for fault in view.record.faults if "are found for 6 clients" in fault.reason or "two survivor sets" in fault.reason
    ]
    assert {fault.blame for fault in told} == {-1}
    assert len(told) == len(CLIENTS)


def test_the_proposals_of_the_findings_are_refused() -> None:
    """24 clients of whom 2 are corrupt with a threshold of 12; 100 of whom 2 are with a graph of degree 2."""
    for clients, corrupt, neighbours, threshold in ((24, 2, 23, 12), (100, 2, 2, 2), (100, 0, 46, 25)):
        policy = SumPolicy(min_cohort=5, min_survivors=3, corrupt=corrupt, dropped=0.25)
        session = Session("masked sum/update/0", bytes(16), 0, "0", tuple(range(clients)), 5)
        terms = SumTerms(32, 10, 16, 4.0, 1, neighbours, threshold, bytes(32), bytes(32))
        assert any(f"are found for {clients} clients" in reason for reason in policy.problems(session, terms))
        own = agreed(clients, corrupt, 0.25)
        assert not policy.problems(session, replace(terms, neighbours=own.neighbours, threshold=own.threshold))
        assert own.privacy <= 2**-80


def test_a_roster_without_a_masking_graph_is_refused_in_words() -> None:
    policy = SumPolicy(min_cohort=3, min_survivors=2, corrupt=2, dropped=0.25)
    session = Session("masked sum/update/0", bytes(16), 0, "0", tuple(range(4)), 4)
    problems = policy.problems(session, SumTerms(32, 10, 16, 4.0, 1, 3, 3, bytes(32), bytes(32)))
    assert any("even if all are neighbours" in reason for reason in problems)


def test_weights_of_one_update_are_summed_among_the_same_clients_only() -> None:
    """Two sums of the weights whose rosters differ by one client would tell its number of samples."""
    view = opened()
    updates = view.train(0, {"0": START})["0"]
    assert isinstance(view.sums(updates, {"0": COUNTED})["0"], Sum)
    fewer = Question("again@0", updates, 5, dict.fromkeys(CLIENTS[1:], 1.0), True, CLIENTS)
    weights = sides.part(view, MaskedSums)._weights
    assert weights.weigh([fewer]) == {}
    told = [fault for fault in view.record.faults if "among other peers" in fault.reason]
    assert len(told) == len(CLIENTS) - 1
    assert weights.weigh([Question("again@0", updates, 6, dict.fromkeys(CLIENTS, 1.0), True, CLIENTS)])
