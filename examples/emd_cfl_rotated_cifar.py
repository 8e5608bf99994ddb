"""EMD-CFL on Rotated CIFAR-10 (section 4.1; variants Min, Two and Base of appendix E.9): groups of clients that turn images.

`quick` is 12 clients of 750 images that train a small CNN from nothing. `scenario` is the paper's: 40 clients train a pre-trained
network at 224 x 224, a task for a GPU. Its weights are `--set model.weights=FILE`, what torch.save(network.state_dict(), FILE)
wrote, here of torchvision's MobileNetV2 (`Pretrained` says how another network is named). `quick_frozen`, with
`--set partition.by.weights=FILE`, trains a perceptron on that network's vectors of 64 x 64 images. They do not tell 90 from 270
degrees: images turned by one are mirror images of those turned by the other, and such networks are trained not to mind that.
  cloister run examples/emd_cfl_rotated_cifar.py:quick --data FOLDER
  python examples/emd_cfl_compare.py examples/emd_cfl_rotated_cifar.py:quick --seeds 0 --out runs/emd
"""

from dataclasses import replace

from cloister.fl.algorithms.emd_cfl import AS_PUBLISHED, EMDCFL, PRINTED, Gap
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Rotation
from cloister.fl.data.source import Cifar10
from cloister.fl.models.papers import IMAGENET, Cifar5Cnn, Mlp, Normalised
from cloister.fl.models.pretrained import Embedded, Pretrained
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Plain
from cloister.protocol.pairs.choices import PER_PAIR

CLOSE = (-3, -1, 1, 3)
OPPOSED = (-3, 3, 177, 183)
TURNED = Rotation(clients=12, angles=(0, 90, 180, 270), samples=1000)

scenario = Scenario(
    name="EMD-CFL on Rotated CIFAR-10",
    data=Cifar10(),
    partition=Rotation(clients=40, angles=(0, 90, 180, 270), replicated=True),
    model=Pretrained(),
    training=Training(epochs=10, batch=64, lr=0.01, momentum=0.9, weight_decay=1e-6),
    algorithm=PRINTED,
    protection=Plain(),
    rounds=10,
    validation=0.1,
)
as_published = replace(scenario, algorithm=AS_PUBLISHED)
paper_min = replace(
    scenario, name="EMD-CFL on Rotated CIFAR-10, Min", partition=Rotation(40, CLOSE, truth=(0, 0, 0, 0), replicated=True)
)
paper_two = replace(
    scenario, name="EMD-CFL on Rotated CIFAR-10, Two", partition=Rotation(40, OPPOSED, truth=(0, 0, 1, 1), replicated=True)
)
paper_base = replace(
    scenario, name="EMD-CFL on CIFAR-10, Base", partition=Rotation(40, (0, 0, 0, 0), truth=(0, 0, 0, 0), replicated=True)
)

quick = replace(
    scenario,
    name="EMD-CFL on Rotated CIFAR-10, a CNN from nothing, quick",
    partition=TURNED,
    model=Normalised(Cifar5Cnn(widths=(8, 16, 32), hidden=64), *IMAGENET),
    training=Training(epochs=5, batch=32, lr=0.02, momentum=0.9),
    algorithm=EMDCFL(eps=Gap(), choice=PER_PAIR),
    rounds=4,
    validation=0.25,
)
quick_min = replace(quick, name=f"{quick.name}, Min", partition=Rotation(12, CLOSE, truth=(0, 0, 0, 0), samples=1000), rounds=2)
quick_two = replace(quick, name=f"{quick.name}, Two", partition=Rotation(12, OPPOSED, truth=(0, 0, 1, 1), samples=1000), rounds=2)
quick_base = replace(
    quick, name=f"{quick.name}, Base", partition=Rotation(12, (0, 0, 0, 0), truth=(0, 0, 0, 0), samples=1000), rounds=2
)
SHORT = replace(quick.training, epochs=3)
small_min = replace(
    quick_min,
    name=f"{quick_min.name}, 375 images",
    partition=Rotation(12, CLOSE, truth=(0, 0, 0, 0), samples=500),
    training=SHORT,
)
small_two = replace(
    quick_two,
    name=f"{quick_two.name}, 375 images",
    partition=Rotation(12, OPPOSED, truth=(0, 0, 1, 1), samples=500),
    training=SHORT,
)
small_base = replace(
    quick_base,
    name=f"{quick_base.name}, 375 images",
    partition=Rotation(12, (0, 0, 0, 0), truth=(0, 0, 0, 0), samples=500),
    training=SHORT,
)
quick_frozen = replace(
    quick,
    name="EMD-CFL on Rotated CIFAR-10, a frozen MobileNetV2, quick",
    partition=Embedded(partition=TURNED, by=Pretrained(size=64), tests=200),
    model=Mlp(hidden=(128,)),
    training=Training(epochs=10, batch=32, lr=0.02, momentum=0.9),
)
