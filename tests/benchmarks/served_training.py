"""CPU of a scenario's file that is played in one process and between processes, with clients that really train.

Once `cloister run`; once `cloister serve`, and clients as `cloister join` plays them: its journals, records and final models, on
loopback without certificates. Clients live in a few processes, a thread each, one of a process working at a time, and have
between them what each begins with. So data are read once a process, where a client apart reads its own.

CPU seconds are what the kernel says of whole processes, from start to end. `before` is what one takes to import and to make its
parties (data, first model), measured by one that does no more; `cpu_ratio_without_before` leaves it out on both sides. In one
process clients' training may be stacked (fl/clients/fast.py); a client apart trains alone. What is left between processes where
nothing is trained: `linked_round`. Give the environment OMP_NUM_THREADS=1: a process of many clients has one torch thread then.

    python -m tests.benchmarks.served_training [--clients 200] [--batch 10] [--epochs 1] [--rounds 1] [--data FOLDER]
"""

import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

from .served_round import port_of

SCENARIO = """
from cloister import Scenario, Training, algorithms, data, models, partitions, protections

scenario = Scenario(
    name="served with training",
    data=data.Mnist(),
    partition=partitions.Iid(clients={clients}),
    model=models.Mlp(hidden=({hidden},)),
    training=Training(epochs={epochs}, batch={batch}, lr=0.05),
    algorithm=algorithms.FedAvg(by_samples=False),
    protection=protections.Masked(corrupt={corrupt}, dropped=0.1),
    rounds={rounds},
)
"""
CLOISTER = (sys.executable, "-m", "cloister")
MODULE = (sys.executable, "-m", "tests.benchmarks.served_training")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--hidden", type=int, default=1258, help="units of one hidden layer, 795 numbers each")
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=1, help="of a round")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--data", type=Path, help="folder with MNIST; default: $CLOISTER_DATA")
    parser.add_argument("--role", choices=("clients", "before"), help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--ids", type=int, nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "before":
        parties_of(options.file, options.data)
        return
    if options.role == "clients":
        clients_of(options.file, options.address, options.ids, options.data)
        return
    with tempfile.TemporaryDirectory() as made:
        sys.stdout.write(json.dumps(both(options, Path(made)), indent=1) + "\n")


def both(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Both sides, one after the other. Raises SystemExit where one does not end well."""
    from cloister.fl.runs.run_folder import machine, versions

    file = folder / "scenario.py"
    given = {name: getattr(options, name) for name in ("clients", "hidden", "batch", "epochs", "rounds")}
    file.write_text(SCENARIO.format(**given, corrupt=options.clients // 10))
    data = [] if options.data is None else ["--data", str(options.data)]
    before = _cpu(subprocess.Popen([*MODULE, "--role", "before", "--file", str(file), *data]))
    begun = time.perf_counter()
    out = ["--out", str(folder / "run")]
    alone = _cpu(subprocess.Popen([*CLOISTER, "run", str(file), *out, *data], stdout=subprocess.DEVNULL))
    between = time.perf_counter()
    coordinator, clients = served(options, file, folder, data)
    ended = time.perf_counter()
    apart = coordinator + sum(clients)
    accuracy = [_accuracy(folder / name) for name in ("run", "served")]
    return {
        "benchmark": "served_training",
        **given,
        "processes": options.processes,
        "before": before,
        "in_process": {"cpu_seconds": alone, "seconds": between - begun, "accuracy": accuracy[0]},
        "between_processes": {
            "cpu_seconds": apart,
            "coordinator_cpu_seconds": coordinator,
            "clients_cpu_seconds": clients,
            "seconds": ended - between,
            "accuracy": accuracy[1],
        },
        "cpu_ratio": apart / alone,
        "cpu_ratio_without_before": (apart - before * (1 + len(clients))) / (alone - before),
        "machine": machine(),
        "versions": versions(),
    }


def served(options: argparse.Namespace, file: Path, folder: Path, data: list[str]) -> tuple[float, list[float]]:
    """CPU seconds of the coordinator, and of each process of clients."""
    log = folder / "log"
    asked = [*CLOISTER, "serve", str(file), "--listen", "127.0.0.1:0", "--insecure-loopback", "--out", str(folder / "served")]
    with log.open("w") as to:
        coordinator = subprocess.Popen([*asked, "--wait", "900", "--patience", "600", *data], stdout=to, stderr=to)
    asked = [*MODULE, "--role", "clients", "--file", str(file), "--address", f"127.0.0.1:{port_of(log, coordinator)}", *data]
    shares = [range(options.clients)[k :: options.processes] for k in range(options.processes)]
    clients = [subprocess.Popen([*asked, "--ids", *map(str, share)], stderr=subprocess.DEVNULL) for share in shares]
    taken = [_cpu(process) for process in clients]
    return _cpu(coordinator), taken


def clients_of(file: Path, address: str, ids: list[int], data: Path | None) -> None:
    """In a process of clients: all of these, to the end of the run."""
    from cloister.fl.runs import member
    from cloister.fl.runs.joining import join
    from cloister.protocol.links.background import one_heap
    from cloister.protocol.links.dialled import Dialled

    scenario, parties, turn = parties_of(file, data)
    said = member.Member.said
    one_heap()  # before the first thread: a client apart has no heap for each of others' threads

    def in_turn(one: Any, word: Any) -> Any:
        with turn:
            return said(one, word)

    member.own_parties = lambda *of: copy.copy(parties)  # what is read is shared; what a client keeps is not
    member.Member.said = in_turn  # type: ignore[method-assign]
    failed: list[BaseException] = []

    def one(client: int, folder: Path) -> None:
        try:
            for _ in join(scenario, Dialled(address, None, client), folder, data=data):
                pass
        except BaseException as error:
            failed.append(error)

    with tempfile.TemporaryDirectory() as made:
        threads = [threading.Thread(target=one, args=(client, Path(made) / str(client))) for client in ids]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failed:
        raise SystemExit(f"{len(failed)} clients failed, the first by {failed[0]!r}")


@cache
def parties_of(file: Path, data: Path | None) -> tuple[Any, Any, threading.Lock]:
    """The scenario, what its parties begin with, and whose turn it is."""
    from cloister.fl.runs.parties import Parties
    from cloister.scenario_file import load

    scenario = load(str(file))
    return scenario, Parties(scenario, data), threading.Lock()


def _accuracy(folder: Path) -> Any:
    return json.loads((folder / "summary.json").read_text())["accuracy_mean"]


def _cpu(process: "subprocess.Popen[Any]") -> float:
    """CPU seconds of a process, at its end. Raises SystemExit where it did not end well."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{process.args} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
