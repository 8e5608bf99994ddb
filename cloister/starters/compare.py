"""Methods beside each other: each searched on validation data alike, then played with seeds of its own, in one table.

cloister compare compare.py
"""

from cloister import Comparison, Method, Scenario, Search, Training, algorithms, data, models, partitions, protections

base = Scenario(
    name="turned",
    data=data.Digits(),
    partition=partitions.Rotation(clients=12, angles=(0, 180), samples=60),  # two groups that no method is told of
    model=models.Mlp(hidden=(32,)),
    training=Training(epochs=2, batch=20, lr=0.2),
    algorithm=algorithms.FedAvg(),  # each method takes its place, and each protection that of the next line
    protection=protections.Plain(),
    rounds=15,
)

comparison = Comparison(
    name="methods on turned digits",
    scale="quick",
    data={"turned": base},  # further data sets by name: scenarios
    methods={
        "LOCAL": Method(algorithm=algorithms.Local()),
        "FedAvg": Method(algorithm=algorithms.FedAvg(by_samples=False), grid={"training.lr": (0.1, 0.2, 0.4)}),
        "IFCA": Method(algorithm=algorithms.IFCA(models=2), grid={"training.lr": (0.1, 0.2, 0.4)}, fits=("turned",)),
        "CFL": Method(  # what is in the grid is searched; without one, the method is played as it stands
            algorithm=algorithms.CFL(thresholds=algorithms.ScaleFree(eps1=0.4, eps2=0.7), by_samples=False),
            grid={"algorithm.thresholds.eps1": (0.3, 0.4, 0.6)},
            fits=("turned",),
        ),
    },
    protections={"Plain": protections.Plain(), "Masked": protections.Masked()},
    seeds=(0, 1, 2),
    search=Search(seeds=(10,), configurations=3),  # none of the seeds above; test data are not there
)
