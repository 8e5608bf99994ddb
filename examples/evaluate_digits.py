"""The strongest attack of each family on ten defences, on handwritten digits: 20 clients, of which 6 or 9 are corrupt.

Run it:  cloister evaluate examples/evaluate_digits.py            the grid, 1230 runs
         cloister evaluate examples/evaluate_digits.py:skewed     6 attackers, labels dealt by Dirichlet(0.5) and (0.1), 1260 runs
         cloister evaluate examples/evaluate_digits.py:families   every attack on accuracy, at every strength of the suites
         cloister evaluate examples/evaluate_digits.py:later      two defences of 2022 and 2025, one seed
         cloister breakdown examples/evaluate_digits.py           the fewest attackers that break each defence

All rules are built for 6 attackers, whatever the attack is: nobody knows it beforehand; 9 are beyond. Members are drawn from the
run's seed. `private` asks what is left of some of them under secure aggregation, where order statistics are refused.
"""

from dataclasses import replace

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.fl_detector import FLDetector
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Dirichlet, Iid
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.robust.clustering import ClippedClustering
from cloister.fl.robust.coordinates import Median, TrimmedMean
from cloister.fl.robust.frequency import FreqFed
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.robust.layers import LASA
from cloister.fl.robust.mixing import ARC, NNM, Mixed
from cloister.fl.robust.similarity import FoolsGold
from cloister.fl.robust.spectral import CAF
from cloister.fl.robust.weiszfeld import CenteredClipping, GeometricMedian
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked, Plain
from cloister.threat_models.breakdown import Steps
from cloister.threat_models.evaluation import Evaluation
from cloister.threat_models.suites import insiders, strongest, untargeted

F = 6
"""Attackers that the rules are built for."""


evaluation = Evaluation(
    name="the strongest attacks on ten defences",
    scenario=Scenario(
        name="digits",
        data=Digits(),
        partition=Iid(clients=20, shared_test=True),
        model=Mlp(hidden=(32,)),
        training=Training(epochs=1, batch=10, lr=0.1),
        algorithm=FedAvg(),
        protection=Plain(),
        rounds=30,
    ),
    attacks=strongest(),
    defences={
        "FedAvg": FedAvg(),
        "median": RobustFedAvg(rule=Median()),
        "trimmed mean": RobustFedAvg(rule=TrimmedMean(F)),
        "Multi-Krum": RobustFedAvg(rule=MultiKrum(F)),
        "geometric median": RobustFedAvg(rule=GeometricMedian()),
        "centred clipping": RobustFedAvg(rule=CenteredClipping(tau=0.2)),
        "CAF": RobustFedAvg(rule=CAF(F)),
        "FoolsGold": RobustFedAvg(rule=FoolsGold()),
        "clipped clustering": RobustFedAvg(rule=ClippedClustering()),
        "ARC, NNM, trimmed": RobustFedAvg(rule=Mixed((ARC(F), NNM(F)), TrimmedMean(F))),
    },
    strengths=(6, 9),
    seeds=(0, 1, 2),
    breakdown=Steps(least=1, most=14),
)

skewed = replace(
    evaluation,
    name="the strongest attacks on ten defences, labels skewed",
    partitions={f"Dirichlet {alpha:g}": Dirichlet(clients=20, alpha=alpha, shared_test=True) for alpha in (0.5, 0.1)},
    strengths=(F,),
)

families = replace(
    evaluation,
    name="families of attacks on ten defences",
    attacks=untargeted() | insiders(),
    strengths=(F,),
    partitions={"IID": evaluation.scenario.partition, **skewed.partitions},
    seeds=(0,),
)

later = replace(
    evaluation,
    name="LASA and FLDetector, beside federated averaging and FreqFed",
    defences={
        "FedAvg": FedAvg(),
        "LASA": RobustFedAvg(rule=LASA(layers=(64 * 32, 32, 32 * 10, 10))),
        "FLDetector": FLDetector(window=5),
        "FreqFed": RobustFedAvg(rule=FreqFed()),
    },
    limits={"LASA": F, "FLDetector": F, "FreqFed": F},
    strengths=(F,),
    seeds=(0,),
)

private = replace(
    evaluation,
    name="robust rules under secure aggregation",
    attacks={name: evaluation.attacks[name] for name in ("minus gradient", "ALIE z=1.5", "optimal IPM")},
    defences={name: evaluation.defences[name] for name in ("FedAvg", "median", "Multi-Krum", "geometric median")},
    protections={"Plain": Plain(), "Masked": Masked()},
    strengths=(6,),
)

small = replace(
    evaluation,
    name="small",
    scenario=replace(evaluation.scenario, rounds=25),
    attacks={name: evaluation.attacks[name] for name in ("minus gradient", "BadNets x3")},
    defences={name: evaluation.defences[name] for name in ("FedAvg", "median", "Multi-Krum")},
    strengths=(6, 9),
    seeds=(0, 1),
)
