"""Runs over Flower's messages: equal to a simulation, secrets nowhere but in a client's own folder; a client killed, or lying."""

import json
import os
import signal
import socket
import sqlite3
import stat
import struct
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import cbor2
import numpy as np
import pytest
from safetensors.numpy import load_file

from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.runs.experiment import run
from cloister.fl.runs.greeting import Greeting
from cloister.fl.runs.member import Member
from cloister.flower import client_app, home, server_app
from cloister.flower.client import resident_of
from cloister.flower.content import ACTION, bytes_in, content_of
from cloister.flower.resident import GREETING, Resident
from cloister.flower.server import nodes_there, play
from cloister.flower.who import WHO, id_reply, nodes_of
from cloister.protocol import Masked, Plain
from cloister.protocol.core.errors import Refused
from cloister.protocol.links.batches import Answers, Batch
from cloister.scenario_file import load

from .fake_flower import Grid, Message, installed
from .served import SMALL, Served, check_models, check_same, simulated
from .test_served import COMPARED, ONCE, SWAPPED, emd

SCENARIO = Path(__file__).parents[1] / "examples/flower/hospitals/scenario.py"
CLIENTS = range(4)


@pytest.fixture
def flower(monkeypatch):
    installed(monkeypatch)


class Nodes:
    """Clients at a fake grid's nodes 100, 101, ...: their processes are objects here, and are killed by being forgotten."""

    def __init__(self, folder, scenario):
        self.folder, self.scenario, self.bytes, self.batches = folder, scenario, [], []
        self.residents = {i: self.made(i) for i in CLIENTS}
        self.grid = Grid({100 + i: lambda message, i=i: self.answer(i, message) for i in CLIENTS})
        self.before = lambda client, batch: None

    def home(self, client):
        return self.folder / f"client {client}"

    def made(self, client):
        folder = home.private_folder(self.home(client))
        return Resident(folder, client, lambda data: Member(self.scenario, Greeting.of(data), folder))

    def answer(self, client, message):
        data = bytes_in(message.content)
        if data == WHO:
            return content_of(id_reply(client))
        self.batches.append((client, Batch.of(data)))
        self.before(client, self.batches[-1][1])
        answer = self.residents[client].answer(data)
        self.bytes += [data, answer]
        return content_of(answer)


def models(folder):
    return {path.name: load_file(path) for path in sorted((folder / "models").glob("*.safetensors"))}


def summed(folder):
    """Of each round, whom its sums were about."""
    log = [json.loads(line) for line in (folder / "disclosure.jsonl").read_text().splitlines()]
    found = {}
    for line in log:
        if (line["recipient"], line["what"]) == ("server", "sums"):
            found.setdefault(line["round"], set()).update(line["about"])
    return found


def check_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, tensors in expected.items():
        for part, tensor in tensors.items():
            assert np.abs(found[name][part] - tensor).max() < 1e-5


@pytest.mark.trains
@pytest.mark.long
def test_a_run_is_that_of_a_simulation_and_no_secret_is_in_a_message(tmp_path, flower):
    scenario = load(str(SCENARIO))
    nodes = Nodes(tmp_path, scenario)
    rounds = list(play(scenario, tmp_path / "flower", nodes.grid))
    list(run(scenario, tmp_path / "simulated"))
    assert rounds[-1].clusters == 2
    check_equal(models(tmp_path / "flower"), models(tmp_path / "simulated"))
    link = json.loads((tmp_path / "flower/link.json").read_text())
    assert (link["messages"], link["unanswered"]) == (len(nodes.batches), {})
    assert link["messages"] <= 4 * link["stages"]
    assert max(len(batch.words) for _, batch in nodes.batches) > 1
    for i in CLIENTS:
        assert {path.name for path in nodes.home(i).iterdir()} >= {"journal", "join.jsonl", "model.safetensors", GREETING}
        with sqlite3.connect(nodes.home(i) / "journal") as journal:
            ((begun,),) = journal.execute("SELECT entry FROM entries WHERE key = 'begun'")
        _, kept, _, seed = cbor2.loads(begun)
        assert len(kept) >= 2
        for secret in (*kept.values(), seed):
            assert not any(secret in data for data in nodes.bytes)


@pytest.mark.long
@pytest.mark.trains
def test_a_client_whose_process_is_killed_is_left_out_of_that_round_and_back_in_the_next(tmp_path, flower):
    scenario = replace(load(str(SCENARIO)), rounds=3)
    nodes, killed = Nodes(tmp_path, scenario), []

    def kill(client, batch):
        if client == 2 and not killed and len(rounds) == 1 and shares_came(nodes, 2):
            killed.append(batch.number)
            nodes.residents[2] = nodes.made(2)  # a new process, from its folder

    nodes.before, rounds = kill, []
    for done in play(scenario, tmp_path / "flower", nodes.grid):
        rounds.append(done)
    assert killed
    assert summed(tmp_path / "flower") == {0: {0, 1, 2, 3}, 1: {0, 1, 3}, 2: {0, 1, 2, 3}}
    assert (nodes.home(2) / "model.safetensors").is_file()


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"algorithm": IFCA(models=2), "protection": Masked(floor=2, slot_spare=0), "partition": SWAPPED},
        {"algorithm": emd(ONCE), **COMPARED},
    ],
    ids=["clients own the models", "slots", "pairs"],
)
def test_whatever_is_served_is_played_so_too(changes, tmp_path, flower):
    scenario = replace(SMALL, **changes)
    nodes = Nodes(tmp_path, scenario)
    list(play(scenario, tmp_path / "flower", nodes.grid))
    found = Served(tmp_path / "flower", {i: nodes.home(i) for i in CLIENTS})
    expected = simulated(scenario, tmp_path)
    check_same(found, expected)
    check_models(found, expected)
    assert found.summary["scored"] == {"clients": 4, "of": 4}


def shares_came(nodes, client):
    """Whether it has sent the shares of its masks in a second round."""
    record = [json.loads(line) for line in (nodes.home(client) / "join.jsonl").read_text().splitlines()]
    return sum(one["what"] == "SealedShares" for line in record for one in line.get("revealed", ())) == 2


@pytest.mark.trains
def test_a_client_that_agreed_to_something_else_ends_the_run_in_words(tmp_path, flower):
    scenario = load(str(SCENARIO))
    nodes = Nodes(tmp_path, scenario)
    with pytest.raises(Refused, match=r"^clients \[0, 1, 2, 3\] refuse: the coordinator plays Plain\(.*\), where this"):
        list(play(replace(scenario, protection=Plain()), tmp_path / "out", nodes.grid))


@pytest.mark.parametrize("there", ["scenario.json", "audit.json"])
def test_a_folder_that_is_not_free_is_refused_by_what_a_run_configuration_may_have(tmp_path, there):
    """It advised `--resume` and `--out`, of which Flower has neither."""
    (tmp_path / there).write_text("{}")
    with pytest.raises(ValueError, match="give another folder as out in the run's configuration") as refused:
        next(play(load(str(SCENARIO)), tmp_path, None))
    assert "resume" not in str(refused.value)
    assert "--out" not in str(refused.value)


# --- who is where ---------------------------------------------------------------------------------------------------------


def test_nodes_say_which_client_they_are_and_two_cannot_be_one():
    said = {7: id_reply(1), 9: id_reply(0), 8: id_reply(5), 6: None, 5: b"\xff", 4: cbor2.dumps("0"), 3: cbor2.dumps(True)}
    assert nodes_of(said, (0, 1)) == {0: 9, 1: 7}
    with pytest.raises(Refused, match="nodes 7 and 10 both say that they are client 1"):
        nodes_of({**said, 10: id_reply(1)}, (0, 1))


def test_without_all_clients_a_run_does_not_begin(flower):
    grid = Grid({7: lambda _: content_of(id_reply(1)), 8: lambda _: None})
    with pytest.raises(ValueError, match=r"clients \[0\] are not there"):
        nodes_there(grid, (0, 1), 0.5)
    assert len(grid.sent) == 2  # each node was asked once


# --- a client's process ---------------------------------------------------------------------------------------------------


class Counting:
    """A member that answers with how often it was told something."""

    def __init__(self, greeting=b""):
        self.told = 0
        self.record = SimpleNamespace(add=lambda **_: None)

    def said(self, word):
        self.told += 1
        return SimpleNamespace(final=b"", data=b"%d" % self.told)


def told(resident, number, *words, greeting=b""):
    return Answers.of(resident.answer(Batch(number, greeting, tuple(enumerate(words))).encoded()))


def test_a_message_that_comes_twice_is_done_once(tmp_path):
    resident = Resident(tmp_path, 0, Counting)
    first = told(resident, 1, b"a", b"b", greeting=b"hello")
    assert first.answers == ((0, b"1"), (1, b"2"))
    assert told(resident, 1, b"a", b"b", greeting=b"hello") == first
    assert told(resident, 2, b"c").answers == ((0, b"3"),)
    assert "from before" in told(resident, 1, b"a").refusal
    assert told(resident, 3, b"d").answers == ((0, b"4"),)
    assert resident.answer(b"\xff") == Answers(0, refusal="a message that is none").encoded()


def test_a_client_is_greeted_once_in_a_run_also_after_a_crash(tmp_path):
    resident = Resident(tmp_path, 0, Counting)
    assert "before the greeting" in told(resident, 1, b"a").refusal
    assert told(resident, 2, b"a", greeting=b"hello").answers
    for again in (resident, Resident(tmp_path, 0, Counting)):
        assert "otherwise" in told(again, 3, b"a", greeting=b"hello, others").refusal
        assert told(again, 3, b"a").answers


def test_a_greeting_that_is_refused_is_not_kept(tmp_path):
    def never(greeting):
        raise Refused("not with me")

    assert told(Resident(tmp_path, 0, never), 1, b"a", greeting=b"hello").refusal == "not with me"
    assert not (tmp_path / GREETING).exists()


def test_a_client_is_what_its_nodes_configuration_says(tmp_path):
    node = {"cloister-folder": str(tmp_path / "c"), "partition-id": 3}
    folder, client, arguments = resident_of("theirs.py", node, 12)
    assert (folder, client, arguments) == (tmp_path / "c/run-12", 3, ["theirs.py"])
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    mine = {**node, "cloister-scenario": "mine.py", "cloister-own": "mine.csv"}
    assert resident_of("theirs.py", mine, 12)[2] == ["mine.py", "--own", "mine.csv"]
    for missing in node:
        with pytest.raises(Refused, match=missing):
            resident_of("theirs.py", {key: value for key, value in node.items() if key != missing}, 12)


def test_a_folder_that_others_look_into_and_one_with_no_room_for_a_socket_are_refused(tmp_path):
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(Refused, match="chmod 700"):
        home.private_folder(tmp_path / "open")
    with pytest.raises(Refused, match="too long"):
        home.private_folder(tmp_path / ("x" * 100))


def test_a_message_that_announces_too_much_or_breaks_off_is_none():
    here, there = socket.socketpair()
    with here, there:
        here.sendall(struct.pack(">Q", home.MOST_BYTES + 1))
        with pytest.raises(ConnectionError, match="too long"):
            home.receive(there)
        here.sendall(struct.pack(">Q", 1 << 29) + b"x")
        here.close()
        with pytest.raises(ConnectionError, match="gone"):
            home.receive(there)


@pytest.mark.long
def test_the_app_starts_a_process_that_stays_and_another_when_it_was_killed(tmp_path, flower):
    scenario = tmp_path / "none.py"
    take = client_app(scenario).queries[ACTION]
    node = {"cloister-folder": str(tmp_path / "c"), "partition-id": 3, "cloister-idle": 60}
    context = SimpleNamespace(node_config=node, run_id=5, state=SimpleNamespace())

    def ask(data):
        return bytes_in(take(Message(content_of(data)), context).content)

    folder = tmp_path / "c/run-5"

    def process():
        (found,) = [int(pid) for pid in os.listdir("/proc") if pid.isdecimal() and f"resident\0{folder}\0" in command_of(pid)]
        return found

    started = []
    try:
        assert cbor2.loads(ask(WHO)) == 3
        started.append(process())
        assert stat.S_IMODE((folder / home.SOCKET).stat().st_mode) & 0o077 == 0
        refusal = Answers.of(ask(Batch(1, b"hello", ((1, b"x"),)).encoded())).refusal
        assert refusal.startswith(f"there is no file {scenario}")
        assert process() == started[0]
        os.kill(started[0], signal.SIGKILL)
        until = time.monotonic() + 60
        while Path(f"/proc/{started[0]}").exists() and "Z" not in Path(f"/proc/{started[0]}/stat").read_text().split()[2]:
            assert time.monotonic() < until
            time.sleep(0.02)
        with pytest.raises(ConnectionError, match="no process"):
            home.asked(folder, WHO)
        assert Answers.of(ask(Batch(2, b"hello", ((1, b"x"),)).encoded())).refusal == refusal
        started.append(process())
        assert started[1] != started[0]
        assert vars(context.state) == {}
    finally:
        if started:
            os.kill(started[-1], signal.SIGKILL)


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


@pytest.mark.trains
@pytest.mark.long
def test_the_server_app_plays_a_run_of_its_configuration(tmp_path, flower, capsys):
    nodes = Nodes(tmp_path, replace(load(str(SCENARIO)), rounds=1))
    played = server_app(SCENARIO).played
    played(nodes.grid, SimpleNamespace(run_id=9, run_config={"rounds": 1, "out": str(tmp_path / "out"), "data": "", "wait": 5.0}))
    assert "1 of 1 rounds played: 1 clusters" in capsys.readouterr().out
    assert (tmp_path / "out/report.html").is_file()
