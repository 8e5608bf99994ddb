"""Inner products of differences, from sketches behind an offset under the keys of a session, which clients forget with the round.

Of updates that are compared, the server learns the Gram matrix of their deviations from their mean. It holds no pair of a vector
that it knows and that vector's sketch, as long as one sum of these updates is published: the gate holds to that. About the
origin, which some rules need and ask for by name, it holds one such pair a session: the published mean and its sketch.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ...crypto.offset_sketch import Words, differences
from ..core.errors import Refused
from ..core.session import SERVER, Session
from ..drivers.in_process import no_work
from ..drivers.roles import Effect, Party, Send
from ..view.account import Sketched, source_of
from ..view.answers import OFFSET_AS, Gram, Remembered, Snapshot, Traffic, Updates, Work
from ..view.functionality import Functionality
from ..wire.codec import Envelope
from ..wire.messages import KEY, WORK, Discard, Retain
from ..work.maker import SKETCH
from ..work.sketch_keys import SketchTerms
from ..work.upload_server import invite
from ..work.uploads import PROTOCOL
from .gram import cosines_about
from .held import HeldUpdates
from .history import EDGE, KEPT, apart, of_split
from .models import unused
from .offset_sketches import CollectingSketches, server_step
from .run import Ids, Run
from .sketches import DEVIATIONS, Sketches
from .tasks import session_of

OUT_OF_RANGE = "a sketch that is out of range of the others"
EDGES: Work = "edge offset sketch"
RECALLED: Work = "recalled offset sketch"


class OffsetSketches:
    """Answers by sketches behind an offset; about the origin by `origin`.

    received: sketches of this round, by the updates' handle. splits: those of a split, and retained: who was asked to keep
    something, both by its handle.
    """

    def __init__(self, run: Run, held: HeldUpdates, terms: SketchTerms, origin: Sketches) -> None:
        self.received: dict[str, Mapping[int, Words]] = {}
        self.splits: dict[str, dict[int, Words]] = {}
        self.retained: dict[str, Ids] = {}
        self._run = run
        self._held = held
        self._terms = terms
        self._origin = origin
        self._recalled_in: dict[int, int] = {}  # the round in which a client was last asked for what it keeps
        held.dropped.append(self._dropped)

    # --- questions ----------------------------------------------------------------------------------------------------

    def gram(self, updates: Updates, /, *, origin: bool = False) -> Gram:
        """See `Similarities`."""
        self._run.allow(Functionality.GRAM_ORIGIN if origin else Functionality.GRAM)
        self._held.known(updates)
        self._run.gate.compare(updates.name, "origin" if origin else "differences")
        if origin:
            return self._origin.gram(updates, origin=True)
        return self._of_differences(updates.round, "gram", [self._sketches(updates)])

    def edge(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        """See `Recalls`. Every client of the run is asked to retain the key, to be compared with the split later."""
        self._run.allow(Functionality.GRAM_EDGE)
        made = self._held.known(updates)
        self._run.gate.compare(updates.name, "differences")
        rows = self._sketches(updates)
        chosen = tuple(sorted(set(clients) & rows.keys()))
        name = unused(f"{updates.name}{EDGE}", self.splits)
        self.splits[name] = {i: rows[i] for i in chosen}
        self._retain(KEY, made.session, name, tuple(sorted(self._run.setup.clients)))
        return Remembered(name, chosen, of=len(chosen))

    def cosines(self, updates: Updates, remembered: Remembered, /) -> NDArray[np.float64]:
        """See `Recalls`."""
        run = self._run
        run.allow(Functionality.GRAM_REMEMBER, Functionality.GRAM_EDGE)
        if not of_split(remembered):
            return self._origin.cosines(updates, remembered)
        old = {i: row for i, row in self.splits.get(remembered.name, {}).items() if i in remembered.clients}
        if len(old) != len(remembered.clients):
            raise Refused(f"the remembered updates {remembered.name} are gone; keep their handle when retiring")
        self._held.known(updates)
        run.gate.place(updates.name, remembered.name)
        found = np.full((len(updates.clients), len(old)), np.nan)
        if not old:
            return found
        asked = session_of(run, updates.round, updates.cluster, updates.clients, EDGES)
        new = self._gathered([asked], dict.fromkeys(updates.clients, (updates.name, remembered.name)))
        compared = [*((i, remembered.name) for i in old), *((i, updates.name) for i in new)]
        self._on_record(remembered.name.partition(EDGE)[0], updates.round, compared)
        words = "noisy cosines to the updates of a split, about the mean of those"
        about = tuple(sorted({*new, *old}))
        run.record.disclose(updates.round, "server", "gram(edge)", about, len(new) * len(old), words)
        with run.timed():
            rows, fits = differences([*old.values(), *new.values()], self._terms.step)
            order = [*range(len(old), len(rows)), *range(len(old))]
            block = cosines_about((rows @ rows.T)[np.ix_(order, order)], len(new))
        block[~fits[len(old) :]] = np.nan
        run.record.reject([i for i, fit in zip(new, fits[len(old) :], strict=True) if not fit], OUT_OF_RANGE)
        found[[updates.clients.index(i) for i in new]] = block
        return found

    def keep(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        """See `Recalls`. Each client is asked to keep its own."""
        self._run.allow(Functionality.GRAM_RECALL)
        made, chosen = self._held.known(updates), tuple(sorted(clients))
        self._run.gate.compare(updates.name, "differences")
        if missing := [i for i in chosen if i not in made.clients]:
            raise Refused(f"client {missing[0]} has no work in {updates.name}; keep what there is")
        name = unused(f"{updates.name}{KEPT}", self.retained)
        self._retain(WORK, made.session, name, chosen)
        return Remembered(name, chosen, of=len(updates.clients))

    def recall(self, round: int, kept: Sequence[Remembered], /) -> Gram:
        """See `Recalls`. Under a key of this round alone, with an offset for each set that `apart` parts."""
        self._run.allow(Functionality.GRAM_RECALL)
        if gone := [h.name for h in kept if not set(h.clients) <= set(self.retained.get(h.name, ()))]:
            raise Refused(f"the kept updates {gone[0]} are gone; keep their handle when retiring")
        parts = apart(kept)
        if not parts:
            return Gram((), np.zeros((0, 0)), 0.0)
        roster = tuple(sorted(i for part in parts for i in part))
        if again := [i for i in roster if self._recalled_in.get(i) == round]:
            raise Refused(f"client {again[0]} was asked in round {round} for what it keeps; ask once a round")
        self._recalled_in |= dict.fromkeys(roster, round)
        source = {i: handle.name for handle in kept for i in handle.clients}
        asked = [session_of(self._run, round, f"recall {k}", part, RECALLED) for k, part in enumerate(parts)]
        rows = self._gathered(asked, {i: (source[i],) for i in roster})
        there = [{i: rows[i] for i in part if i in rows} for part in parts]
        for part in there:
            self._on_record(f"recall@{round}", round, [(i, source[i]) for i in part])
        return self._of_differences(round, "gram(recall)", there)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _sketches(self, updates: Updates) -> Mapping[int, Words]:
        """Of these updates; asked for once."""
        if updates.name not in self.received:
            made = self._held.known(updates)
            kind = OFFSET_AS[made.kind]
            asked = session_of(self._run, updates.round, updates.cluster, updates.clients, kind)
            with self._run.timed(*updates.clients):
                self._run.clients.draw(SKETCH, made.session)
            rows = self._gathered([asked], dict.fromkeys(updates.clients, (updates.name,)))
            self.received[updates.name] = rows
            self._on_record(updates.name, updates.round, [(i, updates.name) for i in rows])
        return self.received[updates.name]

    def _gathered(self, sessions: Sequence[Session], of: Mapping[int, tuple[str, ...]]) -> Mapping[int, Words]:
        """What clients send in these sessions, ascending. of: what each is asked about."""
        self._terms.check()
        run, servers = (
            self._run,
            {s.digest: Party(SERVER, CollectingSketches(s, self._terms.rows), server_step) for s in sessions},
        )

        def opening() -> Iterator[tuple[int, Effect]]:
            for session in sessions:
                kind = session.protocol.removeprefix(f"{PROTOCOL}/")
                for names in dict.fromkeys(of[i] for i in session.roster):
                    for effect in invite(session, kind, names, b""):
                        if isinstance(effect, Send) and of[effect.envelope.receiver] == names:
                            yield SERVER, effect

        run.network.run(run.clients.parties, servers, opening(), no_work, run.learn)
        found: dict[int, Words] = {}
        for party in servers.values():
            found |= party.state.received
        rows = self._terms.rows
        words = f"a random sketch of each ({rows} numbers): shows how they differ; measurements of each if a client leaks the key"
        about = tuple(sorted(found))
        run.record.disclose(sessions[0].round, "server", "sketches", about, len(found) * rows, words)
        return {i: found[i] for i in about}

    def _retain(self, what: int, made: bytes, handle: str, clients: Ids) -> None:
        self.retained[handle] = clients
        self._tell((made, i, Retain(what, made, handle)) for i in clients)

    def _tell(self, words: Iterable[tuple[bytes, int, Retain | Discard]]) -> None:
        sent = ((SERVER, Send(Envelope(session, SERVER, i, word))) for session, i, word in words)
        self._run.network.run(self._run.clients.parties, {}, sent, no_work, self._run.learn)

    def _on_record(self, key: str, round: int, rows: Sequence[tuple[int, str]]) -> None:
        """Put sketches behind one offset on record, each a client's and of the updates that a handle's name begins with."""
        if rows:
            made = [source_of(handle) for _, handle in rows]
            clients, rounds = tuple(i for i, _ in rows), tuple(t for _, t, _ in made)
            entry = Sketched(key.encode(), "offset", made[0][2], round, made[0][0], clients, rounds, self._terms.rows)
            self._run.record.sketched.append(entry)

    def _of_differences(self, round: int, what: str, parts: Sequence[Mapping[int, Words]]) -> Gram:
        """The Gram matrix of these sketches' deviations from the mean of their part."""
        deviations: dict[int, NDArray[np.float64]] = {}
        with self._run.timed():
            for part in parts:
                rows, fits = differences(list(part.values()), self._terms.step)
                self._run.record.reject([i for i, fit in zip(part, fits, strict=True) if not fit], OUT_OF_RANGE)
                kept = rows[fits] - rows[fits].mean(axis=0) if fits.any() else rows[fits]
                deviations |= zip((i for i, fit in zip(part, fits, strict=True) if fit), kept, strict=True)
            clients = tuple(sorted(deviations))
            table = np.stack([deviations[i] for i in clients]) if clients else np.zeros((0, 0))
        size, words = len(clients) * (len(clients) + 1) // 2, "noisy inner products of the updates' differences from their mean"
        self._run.record.disclose(round, "server", what, clients, size, words)
        return Gram(clients, table @ table.T, DEVIATIONS * self._terms.error)

    # --- keeping ------------------------------------------------------------------------------------------------------

    def _dropped(self, round: int, names: set[str]) -> None:
        for name in names & self.received.keys():
            del self.received[name]

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`. Clients are told what to forget: of a split its key, of kept updates those whom no handle is on."""
        self.received.clear()
        gone: dict[int, list[str]] = {}
        for name, clients in self.retained.items():
            left = clients if name in remembered and name in self.splits else ()
            left = remembered[name].clients if name in remembered and name not in self.splits else left
            for i in set(clients) - set(left):
                gone.setdefault(i, []).append(name)
            self.retained[name] = left
        self.retained = {name: clients for name, clients in self.retained.items() if clients}
        kept = {name: handle.clients for name, handle in remembered.items()}
        self.splits = {n: {i: rows[i] for i in kept[n] if i in rows} for n, rows in self.splits.items() if n in kept}
        if gone:
            run = self._run.setup.run
            keeping = hashlib.sha256(b"cloister/v1/retained" + run).digest()  # of no session: what it ends may be of many
            self._tell((keeping, i, Discard(tuple(names))) for i, names in sorted(gone.items()))

    def save(self) -> Snapshot:
        """See `Part`."""
        rows = {name: np.stack(list(of.values())) for name, of in self.splits.items() if of}
        return Snapshot({}, rows, {}, Traffic())

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`."""
        self.received.clear()
        rows = {h.name: snapshot.remembered[h.name] for h in remembered if of_split(h) and h.rows}
        everybody = tuple(sorted(self._run.setup.clients))
        self.splits = {h.name: dict(zip(h.rows, rows[h.name], strict=True)) for h in remembered if h.name in rows}
        self.retained = {h.name: everybody if of_split(h) else h.clients for h in remembered if h.rows}
