"""The adversary: some of the clients' computers in other hands, between an honest simulation and the protocol.

An adversary can change a member's data before it trains, its training, what it uploads, and which model it chooses. Each attack
is handed the knowledge that its level allows (`knowledge.py`, `offers.py`) and nothing else. Everything is a function of the
run's seed, the round and what `save` returns, so a resumed run goes on as an undisturbed one.
"""

from dataclasses import dataclass
from math import isfinite

from ..fl.clients.corruption import Computers
from ..fl.field_types import wrong_types
from ..fl.functions import brief, name_of
from .attack import ChoiceAttack, DataAttack, LearnedPoison, LoneAttack, TrainingAttack, UploadAttack
from .coalition import Coalition
from .functions import as_choice, as_poison, as_training, as_upload, misplaced
from .knowledge import Level, Randomness
from .membership import ALWAYS, NEVER, Members, Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Adversary:
    """Who is corrupt, what they do, when, and with what knowledge.

    members: who. data, local, upload: what happens to a member's data, training and upload, in this order; None for nothing.
    shown: what a two-faced member sketches where the protocol asks for a sketch; None for what it uploads.
    choice: which of the models that it is offered a member says serves it best; None for the truth.
    when: rounds of the attack; members are honest in others. silent: rounds in which members do not answer at all.
    knows: the level, at least what the attacks on uploads and choices need, and Level.COLLUDING where the poison is learned.
    rule: what an insider knows of the server.
    samples: factor on the reported number of examples, 1 for the truth. randomness: of each member, or shared by all.
    Attacks may be plain functions (`functions.py`), which know what `knows` allows.
    """

    members: Members
    data: DataAttack | LearnedPoison | None = None
    local: TrainingAttack | None = None
    upload: UploadAttack | None = None
    shown: LoneAttack | None = None
    choice: ChoiceAttack | None = None
    when: Schedule = ALWAYS
    silent: Schedule = NEVER
    knows: Level = Level.OWN
    rule: object = None
    samples: float = 1.0
    randomness: Randomness = "member"

    def __post_init__(self) -> None:
        if isinstance(self.members, str | int | float) or not hasattr(self.members, "everyone"):
            raise ValueError(f"members are {brief(self.members)}; say who they are, for example members=Pool(6)")
        for field in ("data", "local", "upload", "shown", "choice"):
            if wrong := misplaced(getattr(self, field), field):
                raise ValueError(wrong)
        plain = {
            "upload": as_upload(self.upload, self.knows),
            "shown": as_upload(self.shown, Level.OWN),
            "choice": as_choice(self.choice, self.knows),
            "data": as_poison(self.data),
            "local": as_training(self.local),
        }
        for name, attack in plain.items():
            object.__setattr__(self, name, attack)
        for words in wrong_types(self, "adversary"):
            raise ValueError(words)
        for attack in (self.upload, self.choice):
            if attack is not None and attack.needs > self.knows:
                name = name_of(getattr(attack, "function", attack))
                raise ValueError(f"{name} needs level {attack.needs.name}; this adversary knows {self.knows.name}")
        if hasattr(self.data, "learn") and self.knows < Level.COLLUDING:
            name = type(self.data).__name__
            raise ValueError(f"{name} is learned by members together: give the adversary knows=Level.COLLUDING, or more")
        if self.knows == Level.INSIDER and self.rule is None:
            raise ValueError("an insider knows the rule; give the adversary one")
        if not (self.samples > 0 and isfinite(self.samples)):
            raise ValueError(f"samples is a finite factor above 0, not {self.samples}")
        if self.randomness not in ("member", "shared"):
            raise ValueError(f'randomness is "member" or "shared", not {self.randomness!r}')

    def corrupt(self, computers: Computers, /) -> Coalition:
        return Coalition(self, computers)
