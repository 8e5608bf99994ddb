"""EMD-CFL on Backdoor MNIST (section 5.3, appendix C.4): green digits, green digits whose intensity tells the label, purple ones.

Group 0 are the targets. A model that they shared with group 1 would read the intensity in place of the digit, and be misled
where it is reversed. EMD-CFL keeps the groups apart. The measure is group 0's accuracy on clean and on reversed colours:
  python examples/emd_cfl_compare.py examples/emd_cfl_backdoor_mnist.py:quick --seeds 0 --out runs/emd
  cloister run examples/emd_cfl_backdoor_mnist.py:quick --data FOLDER
`quick` is 9 clients of 1,500 images and a perceptron, half a minute on one core: a small CNN does not learn the intensity in one
round of so few images, and what a model has not learned cannot tell clients apart. `scenario` is the paper's, 30 clients.
"""

from dataclasses import replace

from cloister.fl.algorithms.emd_cfl import AS_PUBLISHED, EMDCFL, PRINTED
from cloister.fl.clients.training import Training
from cloister.fl.data.source import Mnist
from cloister.fl.models.papers import IMAGENET, EmdCflCnn, Mlp, Normalised
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Plain
from cloister.protocol.pairs.choices import PER_PAIR
from cloister.threat_models.semantic import GreenDigits

scenario = Scenario(
    name="EMD-CFL on Backdoor MNIST",
    data=Mnist(),
    partition=GreenDigits(clients=30, replicated=True),
    model=Normalised(EmdCflCnn(), *IMAGENET),
    training=Training(epochs=10, batch=64, lr=0.01, momentum=0.9, weight_decay=1e-6),
    algorithm=PRINTED,
    protection=Plain(),
    rounds=10,
    validation=0.1,
)
as_published = replace(scenario, algorithm=AS_PUBLISHED)
quick = replace(
    scenario,
    name="EMD-CFL on Backdoor MNIST, quick",
    partition=GreenDigits(clients=9, samples=2000, halved=False, replicated=True),
    model=Normalised(Mlp(hidden=(128,)), (0.1, 0.1, 0.1), (0.2, 0.2, 0.2)),
    training=Training(epochs=8, batch=32, lr=0.01, momentum=0.9),
    algorithm=EMDCFL(choice=PER_PAIR),
    rounds=4,
    validation=0.25,
)
