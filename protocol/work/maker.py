"""How clients of one protection are made: from what each knows and draws for itself, and of nothing of another's.

In a simulation all are made in one process, and have equal things once between them (`MadeOnce`).
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from ...crypto.agreement import KeyExchange, exchange_keys
from ...crypto.identity import SigningKey, Verify
from ..core.session import SERVER, Session
from ..drivers.roles import Effect, Event, Received, Role, Send
from ..view.answers import Memory
from ..view.protection import Setup
from ..wire.codec import Envelope, Kinds
from ..wire.messages import Declined
from .making import Making
from .opening import ModelOpener

if TYPE_CHECKING:
    from ..privacy.ledger import Ledger

T = TypeVar("T")
SECRET_BYTES = 32
WORK, SEED = "work", "seed"
"""Names of roles: of tasks and models, and of the exchange of the run's seed. Others are named where they are made."""
SKETCH, TRANSFORM = "sketch", "transform"
"""What clients draw for a session."""


@dataclass(frozen=True, slots=True)
class MadeOnce:
    """What clients of one process have once between them: equal things that each would open, make, draw or check by itself.

    draws: what each draws for a session, by its digest.
    """

    verify: Verify
    exchange: KeyExchange = field(default=exchange_keys, repr=False)
    opening: ModelOpener = field(default_factory=ModelOpener)
    making: Making = field(default_factory=Making)
    draws: dict[str, Callable[[bytes], object]] = field(default_factory=dict, repr=False)
    _drawn: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    def once(self, of: Hashable, make: Callable[[], T]) -> T:
        """What follows from `of`, which says all of it."""
        if of not in self._drawn:
            self._drawn[of] = make()
        found: T = self._drawn[of]
        return found


@dataclass(frozen=True, slots=True)
class Mine:
    """What one client knows when its roles are made. setup: of the run, with its own entropy. identities: its own, by what it
    signs for. enrolled: everybody's public ones, by the same. seed: that the clients agreed on; empty where they share none.
    """

    id: int
    setup: Setup
    shared: MadeOnce
    identities: Mapping[str, SigningKey] = field(repr=False)
    enrolled: Mapping[str, Mapping[int, bytes]] = field(default_factory=dict, repr=False)
    seed: bytes = field(default=b"", repr=False)


class Joining(Role, Protocol):
    """A role of an exchange that comes before all others, at whose end the client holds a seed, or none."""

    @property
    def session(self) -> bytes:
        """The exchange, by its digest."""
        ...

    @property
    def seed(self) -> bytes: ...

    @property
    def left_out(self) -> tuple[tuple[int, str], ...]:
        """Whom it left out, and why."""
        ...

    def hello(self) -> tuple[Effect, ...]:
        """What it says first."""
        ...


@runtime_checkable
class Keeps(Protocol):
    """A role that keeps something between rounds."""

    def save(self) -> Memory:
        """What it keeps, of its own."""
        ...

    def restore(self, memory: Memory, /) -> None:
        """Go on from that, or from what all roles of the client keep."""
        ...


@runtime_checkable
class Spends(Protocol):
    """A role that releases something with noise."""

    @property
    def ledger(self) -> "Ledger | None":
        """Of what it released, None before it did."""
        ...


@dataclass(frozen=True, slots=True)
class Exchange:
    """In which clients agree on the run's seed. session: it. label: by what an identity in it is drawn. kinds: of messages."""

    session: Callable[[Setup], Session]
    label: Callable[[Session, int], str]
    joining: Callable[[Mine, Session], Joining]
    kinds: Kinds


def signs_nothing(setup: Setup, client: int) -> Mapping[str, str]:
    """See `Maker`."""
    return {}


@dataclass(frozen=True, slots=True)
class Maker:
    """How clients of one protection are made. It goes to their processes: its functions are at the top of a module, or partial.

    made: a client's roles in the run, by name; `WORK` is among them. kinds: of messages that they take, by the same names, beside
    those of work. signs: what a client signs for, and by what label the identity of each use is drawn, beside that of `exchange`.
    """

    made: Callable[[Mine], Mapping[str, Role]]
    kinds: Mapping[str, Kinds] = field(default_factory=dict)
    signs: Callable[[Setup, int], Mapping[str, str]] = signs_nothing
    exchange: Exchange | None = None

    @property
    def messages(self) -> Mapping[str, Kinds]:
        """What messages its roles take, by their names; those of `WORK` are not there."""
        return self.kinds if self.exchange is None else {SEED: self.exchange.kinds, **self.kinds}

    def identities(self, setup: Setup, client: int) -> Mapping[str, str]:
        """What a client signs for, and by what label the identity of each use is drawn."""
        in_exchange = {} if self.exchange is None else {SEED: self.exchange.label(self.exchange.session(setup), client)}
        return {**in_exchange, **self.signs(setup, client)}


class Unseated:
    """A client that lacks the seed of the run, and takes part in nothing, also in no other exchange."""

    seed, left_out = b"", ()

    def __init__(self, id: int) -> None:
        self.id = id

    def hello(self) -> tuple[Effect, ...]:
        """Nothing."""
        return ()

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """It says so."""
        if not isinstance(event, Received) or event.envelope.sender != SERVER:
            return ()
        return (Send(Envelope(event.envelope.session, self.id, SERVER, Declined("it lacks the seed of the run"))),)
