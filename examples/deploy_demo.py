"""A deployment on one machine: a coordinator and 14 clients, 15 processes in all, over mutual TLS, under secure aggregation.

Each client has its own data, keys and journal, and knows the others by the directory that an authority signed (`cloister keys`).
The two groups that they are in are known to nobody: CFL finds them from sums and sketches. One client is killed and started again
from its journal, one falls asleep and is late, and the coordinator is killed too, and goes on from its own.

    python examples/deploy_demo.py                        # about a minute and a half on two cores

What it prints: the groups found, against those planted; seconds; bytes on the wire. Then the same run is played in this process,
with the recorded clients missing from the recorded rounds' sums: models are the same to a hundred-thousandth.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.experiment import run
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked
from cloister.protocol.pki import office

CLIENTS, KILLED, LATE = 14, 3, 5
PATIENCE, SAME = 10.0, 1e-5
PAIRS = ((1, 7), (3, 8))

scenario = Scenario(
    name="deploy demo",
    data=Digits(),
    partition=LabelSwap(clients=CLIENTS, groups=2, pairs=PAIRS, shared_test=True),
    model=Mlp(hidden=(64,)),
    training=Training(epochs=3, batch=10, lr=0.1),
    algorithm=CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.74), patience=3),
    protection=Masked(corrupt=1),
    rounds=25,
)


def started(folder: Path, party: str, *words: str) -> "subprocess.Popen[bytes]":
    """A process of `cloister`, which logs to a file."""
    command = [sys.executable, "-m", "cloister.cli", *words, "--keys", str(folder / "pki" / office.PARTIES / party)]
    with open(folder / f"{party}.log", "a") as log:
        return subprocess.Popen(command, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"})  # noqa: S603


def lines(folder: Path, party: str) -> list[dict[str, object]]:
    """What it has logged."""
    log = folder / f"{party}.log"
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]


def joined(folder: Path, client: int, port: object) -> "subprocess.Popen[bytes]":
    """A client's process."""
    party = f"client-{client}"
    home = ("--scenario", __file__, "--folder", str(folder / party), "--data", "scenario")
    return started(folder, party, "join", f"127.0.0.1:{port}", *home)


def missing(folder: Path) -> dict[int, set[int]]:
    """Who was in no sum, by round."""
    about: dict[int, set[int]] = defaultdict(set)
    for line in (folder / "disclosure.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if (entry["recipient"], entry["what"]) == ("server", "sums"):
            about[entry["round"]] |= set(entry["about"])
    return {t: set(range(CLIENTS)) - about[t] for t in about}


def models(folder: Path) -> "dict[str, np.ndarray[Any, Any]]":
    """A run's parameters, by model and name."""
    files = sorted((folder / "models").glob("*.safetensors"))
    return {f"{file.name} {name}": value for file in files for name, value in load_file(file).items()}


def replayed(folder: Path, out: Path) -> tuple[float, float]:
    """The run of this folder once more, in this process; seconds, and how far models are from those of the folder at most.

    Raises SystemExit where another client is missing, or other models come out.
    """
    without, now = missing(folder), {"round": 0}

    def silent(frame: Any) -> list[Any]:
        return [] if frame.kind == "MaskedInput" and frame.sender in without[now["round"]] else [frame]

    begun = time.monotonic()
    for done in run(replace(scenario, faults=silent), out):
        now["round"] = done.round
    took = time.monotonic() - begun
    here, there = models(out), models(folder)
    if missing(out) != without or here.keys() != there.keys():
        raise SystemExit(f"the simulation went another way: {missing(out)} for {without}, {sorted(here)} for {sorted(there)}")
    return took, max(float(np.abs(here[name] - there[name]).max()) for name in here)


def main() -> None:
    """Play it."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        office.init(folder / "pki", "demo", CLIENTS, ["127.0.0.1"], two_servers=False, now=int(time.time()))
        begun = time.monotonic()
        serve = ("serve", __file__, "--out", str(folder / "run"), "--patience", str(PATIENCE), "--wait", "300", "--listen")
        coordinator = started(folder, "coordinator", *serve, "127.0.0.1:0")
        clients: dict[int, subprocess.Popen[bytes]] = {}
        killed = asleep = awake = restarted = False
        try:
            while coordinator.poll() is None:
                time.sleep(0.05)
                said = lines(folder, "coordinator")
                port = next((line["port"] for line in said if line["what"] == "listening"), None)
                played = sum(line["what"] == "round" for line in said)
                if port is not None and not clients:
                    clients = {i: joined(folder, i, port) for i in range(CLIENTS)}
                if played >= 2 and not killed:
                    killed = True
                    clients[KILLED].kill()
                    clients[KILLED].wait()
                    clients[KILLED] = joined(folder, KILLED, port)
                    print(f"client {KILLED} is killed, and started again from its journal")
                if played >= 8 and not restarted:
                    restarted = True
                    coordinator.kill()
                    coordinator.wait()
                    coordinator = started(folder, "coordinator", *serve, f"127.0.0.1:{port}")
                    print("the coordinator is killed, and started again from its journal")
                if played >= 4 and not asleep:
                    asleep = True
                    clients[LATE].send_signal(signal.SIGSTOP)
                    print(f"client {LATE} falls asleep")
                if asleep and not awake and any((line["what"], line.get("client")) == ("absent", LATE) for line in said):
                    awake = True
                    clients[LATE].send_signal(signal.SIGCONT)
                    print(f"client {LATE} wakes up, too late for its round")
            for process in clients.values():
                process.wait(30)
        finally:
            for process in (coordinator, *clients.values()):
                process.kill()
        if coordinator.returncode:
            raise SystemExit((folder / "coordinator.log").read_text())
        ended = time.monotonic()
        summary = json.loads((folder / "run/summary.json").read_text())
        link = json.loads((folder / "run/link.json").read_text())
        print(f"groups planted: {summary['groups']}")
        print(f"groups found:   {summary['clusters']} (adjusted Rand index {summary['ari']:.2f})")
        print(f"accuracy:       {summary['accuracy_before_clustering']} before, {summary['accuracy_mean']:.3f} after")
        print(f"seconds:        {ended - begun:.1f} in all, {summary['seconds']:.1f} in {summary['rounds']} rounds")
        print(f"bytes:          {link['bytes_in']:,} from clients, {link['bytes_out']:,} to them")
        print(f"unanswered:     {link['unanswered']}, slow {link['slow']}, late answers {link['late']}")
        print(f"processes:      {[process.returncode for process in clients.values()]} (0: ended in order)")
        without = {t: sorted(clients) for t, clients in missing(folder / "run").items() if clients}
        took, apart = replayed(folder / "run", folder / "replayed")
        print(f"replayed here:  {took:.1f} seconds in all; missing by round {without}; models at most {apart:.1e} apart")
        if apart > SAME:
            raise SystemExit("the models are not those of the simulation")


if __name__ == "__main__":
    main()
