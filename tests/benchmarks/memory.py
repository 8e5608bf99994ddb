"""Memory of a round of FedAvg through a view: 1,000 clients of FLIC's CNN (1,663,370 parameters, 6.65 GB for all updates).

Each client takes one step on two random images. Peak is the process's, in bytes.

    python tests/benchmarks/memory.py [--json] [--clients 1000]
"""

import argparse
import json
from math import nan
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.population import Examples, Source
from cloister.fl.models.papers import FlicCnn
from cloister.fl.runs.run_folder import machine, versions
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Permuted, Plain
from cloister.threat_models.peak_memory import peak_mb


def noise(folder: Path | None, /) -> Source:
    """Random images with random labels."""
    rng = np.random.default_rng(0)
    examples = Examples(
        torch.from_numpy(rng.random((4000, 1, 28, 28), dtype=np.float32)), torch.from_numpy(rng.integers(0, 10, 4000))
    )
    return Source("noise", examples, examples, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--clients", type=int, default=1000)
    options = parser.parse_args()
    rows = []
    for protection in (Plain(), Permuted()):
        scenario = Scenario(
            name="memory",
            data=noise,
            partition=Iid(clients=options.clients, samples=2),
            model=FlicCnn(),
            training=Training(epochs=1, batch=2, lr=0.01),
            algorithm=FedAvg(),
            protection=protection,
            rounds=1,
        )
        simulation = Simulation(scenario, None)
        start = perf_counter()
        simulation.step()
        seconds = perf_counter() - start
        peak = peak_mb()  # not ru_maxrss, which begins with what the parent held
        rows.append({"protection": repr(protection), "seconds": seconds, "peak_bytes": None if peak is None else int(1e6 * peak)})
    result = {"benchmark": "memory", "clients": options.clients, "rows": rows, "machine": machine(), "versions": versions()}
    if options.json:
        print(json.dumps(result, indent=1))
        return
    for row in rows:
        peak = (row["peak_bytes"] or nan) / 1e9
        print(f"{row['protection']}: {row['seconds']:.1f} s, peak of the process so far {peak:.2f} GB")


if __name__ == "__main__":
    main()
