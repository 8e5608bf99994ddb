"""On a Ray cluster of this machine: what it computes is what the local engine computes, also when workers are killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloister.fl.clients.fast import Fast
from cloister.fl.clients.training import PlainLoop
from cloister.fl.engines.elsewhere import Actors
from cloister.fl.engines.on_ray import on_ray
from cloister.fl.models.papers import CflCnn, FlicCnn, Mlp, initial

from .test_engines import SHAPE, SIZES, TRAINING, jobs_for, same

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.trains]  # a cluster takes 6 to 20 s to begin

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def engine() -> Iterator[Actors]:
    with on_ray(2) as engine:
        yield engine
    assert not ray.is_initialized()


@pytest.mark.parametrize("factory", [Mlp((12,)), CflCnn(), FlicCnn()], ids=["tiles", "small", "large"])
@pytest.mark.parametrize("executor", [Fast(), Fast(chunk=2), PlainLoop()], ids=["fast", "chunks", "plain"])
def test_updates_are_equal_to_the_bit(engine: Actors, factory: Any, executor: Any) -> None:
    module = initial(factory, SHAPE, 10, 1)
    jobs = jobs_for(module, SIZES, SHAPE)
    for these in (jobs, jobs[:1]):
        found = list(engine(executor)(module, these, TRAINING, 1))
        assert same(found, executor(module, these, TRAINING, 1))
        assert all(update.flags.writeable for _, update in found)


def test_a_wide_batch_is_equal_to_the_bit(engine: Actors) -> None:
    module = initial(Mlp((40,)), SHAPE, 4, 1)
    jobs = jobs_for(module, [int(n) for n in np.random.default_rng(1).integers(1, 30, 300)], SHAPE)
    assert same(engine(Fast())(module, jobs, TRAINING, 0), Fast()(module, jobs, TRAINING, 0))


def test_what_a_killed_worker_had_to_do_is_done_again(engine: Actors) -> None:
    module = initial(CflCnn(), SHAPE, 4, 1)
    jobs = jobs_for(module, [40] * 24, SHAPE)
    before = list(engine.workers)
    pids = [ray.get(worker.handle.__ray_call__.remote(lambda _: os.getpid())) for worker in before]
    found = []
    for update in engine(Fast())(module, jobs, TRAINING, 0):
        found.append(update)
        if len(found) == 3:
            os.kill(pids[0], signal.SIGKILL)
    assert same(found, Fast()(module, jobs, TRAINING, 0))
    assert len([worker for worker in engine.workers if worker in before]) == 1


def test_what_training_raises_is_raised_here_and_the_actors_go_on(engine: Actors) -> None:
    module = initial(CflCnn(), SHAPE, 4, 1)
    jobs = jobs_for(module, SIZES, SHAPE)
    wrong = [*jobs[:2], *jobs_for(initial(Mlp((3,)), SHAPE, 4, 1), [5], SHAPE)]
    with pytest.raises(ValueError, match="trainable parameters"):
        list(engine(PlainLoop())(module, wrong, TRAINING, 0))
    assert same(engine(PlainLoop())(module, jobs, TRAINING, 0), PlainLoop()(module, jobs, TRAINING, 0))


def command(*arguments: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-m", "cloister.cli", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment}, check=False)


def timeless(folder: Path) -> list[dict[str, Any]]:
    """Lines of a grid without what they cost."""
    lines = (folder / "results.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name != "cost"} for line in lines]


@pytest.mark.parametrize(
    "grid", [("compare", "tests/comparison_sample.py:tiny"), ("evaluate", "tests/evaluation_sample.py")], ids=lambda grid: grid[0]
)
def test_a_grid_is_the_same_and_goes_on_under_the_other_engine(grid: tuple[str, str], tmp_path: Path) -> None:
    for engine in ("local", "ray"):
        done = command(*grid, "--engine", engine, "--workers", 2, "--out", tmp_path / engine)
        assert done.returncode == 0, done.stderr
    assert timeless(tmp_path / "ray") == timeless(tmp_path / "local")
    lines = (tmp_path / "local" / "results.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "local" / "results.jsonl").write_text("".join(lines[:-2]))
    done = command(*grid, "--engine", "ray", "--workers", 2, "--out", tmp_path / "local", "--resume")
    assert done.returncode == 0, done.stderr
    assert timeless(tmp_path / "ray") == timeless(tmp_path / "local")


def test_a_scenario_with_a_model_of_its_own_runs_on_ray(tmp_path: Path) -> None:
    """Workers cannot import the file that a scenario is in."""
    (tmp_path / "own.py").write_text(OWN)
    for engine in ("local", "ray"):
        more = () if engine == "local" else ("--workers", 2)
        done = command("run", tmp_path / "own.py", "--engine", engine, *more, "--out", tmp_path / engine, "--json")
        assert done.returncode == 0, done.stderr
    local, other = (sorted((tmp_path / engine / "models").iterdir()) for engine in ("local", "ray"))
    assert [path.read_bytes() for path in local] == [path.read_bytes() for path in other]


def test_a_cluster_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    arguments = ("run", "examples/quickstart.py", "--engine", "ray", "--out", tmp_path / "out")
    done = command(*arguments, RAY_ADDRESS="ray://nowhere:1")
    assert done.returncode == 1
    assert done.stderr.startswith("cloister: RAY_ADDRESS is of the Ray client")
    done = command(*arguments, RAY_ADDRESS="127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.startswith("cloister: no Ray cluster answers at RAY_ADDRESS=127.0.0.1:1; start one with")
    assert done.stderr.count("\n") == 1


OWN = """
from torch import nn
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.source import Digits
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Plain


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x):
        return self.layer(x.flatten(1)).tanh()


def own(shape, classes):
    return Own()


scenario = Scenario(
    name="own", data=Digits(), partition=Iid(clients=4, samples=20), model=own,
    training=Training(epochs=1, batch=10, lr=0.1), algorithm=FedAvg(), protection=Plain(), rounds=2,
)
"""
