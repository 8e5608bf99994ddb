"""Counts of slots say what each client chose where all chose alike: the record says so, and the run's first lines."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.runs.lost_round import why_withheld
from cloister.protocol import Encrypted, Masked, TwoServer
from cloister.protocol.core.errors import PAST_BUDGET, Fault
from cloister.protocol.parts.scores import WHICH
from cloister.protocol.parts.slot_words import ALIKE, counts_in_words
from cloister.protocol.view.answers import Assignment, Model
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalJob, LocalWork
from cloister.reporting.by_client import by_client
from cloister.reporting.headline import privacy_in_words
from cloister.reporting.pauses import of_cluster
from cloister.reporting.run_data import Run, final_clusters
from cloister.reporting.run_verdict import stood_still, verdict

CLIENTS = (1, 2, 3, 4)


def record_of(protection: Any, chose: dict[int, int]) -> Any:
    """A view's record of one round of two slots."""

    def workers(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            shares = tuple(int(chose[job.client] == k) for k in range(2))
            yield job.client, LocalWork(np.full((2, 5), 0.1, np.float32) * np.array(shares, np.float32)[:, None], 1, shares)

    view = protection.open(Setup(bytes(16), np.zeros(5, np.float32), CLIENTS, workers, SimulatedEntropy(1)))
    view.slots(0, "root", Assignment(Model("init"), CLIENTS, CLIENTS, (Model("init"),)))
    return view.record


def told(protection: Any, chose: dict[int, int]) -> list[str]:
    """What a view's log says of one round of two slots."""
    return [entry.words for entry in record_of(protection, chose).log if entry.what == "slots"]


@pytest.mark.long
@pytest.mark.parametrize("protection", [Masked(floor=2), TwoServer(floor=2), Encrypted(floor=2)], ids=lambda p: type(p).__name__)
def test_counts_that_say_what_each_chose_are_not_said_to_say_nothing(protection: Any) -> None:
    """Before: "and nothing of who did", of counts [4, 0] over four clients."""
    alike, apart = told(protection, dict.fromkeys(CLIENTS, 0)), told(protection, {1: 0, 2: 0, 3: 1, 4: 1})
    assert any(ALIKE in words for words in alike)
    assert not any("nothing of who did" in words for words in alike)
    assert not any(ALIKE in words for words in apart)
    assert any("nothing of who did" in words for words in apart)


@pytest.mark.parametrize(
    ("protection", "chose", "why"),
    [
        (
            Masked(floor=2),
            {1: 0, 2: 0, 3: 0, 4: 1},
            "1 client chose it, where it is opened for 3 or more: the floor of 2, and 1 who",
        ),
        (
            Masked(floor=2),
            {1: 0, 2: 0, 3: 0, 4: 0},
            "no client chose it, where it is opened for 3 or more: the floor of 2, and 1 who",
        ),
        (
            Masked(floor=2, slot_spare=0),
            {1: 0, 2: 0, 3: 0, 4: 1},
            "1 client chose it, where it is opened for 2 or more, its floor",
        ),
        (Masked(floor=2), {1: 0, 2: 0, 3: 1, 4: 1}, "no slot was chosen by 3 clients, the floor and those who may yet drop out"),
        (TwoServer(floor=3), {1: 0, 2: 0, 3: 0, 4: 1}, "1 client chose it, where it is opened for 3 or more, its floor"),
        (Encrypted(floor=2), {1: 0, 2: 0, 3: 0, 4: 1}, "1 client chose it, where it is opened for 2 or more, its floor"),
    ],
)
def test_a_slot_that_stays_shut_says_how_many_chose_it_and_for_how_many_it_is_opened(protection, chose, why) -> None:
    """Before: "a sum over 0 clients is below the floor of 2", where two had chosen it."""
    shut = record_of(protection, chose).below_floor[-1]
    assert why in shut.words
    assert shut.clients == ()
    assert why_withheld(shut, [Fault(1, PAST_BUDGET)]) == shut.words


def test_a_slot_that_stays_shut_has_the_name_of_its_model() -> None:
    """Before: "models/1", of model 2."""
    assert of_cluster({"cluster": "models/1@3"}) == "model 2"
    assert [of_cluster({"cluster": name}) for name in ("00@3", "models/x@3")] == ["00", "models/x"]


def test_only_counts_of_all_or_none_say_it() -> None:
    assert ALIKE in counts_in_words((0, 3), 3)
    assert not any(ALIKE in counts_in_words(of, 3) for of in ((1, 2), (2, 0), None))


def test_the_first_lines_say_in_how_many_rounds() -> None:
    def run(*rounds: int, named: Sequence[int] = ()) -> Run:
        log = [
            {
                "round": t,
                "recipient": "server",
                "what": "slots",
                "scalars": 2,
                "words": counts_in_words((3, 0) if t in rounds else (2, 1), 3),
                "about": [0, 1, 2],
            }
            for t in range(4)
        ]
        scores = {"round": 1, "recipient": "server", "what": "scores", "scalars": 4, "words": WHICH, "about": named}
        log += [scores] if named else []
        rounds_ = [{"round": t} for t in range(4)]
        return Run(
            "r", {"protection": "Masked"}, {}, rounds_, splits=(), similarities=(), pairs=(), answers=log, tree=(), privacy={}
        )

    assert "nobody is told who is in which, but in 3 of 4 rounds all chose alike, which the counts say." in privacy_in_words(
        run(0, 1, 3)
    )
    assert "nobody is told who is in which." in privacy_in_words(run())
    two = privacy_in_words(run(named=(0, 2)))
    assert "no sum tells who is in which. 2 clients named the model that they go by with their scores: in 2 rounds, counts" in two
    assert "what the one client chose that named none" in two
    assert "tell how many of the others chose each." in privacy_in_words(run(named=(1,)))
    assert "3 clients named the model that they go by with their scores." in privacy_in_words(run(named=(0, 1, 2)))


def test_a_client_that_names_no_model_and_is_in_all_sums_is_on_the_page() -> None:
    """Before: "5 clients ended in 2 clusters", of six that were in every sum."""
    log = [
        {
            "round": 0,
            "recipient": "server",
            "what": "slots",
            "scalars": 2,
            "words": counts_in_words((2, 1), 3),
            "about": [0, 1, 2],
        }
    ]
    rounds = [{"round": 0, "clusters": {"model 1": [0], "model 2": [2]}}]
    summary = {"protection": "Masked", "unplaced": [1, 4], "clusters": [[0], [2]]}
    run = Run("r", summary, {}, rounds, splits=(), similarities=(), pairs=(), answers=log, tree=(), privacy={})
    assert verdict(run, final_clusters(run)).startswith("2 of 4 clients ended in 2 clusters")
    (said,) = (words for words in stood_still(run) if "In no cluster here" in words)
    assert said.startswith("In no cluster here: client 1. It was in sums of slots, and did not say which model is its own")
    assert {row["client"] for row in by_client(run)} == {0, 1, 2, 4}
