"""What a second server and a dealer read of a scenario's file, in a process of its own: its protection, or words."""

import json
import subprocess
import sys

import pytest

from cloister import server_terms
from cloister.protocol import TwoServer
from cloister.protocol.links.terms import grpc_or_words

grpc_or_words()


PRINTS = """
print("a line of the file's own")
from cloister import Scenario, Training, algorithms, data, models, protections
how = {{"data": data.Digits(), "model": models.Mlp(), "algorithm": algorithms.FedAvg()}}
scenario = Scenario(name="mine", protection=protections.{how}, training=Training(epochs=1, batch=10, lr=0.1), rounds=1, **how)
"""


@pytest.fixture
def child(monkeypatch):
    """The process that reads, in this one. command: what it was started with."""
    found = {}

    def run(command, **_):
        found["command"] = command
        return subprocess.CompletedProcess(command, found.get("code", 0), json.dumps(server_terms._read(*command[4:])).encode())

    monkeypatch.setattr(server_terms.subprocess, "run", run)
    return found


def test_it_is_the_scenarios_with_what_was_set(child, tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(PRINTS.format(how="TwoServer(k=64, corrupt=1)"))
    assert server_terms.two_servers_of(f"{file}:scenario", ["protection.floor=4"]) == TwoServer(k=64, corrupt=1, floor=4)
    assert child["command"][:4] == [sys.executable, "-P", "-m", "cloister.server_terms"]
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "a line of the file's own\n")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (PRINTS.format(how="Masked()"), "is not under TwoServer: it has no second server, and no dealer"),
        (PRINTS.format(how="TwoServer(floor=0)"), "floor"),
        ("1 / 0", "ZeroDivisionError"),
        (None, "there is no file"),
    ],
    ids=["another protection", "a wrong number", "a file that fails", "no file"],
)
def test_what_cannot_be_read_is_a_line(child, tmp_path, content, words):
    file = tmp_path / "mine.py"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ValueError, match=words) as raised:
        server_terms.two_servers_of(str(file), [])
    assert "\n" not in str(raised.value)


def test_a_process_that_dies_is_said(child):
    child["code"] = -9
    with pytest.raises(ValueError, match=r"could not be read: the process that did ended with -9"):
        server_terms.two_servers_of("none.py", [])
