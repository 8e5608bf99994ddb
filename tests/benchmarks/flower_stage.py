"""Seconds a stage in a Flower federation on this machine: masked sums by Cloister, and by Flower's own SecAgg+ workflow.

A SuperLink under TLS and four authenticated SuperNodes; 1,210 parameters; the same federation plays one and then the other. A
stage is from its first message to its last answer. Flower makes a process for every message, polls for messages every 3 s, and
its workflow asks for answers every 3 s, where Cloister's server asks every 0.2 s.

    python tests/benchmarks/flower_stage.py [--json] [--rounds 2]           # needs cloister[flower]; some minutes

Without flwr it says so, and measures nothing.
"""

import argparse
import importlib.util
import json
import os
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APPS = Path(__file__).with_name("flower_apps")


def stages_of(times: list[tuple[float, str, int]]) -> list[list[float]]:
    """Of each round, the seconds of its stages; what came before the first sum belongs to the first round."""
    rounds: list[list[float]] = [[]]
    begun = came = 0.0
    for (_, before, _), (now, what, _) in pairwise([(0.0, "round", 0), *times]):
        if what == "sent" and before != "sent":
            begun = now
        elif what == "came":
            if before == "came":
                rounds[-1].pop()
            came = now
            rounds[-1].append(came - begun)
        elif what == "round":
            rounds.append([])
    return [found for found in rounds if found]


def measured(rounds: int) -> dict[str, object]:
    """In a federation that is made for it, and ended."""
    sys.path.insert(0, str(ROOT))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    from tests.flower_federation import Federation

    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        federation = Federation(Path(folder))
        try:
            federation.start()
            for by in ("cloister", "secagg+"):
                times = Path(folder) / f"{by}.json"
                ended = federation.run(APPS, 1800, by=by, rounds=rounds, out=str(Path(folder) / by), times=str(times))
                if ended != "finished:completed":
                    raise SystemExit(f"{by}: {ended}: {federation.log('run')[-2000:]}")
                played = stages_of(json.loads(times.read_text()))
                found[by] = [
                    {"stages": len(of), "seconds": round(sum(of), 1), "a stage": [round(s, 2) for s in of]} for of in played
                ]
        finally:
            federation.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    if importlib.util.find_spec("flwr") is None:
        print(json.dumps({"left out": "needs flwr: pip install 'cloister[flower]'"}))
        return
    from cloister.fl.runs.run_folder import machine, versions

    found = {"machine": machine(), "load": os.getloadavg(), "versions": versions(), "clients": 4, **measured(options.rounds)}
    print(json.dumps(found, indent=None if options.json else 2))


if __name__ == "__main__":
    main()
