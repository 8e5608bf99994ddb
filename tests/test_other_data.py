"""What was begun with some data is not gone on with others: runs, evaluations, comparisons."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cloister
from cloister import Evaluation, Scenario, Training, algorithms, attacks, data, protections
from cloister.evaluating.merging import merge
from cloister.fl.data.source import Digits
from cloister.fl.runs.comparison import Comparison, Method
from cloister.fl.runs.origin import checksum_of_source

OTHERS = "the data are not those that what is in .* was played with: they were edited, or are drawn anew"


def table(path: Path, shift: float = 0.0) -> None:
    """Six clients, one record of whom has another number."""
    rng = np.random.default_rng(0)
    with open(path, "w") as file:
        file.write("who,a,b,label\n")
        for k in range(120):
            a, b = rng.random(2)
            file.write(f"h{k % 6},{a + (k == 3) * shift:.3f},{b:.3f},{'xy'[int(a > b)]}\n")


def scenario(path: Path) -> Scenario:
    return Scenario(
        name="own",
        data=data.from_csv(path, client="who", label="label"),
        model=cloister.models.Mlp(hidden=(4,)),
        training=Training(epochs=1, batch=10, lr=0.1),
        algorithm=algorithms.FedAvg(),
        protection=protections.Plain(),
        rounds=2,
    )


@pytest.mark.long
@pytest.mark.trains
def test_a_run_is_not_gone_on_with_other_data(tmp_path: Path) -> None:
    table(file := tmp_path / "own.csv")
    cloister.run(scenario(file), tmp_path / "run", quiet=True)
    table(file, 0.25)
    longer = replace(scenario(file), rounds=3)
    with pytest.raises(ValueError, match=r"the data are not those that the run in .*run was played with: they were edited"):
        cloister.run(longer, tmp_path / "run", resume=True, quiet=True)
    table(file)
    assert cloister.run(longer, tmp_path / "run", resume=True, quiet=True).summary["rounds"] == 3


def evaluation(path: Path, seeds: tuple[int, ...] = (0,)) -> Evaluation:
    return Evaluation(
        name="own",
        scenario=scenario(path),
        attacks={"minus": attacks.MinusGradient()},
        defences={"fedavg": algorithms.FedAvg()},
        strengths=(1,),
        seeds=seeds,
    )


@pytest.mark.trains
@pytest.mark.long
def test_cells_of_an_evaluation_are_of_one_set_of_data(tmp_path: Path) -> None:
    table(file := tmp_path / "own.csv")
    cloister.evaluate(evaluation(file), tmp_path / "a", quiet=True)
    kept, digest = (tmp_path / "a" / "results.jsonl").read_bytes(), checksum_of_source(scenario(file).data(None))
    table(file, 0.25)
    with pytest.raises(ValueError, match=OTHERS):
        cloister.evaluate(evaluation(file), tmp_path / "a", resume=True, quiet=True)
    cloister.evaluate(evaluation(file, seeds=(1,)), tmp_path / "b", quiet=True)
    with pytest.raises(ValueError, match=r"b was played with other data than .*a: play one of them again"):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "both")
    table(file)
    cloister.evaluate(evaluation(file), tmp_path / "a", resume=True, quiet=True)
    assert (tmp_path / "a" / "results.jsonl").read_bytes() == kept
    about = json.loads((tmp_path / "a" / "evaluation.json").read_text())
    assert about["data_sha256"] == {"data": digest}


@pytest.mark.trains
@pytest.mark.long
def test_a_comparison_says_which_of_its_data_is_another(tmp_path: Path) -> None:
    files = {"first": tmp_path / "first.csv", "second": tmp_path / "second.csv"}
    for k, file in enumerate(files.values()):
        table(file, k)
    comparison = Comparison(
        name="own",
        scale="quick",
        seeds=(0,),
        data={name: scenario(file) for name, file in files.items()},
        methods={"FedAvg": Method(algorithm=algorithms.FedAvg())},
    )
    cloister.compare(comparison, tmp_path / "c", quiet=True)
    table(files["second"], 0.25)
    with pytest.raises(ValueError, match="the data of 'second' are not those"):
        cloister.compare(comparison, tmp_path / "c", resume=True, quiet=True)
    table(files["second"], 1)
    cloister.compare(comparison, tmp_path / "c", resume=True, quiet=True)


@pytest.mark.long
@pytest.mark.trains
def test_a_search_is_of_one_set_of_data(tmp_path: Path) -> None:
    table(file := tmp_path / "own.csv")
    asked = {"against": "fedavg", "budget": 2, "seeds": (0,), "held_out": (), "quiet": True}
    cloister.attack(evaluation(file), tmp_path / "s", **asked)
    table(file, 0.25)
    with pytest.raises(ValueError, match=OTHERS):
        cloister.attack(evaluation(file), tmp_path / "s", resume=True, **asked)


def test_the_checksum_is_of_records_labels_and_whose_they_are() -> None:
    pandas = pytest.importorskip("pandas", reason="an extra")
    frame = pandas.DataFrame({"who": list("aabbcc") * 10, "x": range(60), "y": ["m", "n"] * 30})
    first = checksum_of_source(data.from_dataframe(frame, client="who", label="y")(None))
    assert checksum_of_source(data.from_dataframe(frame.copy(), client="who", label="y")(None)) == first
    for column, row, value in (("who", 3, "a"), ("x", 5, 5.5), ("y", 0, "n")):
        other = frame.astype({"x": float}) if column == "x" else frame.copy()
        other.loc[row, column] = value
        assert checksum_of_source(data.from_dataframe(other, client="who", label="y")(None)) != first
    renamed = frame.replace({"y": {"m": "o"}})
    assert checksum_of_source(data.from_dataframe(renamed, client="who", label="y")(None)) != first
    assert checksum_of_source(Digits()(None)) == checksum_of_source(Digits()(None))
