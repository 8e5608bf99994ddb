"""Data sets: every loader turns a data folder into a `Source`.

`Digits` needs no file. The others are read from the data folder in their standard file formats; MNIST, Fashion-MNIST,
CIFAR-10 and AG-News are fetched there, with checksums, when they are missing and the network allows.
"""

from pathlib import Path
from typing import Protocol

from .folder import DataMissing, data_folder
from .images import Cifar10, Digits, FashionMnist, Mnist, Pacs
from .population import Source
from .text import AgNews

__all__ = ["AgNews", "Cifar10", "DataMissing", "Digits", "FashionMnist", "Loader", "Mnist", "Pacs", "data_folder"]


class Loader(Protocol):
    """Reads a whole data set from `folder`, or, when that is None, from where `data_folder` points.

    One that reads no such folder may say by a class's `instead` where its data are, for whoever names a folder in vain.
    Raises DataMissing when a file is neither there nor to be fetched, and ValueError of one line when a file is damaged.
    """

    def __call__(self, folder: Path | None, /) -> Source: ...


def not_read(loader: Loader, folder: Path | None) -> str:
    """That the loader does not look at this folder, in words; empty where it does, or nobody named one."""
    instead = getattr(loader, "instead", "")
    return f"the folder of data sets {folder} is not read: {instead}" if folder is not None and instead else ""
