"""Fusion of uploads: the server keeps last models and pairs as they came, in the clear or transformed, and answers from that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import Refused
from ..parts.models import Models, unused
from ..parts.run import Run
from ..parts.tasks import session_of
from ..parts.weights import asked
from ..view.answers import BelowFloor, Remembered, Snapshot, Sum, Traffic, Updates, Weights
from ..view.functionality import Functionality
from ..view.fusion import Shrink, Values
from .pair_state import ARRAYS, PairState
from .sums import LAST_MEAN, UploadSums
from .uploading import Answering, Uploads

SESSION = "fusion"
"""The cluster that sessions of pulls and of last means are named by."""
NORMS = "norms of differences of clients' models, as far as a penalty has left them"
TOLD = "where its pairs pull it: a combination of last and earlier models, its own among them"


@dataclass(frozen=True, slots=True)
class KeptPairs:
    """pairs: what line 5 keeps. public: name of the model that all of it is less of."""

    pairs: PairState
    public: str


class Fusing:
    """Answers `Fuses`. kept: by the handle. served: the round of each client's last pull."""

    def __init__(self, run: Run, models: Models, uploads: Uploads, sums: UploadSums, how: Answering) -> None:
        self.kept: dict[str, KeptPairs] = {}
        self.served: dict[int, int] = {}
        self._run = run
        self._models = models
        self._uploads = uploads
        self._sums = sums
        self._how = how

    def fuse(
        self,
        updates: Updates,
        clients: Sequence[int],
        shrink: Shrink,
        earlier: Remembered | None = None,
        /,
        *,
        both: bool = False,
    ) -> Remembered:
        """See `Fuses`."""
        run = self._run
        self._allow()
        public, began = self._models.started.get(updates.name, (None, frozenset[int]()))
        received = self._uploads.collected(updates).received
        if public is None or not began >= set(updates.clients):
            raise Refused(f"clients of {updates.name} began at no model of their own; see Assignment.own")
        before = None if earlier is None else self._of(earlier)
        of = KeptPairs(PairState(clients, self._how.length), public.name) if before is None else before
        if public.name != of.public or not set(of.pairs.clients) >= set(updates.clients):
            raise Refused(f"{updates.name} is not of the clients and the public model that were fused before")
        run.gate.personal(updates.name)
        run.gate.told[updates.name].receivers.update(updates.clients)
        with run.timed():
            count = of.pairs.update(updates.round, {i: received[i] for i in updates.clients}, shrink, both)
        run.record.disclose(updates.round, "server", "fusion", of.pairs.met, count, NORMS)
        if earlier is not None:
            del self.kept[earlier.name]
        name = unused(f"{updates.name}/fused", self.kept)
        self.kept[name] = of
        return Remembered(name, of.pairs.clients, of=len(updates.clients))

    def pulls(self, round: int, fused: Remembered, receivers: Sequence[int], /) -> Mapping[int, Sum | BelowFloor]:
        """See `Fuses`. The server computes them and sends each to its receiver."""
        self._allow()
        run, pairs, found = self._run, self._of(fused).pairs, dict[int, Sum | BelowFloor]()
        if again := [i for i in receivers if self.served.get(i) == round]:
            raise Refused(f"client {again[0]} was told its pull of round {round}")
        if strangers := [i for i in receivers if i not in pairs.clients]:
            raise Refused(f"client {strangers[0]} is not of those that are fused")
        session = session_of(run, round, SESSION, tuple(sorted(receivers)), "update")
        for i in sorted(receivers):
            with run.timed():
                row, alone = pairs.row(i), pairs.alone(i)
            if alone:
                continue
            label, about = f"pull of client {i}@{round}", tuple(sorted(row))
            if row and run.gate.rules.floor > 1 and not run.gate.rules.fit(row):
                found[i] = run.record.unsummed(label, about)
                continue
            with run.timed():
                pull = pairs.pull(i).astype(np.float32)
                norm = float(np.linalg.norm(pull))
            self.served[i], name = round, self._models.taught(label, (i,))
            self._uploads.tell(session, name, pull, (i,))
            run.record.disclose(round, "clients", "fusion", about, len(run.setup.initial), TOLD, i)
            found[i] = Sum(name, i, about, 1.0, self._how.tolerance, norm)
        return found

    def distances(self, round: int, fused: Remembered, /) -> Values:
        """See `Fuses`. Nothing that the server does not know."""
        self._allow()
        with self._run.timed():
            return self._of(fused).pairs.distances()

    def last_means(self, round: int, fused: Remembered, weights: Mapping[str, Weights], /) -> Mapping[str, Sum | BelowFloor]:
        """See `Fuses`."""
        self._allow()
        run, pairs = self._run, self._of(fused).pairs
        samples = pairs.counts
        if gone := sorted({i for of in weights.values() for i in of.of} - samples.keys()):
            raise Refused(f"client {gone[0]} has had no model yet")
        rows = asked(weights, samples)
        if fused.name not in run.gate.told:
            run.gate.begin(fused.name)
        safe = run.gate.admit(fused.name, {name: row for name, row in rows.items() if sum(row.values()) != 0})
        session, answered = session_of(run, round, SESSION, pairs.clients, "update"), dict[str, Sum | BelowFloor]()
        for name, row in rows.items():
            label, to = f"{name}@{round}", weights[name].members or tuple(row)
            with run.timed():
                total = pairs.total(row)
            whole = name in safe and len(row) >= weights[name].fewest
            unsummed = None if whole else run.record.unsummed(label, tuple(row), weights[name].fewest)
            answered[name] = unsummed or self._sums.publish(label, session, row, total, to, told=LAST_MEAN)
        return answered

    # --- inside -------------------------------------------------------------------------------------------------------------

    def _allow(self) -> None:
        self._run.allow(Functionality.FUSION)
        if not self._how.across_rounds:
            raise Refused("models of different rounds are under different keys and cannot be fused; use keys='run'")

    def _of(self, fused: Remembered) -> KeptPairs:
        if fused.name not in self.kept:
            raise Refused(f"what was fused as {fused.name} is gone; take the newest handle, and keep it when retiring")
        return self.kept[fused.name]

    # --- keeping ------------------------------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`."""
        self.kept = {name: of for name, of in self.kept.items() if name in remembered}
        self.served.clear()

    def save(self) -> Snapshot:
        """See `Part`."""
        found: dict[str, NDArray[Any]] = {}
        for name, of in self.kept.items():
            found |= {f"{name} {array}": values for array, values in of.pairs.save().items()}
            found[f"{name} public"] = np.frombuffer(of.public.encode(), np.uint8)
        return Snapshot({}, found, {}, Traffic())

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`."""
        self.served.clear()
        held, self.kept = snapshot.remembered, {}
        for name in (handle.name for handle in remembered if f"{handle.name} public" in held):
            pairs = PairState.restored({array: held[f"{name} {array}"] for array in ("clients", *ARRAYS)})
            self.kept[name] = KeptPairs(pairs, held[f"{name} public"].tobytes().decode())
