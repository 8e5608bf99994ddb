"""Clustered federated learning on handwritten digits: 24 clients in 3 hidden groups, and a server that must find them.

Each group has swapped a different pair of digits, so no single model can serve all. The server never sees an update: it learns
sums, by secure aggregation, and noisy similarities, from secret sketches. Run it:  cloister run examples/quickstart.py
"""

from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked

scenario = Scenario(
    name="quickstart",
    data=Digits(),
    partition=LabelSwap(clients=24, groups=3, pairs=((1, 7), (3, 8), (4, 9)), shared_test=True),
    model=Mlp(hidden=(64,)),
    training=Training(epochs=3, batch=10, lr=0.1),
    algorithm=CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.74), patience=8),
    protection=Masked(corrupt=2),
    rounds=60,
)
