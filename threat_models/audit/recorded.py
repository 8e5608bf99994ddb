"""A run that was played, kept whole: what every party saw of it and, apart from that, what is true."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...protocol.core.link import Frame
from ...protocol.core.session import SERVER
from ...protocol.view.answers import Owner, Vector
from .observer import SERVER_ALONE, Observer
from .truth import Truth
from .view import Answered, Compared, CorruptView, Held, MaskKeys, Public, PublishedSum


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """Everything of one run, of which `seen_by` is one observer's share.

    owner: of public models. frames: all, as they were sent. starts: what clients started from, float32 (d,) by round and client.
    sums: with their means, whoever opened them. seeds: what clients share, by client; empty where they share none. meters: what
    the server could piece together after some rounds, each (rounds played, as a run's summary says it). released: the model that
    each client ended with, float32 (d,): what becomes known where models are given away. pair_keys, pair_seeds: by client, as in
    `Held`. ran_out: by client, the round in which its privacy budget first did not allow what was asked of it. privacy: by unit,
    what was spent, as `fl.runs.privacy.headline`; empty where nothing has noise. opened: keys of masks that the server
    was revealed.
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
    opened: MaskKeys = field(default_factory=dict, repr=False)

    def seen_by(self, observer: Observer) -> CorruptView:
        """That observer's view. Raises ValueError if the run has no such clients."""
        served = SERVER in observer.servers
        unknown = observer.clients - self.truth.population.clients.keys()
        if unknown:
            raise ValueError(f"no clients of the run: {sorted(unknown)}")
        frames = [f for f in self.frames if observer.sees(f.sender, f.receiver)]
        if observer.network:
            frames = [replace(f, data=bytes(len(f.data))) for f in frames]
        owned = served and self.owner == "server"
        return CorruptView(
            observer,
            self.public,
            frames,
            self.starts if owned else {},
            [_told(s, observer) for s in self.sums] if served else [],
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
        sums = [s for s in self.sums if sum(a != 0 for a in s.row.values()) > 1]
        return CorruptView(SERVER_ALONE, self.public, models=self.starts, sums=sums)

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
