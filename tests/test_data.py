"""Loaders and readers: known answers on files that the tests write, refusal of damaged and hostile files, real sets if there."""

import csv
import gzip
import hashlib
import io
import os
import pickle
import struct
import tarfile
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pooch
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cloister.fl.data.formats import read_cifar_batch, read_idx
from cloister.fl.data.images import CIFAR_BATCHES, IDX_FILES, PACS_CLASSES, PACS_DOMAINS, stratified
from cloister.fl.data.population import Examples
from cloister.fl.data.source import AgNews, Cifar10, DataMissing, Digits, FashionMnist, Loader, Mnist, Pacs, data_folder
from cloister.fl.data.text import tokens


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be fetched, whatever the machine allows."""

    def refuse(**_: Any) -> None:
        raise ConnectionError("no network in tests")

    monkeypatch.setattr(pooch, "retrieve", refuse)


# ---- examples and splits


def test_examples_take_their_topics_along() -> None:
    examples = Examples(torch.arange(3.0)[:, None, None, None], torch.tensor([5, 6, 7]), torch.tensor([0, 1, 2]))
    taken = examples.take(torch.tensor([2, 0]))
    assert taken.topic is not None
    assert taken.topic.tolist() == [2, 0]
    assert taken.y.tolist() == [7, 5]
    with pytest.raises(ValueError, match="one topic for each"):
        Examples(examples.x, examples.y, torch.tensor([0, 1]))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.floats(0.05, 0.95))
def test_stratified_parts_are_disjoint_cover_everything_and_hold_out_the_share(strata: list[int], share: float) -> None:
    kinds = np.array(strata)
    train, test = stratified(kinds, share)
    assert sorted([*train, *test]) == list(range(len(kinds)))
    for kind in set(strata):
        assert (kinds[test] == kind).sum() == round(share * strata.count(kind))


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5])
def test_a_split_needs_both_parts(share: float) -> None:
    with pytest.raises(ValueError, match="choose one between 0 and 1"):
        stratified(np.zeros(4, dtype=np.int64), share)


def test_digits_are_the_bundled_ones_split_by_class() -> None:
    source = Digits()(None)
    assert (len(source.train), len(source.test), source.classes, source.shape) == (1438, 359, 10, (1, 8, 8))
    assert source.train.x.dtype == torch.float32
    assert source.train.y.dtype == torch.int64
    assert (source.train.x.min(), source.train.x.max()) == (0, 1)
    counts = (source.train.y.bincount() + source.test.y.bincount()).tolist()
    assert counts == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]  # scikit-learn's digits, classes 0 to 9
    assert source.test.y.bincount().tolist() == [round(0.2 * count) for count in counts]


def test_the_split_of_digits_is_fixed_and_pinned() -> None:
    source = Digits()(None)
    content = hashlib.sha256(source.test.x.numpy().tobytes() + source.test.y.numpy().tobytes()).hexdigest()
    assert content == "d422799ca308f41bb89134d4766b086cccd608cb4cd099973d2b48015f6296ab"


# ---- idx


def idx(values: np.ndarray, rank: int | None = None) -> bytes:
    rank = values.ndim if rank is None else rank
    return bytes((0, 0, 8, rank)) + struct.pack(f">{values.ndim}I", *values.shape) + values.astype(np.uint8).tobytes()


@given(st.integers(0, 5), st.integers(0, 4), st.integers(0, 4), st.booleans())
def test_idx_round_trip(tmp_path_factory: pytest.TempPathFactory, n: int, height: int, width: int, compressed: bool) -> None:
    values = np.arange(n * height * width, dtype=np.uint8).reshape(n, height, width)
    path = tmp_path_factory.mktemp("idx") / "file"
    path.write_bytes(gzip.compress(idx(values)) if compressed else idx(values))
    assert np.array_equal(read_idx(path, rank=3), values)


GOOD = idx(np.arange(12).reshape(3, 2, 2))
HUGE = bytes((0, 0, 8, 3)) + struct.pack(">3I", *[2**32 - 1] * 3)
DAMAGED = {
    "empty": b"",
    "header cut short": GOOD[:10],
    "wrong magic": b"\1" + GOOD[1:],
    "floats instead of bytes": bytes((0, 0, 13, 3)) + GOOD[4:],
    "wrong rank": idx(np.arange(4)),
    "body cut short": GOOD[:-1],
    "bytes too many": GOOD + b"\0",
    "header that claims 2**96 values": HUGE,
    "header that claims 4 GiB": bytes((0, 0, 8, 3)) + struct.pack(">3I", 2**16, 2**8, 2**8) + bytes(100),
}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
def test_damaged_idx_files_are_refused_in_one_line(tmp_path: Path, content: bytes, compressed: bool) -> None:
    path = tmp_path / "images"
    path.write_bytes(gzip.compress(content) if compressed else content)
    with pytest.raises(ValueError, match="images") as refusal:
        read_idx(path, rank=3)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("cut", [3, 12, -9, -1])
def test_damaged_gzip_files_are_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(GOOD)[:cut])
    with pytest.raises(ValueError, match="damaged gzip"):
        read_idx(path, rank=3)


def test_a_compressed_file_that_expands_beyond_its_header_is_read_no_further(tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(gzip.compress(GOOD + bytes(50_000_000)))
    with pytest.raises(ValueError, match="promises 12 values, but it has more"):
        read_idx(path, rank=3)


# ---- MNIST and Fashion-MNIST


def write_idx_set(place: Path, suffix: str = "", labels: int = 4) -> None:
    place.mkdir(parents=True)
    contents = [np.full((4, 2, 2), 51), np.arange(labels), np.full((2, 2, 2), 255), np.array([8, 9])]
    for name, values in zip(IDX_FILES, contents, strict=True):
        content = idx(values)
        (place / f"{name}{suffix}").write_bytes(gzip.compress(content) if suffix else content)


@pytest.mark.parametrize(("loader", "home"), [(Mnist(), "MNIST"), (FashionMnist(), "FashionMNIST")])
@pytest.mark.parametrize("inner", ["raw", "."])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_sets_are_found_in_their_layouts(tmp_path: Path, loader: Loader, home: str, inner: str, suffix: str) -> None:
    write_idx_set(tmp_path / home / inner, suffix)
    source = loader(tmp_path)
    assert source.shape == (1, 2, 2)
    assert torch.equal(source.train.x, torch.full((4, 1, 2, 2), 0.2))
    assert source.train.y.tolist() == [0, 1, 2, 3]
    assert torch.equal(source.test.x, torch.ones(2, 1, 2, 2))
    assert source.test.y.tolist() == [8, 9]


@pytest.mark.parametrize(("labels", "message"), [(3, "has 4 images, but .* has 3 labels"), (5, "has 4 images, but")])
def test_images_and_labels_must_agree(tmp_path: Path, labels: int, message: str) -> None:
    write_idx_set(tmp_path / "MNIST", labels=labels)
    with pytest.raises(ValueError, match=message):
        Mnist()(tmp_path)


def test_labels_above_nine_and_images_of_two_sizes_are_refused(tmp_path: Path) -> None:
    write_idx_set(tmp_path / "MNIST")
    (tmp_path / "MNIST" / IDX_FILES[3]).write_bytes(idx(np.array([9, 10])))
    with pytest.raises(ValueError, match="labels from 0 to 9"):
        Mnist()(tmp_path)
    (tmp_path / "MNIST" / IDX_FILES[3]).write_bytes(idx(np.array([9, 9])))
    (tmp_path / "MNIST" / IDX_FILES[2]).write_bytes(idx(np.zeros((2, 3, 3))))
    with pytest.raises(ValueError, match="different sizes"):
        Mnist()(tmp_path)


# ---- CIFAR-10


def batch(rows: int, first: int = 0) -> dict[bytes, Any]:
    pixels = np.arange(rows * 3072, dtype=np.uint64).reshape(rows, 3072) % 251
    return {b"data": (pixels + first).astype(np.uint8), b"labels": [(first + row) % 10 for row in range(rows)]}


def write_cifar(home: Path, protocol: int = 2) -> None:
    home.mkdir(parents=True)
    for number, name in enumerate(CIFAR_BATCHES):
        (home / name).write_bytes(pickle.dumps(batch(2, number), protocol))


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_cifar_batches_are_joined_in_order(tmp_path: Path, protocol: int) -> None:
    write_cifar(tmp_path / "cifar-10-batches-py", protocol)
    source = Cifar10()(tmp_path)
    assert (len(source.train), len(source.test), source.shape) == (10, 2, (3, 32, 32))
    assert source.train.y.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    assert source.test.y.tolist() == [5, 6]
    expected = torch.from_numpy(batch(2, 3)[b"data"].reshape(2, 3, 32, 32)) / 255
    assert torch.allclose(source.train.x[6:8], expected)


def test_columns_first_arrays_and_text_keys_are_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "batch"
    plain = batch(3)
    path.write_bytes(pickle.dumps({"data": np.asfortranarray(plain[b"data"]), "labels": plain[b"labels"]}, 2))
    pixels, labels = read_cifar_batch(path)
    assert np.array_equal(pixels.reshape(3, 3072), plain[b"data"])
    assert labels.tolist() == plain[b"labels"]


def test_the_published_archive_is_unpacked_and_nothing_else_in_it(tmp_path: Path) -> None:
    write_cifar(tmp_path / "made" / "cifar-10-batches-py")
    (tmp_path / "made" / "evil").write_text("evil")
    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "made" / "cifar-10-batches-py", "cifar-10-batches-py")
        tar.add(tmp_path / "made" / "evil", "../evil")
    assert len(Cifar10()(tmp_path).train) == 10
    assert sorted(path.name for path in (tmp_path / "cifar-10-batches-py").iterdir()) == sorted(CIFAR_BATCHES)
    assert not (tmp_path.parent / "evil").exists()


def test_a_damaged_or_incomplete_archive_is_named(tmp_path: Path) -> None:
    archive = tmp_path / "cifar-10-python.tar.gz"
    archive.write_bytes(b"not an archive")
    with pytest.raises(ValueError, match="cannot be unpacked"):
        Cifar10()(tmp_path)
    with tarfile.open(archive, "w:gz"):
        pass
    with pytest.raises(DataMissing, match=r"data_batch_1 is missing: put it into .*cifar-10-batches-py"):
        Cifar10()(tmp_path)


class _Calls:
    """Pickles as a call of any function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def claimed(shape: tuple[int, ...], code: bytes = b"u1", raw: bytes = b"x") -> bytes:
    """A pickle of an array whose state claims `shape` and type `code` for the bytes `raw`."""
    lengths = b"".join(b"\x8a\x06" + length.to_bytes(6, "little") for length in shape)
    return (
        b"\x80\x02}U\x04datacnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntU\x01btR"
        + b"(I1\n("
        + lengths
        + b"tcnumpy\ndtype\n(U"
        + bytes([len(code)])
        + code
        + b"I0\nI1\ntR(I3\nU\x01|NNNI-1\nI-1\nI0\ntb\x89U"
        + bytes([len(raw)])
        + raw
        + b"tbs."
    )


HOSTILE = {
    "runs a command": pickle.dumps({b"data": _Calls(os.system, "touch PWNED")}),
    "evaluates": pickle.dumps(_Calls(eval, "open('PWNED', 'w')")),
    "other class": pickle.dumps({b"data": OrderedDict()}),
    "other name in numpy": pickle.dumps(_Calls(np.load, "PWNED")),
    "sets an attribute": b"\x80\x02cnumpy\ndtype\n}X\x08\0\0\0__code__K\x01sb.",
    "sets an attribute of a slot": b"\x80\x02cnumpy\ndtype\nN}X\x08\0\0\0__call__K\x01s\x86b.",
    "array without content": b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\n"
    b"(cnumpy\nndarray\n(I0\ntU\x01btRU\x06labels]u.",
    "array of objects": claimed((1, 3072), b"O8"),
    "array of floats": pickle.dumps({b"data": np.zeros((1, 3072)), b"labels": [0]}, 2),
    "claims 2**80 bytes": claimed((2**40, 2**40)),
    "claims more than it has": claimed((1, 3072)),
    "cut short": pickle.dumps(batch(1), 2)[:-50],
    "empty": b"",
    "noise": bytes(range(256)),
    "no dictionary": pickle.dumps([1, 2]),
    "no data": pickle.dumps({b"labels": [0]}),
    "wrong width": pickle.dumps({b"data": np.zeros((1, 3071), np.uint8), b"labels": [0]}, 2),
    "labels out of range": pickle.dumps(batch(1) | {b"labels": [10]}, 2),
    "labels of another type": pickle.dumps(batch(1) | {b"labels": [[0]]}, 2),
    "too few labels": pickle.dumps(batch(2) | {b"labels": [0]}, 2),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_and_damaged_batches_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "batch"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not a CIFAR-10 batch") as refusal:
        read_cifar_batch(path)
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "PWNED").exists()


def test_the_hand_made_pickle_is_hostile_only_in_what_it_claims(tmp_path: Path) -> None:
    path = tmp_path / "batch"
    path.write_bytes(claimed((1, 3)).replace(b"U\x01x", b"U\x03xyz"))
    with pytest.raises(ValueError, match=r"must be bytes of shape \(n, 3072\)"):
        read_cifar_batch(path)


# ---- AG-News


def write_news(home: Path, train: list[list[str]], test: list[list[str]]) -> None:
    home.mkdir(parents=True)
    for name, rows in (("train.csv", train), ("test.csv", test)):
        with (home / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)


TRAIN = [["1", "B a", 'a, "a" c'], ["4", "", "b a"], ["2", "", "alone"], ["3", "", "a b c d e f g"]]
TEST = [["3", "a", "unseen b"]]


def test_tokens_are_lower_case_words_and_marks() -> None:
    assert tokens("He's (really) \"OK\"; isn't it?<br />Yes: 3.5!") == (
        ["he", "'", "s", "(", "really", ")", "ok", "isn", "'", "t", "it", "?", "yes", "3", ".", "5", "!"]
    )
    assert tokens("turned out early\\and in") == ["turned", "out", "early", "and", "in"]
    assert tokens(" \t") == []


def test_ag_news_examples_are_shifted_by_one_word_and_padded(tmp_path: Path) -> None:
    write_news(tmp_path / "ag_news_csv", TRAIN, TEST)
    source = AgNews(vocabulary=5, length=4)(tmp_path)
    a, b, c, comma, unknown = 1, 2, 3, 4, 0  # counts 5, 3, 2, 1; the comma is the first of the words that occur once
    assert source.classes == 5
    assert source.train.x.tolist() == [[b, a, a, comma], [b, 0, 0, 0], [a, b, c, unknown]]
    assert source.train.y.tolist() == [[a, a, comma, a], [a, -1, -1, -1], [b, c, unknown, unknown]]
    assert source.test.x.tolist() == [[a, unknown, 0, 0]]
    assert source.test.y.tolist() == [[unknown, b, -1, -1]]
    assert source.train.topic is not None
    assert source.test.topic is not None
    assert (source.train.topic.tolist(), source.test.topic.tolist()) == ([0, 3, 2], [2])  # "alone" predicts nothing


def test_a_small_text_gives_a_small_vocabulary(tmp_path: Path) -> None:
    write_news(tmp_path / "ag_news_csv", TRAIN, TEST)
    assert AgNews()(tmp_path).classes == 1 + len({"a", "b", "c", ",", "alone", "d", "e", "f", "g"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no articles"),
        (b'"1","title"\n', "train.csv, line 1: expected a label"),
        (b'"1","t","d"\n"5","t","d"\n', "train.csv, line 2: expected a label"),
        (b'"1","t","\xff\xfe"\n', "not a csv file in UTF-8"),
        (b'"1","t","' + b"x" * 200_000 + b'"\n', "not a csv file"),
    ],
)
def test_damaged_csv_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    write_news(tmp_path / "ag_news_csv", TRAIN, TEST)
    (tmp_path / "ag_news_csv" / "train.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        AgNews()(tmp_path)


# ---- PACS


def write_pacs(home: Path, count: int = 5, side: int = 4) -> None:
    for domain, domain_name in enumerate(PACS_DOMAINS):
        for label, class_name in enumerate(PACS_CLASSES):
            place = home / domain_name / class_name
            place.mkdir(parents=True)
            for number in range(count):
                pixels = np.zeros((side, side, 3), np.uint8)
                pixels[...] = (60 * domain, 30 * label, number)
                Image.fromarray(pixels).save(place / f"{number}.png")


def test_pacs_keeps_class_and_domain_of_every_image(tmp_path: Path) -> None:
    write_pacs(tmp_path / "PACS")
    source = Pacs(size=4)(tmp_path)
    assert (len(source.train), len(source.test), source.shape, source.classes) == (4 * 28, 28, (3, 4, 4), 7)
    for split in (source.train, source.test):
        colour = (split.x[:, :, 0, 0] * 255).round().to(torch.int64)
        assert split.topic is not None
        assert torch.equal(colour[:, 0], 60 * split.topic)
        assert torch.equal(colour[:, 1], 30 * split.y)
    assert torch.equal(Pacs(size=4)(tmp_path).test.x, source.test.x)


def test_pacs_images_are_resized_and_may_be_jpeg(tmp_path: Path) -> None:
    write_pacs(tmp_path / "PACS", count=2, side=9)
    place = tmp_path / "PACS" / "photo" / "dog"
    for path in list(place.iterdir()):
        Image.open(path).convert("L").save(path.with_suffix(".JPG"), format="JPEG")
        path.unlink()
    assert Pacs(size=4, test_share=0.5)(tmp_path).shape == (3, 4, 4)


def png_that_claims(width: int, height: int) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (1, 1)).save(content, "PNG")
    raw = bytearray(content.getvalue())
    raw[16:24] = struct.pack(">2I", width, height)
    raw[29:33] = struct.pack(">I", zlib.crc32(bytes(raw[12:29])))
    return bytes(raw)


@pytest.mark.parametrize("content", [b"", b"no image", png_that_claims(60_000, 60_000), png_that_claims(5_000, 5_000)])
def test_damaged_images_are_named(tmp_path: Path, content: bytes) -> None:
    write_pacs(tmp_path / "PACS")
    for number in range(5):
        (tmp_path / "PACS" / "sketch" / "person" / f"{number}.png").write_bytes(content)
    with pytest.raises(ValueError, match=r"person.[0-4]\.png cannot be read") as refusal:
        Pacs(size=4)(tmp_path)
    assert "\n" not in str(refusal.value)


# ---- missing data sets


@pytest.mark.parametrize(
    ("loader", "file", "place"),
    [
        (Mnist(), "train-images-idx3-ubyte.gz", "MNIST/raw"),
        (FashionMnist(), "train-images-idx3-ubyte.gz", "FashionMNIST/raw"),
        (Cifar10(), "cifar-10-python.tar.gz", ""),
        (AgNews(), "train.csv", "ag_news_csv"),
        (Pacs(), "art_painting/dog", "PACS"),
    ],
)
def test_what_is_missing_is_named_with_its_place(tmp_path: Path, loader: Loader, file: str, place: str) -> None:
    with pytest.raises(DataMissing) as refusal:
        loader(tmp_path)
    message = str(refusal.value)
    assert file in message
    assert f"put it into {tmp_path / place}" in message
    assert "--data" in message
    assert "CLOISTER_DATA" in message
    assert "\n" not in message


def test_only_the_missing_files_are_fetched_with_their_checksums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx_set(tmp_path / "MNIST" / "raw")
    image = tmp_path / "MNIST" / "raw" / IDX_FILES[2]
    content = gzip.compress(image.read_bytes())
    image.unlink()
    asked = []

    def retrieve(*, url: str, known_hash: str, fname: str, path: Path) -> None:
        asked.append((url.rpartition("/")[2], known_hash))
        (path / fname).write_bytes(content)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    assert len(Mnist()(tmp_path).test) == 2
    assert asked == [("t10k-images-idx3-ubyte.gz", "md5:9fb629c4189551a2d022fa330f9573f3")]


def test_a_wrong_checksum_is_reported_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def retrieve(**_: Any) -> None:
        raise ValueError("MD5 hash does not match")

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    with pytest.raises(DataMissing, match="does not have the md5 b1a00f826fdfbd249f79597b59e1dc12"):
        AgNews()(tmp_path)


def test_the_data_folder_is_the_argument_or_the_variable_or_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOISTER_DATA", str(tmp_path / "named"))
    assert data_folder(tmp_path) == tmp_path
    assert data_folder(None) == tmp_path / "named"
    monkeypatch.delenv("CLOISTER_DATA")
    assert data_folder(None) == Path(pooch.os_cache("cloister"))


# ---- the real data sets, where there are any

real = pytest.mark.skipif("CLOISTER_DATA" not in os.environ, reason="CLOISTER_DATA does not name a folder of real data sets")


@real
@pytest.mark.parametrize(
    ("loader", "train", "test", "mean"),
    [(Mnist(), 5923, 980, 0.1307), (FashionMnist(), 6000, 1000, 0.2860), (Cifar10(), 5000, 1000, 0.4734)],
)
@pytest.mark.long
def test_the_real_image_sets_have_their_published_counts_and_means(loader: Loader, train: int, test: int, mean: float) -> None:
    source = loader(None)
    assert len(source.test) == 10_000
    assert len(source.train) in (60_000, 50_000)
    assert (source.train.y == 0).sum() == train
    assert (source.test.y == 0).sum() == test
    assert source.train.x.mean().item() == pytest.approx(mean, abs=1e-4)
    assert source.train.x.max() == 1


@pytest.mark.slow
@real
def test_the_real_ag_news_is_balanced_and_mostly_known_words() -> None:
    source = AgNews()(None)
    assert (len(source.train), len(source.test), source.classes, source.shape) == (120_000, 7_600, 10_000, (30,))
    assert source.train.topic is not None
    assert source.train.topic.bincount().tolist() == [30_000] * 4
    targets = source.test.y[source.test.y >= 0]
    assert (targets == 0).double().mean() < 0.1


@pytest.mark.slow
@real
def test_the_real_pacs_has_its_published_counts() -> None:
    source = Pacs(size=16)(None)
    assert source.train.topic is not None
    assert source.test.topic is not None
    assert (source.train.topic.bincount() + source.test.topic.bincount()).tolist() == [2048, 2344, 1670, 3929]
