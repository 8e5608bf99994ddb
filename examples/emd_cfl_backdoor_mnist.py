"""EMD-CFL on Backdoor MNIST (section 5.3, appendix C.4): green digits, green digits whose intensity tells the label, purple ones.

Group 0 are the targets. A model that they shared with group 1 would read the intensity in place of the digit, and be misled
where it is reversed. EMD-CFL keeps the groups apart. The measure is group 0's accuracy on clean and on reversed colours:
  python examples/emd_cfl_compare.py examples/emd_cfl_backdoor_mnist.py:quick --seeds 0 --out runs/emd
  cloister run examples/emd_cfl_backdoor_mnist.py:quick --data FOLDER
`quick` is 12 clients and a small CNN, half a minute on one core; `scenario` the paper's 30 clients.
"""

from dataclasses import replace

from cloister.fl.algorithms.emd_cfl import EMDCFL, Gap
from cloister.fl.data import Mnist
from cloister.fl.models import CflCnn, EmdCflCnn
from cloister.fl.scenario import Scenario
from cloister.fl.training import Training
from cloister.protocol import Plain
from cloister.protocol.pairs.choices import PAPER
from cloister.threat_models.semantic import GreenDigits

scenario = Scenario(
    name="EMD-CFL on Backdoor MNIST",
    data=Mnist(),
    partition=GreenDigits(clients=30, replicated=True),
    model=EmdCflCnn(),
    training=Training(epochs=10, batch=64, lr=0.01, momentum=0.9, weight_decay=1e-6),
    algorithm=EMDCFL(eps=0.025, choice=PAPER),
    protection=Plain(),
    rounds=10,
    validation=0.1,
)
quick = replace(
    scenario,
    name="EMD-CFL on Backdoor MNIST, quick",
    partition=GreenDigits(clients=12, samples=600, halved=False),
    model=CflCnn(),
    training=Training(epochs=5, batch=32, lr=0.05, momentum=0.9),
    algorithm=EMDCFL(eps=Gap(), choice=PAPER),
    rounds=4,
    validation=0.2,
)
