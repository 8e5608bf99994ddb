"""What `cloister new` writes: it loads, and plays."""

import sys
from pathlib import Path

import numpy as np
import pytest

from cloister import Comparison, Scenario, __version__, cli
from cloister.fl.runs.parties import Parties
from cloister.fl.runs.scenario import described
from cloister.scenario_file import load, load_comparison, load_evaluation
from cloister.shipped import imported
from cloister.starting import NEXT, Kind
from cloister.threat_models.audit.experiment import QUICK
from cloister.threat_models.audit.scoring import BOUND, leakage
from cloister.threat_models.evaluation import Evaluation

from .test_given_data import hospitals

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def cloister(tmp_path, monkeypatch, capsys):
    """The command, run in an empty folder: exit code, and what it says."""
    monkeypatch.chdir(tmp_path)

    def command(*words):
        monkeypatch.setattr(sys, "argv", ["cloister", *words])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        return int(caught.value.code or 0), said.out + said.err

    return command


@pytest.mark.parametrize("kind", Kind)
def test_a_new_file_loads_and_is_not_written_over(cloister, kind, tmp_path):
    name = f"{kind.value.replace('-', '_')}.py"
    code, said = cloister("new", kind.value)
    assert (code, said) == (0, f"{name} is written. Next: {NEXT[kind].format(file=name)}\n")
    if kind is Kind.MY_DATA:
        hospitals(tmp_path / "data", 6)
    read, made = {Kind.EVALUATE: (load_evaluation, Evaluation), Kind.COMPARE: (load_comparison, Comparison)}.get(
        kind, (load, Scenario)
    )
    assert isinstance(read(name), made)
    Path(name).write_text("mine")
    code, said = cloister("new", kind.value)
    assert code == 1
    assert f"{name} is there already; name another file: cloister new {kind.value} FILE" in said
    assert Path(name).read_text() == "mine"
    assert cloister("new", kind.value, "other.py")[0] == 0
    assert Path("other.py").is_file()


def test_the_first_lines_of_a_new_file_have_its_own_name(cloister, tmp_path):
    assert cloister("new", "audit", "mine.py")[0] == 0
    text = Path("mine.py").read_text()
    assert "cloister audit mine.py --budget full" in text
    assert "audit.py" not in text


def test_a_new_file_for_data_of_ones_own_begins_with_the_same_model_each_time(cloister, tmp_path):
    cloister("new", "my-data")
    hospitals(tmp_path / "data", 6)
    one, other = (Parties(load("my_data.py"), None).setup.initial for _ in range(2))
    assert (one == other).all()


def test_all_that_there_is_to_begin_from_is_listed_and_examples_are_copied(cloister, tmp_path):
    code, said = cloister("new", "--list")
    assert code == 0
    there = {path.stem for path in EXAMPLES.glob("*.py")}
    assert {line.split()[0] for line in said.splitlines()[7:] if line} == there
    assert all(len(line.split()) > 2 for line in said.splitlines()[:5])
    assert cloister("new", "minus_gradient")[0] == 0
    copied = (EXAMPLES / "minus_gradient.py").read_text().replace("examples/minus_gradient.py", "minus_gradient.py")
    assert Path("minus_gradient.py").read_text() == copied
    assert cloister("new", "dp_sgd", "own.py")[0] == 0
    assert "examples/" not in Path("own.py").read_text().partition('\n"""\n')[0], "its own name stands in what to type"
    code, said = cloister("new", "quikstart")
    assert code == 1
    assert "there is no example 'quikstart'; did you mean 'quickstart'; cloister new --list names all of them" in said


def test_an_example_is_named_in_the_place_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert described(load("cloister:quickstart")) == described(load(str(EXAMPLES / "quickstart.py")))
    assert load_evaluation("cloister:evaluate_digits:small").name != load_evaluation("cloister:evaluate_digits").name
    with pytest.raises(ValueError, match="no example 'evaluate_digit'; did you mean 'evaluate_digits'"):
        load_evaluation("cloister:evaluate_digit:small")
    with pytest.raises(ValueError, match="cloister:quickstart holds no scenario named 'x'; it has: scenario"):
        load("cloister:quickstart:x")
    Path("cloister").write_text("")
    with pytest.raises(ValueError, match="cloister is not a Python file"):
        load("cloister:quickstart")


def test_the_audit_to_begin_with_has_enough_victims_for_claims_to_be_decided(cloister):
    """Of so many with nothing found, also beside a coalition of two, the upper end of the interval is within what is claimed."""
    cloister("new", "audit")
    scenario = load("audit.py")
    victims = QUICK.seeds * min(QUICK.victims, scenario.partition.clients - scenario.protection.corrupt - 1)
    none, all_ = np.zeros(victims), np.ones(victims)
    assert leakage(none, none, all_, np.random.default_rng(0)).upper <= BOUND


@pytest.mark.trains
@pytest.mark.long
def test_new_files_are_played(cloister, tmp_path):
    hospitals(tmp_path / "data", 6)
    for kind in (Kind.QUICKSTART, Kind.MY_DATA):
        name = f"{kind.value.replace('-', '_')}.py"
        cloister("new", kind.value)
        code, said = cloister("run", name, "--rounds", "2", "--out", f"r {kind.value}")
        assert code == 0, said
        assert Path(f"r {kind.value}/report.html").is_file()


@pytest.mark.trains
@pytest.mark.long
def test_a_new_comparison_is_played(cloister):
    cloister("new", "compare")
    code, said = cloister(
        "compare",
        "compare.py",
        "--seeds",
        "0",
        "--set",
        "rounds=2",
        "--set",
        "partition.samples=20",
        "--workers",
        "1",
        "--out",
        "c",
    )
    assert code == 0, said
    assert "methods on turned digits: turned under Masked, scale quick" in " ".join(said.split())
    assert "refused" not in said
    assert Path("c/report.html").is_file()


def test_the_first_starter_is_the_quickstart_of_the_examples(cloister):
    cloister("new")
    assert described(load("quickstart.py")) == described(load(str(Path(__file__).parents[1] / "examples" / "quickstart.py")))


def test_the_version_is_said(cloister):
    assert cloister("--version") == (0, f"cloister {__version__}\n")


def test_an_example_comes_with_those_that_it_imports(cloister, tmp_path):
    """`python published_results.py` ended in a ModuleNotFoundError where it was copied alone."""
    Path("flic_table2.py").write_text("mine")
    code, said = cloister("new", "published_results")
    beside = "emd_cfl_backdoor_mnist.py, emd_cfl_compare.py, published_tables.py"
    assert (code, said.partition(". Next")[0]) == (
        0,
        f"published_results.py is written, and beside it {beside}, which it imports",
    )
    assert Path("flic_table2.py").read_text() == "mine"
    assert Path("published_tables.py").read_text() == (EXAMPLES / "published_tables.py").read_text()
    assert not [
        path.stem for path in tmp_path.glob("*.py") if set(imported(path.stem)) - {one.stem for one in tmp_path.glob("*.py")}
    ]
