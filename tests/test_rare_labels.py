"""A label of one record alone, as a misspelt one is, is a class of its own, and a note says so before anything is trained."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import cloister
from cloister import data, partitions
from cloister.fl.data.population import Examples, Source
from cloister.fl.data.rare import rare_labels
from cloister.fl.runs.feasibility import Doubt

from . import evaluation_sample as sample


def table(folder: Path, labels: list[str]) -> Path:
    (folder / "home").mkdir()
    for k, client in enumerate(("north", "south")):
        rows = [f"{i},{i % 3},{label}" for i, label in enumerate(labels[k::2])]
        (folder / "home" / f"{client}.csv").write_text("\n".join(["a,b,kind", *rows]) + "\n")
    return folder / "home"


@pytest.mark.trains
def test_a_run_notes_a_misspelt_label_with_its_client_and_what_was_meant(tmp_path: Path) -> None:
    files = table(tmp_path, ["dog", "dog", "cat", "cat"] * 6 + ["dgo", "cat"])
    scenario = replace(sample.scenario, data=data.from_csv(files, label="kind"), partition=partitions.Natural(), rounds=1)
    words = r"of label 'dgo' \(client north, did you mean 'dog'\?\) there is one record alone, and it is a class of its own of 3"
    with pytest.warns(Doubt, match=words):
        result = cloister.run(scenario, tmp_path / "run", quiet=True)
    assert any("'dgo' (client north" in doubt for doubt in result.summary["doubts"])
    assert "'dgo' (client north" in str(result)


def test_words_of_rare_labels() -> None:
    def of(train: list[int], test: list[int], classes: int, **further: tuple[str, ...]) -> list[str]:
        x, y = (
            (torch.zeros(len(train), 2), torch.zeros(len(test), 2)),
            (torch.tensor(train), torch.tensor(test, dtype=torch.int64)),
        )
        return rare_labels(Source("made", Examples(x[0], y[0]), Examples(x[1], y[1]), classes, **further))

    assert of([0, 0, 1], [1], 3) == []  # a label without a record is no record's alone
    assert of([0, 0], [1], 2) == ["of label '1' there is one record alone, and it is a class of its own of 2"]
    assert of([0, 0], [1], 2, labels=("left", "up")) == [
        "of label 'up' there is one record alone, and it is a class of its own of 2"
    ]
    many = of([0, 1, 2, 3, 4, 4], [], 5)
    assert many[0].startswith("of labels '0', '1', '2' and 1 more there is one record alone each")
    assert many[0].endswith("is it the column of labels? Numbers to be predicted are numbers=True")


def test_numbers_and_tokens_have_no_labels() -> None:
    numbers = Examples(torch.zeros(2, 2), torch.tensor([0.5, 1.5]))
    words = Examples(torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 3, dtype=torch.int64))
    assert rare_labels(Source("made", numbers, numbers, 1)) == rare_labels(Source("made", words, words, 9)) == []


def test_decimals_are_said_to_be_read_as_classes(tmp_path: Path) -> None:
    def table(labels: list[str]) -> Path:
        (tmp_path / "all.csv").write_text(
            "home,x,label\n" + "".join(f"h{k % 3},{k},{labels[k % len(labels)]}\n" for k in range(60))
        )
        return tmp_path / "all.csv"

    def read(labels: list[str]) -> Source:
        return data.from_csv(table(labels), client="home")(None)

    (line,) = rare_labels(read(["0.0", "1.0", "2.5", "1.0"]))
    assert line == "label '2.5' is a decimal, and each is a class of its own: numbers to be predicted are numbers=True"
    assert rare_labels(read(["0.0", "1.0", "2.0", "1.0"])) == []
    with pytest.raises(ValueError, match=r"60 records of all have 60 labels; label '0.5' is a decimal.* numbers=True$"):
        read([f"{k}.5" for k in range(60)])
