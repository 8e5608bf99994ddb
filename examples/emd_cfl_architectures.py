"""EMD-CFL with other networks on Rotated CIFAR-10 (appendix E.3, figures 10 and 11); swept by emd_cfl_sweeps.py.

`convolutions`, `wide`, `lenet` and `perceptron` are 12 clients of 750 images that train from nothing, under half a minute each.
`resnet50`, `efficientnet_b3`, `vit_b_16` and `convnext_base` are the paper's: 40 clients, weights of ImageNet from a file
(`--set model.weights=FILE`), at 224 x 224, a task for a GPU. They need torchvision, which Cloister does not install.
  python examples/emd_cfl_sweeps.py examples/emd_cfl_architectures.py:{convolutions,wide,lenet,perceptron} --seeds 0 --out runs
  cloister run examples/emd_cfl_architectures.py:resnet50 --set model.weights=FILE --device cuda --data FOLDER
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor, nn

from cloister.fl.algorithms.emd_cfl import EMDCFL, PRINTED, Gap
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Rotation
from cloister.fl.data.source import Cifar10
from cloister.fl.models.papers import IMAGENET, CflCnn, Cifar5Cnn, Mlp, ModelFactory, Normalised, split
from cloister.fl.models.pretrained import Pretrained
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Plain
from cloister.protocol.pairs.choices import PER_PAIR


@dataclass(frozen=True, slots=True)
class Torchvision:
    """A network of torchvision without its head, the part of this name. Batch normalisation keeps the file's statistics."""

    name: str
    head: str

    def __call__(self) -> nn.Module:
        return split(getattr(importlib.import_module("torchvision.models"), self.name)(), self.head).embedding

    def weights(self, state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return state


def paper(title: str, name: str, head: str, lr: float) -> Scenario:
    """The paper's scenario with another network and its learning rate (table 5)."""
    return Scenario(
        name=f"EMD-CFL on Rotated CIFAR-10, {title}",
        data=Cifar10(),
        partition=Rotation(clients=40, angles=(0, 90, 180, 270), replicated=True),
        model=Pretrained(network=Torchvision(name, head)),
        training=Training(epochs=10, batch=64, lr=lr, momentum=0.9, weight_decay=1e-6),
        algorithm=PRINTED,
        protection=Plain(),
        rounds=10,
        validation=0.1,
    )


resnet50 = paper("ResNet50", "resnet50", "fc", 0.01)
efficientnet_b3 = paper("EfficientNetB3", "efficientnet_b3", "classifier.1", 0.01)
vit_b_16 = paper("ViTB16", "vit_b_16", "heads.head", 0.003)
convnext_base = paper("ConvNeXt Base", "convnext_base", "classifier.2", 0.003)
scenario = resnet50


def from_nothing(title: str, model: ModelFactory, lr: float) -> Scenario:
    """12 clients of 750 images that train this network from nothing, for four rounds."""
    return replace(
        scenario,
        name=f"EMD-CFL on Rotated CIFAR-10, {title}, quick",
        partition=Rotation(clients=12, angles=(0, 90, 180, 270), samples=1000),
        model=Normalised(model, *IMAGENET),
        training=Training(epochs=5, batch=32, lr=lr, momentum=0.9),
        algorithm=EMDCFL(eps=Gap(), choice=PER_PAIR),
        rounds=4,
        validation=0.25,
    )


convolutions = from_nothing("three convolutions, 64 features", Cifar5Cnn(widths=(8, 16, 32), hidden=64), 0.02)
wide = from_nothing("three wider convolutions, 256 features", Cifar5Cnn(widths=(16, 32, 32), hidden=256), 0.02)
lenet = from_nothing("two convolutions, 400 features", CflCnn(), 0.02)
perceptron = from_nothing("a perceptron, 256 features", Mlp(hidden=(256,)), 0.005)
quick = convolutions
