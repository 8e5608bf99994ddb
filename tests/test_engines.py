"""Local training by actors elsewhere: what they come to, what travels, and what happens when one dies. Without Ray."""

import pickle
import sys
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from cloister import cli
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.clients.cosine_pull import CosinePull
from cloister.fl.clients.fast import Fast
from cloister.fl.clients.meta import MetaSteps
from cloister.fl.clients.record_privacy import RecordPrivacy
from cloister.fl.clients.training import Executor, Job, PlainLoop, Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.population import Examples
from cloister.fl.data.source import Digits
from cloister.fl.engines.dispatch import AHEAD, DEATHS, IN_FLIGHT, WorkerDied, answers
from cloister.fl.engines.elsewhere import Actor, Actors
from cloister.fl.engines.sendable import Packing
from cloister.fl.engines.trainer import Request, Trainer
from cloister.fl.engines.versions import check_same, versions
from cloister.fl.models.papers import CflCnn, Mlp, initial
from cloister.fl.models.vector import to_vector
from cloister.fl.runs.experiment import run
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked, Plain

TRAINING = Training(epochs=2, batch=8, lr=0.1, momentum=0.5, prox=0.1)
SIZES = [3, 20, 8, 1, 33, 16, 9]
SHAPE = (1, 28, 28)


@dataclass
class Here:
    """An actor in this process, which is sent bytes alone. dies: after so many requests."""

    dies: int = 10**9
    data: set[int] = field(default_factory=set)
    common: bytes = b""
    ended: bool = False
    requests: list[tuple[Request, tuple[Any, ...]]] = field(default_factory=list)
    trainer: Trainer = field(default_factory=Trainer)

    def train(self, request: Request, /, *arrays: Any) -> "Future[list[NDArray[np.float32]]]":
        answer: Future[list[NDArray[np.float32]]] = Future()
        if len(self.requests) >= self.dies:
            answer.set_exception(WorkerDied("gone"))
            return answer
        self.requests.append((request, arrays))
        threads = torch.get_num_threads()
        try:
            answer.set_result(self.trainer.train(*pickle.loads(pickle.dumps((request, *arrays)))))  # noqa: S301
        except ValueError as error:
            answer.set_exception(error)
        finally:
            torch.set_num_threads(threads)
        return answer

    def end(self) -> None:
        self.ended = True


def packed(*values: Any) -> bytes:
    return pickle.dumps(values)


def actors(*of: Here, make: Callable[[], Actor] = Here) -> Actors:
    return Actors([*of], make, lambda array: array, Packing(packed))


def jobs_for(module: nn.Module, sizes: list[int], shape: tuple[int, ...]) -> list[Job]:
    """Every second pulled to a point of its own, all from one start."""
    rng, start = np.random.default_rng(0), to_vector(module)
    found = []
    for k, n in enumerate(sizes):
        data = Examples(torch.from_numpy(rng.random((n, *shape), np.float32)), torch.from_numpy(rng.integers(0, 4, n)))
        toward = start + np.float32(0.01 * k) if k % 2 else None
        found.append(Job(100 - k, start, data, k, toward, secret=bytes([k % 256]) * 32))
    return found


def same(found: Any, wanted: Any) -> bool:
    return all(i == j and a.dtype == np.float32 and np.array_equal(a, b) for (i, a), (j, b) in zip(found, wanted, strict=True))


CASES: dict[str, tuple[Executor, nn.Module, Training]] = {
    "tiles": (Fast(), initial(Mlp((12,)), SHAPE, 4, 1), TRAINING),
    "tiles in chunks": (Fast(chunk=3), initial(Mlp((12,)), SHAPE, 4, 1), TRAINING),
    "one after the other": (Fast(), initial(CflCnn(), SHAPE, 4, 1), TRAINING),
    "plain loop": (PlainLoop(), initial(CflCnn(), SHAPE, 4, 1), TRAINING),
    "dropout": (Fast(), nn.Sequential(nn.Flatten(), nn.Linear(784, 6), nn.Dropout(), nn.Linear(6, 4)), TRAINING),
    "cosine": (CosinePull(0.1), initial(Mlp((12,)), SHAPE, 4, 1), TRAINING),
    "cosine, other models": (CosinePull(0.1), initial(CflCnn(), SHAPE, 4, 1), TRAINING),
    "meta": (MetaSteps(0.1), initial(Mlp((12,)), SHAPE, 4, 1), Training(epochs=1, batch=4, lr=0.1)),
    "private": (
        Fast(),
        initial(CflCnn(), SHAPE, 4, 1),
        replace(TRAINING, epochs=1, privacy=RecordPrivacy(clip=1.0, multiplier=1.0, budget=9.0, delta=1e-5)),
    ),
}


@pytest.mark.trains
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_updates_are_those_of_the_local_engine_to_the_bit(case: tuple[Executor, nn.Module, Training]) -> None:
    executor, module, training = case
    jobs = jobs_for(module, SIZES, SHAPE)
    elsewhere = actors(Here(), Here(), Here())(executor)
    for these in (jobs, jobs[:1]):
        assert same(elsewhere(module, these, training, 2), executor(module, these, training, 2))


@pytest.mark.trains
def test_tiles_are_spread_as_the_local_engine_cuts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloister.fl.clients.fast.TILE", 2 * 4 * 9_000)
    module = initial(Mlp((11,)), SHAPE, 4, 1)
    jobs = jobs_for(module, SIZES * 3, SHAPE)
    of = [Here(), Here()]
    assert same(actors(*of)(Fast())(module, jobs, TRAINING, 0), Fast()(module, jobs, TRAINING, 0))
    assert all(len(actor.requests) > 3 for actor in of)
    assert {len(request.orders) for actor in of for request, _ in actor.requests} >= {2}


@pytest.mark.trains
def test_module_and_data_go_to_an_actor_once_and_jobs_take_no_more_than_three_vectors() -> None:
    module = initial(CflCnn(), SHAPE, 4, 1)
    jobs = jobs_for(module, SIZES, SHAPE)
    here = Here()
    elsewhere = actors(here)(Fast())
    for t in range(3):
        list(elsewhere(module, jobs, TRAINING, t))
    sent = [(request.new, len(request.fresh), len(arrays)) for request, arrays in here.requests]
    assert [new for new, _, _ in sent] == [True] + [False] * (3 * len(jobs) - 1)
    assert [fresh for _, fresh, _ in sent] == [1] * len(jobs) + [0] * (2 * len(jobs))
    assert all(request.vectors <= 2 for request, _ in here.requests)
    assert all(
        count == new + request.vectors + 2 * fresh for (request, _), (new, fresh, count) in zip(here.requests, sent, strict=True)
    )


@pytest.mark.trains
def test_altered_examples_are_sent_anew_and_those_of_before_forgotten() -> None:
    module = initial(Mlp((5,)), SHAPE, 4, 1)
    jobs = jobs_for(module, [8, 8], SHAPE)
    here = Here()
    elsewhere = actors(here)(PlainLoop())
    list(elsewhere(module, jobs, TRAINING, 0))
    altered = [replace(jobs[0], examples=replace(jobs[0].examples, y=3 - jobs[0].examples.y)), jobs[1]]
    twice = [altered[0], jobs[0], *altered]
    for these in (altered, twice, jobs):
        assert same(elsewhere(module, these, TRAINING, 0), PlainLoop()(module, these, TRAINING, 0))
    assert len(here.trainer._held) == len(here.data) <= 3


@pytest.mark.trains
def test_jobs_of_an_actor_that_dies_are_done_elsewhere() -> None:
    module = initial(CflCnn(), SHAPE, 4, 1)
    jobs = jobs_for(module, SIZES, SHAPE)
    frail, sound = Here(dies=2), Here()
    made: list[Here] = []

    def make() -> Here:
        made.append(Here())
        return made[-1]

    found = actors(frail, sound, make=make)
    assert same(found(Fast())(module, jobs, TRAINING, 0), Fast()(module, jobs, TRAINING, 0))
    assert frail.ended
    assert found.workers == [made[0], sound]
    assert len(made) == 1
    assert made[0].requests[0][0].new  # it begins with nothing


@pytest.mark.trains
def test_workers_that_keep_dying_end_the_run_in_one_line() -> None:
    module = initial(CflCnn(), SHAPE, 4, 1)
    jobs = jobs_for(module, SIZES, SHAPE)
    found = actors(Here(dies=0), make=lambda: Here(dies=0))
    with pytest.raises(ValueError, match=r"3 workers died that had to train client \d+, .*fewer --workers") as caught:
        list(found(Fast())(module, jobs, TRAINING, 0))
    assert "\n" not in str(caught.value)


@pytest.mark.trains
def test_what_training_raises_is_raised_here() -> None:
    module = initial(CflCnn(), SHAPE, 4, 1)
    jobs = jobs_for(module, SIZES, SHAPE)
    jobs[3] = replace(jobs[3], start=jobs[3].start[:-1], toward=None)
    updates = actors(Here(), Here())(PlainLoop())(module, jobs, TRAINING, 0)
    with pytest.raises(ValueError, match="trainable parameters"):
        list(updates)


def test_what_cannot_be_divided_is_refused() -> None:
    with pytest.raises(ValueError, match="function does not say how its jobs are divided"):
        actors(Here())(lambda module, jobs, training, round: iter(()))
    with pytest.raises(ValueError, match="trains on CPUs"):
        actors(Here())(Fast(device="cuda"))


def test_other_versions_are_refused() -> None:
    check_same(versions())
    with pytest.raises(ValueError, match=r"a worker of the cluster has torch 1\.0, and this machine"):
        check_same(versions() | {"torch": "1.0"})


@dataclass
class Clerk:
    """A worker that answers when it is told to."""

    open: dict[int, "Future[int]"] = field(default_factory=dict)

    def ask(self, piece: int) -> "Future[int]":
        self.open[piece] = Future()
        return self.open[piece]


@pytest.mark.parametrize("seed", range(30))
def test_answers_come_in_order_and_few_pieces_are_away(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers answer in any order, and die at any time."""
    rng = np.random.default_rng(seed)
    clerks = [Clerk() for _ in range(int(rng.integers(1, 4)))]
    deaths, given, asked = [0], 0, []

    def ask(clerk: Clerk, piece: int) -> "Future[int]":
        asked.append(piece)
        assert sum(not f.done() for f in clerk.open.values()) < IN_FLIGHT
        assert piece < given + AHEAD * len(clerks)
        return clerk.ask(piece)

    def wait(running: Any, return_when: str) -> tuple[set[Any], set[Any]]:
        future = list(running)[int(rng.integers(len(running)))]
        clerk, piece = next((c, p) for c in everybody for p, f in c.open.items() if f is future)
        if not future.done():
            if deaths[0] < DEATHS - 1 and rng.random() < 0.2:
                deaths[0] += 1
                for lost in clerk.open.values():
                    if not lost.done():
                        lost.set_exception(WorkerDied("gone"))
            else:
                future.set_result(piece)
        return {f for f in running if f.done()}, set()

    everybody = list(clerks)

    def anew(dead: Clerk) -> Clerk:
        everybody.append(Clerk())
        return everybody[-1]

    monkeypatch.setattr("cloister.fl.engines.dispatch.wait", wait)
    found = []
    for answer in answers(12, clerks, ask, anew, str):
        found.append(answer)
        given += 1
    assert found == list(range(12))
    assert set(asked) == set(found)
    assert len(everybody) == len(clerks) + deaths[0]


SMALL = Scenario(
    name="small", data=Digits(), partition=Iid(clients=6, samples=20), model=Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=10, lr=0.1), algorithm=FedAvg(), protection=Plain(), rounds=3,
)  # fmt: skip


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize(
    "scenario",
    [SMALL, replace(SMALL, protection=Masked(floor=3)), replace(SMALL, algorithm=IFCA(models=2))],
    ids=["plain", "masked", "slots"],
)
def test_a_run_is_the_same_and_goes_on_under_the_other_engine(scenario: Scenario, tmp_path: Path) -> None:
    list(run(scenario, tmp_path / "local"))
    list(run(replace(scenario, rounds=2), tmp_path / "mixed", engine=actors(Here(), Here())))
    list(run(scenario, tmp_path / "mixed", resume=True))
    list(run(scenario, tmp_path / "elsewhere", engine=actors(Here(), Here())))
    models = sorted(path.name for path in (tmp_path / "local" / "models").iterdir())
    assert models
    for name in models:
        local, *others = [(tmp_path / of / "models" / name).read_bytes() for of in ("local", "mixed", "elsewhere")]
        assert others == [local, local]


@pytest.mark.trains
def test_a_module_whose_buffers_change_is_sent_again() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(784, 6), nn.BatchNorm1d(6), nn.Linear(6, 4))
    jobs = jobs_for(module, [8, 8], SHAPE)
    here = Here()
    elsewhere = actors(here)(PlainLoop())
    for _ in range(2):
        list(elsewhere(module, jobs, TRAINING, 0))
    assert [request.new for request, _ in here.requests] == [True, False, False, False]
    module[2].running_mean += 1  # type: ignore[operator]
    assert same(elsewhere(module, jobs, TRAINING, 0), PlainLoop()(module, jobs, TRAINING, 0))
    assert [request.new for request, _ in here.requests][4:] == [True, False]


@pytest.mark.parametrize(
    "command", [("run", "examples/quickstart.py"), ("compare", "tests/comparison_sample.py:tiny")], ids=["run", "compare"]
)
def test_without_ray_the_command_says_what_to_install(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(Path(__file__).parent.parent)
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setattr(sys, "argv", ["cloister", *command, "--engine", "ray", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 1
    assert capsys.readouterr().err == "cloister: the engine ray is not installed; install it with: pip install 'cloister[ray]'\n"


def test_workers_of_the_local_engine_are_set_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["cloister", "run", "examples/quickstart.py", "--workers", "2"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "--workers is of --engine ray" in capsys.readouterr().err
