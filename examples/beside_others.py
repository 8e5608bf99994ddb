"""The strongest attacks here beside every attack on accuracy of ByzFL and FLPoison at its defaults, on the same rules and data.

Run it:  cloister evaluate examples/beside_others.py --out FOLDER         digits, 6 of 20 clients corrupt, six rules, three seeds
         python examples/beside_others.py FOLDER/results.jsonl             a Markdown table of the worst of each

ByzFL (pip install byzfl; it loads torchvision) is taken as it is: its attacks are functions of the honest updates, and so are
attacks here. An aggregator of its is a rule likewise: RobustFedAvg(rule=byzfl.TrMean(f=6)). FLPoison is no package; its attacks
are written here in ours, at the defaults of its classes and of the settings that come with it for MNIST.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Dirichlet, Iid
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.robust.coordinates import Median, TrimmedMean
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.robust.mixing import NNM, Mixed
from cloister.fl.robust.weiszfeld import GeometricMedian
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Plain
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.collusion import ALIE, IPM, FangKrum, MinMax, MinSum, largest_hidden_z
from cloister.threat_models.evaluation import Attack, Evaluation
from cloister.threat_models.knowledge import Level
from cloister.threat_models.label_attacks import LabelFlip
from cloister.threat_models.membership import Pool
from cloister.threat_models.simple_attacks import MinusGradient, RandomVector
from cloister.threat_models.suites import strongest
from cloister.threat_models.targeted_uploads import Mimic

CLIENTS, F = 20, 6
"""Of which so many are attackers, for whom the rules are built."""
OTHERS = "ByzFL", "FLPoison"
NAMES = (
    "SignFlipping", "InnerProductManipulation", "Optimal_InnerProductManipulation", "ALittleIsEnough", "Optimal_ALittleIsEnough",
    "Mimic", "Inf", "Gaussian",
)  # fmt: skip


def of_byzfl() -> Mapping[str, Attack]:
    """Its attacks on uploads, at their defaults; none where it is not installed."""
    try:
        import byzfl
    except ImportError:
        return {}
    return {f"ByzFL {name}": getattr(byzfl, name)() for name in NAMES}


def of_flpoison() -> Mapping[str, Attack]:
    """Its attacks on accuracy. Its ALIE goes to the other side of the mean; its Fang attack knows what attackers computed
    themselves, and all of them send the same; its Min-Max and Min-Sum go along the mean; its label flips are of one class.
    """
    return {
        "FLPoison IPM": IPM(0.1),
        "FLPoison IPM 0.5": IPM(0.5),
        "FLPoison ALIE": ALIE(-largest_hidden_z(CLIENTS, F)),
        "FLPoison MinMax": MinMax("mean"),
        "FLPoison MinSum": MinSum("mean"),
        "FLPoison FangAttack": lambda count: Adversary(members=Pool(count), knows=Level.COLLUDING, upload=FangKrum(spread=0.0)),
        "FLPoison Mimic": Mimic(whom=0),
        "FLPoison SignFlipping": MinusGradient(),
        "FLPoison Gaussian": RandomVector(1.0),
        "FLPoison LabelFlipping 2 to 7": LabelFlip(2, 7),
        "FLPoison LabelFlipping 3 to 7": LabelFlip(3, 7),
    }


evaluation = Evaluation(
    name="beside others",
    scenario=Scenario(
        name="digits",
        data=Digits(),
        partition=Iid(clients=CLIENTS, shared_test=True),
        model=Mlp(hidden=(32,)),
        training=Training(epochs=1, batch=10, lr=0.1),
        algorithm=FedAvg(),
        protection=Plain(),
        rounds=30,
    ),
    attacks={**strongest(images=False), **of_byzfl(), **of_flpoison()},
    defences={
        "FedAvg": FedAvg(),
        "median": RobustFedAvg(rule=Median()),
        "trimmed mean": RobustFedAvg(rule=TrimmedMean(F)),
        "Multi-Krum": RobustFedAvg(rule=MultiKrum(F)),
        "geometric median": RobustFedAvg(rule=GeometricMedian()),
        "NNM, trimmed mean": RobustFedAvg(rule=Mixed((NNM(F),), TrimmedMean(F))),
    },
    strengths=(F,),
    partitions={
        "IID": Iid(clients=CLIENTS, shared_test=True),
        "Dirichlet 0.5": Dirichlet(clients=CLIENTS, alpha=0.5, shared_test=True),
        "Dirichlet 0.1": Dirichlet(clients=CLIENTS, alpha=0.1, shared_test=True),
    },
    seeds=(0, 1, 2),
)


def rows(lines: list[dict[str, Any]]) -> Iterator[str]:
    """A Markdown table: accuracy without attack, and under the worst attack here and of each of the others, mean over seeds."""
    yield f"| data | defence | no attack | the worst here | {' | '.join(f'the worst of {other}' for other in OTHERS)} |"
    yield "| --- " * (4 + len(OTHERS)) + "|"
    places = dict.fromkeys((line["partition"], line["defence"]) for line in lines)
    for partition, defence in places:
        found: dict[str | None, list[float]] = {}
        for line in lines:
            if (line["partition"], line["defence"], line["status"]) == (partition, defence, "done"):
                found.setdefault(line["attack"], []).append(float(line["accuracy"]["late"]))
        means = {attack: float(np.mean(values)) for attack, values in found.items()}
        clean = means.pop(None, float("nan"))
        means.pop("absent", None)
        worst = []
        for whose in ("", *OTHERS):
            of = {a: v for a, v in means.items() if a is not None and a.partition(" ")[0] == whose} if whose else ours(means)
            name = min(of, key=lambda attack: of[attack], default=None)
            worst.append("" if name is None else f"{of[name]:.3f} ({name.removeprefix(f'{whose} ')})")
        yield f"| {partition} | {defence} | {clean:.3f} | {' | '.join(worst)} |"


def ours(means: Mapping[str | None, float]) -> dict[str, float]:
    return {a: v for a, v in means.items() if a is not None and a.partition(" ")[0] not in OTHERS}


def main() -> None:
    lines = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    print("\n".join(rows(lines)))


if __name__ == "__main__":
    main()
