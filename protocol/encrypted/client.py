"""The client of the encrypted sum and scores: it encrypts, it makes keys, and it opens what it is asked to open.

Spec: specs/encrypted.md. What it opens: client_opening.py. Phases: IdleEncryptor -> OwingSummand -> IdleEncryptor and
IdleEncryptor -> Sketching -> IdleEncryptor, by its input or the deadline; keys, sums and scores are opened in IdleEncryptor. Each
kind of answer is stored as spent, per session, before it is given, so a client that restarts answers nothing twice. The
encryption library draws its own randomness: a step is a function of its arguments up to that.
"""

from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from ...crypto.ckks_secret import SecretContext
from ..core.errors import ProtocolError
from ..core.session import SERVER, Session
from ..drivers.roles import Deadline, Effect, Event, Perform, Received, Send, Worked
from ..wire.codec import Envelope
from ..wire.messages import Task
from .client_opening import open_counts, open_scores, open_slots, open_sum
from .client_phases import SKETCH, SUM, IdleEncryptor, Invitation, OwingSummand, Sketching, joined, old, weighting_of
from .keys import PROTOCOL as KEY
from .keys import KeyName, Purpose, checked_key, offer
from .messages import (
    EncryptedInput,
    EncryptedSum,
    EncryptedSumRequest,
    KeyRequest,
    OpenSlots,
    ScoreRequest,
    SketchRequest,
)
from .scaling import carrying
from .slots import PROTOCOL as SLOTS


def client_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The client's role. Raises ProtocolError for what is against its policy, out of order, or not what it should be.

    Raises ValueError for work that cannot be encrypted: `unsummable` and `unsketchable` tell beforehand.
    """
    match state, event:
        case _, Received(Envelope(sender=sender)) if sender != SERVER:
            raise ProtocolError("a message that is not the server's", sender)
        case _, Received(Envelope(message=asked)) if isinstance(asked, Invitation) and old(state, asked):
            return state, ()
        case IdleEncryptor(), Received(Envelope(message=KeyRequest() as request, session=digest)):
            return _make_key(state, digest, request)
        case IdleEncryptor(), Received(Envelope(message=EncryptedSumRequest() as request, session=digest)):
            return _begin_sum(state, digest, request)
        case IdleEncryptor(), Received(Envelope(message=SketchRequest() as request, session=digest)):
            return _begin_sketch(state, digest, request)
        case IdleEncryptor(), Received(Envelope(message=EncryptedSum() as total, session=digest)):
            return open_counts(state, digest, total) if total.protocol == SLOTS else open_sum(state, digest, total)
        case IdleEncryptor(), Received(Envelope(message=OpenSlots() as sums, session=digest)):
            return open_slots(state, digest, sums)
        case IdleEncryptor(), Received(Envelope(message=ScoreRequest() as request, session=digest)):
            return open_scores(state, digest, request)
        case OwingSummand(), Worked(vector=vector, samples=samples):
            slots = state.session.protocol == SLOTS  # they come as they are encrypted
            summand = vector if slots else state.weighting.summand(state.idle.me, vector, samples)
            return state.idle, (_send(state, EncryptedInput(state.key.encrypt(summand).to_bytes())),)
        case Sketching(), Worked(vector=vector):
            sketch = state.key.encrypt(sketch_of(state.idle, state.session.digest, vector))
            return state.idle, (_send(state, EncryptedInput(sketch.to_bytes())),)
        case ((OwingSummand() | Sketching()), Deadline()):
            return state.idle, ()
        case IdleEncryptor(), Deadline():
            return state, ()
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def sketch_of(idle: IdleEncryptor, session: bytes, vector: NDArray[np.float32]) -> NDArray[np.float64]:
    """What a client encrypts in the session with this digest: float64, shape (k,)."""
    return carrying(idle.sketch(session).apply(vector), float(np.linalg.norm(vector.astype(np.float64))))


def _send(state: OwingSummand | Sketching, message: EncryptedInput) -> Send:
    return Send(Envelope(state.session.digest, state.idle.me, SERVER, message))


def _task(session: Session) -> Task:
    return Task(*session.fields, session.protocol, (session.cluster,), b"")


def _make_key(state: IdleEncryptor, digest: bytes, request: KeyRequest) -> tuple[IdleEncryptor, tuple[Effect, ...]]:
    named = {f"{KEY}/{purpose}": purpose for purpose in get_args(Purpose)}
    purpose: Purpose = named.get(request.protocol, "sums")
    idle, session, spent = joined(state, digest, request, KEY)
    if session.protocol != f"{KEY}/{purpose}":
        raise ProtocolError("a key for an unknown purpose", SERVER)
    name = KeyName(session.run, purpose, session.round, session.cluster)
    offered = offer(state.seed, name, state.me, SecretContext.generate(name.parameters))
    return idle, (spent, Send(Envelope(digest, state.me, SERVER, offered)))


def _begin_sum(state: IdleEncryptor, digest: bytes, request: EncryptedSumRequest) -> tuple[OwingSummand, tuple[Effect, ...]]:
    idle, session, spent = joined(state, digest, request, SUM)
    if request.length != state.length_of(session):
        raise ProtocolError(f"a sum of {request.length} coordinates where {state.length_of(session)} belong", SERVER)
    weighting = weighting_of(state.policy, request)
    key = checked_key(state.seed, state.key("sums", session), request)
    return OwingSummand(idle, session, key, weighting), (spent, Perform(_task(session)))


def _begin_sketch(state: IdleEncryptor, digest: bytes, request: SketchRequest) -> tuple[Sketching, tuple[Effect, ...]]:
    idle, session, spent = joined(state, digest, request, SKETCH)
    if request.length != state.sketch(digest).k:
        raise ProtocolError(f"a sketch of {request.length} coordinates is not the one agreed on", SERVER)
    key = checked_key(state.seed, state.key("products", session), request)
    return Sketching(idle, session, key), (spent, Perform(_task(session)))
