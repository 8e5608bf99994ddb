"""Attacks on the hardened FLIC by coalitions that have read its rule: what it loses on digits with skewed labels.

Run it:  python examples/hardened_flic_read.py                                 all of them by 8 of 20, three seeds; some minutes
         python examples/hardened_flic_read.py --attack kinds frames --attackers 6 --seeds 51 61 71
         python examples/hardened_flic_read.py --attack "orthogonal" --participation 0.5 --alike

Loss: accuracy of the loyal clients without attack, or with the attackers silent, whichever is lower, minus that under attack, as
means of the last ten of 40 rounds. What came out: examples/results/robustness_search.md.
"""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from attack_search import scenario, skewed
from hardened_flic_search import played

from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.runs.scenario import Scenario
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.dividing import FlippedClasses, OneWay, TwoKinds, Unshared
from cloister.threat_models.knowledge import Level
from cloister.threat_models.membership import ALWAYS, Pool, Schedule
from cloister.threat_models.together import Together

ATTACKS: dict[str, tuple[int, Any]] = {
    "kinds": (3, TwoKinds()),
    "splits": (3, TwoKinds(in_turn=True)),
    "frames": (3, TwoKinds("halves", cosine=0.6, scale=1.0, in_turn=True)),
    "long frames": (3, TwoKinds("halves", cosine=0.7, in_turn=True)),
    "orthogonal": (5, Unshared()),
    "one way": (0, OneWay()),
    "together": (0, Together()),
    "together in turn": (0, Together(share=0.8, in_turn=True)),
    "flipped classes": (3, FlippedClasses()),
    "three flipped classes": (3, FlippedClasses(share=0.3, side="last", strength=2.0)),
}
"""From which round on, and what. All but the flippers see the loyal updates of the round."""


def loss(base: Scenario, start: int, attack: Any, count: int, data: Path | None) -> float:
    """Of accuracy, by so many of the clients."""
    knows = Level.OWN if attack.needs == Level.OWN else Level.OMNISCIENT
    hostile = Adversary(members=Pool(count), upload=attack, knows=knows, when=Schedule(start=start))
    attacked, _ = played(replace(base, adversary=hostile), data, None)
    absent, _ = played(replace(base, adversary=Adversary(members=Pool(count), silent=ALWAYS)), data, None)
    clean, _ = played(base, data, None)
    return min(mean(clean, attacked), mean(absent, attacked)) - mean(attacked, attacked)


def mean(accuracy: Mapping[int, float], loyal: Mapping[int, float]) -> float:
    return float(np.mean([accuracy[i] for i in loyal]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attack", nargs="+", choices=sorted(ATTACKS), default=list(ATTACKS), help="which (all)")
    parser.add_argument("--attackers", type=int, default=8, help="how many of 20 (8)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[51, 61, 71])
    parser.add_argument("--start", type=int, help="the first round (each attack's own)")
    parser.add_argument("--participation", type=float, default=1.0, help="share of the clients that a round draws (1)")
    parser.add_argument("--alike", action="store_true", help="labels alike instead of by Dirichlet(0.5)")
    chosen = parser.parse_args()
    for name in chosen.attack:
        start, attack = ATTACKS[name]
        losses = []
        for seed in chosen.seeds:
            base = replace(scenario if chosen.alike else skewed, seed=seed)
            defence = HardenedFLIC(rounds_before=10, every=5, participation=chosen.participation)
            losses.append(
                loss(
                    replace(base, algorithm=defence),
                    start if chosen.start is None else chosen.start,
                    attack,
                    chosen.attackers,
                    None,
                )
            )
        print(f"{name:22} by {chosen.attackers}: " + " ".join(f"{value:.3f}" for value in losses), flush=True)


if __name__ == "__main__":
    main()
