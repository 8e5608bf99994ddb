"""Backdoors, whose inputs are images."""

from collections.abc import Callable
from typing import Any

from ...fl.runs.scenario import Scenario
from ..a3fl import A3FL
from ..adversary import Adversary
from ..attack import DataAttack, LearnedPoison, TrainingAttack, UploadAttack
from ..backdoors import Backdoor, DistributedBackdoor, EdgeCase
from ..cerp import CerP, TunedTrigger
from ..chameleon import Chameleon
from ..evaluation_attack import Attack, Informed
from ..knowledge import Level
from ..membership import Pool, Schedule
from ..simple_attacks import Scaled
from ..training_attacks import ConstrainAndScale, Neurotoxin
from ..triggers import Blend, Parts, Patch

PATCH = Patch(row=0, column=0, height=3, width=3)
"""In the upper left corner, where most images have nothing."""
TARGET = 0


def backdoors() -> dict[str, Attack]:
    """Half of a member's examples are triggered, and labelled 0, until two thirds of the run: what is left then shows what lasts.

    Without adaptation: BadNets (Gu et al. 2017), blended (Chen et al. 2017), clean label, edge cases (Wang et al. 2020), DBA
    (Xie et al. 2020), model replacement (Bagdasaryan et al. 2020: updates times n / f). With: constrain and scale (Bagdasaryan
    et al. 2020), Neurotoxin (Zhang et al. 2022), Chameleon (Dai and Li 2023), A3FL (Zhang et al. 2023), whose trigger is
    learned, CerP (Lyu et al. 2023), whose is tuned.
    """
    patch = Backdoor(PATCH, TARGET)
    rows = DistributedBackdoor(Parts(tuple(Patch(row, 0, 1, 3) for row in range(3))), TARGET)
    learned = A3FL(0, 0, 3, 3, target=TARGET, share=0.5, epochs=10, alpha=0.05, lambda0=0.1, adversarial_epochs=2, every=5)
    tuned = TunedTrigger()
    return {
        "BadNets": poisoning(patch),
        "BadNets x3": poisoning(patch, upload=lambda count, n: Scaled(3)),
        "model replacement": poisoning(patch, upload=lambda count, n: Scaled(n / max(1.0, count))),
        "blended": poisoning(Backdoor(Blend(), TARGET)),
        "clean label": poisoning(Backdoor(PATCH, TARGET, share=1.0, clean_label=True)),
        "edge case": poisoning(EdgeCase(TARGET)),
        "DBA": poisoning(rows),
        "constrain and scale": poisoning(patch, ConstrainAndScale(scale=3.0)),
        "Neurotoxin": poisoning(patch, Neurotoxin()),
        "Chameleon": poisoning(patch, Chameleon(TARGET, encoder_lr=0.02)),
        "A3FL": poisoning(learned, knows=Level.COLLUDING),
        "CerP": poisoning(tuned, upload=lambda count, n: CerP(tuned), knows=Level.COLLUDING),
    }


def poisoning(
    data: DataAttack | LearnedPoison,
    local: TrainingAttack | None = None,
    upload: Callable[[float, int], UploadAttack] | None = None,
    knows: Level = Level.OWN,
) -> Informed:
    """The poison by as many members as the strength says, in the first two thirds of the run. upload: from the members' number
    and that of all clients.
    """

    def make(count: float, scenario: Scenario) -> Adversary:
        partition: Any = scenario.partition
        sent = None if upload is None else upload(count, int(getattr(partition, "clients", 1)))
        until = Schedule(stop=max(1, 2 * scenario.rounds // 3))
        return Adversary(members=Pool(count), data=data, local=local, upload=sent, knows=knows, when=until)  # type: ignore[arg-type]

    return Informed(make)
