"""Examples, clients and populations: the values that data sets, partitions and training pass to each other."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Inputs with their targets.

    x: float32 images, shape (n, channels, height, width), values in [0, 1]; or float32 features, shape (n, features); or int64
        tokens, shape (n, length).
    y: int64 labels, shape (n,); or int64 next tokens, shape (n, length), where -1 marks padding that no loss counts; or float32
        numbers, shape (n,) or (n, k), of a regression.
    topic: int64, shape (n,), where every example comes from (the topic of an article, the domain of an image), or None.
        Partitions may look at it; training never does.
    """

    x: Tensor
    y: Tensor
    topic: Tensor | None = None

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"{len(self.x)} inputs but {len(self.y)} targets")
        if self.topic is not None and self.topic.shape != self.y.shape[:1]:
            raise ValueError(f"{len(self.y)} examples but topics of shape {tuple(self.topic.shape)}; give one topic for each")

    def __len__(self) -> int:
        return self.y.shape[0]

    def take(self, index: Tensor) -> "Examples":
        """The examples at int64 positions `index`, in that order."""
        return Examples(self.x[index], self.y[index], None if self.topic is None else self.topic[index])


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A whole data set. `classes` is the number of labels, the size of the vocabulary for token data, or of a regression how many
    numbers are to be predicted of each input.

    clients: names of clients, where data are theirs already: the topic of an example is then the position of its client here.
    labels: what classes are called, in their order, where data say so. columns: what inputs are called, of a table.
    """

    name: str
    train: Examples
    test: Examples
    classes: int
    clients: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for part, of in (("train", self.train), ("test", self.test)):
            y = of.y
            if len(of) and not y.is_floating_point() and (top := int(y.max())) >= self.classes:
                raise ValueError(
                    f"{self.name} has the label {top} in {part}, and classes is {self.classes}: 0 to {self.classes - 1}"
                )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input: (channels, height, width), or (length,) for tokens."""
        return tuple(self.train.x.shape[1:])


@dataclass(frozen=True, slots=True, eq=False)
class Client:
    """One party. `id` is its name for life: every seed, message and cluster speaks of ids, never of positions."""

    id: int
    train: Examples
    test: Examples


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """All clients and, where the partition planted them, the true groups that an evaluation compares with.

    groups: planted group of every client id, empty where nobody planted any. No algorithm but Oracle may look at it.
    names: of clients that have one.
    """

    clients: Mapping[int, Client]
    groups: Mapping[int, int]
    classes: int
    shape: tuple[int, ...]
    names: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.groups and set(self.clients) != set(self.groups):
            raise ValueError("clients and groups must name the same ids")
        for client in self.clients.values():
            if len(client.train) == 0:
                raise ValueError(f"client {client.id} has no training examples; give it some, or leave it out")
            if client.train.y.is_floating_point() and not bool(torch.isfinite(client.train.y).all()):
                raise ValueError(f"client {client.id} has training targets that are not finite")
            if client.train.x.is_floating_point() and not bool(torch.isfinite(client.train.x).all()):
                raise ValueError(f"client {client.id} has training inputs that are not finite")
