"""Four hospitals in two groups, that read some digits the other way round. The server sees sums of two of them at the least."""

from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked

scenario = Scenario(
    name="hospitals",
    data=Digits(),
    partition=LabelSwap(clients=4, groups=2, pairs=((1, 7), (3, 8)), shared_test=True),
    model=Mlp(hidden=(16,)),
    training=Training(epochs=4, batch=10, lr=0.1),
    algorithm=CFL(thresholds=ScaleFree(eps1=0.6, eps2=0.3)),
    protection=Masked(corrupt=0, floor=2),
    rounds=5,
)
