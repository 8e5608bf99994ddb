"""EMD-CFL on Rotated MNIST (section 4.1): clients in four groups that turn their digits, grouped in the first round.

`quick` is 12 clients of 500 images and a small CNN, half a minute on one core; `scenario` the paper's 40 clients. Run it:
  cloister run examples/emd_cfl_rotated_mnist.py:quick --data FOLDER
"""

from dataclasses import replace

from cloister.fl.algorithms.emd_cfl import EMDCFL
from cloister.fl.algorithms.fedavg import Oracle
from cloister.fl.data import Mnist
from cloister.fl.models import CflCnn, EmdCflCnn
from cloister.fl.partition import Iid, Rotation
from cloister.fl.scenario import Scenario
from cloister.fl.training import Training
from cloister.protocol import Plain
from cloister.protocol.pairs.choices import PAPER

scenario = Scenario(
    name="EMD-CFL on Rotated MNIST",
    data=Mnist(),
    partition=Rotation(clients=40, angles=(0, 90, 180, 270)),
    model=EmdCflCnn(),
    training=Training(epochs=10, batch=64, lr=0.01, momentum=0.9, weight_decay=1e-6),
    algorithm=EMDCFL(eps=0.025, choice=PAPER),
    protection=Plain(),
    rounds=10,
    validation=0.1,
)
quick = replace(
    scenario,
    name="EMD-CFL on Rotated MNIST, quick",
    partition=Rotation(clients=12, angles=(0, 90, 180, 270), samples=600),
    model=CflCnn(),
    training=Training(epochs=5, batch=32, lr=0.05, momentum=0.9),
    rounds=4,
    validation=0.2,
)
oracle = replace(quick, name="Oracle on Rotated MNIST, quick", algorithm=Oracle())
base = replace(quick, name="EMD-CFL on MNIST without rotation, quick", partition=Iid(clients=12, samples=600), rounds=2)
