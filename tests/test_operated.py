"""A run as its operator has it: scraped while it goes on, stopped in order and gone on with, and nothing secret in any log."""

import base64
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import cbor2
import pytest

from cloister.deployment import descriptors
from cloister.deployment.json_lines import JsonLines
from cloister.deployment.metrics import Metrics
from cloister.fl.runs.joining import join
from cloister.fl.runs.listening import Listening
from cloister.fl.runs.member import MODEL
from cloister.fl.runs.served_journal import JOURNAL
from cloister.fl.runs.serving import serve
from cloister.fl.runs.vitals import Control
from cloister.protocol.core.halt import Halted
from cloister.protocol.drivers.event_log import EventLog
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.terms import Limits, grpc_or_words
from cloister.protocol.masked.messages import MESSAGES as MASKED
from cloister.protocol.wire.messages import MESSAGES as WORK
from cloister.protocol.wire.recipes import MESSAGES as RECIPES

from .deployed import authority, of, standing
from .deployed_scenario import scenario
from .test_deployed import TRAINED, Clients, survivors
from .test_vitals import got

grpc_or_words()
CLIENTS = range(6)
NAMES = {kind.__name__ for kind in (WORK | MASKED | RECIPES).values()}


def scraped(at):
    """By name, as Prometheus reads it."""
    status, text = got(f"{at}/metrics")
    assert status == 200
    parser = pytest.importorskip("prometheus_client.parser")
    return {s.name: s.value for family in parser.text_string_to_metric_families(text) for s in family.samples}


class Threads:
    """Clients in threads, each with a folder. ended: what each ended with, None in order. vectors: what whoever plays a client is
    handed of them, which would be kept until the next word.
    """

    def __init__(self, folder, keys):
        self.folder, self.keys, self.ended, self.threads, self.vectors = folder, keys, {}, [], 0

    def start(self, port):
        for i in CLIENTS:
            self.threads.append(threading.Thread(target=self._play, args=(i, port), daemon=True))
            self.threads[-1].start()

    def _play(self, client, port):
        try:
            link = Dialled(f"127.0.0.1:{port}", standing(self.keys, client), patience=TRAINED)
            for said in join(scenario, link, self.folder / f"client {client}"):
                self.vectors += len(said.data) + len(said.told) + len(said.final)
            self.ended[client] = None
        except Exception as error:  # the test looks at it
            self.ended[client] = error


@pytest.mark.trains
@pytest.mark.long
def test_a_run_is_scraped_and_stopped_in_order_and_gone_on_with_and_loses_nothing(tmp_path):
    keys = authority(tmp_path / "pki", 6)
    clients, control, ready, ports = Threads(tmp_path, keys), Control(), [], []
    metrics = Metrics("0", lambda: control.vitals(), 0)
    at = metrics.start()

    def listening(port):
        ready.append(got(f"{at}/ready")[0])
        ports.append(port)
        if len(ports) == 1:
            clients.start(port)

    where = Listening(
        "127.0.0.1:0", standing(keys, -1), Limits(patience=TRAINED, back=TRAINED), TRAINED, told=listening, control=control
    )
    assert got(f"{at}/health") == (503, "starting\n")
    assert got(f"{at}/ready")[0] == 503
    received = 0.0
    rounds = serve(scenario, tmp_path / "run", where)
    try:
        for done in rounds:
            assert clients.ended == {}
            found, vitals = scraped(at), control.vitals()
            assert (found["cloister_round"], found["cloister_rounds"], found["cloister_life"]) == (done.round, 4, 1)
            assert found["cloister_connected"] == found["cloister_cohort"] == 6
            assert found["cloister_accuracy"] == done.accuracy
            assert found["cloister_bytes_in_total"] > received
            assert found["cloister_unanswered_total"] == found["cloister_revoked_total"] == 0
            assert vitals.stage in NAMES
            assert (got(f"{at}/health")[0], got(f"{at}/ready")[0]) == (200, 200)
            received = found["cloister_bytes_in_total"]
            if done.round == 2:
                break
        control.stop()
        with pytest.raises(Halted):
            next(rounds)
        assert ready == [503]
        assert (got(f"{at}/health")[0], got(f"{at}/ready")[0]) == (503, 503)
        assert scraped(at)["cloister_running"] == 0
        assert clients.ended == {}  # they wait
        assert (tmp_path / "run" / JOURNAL).exists()
        control = Control()
        where = replace(where, address=f"127.0.0.1:{ports[0]}", control=control)
        assert [done.round for done in serve(scenario, tmp_path / "run", where)] == [3, 4]
        assert control.vitals().life == 2
        assert got(f"{at}/health")[0] == 503
        for thread in clients.threads:
            thread.join(TRAINED)
        assert clients.ended == dict.fromkeys(CLIENTS)
        assert clients.vectors == 0
        assert survivors(tmp_path / "run") == {t: tuple(CLIENTS) for t in range(4)}
        assert not (tmp_path / "run" / JOURNAL).exists()
    finally:
        rounds.close()
        metrics.stop()


@pytest.mark.long
def test_a_coordinator_that_waits_for_clients_is_stopped_in_order(tmp_path):
    control = Control()
    where = Listening("127.0.0.1:0", None, wait=TRAINED, control=control)
    for leave, kept in ((False, True), (True, False)):
        threading.Timer(1.0, control.stop, (leave,)).start()
        with pytest.raises(Halted):
            next(serve(scenario, tmp_path / "run", where))
        assert (tmp_path / "run" / JOURNAL).exists() == kept
        control.halt.asked = False


def coordinated(folder, keys, more=()):
    """A process of a coordinator, which logs to a file."""
    command = [sys.executable, "-m", "cloister.cli", "serve", f"{Path(__file__).with_name('deployed_scenario.py')}:scenario"]
    command += ["--keys", str(of(keys, -1)), "--out", str(folder / "run"), "--metrics", "0", "--rounds", "400", *more]
    with open(folder / "coordinator.log", "a") as log:
        return subprocess.Popen(command, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"})


def waited(find):
    """What it finds when there is something."""
    until = time.monotonic() + TRAINED
    while time.monotonic() < until:
        if found := find():
            return found
        time.sleep(0.1)
    raise AssertionError("it did not come")


def secrets(keys, run):
    """As they could be written: every private key of every party, and what the coordinator's secrets follow from."""
    for path in keys.rglob("*.key"):
        found = path.read_bytes()
        yield from (line for line in found.decode("latin1").splitlines() if len(line) >= 20 and "PRIVATE" not in line)
        yield found.hex()
    root = cbor2.loads(next(EventLog(run / JOURNAL / "setup").records()))[1]
    yield from (root.hex(), base64.b64encode(root).decode(), repr(root)[2:-1], str(list(root))[1:-1])


@pytest.mark.slow
@pytest.mark.trains
def test_signals_stop_a_coordinator_and_clients_in_order_and_no_log_has_a_secret(tmp_path):
    keys = authority(tmp_path / "pki", 6)
    clients = Clients(tmp_path, keys)

    def lines():
        return [json.loads(line) for line in (tmp_path / "coordinator.log").read_text().splitlines() if line.startswith("{")]

    def of_kind(what, **more):
        return [line for line in lines() if line["what"] == what and more.items() <= line.items()]

    process = coordinated(tmp_path, keys, ("--listen", "127.0.0.1:0"))
    try:
        clients.port = waited(lambda: of_kind("listening"))[0]["port"]
        for i in CLIENTS:
            clients.start(i)
        waited(lambda: of_kind("round", round=2))
        at = of_kind("metrics")[0]["at"]
        assert at.startswith("http://127.0.0.1:")
        text = got(at)[1]
        assert "cloister_connected 6.0" in text
        process.send_signal(signal.SIGTERM)
        assert process.wait(TRAINED) == 143
        said = [line for line in (tmp_path / "coordinator.log").read_text().splitlines() if line.startswith("cloister: ")]
        assert len(said) == 1
        assert "the same command goes on from" in said[0]
        assert said[0].endswith("and clients wait for it")
        told = waited(lambda: [line for line in clients.log(0) if line["what"] == "not connected"])
        assert "the coordinator is stopped, and may be started again" in told[0]["why"]

        clients.started[5].send_signal(signal.SIGTERM)
        assert clients.started[5].wait(TRAINED) == 143
        log = clients.folder / "client 5.log"
        assert log.read_text().splitlines()[-1] == "cloister: stopped; the same command goes on while the run lasts"
        log.write_text("")
        clients.start(5)

        process = coordinated(tmp_path, keys, ("--listen", f"127.0.0.1:{clients.port}"))
        played = len(of_kind("round"))
        waited(lambda: len(of_kind("round")) > played + 1)
        assert sorted(line["round"] for line in of_kind("round")) == list(range(len(of_kind("round"))))
        process.send_signal(signal.SIGINT)
        assert process.wait(TRAINED) == 130
        assert {i: one.wait(TRAINED) for i, one in clients.started.items()} == dict.fromkeys(CLIENTS, 3), "no model"
        assert [clients.log(i)[-1]["what"] for i in CLIENTS] == ["ended"] * 6
        assert not (clients.home(0) / MODEL).exists()
    finally:
        process.kill()
        process.wait()
        clients.stop()
    written = text + "".join(path.read_text() for path in (*tmp_path.glob("*.log"), *tmp_path.glob("client */join.jsonl")))
    written += (tmp_path / "run" / "link.json").read_text()
    found = list(secrets(keys, tmp_path / "run"))
    assert len(found) > 60
    assert not [secret for secret in found if secret in written]


def test_bytes_are_not_written_to_a_log():
    record = logging.makeLogRecord({"msg": "a", "levelname": "INFO", "key": b"secret", "path": Path("x")})
    line = json.loads(JsonLines().format(record))
    assert (line["key"], line["path"]) == ("6 bytes", "x")


def test_a_server_may_open_more_files_than_strangers_connections_take(monkeypatch):
    """A thousand connections of strangers, who need no certificate to be one, ended a coordinator."""
    limits = [(1024, 4096), (1024, descriptors.resource.RLIM_INFINITY), (1 << 20, 1 << 20), (1024, 1024)]
    found = []
    for limit in limits:
        monkeypatch.setattr(descriptors.resource, "getrlimit", lambda _, limit=limit: limit)
        monkeypatch.setattr(descriptors.resource, "setrlimit", lambda _, to: found.append(to))
        found.append(descriptors.raise_limit())
    infinite = descriptors.resource.RLIM_INFINITY
    assert found == [(4096, 4096), 4096, (1 << 16, infinite), 1 << 16, 1 << 20, 1024]
