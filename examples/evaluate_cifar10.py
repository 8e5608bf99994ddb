"""Attacks on defences that train a residual network on CIFAR-10 images (He et al. 2016), which is larger than other grids here.

Run it:  cloister evaluate examples/evaluate_cifar10.py:quick --data FOLDER     10 clients, a ResNet-8: half an hour of a core
         cloister evaluate examples/evaluate_cifar10.py --device cuda --data FOLDER    20 clients, ResNet-20, a task for a GPU
         cloister run examples/evaluate_cifar10.py:alone --data FOLDER          one run of `quick` without an attack

The network has no running statistics, which no update would carry (`cloister.models.ResNet`). What `quick` gave, how long its
cells took and what the whole would take: `examples/results/attacks_and_defences.md`.
"""

from dataclasses import replace

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Dirichlet, Iid
from cloister.fl.data.source import Cifar10
from cloister.fl.models.papers import Normalised
from cloister.fl.models.resnet import ResNet
from cloister.fl.robust.coordinates import Median
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.robust.mixing import NNM, Mixed
from cloister.fl.robust.weiszfeld import GeometricMedian
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Plain
from cloister.threat_models.evaluation import Evaluation
from cloister.threat_models.suites import strongest

CIFAR = (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)
"""Mean and deviation of each channel of the training images."""

evaluation = Evaluation(
    name="a ResNet on CIFAR-10",
    scenario=Scenario(
        name="CIFAR-10, ResNet-20",
        data=Cifar10(),
        partition=Iid(clients=20, shared_test=True),
        model=Normalised(ResNet(), *CIFAR),
        training=Training(epochs=1, batch=64, lr=0.05, momentum=0.9, weight_decay=1e-4),
        algorithm=FedAvg(),
        protection=Plain(),
        rounds=100,
        evaluate_every=5,
    ),
    attacks=strongest(),
    defences={
        "FedAvg": FedAvg(),
        "median": RobustFedAvg(rule=Median()),
        "Multi-Krum": RobustFedAvg(rule=MultiKrum(4)),
        "geometric median": RobustFedAvg(rule=GeometricMedian()),
        "NNM, geometric median": RobustFedAvg(rule=Mixed((NNM(4),), GeometricMedian())),
    },
    strengths=(4,),
    partitions={
        "IID": Iid(clients=20, shared_test=True),
        "Dirichlet 0.5": Dirichlet(clients=20, alpha=0.5, shared_test=True),
    },
    seeds=(0, 1, 2),
)

alone = replace(
    evaluation.scenario,
    name="CIFAR-10, ResNet-8, quick",
    partition=Iid(clients=10, samples=400, shared_test=True),
    model=Normalised(ResNet(8), *CIFAR),
    training=replace(evaluation.scenario.training, batch=16),
    rounds=15,
)

quick = replace(
    evaluation,
    name="a ResNet on CIFAR-10, quick",
    scenario=alone,
    attacks={name: evaluation.attacks[name] for name in ("minus gradient", "ALIE z=1.5", "optimal IPM", "BadNets x3")},
    defences={
        "FedAvg": FedAvg(),
        "median": RobustFedAvg(rule=Median()),
        "Multi-Krum": RobustFedAvg(rule=MultiKrum(2)),
        "NNM, geometric median": RobustFedAvg(rule=Mixed((NNM(2),), GeometricMedian())),
    },
    strengths=(2,),
    partitions={},
    seeds=(0,),
)
