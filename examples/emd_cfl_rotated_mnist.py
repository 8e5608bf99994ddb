"""EMD-CFL on Rotated MNIST (section 4.1; variants Min, Two and Base of appendix E.9): groups of clients that turn their digits.

`quick` is 12 clients of 500 images and a small CNN, half a minute on one core; `scenario` the paper's 40 clients, where every
group has all of MNIST. Min: angles so close that they are one group; Two: two groups; Base: nothing is turned. Run it:
  cloister run examples/emd_cfl_rotated_mnist.py:quick --data FOLDER
  python examples/emd_cfl_compare.py examples/emd_cfl_rotated_mnist.py:quick --seeds 0 1 2 --out runs/emd     # with Oracle
"""

from dataclasses import replace

from cloister.fl.algorithms.emd_cfl import AS_PUBLISHED, EMDCFL, PRINTED
from cloister.fl.algorithms.fedavg import Oracle
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid, Rotation
from cloister.fl.data.source import Mnist
from cloister.fl.emd import neighbourhoods
from cloister.fl.models.papers import MNIST_GREYS, CflCnn, EmdCflCnn, Normalised
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Plain
from cloister.protocol.pairs.choices import PER_PAIR

CLOSE = (-3, -1, 1, 3)
OPPOSED = (-3, 3, 177, 183)

scenario = Scenario(
    name="EMD-CFL on Rotated MNIST",
    data=Mnist(),
    partition=Rotation(clients=40, angles=(0, 90, 180, 270), replicated=True),
    model=Normalised(EmdCflCnn(), *MNIST_GREYS),
    training=Training(epochs=10, batch=64, lr=0.01, momentum=0.9, weight_decay=1e-6),
    algorithm=PRINTED,
    protection=Plain(),
    rounds=10,
    validation=0.1,
)
as_published = replace(scenario, algorithm=AS_PUBLISHED)
paper_min = replace(
    scenario, name="EMD-CFL on Rotated MNIST, Min", partition=Rotation(40, CLOSE, truth=(0, 0, 0, 0), replicated=True)
)
paper_two = replace(
    scenario, name="EMD-CFL on Rotated MNIST, Two", partition=Rotation(40, OPPOSED, truth=(0, 0, 1, 1), replicated=True)
)
paper_base = replace(
    scenario, name="EMD-CFL on MNIST, Base", partition=Rotation(40, (0, 0, 0, 0), truth=(0, 0, 0, 0), replicated=True)
)

quick = replace(
    scenario,
    name="EMD-CFL on Rotated MNIST, quick",
    partition=Rotation(clients=12, angles=(0, 90, 180, 270), samples=600),
    model=CflCnn(),
    training=Training(epochs=5, batch=32, lr=0.05, momentum=0.9),
    algorithm=EMDCFL(eps=0.025, choice=PER_PAIR),
    rounds=4,
    validation=0.2,
)
partial = replace(quick, name="EMD-CFL on Rotated MNIST, ten rounds, quick", rounds=10)
partial_printed = replace(
    partial,
    name="EMD-CFL on Rotated MNIST, ten rounds, identical neighbourhoods, quick",
    algorithm=EMDCFL(eps=0.025, choice=PER_PAIR, grouping=neighbourhoods),
)
"""For table 6: with few clients a round many pairs never meet, and identical neighbourhoods forgive no missing edge."""
oracle = replace(quick, name="Oracle on Rotated MNIST, quick", algorithm=Oracle())
quick_min = replace(
    quick,
    name="EMD-CFL on Rotated MNIST, Min, quick",
    partition=Rotation(12, CLOSE, truth=(0, 0, 0, 0), samples=600),
    rounds=2,
)
quick_two = replace(
    quick,
    name="EMD-CFL on Rotated MNIST, Two, quick",
    partition=Rotation(12, OPPOSED, truth=(0, 0, 1, 1), samples=600),
    rounds=2,
)
base = replace(quick, name="EMD-CFL on MNIST without rotation, quick", partition=Iid(clients=12, samples=600), rounds=2)
