"""Two labels change places: what no method can keep where few clients hold a label, beside what methods lose by it.

Run it:  python examples/swapped_labels.py                             digits, Dirichlet(0.5), by 9 of 20 or fewer; minutes
         python examples/swapped_labels.py --alpha 0.1 --attackers 5   more skewed, a quarter corrupt
         python examples/swapped_labels.py --methods "hardened FLIC" --seeds 51 52 53

For each seed the two labels and the two sets of clients by which the bound of `threat_models/swap_theory.py` is largest; each set
is corrupt in a run of its own, works honestly on data in which the two labels have changed places, and sees nothing of others.
Printed of each method, for the one run and the other: how many points of all tests the loyal lost, against their accuracy without
attack or with the attackers silent, whichever is lower, means of the last ten of 40 rounds; and of the tests of the two labels
alone, after the last round, what all loyal clients lost against the attackers silent, beside the bounds that follow from what
clients that hold neither had right then. Bounds are on the worse of two runs, in the mean of seeds. What came out:
examples/results/robustness_search.md.
"""

import argparse
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf

import numpy as np
import torch
from attack_search import skewed
from hardened_flic_search import LAST

from cloister.fl.algorithms.algorithm import Algorithm
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.models.vector import load_vector
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.robust.weiszfeld import GeometricMedian
from cloister.fl.runs.evaluation import ModelScore
from cloister.fl.runs.lost_round import NothingLearned
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.forged_choices import Pretended
from cloister.threat_models.label_attacks import SwappedLabels
from cloister.threat_models.membership import ALWAYS, Fixed
from cloister.threat_models.swap_theory import swap_of

METHODS: dict[str, Algorithm] = {
    "FedAvg": FedAvg(),
    "FLIC": FLIC(rounds_before=10),
    "Multi-Krum": RobustFedAvg(rule=MultiKrum(9)),
    "geometric median": RobustFedAvg(rule=GeometricMedian()),
    "hardened FLIC": HardenedFLIC(rounds_before=10, every=5),
}


@dataclass(frozen=True)
class Played:
    """Of each loyal client, by id: accuracy, mean of the last rounds, and the share of tests of the two labels right at last."""

    accuracy: Mapping[int, float]
    right: Mapping[int, float]


def play(base: Scenario, adversary: Adversary | None, labels: tuple[int, int]) -> Played:
    simulation = Simulation(replace(base, adversary=adversary), None)
    corrupt = frozenset() if simulation.corrupted is None else simulation.corrupted.members
    loyal = [i for i in sorted(simulation.population.clients) if i not in corrupt]
    rows, lacking = [], ModelScore(0.0, inf)
    for t in range(base.rounds):
        with suppress(NothingLearned):  # a lost round is a result
            simulation.step()
        if t >= base.rounds - LAST:
            found = simulation.evaluate()
            rows.append([found.get(i, lacking).accuracy for i in loyal])
    right, test = {}, simulation.population.clients[loyal[0]].test
    of_both = torch.isin(test.y, torch.tensor(labels))
    for i, vector in simulation.vectors().items():
        load_vector(simulation.module, vector)
        with torch.no_grad():
            right[i] = float((simulation.module(test.x[of_both]).argmax(1) == test.y[of_both]).double().mean())
    return Played(dict(zip(loyal, np.mean(rows, axis=0).tolist(), strict=True)), {i: right.get(i, 0.0) for i in loyal})


def mean(of: Mapping[int, float], ids: Iterable[int]) -> float:
    return float(np.mean([of[i] for i in ids]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=sorted(METHODS), default=list(METHODS), help="which (all)")
    parser.add_argument("--attackers", type=int, default=9, choices=range(1, 21), metavar="N", help="at most so many of 20 (9)")
    parser.add_argument("--alpha", type=float, default=0.5, help="of the Dirichlet distribution of labels (0.5)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[51, 52, 53, 61, 62])
    chosen = parser.parse_args()
    for seed in chosen.seeds:
        dealt = replace(skewed, seed=seed, partition=replace(skewed.partition, alpha=chosen.alpha))
        swap = swap_of(dealt, chosen.attackers)
        if swap is None:
            print(f"seed {seed}: no two labels that so few hold", flush=True)
            continue
        (a, b), sets = swap.labels, (swap.first, swap.second)
        print(
            f"seed {seed}: labels {a} and {b}, by {len(sets[0])} or {len(sets[1])} of 20; {len(swap.blind)} hold neither",
            flush=True,
        )
        for name in chosen.methods:
            base, swapped = replace(dealt, algorithm=METHODS[name]), SwappedLabels(*swap.labels)
            clean = play(base, None, swap.labels)
            hostile = [Adversary(members=Fixed(of), data=swapped, choice=Pretended(swapped)) for of in sets]
            attacked = [play(base, of, swap.labels) for of in hostile]
            silent = [play(base, Adversary(members=Fixed(of), silent=ALWAYS), swap.labels) for of in sets]
            lost, of_both = [], []
            for under, without in zip(attacked, silent, strict=True):
                ids = sorted(under.accuracy)
                lost.append(min(mean(clean.accuracy, ids), mean(without.accuracy, ids)) - mean(under.accuracy, ids))
                of_both.append(swap.share * (mean(without.right, ids) - mean(under.right, ids)))
            rights = [mean(of.right, swap.blind) for of in silent]
            words = f"of the two labels' tests {of_both[0]:.3f} {of_both[1]:.3f}, bound {swap.loss(*rights):.3f}"
            print(f"  {name:18}{lost[0]:6.3f} {lost[1]:.3f}   {words}, served alike {swap.alike(*rights):.3f}", flush=True)


if __name__ == "__main__":
    main()
