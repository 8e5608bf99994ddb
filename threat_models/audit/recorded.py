"""A run that was played, kept whole: what every party saw of it and, apart from that, what is true."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...protocol.core.link import Frame
from ...protocol.core.session import SERVER
from ...protocol.masked.protection import Masked
from ...protocol.uploaded.plain import Plain
from ...protocol.view.answers import Owner, Vector
from .observer import SERVER_ALONE, Observer
from .shown_sums import Models, shown_sums
from .truth import Truth
from .view import Answered, Compared, CorruptView, Held, MaskKeys, Public, PublishedSum


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """Everything of one run, of which `seen_by` is one observer's share.

    owner: of public models. frames: all, as they were sent. arrived: by the place of a frame that did not come as it was
    sent, what came instead, if anything. starts: what clients started from, float32 (d,) by round and client. apart: those of
    them that the server never held, as clients made them. sums: with their means, whoever opened them. seeds: what clients
    share, by client; empty where they share none. meters: what the server could piece together after some rounds, each
    (rounds played, as a run's summary says it). released: the model that each client ended with, float32 (d,): what becomes
    known where models are given away. pair_keys, pair_seeds: by client, as in `Held`. ran_out: by client, the round in which
    its privacy budget first did not allow what was asked of it. privacy: by unit, what was spent, as
    `fl.runs.privacy.headline`; empty where nothing has noise. opened: keys of masks that the server was revealed. left_out:
    answers that a recording could not keep, in words.
    """

    public: Public
    owner: Owner
    frames: Sequence[Frame] = field(repr=False)
    starts: Mapping[tuple[int, int], Vector] = field(repr=False)
    sums: Sequence[PublishedSum] = field(repr=False)
    compared: Sequence[Compared] = field(repr=False)
    answered: Sequence[Answered] = field(repr=False)
    seeds: Mapping[int, bytes] = field(repr=False)
    truth: Truth = field(repr=False)
    meters: Sequence[tuple[int, Mapping[str, Any]]] = field(default=(), repr=False)
    released: Mapping[int, Vector] = field(default_factory=dict, repr=False)
    pair_keys: Mapping[int, Mapping[bytes, bytes]] = field(default_factory=dict, repr=False)
    pair_seeds: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    ran_out: Mapping[int, int] = field(default_factory=dict, repr=False)
    privacy: Mapping[str, Any] = field(default_factory=dict, repr=False)
    arrived: Mapping[int, tuple[Frame, ...]] = field(default_factory=dict, repr=False)
    apart: frozenset[tuple[int, int]] = field(default_factory=frozenset, repr=False)
    opened: MaskKeys = field(default_factory=dict, repr=False)
    left_out: tuple[str, ...] = ()

    def seen_by(self, observer: Observer) -> CorruptView:
        """That observer's view. Raises ValueError if the run has no such clients."""
        served = SERVER in observer.servers
        unknown = observer.clients - self.truth.population.clients.keys()
        if unknown:
            raise ValueError(f"no clients of the run: {sorted(unknown)}")
        frames = list(self._frames(observer))
        if observer.network:
            frames = [replace(f, data=bytes(len(f.data))) for f in frames]
        owned = served and self.owner == "server"
        return CorruptView(
            observer,
            self.public,
            frames,
            self._starts if owned else {},
            [_told(s, observer) for s in self.sums] if served else list(self._shown(observer)),
            self.compared if served else [],
            self.answered if served else [],
            {i: self._held(i) for i in sorted(observer.clients)},
            self.opened if served else {},
        )

    @property
    def sums_alone(self) -> CorruptView:
        """Of one that is told every published sum of more than one client, and the models that follow, and nothing else.

        The anchor of claims that a protection hides single updates: none that publishes these sums can tell less.
        """
        return CorruptView(SERVER_ALONE, self.public, models=self._starts, sums=self._several)

    def less_own_part(self, observer: Observer) -> CorruptView:
        """Of its clients, if they are told the same and hold their own updates, and nothing else that clients share. How many
        samples sums are of is told to who has the server, and to all where they are masked.
        """
        clients = observer.clients
        held = {i: replace(self._held(i), seed=b"", pair_keys={}, pair_seed=b"", mask_keys={}) for i in sorted(clients)}
        sums = self._several
        if SERVER not in observer.servers and not isinstance(self.public.protection, Masked):
            sums = [replace(s, weight=0.0) if s.times_samples else s for s in sums]
        return CorruptView(Observer(clients=clients), self.public, models=self._starts, sums=sums, held=held)

    @property
    def _several(self) -> list[PublishedSum]:
        return [s for s in self.sums if sum(a != 0 for a in s.row.values()) > 1]

    @property
    def _starts(self) -> Mapping[tuple[int, int], Vector]:
        """Those that a server makes of what it opens. In clear it makes any."""
        if isinstance(self.public.protection, Plain):
            return self.starts
        return {key: start for key, start in self.starts.items() if key not in self.apart}

    def _frames(self, observer: Observer) -> Iterator[Frame]:
        """What it sent, as it was sent, and what it received, as it came; where it is both ends, once what is the same."""
        for place, frame in enumerate(self.frames):
            if observer.network or frame.sender in observer.parties:
                yield frame
            if not observer.network:
                new = [f for f in self.arrived.get(place, (frame,)) if f != frame or frame.sender not in observer.parties]
                yield from (f for f in new if f.receiver in observer.parties)

    def _shown(self, observer: Observer) -> Iterator[PublishedSum]:
        """What clients without the server know of sums."""
        models = Models(self.starts, self.released)
        return shown_sums(self.sums, observer, self.public, models, self._counted, [*self._frames(observer)])

    def _counted(self, s: PublishedSum) -> Mapping[int, int]:
        return {i: self.truth.samples(s.round, s.kind, i) for i in s.row}

    def _held(self, client: int) -> Held:
        return Held(
            self.truth.population.clients[client].train,
            self.seeds[client],
            {(t, kind): v for (t, kind, i), v in self.truth.updates.items() if i == client},
            {t: v for (t, i), v in self.starts.items() if i == client},
            self.pair_keys.get(client, {}),
            self.pair_seeds.get(client, b""),
            {s: tuple(k for k in of if client in (k.a, k.b)) for s, of in self.truth.mask_keys.items()},
        )


def _told(found: PublishedSum, observer: Observer) -> PublishedSum:
    """With the mean, if the observer has it."""
    reached = found.to == "server" or found.to in observer.clients or (found.to == "clients" and observer.clients)
    return found if reached else replace(found, mean=None)
