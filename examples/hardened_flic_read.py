"""Attacks on the hardened FLIC by coalitions that have read its rule: what it loses on digits with skewed labels.

Run it:  python examples/hardened_flic_read.py                                 all of them by 8 of 20, three seeds; some minutes
         python examples/hardened_flic_read.py --attack kinds frames --attackers 6 --seeds 51 61 71
         python examples/hardened_flic_read.py --attack "orthogonal" --participation 0.5 --alike

Loss: accuracy of the loyal clients without attack, or with the attackers silent, whichever is lower, minus that under attack, as
means of the last ten of 40 rounds. What came out: examples/results/robustness_search.md.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
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


def most_different(loyal: Matrix) -> Vector:
    """What loyal updates differ by most."""
    return np.linalg.svd(loyal - loyal.mean(axis=0), full_matrices=False)[2][0].astype(np.float32)


def between_halves(loyal: Matrix) -> Vector:
    """The difference of the means of two halves of them, by their numbers."""
    return unit(unit(loyal[::2].mean(axis=0)) - unit(loyal[1::2].mean(axis=0)))


def both_ways(
    loyal: Matrix,
    length: float,
    members: Sequence[Own],
    *,
    direction: Callable[[Matrix], Vector],
    along: float,
    scale: float,
    in_turn: bool,
) -> list[Vector]:
    """Along a direction of the loyal updates in either sense, as the member's own update is nearer to, or in turn: to make two
    kinds of the loyal.
    """
    towards = direction(loyal)
    places = np.argsort(np.argsort([float(unit(own.update) @ towards) for own in members]))
    far = np.arange(len(members)) % 2 == 1 if in_turn else places >= len(members) / 2
    return [mixed(own, towards if one else -towards, along, scale * length) for own, one in zip(members, far, strict=True)]


def orthogonal(loyal: Matrix, length: float, members: Sequence[Own], *, scale: float) -> list[Vector]:
    """Minus the own update without what the loyal share: it harms what they differ by, and its mean cosine with them is 0."""
    shared = unit(loyal.mean(axis=0))
    return [
        np.float32(-scale * np.linalg.norm(own.update)) * unit(own.update - (own.update @ shared) * shared) for own in members
    ]


@dataclass(frozen=True)
class SeesLoyal:
    """Honest where hardly anybody loyal is there, and otherwise what is sent by the loyal updates.

    send: by their unit vectors (clients, d), their median norm and the members, what each member sends.
    """

    send: Callable[[Matrix, float, Sequence[Own]], list[Vector]]
    needs: ClassVar[Level] = Level.OMNISCIENT
    identical: ClassVar[bool] = False

    def __call__(self, coalition: Omniscient, /) -> Mapping[int, Vector]:
        vectors = [trained.vector for _, trained in sorted(coalition.honest.items())]
        if len(vectors) < FEWEST:
            return {member: own.update for member, own in coalition.own.items()}
        length = float(np.median([np.linalg.norm(v) for v in vectors]))
        members = [own for _, own in sorted(coalition.own.items())]
        return forged(coalition, self.send(np.stack([unit(v) for v in vectors]), length, members))


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
    "kinds": (3, SeesLoyal(partial(both_ways, direction=most_different, along=0.9, scale=1.5, in_turn=False))),
    "splits": (3, SeesLoyal(partial(both_ways, direction=most_different, along=0.9, scale=1.5, in_turn=True))),
    "frames": (3, SeesLoyal(partial(both_ways, direction=between_halves, along=0.6, scale=1.0, in_turn=True))),
    "long frames": (3, SeesLoyal(partial(both_ways, direction=between_halves, along=0.7, scale=1.5, in_turn=True))),
    "orthogonal": (5, SeesLoyal(partial(orthogonal, scale=1.5))),
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
