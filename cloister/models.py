"""Models of the papers, and what makes one of any module: what a `Scenario`'s `model` may be."""

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
