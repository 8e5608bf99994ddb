"""Robust rules on n float32 updates of d coordinates: wall and CPU time, and extra memory; beside ByzFL if it is there.

python tests/benchmarks/robust_rules.py [--json] [--n 100] [--f 20] [--d 100000 1000000] [--repeat 3] [--rows]

Minima of the repetitions. Memory is what numpy allocates at its peak during one call, as a multiple of the input; ByzFL's torch
path is not seen by that measure. ByzFL is optional (`pip install -e ".[compare]"`); its torch and numpy paths run in turn with
ours.
"""

import argparse
import json
import sys
import tracemalloc
from collections.abc import Callable
from importlib import import_module
from time import perf_counter, process_time
from typing import Any
from unittest.mock import MagicMock

import numpy as np

from cloister.fl.robust.aggregate import aggregate
from cloister.fl.robust.averages import Mean, NormBound
from cloister.fl.robust.clustering import FLAME, ClippedClustering
from cloister.fl.robust.coordinates import Bulyan, Meamed, Median, Phocas, RobustLearningRate, TrimmedMean
from cloister.fl.robust.diameter import MDA
from cloister.fl.robust.krum import Krum, MultiKrum
from cloister.fl.robust.mixing import ARC, NNM, Bucketing, Mixed
from cloister.fl.robust.rule import Rule
from cloister.fl.robust.signs import SignGuard
from cloister.fl.robust.similarity import FoolsGold
from cloister.fl.robust.spectral import CAF, DnC
from cloister.fl.robust.weiszfeld import RFA, CenteredClipping, GeometricMedian
from cloister.fl.runs.run_folder import machine, versions

Call = Callable[[np.ndarray], Any]


def rules(f: int, d: int) -> dict[str, tuple[Rule, str]]:
    """Our rules, with the name of the peer's."""
    return {
        "mean": (Mean(), "Average"),
        "norm bound": (NormBound(0.5 * d**0.5), ""),
        "Krum": (Krum(f), "Krum"),
        "Multi-Krum": (MultiKrum(f), "MultiKrum"),
        "RFA, T=3": (RFA(), "GeometricMedian"),
        "geometric median": (GeometricMedian(), ""),
        "centred clipping": (CenteredClipping(tau=0.5 * d**0.5), "CenteredClipping"),
        "NNM + Multi-Krum": (Mixed((NNM(f),), MultiKrum(f)), "NNM+MultiKrum"),
        "NNM + trimmed mean": (Mixed((NNM(f),), TrimmedMean(f)), ""),
        "ARC + mean": (Mixed((ARC(f),), Mean()), ""),
        "bucketing + geometric median": (Mixed((Bucketing(2),), GeometricMedian()), ""),
        "CAF": (CAF(f), "CAF"),
        "MDA": (MDA(min(f, 8)), ""),
        "FoolsGold": (FoolsGold(), ""),
        "FLAME": (FLAME(), ""),
        "ClippedClustering": (ClippedClustering(), ""),
        "DnC, b=10000": (DnC(f, b=10_000), ""),
        "SignGuard": (SignGuard(), ""),
        "median": (Median(), "Median"),
        "trimmed mean": (TrimmedMean(f), "TrMean"),
        "Meamed": (Meamed(f), "Meamed"),
        "Phocas": (Phocas(f), ""),
        "Bulyan": (Bulyan(f), ""),
        "robust learning rate": (RobustLearningRate(20), ""),
    }


def peer() -> Any:
    """ByzFL, or None. It needs torchvision and seaborn for its data and plots alone, for which mocks stand in."""
    for name in ("torchvision", "torchvision.datasets", "torchvision.transforms", "seaborn"):
        try:
            import_module(name)
        except ImportError:
            sys.modules[name] = MagicMock()
    try:
        import byzfl
    except ImportError:
        return None
    return byzfl


def peers_call(byzfl: Any, name: str, f: int, tau: float) -> Call:
    """ByzFL's aggregator of that name."""
    made: dict[str, Callable[[], Any]] = {
        "Average": lambda: byzfl.Average(),
        "Krum": lambda: byzfl.Krum(f=f),
        "MultiKrum": lambda: byzfl.MultiKrum(f=f),
        "GeometricMedian": lambda: byzfl.GeometricMedian(nu=1e-6, T=3),
        "CenteredClipping": lambda: byzfl.CenteredClipping(L=1, tau=tau),
        "CAF": lambda: byzfl.CAF(f=f),
        "Median": lambda: byzfl.Median(),
        "TrMean": lambda: byzfl.TrMean(f=f),
        "Meamed": lambda: byzfl.Meamed(f=f),
    }
    if name == "NNM+MultiKrum":
        mix, last = byzfl.NNM(f=f), byzfl.MultiKrum(f=f)
        return lambda x: last(mix(x))
    aggregator = made[name]()
    return lambda x: aggregator(x)


def measured(call: Callable[[], Any], repeat: int) -> dict[str, float]:
    wall, cpu = [], []
    for _ in range(repeat):
        start, used = perf_counter(), process_time()
        call()
        wall.append(perf_counter() - start)
        cpu.append(process_time() - used)
    return {"wall_ms": round(1e3 * min(wall), 1), "cpu_ms": round(1e3 * min(cpu), 1)}


def extra_memory(call: Callable[[], Any], size: int) -> float:
    tracemalloc.start()
    try:
        call()
        return round(tracemalloc.get_traced_memory()[1] / size, 3)
    finally:
        tracemalloc.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--f", type=int, default=20)
    parser.add_argument("--d", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--rows", action="store_true", help="give the updates as a list of vectors instead of one array")
    parser.add_argument("--only", nargs="+", help="names of rules")
    options = parser.parse_args()
    byzfl = peer()
    rows = []
    for d in options.d:
        x = np.random.default_rng(0).standard_normal((options.n, d), dtype=np.float32)
        given = list(x) if options.rows else x
        for name, (rule, theirs) in rules(options.f, d).items():
            if options.only and name not in options.only:
                continue

            def ours(rule: Rule = rule, given: Any = given) -> Any:
                return aggregate(rule, given, np.random.default_rng(0))

            try:
                row: dict[str, Any] = {"d": d, "rule": name, **measured(ours, options.repeat)}
                row["extra_memory"] = extra_memory(ours, x.nbytes)
            except ValueError as error:
                row = {"d": d, "rule": name, "refused": str(error)}
            if byzfl is not None and theirs:
                import torch

                tau = 0.5 * d**0.5
                for path, data in (("torch", torch.from_numpy(x)), ("numpy", x)):
                    if "NNM" in theirs and options.n * options.n * d * 4 > 4e9:
                        row[f"byzfl_{path}"] = "asks for n x n x d numbers"
                        continue
                    call = peers_call(byzfl, theirs, options.f, tau)
                    row[f"byzfl_{path}"] = measured(lambda call=call, data=data: call(data), 1 if d > 500_000 else 2)
            rows.append(row)
            if not options.json:
                print(row, flush=True)
    result = {
        "benchmark": "robust_rules",
        "n": options.n,
        "f": options.f,
        "rows": rows,
        "machine": machine(),
        "versions": versions(),
    }
    if options.json:
        print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
