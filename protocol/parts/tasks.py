"""Tasks: the server gives every participant of a cluster its work, and hears of it until the deadline."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ..core.errors import Refused
from ..core.session import SERVER, Session
from ..drivers.in_process import no_work
from ..drivers.roles import Effect, Party, Send
from ..view.answers import Assignment, Vector, Work
from ..wire.messages import HEAD_BYTES, Task
from ..work.upload_server import invite
from ..work.uploads import PROTOCOL, to_bytes
from .models import Models, check_own
from .run import Ids, Run


def session_of(run: Run, round: int, cluster: str, roster: Ids, kind: Work) -> Session:
    """The session of this work."""
    return Session(f"{PROTOCOL}/{kind}", run.setup.run, round, cluster, roster, 1)


def give(
    run: Run,
    models: Models,
    work: Mapping[str, Assignment],
    kind: Work,
    sessions: Mapping[str, Session],
    parties: Mapping[str, Party],
    *,
    later: bool = False,
    most: int = 0,
) -> None:
    """Invite the participants of every session, and play to the deadline. later, most: as in `Task`."""
    clients, handles = run.clients, models.handles
    for session in sessions.values():
        handles.begin(session.round, session.roster)
    for assignment in work.values():
        for model in assignment.models:
            models.check(model)
        theirs = handles.known.keys() | handles.owners.keys()
        check_own(assignment, kind, theirs | models.held.keys(), handles.owners)
        check_own(replace(assignment, own=assignment.toward), kind, theirs, handles.owners)
        if (assignment.own or assignment.toward) and not run.setup.starts_apart:
            raise Refused(
                "clients refuse models beside the public ones to work from; open the view with Setup(starts_apart=True)"
            )
        handles.given.update(model.name for model in assignment.models)
    if models.owner == "clients":
        handles.hand_out(holders_of(work, handles.owners))
    elif any(model.name in models.held for assignment in work.values() for model in assignment.own.values()):
        run.network.allow(8 * len(run.setup.initial) + 1024 + HEAD_BYTES)

    def opening() -> Iterator[tuple[int, Effect]]:
        for cluster, session in sessions.items():
            names = tuple(model.name for model in work[cluster].models)
            with run.timed():
                vectors = [to_bytes(models.held[n]) for n in names] if models.owner == "server" else []
                tasks = invite(session, kind, names, b"".join(vectors), later=later, most=most)
            yield from ((SERVER, _named(task, work[cluster], models.held)) for task in tasks)

    by_digest = {session.digest: parties[c] for c, session in sessions.items()}
    run.network.run(clients.parties, by_digest, opening(), no_work, run.learn)


def holders_of(work: Mapping[str, Assignment], owners: Mapping[str, int]) -> Mapping[str, set[int]]:
    """Who has to hold which public model, to do this work. owners: of models that one client alone holds."""
    wanted: dict[str, set[int]] = {}
    for assignment in work.values():
        for model in assignment.models:
            wanted.setdefault(model.name, set()).update(assignment.participants)
        for client, model in assignment.own.items():
            if model.name not in owners:
                wanted.setdefault(model.name, set()).add(client)
    return wanted


def _named(effect: Effect, work: Assignment, held: Mapping[str, Vector]) -> Effect:
    """The task for a client, with the model that it starts from instead, and the one it is pulled to, if there are any.

    held: the server's models; one of them to start from goes with the task.
    """
    if not isinstance(effect, Send) or not isinstance(task := effect.envelope.message, Task):
        return effect
    own, toward = work.own.get(effect.envelope.receiver), work.toward.get(effect.envelope.receiver)
    if own is None and toward is None:
        return effect
    models = task.models if toward is None else (*task.models, toward.name)
    name = "" if own is None else own.name
    sent = to_bytes(held[name]) if name in held and own != work.model else b""
    return Send(replace(effect.envelope, message=replace(task, own=name, models=models, vector=task.vector + sent)))
