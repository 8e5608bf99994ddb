"""The memory of a coordinator that serves a scenario's file: `cloister serve` as it is used, with torch and the scenario's data.

Clients are those of `linked_round`: threads of a few processes, a journal each, with random updates. So nothing is trained; but
the coordinator scores models on the scenario's data, and writes its report. Its peak and its CPU are what the kernel says of that
process, from its start to its end; `before_rounds` is what it holds when it begins to listen.

    python -m tests.benchmarks.served_round [--clients 200] [--hidden 13333] [--processes 2] [--rounds 1]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

SCENARIO = """
from cloister import Scenario, Training, algorithms, data, models, partitions, protections

scenario = Scenario(
    name="served",
    data=data.Digits(),
    partition=partitions.LabelSwap(clients={clients}, groups=1, pairs=((1, 7),), shared_test=True),
    model=models.Mlp(hidden=({hidden},)),
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=algorithms.FedAvg(by_samples=False),
    protection=protections.Masked(corrupt={corrupt}, dropped=0.1),
    rounds={rounds},
)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--hidden", type=int, default=13_333, help="units of one hidden layer, 75 numbers each")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--initial", type=Path, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.initial:
        begun_with(*options.initial)
        return
    with tempfile.TemporaryDirectory() as made:
        sys.stdout.write(json.dumps(served(options, Path(made)), indent=1) + "\n")


def begun_with(file: Path, to: Path) -> None:
    """In a process of its own: the model that the scenario begins with, into a file."""
    from cloister.fl.runs.parties import Parties
    from cloister.scenario_file import load

    np.save(to, Parties(load(str(file)), None).setup.initial)


def served(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """What the coordinator took. Raises SystemExit where its run did not end well."""
    file, initial, log = folder / "served.py", folder / "initial.npy", folder / "log"
    corrupt = options.clients // 10
    file.write_text(SCENARIO.format(clients=options.clients, hidden=options.hidden, corrupt=corrupt, rounds=options.rounds))
    subprocess.run([sys.executable, "-m", "tests.benchmarks.served_round", "--initial", file, initial], check=True)
    asked = [sys.executable, "-m", "cloister", "serve", str(file), "--listen", "127.0.0.1:0", "--insecure-loopback"]
    asked += ["--out", str(folder / "run"), "--wait", "900", "--patience", "600"]
    with log.open("w") as to:
        coordinator = subprocess.Popen(asked, stderr=to, stdout=to)
    port = port_of(log, coordinator)
    before = _now(coordinator.pid)
    shares = [range(options.clients)[k :: options.processes] for k in range(options.processes)]
    of_clients = [sys.executable, "-m", "tests.benchmarks.linked_round", "--side", "clients", f"--address=127.0.0.1:{port}"]
    of_clients += [f"--clients={options.clients}", f"--initial={initial}"]
    others = [subprocess.Popen([*of_clients, "--ids", *map(str, share)], stdout=subprocess.DEVNULL) for share in shares]
    _, status, used = os.wait4(coordinator.pid, 0)
    coordinator.returncode = os.waitstatus_to_exitcode(status)
    for other in others:
        other.wait(120)
    if coordinator.returncode:
        raise SystemExit(log.read_text()[-2000:])
    return {
        "benchmark": "served_round",
        **{name: getattr(options, name) for name in ("clients", "processes", "rounds")},
        "length": len(np.load(initial, mmap_mode="r")),
        "before_rounds": before,
        "peak_bytes": used.ru_maxrss * 1024,
        "cpu_seconds": used.ru_utime + used.ru_stime,
    }


def port_of(log: Path, coordinator: "subprocess.Popen[bytes]") -> int:
    """Where it listens. Raises SystemExit where it ends before."""
    while coordinator.poll() is None:
        for line in log.read_text().splitlines():
            if '"port"' in line:
                return int(json.loads(line)["port"])
        time.sleep(0.2)
    raise SystemExit(log.read_text()[-2000:])


def _now(process: int) -> dict[str, int]:
    """Bytes that a process has in memory: all, and of these what no file backs."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return {name: 1024 * int(lines[field].split()[0]) for name, field in (("bytes", "VmRSS"), ("of_no_file", "RssAnon"))}


if __name__ == "__main__":
    main()
