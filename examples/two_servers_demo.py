"""Two servers that must not collude, on one machine: a coordinator, a second server, a dealer and 6 clients, 9 processes in all.

Each has its own keys, folder and links over mutual TLS; in earnest the three servers would be in three hands. Clients send the
coordinator shares and the second server keys, each on a link of its own; CFL finds the clients' two groups from inner products,
for which the dealer deals random triples. One client is killed with -9 and started again, and so is the second server, in the
midst of the run: its round may be lost, and nothing is opened twice.

    python examples/two_servers_demo.py                   # about a minute on two idle cores

What it prints: the groups found, against those planted; rounds that were lost; who told whom what. Then the same run is played
in this process, losing the same shares and answers: models are the same to a hundred-thousandth.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
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
from cloister.protocol import TwoServer
from cloister.protocol.core.session import SECOND_SERVER
from cloister.protocol.pki import office

CLIENTS, KILLED = 6, 2
SAME = 1e-5

scenario = Scenario(
    name="two servers demo",
    data=Digits(),
    partition=LabelSwap(clients=CLIENTS, groups=2, pairs=((1, 7), (3, 8)), shared_test=True),
    model=Mlp(hidden=(32,)),
    training=Training(epochs=3, batch=10, lr=0.1),
    algorithm=CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.74), patience=3),
    protection=TwoServer(floor=2),
    rounds=20,
)


class Party:
    """A process of `cloister`, with the keys of this party. It logs to a file."""

    def __init__(self, folder: Path, name: str, *words: str) -> None:
        self.name, self._folder = name, folder
        keys = ("--keys", str(folder / "pki" / office.PARTIES / name))
        self._command = [sys.executable, "-m", "cloister.cli", *words, *keys]
        self.start()

    def start(self) -> None:
        """Begin, or go on."""
        with open(self._folder / f"{self.name}.log", "a") as log:
            self.process = subprocess.Popen(self._command, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"})  # noqa: S603

    def again(self) -> None:
        """Kill it, and start it again."""
        self.process.kill()
        self.process.wait()
        self.start()
        print(f"{self.name} is killed, and started again from its journal")

    @property
    def log(self) -> list[dict[str, Any]]:
        """What it has logged."""
        lines = (self._folder / f"{self.name}.log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def port(self) -> int:
        """Where it listens, as soon as it does. Raises SystemExit where it ended before."""
        while True:
            for line in self.log:
                if line["what"] == "listening":
                    return int(line["port"])
            if self.process.poll() is not None:
                raise SystemExit((self._folder / f"{self.name}.log").read_text())
            time.sleep(0.05)


def read(folder: Path, name: str) -> list[dict[str, Any]]:
    """The lines of a file of a run."""
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def models(folder: Path) -> "dict[str, np.ndarray[Any, Any]]":
    """A run's parameters, by model and name."""
    files = sorted((folder / "models").glob("*.safetensors"))
    return {f"{file.name} {name}": value for file in files for name, value in load_file(file).items()}


def about(folder: Path, what: str) -> dict[int, set[int]]:
    """By round, whom the coordinator has shares of ("updates"), or sums about ("sums")."""
    found: dict[int, set[int]] = {line["round"]: set() for line in read(folder, "metrics.jsonl")}
    for entry in read(folder, "disclosure.jsonl"):
        if (entry["recipient"], entry["what"]) == ("server", what):
            found[entry["round"]] |= set(entry["about"])
    return found


def replayed(folder: Path, out: Path) -> float | None:
    """The run of this folder once more, in this process, losing the same: how far models are apart at most.

    None where the second server was away for a part of a round alone, which is not played again.
    """
    shared, summed, now = about(folder, "updates"), about(folder, "sums"), {"round": 0}
    away: dict[int, str] = {}
    for fault in read(folder, "faults.jsonl"):
        if fault["client"] == SECOND_SERVER:
            if summed[fault["round"]]:
                return None
            away.setdefault(fault["round"], "Held" if "keys" in fault["reason"] else "GramQuestion")

    def silent(frame: Any) -> list[Any]:
        lost = frame.kind == "ExplicitShare" and frame.sender not in shared[now["round"]]
        return [] if lost or frame.kind == away.get(now["round"]) else [frame]

    for done in run(replace(scenario, faults=silent), out):
        now["round"] = done.round
    here, there = models(out), models(folder)
    if here.keys() != there.keys() or about(out, "sums") != summed:
        raise SystemExit(f"the simulation went another way: {sorted(here)} for {sorted(there)}")
    return max(float(np.abs(here[name] - there[name]).max()) for name in here)


def revealed(folder: Path) -> Counter[tuple[str, str]]:
    """What clients told whom, by their own records: how many messages."""
    found: Counter[tuple[str, str]] = Counter()
    for client in range(CLIENTS):
        for line in read(folder / f"client-{client}", "join.jsonl"):
            found.update((one["what"], line["to"]) for one in line.get("revealed", ()))
    return found


def main() -> None:
    """Play it."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        office.init(folder / "pki", "demo", CLIENTS, ["127.0.0.1"], two_servers=True, now=int(time.time()))
        begun, parties = time.monotonic(), []
        serve = ("serve", __file__, "--out", str(folder / "run"), "--listen", "127.0.0.1:0", "--patience", "20")
        try:
            coordinator = Party(folder, "coordinator", *serve)
            parties.append(coordinator)
            at = ("--coordinator", f"127.0.0.1:{coordinator.port()}")
            listen = ("--listen", f"127.0.0.1:{free_port()}", "--folder", str(folder / "second"), "--due", "20")
            second = Party(folder, "second-server", "second", __file__, *at, *listen)
            parties.append(second)
            beside = ("--second", f"127.0.0.1:{second.port()}")
            parties.append(Party(folder, "dealer", "dealer", __file__, *at, *beside, "--folder", str(folder / "dealer")))
            join = ("join", at[1], *beside, "--data", "scenario", "--scenario", __file__, "--folder")
            clients = [Party(folder, f"client-{i}", *join, str(folder / f"client-{i}")) for i in range(CLIENTS)]
            parties += clients
            due = {3: clients[KILLED], 7: second}
            while coordinator.process.poll() is None:
                time.sleep(0.05)
                played = sum(line["what"] == "round" for line in coordinator.log)
                for round in [round for round in due if played >= round]:
                    due.pop(round).again()
            codes = [party.process.wait(60) for party in parties]
        finally:
            for party in parties:
                party.process.kill()
        if coordinator.process.returncode:
            raise SystemExit((folder / "coordinator.log").read_text())
        summary = json.loads((folder / "run/summary.json").read_text())
        shared, summed = about(folder / "run", "updates"), about(folder / "run", "sums")
        without = {t: sorted(set(range(CLIENTS)) - there) for t, there in shared.items() if len(there) < CLIENTS}
        print(f"groups planted: {summary['groups']}")
        print(f"groups found:   {summary['clusters']} (adjusted Rand index {summary['ari']:.2f})")
        print(f"accuracy:       {summary['accuracy_mean']:.3f}")
        print(f"seconds:        {time.monotonic() - begun:.1f} in all, {summary['seconds']:.1f} in {summary['rounds']} rounds")
        print(f"rounds lost:    {[t for t, there in summed.items() if not there]}; without shares of clients: {without}")
        for (what, to), count in sorted(revealed(folder).items()):
            print(f"clients told:   {count} x {what} to the {to}")
        opened = Counter(kind for line in second.log if line["what"] == "told" for kind in line["said"])
        print(f"second server:  {dict(opened)}")
        print(f"processes:      {codes} (0: ended in order)")
        apart = replayed(folder / "run", folder / "replayed")
        if apart is None:
            print("replayed here:  not, as the second server was away for a part of a round")
        else:
            print(f"replayed here:  models at most {apart:.1e} apart")
        if apart is not None and apart > SAME:
            raise SystemExit("the models are not those of the simulation")


def free_port() -> int:
    """A port that nobody listens at: the second server is to be found where it was before it was killed."""
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
