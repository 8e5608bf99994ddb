"""How defences stand up to attacks: every pair of them is played, beside the same defence without attackers.

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


def uploading(attack: Any) -> Any:
    """The attack by so many clients, who know each other's updates and those of all others."""
    return lambda count: attacks.Adversary(members=attacks.Pool(int(count)), upload=attack, knows=attacks.Level.OMNISCIENT)


evaluation = attacks.Evaluation(
    name="two attacks on three defences",
    scenario=base,
    attacks={"minus gradient": uploading(attacks.MinusGradient()), "ALIE": uploading(attacks.ALIE())},
    strengths=(4, 8),  # attackers of the 20 clients; each attack is made for each
    defences={
        "none": algorithms.FedAvg(),
        "median": algorithms.RobustFedAvg(rule=rules.Median()),
        "geometric median": algorithms.RobustFedAvg(rule=rules.GeometricMedian()),
    },
    seeds=(0, 1, 2),
)
