"""Who measured what a page shows of how well models predict: clients that told it, the coordinator, or both."""

from typing import Any

from cloister.fl.runs.summing_up import _before
from cloister.reporting.run_data import Run
from cloister.reporting.who_scored import who_scored


def run(*told: tuple[int, list[int]]) -> Run:
    """Three clients, scored in two rounds; told: by round, who said it."""
    rounds = [{"round": t, "accuracy": {"0": 0.5, "1": 0.6, "2": 0.7}, "clusters": {"0": [0, 1, 2]}} for t in range(2)]
    answers: list[dict[str, Any]] = [
        {"round": t, "recipient": "server", "what": "scores", "about": who, "scalars": 3 * len(who), "words": "w"}
        for t, who in told
    ]
    return Run("r", {"protection": "Masked"}, {}, rounds, [], [], [], answers, [], {}, origin={"served": True})


def test_what_clients_told_and_what_the_coordinator_measured_itself_are_told_apart() -> None:
    """Before: "Clients told the coordinator these figures", where it had measured three of five on the scenario's own data."""
    everybody = who_scored(run((0, [0, 1, 2]), (1, [0, 1, 2])))
    assert everybody == "Clients told the coordinator these figures, as it asked: they are among what it learned."
    some = who_scored(run((1, [2])))
    assert some.startswith("client 2 told the coordinator theirs, as it asked where it lacks the models")
    assert "Others (5 figures) it measured on the scenario's own data" in some
    assert who_scored(run()) == "The coordinator measured them on the scenario's own data: no client told it any."


def test_accuracy_before_clustering_is_of_the_clients_that_are_scored_at_the_end() -> None:
    """Before: 90.8 % of three clients stood beside 72.2 % of four; of the same three it was 68.2 %."""
    lines = [
        {"clusters": {"0": [0, 1, 2]}, "accuracy": {"0": 0.5, "1": 0.7, "2": 0.9}},
        {"clusters": {"0": [0], "1": [1, 2]}, "accuracy": {"0": 0.8, "1": 0.9}},
    ]
    assert _before(lines, lines[-1], 0.7) == 0.6
    assert _before(lines[1:], lines[-1], None) is None
    assert _before([{"clusters": {"0": [0]}, "accuracy": {}}], lines[-1], 0.7) == 0.7
