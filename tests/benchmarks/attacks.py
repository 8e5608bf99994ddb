"""Collusive attacks on many long updates: wall and CPU seconds of one attack, searches against rules of both forms included.

python tests/benchmarks/attacks.py [--json] [--clients 100] [--members 20] [--length 1000000] [--repeat 3]
"""

import argparse
import json
from dataclasses import replace
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch

from cloister.fl.clients.training import Training
from cloister.fl.data.population import Examples
from cloister.fl.models.papers import Mlp, initial
from cloister.fl.robust.coordinates import TrimmedMean
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.runs.run_folder import machine, versions
from cloister.protocol.view.work import LocalWork
from cloister.threat_models.collusion import ALIE, IPM, FangKrum, FangTrim, MinMax, MinSum
from cloister.threat_models.knowledge import Insider, Own
from cloister.threat_models.line_search import LineSearched, optimal_alie, optimal_ipm
from cloister.threat_models.tailored import dyn_opt, stat_opt


def insider(n: int, f: int, d: int, rule: Any) -> Insider:
    rng = np.random.default_rng(0)
    updates = rng.standard_normal((n, d), dtype=np.float32) + 0.3 * rng.standard_normal(d, dtype=np.float32)
    module = initial(Mlp(), (1, 8, 8), 10, 0)
    nothing = Examples(torch.zeros(0), torch.zeros(0))
    own = {
        i: Own(
            member=i, place=i, members=f, roster=tuple(range(n)), round=0, work="update", examples=nothing, classes=10,
            start=updates[i], previous=None, module=module, training=Training(epochs=1, batch=1, lr=1.0), training_seed=0,
            data_rng=rng, rng=np.random.default_rng(i), agreed=rng, update=updates[i], samples=1,
        )
        for i in range(f)
    }  # fmt: skip
    honest = {i: LocalWork(updates[i], 1) for i in range(f, n)}
    return Insider(round=0, roster=tuple(range(n)), own=own, memory={}, honest=honest, rule=rule)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--length", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    n, f, d = options.clients, options.members, options.length
    krum, trimmed = MultiKrum(f), TrimmedMean(f)
    attacks: dict[str, tuple[Any, Any]] = {
        "ALIE": (ALIE(), krum),
        "IPM": (IPM(0.1), krum),
        "Min-Max": (MinMax(), krum),
        "Min-Sum": (MinSum(), krum),
        "Fang, Krum": (FangKrum(), krum),
        "Fang, trimmed mean": (FangTrim(), krum),
        "optimal ALIE, Multi-Krum": (optimal_alie(), krum),
        "optimal IPM, Multi-Krum": (optimal_ipm(), krum),
        "sign line, Multi-Krum": (LineSearched("sign"), krum),
        "optimal ALIE, trimmed mean": (optimal_alie(), trimmed),
        "optimal IPM, trimmed mean": (optimal_ipm(), trimmed),
        "STAT-OPT, Multi-Krum": (stat_opt(), krum),
        "DYN-OPT, Multi-Krum": (dyn_opt(), krum),
    }
    told = insider(n, f, d, krum)
    known = {id(krum): told, id(trimmed): replace(told, rule=trimmed)}
    wall, cpu = {}, {}
    for name, (attack, rule) in attacks.items():
        times = []
        for _ in range(options.repeat):
            start, used = perf_counter(), process_time()
            attack(known[id(rule)])
            times.append((perf_counter() - start, process_time() - used))
        wall[name], cpu[name] = (min(kind) for kind in zip(*times, strict=True))
    result = {"benchmark": "attacks", "clients": n, "members": f, "length": d, "wall_seconds": wall, "cpu_seconds": cpu}
    result |= {"machine": machine(), "versions": versions()}
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for name in attacks:
        print(f"{name:28} {wall[name]:.2f} s, {cpu[name]:.2f} s of CPU")


if __name__ == "__main__":
    main()
