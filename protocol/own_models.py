"""Models that are one client's own: how a task names the one that a client starts from. Only that client opens it."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from .core.errors import Refused
from .drivers.roles import Effect, Send
from .view.answers import Assignment, Model, Work
from .wire.messages import Task


def check(assignment: Assignment, kind: Work, held: Collection[str], owners: Mapping[str, int]) -> None:
    """Raises Refused for own models that these participants do not hold, or that this kind of work does not start from.

    The public model may stand for a client's own, as it does before the first round. owners: of models that one client holds.
    """
    if not assignment.own:
        return
    if kind != "update":
        raise Refused(f'work from models of their own is of the kind "update", not {kind!r}')
    if strangers := sorted(assignment.own.keys() - set(assignment.participants)):
        raise Refused(f"client {strangers[0]} has a model to start from and takes no part; leave it out of own")
    if gone := [m.name for m in assignment.own.values() if m.name not in held and m != assignment.model]:
        raise Refused(f"the model {gone[0]} is no client's own, or is gone; keep its handle when retiring")
    if lent := [(i, m.name) for i, m in assignment.own.items() if owners.get(m.name, i) != i]:
        raise Refused(f"client {lent[0][0]} cannot start from {lent[0][1]}, which is another client's own")


def named(effect: Effect, own: Mapping[int, Model]) -> Effect:
    """The task for a client, which names the model of its own that it starts from, too, if there is one."""
    if not isinstance(effect, Send) or not isinstance(task := effect.envelope.message, Task) or not own:
        return effect
    if (model := own.get(effect.envelope.receiver)) is None:
        return effect
    return Send(replace(effect.envelope, message=replace(task, own=model.name)))
