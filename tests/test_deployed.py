"""A coordinator and clients in processes of their own, over TLS: models are those of a simulation that loses what was lost."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from cloister.fl.runs.experiment import run
from cloister.fl.runs.listening import Listening
from cloister.fl.runs.serving import check_served, serve
from cloister.protocol import Masked
from cloister.protocol.core.errors import Refused
from cloister.protocol.links.terms import Limits, grpc_or_words

from .deployed import authority, of, standing
from .deployed_scenario import owned, plain, scenario

grpc_or_words()
KILLED, LATE = 3, 4
TRAINED = 240.0
"""Seconds after which a test of processes gives up to wait for something."""


class Clients:
    """Processes of clients, each with a folder."""

    def __init__(self, folder, keys, scenario="scenario"):
        self.folder, self.keys, self.started, self.port, self.scenario = folder, keys, {}, 0, scenario

    def start(self, client, *more):
        command = [sys.executable, "-m", "cloister.cli", "join", f"127.0.0.1:{self.port}"]
        command += ["--scenario", f"{Path(__file__).with_name('deployed_scenario.py')}:{self.scenario}"]
        command += ["--folder", str(self.home(client)), "--keys", str(of(self.keys, client)), "--data", "scenario", *more]
        with open(self.folder / f"client {client}.log", "a") as log:
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            self.started[client] = subprocess.Popen(command, stderr=log, env=environment)

    def home(self, client):
        return self.folder / f"client {client}"

    def log(self, client):
        return [json.loads(line) for line in (self.folder / f"client {client}.log").read_text().splitlines()]

    def wait_for(self, client, what, times):
        """Until its log says it so often."""
        until = time.monotonic() + TRAINED
        while sum(line["what"] == what for line in self.log(client)) < times:
            assert time.monotonic() < until, self.log(client)
            time.sleep(0.1)

    def stop(self):
        for process in self.started.values():
            process.kill()
            process.wait()


def survivors(folder):
    """Of each round, whom its sum was about."""
    log = [json.loads(line) for line in (folder / "disclosure.jsonl").read_text().splitlines()]
    return {line["round"]: tuple(line["about"]) for line in log if (line["recipient"], line["what"]) == ("server", "sums")}


def models(folder):
    return {path.name: load_file(path) for path in sorted((folder / "models").glob("*.safetensors"))}


@pytest.mark.slow
@pytest.mark.trains
def test_a_killed_client_and_a_late_one_are_left_out_of_a_round_and_are_back_in_the_next(tmp_path):
    keys = authority(tmp_path / "pki", 6)
    clients, now = Clients(tmp_path, keys), {"round": 0}

    def listening(port):
        clients.port = port
        for i in range(6):
            clients.start(i)

    def fate(frame):
        if now["round"] == 1 and (frame.sender, frame.kind) == (KILLED, "SealedShares"):
            clients.started[KILLED].kill()
        if now["round"] == 2 and (frame.receiver, frame.kind) == (LATE, "Task"):
            clients.started[LATE].send_signal(signal.SIGSTOP)
        return [frame]

    where = Listening(
        "127.0.0.1:0",
        standing(keys, -1),
        Limits(patience=4.0, back=1.0),
        TRAINED,
        told=listening,
    )
    try:
        for done in serve(replace(scenario, faults=fate), tmp_path / "served", where):
            now["round"] = done.round
            if done.round == 2:
                clients.start(KILLED)
                clients.wait_for(KILLED, "connected", 2)
            if done.round == 3:
                clients.started[LATE].send_signal(signal.SIGCONT)
                time.sleep(2)
        ended = {i: process.wait(TRAINED) for i, process in clients.started.items()}
        assert ended == dict.fromkeys(range(6), 0)
    finally:
        clients.stop()
    everybody = tuple(range(6))
    found = survivors(tmp_path / "served")
    without = {1: KILLED, 2: LATE}
    assert found == {t: tuple(i for i in everybody if i != without.get(t)) for t in range(4)}
    link = json.loads((tmp_path / "served/link.json").read_text())
    assert link["slow"] == 1
    assert link["unanswered"].keys() == {str(KILLED), str(LATE)}
    assert link["refused"] == link["displaced"] == 0

    def lost(frame):  # the same, in one process
        gone = frame.sender == without.get(now["round"]) and frame.kind == "MaskedInput"
        return [] if gone else [frame]

    now["round"] = 0
    for done in run(replace(scenario, faults=lost), tmp_path / "simulated"):
        now["round"] = done.round
    assert survivors(tmp_path / "simulated") == found
    served, simulated = models(tmp_path / "served"), models(tmp_path / "simulated")
    assert served.keys() == simulated.keys()
    for name, tensors in simulated.items():
        for part, tensor in tensors.items():
            assert np.abs(served[name][part] - tensor).max() < 1e-5
    for i in everybody:
        check_what_a_client_has(clients.home(i), served["0.safetensors"])


@pytest.mark.slow
@pytest.mark.trains
def test_a_run_begins_with_enough_clients_and_who_comes_late_takes_part_from_the_next_round_on(tmp_path):
    keys = authority(tmp_path / "pki", 6)
    clients = Clients(tmp_path, keys, "plain")

    def listening(port):
        clients.port = port
        for i in range(5):
            clients.start(i)

    where = Listening("127.0.0.1:0", standing(keys, -1), Limits(patience=20.0, back=1.0), TRAINED, 5, listening)
    try:
        for done in serve(plain, tmp_path / "served", where):
            if done.round == 2:
                clients.start(5)
                clients.wait_for(5, "connected", 1)
        assert {i: process.wait(TRAINED) for i, process in clients.started.items()} == dict.fromkeys(range(6), 0)
    finally:
        clients.stop()
    log = [json.loads(line) for line in (tmp_path / "served/disclosure.jsonl").read_text().splitlines()]
    about = {line["round"]: set(line["about"]) for line in log if (line["recipient"], line["what"]) == ("server", "updates")}
    assert about == {0: set(range(5)), 1: set(range(5)), 2: set(range(6)), 3: set(range(6))}


@pytest.mark.slow
@pytest.mark.trains
def test_clients_that_own_their_models_have_those_of_a_simulation_and_say_how_well_they_do_if_they_like(tmp_path):
    keys = authority(tmp_path / "pki", 6)
    clients = Clients(tmp_path, keys, "owned")

    def listening(port):
        clients.port = port
        for i in range(6):
            clients.start(i, *(["--no-scores"] if i == 2 else []))

    where = Listening("127.0.0.1:0", standing(keys, -1), Limits(patience=60.0, back=1.0), TRAINED, told=listening)
    try:
        for _ in serve(owned, tmp_path / "served", where):
            pass
        assert {i: process.wait(TRAINED) for i, process in clients.started.items()} == dict.fromkeys(range(6), 0)
    finally:
        clients.stop()
    for _ in run(owned, tmp_path / "simulated"):
        pass
    served, simulated = (
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("served", "simulated")
    )
    assert len(simulated[-1]["clusters"]) > 1
    for mine, theirs in zip(served, simulated, strict=True):
        assert mine["clusters"] == theirs["clusters"]
        assert mine["accuracy"] == {i: value for i, value in theirs["accuracy"].items() if i != "2"}
    assert not models(tmp_path / "served")
    for name, members in simulated[-1]["clusters"].items():
        expected = load_file(tmp_path / "simulated/models" / f"{name}.safetensors")
        for i in members:
            final = load_file(clients.home(i) / "model.safetensors")
            assert all(np.abs(final[part] - tensor).max() < 1e-4 for part, tensor in expected.items())
    record = (clients.home(2) / "join.jsonl").read_text()
    assert '"withheld"' in record
    assert (
        subprocess.run(
            [sys.executable, "-m", "cloister", "report", str(clients.home(2))], check=False, capture_output=True
        ).returncode
        == 0
    )
    assert (clients.home(2) / "report.html").exists()


def check_what_a_client_has(home, model):
    """Its journal, its record and its final model, which nobody else can read."""
    final = load_file(home / "model.safetensors")
    assert all((final[part] == tensor).all() for part, tensor in model.items())
    assert stat.S_IMODE((home / "journal").stat().st_mode) == stat.S_IMODE((home / "join.jsonl").stat().st_mode) == 0o600
    record = [json.loads(line) for line in (home / "join.jsonl").read_text().splitlines()]
    assert record[0]["started"]
    assert next(line["client"] for line in record if "client" in line) == int(home.name.split()[-1])
    revealed = {one["what"] for line in record for one in line.get("revealed", [])}
    assert {"Ready", "MaskKeys", "SealedShares", "MaskedInput", "SurvivorSignature", "Reveal"} <= revealed
    assert "Upload" not in revealed
    assert record[-1]["ended"]


def test_what_is_not_played_between_processes_is_refused_in_words():
    class Third:
        gives = Masked().gives

        def open(self, setup):
            return Masked().open(setup)

    other = replace(scenario, protection=Third())
    with pytest.raises(Refused, match="not played between processes yet; use Masked, Plain, Permuted, Encrypted or TwoServer"):
        check_served(other)
