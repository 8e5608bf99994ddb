"""Optimal bipartition of many clients, against scipy's single linkage cut in two on the same similarities.

python tests/benchmarks/bipartition.py [--json] [--clients 500 5000] [--repeat 3]
"""

import argparse
import json
from time import process_time

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from cloister.fl.clustering.bipartition import complete_linkage_bipartition, optimal_bipartition
from cloister.fl.clustering.separation import cosine_similarity
from cloister.fl.runs.run_folder import machine, versions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--clients", type=int, nargs="+", default=[500, 5000])
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    rows = []
    for m in options.clients:
        updates = np.random.default_rng(m).standard_normal((m, 64))
        similarity = cosine_similarity(updates @ updates.T)
        ids = list(range(m))

        def scipys(similarity: np.ndarray = similarity) -> None:
            tree = linkage(squareform(1 - similarity, checks=False), method="single")
            fcluster(tree, 2, criterion="maxclust")

        methods = {
            "optimal_bipartition": lambda s=similarity, i=ids: optimal_bipartition(s, i),
            "complete_linkage_bipartition": lambda s=similarity, i=ids: complete_linkage_bipartition(s, i),
            "scipy single linkage": scipys,
        }
        seconds = {}
        for name, method in methods.items():
            times = []
            for _ in range(options.repeat):
                start = process_time()
                method()
                times.append(process_time() - start)
            seconds[name] = min(times)
        rows.append({"clients": m, "cpu_seconds": seconds})
    result = {"benchmark": "bipartition", "rows": rows, "machine": machine(), "versions": versions()}
    if options.json:
        print(json.dumps(result, indent=1))
        return
    for row in rows:
        print(row["clients"], "clients:", ", ".join(f"{name} {s:.3f} CPU s" for name, s in row["cpu_seconds"].items()))


if __name__ == "__main__":
    main()
