"""Image data sets: scikit-learn's digits, MNIST, Fashion-MNIST, CIFAR-10 and PACS."""

import shutil
import tarfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from ..field_ranges import need_between, need_whole
from .folder import data_folder, missing, obtain
from .formats import read_cifar_batch, read_idx
from .population import Examples, Source

SPLIT_SEED = 0
"""Seed of the fixed splits into training and test data of the sets that come without one (digits, PACS)."""

IDX_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")

MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
MNIST_MD5 = (
    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "d53e105ee54ea40749a09fcbcd1e9432",
    "9fb629c4189551a2d022fa330f9573f3",
    "ec29112dd5afa0611ce80d1b7f02629c",
)

FASHION_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
FASHION_MD5 = (
    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "25c81989df183df01b3e8a0aad5dffbe",
    "bef4ecab320f06d8554ea6380940ec79",
    "bb300cfdad3c16e7a12a480ee83cd310",
)

CIFAR_URL = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
CIFAR_MD5 = "c58f30108f718f92721af3b95e74349a"
CIFAR_BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")

PACS_DOMAINS = ("art_painting", "cartoon", "photo", "sketch")
PACS_CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
PACS_PIXELS = 1 << 24
"""Largest number of pixels of one image file that is decoded."""


def stratified(strata: NDArray[np.int64], test_share: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ascending positions of the training and of the test examples: `test_share` of every stratum, rounded, is for testing.

    The choice depends on the strata, the share and SPLIT_SEED alone, so every run has the same split.
    """
    if not 0 < test_share < 1:
        raise ValueError(f"a test share of {test_share} leaves nothing to train or to test on; choose one between 0 and 1")
    rng = np.random.default_rng(SPLIT_SEED)
    held_out = np.zeros(len(strata), dtype=bool)
    for stratum in np.unique(strata):
        members = rng.permutation(np.flatnonzero(strata == stratum))
        held_out[members[: round(test_share * len(members))]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def _examples(pixels: NDArray[np.uint8], labels: NDArray[np.int64], topic: NDArray[np.int64] | None = None) -> Examples:
    """uint8 (n, channels, height, width) as float32 in [0, 1], with labels and, where there are any, topics."""
    x = torch.from_numpy(pixels).to(torch.float32).div_(255)
    return Examples(x, torch.from_numpy(labels), None if topic is None else torch.from_numpy(topic))


@dataclass(frozen=True, slots=True)
class Digits:
    """The 1,797 handwritten digits that come with scikit-learn, 1x8x8, 10 classes; no file is needed.

    test_share: share of every digit that is held out, by the fixed split of `stratified`.
    """

    test_share: float = 0.2
    instead: ClassVar[str] = "the digits come with scikit-learn"

    def __post_init__(self) -> None:
        need_between(self, 0, 1, "test_share")

    def __call__(self, folder: Path | None) -> Source:
        rows = np.loadtxt(_digits_file(), delimiter=",", dtype=np.int64)  # of 64 grey levels 0..16 and the digit
        images = torch.from_numpy(rows[:, :-1]).to(torch.float32).div_(16).view(-1, 1, 8, 8)
        everything = Examples(images, torch.from_numpy(rows[:, -1].copy()))
        train, test = (everything.take(torch.from_numpy(part)) for part in stratified(everything.y.numpy(), self.test_share))
        return Source("digits", train, test, classes=10)


def _digits_file() -> Path:
    """Where scikit-learn keeps it: importing scikit-learn takes 50 MB and half a second, with pandas where that is installed."""
    found = find_spec("sklearn")
    if found is None or found.origin is None:
        raise ImportError("the digits are scikit-learn's, which is not installed: pip install scikit-learn")
    return Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz"


@dataclass(frozen=True, slots=True)
class Mnist:
    """MNIST, 60,000 + 10,000 images 1x28x28, 10 classes, from FOLDER/MNIST/raw or FOLDER/MNIST (idx, plain or .gz)."""

    def __call__(self, folder: Path | None) -> Source:
        return _idx_source("MNIST", data_folder(folder) / "MNIST", MNIST_URL, MNIST_MD5)


@dataclass(frozen=True, slots=True)
class FashionMnist:
    """Fashion-MNIST, shaped like MNIST, from FOLDER/FashionMNIST/raw or FOLDER/FashionMNIST (idx, plain or .gz)."""

    def __call__(self, folder: Path | None) -> Source:
        return _idx_source("Fashion-MNIST", data_folder(folder) / "FashionMNIST", FASHION_URL, FASHION_MD5)


def _idx_source(name: str, home: Path, url: str, md5: tuple[str, ...]) -> Source:
    """The two splits in the four idx files of a data set that is laid out as MNIST is."""
    paths = [
        obtain([place / f"{file}{suffix}" for place in (home / "raw", home) for suffix in (".gz", "")], f"{url}{file}.gz", digest)
        for file, digest in zip(IDX_FILES, md5, strict=True)
    ]
    train, test = _idx_examples(paths[0], paths[1]), _idx_examples(paths[2], paths[3])
    if train.x.shape[1:] != test.x.shape[1:]:
        raise ValueError(f"{paths[0]} and {paths[2]} hold images of different sizes")
    return Source(name, train, test, classes=10)


def _idx_examples(images: Path, labels: Path) -> Examples:
    pixels, y = read_idx(images, rank=3), read_idx(labels, rank=1)
    if len(pixels) != len(y):
        raise ValueError(f"{images} has {len(pixels)} images, but {labels} has {len(y)} labels")
    if pixels.size == 0 or y.max() > 9:
        raise ValueError(f"{images} must hold images, and {labels} labels from 0 to 9")
    return _examples(pixels[:, None], y.astype(np.int64))


@dataclass(frozen=True, slots=True)
class Cifar10:
    """CIFAR-10, 50,000 + 10,000 images 3x32x32, 10 classes, from the Python batches in FOLDER/cifar-10-batches-py.

    FOLDER/cifar-10-python.tar.gz is unpacked when the batches are not there.
    """

    def __call__(self, folder: Path | None) -> Source:
        home = data_folder(folder) / "cifar-10-batches-py"
        if not all((home / batch).is_file() for batch in CIFAR_BATCHES):
            _unpack_cifar(obtain([home.parent / Path(CIFAR_URL).name], CIFAR_URL, CIFAR_MD5), home)
        *train, test = (home / batch for batch in CIFAR_BATCHES)
        return Source("CIFAR-10", _cifar_examples(train), _cifar_examples([test]), classes=10)


def _cifar_examples(paths: list[Path]) -> Examples:
    batches = [read_cifar_batch(path) for path in paths]
    x = torch.from_numpy(np.concatenate([pixels for pixels, _ in batches], dtype=np.float32)).div_(255)
    return Examples(x, torch.from_numpy(np.concatenate([labels for _, labels in batches])))


def _unpack_cifar(archive: Path, home: Path) -> None:
    """Write the batches, and nothing else, from the published archive into the folder `home`."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                name = Path(member.name).name
                content = tar.extractfile(member) if member.isfile() and name in CIFAR_BATCHES else None
                if content is not None:
                    partial = home / f"{name}.part"
                    with content, partial.open("wb") as file:
                        shutil.copyfileobj(content, file)
                    partial.replace(home / name)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"{archive} cannot be unpacked into {home} ({type(error).__name__}); fetch it again") from error
    absent = [batch for batch in CIFAR_BATCHES if not (home / batch).is_file()]
    if absent:
        raise missing(absent[0], home, f"{archive} does not contain it")


@dataclass(frozen=True, slots=True)
class Pacs:
    """PACS (Li et al. 2017): 7 classes in 4 domains, 3 x size x size, from FOLDER/PACS/<domain>/<class>/*.png or *.jpg.

    The domain is kept as the topic: 0 art_painting, 1 cartoon, 2 photo, 3 sketch. Images of another size are resized
    (bicubic). test_share: share of every class of every domain that is held out, by the fixed split of `stratified` over
    the files in alphabetical order. There is no stable public address, so PACS is never fetched.
    """

    size: int = 64
    test_share: float = 0.2

    def __post_init__(self) -> None:
        need_whole(self, 1, "size")
        need_between(self, 0, 1, "test_share")

    def __call__(self, folder: Path | None) -> Source:
        home = data_folder(folder) / "PACS"
        files: list[Path] = []
        kinds: list[int] = []
        for kind in range(len(PACS_DOMAINS) * len(PACS_CLASSES)):
            domain, label = divmod(kind, len(PACS_CLASSES))
            place = home / PACS_DOMAINS[domain] / PACS_CLASSES[label]
            found = sorted(path for path in place.glob("*") if path.suffix.lower() in (".png", ".jpg", ".jpeg"))
            if not found:
                raise missing(
                    f"the PACS folder {PACS_DOMAINS[domain]}/{PACS_CLASSES[label]} of png or jpg files", home, "no public address"
                )
            files += found
            kinds += [kind] * len(found)
        strata = np.array(kinds, dtype=np.int64)
        train, test = (self._read(files, strata, part) for part in stratified(strata, self.test_share))
        return Source("PACS", train, test, classes=len(PACS_CLASSES))

    def _read(self, files: list[Path], strata: NDArray[np.int64], part: NDArray[np.int64]) -> Examples:
        pixels = np.empty((len(part), 3, self.size, self.size), dtype=np.uint8)
        for row, position in enumerate(part):
            pixels[row] = _picture(files[position], self.size).transpose(2, 0, 1)
        topic, label = np.divmod(strata[part], len(PACS_CLASSES))
        return _examples(pixels, label, topic)


def _picture(path: Path, size: int) -> NDArray[np.uint8]:
    """An image file as uint8, shape (size, size, 3)."""
    try:
        with Image.open(path, formats=("PNG", "JPEG")) as image:
            if image.width * image.height > PACS_PIXELS:
                raise ValueError(f"it claims {image.width} x {image.height} pixels")
            colours = image.convert("RGB")
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} cannot be read as a png or jpg image: {' '.join(str(error).split())}") from error
    if colours.size != (size, size):
        colours = colours.resize((size, size), Image.Resampling.BICUBIC)
    return np.asarray(colours, dtype=np.uint8)
