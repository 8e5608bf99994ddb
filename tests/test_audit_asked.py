"""Arguments of an audit that name nothing are refused before anything that computes is imported."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cloister.threat_models.audit.observer import Observer, named

ASKED = {
    "there is no mechanism 'LabelCounts'; there are": ["--self-test", "--mechanism", "LabelCounts"],
    "takes no --seeds": ["--self-test", "--seeds", "1"],
    "--mechanism is of --self-test": ["cloister:quickstart", "--mechanism", "DP-SGD"],
    "name a scenario to audit": [],
    "there is no example 'quikstart'; did you mean 'quickstart'": ["cloister:quikstart"],
    "there is no file mien.py in": ["mien.py"],
    "did you mean mine.py": ["mien.py"],
    "--seeds takes numbers and ranges": ["cloister:quickstart", "--seeds", "x"],
    "'servr'": ["cloister:quickstart", "--against", "servr"],
    "there is no file own.py in": ["cloister:quickstart", "--attack", "own.py:attack"],
    "there is no example 'audit_with_atr'; did you mean 'audit_with_art'": [
        "cloister:quickstart",
        "--attack",
        "cloister:audit_with_atr",
    ],
}
CODE = """
import json, sys
from typer.testing import CliRunner
from cloister.cli import app
said = [str(CliRunner().invoke(app, ["audit", *asked]).exception) for asked in json.loads(sys.argv[1])]
print(json.dumps([said, [name for name in ("torch", "scipy", "matplotlib") if name in sys.modules]]))
"""


@pytest.mark.long
def test_nothing_that_computes_is_imported_for_them(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    command = [sys.executable, "-c", CODE, json.dumps([*ASKED.values()])]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    said, imported = json.loads(done.stdout)
    for words, one in zip(ASKED, said, strict=True):
        assert words in one
    assert imported == []


def test_a_client_goes_by_its_name_or_number() -> None:
    called = {0: "north", 1: "Site, 2", 2: "site3"}
    assert named("client:site3", called) == named("client:2", called) == server_less(2)
    assert named("clients:north,site3", called) == named("clients 0 (north), 2 (site3)", called) == server_less(0, 2)
    assert named("client:Site, 2", called) == server_less(1)
    assert named("server and client 2", called).name == "server and client 2 (site3)"
    assert [one.name for one in named("clients:0,2", called).members] == ["client 0 (north)", "client 2 (site3)"]
    with pytest.raises(ValueError, match="no client called 'site4'; did you mean 'site3'"):
        named("client:site4", called)
    with pytest.raises(ValueError, match="go by their numbers"):
        named("client:site3")
    with pytest.raises(ValueError, match="client 0 is not called 'site3'"):
        named("client:0(site3)", called)


def test_a_name_that_is_another_clients_number_is_asked_about() -> None:
    called = {0: "1", 1: "2", 2: "3"}
    with pytest.raises(ValueError, match=r"1 is a number, of client:1\(2\), and the name of client:0\(1\)"):
        named("client:1", called)
    assert named("client:1(2)", called) == server_less(1)


def server_less(*clients: int) -> Observer:
    return Observer(clients=frozenset(clients))
