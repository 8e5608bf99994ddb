"""Five backdoors, two of which adapt to the model, on handwritten digits: 20 clients, 4 of which are corrupt until round 20.

Run it:  cloister evaluate examples/evaluate_backdoors.py         30 runs and 6 without attack
         cloister evaluate examples/evaluate_backdoors.py:centre  what a learned trigger does to a model without a backdoor

Attacks stop ten rounds before the end, so that the report says how long a backdoor lasts. All put pixels into the upper right
corner, `centre` into the middle of the image. A3FL learns them: its success on the attack-free model is that of the pixels it
has learned, which need no backdoor for it, and in the middle of the image that is much.
"""

from dataclasses import replace

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.robust.coordinates import Median
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Plain
from cloister.threat_models.a3fl import A3FL
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.attack import DataAttack, LearnedPoison, TrainingAttack
from cloister.threat_models.backdoors import Backdoor, DistributedBackdoor
from cloister.threat_models.chameleon import Chameleon
from cloister.threat_models.evaluation import Attack, Evaluation
from cloister.threat_models.knowledge import Level
from cloister.threat_models.membership import Pool, Schedule
from cloister.threat_models.training_attacks import Neurotoxin
from cloister.threat_models.triggers import Parts, Patch

F = 4
"""Attackers that the rules are built for."""
UNTIL = Schedule(stop=20)


def poisoning(data: DataAttack | LearnedPoison, local: TrainingAttack | None = None, knows: Level = Level.OWN) -> Attack:
    """The backdoor by as many members as the strength says."""
    return lambda count: Adversary(members=Pool(int(count)), data=data, local=local, knows=knows, when=UNTIL)


def learned(row: int, column: int) -> A3FL:
    return A3FL(row, column, 3, 3, target=0, share=0.5, epochs=10, alpha=0.05, lambda0=0.1, adversarial_epochs=2, every=5)


patch = Backdoor(Patch(row=0, column=5, height=3, width=3), target=0, share=0.5)
rows = DistributedBackdoor(Parts(tuple(Patch(row, 5, 1, 3) for row in range(3))), target=0, share=0.5)

evaluation = Evaluation(
    name="five backdoors",
    scenario=Scenario(
        name="digits",
        data=Digits(),
        partition=Iid(clients=20, shared_test=True),
        model=Mlp(hidden=(32,)),
        training=Training(epochs=2, batch=10, lr=0.1),
        algorithm=FedAvg(),
        protection=Plain(),
        rounds=30,
    ),
    attacks={
        "BadNets": poisoning(patch),
        "DBA": poisoning(rows),
        "Neurotoxin": poisoning(patch, Neurotoxin(ratio=0.1)),
        "Chameleon": poisoning(patch, Chameleon(target=0, encoder_lr=0.02)),
        "A3FL": poisoning(learned(0, 5), knows=Level.COLLUDING),
    },
    defences={
        "FedAvg": FedAvg(),
        "median": RobustFedAvg(rule=Median()),
        "Multi-Krum": RobustFedAvg(rule=MultiKrum(F)),
    },
    strengths=(F,),
    seeds=(0, 1),
)

centre = replace(
    evaluation,
    name="backdoors in the centre",
    attacks={
        "BadNets": poisoning(Backdoor(Patch(row=3, column=3, height=3, width=3), target=0, share=0.5)),
        "A3FL": poisoning(learned(3, 3), knows=Level.COLLUDING),
    },
    defences={"FedAvg": FedAvg()},
)
