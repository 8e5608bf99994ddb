"""What each party of a run could find out: the run is played, its view is attacked, and claims are refuted or not.

    cloister audit audit.py
    cloister audit audit.py --budget full

Take another protection, method or model, and see what changes. With far fewer clients than these 18, claims stay undecided
for want of victims; --seeds 0-4 brings more of them.
"""

from cloister import Scenario, Training, algorithms, data, models, partitions, protections

scenario = Scenario(
    name="audited",
    data=data.Digits(),
    partition=partitions.Dirichlet(clients=18, alpha=0.5),
    model=models.Mlp(hidden=(32,)),
    training=Training(epochs=3, batch=32, lr=0.1),
    algorithm=algorithms.FLIC(rounds_before=5, by_samples=False),
    protection=protections.Masked(corrupt=1),  # try protections.Plain(), Permuted(), TwoServer()
    rounds=10,
)
