"""`cloister rerun`: a run is played again from its own record, and what came out otherwise is said."""

import html
import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import cloister as face
from cloister import cli
from cloister.fl.data.population import Client, Examples, Population
from cloister.fl.runs import origin
from cloister.fl.runs.repetition import Repetition
from cloister.reporting.repeat import CKKS_DRAWS
from cloister.rerunning import in_words
from cloister.scenario_file import load

SMALL = """
from cloister import Scenario, Training, algorithms, data, models, partitions, protections

scenario = Scenario(
    name="small",
    data=data.Digits(),
    partition=partitions.Iid(clients=5, samples=20, shared_test=True),
    model=models.Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=algorithms.FedAvg(),
    protection=protections.Masked(),
    rounds=2,
)
other = scenario
"""


PARTITION = "    partition=partitions.Iid(clients=5, samples=20, shared_test=True),\n"


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("small.py").write_text(SMALL)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["cloister", *words])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        return int(caught.value.code or 0), said.out, said.err

    return run


@pytest.mark.trains
def test_a_folder_to_play_it_into_that_is_not_free_says_nothing_of_the_data(command):
    assert command("run", "small.py:other", "--out", "r")[0] == 0
    code, _, said = command("rerun", "r", "--out", "r")
    assert code == 1
    assert said == "cloister: r already holds a run; choose another folder by --out (out= in Python)\n"


@pytest.mark.long
@pytest.mark.trains
def test_a_run_is_repeated_from_its_folder_alone_bit_for_bit(command):
    assert command("run", "small.py:other", "--set", "training.lr=0.3", "--rounds", "3", "--seed", "7", "--out", "r")[0] == 0
    recorded = json.loads(Path("r/origin.json").read_text())
    assert recorded["settings"] == ["training.lr=0.3", "rounds=3", "seed=7"]
    assert (recorded["file"], recorded["name"], recorded["source"]) == ("small.py:other", "other", SMALL)
    assert re.fullmatch("[0-9a-f]{64}", recorded["data_sha256"])
    Path("small.py").unlink()
    code, said, _ = command("rerun", "r", "--out", "again")
    assert (code, said.splitlines()[0]) == (
        0,
        "the same, bit for bit: 1 model, the numbers of 3 rounds, 18 answers, accounts and summary",
    )
    assert json.loads(Path("again/origin.json").read_text()) == recorded
    code, said, _ = command("rerun", "again", "--against", "r", "--json")
    assert code == 0
    assert json.loads(said)["same"] is True


@pytest.mark.trains
@pytest.mark.long
def test_a_run_that_was_gone_on_with_is_repeated_as_a_whole(command):
    assert command("run", "small.py", "--rounds", "1", "--out", "r")[0] == 0
    assert command("run", "small.py", "--rounds", "3", "--out", "r", "--resume")[0] == 0
    assert "the numbers of 3 rounds" in command("rerun", "r", "--out", "again")[1]


@pytest.mark.trains
@pytest.mark.long
def test_under_encryption_it_is_said_why_nothing_comes_out_the_same(command):
    named = ("--set", "protection=Encrypted()", "--set", "algorithm=FedAvg(by_samples=False)", "--rounds", "1")
    assert command("run", "small.py", *named, "--out", "r")[0] == 0
    code, said, _ = command("rerun", "r", "--out", "again")
    assert code == 4
    assert said.splitlines()[-1] == CKKS_DRAWS
    assert CKKS_DRAWS in html.unescape(Path("r/report.html").read_text())


@pytest.mark.long
@pytest.mark.trains
def test_what_came_out_otherwise_is_said_and_what_is_different(command):
    command("run", "small.py", "--out", "r")
    assert command("run", "small.py", "--set", "partition.samples=25", "--out", "other")[0] == 0
    code, said, _ = command("rerun", "r", "--against", "other")
    assert code == 4
    assert said.startswith("not the same: models are up to ")
    assert "compared with other" in said.splitlines()
    assert "the data: their checksums differ" in said
    assert "the scenario: another partition" in said
    shutil.copytree("r", "moved")
    model = next(Path("moved/models").glob("*.safetensors"))
    tensors = load_file(model)
    name = next(iter(tensors))
    tensors[name].flat[0] = np.nextafter(tensors[name].flat[0], np.float32(9))  # a single last bit
    save_file(tensors, model)
    record = json.loads(Path("moved/origin.json").read_text())
    record["versions"]["torch"], record["machine"]["processor"] = "0.0", "an abacus"
    Path("moved/origin.json").write_text(json.dumps(record))
    code, said, _ = command("rerun", "r", "--against", "moved")
    assert code == 4
    assert "apart, where parameters are up to" in said
    assert "accuracy" not in said  # the numbers are the same
    assert re.search(r"torch: \S+ then, 0.0 now", said)
    assert "an abacus now" in said


@pytest.mark.long
@pytest.mark.trains
def test_accounts_and_the_summary_are_compared_too(command):
    command("run", "small.py", "--out", "r")
    assert command("run", "small.py", "--out", "s")[0] == 0
    assert command("rerun", "r", "--against", "s")[0] == 0  # seconds differ, and are no number of the run
    Path("r/privacy.json").write_text('{"record": {"epsilon_worst": 1.0, "clients": {"0": {"epsilon": 1.0}}}}')
    Path("s/privacy.json").write_text('{"record": {"epsilon_worst": 0.5, "clients": {"0": {"epsilon": 1.0}}}}')
    code, said, _ = command("rerun", "r", "--against", "s")
    assert (code, "privacy.json differs in record.epsilon_worst;" in said.splitlines()[0] + ";") == (4, True)
    Path("s/privacy.json").unlink()
    assert "privacy.json differs in record" in command("rerun", "r", "--against", "s")[1]
    Path("s/privacy.json").write_text("{")
    assert "privacy.json is damaged" in command("rerun", "r", "--against", "s")[2]
    shutil.copy("r/privacy.json", "s/privacy.json")
    summary = json.loads(Path("s/summary.json").read_text())
    Path("s/summary.json").write_text(json.dumps(summary | {"accuracy_mean": 0.99, "account": {**summary["account"], "sums": 1}}))
    code, said, _ = command("rerun", "r", "--against", "s")
    assert (code, "summary.json differs in accuracy_mean, account.sums" in said) == (4, True)
    shutil.copy("r/summary.json", "s/summary.json")
    beside = summary | {"yardsticks": {"alone": 0.5}}
    Path("r/summary.json").write_text(json.dumps(beside))
    assert command("rerun", "r", "--against", "s")[0] == 0  # runs beside it that one of them has not are no part of the run
    Path("s/summary.json").write_text(json.dumps(beside | {"yardsticks": {"alone": 0.6}}))
    assert "summary.json differs in yardsticks.alone" in command("rerun", "r", "--against", "s")[1]
    for folder in ("r", "s"):
        Path(folder, "summary.json").write_text(json.dumps(summary))
    lines = Path("s/account.jsonl").read_text().splitlines()
    Path("s/account.jsonl").write_text("\n".join(lines[:-1]) + "\n")
    assert "the account of opened sums (account.jsonl) differs" in command("rerun", "r", "--against", "s")[1]


@pytest.mark.parametrize("computed", [True, False])
def test_what_was_changed_in_a_folder_is_not_laid_to_a_library(computed, tmp_path):
    """An epsilon that was written over: "a library may draw or order by itself"."""
    found = Repetition(False, ("privacy.json differs in record.epsilon_worst",), (), 1, 3, 9, computed)
    last = in_words(found, tmp_path)[-1]
    assert last.endswith("was changed in one of the folders" if computed else "a library may draw or order by itself")


@pytest.mark.long
@pytest.mark.trains
def test_a_folder_whose_scenario_is_not_its_own_is_inconsistent(command):
    command("run", "small.py", "--out", "r")
    begun = json.loads(Path("r/scenario.json").read_text())
    begun["training"]["lr"] = 0.3
    Path("r/scenario.json").write_text(json.dumps({**begun, "seed": 5}))
    code, said, failed = command("rerun", "r", "--out", "again")
    assert (code, said) == (4, "")
    assert "inconsistent" in failed
    assert failed.strip().endswith("another training.lr, seed")
    assert not Path("again").exists()


@pytest.mark.trains
@pytest.mark.long
def test_what_cannot_be_repeated_says_why(command):
    scenario = load("small.py")
    face.run(scenario, "python", quiet=True)
    code, _, said = command("rerun", "python")
    assert code == 1
    assert "was played from Python, which has its scenario: play it there again, cloister.run(scenario), and compare" in said
    face.run(scenario, "python2", quiet=True)
    assert command("rerun", "python", "--against", "python2")[0] == 0
    next(face.iterate(scenario, "half"))
    assert "the run in half is not over" in command("rerun", "half")[2]
    assert "there is no folder nowhere" in command("rerun", "nowhere")[2]
    Path("runs/pics-seed0").mkdir(parents=True)
    assert "there is no folder runs/pics; did you mean runs/pics-seed0" in command("rerun", "runs/pics")[2]
    Path("empty").mkdir()
    assert "empty does not say what it is a run of" in command("rerun", "empty")[2]
    for name, kind in (("comparison", "a comparison"), ("search", "a search")):
        Path(name).mkdir()
        Path(name, f"{name}.json").write_text("{}")
        assert f"{name} is the folder of {kind}: play it anew by its own command" in command("rerun", name)[2]
    for text in ("no JSON", "[]", '{"file": 3, "source": "", "name": "", "settings": []}', '{"file": null}'):
        Path("python/origin.json").write_text(text)
        assert "origin.json is damaged" in command("rerun", "python")[2]


@pytest.mark.long
@pytest.mark.trains
def test_what_the_first_run_did_not_meet_is_said_to_be_new(command):
    Path("a.csv").write_text("home,x,label\n" + "".join(f"h{k % 3},{k / 60},{k % 2}\n" for k in range(60)))
    Path("own.py").write_text(SMALL.replace("data.Digits()", 'data.from_csv("a.csv", client="home")').replace(PARTITION, ""))
    assert command("run", "own.py", "--out", "r")[0] == 0
    with Path("a.csv").open("a") as file:
        file.write("h1,much,1\n")
    code, _, said = command("rerun", "r")
    assert code == 1
    assert "much" in said
    assert "; the run in r met no such thing: its data are not where they are looked for" in said


@pytest.mark.long
@pytest.mark.trains
def test_the_report_repeats_in_the_same_words(command):
    command("run", "small.py", "--set", "training.lr=0.3", "--out", "a run")
    page = html.unescape(Path("a run/report.html").read_text())
    assert "cloister rerun 'a run'" in page
    assert "cloister run small.py --set training.lr=0.3" in page
    assert json.loads(Path("a run/origin.json").read_text())["data_sha256"][:16] in page
    face.run(load("small.py"), "python", quiet=True)
    page = html.unescape(Path("python/report.html").read_text())
    assert "cloister.run(scenario)" in page
    assert "cloister rerun python --against OTHER_FOLDER" in page


def test_the_checksum_is_of_every_record_label_and_client():
    def population(x=0.0, y=0, where=1, test=0.0, kind=torch.float32):
        clients = {i: Client(i, Examples(torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64)),
                             Examples(torch.full((1, 2), test), torch.zeros(1, dtype=torch.int64))) for i in (0, 1)}  # fmt: skip
        train = clients[1].train
        train.x[2, 1], train.y[1] = x, y
        changed = replace(clients[1], train=Examples(train.x.to(kind), train.y))
        return Population({0: clients[0], where: replace(changed, id=where)}, {}, 2, (2,))

    plain = origin.checksum(population())
    assert plain == origin.checksum(population())
    others = [population(x=1e-7), population(y=1), population(where=2), population(test=1e-7), population(kind=torch.float64)]
    assert len({plain, *map(origin.checksum, others)}) == 6


def test_the_commit_is_of_this_source_tree_or_of_none(tmp_path, monkeypatch):
    found = origin.commit()
    assert found is None or re.fullmatch("[0-9a-f]{40}(-dirty)?", found)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert origin.commit() is None


@pytest.mark.long
@pytest.mark.trains
def test_a_finished_module_is_said_to_be_drawn_anew(command):
    Path("small.py").write_text(SMALL.replace("models.Mlp(hidden=(8,))", "FINISHED").replace("\n\nscenario", NET, 1))
    code, _, noted = command("run", "small.py", "--out", "runs/r")
    assert code == 0
    assert "the model is a finished module: a module's weights are drawn wherever the file is read" in noted
    page = html.unescape(Path("runs/r/report.html").read_text())
    assert "Its model is a finished module" in page
    assert "cloister rerun runs/r" in page
    code, said, _ = command("rerun", "runs/r", "--out", "again")
    assert code == 4
    assert "the scenario: another model" in said
    assert "its model is a finished module" in said
    assert "there is no folder elsewhere" in command("rerun", "elsewhere")[2]


NET = """
from torch import nn

FINISHED = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

scenario"""
