"""A SuperLink under TLS and SuperNodes with keys that it knows, in processes of their own: a run of the example."""

import json
import sqlite3
import stat
import time
from dataclasses import replace
from pathlib import Path

import cbor2
import pytest

from cloister.fl.runs.experiment import run
from cloister.scenario_file import load

from .flower_federation import Federation
from .test_flower import check_equal, models, summed

pytest.importorskip("flwr")
APP = Path(__file__).parents[1] / "examples/flower"
ROUNDS = 3


@pytest.fixture
def federation(tmp_path_factory):
    found = Federation(tmp_path_factory.mktemp("f"))
    try:
        found.start()
        yield found
    finally:
        found.stop()


@pytest.mark.slow
@pytest.mark.trains
def test_the_example_runs_in_a_federation(federation, tmp_path):
    begun = time.monotonic()
    ended = federation.run(APP, 3000, out=str(tmp_path / "out"), rounds=ROUNDS)
    assert ended == "finished:completed", federation.log("run")
    list(run(replace(load(str(APP / "hospitals/scenario.py")), rounds=ROUNDS), tmp_path / "simulated"))
    check_equal(models(tmp_path / "out"), models(tmp_path / "simulated"))
    assert summed(tmp_path / "out") == {t: {0, 1, 2, 3} for t in range(ROUNDS)}
    link = json.loads((tmp_path / "out/link.json").read_text())
    assert (link["unanswered"], link["late"]) == ({}, 0)
    print(f"{link['stages']} stages in {time.monotonic() - begun:.0f} s")
    logs = "".join(path.read_text(errors="replace") for path in federation.folder.glob("*.log"))
    for node in federation.nodes:
        (home,) = federation.home(node).iterdir()
        assert {"journal", "join.jsonl", "model.safetensors"} <= {path.name for path in home.iterdir()}
        for path in (home, *home.iterdir()):
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
        record = [json.loads(line) for line in (home / "join.jsonl").read_text().splitlines()]
        assert record[-1]["ended"]
        assert "Upload" not in {one["what"] for line in record for one in line.get("revealed", ())}
        for secret in secrets_of(home):
            assert secret.hex() not in logs


def secrets_of(home):
    """What a client's journal began with: its identities' secrets, and the run's seed."""
    with sqlite3.connect(home / "journal") as journal:
        ((begun,),) = journal.execute("SELECT entry FROM entries WHERE key = 'begun'")
    _, kept, _, seed = cbor2.loads(begun)
    return [*kept.values(), seed]
