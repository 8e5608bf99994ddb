"""Attacks on the hardened FLIC by coalitions that have read its rule: what it loses on digits with skewed labels.

Run it:  python examples/hardened_flic_read.py                                 all of them by 8 of 20, three seeds; some minutes
         python examples/hardened_flic_read.py --attack kinds frames --attackers 6 --seeds 51 61 71
         python examples/hardened_flic_read.py --attack "orthogonal" --participation 0.5 --alike

Loss: accuracy of the loyal clients without attack, or with the attackers silent, whichever is lower, minus that under attack, as
means of the last ten of 40 rounds. What came out: examples/results/robustness_search.md.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from attack_search import scenario, skewed
from hardened_flic_search import played
from numpy.typing import NDArray

from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.runs.scenario import Scenario
from cloister.protocol.view.answers import Vector
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.knowledge import Level, Omniscient, Own, forged
from cloister.threat_models.membership import ALWAYS, Pool, Schedule

Matrix = NDArray[np.float32]
FEWEST = 3
"""Loyal clients of a session in which a member is not honest."""


def unit(v: Vector) -> Vector:
    length = np.linalg.norm(v)
    return v / np.float32(length) if length > 0 else v


def mixed(own: Own, direction: Vector, along: float, length: float) -> Vector:
    """Of this length: `along` the direction, the rest the member's own noise."""
    noise = unit(own.rng.standard_normal(len(own.update)).astype(np.float32))
    return np.float32(length) * (np.float32(along) * direction + np.float32((1 - along**2) ** 0.5) * noise)


def units(coalition: Omniscient) -> Matrix:
    return np.stack([unit(trained.vector) for _, trained in sorted(coalition.honest.items())])


def usual_length(coalition: Omniscient) -> float:
    return float(np.median([np.linalg.norm(trained.vector) for trained in coalition.honest.values()]))


@dataclass(frozen=True)
class Kinds:
    """Along what loyal updates differ by most, in either sense: as the member's own update is nearer to, or in turn."""

    along: float = 0.9
    scale: float = 1.5
    in_turn: bool = False
    needs: ClassVar[Level] = Level.OMNISCIENT
    identical: ClassVar[bool] = False

    def __call__(self, coalition: Omniscient, /) -> Mapping[int, Vector]:
        if len(coalition.honest) < FEWEST:
            return {member: own.update for member, own in coalition.own.items()}
        loyal, members = units(coalition), sorted(coalition.own.items())
        difference = np.linalg.svd(loyal - loyal.mean(axis=0), full_matrices=False)[2][0].astype(np.float32)
        places = np.argsort(np.argsort([float(unit(own.update) @ difference) for _, own in members]))
        signs = [1 if k % 2 else -1 for k in range(len(members))] if self.in_turn else np.where(places < len(members) / 2, -1, 1)
        length = self.scale * usual_length(coalition)
        sent = [mixed(own, np.float32(s) * difference, self.along, length) for (_, own), s in zip(members, signs, strict=True)]
        return forged(coalition, sent)


@dataclass(frozen=True)
class Frames:
    """Along the difference of the means of two halves of the loyal, in either sense in turn: to make two kinds of them."""

    along: float = 0.6
    scale: float = 1.0
    needs: ClassVar[Level] = Level.OMNISCIENT
    identical: ClassVar[bool] = False

    def __call__(self, coalition: Omniscient, /) -> Mapping[int, Vector]:
        if len(coalition.honest) < FEWEST:
            return {member: own.update for member, own in coalition.own.items()}
        loyal = units(coalition)
        between = unit(unit(loyal[::2].mean(axis=0)) - unit(loyal[1::2].mean(axis=0)))
        length = self.scale * usual_length(coalition)
        members = enumerate(own for _, own in sorted(coalition.own.items()))
        return forged(coalition, [mixed(own, between * np.float32(1 if k % 2 else -1), self.along, length) for k, own in members])


@dataclass(frozen=True)
class Orthogonal:
    """Minus the own update without what the loyal share: it harms what they differ by, and its mean cosine with them is 0."""

    scale: float = 1.5
    needs: ClassVar[Level] = Level.OMNISCIENT
    identical: ClassVar[bool] = False

    def __call__(self, coalition: Omniscient, /) -> Mapping[int, Vector]:
        if len(coalition.honest) < FEWEST:
            return {member: own.update for member, own in coalition.own.items()}
        shared = unit(units(coalition).mean(axis=0))
        turned = [(own, -own.update) for _, own in sorted(coalition.own.items())]
        sent = [np.float32(self.scale * np.linalg.norm(u)) * unit(u - (u @ shared) * shared) for _, u in turned]
        return forged(coalition, sent)


@dataclass(frozen=True)
class FlippedClasses:
    """The own update with the last layer's rows of some classes times -strength, scaled to so many times its own length."""

    classes: tuple[int, ...] = tuple(range(7))
    strength: float = 1.0
    scale: float = 1.5
    needs: ClassVar[Level] = Level.OWN

    def __call__(self, own: Own, /) -> Vector:
        sent, count = own.update.copy(), own.classes
        width = (len(sent) - count) // (64 + 1 + count)  # of the hidden layer between 64 pixels and the classes
        rows = sent[-count * (width + 1) : -count].reshape(count, width)
        rows[list(self.classes)] *= np.float32(-self.strength)
        sent[-count:][list(self.classes)] *= np.float32(-self.strength)
        return np.float32(self.scale * np.linalg.norm(own.update)) * unit(sent)


ATTACKS: dict[str, tuple[int, Any]] = {
    "kinds": (3, Kinds()),
    "splits": (3, Kinds(in_turn=True)),
    "frames": (3, Frames()),
    "long frames": (3, Frames(along=0.7, scale=1.5)),
    "orthogonal": (5, Orthogonal()),
    "flipped classes": (3, FlippedClasses()),
    "three flipped classes": (3, FlippedClasses(classes=(7, 8, 9), strength=2.0)),
}
"""From which round on, and what."""


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
