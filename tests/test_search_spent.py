"""What a search in CPU minutes counts: the runs, and everything beside them, in whatever process it is done."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cloister.attacking.play import _search_words
from cloister.attacking.run import Named, play_hunt
from cloister.grids.ledger import Ledger
from cloister.grids.workers import crew_of
from cloister.threat_models.evaluation_folder import EvaluationFolder
from cloister.threat_models.search import play, spent
from cloister.threat_models.search.plan import Plan, hunt
from cloister.threat_models.search.play import Bench, Try
from cloister.threat_models.search.space import Space

from . import evaluation_sample as sample

pytest.importorskip("optuna")


class Clock:
    """CPU seconds of a process that does nothing but what it is told."""

    def __init__(self) -> None:
        self.now = 7.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "process_time", made)
    monkeypatch.setattr(spent, "_counted", [0.0])
    return made


def test_every_cpu_second_of_a_process_is_in_one_line(clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*given: object) -> Iterator[None]:
        clock.now += 3
        raise ValueError("not played here")

    monkeypatch.setattr(play, "played", run)
    space = Space(sample.scenario, only=("MinusGradient",))
    bench = Bench(space, EvaluationFolder(tmp_path, "search"), None)
    lines = []
    for seed in (0, 1):
        lines.append(bench.play((("key", Try({}, 0, seed)), None)))
        clock.now += 2  # between two runs
    assert [line["cost"] for line in lines] == [{"seconds": 3, "beside": 7}, {"seconds": 3, "beside": 2}]
    assert spent.with_more_beside(lines[1], spent.since_counted())["cost"] == {"seconds": 3, "beside": 4}
    assert sum(map(spent.spent, lines)) + 2 == clock.now
    assert spent.spent({"cost": {"seconds": 3}}) == 3  # of an earlier version


def test_what_is_done_beside_the_runs_ends_a_search_too(clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*given: object) -> tuple[dict[str, object], object]:
        clock.now += 1
        return {"accuracy": 0.9, "of": {"0": 0.9}, "success": None, "unmoved": 0, "lost": 0}, None

    monkeypatch.setattr(play, "played", run)
    monkeypatch.setattr(EvaluationFolder, "write_clean", lambda *given: "")
    monkeypatch.setattr(EvaluationFolder, "read_clean", lambda *given: object())
    space = Space(replace(sample.scenario, adversary=None), only=("MinusGradient", "IPM", "ALIE"))
    plan = Plan(least=1, most=2, seeds=(0,), held_out=(1,), seconds=60.0)
    folder = EvaluationFolder(tmp_path / "a", "search")
    named = Named.of(space)
    ledger = Ledger[Try](folder, folder.open({}, False), named.key)
    clock.now = 50.0  # imports and workers' beginnings
    with crew_of(Bench(space, folder, None), lambda: Bench(space, folder, None), 1) as hands:
        rows = list(play_hunt(hunt(space, plan), ledger, hands, named))
    assert 60 <= sum(map(spent.spent, rows)) < 70
    assert sum(row["cost"]["seconds"] for row in rows) < 20


def test_the_first_line_says_what_is_counted() -> None:
    about = {"defence": "median", "least": 1, "most": 2, "clients": 8, "runs": None, "minutes": 1.0}
    assert _search_words(about) == (
        "median attacked by 1 to 2 of 8 clients, in at most 1 CPU minute, of all processes, their beginning included"
    )
    assert _search_words(about | {"runs": 9, "minutes": None}).endswith("in at most 9 runs")
