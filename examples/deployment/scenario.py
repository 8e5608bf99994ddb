"""What coordinator and clients of compose.yaml agree on: the quickstart's digits, three clients, one model.

With three clients and nobody corrupt a sum tells each of them the other two's together; see the guide on how many clients a
promise needs.
"""

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked

scenario = Scenario(
    name="trial",
    data=Digits(),
    partition=Iid(clients=3),
    model=Mlp(hidden=(32,)),
    training=Training(epochs=1, batch=16, lr=0.1),
    algorithm=FedAvg(by_samples=False),
    protection=Masked(floor=2, corrupt=0),
    rounds=20,
)
