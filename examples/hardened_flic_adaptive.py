"""Hardened FLIC against attacks that adapt to clustering, on handwritten digits and on MNIST; FLIC and FedAvg beside it.

Run it:  cloister evaluate examples/hardened_flic_adaptive.py:quick     digits, two strengths, one seed, a minute
         cloister evaluate examples/hardened_flic_adaptive.py           digits, 20 clients, 2 to 8 of them corrupt, three seeds
         cloister evaluate examples/hardened_flic_adaptive.py:held_out  the same for hardened FLIC alone, with other seeds
         cloister evaluate examples/hardened_flic_adaptive.py:mnist     MNIST, 40 clients
         cloister evaluate examples/hardened_flic_adaptive.py:groups    two planted groups, which bridge and capture are about
         python examples/hardened_flic_adaptive.py RESULTS.JSONL        a Markdown table of what an evaluation wrote

Beside the attacks an evaluation plays "absent", whose members never answer. What it costs is what the data of that many clients
are worth; no defence that leaves members out can do better, so it is what the attacks are to be held against.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid, LabelSwap
from cloister.fl.data.source import Digits, Mnist
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Plain
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.attack import UploadAttack
from cloister.threat_models.cluster_attacks import Bridge, CloakedCollusion, Hider, Tilted, VictimCapture
from cloister.threat_models.cluster_timing import Fragmentation, last_impression, late_assignment, mimic_then_flip
from cloister.threat_models.evaluation import Attack, Evaluation
from cloister.threat_models.forged_choices import WorstModel
from cloister.threat_models.knowledge import Level
from cloister.threat_models.membership import Pool
from cloister.threat_models.simple_attacks import MinusGradient

T = 10
"""Rounds before FLIC looks for communities, and before clients of the hardened FLIC choose without a fork, every 5 rounds."""
EVERY = 5


def uploading(attack: UploadAttack) -> Attack:
    """The attack by as many members as the strength says, who know the honest updates of the round if it needs them."""
    knows = Level.OWN if attack.needs == Level.OWN else Level.OMNISCIENT
    return lambda count: Adversary(members=Pool(int(count)), upload=attack, knows=knows)


adaptive: dict[str, Attack] = {
    "minus gradient": uploading(MinusGradient()),
    "tilted": uploading(Tilted(angle=1.0)),
    "hider": uploading(Hider(0.1)),
    "hider, long": uploading(Hider(0.1, scale=2.5)),
    "cloaked": uploading(CloakedCollusion(k=0.8, a=0.2)),
    "cloaked, long": uploading(CloakedCollusion(k=0.8, a=0.2, rho=2.5)),
    "cloaked, far too long": uploading(CloakedCollusion(k=0.8, a=0.2, rho=20)),
    "mimic, then flip": lambda count: mimic_then_flip(Pool(int(count)), turn=T),
    "last impression": lambda count: last_impression(Pool(int(count)), clustering=T, window=3),
    "bridge": uploading(Bridge()),
    "victim capture": uploading(VictimCapture(victim=None, turn=T + EVERY)),
    "fragmentation": lambda count: Adversary(members=Pool(int(count)), local=Fragmentation(scale=2)),
    "late": lambda count: late_assignment(Pool(int(count)), until=T),
    "late, forged choice": lambda count: late_assignment(Pool(int(count)), until=T, choice=WorstModel()),
}
"""Those that need the honest updates of a round know them."""

evaluation = Evaluation(
    name="hardened FLIC under adaptive attacks, digits",
    scenario=Scenario(
        name="digits",
        data=Digits(),
        partition=Iid(clients=20, shared_test=True),
        model=Mlp(hidden=(32,)),
        training=Training(epochs=3, batch=10, lr=0.1),
        algorithm=FedAvg(),
        protection=Plain(),
        rounds=40,
    ),
    attacks=adaptive,
    defences={
        "FedAvg": FedAvg(),
        "FLIC": FLIC(rounds_before=T),
        "hardened FLIC": HardenedFLIC(rounds_before=T, every=EVERY),
    },
    strengths=(2, 4, 6, 8),
    seeds=(0, 1, 2),
)

only = {"hardened FLIC": evaluation.defences["hardened FLIC"]}

hardened = replace(evaluation, defences=only)
held_out = replace(hardened, seeds=(3, 4, 5))
"""The numbers of the hardened FLIC were chosen with seeds 0 to 2."""
others = replace(
    evaluation, defences={name: evaluation.defences[name] for name in ("FedAvg", "FLIC")}, strengths=(4, 8), seeds=(0, 1)
)

quick = replace(evaluation, name="quick", defences=only, strengths=(4, 8), seeds=(0,))

mnist = replace(
    evaluation,
    name="hardened FLIC under adaptive attacks, MNIST",
    scenario=replace(
        evaluation.scenario,
        name="MNIST",
        data=Mnist(),
        partition=Iid(clients=40, samples=200, shared_test=True),
        model=Mlp(hidden=(64,)),
        training=Training(epochs=1, batch=10, lr=0.05),
    ),
    defences=only,
    strengths=(4, 8, 12, 16),
    seeds=(0, 1),
)

groups = replace(
    evaluation,
    name="hardened FLIC under adaptive attacks, two planted groups",
    scenario=replace(evaluation.scenario, partition=LabelSwap(clients=20, groups=2, pairs=((0, 1), (2, 3)))),
    attacks={
        name: adaptive[name] for name in ("minus gradient", "hider", "cloaked", "bridge", "victim capture", "late, forged choice")
    },
    defences={name: evaluation.defences[name] for name in ("FLIC", "hardened FLIC")},
    strengths=(2, 4, 6, 8),
    seeds=(0, 1, 2),
)


# --- the table --------------------------------------------------------------------------------------------------------


def rows(lines: list[dict[str, Any]]) -> Iterator[str]:
    """A Markdown table a defence: accuracy that loyal clients lose (the worst seed), purity, and the share of attackers apart."""
    attacked = [line for line in lines if line["attack"] is not None and line["status"] == "done"]
    strengths = sorted({line["strength"] for line in attacked})
    for defence in dict.fromkeys(line["defence"] for line in attacked):
        clean = [line["accuracy"]["late"] for line in lines if line["defence"] == defence and line["attack"] is None]
        yield f"{defence}; without an attack {np.mean(clean):.3f} ({len(clean)} seeds)"
        yield ""
        yield "| attack | " + " | ".join(f"{s:g} attackers" for s in strengths) + " | purity | attackers apart |"
        yield "| --- |" + " --- |" * (len(strengths) + 2)
        for attack in dict.fromkeys(line["attack"] for line in attacked):
            of = [line for line in attacked if (line["attack"], line["defence"]) == (attack, defence)]
            lost = [[line["impact"]["late"] for line in of if line["strength"] == s] for s in strengths]
            cells = [f"{np.mean(x):+.3f} ({max(x):+.3f})" if x else "" for x in lost]
            rates = [line["detection"]["tpr"] for line in of if line["detection"]]
            apart = [float(rate) for rate in rates if rate is not None and np.isfinite(float(rate))]
            found = f"{np.mean(apart):.2f}" if apart else ""
            yield f"| {attack} | " + " | ".join(cells) + f" | {np.mean([x['clusters']['purity'] for x in of]):.2f} | {found} |"
        yield ""


def main() -> None:
    lines = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    print("\n".join(rows(lines)))


if __name__ == "__main__":
    main()
