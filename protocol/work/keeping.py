"""How a client's role of work is made: of any client, and of one that keeps its work and sends nothing of it until asked."""

import numpy as np

from ..drivers.roles import Party
from ..view.answers import Vector
from ..view.work import LocalWork
from ..wire.messages import Task
from .conduct import Conduct, Sketching, Unfit
from .lending import Lending
from .maker import Mine
from .owned import Owned, starts_of
from .participant import Participant
from .sketch_keys import SketchKeys
from .sketching import Sketcher
from .upload_client import IdleUploader, client_step
from .uploads import Policy


def participant_of(
    mine: Mine, role: Party, conduct: Conduct, lending: Lending | None = None, sketcher: Sketcher | None = None
) -> Participant:
    """A client of a run, at its beginning. lending: how clients hand each other models, where they own them."""
    owned = Owned(mine.id, starts_of(mine.setup), mine.shared.making, conduct.opened, lending)
    setup = mine.setup
    return Participant(role, conduct, mine.shared.opening, owned, sketcher, setup.starts_apart, setup.scorer, setup.works)


def keeping_client(
    mine: Mine, unfit: Unfit, sketch: Sketching, secret: SketchKeys | None, lending: Lending | None = None
) -> Participant:
    """A client. sketch: as in `Conduct`. secret: what it sketches with. lending: how clients hand each other models."""
    role = Party(mine.id, IdleUploader(mine.id, mine.setup.run, Policy(), None), client_step)
    conduct = Conduct(unfit, _nothing_sent, lambda task: True, sketch)
    sketcher = None if secret is None else Sketcher(secret, mine.setup.recalls)
    return participant_of(mine, role, conduct, lending, sketcher)


def _nothing_sent(task: Task, work: LocalWork) -> Vector:
    return np.zeros(0, np.float32)
