"""Rounds of FedAvg under secure aggregation with clients in other processes, over gRPC, beside the same rounds in one process.

Clients live in a few processes, a thread each, nothing shared but the model, one of a process working at a time: threads that
wait for one interpreter are no cost of clients apart. Each has a journal in a file, as `cloister join` has one. Updates are
random, nothing is trained. CPU seconds are of all threads of all processes, from the first connection to the last sum, the
exchange of the run's seed included; with `--rounds 3` beside `--rounds 1` a round's alone can be told. Memory is the
coordinator's peak, and the sum of all processes' peaks.

Beside both, what is no cost of ours: the same rounds in one process with every signature and key checked by each client for
itself, as clients apart have to, and the same vectors over gRPC alone (`bare_grpc`). The sum of these two is the least.

    python -m tests.benchmarks.linked_round [--json] [--clients 200] [--length 1000000] [--processes 4] [--rounds 1]
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import cbor2
import numpy as np

from cloister.crypto.entropy import KeptEntropy, SimulatedEntropy
from cloister.protocol import Masked
from cloister.protocol.view.answers import Assignment, Model, Sum, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalJob, LocalWork

RUN = bytes(16)
SIDES = ("in process", "each for itself", "bare gRPC", "linked")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--length", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--side", choices=("both", *SIDES, "clients"), default="both", help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--initial", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--ids", type=int, nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side == "clients":
        clients_of(options.address, tuple(options.ids), options.clients, options.length, options.initial)
        return
    if options.side != "both":
        match options.side:
            case "linked":
                found = linked(options)
            case "bare gRPC":
                from .bare_grpc import moved  # here, as a link of ours has to be the first to import grpc

                found = moved(options.clients, options.processes, options.rounds, 4 * options.length)
            case side:
                found = in_process(options, checks_once=side == "in process")
        sys.stdout.write(json.dumps(found) + "\n")
        return
    from cloister.fl.runs.run_folder import machine, versions  # here, as it imports torch, which neither side needs

    sides = {side: _apart(options, side) for side in SIDES}
    seconds = {side: found["cpu_seconds"] for side, found in sides.items()}
    found = {
        "benchmark": "linked_round",
        **{name: getattr(options, name) for name in ("clients", "length", "processes", "rounds")},
        **sides,
        "cpu_ratio": seconds["linked"] / seconds["in process"],
        "least_cpu_ratio": (seconds["each for itself"] + seconds["bare gRPC"]) / seconds["in process"],
        "machine": machine(),
        "versions": versions(),
    }
    sys.stdout.write((json.dumps(found) if options.json else json.dumps(found, indent=1)) + "\n")


def _apart(options: argparse.Namespace, side: str) -> Any:
    """One side in a process of its own, so that neither has the other's memory."""
    asked = [sys.executable, "-m", "tests.benchmarks.linked_round", "--side", side]
    asked += [f"--{name}={getattr(options, name)}" for name in ("clients", "length", "processes", "slots", "rounds")]
    done = subprocess.run(asked, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{side}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def protection_of(clients: int) -> Masked:
    return Masked(corrupt=clients // 10, dropped=0.1)


def noise(length: int) -> Any:
    return np.random.default_rng(0).standard_normal(length).astype(np.float32) / 100


def updates(length: int) -> Any:
    """A `Workers` whose update of client i is one block of noise, turned by i."""
    block = noise(length)

    def work(jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            yield job.client, LocalWork(np.roll(block, job.client), 50)

    return work


def played(setup: Setup, clients: tuple[int, ...], rounds: int) -> tuple[float, float]:
    """Seconds of the sums alone, and the error of the last one's mean. Raises SystemExit where there is none."""
    view = protection_of(len(clients)).open(setup)
    before, model, seconds = Model("init"), Model("init"), 0.0
    weights = {"all": Weights(dict.fromkeys(clients, 1.0))}
    for number in range(rounds):
        begun = perf_counter()
        answer = view.train_and_sum(number, {"all": Assignment(model, clients, clients)}, weights)["all"]
        seconds += perf_counter() - begun
        if not isinstance(answer, Sum) or answer.clients != clients:
            raise SystemExit(f"no sum of all: {view.record.faults[-1].reason if view.record.faults else answer}")
        before, model = model, view.advance(model, answer)
        view.harness.retire([before, model], [])
    block = noise(len(setup.initial)).astype(np.float64)
    expected = np.zeros(len(block))
    for i in clients:
        expected += np.roll(block, i)
    moved = view.harness.observe(model).astype(np.float64) - view.harness.observe(before)
    return seconds, float(np.abs(moved - expected / answer.weight).max())


def in_process(options: argparse.Namespace, checks_once: bool) -> dict[str, Any]:
    members = tuple(range(options.clients))
    work = updates(options.length)
    begun = process_time()
    setup = Setup(RUN, np.zeros(options.length, np.float32), members, work, SimulatedEntropy(0), checks_once=checks_once)
    seconds, error = played(setup, members, options.rounds)
    return {"cpu_seconds": process_time() - begun, "seconds": seconds, "error": error, "peak_bytes": _peak()}


def linked(options: argparse.Namespace) -> dict[str, Any]:
    from cloister.protocol.links.listener import Listener
    from cloister.protocol.links.terms import Limits
    from cloister.protocol.work.linked import Linked

    members = tuple(range(options.clients))
    limits = Limits(slots=options.slots, patience=600, most=16 * options.length + (16 << 20))
    listener = Listener("127.0.0.1:0", members, lambda client: b"welcome", None, limits)
    port = listener.start()
    shares = [members[k :: options.processes] for k in range(options.processes)]
    asked = [sys.executable, "-m", "tests.benchmarks.linked_round", "--side", "clients", "--address", f"127.0.0.1:{port}"]
    asked += [f"--clients={options.clients}", f"--length={options.length}"]
    begun, connecting = process_time(), perf_counter()
    started = [subprocess.Popen([*asked, "--ids", *map(str, share)], stdout=subprocess.PIPE, text=True) for share in shares]
    try:
        there = listener.wait_for(len(members), 600)
        if len(there) < len(members):
            raise SystemExit(f"{len(there)} of {len(members)} clients are there")
        connected = perf_counter() - connecting
        hosts = Linked(listener, members)
        setup = Setup(RUN, np.zeros(options.length, np.float32), members, updates(options.length), KeptEntropy(), hosts=hosts)
        seconds, error = played(setup, members, options.rounds)
    finally:
        listener.stop()
        said = [process.communicate(timeout=120)[0] for process in started]
    of_clients = [json.loads(one) for one in said]
    cpu = process_time() - begun
    return {
        "cpu_seconds": cpu + sum(one["cpu_seconds"] for one in of_clients),
        "coordinator_cpu_seconds": cpu,
        "seconds": seconds,
        "seconds_to_connect": connected,
        "error": error,
        "unanswered": sum(hosts.absent.values()),
        "bytes_in": listener.counted["bytes_in"],
        "bytes_out": listener.counted["bytes_out"],
        "peak_bytes": _peak(),
        "all_processes_peak_bytes": _peak() + sum(one["peak_bytes"] for one in of_clients),
    }


def clients_of(address: str, ids: tuple[int, ...], clients: int, length: int, first: Path | None = None) -> None:
    """In a process of clients: all of these, to the end. first: a file of the model that a scenario begins with; of a coordinator
    that serves one, which names the run.
    """
    from cloister.protocol.drivers.journal import InFile
    from cloister.protocol.links.background import one_heap
    from cloister.protocol.links.dialled import Dialled
    from cloister.protocol.masked.clients import masking_clients
    from cloister.protocol.work.driving import Driven
    from cloister.protocol.work.said import said

    initial = np.zeros(length, np.float32) if first is None else np.load(first, mmap_mode="r")
    work, maker = updates(len(initial)), masking_clients(protection_of(clients))
    turn = threading.Lock()
    one_heap()  # before the first thread: a client apart has no heap for each of others' threads

    def one(client: int, folder: Path) -> None:
        link = Dialled(address, None, client)
        said_first = link.start()
        run = RUN if first is None else cbor2.loads(said_first)[1]
        setup = Setup(run, initial, tuple(range(clients)), work, KeptEntropy(), checks_once=False)  # as `cloister join` has it
        if first is not None:  # as FedAvg has it
            setup = replace(setup, works=frozenset({"update"}), recalls=0, span=1)
        driven = Driven(client, setup, maker, InFile(folder / str(client)))
        for number, word in link.words():
            with turn:
                answer = said(driven, word).data
            link.answer(number, answer)
            del word, answer  # as `join` lets go of them
        link.stop()

    begun = process_time()
    with tempfile.TemporaryDirectory() as made:
        threads = [threading.Thread(target=one, args=(client, Path(made))) for client in ids]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    sys.stdout.write(json.dumps({"cpu_seconds": process_time() - begun, "peak_bytes": _peak()}) + "\n")


def _peak() -> int:
    """Of this process, bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
