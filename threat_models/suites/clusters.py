"""Attacks on defences that group clients, remember them, ask them which model serves them, or compare their embeddings."""

from collections.abc import Callable
from typing import Any

from ...fl.runs.scenario import Scenario
from ..adversary import Adversary
from ..cluster_attacks import Bridge, CloakedCollusion, Hider, Tilted, VictimCapture
from ..cluster_timing import Fragmentation, last_impression, late_assignment, mimic_then_flip
from ..evaluation_attack import Attack, Informed
from ..forged_choices import Pretended, WorstModel
from ..forged_embeddings import Copied, ForgedEmbeddings, Undisguised
from ..knowledge import Level
from ..label_attacks import LabelFlip
from ..membership import Pool, Schedule
from ..simple_attacks import MinusGradient, Scaled

PULSE = 5
"""Rounds from one honest round of pulsing members to the next."""


def schedules() -> dict[str, Attack]:
    """When and how to attack who groups clients by their updates: before a grouping looks, after it, or unseen by it.

    A defence's first grouping is after its `rounds_before`, where it has that field, else after a quarter of the run. Pulses:
    honest in one round of five, which is the one that a defence would look at. The others are of this package
    (`cluster_attacks`, `cluster_timing`); FLIC's one-shot grouping (Espinoza Castellon et al. 2022) is what the sleepers are
    made for.
    """
    return {
        "mimic, then flip": _timed(lambda count, turn, rounds: mimic_then_flip(Pool(count), turn)),
        "last impression": _timed(lambda count, turn, rounds: last_impression(Pool(count), turn, min(3, turn))),
        "pulses": _timed(lambda count, turn, rounds: pulses(count, 2.9, turn, rounds)),
        "pulses x0.2": _timed(lambda count, turn, rounds: pulses(count, 0.2, turn, rounds)),
        "late": _timed(lambda count, turn, rounds: late_assignment(Pool(count), turn)),
        "hider": Hider(0.1),
        "hider x2.5": Hider(0.1, scale=2.5),
        "cloaked": CloakedCollusion(),
        "cloaked x2.5": CloakedCollusion(rho=2.5),
        "tilted": Tilted(angle=1.0),
        "nearly silent": Scaled(0.01),
        "bridge": Bridge(),
        "victim capture": _timed(
            lambda count, turn, rounds: Adversary(
                members=Pool(count), upload=VictimCapture(victim=None, turn=turn), knows=Level.OMNISCIENT
            )
        ),
        "fragmentation": Fragmentation(scale=2),
    }


def choices() -> dict[str, Attack]:
    """Forged votes: for the worst model, by members who else are honest or attack too, or as if their labels were flipped."""
    return {
        "worst vote": lambda count: Adversary(members=Pool(int(count)), choice=WorstModel()),
        "worst vote, minus gradient": lambda count: Adversary(
            members=Pool(int(count)), choice=WorstModel(), upload=MinusGradient()
        ),
        "pretended vote": lambda count: Adversary(members=Pool(int(count)), choice=Pretended(LabelFlip())),
        "late, worst vote": _timed(lambda count, turn, rounds: late_assignment(Pool(count), turn, choice=WorstModel())),
    }


def embeddings() -> dict[str, Attack]:
    """Forged embeddings (`forged_embeddings`), for EMD-CFL: a colluder's data, or a lie in the reference distance alone, by
    members who then send minus their gradients.
    """

    def forging(pose: Any, reference: Any) -> Callable[[float], ForgedEmbeddings]:
        def make(count: float) -> ForgedEmbeddings:
            members = Pool(int(count))
            inner = Adversary(members=members, upload=MinusGradient())
            return ForgedEmbeddings(members=members, pose=pose, reference=reference, inner=inner)

        return make

    return {"a colluder's embeddings": forging(Copied(0), "posed"), "largest reference": forging(Undisguised(), "largest")}


def pulses(count: int, strength: float, turn: int, rounds: int) -> Adversary:
    """Minus gradient, and honest in the round before every grouping: at `turn`, and every PULSE rounds before and after it."""
    honest = tuple((t, t + 1) for t in range((turn - 1) % PULSE, rounds, PULSE))
    return Adversary(members=Pool(count), upload=MinusGradient(strength), when=Schedule(pauses=honest))


def _timed(make: Callable[[int, int, int], Any]) -> Informed:
    """From the members' number, the round of the defence's first grouping and the rounds of the run."""

    def made(count: float, scenario: Scenario) -> Any:
        first = getattr(scenario.algorithm, "rounds_before", scenario.rounds // 4)
        return make(int(count), max(1, int(first)), scenario.rounds)

    return Informed(made)
