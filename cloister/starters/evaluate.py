"""How defences stand up to attacks: every pair is played, beside the same defence without attackers, and without their data.

cloister evaluate evaluate.py
"""

from typing import Any

from cloister import Scenario, Training, algorithms, attacks, data, models, partitions, protections, rules

base = Scenario(
    name="digits",
    data=data.Digits(),
    partition=partitions.Iid(clients=20, shared_test=True),
    model=models.Mlp(hidden=(32,)),
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=algorithms.FedAvg(),
    protection=protections.Plain(),
    rounds=20,
)


def weaker(own: attacks.Own) -> Any:
    """An attack of your own, on uploads: the first parameter's type says what it knows, here what one member does."""
    return -0.3 * own.update


evaluation = attacks.Evaluation(
    name="the strongest attacks on three defences",
    scenario=base,
    attacks=attacks.strongest() | {"weaker": weaker},  # suites: untargeted, insiders, backdoors, schedules, choices
    strengths=(6,),  # attackers of the 20 clients
    defences={
        "FedAvg": algorithms.FedAvg(),
        "median": algorithms.RobustFedAvg(rule=rules.Median()),
        "Multi-Krum": algorithms.RobustFedAvg(rule=rules.MultiKrum(f=6)),
    },
    partitions={"IID": base.partition, "skewed": partitions.Dirichlet(clients=20, alpha=0.5, shared_test=True)},
    seeds=(0, 1, 2),
    breakdown=attacks.Steps(most=9),  # cloister breakdown: the smallest number of attackers, below half, that breaks each
)
