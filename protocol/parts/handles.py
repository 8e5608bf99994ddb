"""What the server knows of models and means that clients hold: their names, and who holds them as far as it was told.

A model goes to whoever is to work from it: by the server's recipe where a client holds what it is made of, else from a client
that holds it, sealed for all that share the clients' secret. Where the server owns public models, clients hold only their own.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..core.errors import NobodyAnswered, Refused
from ..core.session import SERVER, Session
from ..drivers.in_process import no_work
from ..drivers.roles import Effect, Party, Send
from ..view.answers import Vector
from ..wire.codec import Envelope
from ..wire.messages import HEAD_BYTES
from ..wire.recipes import Lend, Lent, Recipe, RoundOver
from ..work.owned import starts_of
from ..work.recipes import PROTOCOL, Moved, Moving, server_step
from ..work.uploads import to_bytes
from .run import Run

TRIES = 3
"""To have at least one client do what it is told."""
HANDED = "a model that these clients moved, and it did not hold"


@dataclass(frozen=True, slots=True)
class Lesson:
    """A mean that clients were sent. key: what they hold it by. clients: who."""

    key: str
    clients: frozenset[int]


class Handles:
    """known: of models, by name, who said that they hold them. told: by name, who was told to make or to hold them besides and
    did not say so, as its word may be lost. owners: of models that one client alone holds, that client. means: of this round,
    which is `round`. given: models that tasks named. vain: of whom others were to have a model and did not, who is asked last.

    serving: the server's own models, which it hands out itself; None where clients own them.
    """

    def __init__(self, run: Run, serving: Mapping[str, Vector] | None) -> None:
        self.known: dict[str, set[int]] = {}
        if serving is None:
            self.known |= {name: set(run.setup.clients) for name in starts_of(run.setup)}
        self.told: dict[str, set[int]] = {}
        self.vain: list[int] = []
        self.owners: dict[str, int] = {}
        self.means: dict[str, Lesson] = {}
        self.round = 0
        self._run = run
        self._serving = serving
        self._plays = 0
        self.given: set[str] = set()
        self._met: set[int] = set()  # clients that had to do with the round

    @property
    def alone(self) -> Mapping[str, int]:
        """Models that clients trained by themselves, of which nobody was told anything, and whose they are."""
        return {name: i for name, i in self.owners.items() if name not in self.known}

    def begin(self, round: int, clients: Iterable[int] = ()) -> None:
        """What follows is of this round, in which these clients work."""
        self._met.update(clients)
        if round != self.round:
            self.round, self._plays = round, 0

    @property
    def at(self) -> tuple[int, int]:
        """The round, and how often clients were told to move models since it began: some are told before the next one begins."""
        return self.round, self._plays

    def restart(
        self,
        known: Mapping[str, Iterable[int]],
        owners: Mapping[str, int],
        at: tuple[int, int],
        given: Iterable[str],
        told: Mapping[str, Iterable[int]],
        vain: Iterable[int],
    ) -> None:
        """Go on from what was kept between two rounds, all of it: what is said then is as in the life before."""
        self.known = {name: set(clients) for name, clients in known.items()}
        self.told, self.vain = {name: set(clients) for name, clients in told.items()}, list(vain)
        self.owners = dict(owners)
        self.round, self._plays = at
        self.given = set(given)
        self._met.clear()

    def make(self, recipe: Recipe, among: Collection[int], owner: int | None = None) -> None:
        """Have clients make a model and hold it: those of `among` that hold all that it is made of, or may; at least one is
        handed that.

        owner: who alone holds it, if one does. Raises Refused where nobody holds what it is made of, NobodyAnswered where nobody
        says that it made it.
        """
        if not among:
            raise Refused(f"nobody holds what {recipe.name} is made of; keep the handles of models that are still needed")
        able = [i for i in sorted(among) if self._lacked(recipe.models, i) == ()]
        if owner is not None:
            self.owners[recipe.name] = owner
        made = self.known[recipe.name] = self._told(dict.fromkeys(able, recipe)) if able else set()
        again = [] if self._serving is None else sorted(set(able) - made)
        if not (made or again):
            least = min(sorted(among), key=lambda i: len(self._lacked(recipe.models, i, surely=True)))
            again = [least] if self._lacked(recipe.models, least, surely=True) else []
        if again:  # whom the server has not sent its models this round, or who lacks least
            self.hand_out(dict.fromkeys(recipe.models, again))
            made |= self._told(dict.fromkeys(again, recipe))
        self.told[recipe.name] = {*able, *again} - made
        if not made:
            del self.known[recipe.name], self.told[recipe.name]
            self.owners.pop(recipe.name, None)
            raise NobodyAnswered(f"no client says that it made {recipe.name}; move the model again, or go on from the one before")

    def hand_out(self, wanted: Mapping[str, Iterable[int]]) -> None:
        """See to it that these clients hold these models, as far as anybody does."""
        missing = {name: set(clients) - self.known.get(name, set()) for name, clients in wanted.items()}
        before: dict[str, set[int]] = {name: set() for name in missing}  # who was asked for it
        while missing := {name: clients for name, clients in missing.items() if clients}:
            self._run.network.allow(4 * len(self._run.setup.initial) + 1024 + HEAD_BYTES)
            asked = {name: lender for name in missing if (lender := self._lender(name, before[name])) is not None}
            lent = self._lent(missing, asked)
            for name, word in lent.items():
                clients = sorted(missing[name])
                held = self._told(dict.fromkeys(clients, word))
                if self._serving is None or name not in self._serving:
                    about, d = tuple(sorted(self.known[name])), len(self._run.setup.initial)
                    for i in clients:
                        self._run.record.disclose(self.round, "clients", "models", about, d, HANDED, i)
                    self.known[name] |= held
                    self.told.setdefault(name, set()).update(clients)
                    missing[name] = missing[name] - held
            for name, lender in asked.items():
                before[name].add(lender)
                if name not in lent or missing[name]:
                    self.vain = [*(i for i in self.vain if i != lender), lender]
            missing = {name: missing[name] for name in asked if name not in lent}

    def hand_out_after(self, wanted: Mapping[str, Iterable[int]]) -> None:
        """The same when the round is over, of which nobody has to be told again that it is."""
        met = set(self._met)
        self.hand_out(wanted)
        self._met = met

    def taught(self, name: str, key: str, clients: Iterable[int]) -> None:
        """These clients were sent a mean, which they hold by this key."""
        self.means[name] = Lesson(key, frozenset(clients))

    def over(self, models: set[str]) -> None:
        """Tell everybody that had something to do with it that the round is over, and which models stay."""
        for name, i in self.alone.items():
            if name not in models:
                self._run.clients.all[i].drop(name)
        gone, own = self.known.keys() - models, {*self.owners.values()}
        told = sorted(self._met.union(*(self._may_hold(name) for name in gone)))
        self.known = {name: clients for name, clients in self.known.items() if name in models}
        self.told = {name: rest for name, clients in self.told.items() if (rest := clients - self.known.get(name, clients))}
        self.owners = {name: i for name, i in self.owners.items() if name in models}
        self.means.clear()
        self.given &= models
        served = [name for name in self._serving or () if name in self.given]
        kept = {i: served.copy() if i in own else [] for i in told}  # who has its own will move it from these
        for name, clients in ({n: self._may_hold(n) for n in self.known} | {n: {i} for n, i in self.alone.items()}).items():
            for i in clients & kept.keys():
                kept[i].append(name)
        if told:
            words = {names: RoundOver(names) for names in {tuple(kept[i]) for i in told}}  # one for all who keep the same
            self._play([(i, words[tuple(kept[i])]) for i in told])
        self._met.clear()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _may_hold(self, name: str) -> set[int]:
        """Who said that it holds this model, or was told to."""
        return self.known.get(name, set()) | self.told.get(name, set())

    def _lacked(self, names: Iterable[str], client: int, *, surely: bool = False) -> tuple[str, ...]:
        """Which of these a client cannot hold; the server's own are no matter. surely: and which it is not known to hold."""
        serving = self._serving or {}
        held = (lambda n: self.known.get(n, set())) if surely else self._may_hold
        return tuple(n for n in names if n not in serving and client not in (held(n) or (self.owners.get(n),)))

    def _told(self, words: Mapping[int, Recipe | Lent]) -> set[int]:
        """Who of those that were told this word says that it holds the model. It is told again where none does, and a recipe
        where fewer do than a sum has, of whom all may be gone by the next round.
        """
        held: set[int] = set()
        for _ in range(TRIES):
            ended = self._play([(i, word) for i, word in words.items() if i not in held])
            held |= {i for i, word in words.items() if word.name in ended.holding.get(i, ())}
            least = min(self._run.gate.rules.least, len(words)) if all(isinstance(w, Recipe) for w in words.values()) else 1
            if len(held) >= least:
                break
        return held

    def _lender(self, name: str, before: Collection[int]) -> int | None:
        """Whom to ask for this model: first who said that it holds it, and of these who was not asked in vain, or longest ago."""
        if name in (self._serving or {}):
            return None
        may = self._may_hold(name) - set(before)
        place = {i: k for k, i in enumerate(self.vain, 1)}
        return min(may, key=lambda i: (i not in self.known[name], place.get(i, 0), i), default=None)

    def _lent(self, missing: Iterable[str], asked: Mapping[str, int]) -> Mapping[str, Lent]:
        """These models, from who is asked for them, as far as it lends them."""
        serving = self._serving or {}
        found = {n: Lent(n, SERVER, b"", to_bytes(serving[n])) for n in missing if n in serving}
        return {**found, **(self._play([(i, Lend(name)) for name, i in asked.items()], asked).lent if asked else {})}

    def _play(
        self, words: Sequence[tuple[int, Recipe | Lend | Lent | RoundOver]], asked: Mapping[str, int] | None = None
    ) -> Moved:
        """Tell each client its word, and hear to the deadline."""
        run = self._run
        self._plays += 1
        roster = tuple(sorted({i for i, _ in words}))
        self._met.update(roster)
        session = Session(PROTOCOL, run.setup.run, self.round, f"{self._plays}", roster, 1)
        server, digest = Party(SERVER, Moving(session, asked or {}), server_step), session.digest

        def opening() -> Iterator[tuple[int, Effect]]:
            yield from ((SERVER, Send(Envelope(digest, SERVER, i, word))) for i, word in words)

        run.network.run(run.clients.parties, {digest: server}, opening(), no_work, run.learn)
        ended: Moved = server.state
        return ended
