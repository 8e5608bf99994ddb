"""Clients that upload their updates: their roles, and how they treat their work."""

from ..drivers.roles import Party
from ..view.answers import Vector
from ..view.protection import Setup
from ..view.work import LocalWork
from ..wire.messages import Task
from ..work.conduct import Conduct
from ..work.slot_work import misfit, packed
from ..work.uploads import Idle, Policy, SharedTransform, client_step, from_bytes


def roles_of(setup: Setup, transform: SharedTransform | None) -> list[Party]:
    """The clients' roles. transform: None where they keep their work."""
    return [Party(i, Idle(i, setup.run, Policy(), transform), client_step) for i in setup.clients]


def conduct_of(setup: Setup, transform: SharedTransform) -> Conduct:
    """Clients upload what they computed; they keep it where they may embed by it, or started from models of their own."""
    d = len(setup.initial)

    def unfit(task: Task, work: LocalWork) -> str | None:
        return misfit(work, len(task.models), d, task.most) if task.work == "slots" else None

    def put(task: Task, work: LocalWork) -> Vector:
        return packed(work) if task.work == "slots" else work.vector

    def opened(session: bytes, vector: bytes) -> Vector:
        return transform(session).invert(from_bytes(vector))

    return Conduct(unfit, put, lambda task: setup.embedders is not None or task.own != "", lambda task: None, opened)
