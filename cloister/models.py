"""Models of the papers, and what makes one of any module: what a `Scenario`'s `model` may be."""

import typing as _typing

from .fl.models.mobilenet import MobileNet
from .fl.models.papers import (
    CflCnn,
    Cifar5Cnn,
    EmdCflCnn,
    FlicCnn,
    FpfcCnn,
    Lstm,
    Mlp,
    Normalised,
    SoftmaxRegression,
    split,
)
from .fl.models.pretrained import Pretrained
from .fl.models.resnet import ResNet
from .told_in_python import told as _told

__all__ = [
    "CflCnn",
    "Cifar5Cnn",
    "EmdCflCnn",
    "FlicCnn",
    "FpfcCnn",
    "Lstm",
    "Mlp",
    "MobileNet",
    "Normalised",
    "Pretrained",
    "ResNet",
    "SoftmaxRegression",
    "split",
]

if not _typing.TYPE_CHECKING:  # a type checker sees the names above, and no others
    __getattr__ = _told(globals())
