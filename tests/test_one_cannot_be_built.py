"""One scenario of several that cannot be built, or has no data, is said; the others are played."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cloister.comparing.play import opened
from cloister.errors_in_one_line import Failure, one_line_errors
from cloister.fl.runs.feasibility import Doubt
from cloister.reading_a_file import Unbuilt
from cloister.scenario_file import load, load_comparison, load_evaluation, load_poisoning, load_source

from .comparison_sample import tiny

HEAD = '''"""Several scenarios."""

from __future__ import annotations

from dataclasses import replace

from cloister import Comparison, Evaluation, Scenario, Training, algorithms, data, models, partitions, protections

base = Scenario(
    name="base", data=data.Digits(), partition=partitions.Iid(clients=8), model=models.Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=10, lr=0.1), algorithm=algorithms.FedAvg(), protection=protections.Plain(), rounds=2,
)
'''
WRONG = 'private = replace(\n    base,\n    protection="Masked",\n)\n'


def written(folder: Path, text: str) -> str:
    file = folder / "several.py"
    file.write_text(HEAD + text)
    return str(file)


def test_the_others_of_a_file_are_loaded_and_the_one_is_said_with_its_line(tmp_path: Path) -> None:
    where = written(tmp_path, WRONG + 'longer = replace(private, rounds=9)\nscenario = replace(base, name="after")\n')
    with pytest.warns(Doubt, match=r"^private, longer cannot be built, and are left out: .*several.py, line 15: prot"):
        assert load(where).name == "after"
    with pytest.warns(Doubt):
        assert load(f"{where}:base").name == "base"


@pytest.mark.parametrize("name", ["private", "longer"])
def test_the_one_is_refused_with_its_line_also_where_another_is_made_of_it(name: str, tmp_path: Path) -> None:
    where = written(tmp_path, WRONG + "longer = replace(private, rounds=9)\nscenario = base\n")
    with pytest.raises(Unbuilt, match="line 15: protection is the text 'Masked'"):
        load(f"{where}:{name}")


def test_nothing_behind_a_function_that_failed_is_played(tmp_path: Path) -> None:
    text = "def table():\n    return {}['age']\n\nfound = table()\n"
    text += "from pathlib import Path\nPath('there').touch()\nscenario = base\n"
    with pytest.raises(ValueError, match=r"several.py, line 14: KeyError: there is no 'age'") as caught:
        load(written(tmp_path, text.replace("there'", f"{tmp_path}/there'")))
    assert not isinstance(caught.value, Unbuilt)
    assert not (tmp_path / "there").exists()


def test_a_function_that_builds_scenarios_stops_no_others(tmp_path: Path) -> None:
    text = "def under(one):\n    return replace(base, protection=one)\n\n"
    text += "noisy = under('Masked')\nscenario = under(protections.Plain())\n"
    with pytest.warns(Doubt, match="noisy cannot be built, and is left out"):
        assert load(written(tmp_path, text)).name == "base"


def test_a_name_that_is_given_anew_is_not_what_it_was_before(tmp_path: Path) -> None:
    where = written(tmp_path, 'scenario = base\nscenario = replace(scenario, protection="Masked")\nother = base\n')
    with pytest.raises(Unbuilt, match="line 14: protection is the text"):
        load(where)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('if True:\n    private = replace(base, protection="Masked")\nscenario = base\n', "line 14: protection is the text"),
        ("import nothing_like_this\nscenario = base\n", "line 13: .*nothing_like_this"),
        ('replace(base, protection="Masked")\nscenario = base\n', "line 13: protection is the text"),
        (
            "import cloister\nplayed = cloister.run(base)\nscenario = base\n",
            "line 14: .*cloister.run is called while",
        ),
        ("scenario = base\nother = replace(base,\n", "SyntaxError"),
    ],
)
def test_any_other_failure_is_the_files(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        load(written(tmp_path, text))


def test_another_kind_that_cannot_be_built_is_not_replaced_by_what_the_file_has(tmp_path: Path) -> None:
    grid = 'evaluation = Evaluation(name="g", scenario=base, attacks={}, defences={}, strengths=(1,))\nscenario = base\n'
    with pytest.raises(Unbuilt, match="line 13: an evaluation needs attacks"):
        load_evaluation(written(tmp_path, grid))
    with pytest.raises(Unbuilt, match="line 13: Type"):
        load_comparison(written(tmp_path, 'comparison = Comparison(name="c")\nscenario = base\n'))
    with pytest.raises(Unbuilt, match="line 13: invalid literal"):
        load_poisoning(written(tmp_path, "attack = int('x')\n").replace("several.py", "several.py:attack"))


def test_data_that_are_not_there_stop_no_comparison_of_others(tmp_path: Path) -> None:
    def none(folder: Path | None) -> None:
        raise ValueError("there is no file cifar.bin")

    lost = replace(tiny.data["iid"], data=none)
    two = replace(tiny, data={"lost": lost, **tiny.data})
    with pytest.warns(Doubt, match="there are no data for 'lost', whose runs will fail: there is no file cifar.bin"):
        folder, ledger = opened(two, None, tmp_path / "two", False, {})
    assert list(json.loads((folder / "comparison.json").read_text())["data"]) == ["lost", "iid"]
    assert ledger.rows == {}
    with pytest.raises(ValueError, match="there is no file cifar"):
        opened(replace(tiny, data={"lost": lost}), None, tmp_path / "none", False, {})
    assert not (tmp_path / "none").exists()


def test_what_the_file_cannot_build_no_setting_mends() -> None:
    """CFL's "set algorithm.remember=False" was obeyed by --set, and answered by the same line."""
    settings, said = ["algorithm.remember=False"], r"line 3: wrong; mend it in the file: --set changes what the file has built$"
    with pytest.raises(Failure, match=said), one_line_errors("mine.py", settings):
        raise Unbuilt("mine.py, line 3: wrong")
    with pytest.raises(Failure, match=r"line 3: wrong$"), one_line_errors("mine.py"):
        raise Unbuilt("mine.py, line 3: wrong")


def test_what_a_recorded_file_imports_is_asked_for_by_name() -> None:
    with pytest.raises(ValueError, match=r"No module named 'beside_it'; put beside_it\.py, as it was then, into this folder"):
        load_source("from beside_it.inner import scenario\n", "scenario", "runs/a/origin.json")
