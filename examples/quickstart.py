"""Clustered federated learning on handwritten digits: 24 clients in 3 hidden groups, and a server that must find them.

Each group has swapped a different pair of digits, so no single model can serve all. The server never sees an update: it learns
sums, by secure aggregation, and noisy similarities, from secret sketches. Run it:  cloister run examples/quickstart.py
"""

from cloister import Scenario, Training, algorithms, data, models, partitions, protections

scenario = Scenario(
    name="quickstart",
    data=data.Digits(),
    partition=partitions.LabelSwap(clients=24, groups=3, pairs=((1, 7), (3, 8), (4, 9)), shared_test=True),
    model=models.Mlp(hidden=(64,)),
    training=Training(epochs=3, batch=10, lr=0.3),
    algorithm=algorithms.CFL(thresholds=algorithms.ScaleFree(eps1=0.4, eps2=0.74), patience=8),
    protection=protections.Masked(corrupt=2),
    rounds=36,
)
