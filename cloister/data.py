"""Data sets and your own data: what a `Scenario`'s `data` may be.

`from_csv`, `from_dataframe`, `from_datasets`, `from_folders`, `from_hugging_face` and `from_leaf` make a loader of clients that
are there already, and need no partition. `agreed_columns` and `agreed_images` are for deployments, in which no party has
another's records. `population_of` is who has what in a scenario.
"""

import typing as _typing

from .fl.data.agreed import agreed_columns, agreed_images
from .fl.data.given import from_csv, from_dataframe, from_datasets, from_folders
from .fl.data.hugging_face import from_hugging_face
from .fl.data.images import Cifar10, Digits, FashionMnist, Mnist, Pacs
from .fl.data.leaf import from_leaf
from .fl.data.population import Client, Examples, Population, Source
from .fl.data.synthetic import SoftmaxGroups
from .fl.data.text import AgNews
from .fl.runs.dealt import population_of
from .told_in_python import told as _told

__all__ = [
    "AgNews",
    "Cifar10",
    "Client",
    "Digits",
    "Examples",
    "FashionMnist",
    "Mnist",
    "Pacs",
    "Population",
    "SoftmaxGroups",
    "Source",
    "agreed_columns",
    "agreed_images",
    "from_csv",
    "from_dataframe",
    "from_datasets",
    "from_folders",
    "from_hugging_face",
    "from_leaf",
    "population_of",
]

if not _typing.TYPE_CHECKING:  # a type checker sees the names above, and no others
    __getattr__ = _told(globals())
