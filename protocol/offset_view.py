"""Inner products of differences, from sketches behind an offset under the keys of a session, which clients forget with the round.

Of updates that are compared, the server learns the Gram matrix of their deviations from their mean. It holds no pair of a vector
that it knows and that vector's sketch, as long as one sum of these updates is published: that is held to here. About the origin,
which some rules need and ask for by name, it holds one such pair a session: the published mean and its sketch.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..crypto.offset_sketch import OffsetSketch, Words, differences
from .core.errors import Refused
from .core.session import SERVER, Session
from .drivers.roles import Effect, Party, Worked
from .history import EDGE, KEPT, apart, of_split
from .model_keeping import unused
from .parts.gate import Rules
from .parts.gram import cosines_about
from .parts.leverage import Row
from .parts.offset_sketches import Gathering, server_step
from .parts.participant import Unfit
from .parts.sketch_keys import RatchetedKeys, SketchKeys
from .sketch_view import DEVIATIONS, SketchView
from .uploaded.uploads import PROTOCOL, invite
from .view.account import Sketched, source_of
from .view.answers import Assignment, Gram, Model, Owner, Remembered, Snapshot, Traffic, Updates, Vector, Weights, Work
from .view.asks import Setup
from .wire.messages import Task

OUT_OF_RANGE = "a sketch that is out of range of the others"
EDGES: Work = "edge offset sketch"
RECALLED: Work = "recalled offset sketch"
KEY = "/key"
"""What the key of a split's sketches is saved under, behind their handle."""


class OffsetSketches(SketchView):
    """Answers by offset sketches where keys are of sessions; by sketches under the run's key otherwise."""

    def __init__(self, setup: Setup, owner: Owner, rules: Rules, secret: SketchKeys, before: Traffic, unfit: Unfit) -> None:
        super().__init__(setup, owner, rules, secret, before, unfit)
        self._keys = secret if isinstance(secret, RatchetedKeys) else None
        self._forms: dict[str, bool] = {}  # by the updates' handle: whether they were sketched about the origin
        self._offsets: dict[str, Mapping[int, Words]] = {}  # at the server: sketches of this round, by the updates' handle
        self._splits: dict[str, dict[int, Words]] = {}  # at the server: sketches of a split, by its handle
        self._edge_keys: dict[str, bytes] = {}  # at the clients, by the handle of a split
        self._placed: dict[str, str] = {}  # the split that updates were compared with, by their handle
        self._kept: dict[str, dict[int, Vector]] = {}  # at the clients, each its own, by the handle of what is kept
        self._recalled_in: dict[int, int] = {}  # the round in which a client was last asked for what it keeps

    # --- questions ----------------------------------------------------------------------------------------------------

    def gram(self, updates: Updates, /, *, origin: bool = False) -> Gram:
        if self._keys is None:
            return super().gram(updates, origin=origin)
        self._settle(updates, origin)
        if origin:
            return super().gram(updates, origin=True)
        return self._of_differences(updates.round, "gram", [self._offset_sketches(updates, self._keys)], self._keys)

    def edge(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        if self._keys is None:
            return super().edge(updates, clients)
        self._settle(updates, False)
        rows, chosen = self._offset_sketches(updates, self._keys), tuple(sorted(clients))
        if missing := [i for i in chosen if i not in rows]:
            raise Refused(f"no sketch of client {missing[0]} in {updates.name}; ask about the clients of its Gram matrix")
        name = unused(f"{updates.name}{EDGE}", self._splits)
        self._splits[name] = {i: rows[i] for i in chosen}
        self._edge_keys[name] = self._keys.key(self._known(updates).session)
        return Remembered(name, chosen, of=len(chosen))

    def cosines(self, updates: Updates, remembered: Remembered, /) -> NDArray[np.float64]:
        if (keys := self._keys) is None or not of_split(remembered):
            return super().cosines(updates, remembered)
        old = {i: row for i, row in self._splits.get(remembered.name, {}).items() if i in remembered.clients}
        if len(old) != len(remembered.clients):
            raise Refused(f"the remembered updates {remembered.name} are gone; keep their handle when retiring")
        self._known(updates)
        if updates.name in self._forms or self._gate.published[updates.name]:
            raise Refused(
                f"{updates.name} was summed or compared itself; a split is compared with updates of which nothing is told"
            )
        if self._placed.setdefault(updates.name, remembered.name) != remembered.name:
            raise Refused(f"{updates.name} was compared with another split; two of them tell more than either")
        found = np.full((len(updates.clients), len(old)), np.nan)
        if not old:
            return found
        with self._network.timed(*updates.clients):  # each draws it for itself; here one draws it for all
            sketch = keys.of_key(self._edge_keys[remembered.name])
        vectors = {i: work.sketched for i, work in self._results(dict.fromkeys(updates.clients, updates.name))}
        asked = self._session(updates.round, updates.cluster, updates.clients, EDGES)
        new = self._gathered(asked, updates.name, dict.fromkeys(vectors, sketch), vectors, keys)
        compared = [*((i, remembered.name) for i in old), *((i, updates.name) for i in new)]
        self._sketched_together(remembered.name.partition(EDGE)[0], updates.round, compared)
        words = "noisy cosines to the updates of a split, about the mean of those"
        self._disclose(updates.round, "server", "gram(edge)", tuple(sorted({*new, *old})), len(new) * len(old), words)
        with self._network.timed(SERVER):
            rows, fits = differences([*old.values(), *new.values()], keys.step)
            order = [*range(len(old), len(rows)), *range(len(old))]
            block = cosines_about((rows @ rows.T)[np.ix_(order, order)], len(new))
        block[~fits[len(old) :]] = np.nan
        self._reject([i for i, fit in zip(new, fits[len(old) :], strict=True) if not fit], OUT_OF_RANGE)
        found[[updates.clients.index(i) for i in new]] = block
        return found

    def keep(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        if self._keys is None:
            return super().keep(updates, clients)
        self._settle(updates, False)
        chosen, parties = tuple(sorted(clients)), self.clients.parties
        held = {i: parties[i].held[updates.name] for i in chosen if updates.name in parties[i].held}
        if missing := [i for i in chosen if i not in held]:
            raise Refused(f"client {missing[0]} has no work in {updates.name}; keep what there is")
        name = unused(f"{updates.name}{KEPT}", self._kept)
        self._kept[name] = {i: held[i].sketched for i in chosen}
        return Remembered(name, chosen, of=len(updates.clients))

    def recall(self, round: int, kept: Sequence[Remembered], /) -> Gram:
        """Under a key of this question alone, with an offset for each set that `apart` parts. A client answers once a round."""
        if (keys := self._keys) is None:
            return super().recall(round, kept)
        if gone := [h.name for h in kept if not set(h.clients) <= self._kept.get(h.name, {}).keys()]:
            raise Refused(f"the kept updates {gone[0]} are gone; keep their handle when retiring")
        parts = apart(kept)
        vectors = {i: self._kept[h.name][i] for h in kept for i in h.clients}
        if not parts:
            return Gram((), np.zeros((0, 0)), 0.0)
        roster = tuple(sorted(i for part in parts for i in part))
        if again := [i for i in roster if self._recalled_in.get(i) == round]:
            raise Refused(f"client {again[0]} was asked in round {round} for what it keeps; ask once a round")
        self._recalled_in |= dict.fromkeys(roster, round)
        asked = self._session(round, "recall", roster, RECALLED)
        with self._network.timed(*asked.roster):
            sketches = {i: keys.offset(asked.digest, k) for k, part in enumerate(parts) for i in part}
        rows = self._gathered(asked, "kept updates", sketches, vectors, keys)
        there = [{i: rows[i] for i in part if i in rows} for part in parts]
        source = {i: handle.name for handle in kept for i in handle.clients}
        for part in there:
            self._sketched_together(f"recall@{round}", round, [(i, source[i]) for i in part])
        return self._of_differences(round, "gram(recall)", there, keys)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _settle(self, updates: Updates, origin: bool) -> None:
        """Raises Refused for a second form of sketches of one update, and for offset sketches of which two sums are published."""
        self._known(updates)
        if updates.name in self._placed:
            raise Refused(f"{updates.name} was compared with a split; nothing else is told of these updates")
        if self._forms.get(updates.name, origin) != origin:
            raise Refused(f"{updates.name} was compared {'by differences' if origin else 'about the origin'}; ask in one way")
        if not origin and not one_direction(self._gate.published[updates.name]):
            raise Refused(f"several sums of {updates.name} are published; differences are compared of updates with one sum")
        self._forms[updates.name] = origin

    def _countable(self, updates: Updates, rows: Mapping[str, Row], name: str, weights: Weights) -> None:
        super()._countable(updates, rows, name, weights)
        if updates.name in self._placed:
            raise Refused(f"{updates.name} was compared with a split; sum {name} and it would tell more than either")
        about = [row for row in rows.values() if len(row) >= self._least]
        if self._forms.get(updates.name) is False and not one_direction([*self._gate.published[updates.name], *about]):
            raise Refused(
                f"sum {name} would be another of {updates.name}, whose differences were compared; with several sums ask about the"
                " origin, which says what it shows"
            )

    def _offset_sketches(self, updates: Updates, keys: RatchetedKeys) -> Mapping[int, Words]:
        """Of these updates; asked for once."""
        if updates.name not in self._offsets:
            made = self._known(updates)
            kind: Work = "update offset sketch" if made.kind == "update" else "gradient offset sketch"
            asked = self._session(updates.round, updates.cluster, updates.clients, kind)
            vectors = {i: work.sketched for i, work in self._results(dict.fromkeys(updates.clients, updates.name))}
            with self._network.timed(*updates.clients):
                sketch = keys.offset(made.session)
            rows = self._gathered(asked, updates.name, dict.fromkeys(vectors, sketch), vectors, keys)
            self._offsets[updates.name] = rows
            self._sketched_together(updates.name, updates.round, [(i, updates.name) for i in rows])
        return self._offsets[updates.name]

    def _gathered(
        self,
        session: Session,
        name: str,
        sketches: Mapping[int, OffsetSketch],
        vectors: Mapping[int, Vector],
        keys: RatchetedKeys,
    ) -> Mapping[int, Words]:
        """What clients send of these vectors, ascending; each draws the sketch for itself, here one draws it for all."""
        server = Party(SERVER, Gathering(session, keys.rows), server_step)

        def perform(tasks: list[tuple[int, Task]]) -> Iterator[tuple[int, Worked]]:
            for client, _ in tasks:
                try:
                    with self._network.timed(client):
                        words = sketches[client].apply(vectors[client])
                except ValueError as error:
                    self._reject([client], str(error))
                    continue
                yield client, Worked(words, 1)

        kind = session.protocol.removeprefix(f"{PROTOCOL}/")
        opening: Iterator[tuple[int, Effect]] = ((SERVER, effect) for effect in invite(session, kind, (name,), b""))
        self._network.run(self.clients.parties, {session.digest: server}, opening, perform, self._learn)
        found: Mapping[int, Words] = server.state.received
        words = f"{keys.rows} secret linear measurements of each, behind an offset that all share: they tell differences"
        self._disclose(session.round, "server", "sketches", tuple(found), len(found) * keys.rows, words)
        return found

    def _sketched_together(self, key: str, round: int, rows: Sequence[tuple[int, str]]) -> None:
        """Put sketches behind one offset on record, each a client's and of the updates that a handle's name begins with."""
        if rows and self._keys is not None:
            made = [source_of(handle) for _, handle in rows]
            clients, rounds = tuple(i for i, _ in rows), tuple(t for _, t, _ in made)
            entry = Sketched(key.encode(), "offset", made[0][2], round, made[0][0], clients, rounds, self._keys.rows)
            self.sketched.append(entry)

    def _of_differences(self, round: int, what: str, parts: Sequence[Mapping[int, Words]], keys: RatchetedKeys) -> Gram:
        """The Gram matrix of these sketches' deviations from the mean of their part."""
        deviations: dict[int, NDArray[np.float64]] = {}
        with self._network.timed(SERVER):
            for part in parts:
                rows, fits = differences(list(part.values()), keys.step)
                self._reject([i for i, fit in zip(part, fits, strict=True) if not fit], OUT_OF_RANGE)
                kept = rows[fits] - rows[fits].mean(axis=0) if fits.any() else rows[fits]
                deviations |= zip((i for i, fit in zip(part, fits, strict=True) if fit), kept, strict=True)
            clients = tuple(sorted(deviations))
            table = np.stack([deviations[i] for i in clients]) if clients else np.zeros((0, 0))
        size, words = len(clients) * (len(clients) + 1) // 2, "noisy inner products of the updates' differences from their mean"
        self._disclose(round, "server", what, clients, size, words)
        return Gram(clients, table @ table.T, DEVIATIONS * keys.error)

    # --- keeping and forgetting ---------------------------------------------------------------------------------------

    def _heard(
        self, round: int, work: Mapping[str, Assignment], kind: Work, *, later: bool = False, most: int = 0
    ) -> dict[str, Updates]:
        if self._keys is not None:
            self._keys.advance(round)
        heard = super()._heard(round, work, kind, later=later, most=most)
        for name in [n for n in (*self._forms, *self._placed, *self._offsets) if n not in self._made]:
            self._forms.pop(name, None)
            self._placed.pop(name, None)
            self._offsets.pop(name, None)
        return heard

    def retire(self, models: Iterable[Model], remembered: Iterable[Remembered], /) -> None:
        handles = list(remembered)
        super().retire(models, handles)
        kept = {h.name: h.clients for h in handles}
        self._edge_keys = {name: key for name, key in self._edge_keys.items() if name in kept}
        self._splits = {n: {i: rows[i] for i in kept[n] if i in rows} for n, rows in self._splits.items() if n in kept}
        self._kept = {n: {i: rows[i] for i in kept[n] if i in rows} for n, rows in self._kept.items() if n in kept}

    def _forget_round(self) -> None:
        super()._forget_round()
        self._forms.clear()
        self._placed.clear()
        self._offsets.clear()

    def save(self) -> Snapshot:
        saved = super().save()
        kept: dict[str, NDArray[Any]] = {n: np.stack(list(rows.values())) for n, rows in self._kept.items() if rows}
        kept |= {name: np.stack(list(rows.values())) for name, rows in self._splits.items() if rows}
        keys = {f"{name}{KEY}": np.frombuffer(key, np.uint8) for name, key in self._edge_keys.items()}
        return replace(saved, remembered={**saved.remembered, **kept, **keys})

    def restore(self, snapshot: Snapshot, remembered: Iterable[Remembered], /) -> None:
        handles = [] if self._keys is None else [h for h in remembered if h.rows]
        super().restore(snapshot, remembered if self._keys is None else ())
        rows = {h.name: dict(zip(h.rows, snapshot.remembered[h.name], strict=True)) for h in handles}
        self._splits = {h.name: rows[h.name] for h in handles if of_split(h)}
        self._kept = {h.name: rows[h.name] for h in handles if not of_split(h)}
        self._edge_keys = {name: snapshot.remembered[f"{name}{KEY}"].tobytes() for name in self._splits}


def one_direction(rows: Sequence[Row]) -> bool:
    """Whether all rows are multiples of one."""
    first: Row = next(iter(rows), {})
    at = next(iter(first), 0)
    return all(row.keys() == first.keys() and all(row[i] * first[at] == first[i] * row[at] for i in row) for row in rows)
