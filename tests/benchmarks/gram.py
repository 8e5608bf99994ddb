"""A private Gram matrix of 100 clients at d = 1,000,000: by the two-stage secret sketch, and by two servers with a dealer.

CPU seconds of a mean client and of each other party, all threads; beside numpy's `X @ X.T` on the clear updates in the same run.
Clients sketch as real ones do: each draws the secret matrix for itself, block by block. Of two servers: sharing the updates,
projecting, dealing and multiplying, all parties together. (Inner products of ciphertexts: ckks.py.)

    python tests/benchmarks/gram.py [--json] [--clients 100] [--length 1000000] [--sketch 1024]
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from two_servers import measure

from cloister.crypto.projection import TwoStage
from cloister.fl.runs.run_folder import machine, versions
from cloister.protocol.parts.gram import gram_matrix
from cloister.protocol.work.uploads import from_bytes, to_bytes


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of all threads, and the result."""
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def updates(clients: int, length: int) -> list[NDArray[np.float32]]:
    """Four groups whose members are alike."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((4, length), dtype=np.float32)
    return [centres[i % 4] + rng.standard_normal(length, dtype=np.float32) for i in range(clients)]


def worst(found: NDArray[np.float64], exact: NDArray[np.float64]) -> float:
    """The largest error relative to the norms."""
    norms = np.sqrt(np.diagonal(exact))
    return float(np.abs((found - exact) / np.outer(norms, norms)).max())


def sketched(vectors: list[NDArray[np.float32]], k: int, exact: NDArray[np.float64]) -> dict[str, Any]:
    """Draw and sketch at each client, encode; decode and multiply at the server."""

    def client(vector: NDArray[np.float32]) -> bytes:
        return to_bytes(TwoStage.draw(bytes(32), bytes(range(32)), len(vector), k).apply(vector).astype(np.float32))

    times, sent = zip(*(cpu(lambda vector=vector: client(vector)) for vector in vectors), strict=True)
    server, gram = cpu(lambda: gram_matrix([from_bytes(data) for data in sent]))
    return {
        "protocol": "two-stage sketch",
        "k": k,
        "client_cpu_seconds": float(np.mean(times)),
        "server_cpu_seconds": server,
        "bytes_up_per_client": len(sent[0]),
        "worst_error": worst(gram, exact),
    }


def shared(clients: int, length: int, k: int) -> dict[str, Any]:
    """Upload and Gram matrix of the two-server protocol."""
    found = measure(clients, length, k, with_sum=False)
    parties: dict[str, float] = {}
    for phase in found["cpu_seconds"].values():
        for party, seconds in phase.items():
            parties[party] = parties.get(party, 0.0) + seconds
    return {
        "protocol": "two servers",
        "k": k,
        "client_cpu_seconds": parties["clients"] / clients,
        "server_cpu_seconds": parties["server"],
        "second_server_cpu_seconds": parties["second server"],
        "dealer_cpu_seconds": parties["dealer"],
        "all_cpu_seconds": parties["all"],
        "bytes_up_per_client": found["bytes_up_per_client"],
        "bytes_between": found["bytes_between"],
        "worst_error": found["relative_error_max"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--length", type=int, default=1_000_000)
    parser.add_argument("--sketch", type=int, default=1024)
    options = parser.parse_args()
    vectors = updates(options.clients, options.length)
    clear, _ = cpu(lambda stacked=np.stack(vectors): stacked @ stacked.T)
    exact = gram_matrix(vectors)
    rows = [sketched(vectors, options.sketch, exact)]
    del vectors
    rows.append(shared(options.clients, options.length, options.sketch))
    result = {
        "benchmark": "gram",
        "clients": options.clients,
        "length": options.length,
        "numpy_clear_cpu_seconds": clear,
        "rows": rows,
        "machine": machine(),
        "versions": versions(),
    }
    if options.json:
        print(json.dumps(result, indent=1))
        return
    print(f"numpy on clear updates: {clear:.3f} CPU s")
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
