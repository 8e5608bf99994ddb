"""Four clients and one masked sum a round: little training, so that stages are what takes time."""

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked

LENGTH = 64 * 16 + 16 + 16 * 10 + 10

scenario = Scenario(
    name="stages",
    data=Digits(),
    partition=LabelSwap(clients=4, groups=2, pairs=((1, 7), (3, 8)), shared_test=True),
    model=Mlp(hidden=(16,)),
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=FedAvg(by_samples=False),
    protection=Masked(floor=2),
    rounds=2,
)
