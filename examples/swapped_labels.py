"""Two labels change places: what no method can keep where few clients hold a label, beside what methods lose by it.

Run it:  python examples/swapped_labels.py                             digits, Dirichlet(0.5), by 9 of 20 or fewer; minutes
         python examples/swapped_labels.py --alpha 0.1 --attackers 5   more skewed, a quarter corrupt
         python examples/swapped_labels.py --methods "hardened FLIC" --seeds 51 52 53

For each seed the two labels and the two sets of clients by which the bound of `threat_models/swap_theory.py` is largest; each set
is corrupt in a run of its own, works honestly on data in which the two labels have changed places, and sees nothing of others.
Bound: on the mean of the loyal in one of the two runs, by what FedAvg has right of the two labels without the corrupt. Loss:
accuracy of the loyal clients without attack, or with the attackers silent, whichever is lower, minus that under attack, as means
of the last ten of 40 rounds; in brackets of the clients that hold neither label. What came out:
examples/results/robustness_search.md.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from attack_search import skewed
from hardened_flic_search import played

from cloister.fl.algorithms.algorithm import Algorithm
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.models.vector import load_vector
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.robust.weiszfeld import GeometricMedian
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.forged_choices import Pretended
from cloister.threat_models.label_attacks import SwappedLabels
from cloister.threat_models.membership import ALWAYS, Fixed
from cloister.threat_models.swap_theory import Swap, swap_of

METHODS: dict[str, Algorithm] = {
    "FedAvg": FedAvg(),
    "FLIC": FLIC(rounds_before=10),
    "Multi-Krum": RobustFedAvg(rule=MultiKrum(9)),
    "geometric median": RobustFedAvg(rule=GeometricMedian()),
    "hardened FLIC": HardenedFLIC(rounds_before=10, every=5),
}


def losses(
    base: Scenario, clean: Mapping[int, float], members: Sequence[int], swap: Swap, data: Path | None
) -> tuple[float, float]:
    """Of accuracy: the loyal clients', and those of them that hold neither label."""
    corrupt, swapped = Fixed(tuple(members)), SwappedLabels(*swap.labels)
    attacked, _ = played(replace(base, adversary=Adversary(members=corrupt, data=swapped, choice=Pretended(swapped))), data)
    absent, _ = played(replace(base, adversary=Adversary(members=corrupt, silent=ALWAYS)), data)

    def lost(ids: Sequence[int]) -> float:
        under, without, silent = (float(np.mean([of[i] for i in ids])) for of in (attacked, clean, absent))
        return min(without, silent) - under

    return lost(sorted(attacked)), lost(swap.blind)


def right(base: Scenario, members: Sequence[int], swap: Swap, data: Path | None) -> float:
    """The share of tests of the two labels that a client that holds neither has right in the end, if these clients are silent."""
    simulation = Simulation(replace(base, adversary=Adversary(members=Fixed(tuple(members)), silent=ALWAYS)), data)
    for _ in range(base.rounds):
        simulation.step()
    test = simulation.population.clients[swap.blind[0]].test
    of_both = torch.isin(test.y, torch.tensor(swap.labels))
    load_vector(simulation.module, simulation.vectors()[swap.blind[0]])
    with torch.no_grad():
        return float((simulation.module(test.x[of_both]).argmax(1) == test.y[of_both]).double().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=sorted(METHODS), default=list(METHODS), help="which (all)")
    parser.add_argument("--attackers", type=int, default=9, help="at most so many of 20 in either run (9)")
    parser.add_argument("--alpha", type=float, default=0.5, help="of the Dirichlet distribution of labels (0.5)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[51, 52, 53, 61, 62])
    chosen = parser.parse_args()
    for seed in chosen.seeds:
        dealt = replace(skewed, seed=seed, partition=replace(skewed.partition, alpha=chosen.alpha))
        swap = swap_of(dealt, chosen.attackers)
        if swap is None:
            print(f"seed {seed}: no two labels that so few hold", flush=True)
            continue
        a, b = swap.labels
        kept = [right(replace(dealt, algorithm=FedAvg()), members, swap, None) for members in (swap.first, swap.second)]
        print(
            f"seed {seed}: labels {a} and {b}, by {len(swap.first)} or {len(swap.second)} of 20; {len(swap.blind)} hold neither; "
            f"bound {swap.loss * (sum(kept) - 1):.3f}, all served alike {swap.alike * (sum(kept) - 1):.3f}; "
            f"right without them, FedAvg: {kept[0]:.2f} {kept[1]:.2f}",
            flush=True,
        )
        for name in chosen.methods:
            base = replace(dealt, algorithm=METHODS[name])
            clean, _ = played(base, None)
            found = [losses(base, clean, members, swap, None) for members in (swap.first, swap.second)]
            print(f"  {name:18}" + "   ".join(f"{lost:6.3f} ({blind:.3f})" for lost, blind in found), flush=True)


if __name__ == "__main__":
    main()
