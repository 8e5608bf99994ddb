"""What a protection costs: one round of sums and the Gram matrix through each view, against bare numpy on the same vectors.

Clients do no work: their updates are drawn beforehand. Times are CPU seconds of the process, minimum of the repetitions.

    python tests/benchmarks/views.py [--json] [--clients 20] [--d 1000000] [--repeat 3]
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from time import process_time

import numpy as np
from numpy.typing import NDArray

from cloister.crypto.entropy import SimulatedEntropy
from cloister.crypto.orthonormal import HadamardRotation, SignedPermutation
from cloister.fl.runs.run_folder import machine, versions
from cloister.protocol import Permuted, Plain
from cloister.protocol.view.answers import Assignment, Model, Weights
from cloister.protocol.view.protection import Protection, Setup
from cloister.protocol.view.work import LocalJob, LocalWork

PROTECTIONS: tuple[Protection, ...] = (
    Plain(),
    Permuted(),
    Permuted(keys="session"),
    Permuted(SignedPermutation),
    Permuted(HadamardRotation),
)


def least(work: Callable[[], object], repeat: int) -> float:
    """CPU seconds of the quickest of `repeat` calls."""
    times = []
    for _ in range(repeat):
        start = process_time()
        work()
        times.append(process_time() - start)
    return min(times)


def bare(updates: NDArray[np.float32]) -> Callable[[], object]:
    """What the same answers cost without any protocol: a mean and a Gram matrix."""
    return lambda: (updates.mean(axis=0, dtype=np.float64), updates @ updates.T)


def one_round(protection: Protection, updates: NDArray[np.float32]) -> Callable[[], object]:
    """A round of `train`, `gram` and `sums` of all clients. The view is opened once; rounds count up."""
    clients, d = updates.shape
    everyone = tuple(range(clients))

    def workers(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        return ((job.client, LocalWork(updates[job.client], 1)) for job in jobs)

    entropy = SimulatedEntropy(0)
    view = protection.open(Setup(entropy.secret("run", 16), np.zeros(d, np.float32), everyone, workers, entropy))
    rounds = iter(range(10**6))

    def play() -> None:
        model = Model("init")
        work = {"0": Assignment(model, everyone, everyone)}
        trained = view.train(next(rounds), work)["0"]
        view.gram(trained, origin=True)
        view.sums(trained, {"0": Weights(dict.fromkeys(everyone, 1.0))})
        view.harness.retire([model], [])

    return play


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--d", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    updates = np.random.default_rng(0).standard_normal((options.clients, options.d), np.float32)
    reference = least(bare(updates), options.repeat)
    rows = []
    for protection in PROTECTIONS:
        seconds = least(one_round(protection, updates), options.repeat)
        rows.append({"protection": repr(protection), "cpu_seconds": seconds, "ratio_to_numpy": seconds / reference})
    result = {
        "benchmark": "views",
        "clients": options.clients,
        "d": options.d,
        "numpy_cpu_seconds": reference,
        "rows": rows,
        "machine": machine(),
        "versions": versions(),
    }
    if options.json:
        print(json.dumps(result, indent=1))
        return
    print(f"numpy mean and Gram matrix: {reference:.3f} CPU s")
    for row in rows:
        print(f"{row['protection']}: {row['cpu_seconds']:.3f} CPU s, {row['ratio_to_numpy']:.1f} x numpy")


if __name__ == "__main__":
    main()
