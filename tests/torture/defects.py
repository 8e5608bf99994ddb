"""Planted defects, one of each kind: what schedules must find if they are worth anything.

Each is a patch of the shipped code, or of the simulated link or disk where the promise is theirs.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import cbor2
import numpy as np

from cloister.protocol.core.session import SERVER
from cloister.protocol.drivers.in_process import InProcess
from cloister.protocol.drivers.roles import Deadline, Party, Persist, Received, Send, Worked
from cloister.protocol.encrypted import clients as encrypted_clients
from cloister.protocol.masked import client as masked_client
from cloister.protocol.masked import clients as masked_clients
from cloister.protocol.masked import masking, server_opening
from cloister.protocol.masked.client_phases import Idle, Masked, Signed
from cloister.protocol.masked.given import GivenUpdates
from cloister.protocol.masked.messages import MaskedInput, Reveal, Survivors, UnmaskRequest
from cloister.protocol.masked.server_phases import Agreeing
from cloister.protocol.messages import decode
from cloister.protocol.two_servers import clients as two_clients
from cloister.protocol.two_servers import upload_server as two_upload
from cloister.protocol.two_servers.messages import KeyShare
from cloister.protocol.wire.codec import encode
from cloister.protocol.work import driving, participant
from cloister.protocol.work.driving import BEGUN, Driven

from .disk import Disk
from .link import Link
from .schedule import KINDS, Schedule, drawn

Patch = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class Defect:
    """name: in words. protection: under which it is looked for. found: what the oracle says of it, a part of the line.

    within: seeds, from 0, of which one finds it. planted: puts it in. changed: fields of
    the schedules that are drawn.
    """

    name: str
    protection: str
    found: str
    within: int
    planted: Patch
    changed: Mapping[str, Any] = field(default_factory=dict)

    def schedules(self) -> Iterator[Schedule]:
        """Those that are to find it."""
        return (replace(drawn(seed, self.protection), **self.changed) for seed in range(self.within))


def _step(module: Any, name: str, around: Callable[[Any, Any, Any], Any]) -> Patch:
    """A step of a role, as this makes it of the shipped one, the state and the event."""
    shipped = getattr(module, name)
    return lambda: patch.object(module, name, lambda state, event: around(shipped, state, event))


def _of(event: Any, kind: type) -> bool:
    return isinstance(event, Received) and isinstance(event.envelope.message, kind)


# --- clients of masked sums ---------------------------------------------------------------------------------------------------


def _signs_again(step: Any, state: Any, event: Any) -> Any:
    """It signs whatever survivors it is shown."""
    if isinstance(state, Signed) and _of(event, Survivors):
        state = Masked(state.idle, state.plan, state.neighbours, state.held)
    return step(state, event)


def _answers_again(step: Any, state: Any, event: Any) -> Any:
    """It signs again, and after it handed out shares, hands out others."""
    after, effects = _signs_again(step, state, event)
    if isinstance(state, Signed) and _of(event, UnmaskRequest):
        return state, effects
    return after, effects


def _unchecked_survivors() -> ExitStack:
    """It takes any survivors: neither their number, nor what it signed before."""
    shipped = masked_client._sign

    def sign(state: Masked, alive: tuple[int, ...]) -> Any:
        session = replace(state.plan.session, threshold=1)
        signed, effects = shipped(replace(state, plan=_with_session(state.plan, session)), alive)
        return replace(signed, plan=state.plan), effects

    stack = ExitStack()
    stack.enter_context(patch.object(masked_client, "_sign", sign))
    stack.enter_context(patch.object(GivenUpdates, "signing", lambda self, plan, alive, rules: self))
    return stack


def _signs_as(step: Callable[[Any, Any, Any], Any]) -> Patch:
    """With this step, by a client that does not look at what it signed before."""

    def planted() -> ExitStack:
        stack = ExitStack()
        stack.enter_context(_step(masked_clients, "client_step", step)())
        stack.enter_context(patch.object(GivenUpdates, "signing", lambda self, plan, alive, rules: self))
        return stack

    return planted


def _with_session(plan: Any, session: Any) -> Any:
    """The plan under a weaker session, and the binding that it had."""
    return replace(plan, session=session)


def _forgets_what_it_signed() -> AbstractContextManager[object]:
    """It holds no sum against an earlier one of the same updates."""
    return patch.object(GivenUpdates, "signing", lambda self, plan, alive, rules: self)


def _ignores_deadlines(step: Any, state: Any, event: Any) -> Any:
    return (state, ()) if isinstance(event, Deadline) and not isinstance(state, Idle) else step(state, event)


def _both_shares(state: Signed, request: UnmaskRequest) -> Any:
    """It hands out the mask keys of all neighbours where it should hand out some of either kind."""
    everybody = tuple(sorted(state.held))
    reveal = Reveal((), (), everybody, tuple(state.held[i].key.encode() for i in everybody))
    found, effects = SHIPPED_REVEAL(state, request)
    first = next(effect for effect in effects if isinstance(effect, Send))
    return found, (*effects, Send(replace(first.envelope, message=reveal)))


SHIPPED_REVEAL = masked_client._reveal


def _gives_both_shares() -> AbstractContextManager[object]:
    return patch.object(masked_client, "_reveal", _both_shares)


# --- servers --------------------------------------------------------------------------------------------------------------------


def _counts_late(step: Any, state: Any, event: Any) -> Any:
    """Who is late is added, while others sign who is in the sum."""
    if isinstance(state, Agreeing) and _of(event, MaskedInput):
        vector = np.frombuffer(event.envelope.message.vector, state.plan.terms.wire)
        return replace(state, total=state.total + vector, alive=(*state.alive, event.envelope.sender)), ()
    return step(state, event)


def _leaves_masks_of_the_dropped() -> AbstractContextManager[object]:
    """The masks of who dropped out stay in the sum."""
    return patch.object(server_opening, "_needed", lambda plan, masks, alive: alive)


def _adds_twice(self: Any, event: Any) -> Any:
    """A duplicate is taken for another message, and an input for one of somebody who sent none."""
    if not isinstance(event, Received):
        self.state, effects = self._step(self.state, event)
        return effects
    self.state, effects = self._step(self.state, Received(event.envelope, event.mark))
    return effects


def _counts_twice() -> ExitStack:
    """A duplicate is taken twice, and counts twice."""
    stack = ExitStack()
    stack.enter_context(patch.object(Party, "handle", _adds_twice))
    stack.enter_context(patch.object(server_opening, "expect", lambda *_: None))
    return stack


def _any_binding() -> ExitStack:
    """The first server takes a share of any session for one of the session that is open."""
    stack = ExitStack()
    stack.enter_context(_takes_other_sessions())
    stack.enter_context(
        patch.object(two_upload, "_expect", lambda state, client, _: SHIPPED_EXPECT(state, client, state.binding))
    )
    return stack


SHIPPED_EXPECT = two_upload._expect


def _update_twice(step: Any, state: Any, event: Any) -> Any:
    """A client's update counts twice."""
    return step(state, replace(event, vector=2 * event.vector) if isinstance(event, Worked) else event)


def _keys_to_both(step: Any, state: Any, event: Any) -> Any:
    """A client sends its key to both servers."""
    after, effects = step(state, event)
    keys = (e for e in effects if isinstance(e, Send) and isinstance(e.envelope.message, KeyShare))
    return after, (*effects, *(Send(replace(key.envelope, receiver=SERVER)) for key in keys))


def _takes_other_sessions() -> AbstractContextManager[object]:
    """The server takes a message for one of the session that is open, whatever session it is of."""

    def deliver(self: InProcess, frame: Any, clients: Any, sessions: Any) -> Any:
        if frame.kind in (*KINDS, "ExplicitShare") and frame.receiver == SERVER and len(sessions) == 1:
            envelope = decode(frame.data, frame.sender, 1 << 26)
            frame = replace(frame, data=encode(replace(envelope, session=next(iter(sessions)))))
        return SHIPPED_DELIVER(self, frame, clients, sessions)

    return patch.object(InProcess, "_deliver", deliver)


SHIPPED_DELIVER = InProcess._deliver


# --- journals, drivers, links -----------------------------------------------------------------------------------------------


def _stores_nothing(self: Driven, *_: object) -> None:
    """What it takes part in is not in the journal."""


@contextmanager
def _lazy_disk() -> Iterator[None]:
    """What is stored is on the disk only after the answer has left."""
    shipped = Disk.__init__

    def lazy(self: Disk) -> None:
        shipped(self)
        self.lazy = True

    with patch.object(Disk, "__init__", lazy):
        yield


def _no_persist(self: Driven, role: Any, effects: Any, found: Any) -> None:
    SHIPPED_OBEY(self, role, [effect for effect in effects if not isinstance(effect, Persist)], found)


def _no_journal() -> ExitStack:
    """Neither what roles store nor which round it is in."""
    stack = ExitStack()
    stack.enter_context(patch.object(Driven, "_obey", _no_persist))
    stack.enter_context(patch.object(Driven, "_store", _stores_nothing))
    return stack


SHIPPED_OBEY = Driven._obey


def _forgets_identity(self: Driven) -> None:
    """Its journal lacks its identities: another life draws others."""
    SHIPPED_BEGUN(self)
    if (entry := self._journal.read().get(BEGUN)) is not None:
        of, _, enrolled, seed = cbor2.loads(entry)
        self._journal.put({BEGUN: cbor2.dumps([of, {}, enrolled, seed])})


SHIPPED_BEGUN = Driven.begun


def _takes_any_round() -> ExitStack:
    """A client that is started again goes on in the round that it was in."""
    stack = ExitStack()
    shipped = driving.memory_in
    stack.enter_context(patch.object(driving, "memory_in", lambda entries: replace(shipped(entries), since=0)))
    return stack


def _is_patient(self: Link, *of: Any) -> None:
    SHIPPED_LINK(self, *of)
    self.patient = True


SHIPPED_LINK = Link.__init__


LONG = {"rounds": 2, "calm": False}
DEFECTS = (
    Defect("signs a second survivor set", "masked", "signed 2 survivor sets", 10, _signs_as(_signs_again)),
    Defect("answers a second unmask request", "masked", "two different", 10, _signs_as(_answers_again)),
    Defect("does not check survivors", "masked", "fewer than the floor", 10, _unchecked_survivors),
    Defect("holds no sum against an earlier one", "masked", "can be opened", 300, _forgets_what_it_signed),
    Defect("client ignores deadlines", "masked", "calm round", 10, _step(masked_clients, "client_step", _ignores_deadlines)),
    Defect("takes messages of other sessions", "masked", "", 600, _takes_other_sessions, LONG),
    Defect("hands out shares of both kinds", "masked", "two different", 3, _gives_both_shares),
    Defect("server counts who is late", "masked", "", 200, _step(masking, "server_step", _counts_late)),
    Defect("server leaves masks of the dropped", "masked", "be read", 200, _leaves_masks_of_the_dropped),
    Defect("a duplicate is a fault", "masked", "is blamed", 60, lambda: patch.object(Party, "handle", _adds_twice)),
    Defect("a duplicate counts twice", "masked", "", 60, _counts_twice),
    Defect("journal written after sending", "masked", "before its crash", 600, _lazy_disk),
    Defect("nothing journalled", "masked", "before its crash", 40, _no_journal),
    Defect("round not spent by a crash", "masked", "before its crash", 40, _takes_any_round),
    Defect("identity not journalled", "masked", "is blamed", 20, lambda: patch.object(Driven, "begun", _forgets_identity)),
    Defect("waits for whoever is gone", "masked", "a hang", 20, lambda: patch.object(Link, "__init__", _is_patient)),
    Defect("stays in a sum that is over", "masked", "calm round", 60, lambda: patch.object(Driven, "_leave", lambda *_: None)),
    Defect("hears twice that a round is over", "masked", "calm round", 700, lambda: patch.object(participant, "SESSIONS", 0)),
    Defect("two servers: takes shares of other sessions", "two servers", "", 600, _any_binding, LONG),
    Defect("two servers: keys to both", "two servers", "wrong server", 3, _step(two_clients, "client_step", _keys_to_both)),
    Defect("two servers: nothing journalled", "two servers", "before its crash", 300, _no_journal),
    Defect("pairs: nothing journalled", "pairs", "before its crash", 600, _no_journal),
    Defect("encrypted: updates count twice", "encrypted", "off by", 5, _step(encrypted_clients, "client_step", _update_twice)),
)
"""All of them, each kind once."""
