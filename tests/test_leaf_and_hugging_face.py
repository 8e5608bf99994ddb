"""Your own data from LEAF's JSON files and from Hugging Face's data sets."""

import json
import sys

import numpy as np
import pytest
from PIL import Image

import cloister
from cloister import Scenario, Training, algorithms, data, models, protections
from cloister.fl.clients.losses import IGNORED


def leaf(path, users, **more):
    found = {"users": list(users), "num_samples": [len(of["y"]) for of in users.values()], "user_data": users}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found | more))
    return path


def femnist(count=20, seed=0):
    rng = np.random.default_rng(seed)
    return {"x": rng.random((count, 784)).round(3).tolist(), "y": rng.integers(0, 62, count).tolist()}


def test_images_of_leaf_are_clients_by_user(tmp_path):
    users = {f"f{i:04}_00": femnist(seed=i) for i in range(3)}
    leaf(tmp_path / "train" / "all_data_0.json", dict(list(users.items())[:2]))
    leaf(tmp_path / "train" / "all_data_1.json", dict(list(users.items())[2:]))
    source = data.from_leaf(tmp_path / "train", shape=(1, 28, 28), classes=62)(None)
    assert (source.classes, source.shape, source.clients) == (62, (1, 28, 28), tuple(sorted(users)))
    assert (len(source.train), len(source.test)) == (48, 12)
    mine = source.train.topic == 1
    assert set(source.train.y[mine].tolist()) <= set(users["f0001_00"]["y"])
    rows = {tuple(row) for row in np.array(users["f0001_00"]["x"], np.float32).tolist()}
    assert {tuple(row) for row in source.train.x[mine].flatten(1).tolist()} <= rows


def test_given_test_files_are_kept_apart(tmp_path):
    train, test = ({name: femnist(6, seed) for name in ("b", "a")} for seed in (0, 1))
    one, two = leaf(tmp_path / "train.json", train), leaf(tmp_path / "test.json", test)
    source = data.from_leaf(one, test=two)(None)
    assert source.clients == ("a", "b")
    assert len(source.train) == len(source.test) == 12
    assert source.shape == (784,)
    leaf(two, {"a": femnist(6)})
    with pytest.raises(ValueError, match="user 'b' is not in both of"):
        data.from_leaf(one, test=two)(None)


@pytest.mark.trains
def test_texts_of_leaf_are_tokens_of_which_the_last_target_counts(tmp_path):
    lines = ["to be or not", "the rest is ", "a horse a ho"]
    users = {f"play_{k}": {"x": [line] * 5, "y": ["x", "s", "r", "t", "o"]} for k, line in enumerate(lines)}
    loader = data.from_leaf(leaf(tmp_path / "shakespeare.json", users))
    source = loader(None)
    letters = sorted(set("".join(lines)) | set("xsrto"))
    assert source.classes == len(letters)
    assert source.train.x.shape == source.train.y.shape == (12, 12)
    assert "".join(letters[k] for k in source.train.x[0]) == lines[0]
    assert bool((source.train.y[:, :-1] == IGNORED).all())
    assert letters[int(source.train.y[0, -1])] in "xsrto"
    scenario = Scenario(
        name="letters", data=loader, model=models.Lstm(embedding=4, hidden=4, layers=1), rounds=1,
        training=Training(epochs=1, batch=4, lr=0.1), algorithm=algorithms.FedAvg(), protection=protections.Plain(),
    )  # fmt: skip
    found = cloister.run(scenario, tmp_path / "r", quiet=True)
    assert found.summary["metric"] == "perplexity"
    assert found.summary["names"]["0"] == "play_0"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not of LEAF's form"),
        ('{"users": ["a"], "user_data": {}}', "is not of LEAF's form .*KeyError"),
        ('{"users": ["a"], "user_data": {"a": {"x": [[1]], "y": [0, 1]}}}', "user 'a' of .* has 1 inputs and 2 labels"),
        ('{"users": ["a"], "user_data": {"a": {"x": [[1], [1, 2]], "y": [0, 1]}}}', "not all of one length"),
        ('{"users": ["a"], "user_data": {"a": {"x": ["ab"], "y": [1]}}}', "the label of each has to be one letter"),
        ('{"users": ["a"], "user_data": {"a": {"x": [["b"]], "y": [1]}}}', "are not numbers and labels"),
        ('{"users": ["a"], "user_data": {"a": {"x": [[1]], "y": [-1]}}}', "labels of .* go from -1"),
        ('{"users": [], "user_data": {}}', "holds no records"),
        ('{"users": ["a"], "user_data": {"a": {"x": [[1]], "y": [0]}}}', "client 'a' of .* too few records to score models by"),
    ],
)  # fmt: skip
def test_what_is_not_of_leafs_form_is_one_line(content, words, tmp_path):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(ValueError, match=words) as caught:
        data.from_leaf(tmp_path / "x.json")(None)
    assert "\n" not in str(caught.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"there is no .json file at .*empty"):
        data.from_leaf(tmp_path / "empty")(None)
    with pytest.raises(ValueError, match=r"there is no file or folder .*/y.json; did you mean .*/x.json"):
        data.from_leaf(tmp_path / "y.json")(None)


class Rows:
    """What a data set of `datasets` is, as far as it is looked at."""

    def __init__(self, columns):
        self.columns = columns
        self.column_names = list(columns)

    def __getitem__(self, name):
        return self.columns[name]


COLUMNS = {
    "age": list(range(20)),
    "scan": [[0.5, k / 20] for k in range(20)],
    "hospital": ["a", "b"] * 10,
    "diagnosis": [k % 4 // 2 for k in range(20)],
    "note": ["words"] * 20,
}


def test_columns_of_a_hugging_face_data_set_are_records_by_client():
    found = data.from_hugging_face(Rows(COLUMNS), label="diagnosis", client="hospital", inputs=["age", "scan"], name="mine")
    source = found(None)
    assert (found.clients, found.examples, source.classes, source.shape) == (2, 20, 2, (3,))
    first = source.train.x[source.train.topic == 0]
    assert set(first[:, 0].tolist()) <= set(range(0, 20, 2))
    assert first[1].tolist() == pytest.approx([float(first[1, 0]), 0.5, float(first[1, 0]) / 20])
    number = data.from_hugging_face(Rows(COLUMNS), label="age", client="hospital", inputs="scan", numbers=True)(None)
    assert number.train.y.is_floating_point()
    assert number.classes == 1


def test_images_of_a_hugging_face_data_set_are_resized():
    images = [Image.new("RGB", (8, 6), (k, 0, 255)) for k in range(20)]
    columns = {"image": images, "label": [k % 2 for k in range(20)], "who": ["a"] * 20}
    source = data.from_hugging_face(Rows(columns), label="label", client="who", shape=(3, 4, 4))(None)
    assert source.shape == (3, 4, 4)
    assert float(source.train.x[:, 2].min()) == 1.0
    decimals = {**columns, "image": [Image.new("F", (8, 6), 0.5)] * 20}
    with pytest.raises(ValueError, match="an image of column 'image': it has decimals"):
        data.from_hugging_face(Rows(decimals), label="label", client="who", shape=(1, 4, 4))
    with pytest.raises(ValueError, match="column 'image' has images: give their shape"):
        data.from_hugging_face(Rows(columns), label="label", client="who")


def test_what_does_not_fit_of_a_hugging_face_data_set_is_one_line(monkeypatch):
    given = {"label": "diagnosis", "client": "hospital"}
    for columns, more, words in (
        (COLUMNS, {}, "column 'note' is no input of numbers"),
        (COLUMNS, {"inputs": "ages"}, "has no column 'ages'; it has: age, scan"),
        (COLUMNS, {"client": "whose", "inputs": "age"}, "has no column 'whose'"),
        ({"diagnosis": [1], "hospital": ["a"]}, {}, "has no column of inputs"),
        (COLUMNS, {"inputs": "scan", "shape": (3, 4, 4)}, "cannot be given the shape"),
    ):
        with pytest.raises(ValueError, match=words):
            data.from_hugging_face(Rows(columns), **given | more)
    splits = Rows({})
    splits.column_names = {"train": []}
    with pytest.raises(ValueError, match="has several splits: give one of them"):
        data.from_hugging_face(splits, **given)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match=r"pip install 'cloister\[huggingface\]'"):
        data.from_hugging_face("somebody/something", **given)


def test_a_data_set_of_datasets_itself_is_read():
    datasets = pytest.importorskip("datasets")
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({name: COLUMNS[name] for name in COLUMNS if name != "note"})
    made = datasets.Dataset(datasets.table.InMemoryTable(table), fingerprint="mine")
    found = data.from_hugging_face(made, label="diagnosis", client="hospital", name="mine")
    assert found == data.from_hugging_face(
        Rows(COLUMNS), label="diagnosis", client="hospital", inputs=["age", "scan"], name="mine"
    )
