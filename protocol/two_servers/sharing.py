"""Updates that clients share between two servers, in a view: what the first server collected of the round."""

from collections.abc import Iterable, Mapping, Sequence

from ..core.errors import OF_HELPERS, Refused
from ..core.session import SECOND_SERVER, Session
from ..parts.models import Models
from ..parts.run import Ids, Run, nothing
from ..view.answers import Assignment, Remembered, Snapshot, Updates, Work
from ..work.uploads import to_bytes
from .helpers import Helpers
from .run import collect
from .terms import PROTOCOL, ShareTerms
from .upload_server import SharesCollected, holds_few


class HeldShares:
    """Has clients work, and holds the first server's shares until the round is over, by the updates' handle.

    rejected: by the same, clients whose shares are of no update. sources: by session, cluster, round, kind of its updates.
    """

    def __init__(self, run: Run, models: Models, helpers: Helpers, terms: ShareTerms) -> None:
        self.shares: dict[str, SharesCollected] = {}
        self.rejected: dict[str, set[int]] = {}
        self.sources: dict[bytes, tuple[str, int, Work]] = {}
        self._run = run
        self._models = models
        self._helpers = helpers
        self.terms = terms

    def train(self, round: int, work: Mapping[str, Assignment], kind: Work = "update", /) -> Mapping[str, Updates]:
        """See `Trains`."""
        run, terms = self._run, self.terms
        if any(assignment.own or assignment.toward for assignment in work.values()):
            raise Refused("clients have no models of their own under two servers; use Plain, Permuted, Masked or Encrypted")
        self.forget(name for name, c in self.shares.items() if c.session.round != round)
        sessions = []
        for cluster, assignment in work.items():
            session = Session(f"{PROTOCOL}/{kind}", run.setup.run, round, cluster, assignment.participants, 1)
            self._models.check(assignment.model)
            self._models.handles.begin(round, assignment.participants)
            sessions.append((session, kind, (assignment.model.name,), to_bytes(self._models.held[assignment.model.name])))

        answered, before = {}, len(run.record.faults)
        for cluster, collected in zip(work, collect(run.network, self._helpers.everybody, terms, sessions), strict=True):
            run.record.reject(collected.withheld, f"the {kind} is not finite, or its norm exceeds max_norm={terms.max_norm}")
            if collected.alone:
                run.record.fault(SECOND_SERVER, f"it did not say whose keys of {cluster}@{round} it holds")
            if words := holds_few(collected, run.gate.rules.least, run.record.faults[before:]):
                run.record.fault(SECOND_SERVER, words)
            self._disclose(round, kind, collected)
            survivors = tuple(sorted(collected.received))
            run.record.ask(round, cluster, kind, work[cluster].participants, survivors)
            if not survivors:
                continue
            updates = Updates(f"{cluster}@{round}/{kind}", cluster, round, survivors, work[cluster].members)
            self.shares[updates.name] = collected
            run.gate.begin(updates.name)
            self.sources[collected.session.digest] = cluster, round, kind
            answered[cluster] = updates
        return answered

    def collected(self, updates: Updates) -> SharesCollected:
        """Raises Refused for updates that are gone."""
        if updates.name not in self.shares:
            raise Refused(f"the updates of {updates.name} are gone; ask in the round that collected them, or remember them")
        return self.shares[updates.name]

    def reject(self, updates: Updates, clients: Iterable[int]) -> None:
        """Leave these clients out of later sums of these updates."""
        rejected = self.rejected.setdefault(updates.name, set())
        new = [i for i in clients if i not in rejected]
        rejected.update(new)
        words = f"what was shared is out of range: no update of norm up to max_norm has these inner products, {OF_HELPERS}"
        self._run.record.reject(new, words)

    def forget(self, names: Iterable[str]) -> None:
        """The shares of these updates."""
        for name in list(names):
            self.shares.pop(name, None)
            self.rejected.pop(name, None)
            self._run.gate.forget([name])

    def _disclose(self, round: int, kind: Work, collected: SharesCollected) -> None:
        record = self._run.record
        if collected.heard:
            words = f"of each {kind}: its sample count, and a share that is uniform to whoever lacks the second server's key"
            record.disclose(round, "server", f"{kind}s", collected.heard, len(collected.heard), words)
        if collected.withheld:
            words = f"whose {kind} is not finite, or exceeds the bound"
            record.disclose(round, "server", f"{kind}s withheld", tuple(sorted(collected.withheld)), 0, words)
        survivors: Ids = tuple(sorted(collected.received))
        if survivors:
            words = f"who sent {kind}s; of each: a key, which says nothing without the server's share, and a hash of the model"
            record.disclose(round, "second server", f"{kind}s", survivors, 0, words)

    # --- keeping ------------------------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`."""
        self.forget(self.shares)

    def save(self) -> Snapshot:
        """See `Part`."""
        return nothing()

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`."""
        self.forget(self.shares)
