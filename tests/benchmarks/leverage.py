"""The leverage check of 1,000 clients and as many rows as it takes: random, of wild scales, and (almost) combinations of others.

CPU milliseconds, the largest of several runs.

    python tests/benchmarks/leverage.py [--json] [--clients 1000] [--runs 5]
"""

import argparse
import json
import time

import numpy as np
from numpy.typing import NDArray

from cloister.fl.runs.run_folder import machine, versions
from cloister.protocol.parts.leverage import MOST_ROWS, largest


def kinds(clients: int) -> dict[str, NDArray[np.float64]]:
    """float64, shape (MOST_ROWS, clients), by name."""
    rng = np.random.default_rng(0)
    random = rng.standard_normal((MOST_ROWS, clients))
    wild = random * 10.0 ** rng.uniform(-300, 300, (MOST_ROWS, clients))
    powers = 2.0 ** np.arange(MOST_ROWS)[:, None]
    grid = np.round(random[1:] * 2**20)
    return {
        "random": random,
        "wild scales": wild,
        "one row, scaled": random[:1] * powers,
        "one row of wild scales, scaled": wild[:1] * powers / 2**MOST_ROWS,
        "the last row is the sum of the others": np.vstack([grid, grid.sum(axis=0)]),
        "almost a combination": np.vstack([random[1:], random[1:].sum(axis=0)]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--json", action="store_true", help="JSON alone, as without it")
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    found = {}
    for name, weights in kinds(asked.clients).items():
        rows = [dict(enumerate(row)) for row in weights.tolist()]
        spent = []
        for _ in range(asked.runs):
            started = time.process_time()
            leverage = largest(rows)
            spent.append(1000 * (time.process_time() - started))
        found[name] = {"milliseconds": round(max(spent), 2), "largest": leverage}
    result = {"clients": asked.clients, "rows": MOST_ROWS, "kinds": found, "machine": machine(), "versions": versions()}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
