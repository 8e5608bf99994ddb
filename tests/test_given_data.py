"""Data of clients that are there already: tables, data sets, images; and models that are modules."""

import csv
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn
from torch.utils.data import IterableDataset

import cloister
from cloister import Scenario, Training, algorithms, data, partitions, protections
from cloister.fl.data.gathered import in_order
from cloister.fl.data.natural import Natural
from cloister.fl.data.table import finite_number, number_in
from cloister.fl.fields_at_fault import field_of
from cloister.fl.models.fit import check_batches, check_model
from cloister.fl.runs.before_grids import check_fits
from cloister.fl.runs.experiment import run
from cloister.fl.runs.parties import Parties
from cloister.fl.runs.scenario import described
from cloister.reporting.report import write_report
from cloister.result import load
from cloister.scenario_file import load as load_scenario

from .frame import Frame


def written(path, rows, head):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])


def hospitals(folder, count=12, rows=120):
    """CSV files of hospitals, whose odd ones have other labels for the same inputs; inputs about 30."""
    rng = np.random.default_rng(0)
    ways = [rng.normal(size=(6, 3)) for _ in range(2)]
    folder.mkdir()
    for h in range(count):
        x = rng.normal(size=(rows, 6))
        y = (x @ ways[h % 2]).argmax(1)
        lines = [[*map(float, 10 * a + 30), f"kind {b}"] for a, b in zip(x, y, strict=True)]
        written(folder / f"hospital {h:02}.csv", lines, [*(f"value {i}" for i in range(6)), "label"])
    return folder


def scenario(source, model, rounds=2, **more):
    return Scenario(
        name="own",
        data=source,
        model=model,
        training=Training(epochs=3, batch=30, lr=0.1),
        algorithm=algorithms.CFL(thresholds=algorithms.ScaleFree(eps1=0.4, eps2=0.5), patience=3),
        protection=protections.Masked(),
        rounds=rounds,
        **more,
    )


def with_norm(norm):
    return nn.Sequential(norm, nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))


# --- tables -----------------------------------------------------------------------------------------------------------------


def test_a_folder_of_tables_has_a_client_for_each(tmp_path):
    source = data.from_csv(hospitals(tmp_path / "h", 3))(None)
    assert source.clients == ("hospital 00", "hospital 01", "hospital 02")
    assert (source.classes, source.shape) == (3, (6,))
    population = Natural()(source, np.random.default_rng(0))
    assert population.groups == {}
    assert population.names == dict(enumerate(source.clients))
    assert {len(client.train) + len(client.test) for client in population.clients.values()} == {120}
    assert all(15 <= len(client.test) <= 33 for client in population.clients.values())


def test_a_column_says_whose_a_row_is_and_labels_are_in_order(tmp_path):
    rows = [[i % 2, label, f"c{i % 3}"] for i in range(60) for label in (10, 9)]
    written(tmp_path / "all.csv", rows, ["x", "what", "who"])
    source = data.from_csv(tmp_path / "all.csv", label="what", client="who")(None)
    assert source.clients == ("c0", "c1", "c2")
    population = Natural()(source, np.random.default_rng(0))
    for i, client in population.clients.items():
        assert len(client.train) == 32
        assert set(client.test.y.tolist()) == {0, 1}  # 9 before 10
        assert len(client.test) == 8
        assert i in (0, 1, 2)


@pytest.mark.parametrize(
    ("rows", "head", "words"),
    [
        ([[1, 0], ["a", 1]], ["x", "label"], "line 3 of .*: column 'x' has 'a', which is no number"),
        ([[1, 0], ["", 1]], ["x", "label"], "line 3 of .*: column 'x' is empty"),
        ([[1, 0]], ["x", "y"], "has no column 'label'; it has: x, y"),
        ([[1, 2, 0]], ["7.5", "80", "no"], "no column 'label'; its columns are called 7.5, 80, no: is the header missing"),
        ([[1, 2, 0]], ["0", "0", "no"], "one.csv has two columns '0': is the header missing, a first line with the names"),
        ([[1, 0]], ["PK\0\1", "x"], "one.csv is no text in UTF-8"),
        ([["nan", 0], [1, 1]], ["x", "label"], "line 2 of .*: column 'x' has 'nan', which is no finite number; fill it in"),
        ([[1, 0], ["1e39", 1]], ["x", "label"], "line 3 of .*: column 'x' has '1e39', which is too large a number"),
        ([], ["x", "label"], "one.csv has a header and no rows"),
        ([], [], "one.csv is empty"),
        ([[1, 0], [1, 5, 0]], ["x", "label"], "line 3 of .* has 3 cells, and the header 2: is there a comma in a number?"),
        ([[1, 0], [1]], ["x", "label"], "line 3 of .* has 1 cells, and the header 2$"),
        ([[1, 2, 0]], ["x", "x", "label"], "one.csv has two columns 'x'"),
        ([], ["x;label"], "parts its cells by ';', where a comma is needed"),
        ([[1, 0]], ["x", "y"], r"another is named with from_csv\(..., label=COLUMN\)"),
        (
            [[1, 0], [1, 1]],
            ["x", "label"],
            r"client 'one' of .* has too few records to score models by \(with test_share=.*, \d+ are enough",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused_in_words(tmp_path, rows, head, words):
    (tmp_path / "h").mkdir()
    written(tmp_path / "h" / "one.csv", rows, head)
    with pytest.raises(ValueError, match=words) as caught:
        data.from_csv(tmp_path / "h")(None)
    assert "\n" not in str(caught.value)


def test_spaces_around_names_and_the_case_of_endings_do_not_count_and_other_alphabets_are_refused(tmp_path):
    hospitals(tmp_path / "h", 3)
    plain = data.from_csv(tmp_path / "h")(None)
    first, second, third = sorted((tmp_path / "h").iterdir())
    first.write_text(first.read_text().replace("value 2", " value 2 "))
    second.rename(second.with_suffix(".CSV"))
    found = data.from_csv(tmp_path / "h")(None)
    assert found.clients == plain.clients
    assert torch.equal(found.train.x, plain.train.x)
    third.write_bytes(third.read_text().encode("utf-16"))
    with pytest.raises(ValueError, match=r"hospital 02\.csv is no text in UTF-8: save the table as CSV in UTF-8"):
        data.from_csv(tmp_path / "h")(None)


def test_tables_of_other_columns_and_a_single_file_without_a_column_are_refused(tmp_path):
    (tmp_path / "h").mkdir()
    written(tmp_path / "h" / "a.csv", [[1, 0]], ["x", "label"])
    written(tmp_path / "h" / "b.csv", [[1, 0]], ["z", "label"])
    for path, words in (
        (tmp_path / "h", "has other columns than the files before: it lacks 'x' and has 'z' besides"),
        (tmp_path / "h" / "a.csv", r"name the column that says whose a row is, from_csv\(..., client=COLUMN\)"),
        (tmp_path / "none", "there is no file or folder"),
        (
            Path("none.csv"),
            r"none.csv; it is looked for in .*; beside a scenario's file: Path\(__file__\).parent / 'none.csv'",
        ),
        (tmp_path, "holds no .csv file"),
    ):
        with pytest.raises(ValueError, match=words):
            data.from_csv(path)(None)


def test_pictures_that_are_not_there_are_said_with_where_they_are_looked_for(tmp_path):
    with pytest.raises(ValueError, match=r"no file or folder picz; it is looked for in .*, where the command runs"):
        data.from_folders("picz", shape=(1, 8, 8))(None)
    (tmp_path / "pics").write_text("")
    with pytest.raises(ValueError, match="pics is a file; give a folder with one for each client"):
        data.from_folders(tmp_path / "pics", shape=(1, 8, 8))(None)


def test_a_misspelt_folder_is_said_with_what_there_is_and_hidden_files_are_nobodys(tmp_path):
    hospitals(tmp_path / "hospitals", 3)
    with pytest.raises(ValueError, match=rf"no file or folder .*; did you mean {re.escape(str(tmp_path / 'hospitals'))}$"):
        data.from_csv(tmp_path / "hospital")(None)
    (tmp_path / "hospitals" / "._hospital 00.csv").write_text("left by a copy")
    assert data.from_csv(tmp_path / "hospitals")(None).clients == ("hospital 00", "hospital 01", "hospital 02")


def test_columns_that_are_no_inputs_are_left_out_by_name(tmp_path):
    (tmp_path / "a.csv").write_text("patient,x,ward,label\n" + "".join(f"P{k},{k},icu,{k % 2}\n" for k in range(8)))
    (tmp_path / "b.csv").write_text("x,label,ward,patient\n" + "".join(f"{k},{k % 2},er,P{k}\n" for k in range(8, 16)))
    source = data.from_csv(tmp_path, without=("patient", "ward"))(None)
    assert (source.columns, source.shape) == (("x",), (1,))
    assert sorted([*source.train.x.flatten().tolist(), *source.test.x.flatten().tolist()]) == [*range(16)]
    assert data.from_csv(tmp_path, without=["patient", "ward"]).agreed().columns == ("x",)
    with pytest.raises(
        ValueError, match=r"column 'ward' has 'icu', .*leave it out, without=\['ward'\], or make it a column of 0"
    ):
        data.from_csv(tmp_path, without=["patient"])(None)
    with pytest.raises(ValueError, match="no column 'wards', which `without` leaves out; it has patient, x, ward, label"):
        data.from_csv(tmp_path, without=["patient", "wards"])(None)
    with pytest.raises(ValueError, match="there is nothing to learn from"):
        data.from_csv(tmp_path, without=["patient", "ward", "x"])(None)
    with pytest.raises(ValueError, match=r"without=\['ward'\]"):
        data.from_csv(tmp_path, without="ward")
    with pytest.raises(ValueError, match="which is to be learned"):
        data.from_csv(tmp_path, without=["label"])


def test_one_column_too_many_and_a_label_that_is_no_number_are_called_what_they_are(tmp_path):
    (tmp_path / "h").mkdir()
    written(tmp_path / "h" / "a.csv", [[1, "no"]], ["x", "label"])
    with pytest.raises(ValueError, match="the label 'label' has 'no', which is no number; with numbers=True labels are numbers"):
        data.from_csv(tmp_path / "h", numbers=True)(None)
    with pytest.raises(ValueError, match=r"a\.csv has no column 1; it has: x, label"):
        data.from_csv(tmp_path / "h", label=1)(None)
    written(tmp_path / "h" / "b.csv", [[1, 1, 0]], ["x", "1", "label"])
    with pytest.raises(ValueError, match=r"than the files before: it has '1' besides$"):
        data.from_csv(tmp_path / "h")(None)


def test_a_data_frame_gives_what_the_table_gives(tmp_path):
    rng = np.random.default_rng(1)
    x, y, who = rng.normal(size=(90, 2)), np.arange(90) % 2, [f"c{i % 3}" for i in range(90)]
    frame = Frame(a=x[:, 0], b=x[:, 1], label=[f"k{i}" for i in y], who=who)
    found = data.from_dataframe(frame, label="label", client="who")
    source = found(None)
    assert source.clients == ("c0", "c1", "c2")
    assert len(source.train) + len(source.test) == 90
    assert (
        described(found)["digest"]
        != described(data.from_dataframe(Frame(frame, a=x[:, 0] + 1), label="label", client="who"))["digest"]
    )
    with pytest.raises(ValueError, match="have to be numbers"):
        data.from_dataframe(Frame(frame, a=["a"] * 90), label="label", client="who")
    for nothing, several in ((np.nan, ""), (1e300, ""), (np.inf, ", and in 1 more")):
        holed = [1.0] * 17 + [nothing] * (2 if several else 1) + [2.0] * (71 if several else 72)
        words = f"column 'b' of the data frame is missing, not finite or above 3.4e38 in record 18{several};"
        with pytest.raises(ValueError, match=words):
            data.from_dataframe(Frame(frame, b=holed), label="label", client="who")
    with pytest.raises(ValueError, match="has no column 'whom'"):
        data.from_dataframe(frame, label="label", client="whom")


def test_data_sets_of_torch_by_client():
    x = torch.randn(40, 1, 4, 4)
    sets = {f"site {k}": torch.utils.data.TensorDataset(x + k, torch.arange(40) % 4) for k in range(3)}
    source = data.from_datasets(sets)(None)
    assert (source.clients, source.classes, source.shape) == (("site 0", "site 1", "site 2"), 4, (1, 4, 4))
    given = data.from_datasets(sets, test=sets, classes=6)(None)
    assert (len(given.train), len(given.test), given.classes) == (120, 120, 6)
    assert torch.equal(given.train.x[40:80], x + 1)
    arrays = {who: (of.tensors[0].numpy(), of.tensors[1].numpy()) for who, of in sets.items()}
    for one in (arrays, {who: of.tensors for who, of in sets.items()}):
        same = data.from_datasets(one, test=one, classes=6)(None)
        assert torch.equal(same.train.x, given.train.x)
        assert torch.equal(same.train.y, given.train.y)
    with pytest.raises(ValueError, match="client 'site 0' has 40 inputs and 39 labels"):
        data.from_datasets({"site 0": (arrays["site 0"][0], arrays["site 0"][1][:-1])})
    pairs = {"a": ((np.zeros(2), 0), (np.ones(2), 1)), "b": [(np.zeros(2), 1)] * 2}  # two records, and no arrays
    assert data.from_datasets(pairs, test=pairs)(None).train.y.tolist() == [0, 1, 1, 1]
    with pytest.raises(ValueError, match="have to name the same clients"):
        data.from_datasets(sets, test={"site 0": sets["site 0"]})
    with pytest.raises(ValueError, match=r"clients are a dict of data sets by client, .*, not a list"):
        data.from_datasets([*sets.values()])
    with pytest.raises(ValueError, match=r"from_dataframe takes a data frame, with columns, not a dict"):
        data.from_dataframe({"x": [1]}, label="y", client="who")
    with pytest.raises(ValueError, match="two clients have one name"):
        data.from_datasets({1: sets["site 0"], "1": sets["site 0"]})
    with pytest.raises(ValueError, match="client 'b' of data sets has no records to train on, or none to score"):
        data.from_datasets({"a": sets["site 0"], "b": sets["site 1"]}, test={"a": sets["site 0"], "b": []})
    with pytest.raises(ValueError, match=r"record 2 of data sets has an input that is missing, not finite or above 3\.4e38"):
        data.from_datasets({"a": [(np.zeros(2), 0)]}, test={"a": [(np.array([0.0, np.nan]), 0)]})
    with pytest.raises(ValueError, match="inputs have several shapes"):
        data.from_datasets({"a": [(np.zeros(2), 0)], "b": [(np.zeros(3), 0)]})
    with pytest.raises(ValueError, match="labels go from 0 to 3, where there are 2 classes"):
        data.from_datasets(sets, classes=2)


def test_images_in_folders(tmp_path):
    for client in ("north", "south"):
        for label in ("cat", "dog"):
            folder = tmp_path / "pets" / client / label
            folder.mkdir(parents=True)
            for k in range(5):
                Image.new("RGB", (8, 6), (k, 0, 255)).save(folder / f"{k}.png")
    source = data.from_folders(tmp_path / "pets", shape=(3, 6, 8))(None)
    assert (source.clients, source.classes, source.shape) == (("north", "south"), 2, (3, 6, 8))
    assert float(source.train.x.max()) == 1.0
    assert len(source.test) == 4
    (tmp_path / "pets/north/cat/0.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match="cannot be read as a png or jpg image"):
        data.from_folders(tmp_path / "pets", shape=(3, 6, 8))(None)


def test_data_without_clients_need_a_partition(tmp_path):
    own = scenario(data.Digits(), nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))
    with pytest.raises(ValueError, match="digits has no clients of its own; give the scenario a partition"):
        list(run(own, tmp_path / "r"))


# --- models -----------------------------------------------------------------------------------------------------------------


@pytest.mark.trains
@pytest.mark.long
def test_a_module_is_a_model_and_its_weights_the_first_ones(tmp_path):
    source = data.from_csv(hospitals(tmp_path / "h", 4))
    module = with_norm(nn.LayerNorm(6))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    first = described(scenario(source, module))
    list(run(scenario(source, module, 1), tmp_path / "r"))
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())  # a copy was trained
    assert described(scenario(source, module)) == first
    assert described(scenario(source, with_norm(nn.LayerNorm(6)))) != first  # other weights


@pytest.mark.parametrize(
    ("norm", "words"),
    [
        (nn.BatchNorm1d(6), r"the model's 0 \(BatchNorm1d\) keeps running statistics.*track_running_stats=False"),
        (nn.Linear(5, 6), r"does not take inputs of shape \(6,\)"),
    ],
)
def test_a_model_that_cannot_be_averaged_or_fed_is_refused_before_anything_is_trained(tmp_path, norm, words):
    source = data.from_csv(hospitals(tmp_path / "h", 3))
    with pytest.raises(ValueError, match=words) as caught:
        list(run(scenario(source, with_norm(norm)), tmp_path / "r"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "r").exists()


class Keeps(nn.Module):
    """Scales inputs by what it saw in training, which it keeps in a buffer or in a field; or keeps what does no harm."""

    def __init__(self, how, first=0.0):
        super().__init__()
        self.how, self.linear, self.calls, self.last, self.set = how, nn.Linear(6, 3), 0, None, False
        kept = torch.full((6,), first)
        if how.startswith("buffer"):
            self.register_buffer("kept", kept)
        else:
            self.kept = kept

    def forward(self, x):
        self.calls, self.last = self.calls + 1, x
        if self.training and "mean" in self.how:
            self.kept = 0.9 * self.kept + 0.1 * x.detach().mean(0)
        if "first" in self.how and not self.set:
            self.kept, self.set = x.detach().mean(0), True
        if self.training and "largest" in self.how:
            self.kept = torch.maximum(self.kept, x.detach().abs().amax(0))
        x = x + np.random.default_rng().normal() if "numpy" in self.how else x
        return self.linear(x / (self.kept + 1) if "largest" in self.how else x - self.kept)


@pytest.mark.parametrize("how", ["buffer, mean", "field, mean", "buffer, largest", "field, largest", "field, first"])
@pytest.mark.parametrize("first", [0.0, 5.0])
def test_statistics_of_a_modules_own_are_refused_wherever_it_keeps_them(how, first):
    """Before, made-up records of zeros left a running mean that began at 0 as it was."""
    x, y = torch.rand(40, 6) * 10 + 30, torch.arange(40) % 3
    with pytest.raises(ValueError, match=r"which no update carries, .*: reckon it from the batch at hand, make it a parameter"):
        check_model(Keeps(how, first), x, y, 3)
    with pytest.raises(ValueError, match="which no update carries"):
        check_model(Keeps(how, first), 0.01 * (x - 35), y, 3)


def test_what_a_module_keeps_without_an_effect_is_its_own_business():
    x, y = torch.rand(40, 6) * 10 + 30, torch.arange(40) % 3
    check_model(Keeps("field"), x, y, 3)
    check_model(Keeps("field, numpy"), x, y, 3)  # which draws by itself, and of which nothing can be said
    check_model(nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 3)), x, y, 3)
    check_model(with_norm(nn.BatchNorm1d(6, track_running_stats=False)), x, y, 3)
    check_model(with_norm(nn.LayerNorm(6)), x[:1], y[:1], 3)
    normed = nn.Sequential(nn.utils.spectral_norm(nn.Linear(6, 3)))
    with pytest.raises(ValueError, match=r"\(Linear\) keeps numbers beside its parameters \(0.weight_u\) that training changes"):
        check_model(normed, x, y, 3)


class Squeezed(nn.Module):
    def forward(self, x):
        return x.squeeze()


def test_a_model_without_parameters_or_with_too_few_outputs_is_refused():
    x, y = torch.zeros(3, 6), torch.zeros(3, dtype=torch.int64)
    with pytest.raises(ValueError, match="no parameter to learn"):
        check_model(nn.ReLU(), x, y, 6)
    with pytest.raises(ValueError, match=r"gives \(4, 2\) for 4 records of 3 classes, where \(4, 3\) is needed"):
        check_model(nn.Linear(6, 2), x, y, 3)
    with pytest.raises(ValueError, match=r"the model's parameter weight is of complex numbers, and updates are of real ones"):
        check_model(nn.Linear(6, 3, dtype=torch.complex64), x, y, 3)
    infinite = nn.Linear(6, 3)
    nn.init.constant_(infinite.bias, torch.nan)
    with pytest.raises(ValueError, match="the model's first weights are not finite: bias"):
        check_model(infinite, x, y, 3)
    squeezed = nn.Sequential(nn.Linear(6, 3), Squeezed())
    with pytest.raises(ValueError, match=r"gives \(3,\) for 1 record, where \(1, 3\) is needed; squeeze a dimension by its"):
        check_model(squeezed, x, y, 3)
    with pytest.raises(ValueError, match=r"gives \(\) for 1 record, where \(1,\) is needed; squeeze a dimension by its number"):
        check_model(nn.Sequential(nn.Linear(6, 1), Squeezed()), x, y.float(), 1)


def test_a_batch_of_one_is_foreseen_where_the_model_needs_two():
    x = torch.zeros(3, 6)
    module = with_norm(nn.BatchNorm1d(6, track_running_stats=False))
    check_batches(module, x, {0: 64, 1: 90}, 32)
    check_batches(with_norm(nn.LayerNorm(6)), x, {0: 65}, 32)
    with pytest.raises(ValueError, match=r"client 0 has 64 records, of which batches of 1 have one, .* set training.batch=2"):
        check_batches(module, x, {0: 64, 1: 90}, 1)
    with pytest.raises(ValueError, match=r"client 1 has 65 records, of which batches of 32 leave one.*set training.batch=31"):
        check_batches(module, x, {0: 62, 1: 65}, 32)
    with pytest.raises(ValueError, match="take LayerNorm in the place of BatchNorm"):
        check_batches(module, x, {0: 1}, 32)


@pytest.mark.long
@pytest.mark.trains
def test_hospitals_without_planted_groups_are_found_and_the_report_does_not_call_it_a_failure(tmp_path):
    source = data.from_csv(hospitals(tmp_path / "h", rows=240))  # a fifth is held out; of 24 records batch means are rough
    found = {}
    for name, norm in (("batch", nn.BatchNorm1d(6, track_running_stats=False)), ("layer", nn.LayerNorm(6))):
        torch.manual_seed(0)
        list(run(scenario(source, with_norm(norm), 16), tmp_path / name))
        found[name] = load(tmp_path / name)
    for result in found.values():
        assert sorted(map(sorted, result.clusters)) == [[*range(0, 12, 2)], [*range(1, 12, 2)]]
        assert result.summary["ari"] is result.summary["purity"] is None
        assert result.accuracy > result.summary["accuracy_before_clustering"] + 0.1
        words = write_report(result.folder).read_text()
        assert "hospital 03" in str(result)
        assert "ARI" not in words.split("<main")[1].split("How to repeat")[0]
        assert "spread over several" not in words
        assert not re.search(r" of 1\b", str(result))
    assert found["batch"].accuracy > found["layer"].accuracy - 0.03


def test_oracle_needs_planted_groups(tmp_path):
    own = replace(
        scenario(data.from_csv(hospitals(tmp_path / "h", 3)), with_norm(nn.LayerNorm(6))), algorithm=algorithms.Oracle()
    )
    with pytest.raises(ValueError, match="nobody planted any") as refused:
        list(run(own, tmp_path / "r"))
    assert field_of(refused.value) == "algorithm"
    assert isinstance(partitions.Natural(), Natural)


def test_labels_that_are_all_one_are_refused_wherever_they_come_from(tmp_path):
    """Its one output was scored as that of two labels are: 4 % where any model is right."""
    rng, ways = np.random.default_rng(0), {}
    (tmp_path / "tables").mkdir()
    for h in "ab":
        written(tmp_path / "tables" / f"{h}.csv", [[*rng.normal(size=6), "x"] for _ in range(10)], [*"uvwxyz", "label"])
        (tmp_path / "images" / h / "x").mkdir(parents=True)
        for k in range(10):
            Image.fromarray(rng.integers(0, 255, (2, 3), np.uint8)).save(tmp_path / "images" / h / "x" / f"{k}.png")
    ways["from_csv"] = data.from_csv(tmp_path / "tables")
    ways["from_folders"] = data.from_folders(tmp_path / "images", shape=(1, 2, 3))
    ways["from_datasets"] = data.from_datasets({h: (np.zeros((10, 6), np.float32), np.zeros(10, np.int64)) for h in "ab"})
    ways["from_dataframe"] = data.from_dataframe(
        Frame(v=[*range(20)], site=[*"ab"] * 10, ill=[True] * 20), label="ill", client="site"
    )
    for name, source in ways.items():
        own = scenario(source, lambda shape, classes: nn.Sequential(nn.Flatten(), nn.LazyLinear(classes)))
        for look in (Parties, lambda given, _: check_fits(given, given.data(None))):
            with pytest.raises(ValueError, match=r"^all records have one label, so that there is nothing to learn") as refused:
                look(own, None)
            assert field_of(refused.value) == "data", name


def test_several_paths_are_not_one(tmp_path):
    for take in (data.from_csv, data.from_leaf, lambda path: data.from_folders(path, shape=(1, 2, 2))):
        with pytest.raises(ValueError, match=r"^from_\w+ takes one path, not \['a', 'b'\]: "):
            take(["a", "b"])
    assert data.from_csv(tmp_path) == data.from_csv(str(tmp_path))


def test_a_column_of_words_in_a_data_frame_is_named():
    frame = Frame(age=[1.0, 2.0], sex=["m", "f"], site=["a", "b"], ill=[0, 1])
    with pytest.raises(ValueError, match=r"^column 'sex' of the data frame: .*; columns beside label and client are inputs"):
        data.from_dataframe(frame, label="ill", client="site")


def test_clients_that_are_the_same_number_stay_apart_and_in_one_order(tmp_path: Path) -> None:
    """The order of "00" and "0" was that of a set of texts, which is another in every process."""
    rows = "".join(f"{client},{k},{k % 2}\n" for client in ("00", "1", "01", "0", "000") for k in range(10))
    (tmp_path / "all.csv").write_text(f"site,x,label\n{rows}")
    assert data.from_csv(tmp_path / "all.csv", client="site")(None).clients == ("0", "00", "000", "01", "1")
    assert in_order({"nan", "2", "10", "b"}) == in_order(["b", "10", "2", "nan"]) == ["10", "2", "b", "nan"]
    assert in_order(["nan", "2", "10"]) == in_order(["2", "10", "nan"])


def test_a_frame_with_two_columns_of_one_name_or_without_inputs_is_refused() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"w": ["a", "a", "b", "b"], "x": [1.0, 2.0, 3.0, 4.0], "y": [0, 1, 0, 1]})
    for twice in ("x", "y"):
        with pytest.raises(ValueError, match=f"^the data frame has two columns '{twice}'; give each a name of its own"):
            data.from_dataframe(pandas.concat([frame, frame[[twice]]], axis=1), label="y", client="w")
    with pytest.raises(ValueError, match=r"^the data frame has no column beside 'y' and 'w': there is nothing to learn from$"):
        data.from_dataframe(frame[["w", "y"]], label="y", client="w")


class Endless(IterableDataset):
    def __iter__(self):
        yield torch.zeros(2), 0


@pytest.mark.parametrize(
    ("records", "words"),
    [
        (Endless(), r"the records of client 'a' cannot be counted and indexed; give list\(...\) of them"),
        ([{"x": 1, "y": 0}] * 3, r"record 0 of client 'a' is not numbers and a label: it is a mapping of x, y; give pairs"),
        ([(torch.zeros(2), -1), (torch.zeros(2), 0)] * 5, "there is a label -1: labels are whole numbers from 0 on"),
    ],
)
def test_data_sets_of_other_forms_are_refused_in_words(records, words):
    with pytest.raises(ValueError, match=words):
        data.from_datasets({"a": records})


def test_digits_in_groups_are_no_number():
    """As in every other tool: Python alone reads 1_000 as 1000."""
    assert number_in("1000") == 1000
    with pytest.raises(ValueError, match=r"line 3 of x has '1_000', which is no number"):
        finite_number("1_000", "line 3 of x")


@pytest.mark.long
@pytest.mark.trains
def test_an_accuracy_is_computed_again_from_the_folder_and_the_scenario(tmp_path):
    """As the guide on keeping results shows it: models as files, and who is scored by what."""
    kept = replace(load_scenario("cloister:quickstart"), rounds=2)
    result = cloister.run(kept, tmp_path / "r", quiet=True)
    dealt = data.population_of(kept)
    for row in [row for row in result.metrics if row["round"] == 1][:4]:
        client = dealt.clients[row["client"]]
        module = kept.model(client.train.x.shape[1:], dealt.classes)
        module.load_state_dict(load_file(result.folder / "models" / f"{row['cluster']}.safetensors"))
        with torch.no_grad():
            again = float((module.eval()(client.test.x).argmax(1) == client.test.y).float().mean())
        assert again == pytest.approx(row["accuracy"], abs=1e-6)
