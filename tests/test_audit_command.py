"""The command `audit`: what it writes, says and exits with."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from cloister.auditing import play as auditing
from cloister.auditing.audited import _ahead, audited, observers_asked
from cloister.auditing.fewest import too_few
from cloister.auditing.first_words import headline
from cloister.auditing.new_audit import BUDGETS
from cloister.auditing.report import render
from cloister.cli import app
from cloister.errors_in_one_line import Failure
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.given import from_datasets
from cloister.fl.data.natural import Natural
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked, Plain
from cloister.scenario_file import load
from cloister.threat_models.audit.experiment import QUICK
from cloister.threat_models.audit.experiments import EXPERIMENTS
from cloister.threat_models.audit.final_models import FinalModelMembership
from cloister.threat_models.audit.recovery import UpdateRecovery
from cloister.threat_models.audit.scoring import fewest_victims, share_at_most
from cloister.threat_models.claims import CLAIMS

SMALL = """
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Dirichlet
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked, Permuted, Plain

scenario = Scenario(
    name="small",
    data=Digits(),
    partition=Dirichlet(clients=6, alpha=0.5),
    model=Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=50, lr=0.1),
    algorithm=FedAvg(by_samples=False),
    protection=Masked(),
    rounds=2,
)
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.py"
    path.write_text(SMALL)
    return path


def invoke(*arguments):
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


def test_its_help_says_what_it_does():
    found = invoke("--help")
    assert found.exit_code == 0
    assert all(word in found.stdout for word in ("refuted", "self-test", "quick"))


@pytest.mark.trains
@pytest.mark.long
def test_an_audit_writes_its_folder_and_shows_it_again(file, tmp_path, monkeypatch):
    """Every experiment on every observer, each with little to spend."""
    small = replace(QUICK, victims=3, records=20, steps=5, shadows=4, clients=50)
    monkeypatch.setitem(BUDGETS, "quick", small)
    out = tmp_path / "audit"
    first = invoke(file, "--out", out, "--seeds", "3")
    assert first.exit_code == 0, first.output
    found = json.loads((out / "audit.json").read_text())
    assert found["seeds"] == [3]
    assert "Masked" in found["protection"]
    sought = {(row["observer"], row["experiment"]) for row in found["rows"]}
    assert {("server", "updates"), ("server and client 0", "labels"), ("network", "updates")} <= sought
    assert {name for _, name in sought} == {
        one.name for one in EXPERIMENTS if not isinstance(one, FinalModelMembership)
    }  # of an outsider
    page = (out / "report.html").read_text()
    assert "What each party could find" in page
    assert "<script" not in page
    again = invoke(out, "--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout)["rows"] == found["rows"]
    for options in (["--seeds", "4"], ["--set", "rounds=1"], ["--budget", "full"], ["--attack", file]):
        vain = invoke(out, *options)
        assert vain.exit_code != 0
        assert options[0] in str(vain.exception)
    taken = invoke(file, "--out", out)
    assert taken.exit_code != 0
    assert "already holds an audit" in str(taken.exception)


@pytest.mark.long
@pytest.mark.trains
def test_a_claim_of_ours_that_falls_is_an_exit_code(file, tmp_path, monkeypatch):
    """That no update is found in clear is false, and must be found false."""
    false = replace(
        next(c for c in CLAIMS if c.id == "masked.updates.server"), id="plain.updates.server", applies=lambda p, a: True
    )
    monkeypatch.setattr("cloister.auditing.audited.CLAIMS", (false,))
    monkeypatch.setattr("cloister.auditing.audited.EXPERIMENTS", (UpdateRecovery(),))
    found = invoke(file, "--out", tmp_path / "audit", "--seeds", "0", "--json")
    assert found.exit_code == 0, found.output
    path = tmp_path / "plain.py"
    path.write_text(SMALL.replace("protection=Masked()", "protection=Plain()"))
    found = invoke(path, "--out", tmp_path / "clear", "--seeds", "0")
    assert found.exit_code == auditing.REFUTED
    (claim,) = [c for row in json.loads((tmp_path / "clear" / "audit.json").read_text())["rows"] for c in row["claims"]]
    assert claim["verdict"] == "refuted"
    assert "1.000" in claim["witness"]
    monkeypatch.setattr("cloister.auditing.audited.CLAIMS", (replace(false, whose="paper"),))
    assert invoke(path, "--out", tmp_path / "paper", "--seeds", "0").exit_code == 0


def test_errors_are_one_line(tmp_path):
    for arguments, words in ((("nowhere.py",), "there is no file"), ((tmp_path,), "holds no audit"), ((), "name a scenario")):
        found = invoke(*arguments)
        assert found.exit_code != 0
        assert words in str(found.exception)
        assert "\n" not in str(found.exception)


def test_what_does_not_fit_is_said_before_what_is_going_to_be_played(file, tmp_path):
    file.write_text(SMALL.replace("Dirichlet(clients=6, alpha=0.5)", "Dirichlet(clients=6000, alpha=0.5)"))
    found = invoke(file, "--out", tmp_path / "audit")
    assert isinstance(found.exception, Failure)
    assert "6000" in str(found.exception)
    assert not found.output
    assert not (tmp_path / "audit").exists()


@pytest.mark.parametrize("rounds", [1, 2])
def test_one_round_is_no_rounds(file, rounds):
    scenario = replace(load(str(file)), rounds=rounds)
    assert f"1 run of {rounds} round{'s' * (rounds - 1)} (seed 4)" in _ahead(scenario, QUICK, (4,), {})


@pytest.mark.parametrize(
    "text",
    ['{"name": "cut o', "{}", "[]", "3", '{"rows": [{}]}', '{"name": "x", "rows": [{"observer": "server", "claims": []}]}'],
)
def test_a_damaged_audit_is_one_line(tmp_path, text):
    (tmp_path / "audit.json").write_text(text)
    found = invoke(tmp_path)
    assert isinstance(found.exception, Failure)
    assert "damaged" in str(found.exception)
    assert "\n" not in str(found.exception)


def test_an_audit_that_nests_too_deep_is_one_line(tmp_path):
    (tmp_path / "audit.json").write_text("[" * 100_000)
    found = invoke(tmp_path)
    assert isinstance(found.exception, Failure)
    assert "is damaged: RecursionError" in str(found.exception)


def test_python_runs_it_as_a_module():
    done = subprocess.run([sys.executable, "-m", "cloister", "audit", "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, "refuted" in done.stdout) == (0, True), done.stderr


def row(verdict, whose="Cloister", value=0.0):
    leak = {"here": value, "aggregate": 0.0, "plain": 1.0, "low": value, "value": value, "high": value, "upper": value}
    claim = {"claim": "x", "whose": whose, "statement": "s", "bound": 0.1, "side_information": "n", "verdict": verdict}
    return {
        "observer": "server", "experiment": "updates", "unit": "u", "side_information": "n", "source": "s",
        "leakage": leak | {"victims": 3, "needed": 0, "valid": True}, "worst": None, "told": {}, "reason": "",
        "claims": [claim | {"witness": "w"}], "values": {n: [value] for n in ("here", "sums alone", "everything")},
        "roc": {}, "pictures": {}, "figures": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([row("refuted"), row("not refuted")], "1 of 2 claims is refuted: x; 1 is not."),
        (
            [row("refuted"), row("not refuted")] + [row("inconclusive")] * 3 + [row("not covered")] * 5,
            "1 of 10 claims is refuted: x; 1 is not; 8 could not be judged.",
        ),
        ([row("refuted")] * 4, "4 of 4 claims are refuted: x, x, x and 1 more."),
        (
            [row("not refuted")],
            "The one claim was tested and is not refuted (1 was attacked in vain where the attack",
        ),
        (
            [row("not refuted")] * 3 + [row("inconclusive")] * 11 + [row("not covered")],
            "3 of 15 claims were tested and none is refuted (3 were attacked in vain where the attack works in clear);"
            " 12 could not be judged.",
        ),
        ([row("not refuted"), row("inconclusive")], "1 of 2 claims was tested and none is refuted (1 was attacked in vain"),
        ([row("inconclusive"), row("not covered")], "None of 2 claims could be judged."),
        ([row("inconclusive")], "The one claim could not be judged."),
        ([row("refuted", "paper")], "Nothing is claimed of this protection"),
        (
            [row("refuted", "paper")],
            "Nothing is claimed of this protection against any of these observers. 1 claim of the paper is refuted.",
        ),
        ([], "Nothing is claimed"),
    ],
)
def test_the_headline_does_not_flatter(rows, words):
    """It began with "No claim is refuted" where 12 of 15 could not be judged."""
    assert headline({"rows": rows}).startswith(words)


def test_the_page_escapes_what_it_is_given():
    found = {
        "name": "<b>x</b>", "scenario": {}, "protection": "p", "budget": {"name": "quick"}, "seeds": [0], "seconds": 1.0,
        "rows": [row("refuted") | {"observer": "<i>server</i>"}], "meters": [], "machine": {}, "versions": {},
    }  # fmt: skip
    page = render(found)
    assert "<b>x</b>" not in page
    assert "<i>server</i>" not in page
    assert "&lt;b&gt;x" in page
    assert '<td class="against" data-of="against">&lt;i&gt;server' in page  # a column of its own least width
    assert ".against { min-width: 180px; }" in page


def named_clients():
    """Six clients with names, of 30 records each."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(180, 4)).astype(np.float32)
    sets = {f"site{k}": [(row, int(row[0] > 0)) for row in x[30 * k : 30 * k + 30]] for k in range(6)}
    return Scenario(
        name="sites",
        data=from_datasets(sets),
        partition=Natural(),
        model=Mlp(hidden=(4,)),
        training=Training(epochs=1, batch=10, lr=0.1),
        algorithm=FedAvg(by_samples=False),
        protection=Plain(),
        rounds=2,
    )


@pytest.mark.trains
def test_clients_are_asked_for_by_name_and_named_beside_their_number():
    found = audited(named_clients(), QUICK, (0,), None, True, ("server+client:site3",), experiments=(UpdateRecovery(),))
    assert found["against"] == ["server and client 3 (site3)"]
    assert {row["observer"] for row in found["rows"]} == {"server and client 3 (site3)"}
    assert found["names"]["3"] == "site3"
    (worst,) = [row["worst"] for row in found["rows"] if row["worst"]]
    assert worst["name"] == f"site{worst['client']}"
    with pytest.raises(ValueError, match="no client called 'site9'; did you mean"):
        observers_asked(named_clients(), None, ("client:site9",))


def test_seeds_that_cannot_decide_a_claim_are_said_before():
    """29 victims: with none of 28 exposed up to 10.1 % may be, at 95 %."""
    assert (share_at_most(0, 28) > 0.1, share_at_most(0, 29) <= 0.1, fewest_victims(0.1)) == (True, True, 29)
    of = (CLAIMS, Masked(), FedAvg(by_samples=False))
    words = too_few(*of, 6, 16, 2)
    assert "with 29 victims, and 12 are tried (6 of each of 2 seeds)" in words
    assert "take 5 seeds" in words
    assert not too_few(*of, 6, 16, 5)
    assert "none on single records can be decided" in too_few(*of, 40, 16, 1)
    assert "no claim on it can be decided by 2 seeds; take 5 seeds at least (--seeds 0-4" in too_few(*of, 40, 16, 2)
    assert not too_few(*of, 40, 16, 5)
    assert not too_few((), *of[1:], 6, 16, 1)
