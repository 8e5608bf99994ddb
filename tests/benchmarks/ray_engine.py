"""What Ray costs: a cluster's beginning, a task, a job, an actor's memory; rounds of local training beside the local engine.

Both engines compute the same batch in turn, in one run, and the minimum of the repetitions counts. `ratio` is the local engine's
seconds over Ray's: under 1 Ray is slower. The first batch on Ray, which takes data and module to the actors, is counted apart.

    python tests/benchmarks/ray_engine.py [--json] [--workers 2] [--repeat 5] [--clients 40]
"""

import argparse
import json
import os
from time import perf_counter
from typing import Any

import numpy as np
from local_training import CASES, Case, machine, work

from cloister.fl.clients.fast import Fast
from cloister.fl.engines.elsewhere import Actors
from cloister.fl.engines.on_ray import on_ray
from cloister.threat_models.peak_memory import peak_mb


def rounds(engine: Actors, case: Case, clients: int, repeat: int) -> dict[str, object]:
    """Seconds of one round of local training by either engine, and whether both gave the same bits."""
    module, jobs = work(case, clients)
    local, ray = Fast(workers=len(engine.workers)), engine(Fast(workers=len(engine.workers)))
    times: dict[str, list[float]] = {"local": [], "ray": []}
    found: dict[str, Any] = {}
    for _ in range(repeat + 1):
        for name, executor in (("local", local), ("ray", ray)):
            start = perf_counter()
            found[name] = list(executor(module, jobs, case.training, 0))
            times[name].append(perf_counter() - start)
    here, there = (min(times[name][1:]) for name in ("local", "ray"))
    return {
        "model": case.name,
        "clients": clients,
        "local_seconds": round(here, 5),
        "ray_seconds": round(there, 5),
        "ray_first_seconds": round(times["ray"][0], 5),
        "extra_ms_a_job": round(1e3 * (there - here) / clients, 3),
        "ratio": round(here / there, 2),
        "equal": all(np.array_equal(a, b) for (_, a), (_, b) in zip(found["local"], found["ray"], strict=True)),
    }


def overheads(engine: Actors, repeat: int) -> dict[str, object]:
    """Of Ray itself: an empty task, an empty call of an actor, a vector of 4 MB there and back, and what an actor holds."""
    import ray

    @ray.remote(num_cpus=0)
    def nothing() -> None:
        return None

    @ray.remote(num_cpus=0)
    def doubled(vector: Any) -> Any:
        return vector * 2

    actor: Any = engine.workers[0]
    vector = np.ones(1_000_000, np.float32)
    ray.get([nothing.remote() for _ in range(20)])
    ray.get(doubled.remote(ray.put(vector)))
    return {
        "task_ms": least(lambda: ray.get([nothing.remote() for _ in range(200)]), repeat) / 200,
        "actor_call_ms": least(lambda: [ray.get(actor.handle.versions.remote()) for _ in range(50)], repeat) / 50,
        "vector_of_4_MB_and_back_ms": least(lambda: np.array(ray.get(doubled.remote(ray.put(vector)))), repeat),
        "actor_peak_mb": ray.get(actor.handle.__ray_call__.remote(lambda _: peak_mb())),
        "driver_peak_mb": peak_mb(),
    }


def least(call: Any, repeat: int) -> float:
    """Milliseconds."""
    times = []
    for _ in range(repeat):
        start = perf_counter()
        call()
        times.append(1e3 * (perf_counter() - start))
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--clients", type=int, default=40)
    options = parser.parse_args()
    try:
        import ray
    except ImportError:
        print(json.dumps({"benchmark": "ray engine", "skipped": "Ray is not installed: pip install 'cloister[ray]'"}))
        return
    start = perf_counter()
    with on_ray(options.workers) as engine:
        begun = perf_counter() - start
        measured = [rounds(engine, case, options.clients, options.repeat) for case in CASES]
        result: dict[str, object] = {
            "benchmark": "ray engine",
            **machine(),
            "ray": ray.__version__,
            "load": os.getloadavg()[0],
            "workers": options.workers,
            "repeat": options.repeat,
            "begin_seconds": round(begun, 2),
            **overheads(engine, options.repeat),
        }
        ended = perf_counter()
    result["end_seconds"] = round(perf_counter() - ended, 2)
    if options.json:
        print(json.dumps({**result, "rows": measured}, indent=2))
        return
    for line in [result, *measured]:
        print("  ".join(f"{name} {value}" for name, value in line.items()), flush=True)


if __name__ == "__main__":
    main()
