"""A client that is elsewhere, as whoever plays a run sees it: by words, and answers to them.

Words are lists of plain values, as CBOR: what the client is told (`Far.ask`), and what it answers (`answer`). A role of its is
handed frames as bytes; the client decodes them itself.
"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

from ..drivers.roles import Deadline, Effect, Event, Learned, Posted, Refusal
from ..view.answers import Memory, Vector
from .driving import Driven, entries_of, memory_in
from .maker import SEED
from .uploads import from_bytes, to_bytes

if TYPE_CHECKING:
    from ..privacy.ledger import Ledger


class Far:
    """A client elsewhere: an `InProcessClient` of which nothing can be looked at."""

    def __init__(self, id: int) -> None:
        self.id = id
        self._named: list[str] = []

    def ask(self, *words: Any) -> Any:
        """The answer to these words; None of a client that is gone."""
        raise NotImplementedError

    def ahead(self, *words: Any) -> None:
        """It is about to be asked this, as others are. Nothing of a client that answers at once."""

    @property
    def roles(self) -> Mapping[str, "RoleElsewhere"]:
        """By name, as far as they are made there; those of before, where its process is gone."""
        self._named = self.ask("roles") or self._named
        return {name: RoleElsewhere(self, name) for name in self._named}

    @property
    def public(self) -> Mapping[str, bytes] | None:
        """See `InProcessClient`. Raises RuntimeError where its process did not begin."""
        found: Mapping[str, bytes] | None = self.ask("public")
        if found is None:
            raise RuntimeError(f"the process of client {self.id} ended before it began; it says why on its own stderr")
        return found

    def enrol(self, enrolled: Mapping[str, Mapping[int, bytes]]) -> bool:
        """See `InProcessClient`."""
        return self.ask("enrol", {use: dict(of) for use, of in enrolled.items()}) is True

    def hello(self, name: str = SEED) -> tuple[Effect, ...]:
        """See `InProcessClient`."""
        return self.told("hello", name)

    def left_out(self, name: str = SEED) -> tuple[tuple[int, str], ...]:
        """See `InProcessClient`."""
        return tuple((blame, reason) for blame, reason in self.ask("left out", name) or ())

    def holds(self, name: str) -> bool:
        """See `InProcessClient`."""
        return bool(self.ask("holds", name))

    @property
    def ledger(self) -> "Ledger | None":
        """See `InProcessClient`: as plain JSON crosses the pipe."""
        if (plain := self.ask("ledger")) is None:
            return None
        from ..privacy.ledger import Ledger

        return Ledger.from_dict(plain)

    def begin(self) -> bool:
        """See `InProcessClient`."""
        return bool(self.ask("begin"))

    def model(self, name: str) -> Vector | None:
        """See `InProcessClient`."""
        found = self.ask("model", name)
        return None if found is None else from_bytes(found)

    def train_alone(self, round: int, start: str, given: Vector | None, name: str) -> bool | None:
        """See `InProcessClient`; None where its process is gone."""
        fit = self.ask("alone", round, start, None if given is None else to_bytes(given), name)
        return None if fit is None else bool(fit)

    def drop(self, name: str) -> None:
        """See `InProcessClient`."""
        self.ask("drop", name)

    def save(self) -> Memory:
        """See `InProcessClient`. Whoever plays a simulation has it then; a client that lives by itself keeps it to itself.

        Raises RuntimeError where its process is gone.
        """
        if (kept := self.ask("save")) is None:
            raise RuntimeError(f"the process of client {self.id} is gone, and with it what it kept; start it again first")
        return memory_in(kept)

    def restore(self, memory: Memory) -> None:
        """See `InProcessClient`."""
        reason = self.ask("restore", entries_of(memory))
        if reason:
            raise ValueError(reason)

    def told(self, *words: Any) -> tuple[Effect, ...]:
        """What follows from these words, or from what arrived; nothing of a client whose process is gone."""
        answer = self.ask(*words)
        return () if answer is None else followed_in(answer)


@dataclass(frozen=True, slots=True)
class RoleElsewhere:
    """One role of a client elsewhere: a `FarRole` of drivers/roles.py."""

    client: Far
    name: str

    @property
    def id(self) -> int:
        """The client's."""
        return self.client.id

    def take(self, sender: int, data: bytes) -> tuple[Effect, ...]:
        """What it does when these bytes arrive."""
        return self.client.told("frame", sender, data)

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Only that time is up; anything else comes as bytes."""
        if not isinstance(event, Deadline):
            raise TypeError(f"a client elsewhere is told nothing by {type(event).__name__}")
        return self.client.told("deadline", self.name)


def followed_in(answer: Any) -> tuple[Effect, ...]:
    """What followed from what a client was told, as effects."""
    sent, learned, refused = answer
    return (
        *(Posted(receiver, kind, data) for receiver, kind, data in sent),
        *(Learned(name, session, b"") for name, session in learned),
        *(Refusal(blame, reason) for blame, reason in refused),
    )


def answer(driven: Driven, what: str, *of: Any) -> Any:
    """In the client's process: to one word. Raises ValueError for an unknown one."""
    client = driven.client
    match what:
        case "frame":
            return astuple(driven.arrived(*of))
        case "deadline":
            return astuple(driven.time_is_up(*of))
        case "hello":
            return astuple(driven.hello(*of))
        case "public":
            if not client.roles:
                driven.met()
            return dict(client.public)
        case "enrol":
            driven.enrol(*of)
            return True
        case "left out":
            return list(client.left_out(*of))
        case "holds":
            return client.holds(*of)
        case "ledger":
            return None if client.ledger is None else client.ledger.as_dict()
        case "begin":
            if client.seated:
                return True
            holds = client.begin()
            driven.begun()
            return holds
        case "roles":
            return list(client.roles)
        case "save":
            return entries_of(client.save())
        case "restore":
            try:
                driven.restore(memory_in(*of))
            except ValueError as error:
                return str(error)
            return ""
        case "alone":
            round, start, given, name = of
            fit = client.train_alone(round, start, None if given is None else from_bytes(given), name)
            driven.keep()
            return fit
        case "drop":
            client.drop(*of)
            driven.keep()
            return True
        case "model":
            found = client.model(*of)
            return None if found is None else to_bytes(found)
    raise ValueError(f"unknown word {what!r}")
