"""The hardened FLIC with and without a robust rule inside its communities: backdoors dealt out in parts, and what the rule costs.

Run it:  cloister evaluate examples/evaluate_inner_rule.py           20 clients whose data are alike
         cloister evaluate examples/evaluate_inner_rule.py:skewed    labels dealt by Dirichlet(0.5)

The scenario is that of `attack_search.py`. 4, 5 and 8 of 20 attack, three seeds; some six minutes each on one core. DBA deals the
parts of a trigger out to its members, so that no member's update stands out; whoever tests stamps the whole.
results/robustness_search.md has the figures.
"""

from dataclasses import replace

import attack_search

from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.robust.krum_share import KrumOfShare
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.attack import DataAttack
from cloister.threat_models.backdoors import Backdoor, DistributedBackdoor
from cloister.threat_models.evaluation import Attack, Evaluation
from cloister.threat_models.membership import Pool
from cloister.threat_models.suites import untargeted
from cloister.threat_models.triggers import Parts, Patch, dba_bars


def poisoning(data: DataAttack) -> Attack:
    """By as many members as the strength says."""
    return lambda count: Adversary(members=Pool(int(count)), data=data)


scenario = attack_search.scenario
rows = Parts(tuple(Patch(row, 5, 1, 3) for row in range(3)))
evaluation = Evaluation(
    name="an inner rule",
    scenario=scenario,
    attacks={
        "DBA, four bars": poisoning(DistributedBackdoor(dba_bars(width=2, gap=1), share=0.5)),
        "DBA, three rows": poisoning(DistributedBackdoor(rows, share=0.5)),
        "BadNets": poisoning(Backdoor(rows, share=0.5)),
        **{name: untargeted()[name] for name in ("minus gradient x0.2", "ALIE z=1.5", "Min-Max deviation")},
    },
    defences={"no inner rule": scenario.algorithm, "KrumOfShare": HardenedFLIC(rounds_before=10, every=5, inner=KrumOfShare())},
    strengths=(4, 5, 8),
    seeds=(71, 72, 73),
)
skewed = replace(
    evaluation,
    name="an inner rule, skewed data",
    scenario=replace(scenario, partition=attack_search.skewed.partition),
)
