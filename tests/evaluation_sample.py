"""A small evaluation on digits for tests: four clients' worth of work a round, and attacks that end in every possible way."""

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.robust.coordinates import Median
from cloister.fl.robust.krum import Krum, MultiKrum
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked, Plain
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.backdoors import Backdoor
from cloister.threat_models.evaluation import Evaluation
from cloister.threat_models.membership import Pool
from cloister.threat_models.simple_attacks import MinusGradient, Scaled
from cloister.threat_models.triggers import Patch

scenario = Scenario(
    name="tiny", data=Digits(), partition=Iid(clients=8, samples=20, shared_test=True), model=Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=10, lr=0.3), algorithm=FedAvg(), protection=Plain(), rounds=4,
)  # fmt: skip


def broken(count: float) -> Adversary:
    raise RuntimeError("no such\nadversary")


def minus(count: float) -> Adversary:
    return Adversary(members=Pool(int(count)), upload=MinusGradient())


def backdoor(count: float) -> Adversary:
    return Adversary(members=Pool(int(count)), data=Backdoor(Patch(0, 0, 3, 3), target=3, share=0.9), upload=Scaled(3))


evaluation = Evaluation(
    name="tiny",
    scenario=scenario,
    attacks={"minus": minus, "backdoor": backdoor},
    defences={"fedavg": FedAvg(), "multikrum": RobustFedAvg(rule=MultiKrum(2))},
    strengths=(1, 3),
    seeds=(0, 1),
    absent=False,
)

with_refusals = Evaluation(
    name="refusals",
    scenario=scenario,
    attacks={"minus": minus, "too many": lambda count: minus(100), "broken": broken},
    defences={"median": RobustFedAvg(rule=Median()), "krum": RobustFedAvg(rule=Krum(1)), "fedavg": FedAvg()},
    strengths=(2,),
    protections={"Plain": Plain(), "Masked": Masked(floor=3)},
    seeds=(0,),
    absent=False,
)

all_refused = Evaluation(
    name="all refused",
    scenario=scenario,
    attacks={"minus": minus},
    defences={"median": RobustFedAvg(rule=Median())},
    strengths=(2,),
    protections={"Masked": Masked(floor=3)},
    seeds=(0,),
    absent=False,
)
