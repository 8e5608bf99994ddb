"""Clients behind a link, the coordinator's half: it hands out frames and hears of all clients at once. A client's is `said`.

The coordinator is told nothing that is not a message of the protocol.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from ..core.errors import OF_ITSELF
from ..core.session import DEALER, SECOND_SERVER, SERVER
from ..drivers.roles import Deadline, Effect, Event, Learned, Refusal
from ..view.answers import Memory, Vector
from ..wire.codec import Buffer, encoding_of, first_items, plain_in
from ..wire.fields import DIGEST_BYTES
from ..wire.messages import MESSAGES
from ..wire.recipes import MESSAGES as RECIPES
from ..wire.scores import MESSAGES as SCORES
from .far import Far, RoleElsewhere, followed_in
from .maker import WORK, Maker
from .uploads import to_bytes

MOST_ITEMS = 4096
"""Of a list in an answer."""
MOST_REFUSED = 16
"""Of the reasons in an answer: a client that refuses more is not heard on the rest."""
MOST_SUMS = 64
"""Of the sums that a client says it was sent: as many as there may be slots."""
MOST_TEXT = 1000
"""Characters of one."""
NO_ANSWER = "an answer that is none"


class Answer(Protocol):
    """What a client made of a word. data: None of a client that is absent. late: when nobody waited for it any more."""

    @property
    def client(self) -> int: ...
    @property
    def number(self) -> int: ...
    @property
    def data(self) -> Buffer | None: ...
    @property
    def late(self) -> bool: ...


class Words(Protocol):
    """A link to clients: links/listener.py, or whatever else carries words and answers."""

    def post(self, client: int, data: bytes, /) -> int:
        """Send a word; its number."""
        ...

    def heard(self) -> Any:
        """The next `Answer`, of whomever: every word has one."""
        ...

    def heard_already(self) -> Any:
        """One that is there, or None."""
        ...

    def done_with(self, answer: Any, /) -> None:
        """Its memory is free."""
        ...


class Linked:
    """Where the clients of a run are reached: a `Setup.hosts`. absent: how often each did not answer in time. late: how many
    answers came when nobody waited any more. without: who took no model at the end; None before it. stage: the word that was said
    last; of a frame, the message's name. enrolled: all clients' identities, by use and id, where a directory has them; None: each
    client is asked for its own.
    """

    def __init__(self, link: Words, clients: Sequence[int], enrolled: Mapping[str, Mapping[int, bytes]] | None = None) -> None:
        self.enrolled = enrolled
        self.absent: dict[int, int] = {}
        self.late = 0
        self.without: tuple[int, ...] | None = None
        self.stage = ""
        self._link = link
        self.clients = tuple(clients)
        self._open: set[tuple[int, int]] = set()
        self._kept: deque[Answer] = deque()
        self._refused: list[tuple[int, int, str]] = []
        self._kinds: dict[int, str] = {}
        self._unheard: dict[tuple[Any, ...], set[int]] = {}  # first words of exchanges that a client gave no answer to in time
        self._past: set[tuple[int, int]] = set()  # and of which it has said others since
        self._ahead: dict[tuple[int, bytes], int] = {}  # numbers of words that were sent before their answers are asked for
        self._alike = b""  # the last of them, of which all that are asked the same have one copy
        self._early: dict[tuple[int, int], Answer | None] = {}  # by client and number, answers to those that came before

    def __call__(self, maker: Maker) -> Mapping[int, "LinkedClient"]:
        """All of them, with the roles that such clients have."""
        names = (WORK, *maker.messages)
        for kinds in (MESSAGES, RECIPES, SCORES, *maker.messages.values()):
            self._kinds |= {number: kind.__name__ for number, kind in kinds.items()}
        return {i: LinkedClient(i, self, names) for i in self.clients}

    def helper(self, id: int) -> "LinkedHelper":
        """Another server, or a dealer: it is told frames and nothing else."""
        return LinkedHelper(id, self)

    def post(self, client: int, *words: Any) -> None:
        """Tell a client, and go on: what follows is `heard`."""
        self._post((client,), words)

    def ahead(self, client: int, *words: Any) -> None:
        """It is about to be asked this, as others are: they are told at once, and who does not answer is waited for with them."""
        data = b"".join(encoding_of(words))
        data = self._alike = self._alike if data == self._alike else data
        if (client, data) not in self._ahead:
            number = self._ahead[client, data] = self._link.post(client, data)
            self._early[client, number] = None

    def ask(self, client: int, *words: Any) -> Any:
        """The answer to these words; None of a client that is absent, or whose answer is none."""
        self.stage, data = self._name_of(*words), b"".join(encoding_of(words))
        number = self._ahead.pop((client, data), None)
        if number is None:
            number = self._link.post(client, data)
        answer: Answer | None = self._early.pop((client, number), None)
        while answer is None:
            heard: Answer = self._link.heard()
            if (heard.client, heard.number) == (client, number):
                answer = heard
            elif (heard.client, heard.number) in self._early:
                self._early[heard.client, heard.number] = heard
            else:
                self._kept.append(heard)
        if words[0] == "hello":
            self._greeted(client, number, words[1:], answer.data is not None)
        return self._plain(answer)

    def heard(self) -> Iterator[tuple[int, tuple[Effect, ...]]]:
        """What followed at clients from what they were told, as it comes, until each has answered or counts as absent."""
        refused, self._refused = self._refused, []
        yield from ((client, (Refusal(blame, reason),)) for client, blame, reason in refused)
        while self._open or self._kept:
            yield from self._effects(self._kept.popleft() if self._kept else self._link.heard())
        while (answer := self._link.heard_already()) is not None:
            yield from self._effects(answer)

    def finish(self, models: Mapping[int, Sequence[Vector | str]]) -> None:
        """The run is over: tell each client its models, by name where it holds them itself, and wait for them."""
        self.settle()
        before = dict(self.absent)
        alike: dict[tuple[int, ...], list[int]] = {}  # clients that are told the same, whose word is made once
        for client, several in models.items():
            alike.setdefault(tuple(map(id, several)), []).append(client)
        for clients in alike.values():
            of = (model if isinstance(model, str) else to_bytes(model) for model in models[clients[0]])
            self._post(clients, ("final", *of))
        for _ in self.heard():
            pass
        missed = {i for i in models if self.absent.get(i, 0) > before.get(i, 0)}
        self.without = tuple(i for i in self.clients if i not in models or i in missed)

    def settle(self) -> None:
        """Between rounds: wait until every word has its answer. Of what follows, only what clients refused is `heard` yet."""
        while self._open or self._kept:
            for client, effects in self._effects(self._kept.popleft() if self._kept else self._link.heard()):
                refused = [effect for effect in effects if isinstance(effect, Refusal)]
                self._refused += [(client, effect.blame, effect.reason) for effect in refused]

    def save(self) -> list[Any]:
        """What there is when it is settled, as plain values."""
        return [self.absent, self.late, self._refused]

    def restore(self, kept: Any) -> None:
        """Go on from that."""
        self.absent, self.late, self._refused = dict(kept[0]), kept[1], [tuple(entry) for entry in kept[2]]

    def _post(self, clients: Sequence[int], words: tuple[Any, ...]) -> None:
        self.stage, data = self._name_of(*words), b"".join(encoding_of(words))
        self._open.update((client, self._link.post(client, data)) for client in clients)

    def _greeted(self, client: int, number: int, name: tuple[Any, ...], answered: bool) -> None:
        """A client was asked for its first word in an exchange. With the key of an attempt before it has done when it draws
        another: that one is not heard any more, though it comes late.
        """
        if answered:
            self._past |= {(client, before) for before in self._unheard.pop((client, *name), ())}
        else:
            self._unheard.setdefault((client, *name), set()).add(number)

    def _name_of(self, what: str, *of: Any) -> str:
        """The word, or the name of the message in a frame."""
        try:
            return self._kinds[first_items(of[1], 5)[4]] if what == "frame" else what
        except (ValueError, LookupError):
            return what

    def _effects(self, answer: Answer) -> Iterator[tuple[int, tuple[Effect, ...]]]:
        self._open.discard((answer.client, answer.number))
        if (answer.client, answer.number) in self._early:
            self._early[answer.client, answer.number] = answer
            return
        self.late += answer.late
        if (answer.client, answer.number) in self._past:
            self._past.discard((answer.client, answer.number))
            self._link.done_with(answer)
            return
        if answer.data is None:
            self.absent[answer.client] = self.absent.get(answer.client, 0) + 1
            return
        client, late, plain = answer.client, answer.late, self._plain(answer)
        del answer  # its memory is not kept while what follows is looked at
        if well_formed(plain):
            yield client, _of_client(client, followed_in(plain), self.clients)
        elif not late:
            yield client, (Refusal(client, NO_ANSWER),)

    def _plain(self, answer: Answer) -> Any:
        try:
            return None if answer.data is None else plain_in(answer.data, lent=True)
        except ValueError:
            return None
        finally:
            self._link.done_with(answer)


class LinkedClient(Far):
    """A client behind a link. names: of the roles that it has."""

    def __init__(self, id: int, hosts: Linked, names: Sequence[str]) -> None:
        super().__init__(id)
        self.hosts = hosts
        self._names = tuple(names)

    @property
    def roles(self) -> Mapping[str, RoleElsewhere]:
        """By name."""
        return {name: LinkedRole(self, name) for name in self._names}

    @property
    def public(self) -> Mapping[str, bytes] | None:
        """See `InProcessClient`: as the directory has it, if there is one; else None where it is absent, or says what is none."""
        if (listed := self.hosts.enrolled) is not None:
            return {use: of[self.id] for use, of in listed.items()}
        found = self.ask("public")
        right = isinstance(found, dict) and len(found) < MOST_ITEMS
        if not right or not all(type(use) is str and type(key) is bytes for use, key in found.items()):
            return None
        return dict(found)

    def left_out(self, name: str = "seed") -> tuple[tuple[int, str], ...]:
        """See `InProcessClient`."""
        found = self.ask("left out", name)
        right = isinstance(found, list) and len(found) < MOST_ITEMS and all(_is(entry, int, str) for entry in found)
        effects = (Refusal(blame, reason[:MOST_TEXT]) for blame, reason in found) if right else ()
        return tuple(
            (effect.blame, effect.reason) for effect in map(partial(_its_own, self.id, clients=self.hosts.clients), effects)
        )

    def told(self, *words: Any) -> tuple[Effect, ...]:
        """See `Far`."""
        answer = self.ask(*words)
        return _of_client(self.id, followed_in(answer), self.hosts.clients) if well_formed(answer) else ()

    def ask(self, *words: Any) -> Any:
        """See `Far`."""
        return self.hosts.ask(self.id, *words)

    def ahead(self, *words: Any) -> None:
        """See `Far`."""
        self.hosts.ahead(self.id, *words)

    def holds(self, name: str) -> bool:
        """See `InProcessClient`."""
        return self.ask("holds", name) is True

    def begin(self) -> bool:
        """See `InProcessClient`."""
        return self.ask("begin") is True

    def train_alone(self, round: int, start: str, given: Vector | None, name: str) -> bool | None:
        """See `InProcessClient`: whether it has a model of that name then; None if it did not answer. What it made it tells
        nobody.
        """
        fit = self.ask("alone", round, start, None if given is None else to_bytes(given), name)
        return None if fit is None else fit is True

    def model(self, name: str) -> Vector | None:
        """Nobody's business."""
        return None

    @property
    def ledger(self) -> None:
        """Nobody's business."""
        return

    def save(self) -> Memory:
        """Nothing: it keeps what it keeps in its own journal."""
        return Memory()

    def restore(self, memory: Memory) -> None:
        """Nothing: it goes on from its own journal."""


@dataclass(frozen=True, slots=True)
class LinkedRole(RoleElsewhere):
    """A role of a client behind a link: what it does is `heard`."""

    client: LinkedClient

    def take(self, sender: int, data: bytes) -> tuple[Effect, ...]:
        """Hand it the bytes."""
        self.client.hosts.post(self.id, "frame", sender, data)
        return ()

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Only that time is up; anything else comes as bytes."""
        if not isinstance(event, Deadline):
            raise TypeError(f"a client elsewhere is told nothing by {type(event).__name__}")
        self.client.hosts.post(self.id, "deadline", self.name)
        return ()

    @property
    def heard(self) -> Callable[[], Iterator[tuple[int, tuple[Effect, ...]]]]:
        """What all clients of the link do."""
        return self.client.hosts.heard


@dataclass(frozen=True, slots=True)
class LinkedHelper:
    """Another server of the run, or a dealer, behind a link: what it does is `heard`, and it keeps its own time."""

    id: int
    hosts: Linked

    def take(self, sender: int, data: bytes) -> tuple[Effect, ...]:
        """Hand it the bytes."""
        self.hosts.post(self.id, "frame", sender, data)
        return ()

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Nothing: all that it is told comes as bytes."""
        return ()

    @property
    def heard(self) -> Callable[[], Iterator[tuple[int, tuple[Effect, ...]]]]:
        """See `LinkedRole`."""
        return self.hosts.heard


def well_formed(answer: Any) -> bool:
    """Whether it says what followed at a client: messages to the coordinator alone, names of sums, refusals."""
    if not (
        isinstance(answer, list) and len(answer) == 3 and all(isinstance(of, list) and len(of) <= MOST_ITEMS for of in answer)
    ):
        return False
    sent, learned, refused = answer
    return (
        all(_is_message(entry) and entry[0] == SERVER and len(entry[1]) <= 64 for entry in sent)
        and all(_is(entry, str, bytes) and len(entry[1]) == DIGEST_BYTES for entry in learned)
        and all(_is(entry, int, str) and len(entry[1]) <= MOST_TEXT for entry in refused)
    )


def _of_client(client: int, effects: Iterable[Effect], clients: Collection[int]) -> tuple[Effect, ...]:
    """What followed at one of the clients, with no more refusals and sums than count, and none of what another alone can say of
    itself. Of another server, to which none is sent, one sum is enough to be told.
    """
    found: list[Effect] = []
    refused = learned = 0
    for effect in effects:
        if isinstance(effect, Refusal):
            refused += 1
            if refused > MOST_REFUSED:
                continue
            effect = _its_own(client, effect, clients)
        elif isinstance(effect, Learned):
            learned += 1
            if learned > (1 if client in (SECOND_SERVER, DEALER) else MOST_SUMS):
                continue
        found.append(effect)
    return tuple(found)


def _its_own(client: int, refusal: Refusal, clients: Collection[int]) -> Refusal:
    """What one of the clients refused; where it says of another what that alone can say, or blames nobody who is there, that it
    does.
    """
    if refusal.blame not in (*clients, SERVER, SECOND_SERVER, DEALER):
        return Refusal(client, "it blames somebody who is no party")
    if refusal.blame == client or not any(words in refusal.reason for words in OF_ITSELF):
        return refusal
    return Refusal(client, f"it says of party {refusal.blame} what that alone can say")


def _is_message(entry: Any) -> bool:
    """Whether it is a receiver, a kind and a frame, of which a long one is a view."""
    return _is(entry, int, str, bytes) or _is(entry, int, str, memoryview)


def _is(entry: Any, *kinds: type) -> bool:
    """Whether it is a list of values of exactly these types."""
    return type(entry) is list and tuple(map(type, entry)) == kinds
