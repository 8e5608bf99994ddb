"""Methods that group clients as defences: minus gradient, backdoors, forgeries against CFL, FLIC, IFCA, FPFC and EMD-CFL.

Run it:  cloister evaluate examples/evaluate_clustered.py         the grid: isolation, harm, and what a backdoor gains
         cloister evaluate examples/evaluate_clustered.py:forged  lies about which model serves best; :forged_masked under Masked
         cloister attack examples/evaluate_clustered.py --against CFL --attackers 1-4 --goal accuracy
                                                  the cheapest break that a search finds; likewise the others

12 clients in two groups, one of which sees its digits turned by 90 degrees, so that a method has something to group by beside
attackers, and all five find the groups without an attack; 20 rounds, everybody in every round. No method is built for attackers.
A forgery is a lie about something that is no update: which model serves best, or what one's data look like (EMD-CFL: `a
colluder's embeddings`, by members that have client 0's data, or `largest reference`, and minus gradient besides). To a method
that does not ask, forged embeddings are minus gradient, and a forged vote is honest work. IFCA's clients choose inside their
work, where members say another slot and work from its model; FLIC asks clients that come late alone, so that members of `forged`
also wait until its groups are made.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.emd_cfl import EMDCFL, Gap
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.fpfc import FPFC
from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.clients.training import Training
from cloister.fl.clustering.fusion import Scad
from cloister.fl.data.partition import Rotation
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked, Plain
from cloister.protocol.pairs.choices import PER_PAIR
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.backdoors import Backdoor
from cloister.threat_models.evaluation import Evaluation
from cloister.threat_models.forged_choices import WorstModel
from cloister.threat_models.membership import NEVER, Pool, Schedule
from cloister.threat_models.offers import Offered
from cloister.threat_models.simple_attacks import MinusGradient
from cloister.threat_models.suites import backdoors, choices, embeddings, untargeted
from cloister.threat_models.suites.backdoors import PATCH, TARGET

ROUNDS = 20
uploads, poisons, votes = untargeted(), backdoors(), choices()


def first(offered: Offered) -> int:
    """The first model, whatever it is good for: all members in one group."""
    return 0


evaluation = Evaluation(
    name="attacks on methods that group clients",
    scenario=Scenario(
        name="digits, half of them upside down",
        data=Digits(),
        partition=Rotation(clients=12, angles=(0, 90), shared_test=True),
        model=Mlp(hidden=(32,)),
        training=Training(epochs=4, batch=10, lr=0.1),
        algorithm=FedAvg(),
        protection=Plain(),
        rounds=ROUNDS,
        validation=0.3,
    ),
    attacks={
        **{name: uploads[name] for name in ("minus gradient", "minus gradient x0.2", "minus gradient x5")},
        **{name: poisons[name] for name in ("BadNets", "BadNets x3", "DBA")},
        **{name: votes[name] for name in ("worst vote", "worst vote, minus gradient", "pretended vote")},
        **embeddings(),
    },
    defences={
        "FedAvg": FedAvg(),
        "CFL": CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.1), patience=5),
        "FLIC": FLIC(rounds_before=8),
        "IFCA": IFCA(models=2),
        "FPFC": FPFC(rounds=ROUNDS - 5, penalty=Scad(lam=0.3, a=12), rho=0.1, nu=0.5),
        "EMD-CFL": EMDCFL(eps=Gap(), choice=PER_PAIR),
    },
    strengths=(2, 4),
    seeds=(0, 1),
)

flic = FLIC(rounds_before=8)


def lying(choice: Any, late: bool = False, **others: Any) -> Callable[[float], Adversary]:
    """Members that say this of models that they are offered. late: they do not answer before FLIC has made its groups."""
    silent = Schedule(stop=flic.rounds_before) if late else NEVER
    return lambda count: Adversary(members=Pool(int(count)), choice=choice, silent=silent, **others)


forged = replace(
    evaluation,
    name="lies about which model serves best",
    attacks={
        "worst, honest work": lying(WorstModel()),
        "true, minus gradient": lying(None, upload=MinusGradient()),
        "worst, minus gradient": lying(WorstModel(), upload=MinusGradient()),
        "first, minus gradient": lying(first, upload=MinusGradient()),
        "true, BadNets": lying(None, data=Backdoor(PATCH, TARGET)),
        "first, BadNets": lying(first, data=Backdoor(PATCH, TARGET)),
        "late, true, minus gradient": lying(None, late=True, upload=MinusGradient()),
        "late, worst, minus gradient": lying(WorstModel(), late=True, upload=MinusGradient()),
        "late, first, minus gradient": lying(first, late=True, upload=MinusGradient()),
        "late, first, BadNets": lying(first, late=True, data=Backdoor(PATCH, TARGET)),
    },
    defences={"IFCA": IFCA(models=2), "FLIC": flic, "FLIC, half of all": replace(flic, participation=0.5)},
)
forged_masked = replace(forged, defences={"IFCA": IFCA(models=2)}, protections={"Masked": Masked()})
