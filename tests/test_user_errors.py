"""Errors in a user's own file: one line, with file and line number, and what was perhaps meant."""

import io
import re
import sys
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from cloister import cli
from cloister.scenario_file import load, load_poisoning

HEAD = "from cloister import Scenario, Training, algorithms, data, models, partitions, protections, rules\n"
BODY = """
scenario = Scenario(
    name="mine",
    data=data.Digits(),
    partition=partitions.Iid(clients=8),
    model=models.Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=algorithms.FedAvg(),
    protection=protections.Masked(),
    rounds=2,
)
"""
GRID = """
from cloister import Evaluation
evaluation = Evaluation(name="g", scenario=base, attacks={"a": lambda s: {}["x"]}, defences={"f": algorithms.FedAvg()},
                        strengths=(1,), seeds=(0,))
"""
MISTAKES = {
    "a class": (
        "algorithms.FedAvg()",
        "algorithms.FedAvg",
        "line 9: algorithm is the class FedAvg itself; make one of it: FedAvg",
    ),
    "a class of a module": (
        "models.Mlp(hidden=(8,))",
        "__import__('torch').nn.Linear",
        r"line 7: model is the class Linear itself; make one of it: lambda shape, classes: Linear\(...\)",
    ),
    "a loader's argument": (
        "data.Digits()",
        'data.from_folders("pics")',
        r"line 5: TypeError: .*'shape'; it is data.from_folders\(path, \*, shape, test_share=0.2\)$",
    ),
    "a loader's argument by another name": (
        "data.Digits()",
        'data.from_csv("a.csv", target="sick")',
        r"line 5: TypeError: .*'target'; did you mean 'label'; it is data.from_csv\(path, \*, label='label', client=None",
    ),
    "a loader's argument misspelt": (
        "data.Digits()",
        'data.from_csv("a.csv", clent="w")',
        "'clent'; did you mean 'client'; it is",
    ),
    "a text": ("protections.Masked()", '"Masked"', "line 10: protection is the text 'Masked'; give an object, for example"),
    "a number for several": ("hidden=(8,)", "hidden=8", r"line 7: model.hidden is 8; give one or several, in brackets: \(8,\)$"),
    "a text for a number": ("clients=8", "clients='8'", "line 6: Iid.clients is a whole number, 1 or more, not '8'$"),
    "a text in training": ("lr=0.1", "lr='0.1'", "line 8: training.lr is '0.1'; give a number$"),
    "a text in a rule that compares it": (
        "algorithms.FedAvg()",
        "algorithms.RobustFedAvg(rule=rules.Krum('1'))",
        "line 9: Krum.f is '1'; give a whole number$",
    ),
    "a text in what a part hands on": (
        "protections.Masked()",
        "protections.Masked(noise=protections.Noise(epsilon=2, delta=1e-5, rounds='3', l2=1.0))",
        "line 10: Noise.rounds is '3'; give a whole number$",
    ),
    "a step of a paper that is the training's": (
        "algorithms.FedAvg()",
        "algorithms.PerFedAvg(alpha=0.1, beta=0.2)",
        r"line 9: TypeError: .*'beta'; it is the training's, Training\(lr=...\)",
    ),
    "how many clusters there are to be": (
        "algorithms.FedAvg()",
        "algorithms.EMDCFL(clusters=2)",
        r"line 9: TypeError: .*'clusters'; nobody says how many: .*EMDCFL\(eps=...\); EMDCFL takes eps",
    ),
    "a threshold for an algorithm": (
        "algorithms.FedAvg()",
        "algorithms.CFL(eps1=0.4)",
        r"line 9: TypeError: .*'eps1'; it is the thresholds', CFL\(thresholds=algorithms\.ScaleFree\(eps1=",
    ),
    "a word for a function": (
        "algorithms.FedAvg()",
        "algorithms.CFL(thresholds=algorithms.ScaleFree(0.4, 0.5), linkage='ward')",
        r"algorithm.linkage is 'ward'; give a function, by default cloister\.fl\.clustering\.bipartition\.optimal_bip",
    ),
    "no such field": ("batch=10", "bacth=10", "line 8: TypeError: .*'bacth'; did you mean 'batch'; Training takes epochs, batch"),
    "a rate as torch and Keras name it": (
        "lr=0.1",
        "learning_rate=0.1",
        "line 8: TypeError: .*'learning_rate'; did you mean 'lr'",
    ),
    "a batch as they name it": ("batch=10", "batch_size=10", "line 8: TypeError: .*'batch_size'; did you mean 'batch'; Training"),
    "one epoch": ("epochs=1", "epoch=1", "line 8: TypeError: .*'epoch'; did you mean 'epochs'; Training"),
    "a loss as torch names it": ("lr=0.1", "lr=0.1, criterion='x'", "'criterion'; did you mean 'loss'; Training takes"),
    "rounds as Flower names them": ("rounds=2", "num_rounds=2", "'num_rounds'; did you mean 'rounds'; Scenario takes"),
    "a strategy of Flower's": ("algorithm=", "strategy=", "'strategy'; did you mean 'algorithm'; Scenario takes"),
    "a threshold of secure aggregation": (
        "Masked()",
        "Masked(threshold=3)",
        "line 10: .*'threshold'; did you mean 'floor'; Masked",
    ),
    "beta of Dirichlet's": (
        "partitions.Iid(clients=8)",
        "partitions.Dirichlet(clients=8, beta=0.5)",
        "line 6: TypeError: .*'beta'; did you mean 'alpha'; Dirichlet takes",
    ),
    "clients of the partition": ("rounds=2", "rounds=2, num_clients=8", r"the partition, Iid\(clients=...\); Scenario takes"),
    "a rate of training": (
        "rounds=2",
        "rounds=2, learning_rate=1",
        r"belongs to the training, Training\(lr=...\); Scenario takes",
    ),
    "a share of clients": ("FedAvg()", "FedAvg(fraction_fit=0.5)", "line 9: .*'fraction_fit'; did you mean 'participation'; Fed"),
    "a name that nobody gives": ("Masked()", "Masked(zebra=3)", "line 10: .*argument 'zebra'; Masked takes sketch, keys"),
    "a dictionary": ("scenario = Scenario(", "scenario = dict(", "line 3: scenario is a dict; give Scenario"),
    "a class in its place": (
        "scenario = Scenario",
        "scenario = Scenario\nother = Scenario",
        r"line 3: scenario is the class Scenario itself; give Scenario\(...\); name it: .*mine.py:other$",
    ),
    "a field of training": (
        "rounds=2",
        "rounds=2, lr=0.1",
        r"'lr'; it belongs to the training, Training\(lr=...\); Scenario takes",
    ),
    "a field of the algorithm": ("rounds=2", "rounds=2, participation=0.5", r"the algorithm, FedAvg\(participation=...\); Scen"),
    "no such name in this case": ("algorithms.FedAvg", "algorithms.fedavg", "line 9: AttributeError: .*; did you mean 'FedAvg'"),
    "two commas": ("hidden=(8,)", "hidden=(8,,)", "line 7: SyntaxError: invalid syntax$"),
    "no such name": ("algorithms.FedAvg", "algorithms.FedAgv", "line 9: AttributeError: .*; did you mean 'FedAvg'"),
    "a misspelt import": (
        "scenario = ",
        "from cloister import protectoins\nscenario = ",
        "line 3: cannot import .*; did you mean 'protections'",
    ),
    "a part imported from the package": (
        "scenario = ",
        "from cloister import RecordPrivacy\nscenario = ",
        "line 3: cannot import .*; it is protections.RecordPrivacy: from cloister import protections$",
    ),
    "not imported": ("models.Mlp", "model.Mlp", "line 7: NameError: .*; did you mean 'models'"),
    "not by name": (
        "algorithms.FedAvg()",
        "algorithms.RobustFedAvg(rules.Median())",
        r"line 9: TypeError: .* 2 were given; name what you give: RobustFedAvg\(.*=...\); it takes .*rule",
    ),
    "something left out": ("Iid(clients=8)", "Iid()", "line 6: TypeError: .*; Iid takes sizes, samples, shared_test, clients"),
    "not closed": ("hidden=(8,)", "hidden=(8,", "line 3: SyntaxError: .* was never closed"),
    "text for a number": ("rounds=2", 'rounds="2"', "line 11: rounds is '2'; give a whole number"),
    "a number in the place of a whole one": (
        "Masked()",
        "Masked(floor=2.5)",
        "line 10: floor is a whole number of",
    ),
    "a text in the place of a whole one": ("Masked()", "Masked(corrupt='2')", "line 10: corrupt is a whole number .*, not '2'$"),
    "a noise that is another one": (
        "algorithms.FedAvg()",
        "algorithms.PrivateCFL(noise=protections.Noise(epsilon=2, delta=1e-5, rounds=3, l2=1.0), records=9)",
        r"line 9: PrivateCFL.noise is a Noise; give Noise\(clip=",
    ),
    "no patience": (
        "algorithms.FedAvg()",
        "algorithms.CFL(thresholds=algorithms.ScaleFree(eps1=0.4, eps2=0.7), patience=-8)",
        "line 9: CFL.patience is a whole number, 0 or more, not -8$",
    ),
    "a width below 0": ("hidden=(8,)", "hidden=(-3,)", "line 7: Mlp.hidden is a whole number, 1 or more, not -3$"),
    "clients below 0": ("clients=8", "clients=-2", "line 6: Iid.clients is a whole number, 1 or more, not -2$"),
    "no rounds": ("rounds=2", "rounds=0", "line 11: rounds is 1 or more, not 0$"),
    "by coordinates": (
        "algorithms.FedAvg()",
        "algorithms.RobustFedAvg(rule=rules.TrimmedMean(b=2))",
        "line 3: RobustFedAvg needs coordinates, which Masked .*TrimmedMean works coordinate by.* rules.Geom",
    ),
    "a method's field": (
        "algorithms.FedAvg()",
        "algorithms.CFL(thresholds=algorithms.ScaleFree(0.4, 0.7), patiense=8)",
        "line 9: TypeError: .*'patiense'; did you mean 'patience'; CFL takes thresholds",
    ),
    "what it needs, by an example": (
        "algorithms.FedAvg()",
        "algorithms.CFL()",
        "line 9: TypeError: .*'thresholds', for instance thresholds=algorithms.ScaleFree",
    ),
    "a class that needs arguments": ("algorithms.FedAvg()", "algorithms.CFL", "make one of it: CFL\\(thresholds=...\\)"),
    "no such loss": ("lr=0.1", "lr=0.1, loss='mse'", "line 8: there is no loss 'mse'"),
    "in the model": ("models.Mlp(hidden=(8,))", "lambda shape, classes: {}['net']", "line 7: KeyError: there is no 'net'"),
    "in the partition": ("partitions.Iid(clients=8)", "lambda source, rng: source.nothing", "line 6: AttributeError: .*nothing"),
    "in the loader": ("data.Digits()", "lambda folder: {}['train']", "line 5: KeyError: there is no 'train'"),
    "a wrong value in the loader": ("data.Digits()", "lambda folder: int('x')", "line 5: invalid literal for int"),
}


def complaint(monkeypatch, capsys, *arguments):
    """The command's one line on stderr."""
    monkeypatch.setattr(sys, "argv", ["cloister", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 1
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err + captured.out
    (line,) = [line for line in captured.err.splitlines() if line.startswith("cloister: ")]
    return line


@pytest.mark.long
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_that_points(mistake, tmp_path, monkeypatch, capsys):
    right, wrong, words = MISTAKES[mistake]
    monkeypatch.chdir(tmp_path)
    assert right in BODY
    (tmp_path / "mine.py").write_text(HEAD + BODY.replace(right, wrong))
    line = complaint(monkeypatch, capsys, "run", "mine.py", "--out", "r")
    assert line.startswith(("cloister: mine.py, ", f"cloister: {tmp_path}/mine.py, "))
    assert re.search(words, line), line


def test_a_scenario_in_the_place_of_a_comparison_names_its_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(HEAD + BODY)
    line = complaint(monkeypatch, capsys, "compare", "mine.py", "--out", "r")
    assert line == "cloister: mine.py holds a scenario, not a comparison; play it with: cloister run mine.py"


def test_an_evaluation_in_the_place_of_a_comparison_names_its_command_though_a_scenario_is_beside_it(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.py").write_text(HEAD + BODY.replace("scenario =", "base =", 1) + GRID)
    line = complaint(monkeypatch, capsys, "compare", "grid.py", "--out", "r")
    assert line == "cloister: grid.py holds an evaluation, not a comparison; play it with: cloister evaluate grid.py"


def test_a_comparison_beside_a_scenario_of_another_name_is_said_with_its_command_and_name(tmp_path, monkeypatch, capsys):
    """`cloister run compare.py` said only that there is no `scenario`."""
    monkeypatch.chdir(tmp_path)
    grid = """
from cloister import Comparison, Method
{} = Comparison(name="c", scale="quick", data={{"d": base}}, methods={{"f": Method(algorithm=algorithms.FedAvg())}},
    protections={{"Plain": protections.Plain()}}, seeds=(0,))
"""
    for name, where in (("comparison", "grid.py"), ("mine", "grid.py:mine")):
        (tmp_path / "grid.py").write_text(HEAD + BODY.replace("scenario =", "base =", 1) + grid.format(name))
        line = complaint(monkeypatch, capsys, "run", "grid.py", "--out", "r")
        assert line.endswith(f"it holds a comparison too, which is played with: cloister compare {where}")
    line = complaint(monkeypatch, capsys, "run", "grid.py:bas", "--out", "r")
    assert "comparison" not in line  # who names one looks for a scenario


def test_a_scenario_in_the_place_of_an_evaluation_names_its_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.py").write_text(HEAD + BODY.replace("scenario =", "base =", 1) + GRID)
    line = complaint(monkeypatch, capsys, "run", "grid.py", "--out", "r")
    assert line == (
        "cloister: grid.py holds no scenario named 'scenario'; it has: base; name it: grid.py:base; it holds an evaluation too,"
        " which is played with: cloister evaluate grid.py"
    )
    line = complaint(monkeypatch, capsys, "report", "nothing-here")
    assert line.startswith("cloister: there is no folder nothing-here; ")
    line = complaint(monkeypatch, capsys, "run", "grid.py:evaluation", "--out", "r")
    assert "grid.py:evaluation is an evaluation, not a scenario; play it with: cloister evaluate grid.py:evaluation" in line


LOSSES = {
    "raises": ("o.nothing", r"line 2: AttributeError: .*nothing"),
    "of torch": ("F.cross_entropy(o, y.float(), reduction='none')", r"line 2: RuntimeError: expected target"),
    "of a batch": ("F.cross_entropy(o, y)", r"mine \(mine.py, line 2\), gives shape \(\) for \d+ records"),
}


@pytest.mark.parametrize("wrong", LOSSES)
def test_a_mistake_in_a_loss_has_its_line_before_anything_is_written(wrong, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    body, words = LOSSES[wrong]
    text = f"from torch.nn import functional as F\ndef mine(o, y): return {body}\n"
    (tmp_path / "mine.py").write_text(text + HEAD + BODY.replace("lr=0.1", "lr=0.1, loss=mine").replace("Masked", "Plain"))
    line = complaint(monkeypatch, capsys, "run", "mine.py", "--out", "r")
    assert re.search(words, line), line
    assert not (tmp_path / "r").exists()


@pytest.mark.trains
def test_a_loss_that_ignores_its_targets_is_a_line_on_the_console(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = "def mine(o, y): return o.pow(2).sum(1)\n" + HEAD + BODY.replace("lr=0.1", "lr=0.1, loss=mine")
    (tmp_path / "mine.py").write_text(text.replace("clients=8", "clients=4, samples=20"))
    monkeypatch.setattr(sys, "argv", ["cloister", "run", "mine.py", "--out", "r", "--rounds", "1"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert not caught.value.code
    assert "note: training.loss, mine (mine.py, line 1), gives the same for other targets" in capsys.readouterr().err


@pytest.mark.trains
def test_a_mistake_in_an_attack_of_a_grid_has_its_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.py").write_text(HEAD + BODY.replace("scenario =", "base =", 1) + GRID)
    monkeypatch.setattr(sys, "argv", ["cloister", "evaluate", "grid.py", "--out", "r", "--workers", "1"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 3
    said = capsys.readouterr().err
    assert "1 cell failed, first (a at 1, f, Masked, seed 0): KeyError: 'x' (grid.py, line 15)" in said


def test_errors_of_ours_keep_their_traceback(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(HEAD + BODY)
    from cloister.fl.runs import experiment

    def broken(*given, **more):
        raise KeyError("a bug")

    monkeypatch.setattr(experiment, "Simulation", broken)
    monkeypatch.setattr(experiment.run, "__defaults__", (None, False, broken, None, None, None))
    monkeypatch.setattr(sys, "argv", ["cloister", "run", "mine.py", "--out", "r"])
    with pytest.raises(KeyError, match="a bug"):
        cli.main()


def test_a_file_may_import_those_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", list(sys.path))
    (tmp_path / "my_own_numbers.py").write_text("most = 3\n")
    (tmp_path / "wanted.py").write_text("from my_own_numbers import most\nattack = lambda own: most\n")
    assert load_poisoning(f"{tmp_path / 'wanted.py'}")(None) == 3


def test_what_a_file_beside_it_raises_is_one_line_with_its_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.path", list(sys.path))
    (tmp_path / "my_own_parts.py").write_text("def factory(shape, classes):\n    raise RuntimeError('boom')\n")
    (tmp_path / "mine.py").write_text(
        HEAD + "from my_own_parts import factory\n" + BODY.replace("models.Mlp(hidden=(8,))", "factory")
    )
    assert complaint(monkeypatch, capsys, "run", tmp_path / "mine.py").endswith("my_own_parts.py, line 2: RuntimeError: boom")


def test_what_a_star_brings_is_not_played_in_the_place_of_a_file_s_own(tmp_path, monkeypatch, capsys):
    """Before: the scenario of the imported file was played, and the own one passed over."""
    monkeypatch.setattr("sys.path", list(sys.path))
    (tmp_path / "my_own_base.py").write_text(HEAD + BODY)
    file = tmp_path / "mine.py"
    file.write_text("from my_own_base import *\nfrom dataclasses import replace\nshorter = replace(scenario, rounds=1)\n")
    told = complaint(monkeypatch, capsys, "run", file)
    assert told.endswith(
        f"mine.py has 'scenario' by an import, and shorter of its own; name one of them: {file}:shorter, or {file}:scenario"
    )
    assert load(f"{file}:shorter").rounds == 1
    assert load(f"{file}:scenario").rounds == 2
    file.write_text("from my_own_base import *\n")
    assert load(str(file)).rounds == 2
    file.write_text("from my_own_base import *\nfrom dataclasses import replace\nscenario = replace(scenario, rounds=1)\n")
    assert load(str(file)).rounds == 1


def test_a_file_beside_it_takes_no_library_s_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    (tmp_path / "colorsys.py").write_text("raise RuntimeError('not the library')\n")
    (tmp_path / "wanted.py").write_text("import colorsys\nattack = lambda own: colorsys.ONE_THIRD\n")
    assert load_poisoning(f"{tmp_path / 'wanted.py'}")(None) == pytest.approx(1 / 3)


def test_the_class_of_an_error_of_ours_is_not_named(tmp_path, monkeypatch, capsys):
    file = tmp_path / "mine.py"
    file.write_text("from cloister.fl.functions import Unfit\nraise Unfit('the words say it')\n")
    assert complaint(monkeypatch, capsys, "run", file).endswith("mine.py, line 2: the words say it")


def test_a_file_that_may_not_be_read_is_one_line(tmp_path, monkeypatch, capsys):
    """Its source was read again for the words, which ended in a traceback. Root may read all, so the loader stands for modes."""
    file = tmp_path / "mine.py"
    file.write_text("scenario = 1\n")

    read = SourceFileLoader.get_data

    def refused(self, path):
        if Path(path) == file:
            raise PermissionError(13, "Permission denied", str(path))
        return read(self, path)

    monkeypatch.setattr(SourceFileLoader, "get_data", refused)
    said = complaint(monkeypatch, capsys, "run", file)
    assert "permission denied" in said.lower()
    assert str(file) in said


def test_a_terminal_that_knows_ascii_alone_has_dashes_and_question_marks(monkeypatch):
    shown = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(sys, "argv", ["cloister", "run", "caf\u00e9\u2013.py"])
    with pytest.raises(SystemExit):
        cli.main()
    shown.flush()
    assert b"there is no file caf?-.py" in shown.buffer.getvalue()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
@pytest.mark.long
def test_what_cannot_be_printed_is_one_line(monkeypatch, capsys):
    full = open("/dev/full", "w", encoding="utf-8")  # noqa: SIM115  to close it fails
    monkeypatch.setattr(sys, "stdout", full)
    monkeypatch.setattr(sys, "argv", ["cloister", "cost", "cloister:quickstart"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    with suppress(OSError):
        full.close()
    assert caught.value.code == 1
    assert capsys.readouterr().err.endswith("what this prints has no room where it goes\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "from cloister.fl.robust import TrimmedMean",
            r"line 1: cannot import .*; it is rules.TrimmedMean: from cloister import rules",
        ),
        (
            "import cloister\nx = cloister.CFL()",
            "line 2: .* no attribute 'CFL'; it is algorithms.CFL: from cloister import algorithms",
        ),
        ("import cloister.algorithm", r"line 1: No module named 'cloister.algorithm'; did you mean 'cloister.algorithms'"),
    ],
    ids=["an inner module", "an attribute of the package", "a module misspelt"],
)
def test_what_is_looked_for_in_another_module_of_ours_is_found(text, words, monkeypatch, capsys, tmp_path):
    (tmp_path / "mine.py").write_text(text + "\n")
    assert re.search(words, complaint(monkeypatch, capsys, "run", tmp_path / "mine.py"))


OF_TWO = """
from cloister import *
base = Scenario(name="b", data=data.Digits(), partition=partitions.Iid(clients=8), model=models.Mlp(hidden=(8,)), rounds=2,
    training=Training(epochs=1, batch=10, lr=0.1), algorithm=algorithms.FedAvg(), protection=protections.Masked())
evaluation = Evaluation(name="e", scenario=base, attacks={"m": attacks.MinusGradient()}, strengths=(2,), seeds=(0,),
    defences={"f": algorithms.FedAvg()})
"""


def test_what_is_named_and_is_of_another_kind_says_which_command_plays_it(monkeypatch, capsys, tmp_path):
    (file := tmp_path / "mine.py").write_text(OF_TWO)
    for command in ("run", "audit", "cost"):
        said = complaint(monkeypatch, capsys, command, f"{file}:evaluation")
        assert f"evaluation is an evaluation, not a scenario; play it with: cloister evaluate {file}:evaluation" in said
    file.write_text(OF_TWO.replace("seeds=(0,)", "seeds=0"))
    assert "seeds are several, in brackets: seeds=(0,)" in complaint(monkeypatch, capsys, "evaluate", file)
    mixed = "algorithms.RobustFedAvg(rule=rules.Mixed((rules.NNM(f=2),), rules.Median()))"
    file.write_text(OF_TWO.replace("algorithm=algorithms.FedAvg()", f"algorithm={mixed}"))
    assert "Median works coordinate by coordinate" in complaint(monkeypatch, capsys, "run", f"{file}:base")
