"""EMD-CFL on Backdoor CIFAR-10 (section 5.3, appendix C.5): five classes, the same with a patch that tells the class, the others.

Group 0 are the targets. Group 1 has the same classes, and every training image carries a 3 x 3 patch in the corner whose colour
goes with the class. The measure is group 0's accuracy on clean images and on images with the next class's patch:
  python examples/emd_cfl_compare.py examples/emd_cfl_backdoor_cifar.py:quick --seeds 0 --out runs/emd
`quick` is 9 clients of 3,000 images that train a small CNN from nothing, two or three CPU minutes a round; its tolerance comes
from the noise of the references, as the groups without patches are much nearer to each other than to the patched one. `scenario`
is the paper's: 15 clients train a pre-trained network at 224 x 224, a task for a GPU. Its weights are `--set model.weights=FILE`,
what torch.save(network.state_dict(), FILE) wrote, here of torchvision's MobileNetV2 (`Pretrained` says how another network is
named). `quick_frozen`, with `--set partition.by.weights=FILE`, trains a perceptron on that network's vectors of 64 x 64 images,
in which the patch does not show.
"""

from dataclasses import replace

from cloister.fl.algorithms.emd_cfl import AS_PUBLISHED, EMDCFL, PRINTED, Replicates
from cloister.fl.clients.training import Training
from cloister.fl.data.source import Cifar10
from cloister.fl.models.papers import IMAGENET, Cifar5Cnn, Mlp, Normalised
from cloister.fl.models.pretrained import Embedded, Pretrained
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Plain
from cloister.protocol.pairs.choices import PER_PAIR
from cloister.threat_models.semantic import CornerPatches

scenario = Scenario(
    name="EMD-CFL on Backdoor CIFAR-10",
    data=Cifar10(),
    partition=CornerPatches(clients=15),
    model=Pretrained(),
    training=Training(epochs=10, batch=64, lr=0.01, momentum=0.9, weight_decay=1e-6),
    algorithm=PRINTED,
    protection=Plain(),
    rounds=10,
    validation=0.1,
)
as_published = replace(scenario, algorithm=AS_PUBLISHED)
PATCHED = CornerPatches(clients=9, samples=4000)
quick = replace(
    scenario,
    name="EMD-CFL on Backdoor CIFAR-10, a CNN from nothing, quick",
    partition=PATCHED,
    model=Normalised(Cifar5Cnn(widths=(8, 16, 32), hidden=64), *IMAGENET),
    training=Training(epochs=10, batch=32, lr=0.02, momentum=0.9),
    algorithm=EMDCFL(eps=Replicates(), choice=PER_PAIR),
    rounds=2,
    validation=0.25,
)
quick_small = replace(
    quick, name=f"{quick.name}, 750 images", partition=replace(PATCHED, samples=1000), training=replace(quick.training, epochs=5)
)
quick_frozen = replace(
    quick,
    name="EMD-CFL on Backdoor CIFAR-10, a frozen MobileNetV2, quick",
    partition=Embedded(partition=replace(PATCHED, samples=1000), by=Pretrained(size=64), tests=200),
    model=Mlp(hidden=(128,)),
    training=Training(epochs=10, batch=32, lr=0.02, momentum=0.9),
    rounds=4,
)
