"""What tests of real processes play: six clients, of which a sum may lose one."""

from dataclasses import replace

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked, Plain

scenario = Scenario(
    name="deployed",
    data=Digits(),
    partition=LabelSwap(clients=6, groups=2, pairs=((1, 7), (3, 8)), shared_test=True),
    model=Mlp(hidden=(16,)),
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=FedAvg(by_samples=False),
    protection=Masked(corrupt=1),
    rounds=4,
)
plain = replace(scenario, protection=Plain())
