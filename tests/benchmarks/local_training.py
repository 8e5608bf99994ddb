"""Local training: the fast path against the plain loop, and the memory of a thousand large models.

Both are timed in the same run, in turn, and the minimum of the repetitions counts: whatever else the machine does only ever adds
time. The plain loop runs with torch's threads and with one thread, and the better of the two is what `ratio` compares with.

    python tests/benchmarks/local_training.py [--json] [--memory] [--repeat 5] [--threads 2]
"""

import argparse
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from torch import nn

from cloister.fl.clients.fast import Fast
from cloister.fl.clients.training import Job, PlainLoop, Training
from cloister.fl.data.population import Examples
from cloister.fl.models.papers import CflCnn, FlicCnn, Mlp, ModelFactory, initial
from cloister.fl.models.vector import dimension, to_vector
from cloister.threat_models.peak_memory import peak_mb


@dataclass(frozen=True, slots=True)
class Case:
    """A model and the data of a client. Values are drawn at random: the time of a step does not depend on them."""

    name: str
    factory: ModelFactory
    shape: tuple[int, ...]
    examples: int
    training: Training


CASES = [
    Case("Mlp 64-64-10 (digits)", Mlp((64,)), (1, 8, 8), 64, Training(epochs=2, batch=16, lr=0.05)),
    Case("Mlp 784-200-10 (MNIST)", Mlp((200,)), (1, 28, 28), 128, Training(epochs=2, batch=32, lr=0.05)),
    Case("CflCnn (18 thousand)", CflCnn(), (1, 28, 28), 64, Training(epochs=2, batch=32, lr=0.05, momentum=0.9)),
    Case("FlicCnn (1.7 million)", FlicCnn(), (1, 28, 28), 32, Training(epochs=2, batch=16, lr=0.05)),
]


def work(case: Case, clients: int) -> tuple[nn.Module, list[Job]]:
    """The module and one job a client, of unequal sizes around the case's number of examples."""
    rng = np.random.default_rng(0)
    module = initial(case.factory, case.shape, 10, 0)
    start = to_vector(module)
    sizes = rng.integers(case.examples // 2, case.examples * 3 // 2, clients, endpoint=True)
    data = [
        Examples(torch.from_numpy(rng.random((n, *case.shape), np.float32)), torch.from_numpy(rng.integers(0, 10, n)))
        for n in sizes
    ]
    return module, [Job(k, start, examples, k) for k, examples in enumerate(data)]


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """torch computes with `count` threads inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)


def seconds(run: Callable[[], object], threads: int) -> float:
    """Wall time of one run."""
    with torch_threads(threads):
        start = perf_counter()
        run()
        return perf_counter() - start


def compare(case: Case, clients: int, threads: int, repeat: int) -> dict[str, object]:
    """Seconds of one round in each way, minimum of `repeat` turns after one that is not counted."""
    module, jobs = work(case, clients)

    def plain() -> None:
        for _ in PlainLoop()(module, jobs, case.training, 0):
            pass

    def fast() -> None:
        for _ in Fast()(module, jobs, case.training, 0):
            pass

    turns = [(seconds(plain, threads), seconds(plain, 1), seconds(fast, threads)) for _ in range(repeat + 1)][1:]
    default, single, quick = (min(column) for column in zip(*turns, strict=True))
    return {
        "model": case.name,
        "clients": clients,
        "plain_seconds": round(default, 5),
        "plain_one_thread_seconds": round(single, 5),
        "fast_seconds": round(quick, 5),
        "ratio": round(min(default, single) / quick, 2),
    }


def memory() -> dict[str, object]:
    """Peak memory while the updates of 1,000 clients of FlicCnn pass by, one step each."""
    case = Case("FlicCnn", FlicCnn(), (1, 28, 28), 2, Training(epochs=1, batch=4, lr=0.05))
    module, jobs = work(case, 1000)
    start = perf_counter()
    total = np.zeros_like(jobs[0].start)
    for _, update in Fast()(module, jobs, case.training, 0):
        total += update
    peak = peak_mb()  # not ru_maxrss, which begins with what the parent held
    return {
        "model": case.name,
        "clients": len(jobs),
        "parameters": dimension(module),
        "all_models_bytes": 4 * dimension(module) * len(jobs),
        "peak_bytes": None if peak is None else int(1e6 * peak),
        "seconds": round(perf_counter() - start, 2),
    }


def machine() -> dict[str, object]:
    """What the numbers belong to."""
    cpuinfo = Path("/proc/cpuinfo")
    names = (
        [line.split(":")[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        if cpuinfo.exists()
        else []
    )
    git = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "commit": git.stdout.strip() or None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--memory", action="store_true", help="measure memory instead of time")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="torch threads of the plain loop and workers"
    )
    options = parser.parse_args()
    if options.memory:
        result: dict[str, object] = {**memory(), **machine()}
    else:
        measured = [compare(case, clients, options.threads, options.repeat) for case in CASES for clients in (10, 100)]
        result = {
            "benchmark": "local training",
            **machine(),
            "threads": options.threads,
            "repeat": options.repeat,
            "rows": measured,
        }
    if options.json:
        print(json.dumps(result, indent=2))
        return
    rows = result.pop("rows", None)
    for line in [result, *(rows if isinstance(rows, list) else [])]:
        print("  ".join(f"{name} {value}" for name, value in line.items()), flush=True)


if __name__ == "__main__":
    main()
