"""A whole round of FedAvg under secure aggregation: 1,000 clients x 1,000,000 parameters, random updates, no training.

Updates are drawn when the masked sum asks for them, one at a time. Peak memory is the process's, all parties together. CPU
seconds are a mean client's and the server's.

    python tests/benchmarks/masked_round.py [--json] [--clients 1000] [--length 1000000] [--dropped 0.05]
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from time import perf_counter

import numpy as np

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.runs.run_folder import machine, versions
from cloister.protocol import Masked
from cloister.protocol.core.link import Frame
from cloister.protocol.core.session import SERVER
from cloister.protocol.view.answers import Assignment, Model, Sum, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalJob, LocalWork
from cloister.threat_models.peak_memory import peak_mb

from .. import sides


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--length", type=int, default=1_000_000)
    parser.add_argument("--dropped", type=float, default=0.05, help="share of clients whose input is lost")
    options = parser.parse_args()
    members = tuple(range(options.clients))
    lost = set(members[:: max(1, round(1 / options.dropped))]) if options.dropped else set()
    block = np.random.default_rng(0).standard_normal(options.length).astype(np.float32) / 100

    def work(jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            yield job.client, LocalWork(np.roll(block, job.client), 10 + job.client % 90)

    def tap(frame: Frame) -> Iterable[Frame]:
        return () if frame.kind == "MaskedInput" and frame.sender in lost else (frame,)

    protection = Masked(max_samples=100, corrupt=len(members) // 10, dropped=0.1)
    start = perf_counter()
    view = protection.open(Setup(bytes(16), np.zeros(options.length, np.float32), members, work, SimulatedEntropy(0), tap))
    opened = perf_counter() - start
    assignment = {"all": Assignment(Model("init"), members, members)}
    start = perf_counter()
    answer = view.train_and_sum(0, assignment, {"all": Weights(dict.fromkeys(members, 1.0), times_samples=True)})["all"]
    seconds = perf_counter() - start
    if not isinstance(answer, Sum):
        raise SystemExit(f"no sum: {view.record.faults[-1].reason if view.record.faults else answer}")
    expected = sum((10 + i % 90) * np.roll(block, i).astype(np.float64) for i in answer.clients)
    found = view.harness.observe(view.advance(Model("init"), answer)).astype(np.float64) * answer.weight
    cpu = sides.network(view).cpu_seconds
    clients = [cpu[i] for i in answer.clients]
    peak = peak_mb()  # not ru_maxrss, which begins with what the parent held
    result = {
        "benchmark": "masked_round",
        "clients": options.clients,
        "length": options.length,
        "survivors": len(answer.clients),
        "seconds_to_open": opened,
        "seconds": seconds,
        "peak_bytes": None if peak is None else int(1e6 * peak),
        "all_updates_bytes": 4 * options.clients * options.length,
        "client_cpu_seconds": float(np.mean(clients)),
        "server_cpu_seconds": cpu[SERVER],
        "bytes_up_per_client": view.record.traffic.bytes_up / options.clients,
        "bytes_down_per_client": view.record.traffic.bytes_down / options.clients,
        "error_norm": float(np.linalg.norm(found - expected) / answer.weight),
        "error_bound": answer.error,
        "machine": machine(),
        "versions": versions(),
    }
    if options.json:
        print(json.dumps(result, indent=1))
        return
    for key, value in result.items():
        print(f"{key}: {value}")


if __name__ == "__main__":
    main()
