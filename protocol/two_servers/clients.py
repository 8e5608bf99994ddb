"""How clients are made that share their updates between two servers."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ..choosing.chooser import chooser_of
from ..choosing.messages import CHOICES
from ..choosing.messages import MESSAGES as CHOOSING
from ..drivers.roles import Party, Role
from ..view.work import LocalWork
from ..wire.messages import Task
from ..work.conduct import Conduct
from ..work.keeping import participant_of
from ..work.maker import WORK, Maker, Mine
from ..work.slot_work import misfit
from ..work.uploads import Policy
from .protection import TwoServer
from .slot_terms import SharedSlots
from .terms import ShareTerms
from .upload_client import IdleSharer, client_step


def sharing_clients(how: TwoServer) -> Maker:
    """how: the run's protection."""
    return Maker(partial(_roles, how), {CHOICES: CHOOSING})


def _roles(how: TwoServer, mine: Mine) -> Mapping[str, Role]:
    terms = how.terms(len(mine.setup.initial))
    setup, conduct = mine.setup, conduct_of(terms)
    role = Party(mine.id, IdleSharer(mine.id, setup.run, terms, Policy(min_cohort=1), setup.entropy), client_step)
    client = participant_of(mine, role, conduct)
    return {WORK: client, CHOICES: chooser_of(mine, client)}


def conduct_of(terms: ShareTerms) -> Conduct:
    """Clients share what they computed between the servers, and keep nothing."""

    def slots_of(task: Task) -> SharedSlots:
        return SharedSlots(len(task.models), terms.length, task.most, terms.max_norm, terms.rules.least)

    def unfit(task: Task, work: LocalWork) -> str | None:
        if task.work != "slots":
            return None  # the role withholds what is out of bounds
        return misfit(work, len(task.models), terms.length, task.most) or slots_of(task).beyond(work)

    def put(task: Task, work: LocalWork) -> Any:
        return slots_of(task).shared(work) if task.work == "slots" else work.vector

    return Conduct(unfit, put, lambda task: False, lambda task: None, uploads=True)
