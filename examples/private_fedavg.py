"""Federated averaging with differential privacy for whole clients: 60 clients, and a server that learns noisy sums alone.

Every client adds its share of discrete Gaussian noise inside secure aggregation, so that nobody, the server included, ever
holds a sum without it. All ten rounds together are (6, 1e-3)-differentially private for the updates of any one client ("zero
out": its updates replaced by zeros), with up to 3 clients corrupt and 6 dropping out; the ledgers say less if nobody drops out.
Not covered, and listed in the report: who takes part, who survives, and in which cluster.

With seeds 0, 1, 2: accuracy 0.914, 0.877, 0.883 and epsilon 5.59 spent; without noise seed 0 reaches 0.905.
Run it:  cloister run examples/private_fedavg.py
"""

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked, Noise

scenario = Scenario(
    name="private fedavg",
    data=Digits(),
    partition=Iid(clients=60, shared_test=True),
    model=Mlp(hidden=()),
    training=Training(epochs=5, batch=10, lr=0.2),
    algorithm=FedAvg(by_samples=False),
    protection=Masked(corrupt=3, dropped=0.1, noise=Noise(epsilon=6.0, delta=1e-3, rounds=10, l2=1.0)),
    rounds=10,
)
