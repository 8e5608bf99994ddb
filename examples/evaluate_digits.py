"""Ten attacks on ten defences, on handwritten digits: 20 clients, of which 3, 6 or 9 are corrupt, drawn from the run's seed.

Run it:  cloister evaluate examples/evaluate_digits.py        the grid, 930 runs
         cloister breakdown examples/evaluate_digits.py        the fewest attackers that break each defence

All rules are built for 6 attackers, whatever the attack is: nobody knows it beforehand. `private` asks what is left of some of
them under secure aggregation, where order statistics are refused.
"""

from dataclasses import replace

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.robust.clustering import ClippedClustering
from cloister.fl.robust.coordinates import Median, TrimmedMean
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.robust.mixing import ARC, NNM, Mixed
from cloister.fl.robust.similarity import FoolsGold
from cloister.fl.robust.spectral import CAF
from cloister.fl.robust.weiszfeld import CenteredClipping, GeometricMedian
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked, Plain
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.attack import UploadAttack
from cloister.threat_models.backdoors import Backdoor
from cloister.threat_models.breakdown import Steps
from cloister.threat_models.cluster_attacks import CloakedCollusion
from cloister.threat_models.collusion import ALIE, IPM, FangTrim, MinMax
from cloister.threat_models.evaluation import Attack, Evaluation
from cloister.threat_models.knowledge import Level
from cloister.threat_models.label_attacks import LabelFlip
from cloister.threat_models.membership import Pool
from cloister.threat_models.simple_attacks import MinusGradient, Overwritten, Scaled
from cloister.threat_models.targeted_uploads import Mimic
from cloister.threat_models.triggers import Patch

F = 6
"""Attackers that the rules are built for."""


def uploading(attack: UploadAttack) -> Attack:
    """The attack by as many members as the strength says, who know the honest updates of the round if it needs them."""
    knows = Level.OWN if attack.needs == Level.OWN else Level.OMNISCIENT
    return lambda count: Adversary(members=Pool(int(count)), upload=attack, knows=knows)


backdoor = Backdoor(Patch(row=0, column=0, height=2, width=2), target=0)

evaluation = Evaluation(
    name="ten attacks on ten defences",
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
    attacks={
        "minus gradient": uploading(MinusGradient()),
        "NaN": uploading(Overwritten()),
        "label flip": lambda count: Adversary(members=Pool(int(count)), data=LabelFlip()),
        "ALIE": uploading(ALIE()),
        "IPM 0.5": uploading(IPM(0.5)),
        "Min-Max": uploading(MinMax()),
        "Fang trim": uploading(FangTrim()),
        "mimic": uploading(Mimic()),
        "cloaked": uploading(CloakedCollusion(k=0.8, a=0.2, rho=10)),
        "backdoor": lambda count: Adversary(members=Pool(int(count)), data=backdoor, upload=Scaled(3)),
    },
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
    strengths=(3, 6, 9),
    seeds=(0, 1, 2),
    breakdown=Steps(least=1, most=14, drop=0.1),
)

private = replace(
    evaluation,
    name="robust rules under secure aggregation",
    attacks={name: evaluation.attacks[name] for name in ("minus gradient", "ALIE", "cloaked")},
    defences={name: evaluation.defences[name] for name in ("FedAvg", "median", "Multi-Krum", "geometric median")},
    protections={"Plain": Plain(), "Masked": Masked()},
    strengths=(6,),
)

small = replace(
    evaluation,
    name="small",
    scenario=replace(evaluation.scenario, rounds=25),
    attacks={name: evaluation.attacks[name] for name in ("minus gradient", "backdoor")},
    defences={name: evaluation.defences[name] for name in ("FedAvg", "median", "Multi-Krum")},
    strengths=(6, 9),
    seeds=(0, 1),
)
