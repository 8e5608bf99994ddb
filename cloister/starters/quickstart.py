"""Clustered federated learning on handwritten digits: 24 clients in 3 hidden groups, and a server that must find them.

cloister run quickstart.py
cloister run quickstart.py --seed 1 --set training.lr=0.05
"""

from cloister import Scenario, Training, algorithms, data, models, partitions, protections

scenario = Scenario(
    name="quickstart",
    # The digits that scikit-learn brings; data.Mnist() and others are fetched. `cloister new my-data` shows your own.
    data=data.Digits(),
    # Each group has swapped two digits, so that no single model serves all. Also: Rotation, Dirichlet, Iid, ...
    partition=partitions.LabelSwap(clients=24, groups=3, pairs=((1, 7), (3, 8), (4, 9)), shared_test=True),
    # Or a module of torch: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).
    model=models.Mlp(hidden=(64,)),
    # What a client does in a round.
    training=Training(epochs=3, batch=10, lr=0.3),
    # Who is grouped with whom, and when. Also: FLIC, EMDCFL, FPFC, IFCA, FedAvg, ...
    algorithm=algorithms.CFL(thresholds=algorithms.ScaleFree(eps1=0.4, eps2=0.74), patience=8),
    # What the server may see: Masked shows it sums, and noisy similarities; two clients may collude with it.
    protection=protections.Masked(corrupt=2),
    rounds=36,
)
