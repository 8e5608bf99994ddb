"""A deployment's scenario that names columns, or a shape of images, and labels, and has no records."""

import csv
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torch import nn

import cloister
from cloister import Scenario, Training, algorithms, attacks, data, protections
from cloister.fl.algorithms.emd_cfl import Gap
from cloister.fl.cost.pairs import pair_load_of
from cloister.fl.data.agreed import agreed_on
from cloister.fl.data.own import OwnData
from cloister.fl.emd.subsample import Size
from cloister.fl.runs.agreement import terms_of
from cloister.fl.runs.experiment import run
from cloister.fl.runs.feasibility import Doubt
from cloister.own_data_check import fits, seen
from cloister.reporting.own_record import write_client_report
from cloister.reporting.report import write_report

from .commanded import commanded
from .served import played

COLUMNS = ["age", "pulse"]


def network(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Linear(shape[0], classes)


def agreed(clients: int = 6) -> Scenario:
    return Scenario(
        name="wards",
        data=data.agreed_columns(COLUMNS, label="found", labels=["well", "ill"], clients=clients),
        model=network,
        training=Training(epochs=1, batch=10, lr=0.1),
        algorithm=algorithms.FedAvg(),
        protection=protections.Masked(),
        rounds=2,
    )


def ward(path: Path, of: int) -> Path:
    """A client's own file, columns in another order."""
    rng = np.random.default_rng(of)
    rows = [[round(b, 3), "ill" if a + b > 0 else "well", round(a, 3)] for a, b in rng.standard_normal((30, 2))]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["pulse", "found", "age"], *rows])
    return path


def test_shapes_labels_and_clients_are_those_that_were_agreed():
    source = agreed().data(None)
    assert (source.shape, source.classes, source.labels, len(source.clients)) == ((2,), 2, ("ill", "well"), 6)
    table = agreed_on(agreed().data)
    assert (table.columns, table.label, table.kinds) == (("age", "pulse"), "found", ("ill", "well"))
    assert terms_of(agreed())["data.columns"] == json.dumps(COLUMNS)
    assert agreed().data(None).train.x.equal(source.train.x), "all parties have the same rows"


def test_labels_are_in_one_order_with_the_same_file_of_rows(tmp_path):
    """Whoever simulates with records has the classes that the deployment has."""
    for labels in (["10", "9", "2"], ["b", "a"], ["1", "0"]):
        rows = [[client, k, label] for client in range(2) for k in range(9) for label in labels]
        with (tmp_path / "rows.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["who", "x", "label"], *rows])
        there = data.from_csv(tmp_path / "rows.csv", client="who").agreed()
        assert there == agreed_on(data.agreed_columns(["x"], labels=labels, clients=2))


@pytest.mark.trains
def test_a_client_looks_whether_its_own_file_fits(tmp_path):
    own = ward(tmp_path / "own.csv", 0)
    words = dict(fits(agreed(), own, None, None))
    assert words["agreed"] == "labels ill, well; columns age, pulse"
    assert dict(seen(own, "found"))["labels"].startswith("ill (")
    own.write_text(own.read_text().replace("pulse", "beat", 1))
    with pytest.raises(ValueError, match=r"own\.csv .*'?pulse"):
        dict(fits(agreed(), own, None, None))


@pytest.mark.trains
def test_a_simulation_of_made_up_rows_says_so_and_what_would_tell(tmp_path):
    with pytest.warns(Doubt, match="made up, and nothing is learned from them: simulate with records"):
        list(run(agreed(), tmp_path / "run"))
    page = write_report(tmp_path / "run").read_text()
    assert "the rows of agreed_columns are made up" in page
    assert "Nothing was learned" not in page
    assert "diverged" not in page


@pytest.mark.trains
@pytest.mark.long
def test_a_coordinator_scores_nothing_by_made_up_rows(tmp_path):
    """Else it says of a run on real records that training diverged, or that one client has everything wrong."""
    served = played(agreed(), tmp_path, own={client: ward(tmp_path / f"{client}.csv", client) for client in range(6)})
    assert [line["accuracy"] for line in served.read("metrics.jsonl")] == [{}, {}]
    page = write_report(served.folder).read_text()
    assert "Nobody said how well models predict, so there is nothing to draw" in page
    assert "diverged" not in page
    assert all(served.model(client) for client in range(6)), "they have learned all the same"


@pytest.mark.parametrize(
    ("columns", "given", "words"),
    [
        ("age", {}, "columns are a list, as ['age', ...]"),
        (["age", "age"], {}, "'age' is twice among the columns"),
        ([], {}, "at least one"),
        (["age", ""], {}, "columns are the names of the inputs"),
        (["found"], {}, "'found' is to be learned, and cannot be among the columns"),
        (["age"], {"labels": None}, "numbers to be predicted are learned in simulations alone"),
        (["age"], {"labels": 2}, "labels are a list, as ['2', ...]"),
        (["age"], {"labels": "ill"}, "labels are a list, as ['ill', ...]"),
        (["age"], {"labels": ["ill"]}, "at least two"),
        (["age"], {"labels": [1, "1"]}, "'1' is twice among the labels"),
        (["age"], {"clients": 0}, "clients is how many take part"),
        (["age"], {"clients": ["a", "b"]}, "clients is how many take part"),
    ],
)
def test_what_is_no_agreement_is_refused_in_a_line(columns, given, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        data.agreed_columns(columns, **{"label": "found", "labels": ["ill", "well"], "clients": 3, **given})


def test_no_verdict_is_about_records_that_are_made_up(tmp_path):
    """Before, audits, evaluations, searches and comparisons played them without a word, and spoke of leaks and accuracies."""
    made = agreed()
    evaluation = cloister.Evaluation(
        name="e",
        scenario=made,
        attacks={"minus": attacks.MinusGradient()},
        defences={"mean": algorithms.FedAvg()},
        strengths=(1,),
    )
    comparison = cloister.Comparison(
        name="c", data={"agreed": made}, methods={"mean": cloister.Method(algorithm=algorithms.FedAvg())},
        protections={"Plain": protections.Plain()}, seeds=(0,), scale="quick",
    )  # fmt: skip
    plays = {
        "audit": lambda out: cloister.audit(made, out, quiet=True),
        "evaluate": lambda out: cloister.evaluate(evaluation, out, quiet=True, workers=1),
        "attack": lambda out: cloister.attack(made, out, budget=4, quiet=True, workers=1),
        "compare": lambda out: cloister.compare(comparison, out, quiet=True, workers=1),
    }
    for name, play in plays.items():
        with pytest.raises(
            ValueError, match=r"the rows of agreed_columns are made up, .*: simulate with records that you have, --set"
        ):
            play(tmp_path / name)
        assert not (tmp_path / name).exists()


# --- clients that are compared by their data ------------------------------------------------------------------------------


def compared(**changes) -> Scenario:
    """Four wards that are compared by ten of their records."""

    def layers(shape: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Sequential(nn.Linear(shape[0], 8), nn.ReLU(), nn.Linear(8, classes))

    with_size = algorithms.EMDCFL(size=Size(10), eps=Gap())
    given = {"algorithm": with_size, "model": layers, "protection": protections.Masked(floor=2), "validation": 0.5}
    return replace(agreed(4), **given | changes)


def kind(path: Path, of: int, rows: int = 60) -> Path:
    """A file of one of two kinds of wards: of other ages and pulses."""
    rng = np.random.default_rng(of)
    with path.open("w", newline="") as file:
        at = np.array([0.0, 4.0]) if of % 2 else np.array([4.0, 0.0])
        found = [[*np.round(at + rng.standard_normal(2) / 2, 3), "ill" if rng.random() < 0.5 else "well"] for _ in range(rows)]
        csv.writer(file).writerows([[*COLUMNS, "found"], *found])
    return path


@pytest.mark.trains
@pytest.mark.long
def test_clients_are_compared_by_as_many_of_their_records_as_the_scenario_names(tmp_path):
    """The coordinator took the number from its made-up rows, and every client refused every offer."""
    served = played(
        compared(), tmp_path, own={client: kind(tmp_path / f"{client}.csv", client, 60 + client) for client in range(4)}
    )
    clusters = served.read("metrics.jsonl")[-1]["clusters"]
    assert sorted(clusters.values()) == [[0, 2], [1, 3]]
    assert not any("refused" in line for client in range(4) for line in served.record(client))
    page = write_client_report(served.home[0]).read_text()
    assert "to be compared: embeddings under a secret projection (orthonormal) of each pair, which the server lacks" in page
    assert "The coordinator and the other client of a pair together have that without the projection, nearly exactly." in page
    (tmp_path / "pilot").mkdir()
    for client in range(4):
        kind(tmp_path / "pilot" / f"{client}.csv", client, 60 + client)
    list(run(compared(data=data.from_csv(tmp_path / "pilot", label="found")), tmp_path / "simulated"))
    lines = (tmp_path / "simulated" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["clusters"] == clusters, "as the simulation of the same records"


@pytest.mark.trains
def test_who_has_too_few_records_to_be_compared_is_told_before_it_joins(tmp_path):
    """Before, a number of made-up rows was said to be the client's, or that all fits."""
    own = kind(tmp_path / "own.csv", 0)
    noise = algorithms.EMDCFL(size=Size(10))
    words = dict(fits(compared(algorithm=noise), own, None, None))
    assert words["compared"] == "by 10 of its records to train on, and 2 samples of 10 of those that it holds out (24)"
    few = "compared by samples of 512, the same number for all, .* here has 12: agree on algorithm.size.limit=12 or less, or hold"
    with pytest.raises(ValueError, match=few):
        dict(fits(compared(algorithm=algorithms.EMDCFL()), own, None, None))
    assert pair_load_of(compared(validation=0.01), None).rows == 10, "made-up rows are no client's"


@pytest.mark.long
def test_a_coordinator_says_at_its_start_by_how_many_records_clients_are_compared(tmp_path):
    text = """
from cloister import Scenario, Training, algorithms, data, models, partitions, protections
scenario = Scenario(name="a", data=data.Digits(), partition=partitions.Iid(clients=3, samples=200), model=models.Mlp(hidden=(4,)),
                    training=Training(epochs=1, batch=10, lr=0.1), algorithm=algorithms.EMDCFL(by_samples=False),
                    protection=protections.Masked(), rounds=1, validation=0.2)
"""
    (tmp_path / "a.py").write_text(text)
    start = ("serve", "a.py", "--listen", "127.0.0.1:0", "--insecure-loopback", "--wait", "0.1", "--out", "run")
    said = commanded(tmp_path, *start).stderr
    assert "each is compared by samples of 512 of its records, and one with fewer cannot take part" in said, said
    other = commanded(tmp_path, *start, "--set", "algorithm=algorithms.FedAvg(by_samples=False)").stderr
    assert "compared by samples" not in other


@pytest.mark.trains
def test_nothing_is_refused_for_the_number_of_made_up_rows(tmp_path):
    """Before: "client 0 has 8 records, of which batches of 7 leave one", of a client of 48."""

    def normed(shape: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Sequential(nn.BatchNorm1d(shape[0], track_running_stats=False), nn.Linear(shape[0], classes))

    own = kind(tmp_path / "own.csv", 0)
    scenario = replace(agreed(), model=normed, training=Training(epochs=1, batch=7, lr=0.1), validation=0.05)
    assert dict(fits(scenario, own, None, None))["train on"] == "46 records, in batches of 7, the last of 4"


# --- images ---------------------------------------------------------------------------------------------------------------

SHAPE = (1, 4, 4)


def of_images(clients: int = 6) -> Scenario:
    def flat(shape: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), classes))

    source = data.agreed_images(shape=SHAPE, labels=["well", "ill"], clients=clients)
    return replace(agreed(), name="scans", data=source, model=flat)


def scans(home: Path, labels: Sequence[str] = ("well", "ill")) -> Path:
    for k, label in enumerate(labels):
        (home / label).mkdir(parents=True)
        for n in range(10):
            Image.new("L", (8, 8), 100 * k + 5 * n).save(home / label / f"{n}.png")
    return home


@pytest.mark.trains
def test_folders_of_images_are_named_by_the_labels_that_were_agreed(tmp_path):
    """Clients had to name them by numbers, where a simulation takes words."""
    own = scans(tmp_path / "own")
    words = dict(fits(of_images(), own, None, None))
    assert words["agreed"] == "labels ill, well; images of 1 x 4 x 4"
    source = OwnData(own, SHAPE, 2, agreed=agreed_on(of_images().data))(None)
    bright = {(float(x.mean()) >= 100 / 255, int(y)) for x, y in zip(source.train.x, source.train.y, strict=True)}
    assert bright == {(True, 0), (False, 1)}, "ill is 0"
    there = data.from_folders(scans(tmp_path / "pilot" / "ward").parent, shape=SHAPE)
    assert agreed_on(there) == agreed_on(of_images().data), "whoever simulates has the classes that the deployment has"
    assert terms_of(of_images())["data.shape"] == "[1, 4, 4]"


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (("well", "Ill"), r"Ill: its name, a label, is 'Ill', none of those agreed: ill, well; is 'ill' meant\?"),
        (("0", "1"), r"0: its name, a label, is '0', none of those agreed: ill, well"),
    ],
)
def test_a_folder_of_no_agreed_label_is_refused(tmp_path, labels, words):
    with pytest.raises(ValueError, match=words):
        dict(fits(of_images(), scans(tmp_path / "own", labels), None, None))


def test_a_file_where_images_were_agreed_on_and_words_where_labels_are_numbers_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"own\.csv is a file, and images were agreed on: .* with ill/ and well/ in it"):
        dict(fits(of_images(), ward(tmp_path / "own.csv", 0), None, None))
    with pytest.raises(ValueError, match=r"ill is named by no number, and .* from 0 to 9; .* data\.agreed_images"):
        OwnData(scans(tmp_path / "own"), SHAPE, 10)(None)
    with pytest.raises(ValueError, match=r"shape is \(channels, height, width\)"):
        data.agreed_images(shape=(2, 4, 4), labels=["a", "b"], clients=2)
    with pytest.raises(ValueError, match="labels are the names of the folders of images, and at least two"):
        data.agreed_images(shape=SHAPE, labels=["a"], clients=2)


@pytest.mark.trains
@pytest.mark.long
def test_clients_with_folders_of_images_learn_together(tmp_path):
    served = played(of_images(), tmp_path, own={client: scans(tmp_path / f"own {client}") for client in range(6)})
    assert all(served.model(client) for client in range(6))
    page = write_report(served.folder).read_text()
    assert "agreed images" in page
    with pytest.warns(Doubt, match="the images of agreed_images are made up, and nothing is learned from them"):
        list(run(of_images(), tmp_path / "run"))
