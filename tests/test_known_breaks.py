"""What searches have found against a defence stands beside it in every command that plays it, on pages and in terminals."""

import html
import subprocess
import sys
from pathlib import Path

import pytest

from cloister.grids.known import KNOWN, known_in_short, known_words

FILE = """
from cloister import Comparison, Evaluation, Method, Scenario, Training, algorithms, attacks, data, models
from cloister import partitions, protections
scenario = Scenario(name="s", data=data.Digits(), partition=partitions.Iid(clients=6, samples=20, shared_test=True),
    model=models.Mlp(hidden=(8,)), training=Training(epochs=1, batch=10, lr=0.3), algorithm=algorithms.FedAvg(),
    protection=protections.Plain(), rounds=2)
def minus(count):
    return attacks.Adversary(members=attacks.Pool(int(count)), upload=attacks.MinusGradient())
strong = algorithms.HardenedFLIC(rounds_before=1, every=1)
evaluation = Evaluation(name="e", scenario=scenario, attacks={"minus": minus}, defences={"strong": strong,
    "mean": algorithms.FedAvg()}, strengths=(1,), seeds=(0,), absent=False)
comparison = Comparison(name="c", scale="quick", data={"s": scenario}, methods={"strong": Method(algorithm=strong),
    "mean": Method(algorithm=algorithms.FedAvg())}, seeds=(0,))
"""
SHORT = "Known of strong, whatever was played here: what searches found against it stands in the report."


@pytest.mark.trains
@pytest.mark.parametrize(
    "command",
    [
        ["evaluate", "known.py:evaluation"],
        ["breakdown", "known.py:evaluation", "--most", "2"],
        ["attack", "known.py:evaluation", "--against", "strong", "--budget", "3"],
        ["compare", "known.py:comparison"],
    ],
    ids=lambda of: of[0],
)
def test_what_is_known_of_a_defence_stands_on_the_page_and_in_the_terminal(tmp_path: Path, command: list[str]) -> None:
    """Before: `attack` and `compare` said nothing of it, on whose pages our own defence looked the best."""
    (tmp_path / "known.py").write_text(FILE)
    cloister = [sys.executable, "-m", "cloister", *command, "--workers", "1", "--out", "out"]
    done = subprocess.run(cloister, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert SHORT in " ".join(done.stdout.split())
    page = html.unescape((tmp_path / "out" / "report.html").read_text())
    assert "Known of strong, whatever was played here. By searches of two CPU hours at most" in page
    tables = [path for path in (tmp_path / "out").glob("*.md") if "Known of strong" in path.read_text()]
    assert tables
    assert "Known of mean" not in page


def test_several_are_named_in_one_line_and_none_in_none() -> None:
    about = {KNOWN: {"a": "This.", "b": "That."}}
    assert known_words(about) == ["Known of a, whatever was played here. This.", "Known of b, whatever was played here. That."]
    assert known_in_short(about, "there") == [
        "Known of a and b, whatever was played here: what searches found against each stands in there."
    ]
    assert known_in_short({}, "there") == known_words({}) == []
