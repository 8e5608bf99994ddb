"""What a run says of itself within a round, and that nothing else comes of saying it."""

import io
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cloister
from cloister import algorithms, data, models, partitions, protections
from cloister.fl.clients.fast import Fast
from cloister.fl.clients.training import PlainLoop, Training
from cloister.fl.emd.pairs import Cores
from cloister.fl.models.papers import CflCnn, Mlp, initial
from cloister.fl.runs.experiment import run
from cloister.fl.runs.telling import COMPARED, MADE, TRAINED, Told
from cloister.progress import _Now, watched
from cloister.scenario_origin import Origin

from . import evaluation_sample as sample
from .test_training import images, jobs_for

Heard = list[tuple[str, int, int]]


class Out(io.StringIO):
    """No terminal. first: set once anything was written."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Event()

    def write(self, text: str) -> int:
        self.first.set()
        return super().write(text)


@pytest.mark.trains
@pytest.mark.parametrize("executor", [Fast(), Fast(workers=3), Fast(chunk=2), PlainLoop()])
@pytest.mark.parametrize("model", [Mlp(hidden=(5,)), CflCnn()])
def test_it_counts_all_jobs_and_changes_no_bit(executor: Any, model: Any) -> None:
    shape = (1, 28, 28)
    module = initial(model, shape, 4, 0)
    jobs = jobs_for(module, [9, 3, 12, 7], lambda n, k: images(n, shape, k))
    training = Training(epochs=1, batch=4, lr=0.1)
    heard: Heard = []
    told = list(Told(executor, lambda *of: heard.append(of))(module, jobs, training, 1))
    assert heard[0] == (TRAINED, 0, 4)
    assert heard[-1] == (TRAINED, 4, 4)
    for (client, vector), (other, same) in zip(told, executor(module, jobs, training, 1), strict=True):
        assert client == other
        np.testing.assert_array_equal(vector, same)


@pytest.mark.trains
def test_clients_are_counted_while_others_train_though_no_update_is_given_yet() -> None:
    module = initial(CflCnn(), (1, 28, 28), 4, 0)
    jobs = jobs_for(module, [5, 5, 5], lambda n, k: images(n, (1, 28, 28), k))
    heard: Heard = []
    next(iter(Told(Fast(workers=1), lambda *of: heard.append(of))(module, jobs, Training(epochs=1, batch=5, lr=0.1), 0)))
    assert [done for _, done, _ in heard] == [0, 1, 2, 3]


def test_one_that_cannot_be_divided_is_counted_by_what_it_gives() -> None:
    heard: Heard = []
    found = Told(lambda module, jobs, *_: ((k, k) for k in jobs), lambda *of: heard.append(of))(None, [1, 2], None, 0)  # type: ignore[arg-type, misc, return-value]
    assert list(found) == [(1, 1), (2, 2)]
    assert [done for _, done, _ in heard] == [0, 1, 2]


@pytest.mark.trains
def test_a_run_tells_what_it_makes_trains_and_compares_and_comes_out_the_same(tmp_path: Path) -> None:
    scenario = cloister.Scenario(
        name="told",
        data=data.Digits(),
        partition=partitions.Iid(clients=4, samples=160),
        model=models.Mlp(hidden=(4,)),
        training=cloister.Training(epochs=1, batch=10, lr=0.1),
        algorithm=algorithms.EMDCFL(eps=0.1, cores=Cores(workers=1)),
        protection=protections.Plain(),
        rounds=2,
        validation=0.2,
    )
    heard: Heard = []
    list(run(scenario, tmp_path / "told", tell=lambda *of: heard.append(of)))
    list(run(scenario, tmp_path / "untold"))
    assert heard[0] == (MADE, 0, 0)
    assert heard.count((TRAINED, 4, 4)) == 2
    assert heard.index((COMPARED, 12, 0)) > heard.index((TRAINED, 4, 4))
    for name in ("scenario.json", "splits.jsonl", "disclosure.jsonl", "pairs.jsonl"):
        assert (tmp_path / "told" / name).read_bytes() == (tmp_path / "untold" / name).read_bytes()
    for name in (path.name for path in (tmp_path / "told" / "models").iterdir()):
        assert (tmp_path / "told" / "models" / name).read_bytes() == (tmp_path / "untold" / "models" / name).read_bytes()


def test_without_a_terminal_a_line_now_and_then_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloister.progress.EVERY", 0.01)
    out = Out()

    def play(tell: Any) -> Any:
        tell(TRAINED, 3, 12)
        assert out.first.wait(60)
        yield SimpleNamespace(round=1, rounds=1, clusters=2, accuracy=0.5, numbers={})

    list(watched(play, "mine", 1, out, always=True))
    assert out.getvalue().splitlines()[0] == "mine: 0 of 1 rounds are over; clients trained: 3 of 12"
    assert out.getvalue().splitlines()[-1].startswith("mine")
    assert "clusters 2  accuracy 50.0 %" in out.getvalue()


def test_nobody_is_told_where_nobody_looks() -> None:
    told: list[Any] = []

    def play(tell: Any) -> Any:
        told.append(tell)
        return iter(())

    list(watched(play, "mine", 1, Out()))
    assert told == [None]


def test_beside_a_bar_the_stage_is_shown_in_the_first_round_and_in_long_ones() -> None:
    at = [0.0]
    now = _Now("mine", 3, clock=lambda: at[0])
    assert now.note == "clusters 1  accuracy -"
    now.told(MADE, 0, 0)
    assert now.note == MADE
    now.told(COMPARED, 5, 0)
    assert now.note == "comparisons of clients: 5"
    now.over(SimpleNamespace(round=1, clusters=2, accuracy=0.5, numbers={}))  # type: ignore[arg-type]
    now.told(TRAINED, 1, 2)
    assert now.note == "clusters 2  accuracy 50.0 %"
    at[0] = 60.0
    assert now.note == "clients trained: 1 of 2"
    assert now.words == "mine: 1 of 3 rounds are over; accuracy 50.0 %; clients trained: 1 of 2"


@pytest.mark.trains
def test_the_command_says_it_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cloister import run_command

    heard: list[Any] = []

    def seen(play: Any, *given: Any, **more: Any) -> Any:
        return play(lambda *of: heard.append(of))

    monkeypatch.setattr("cloister.progress.watched", seen)
    scenario = replace(sample.scenario, rounds=1)
    run_command._watch(scenario, tmp_path / "run", None, False, "x.py", Origin("", "", ()), False, None)
    assert heard[-1] == (TRAINED, heard[-1][2], heard[-1][2])
