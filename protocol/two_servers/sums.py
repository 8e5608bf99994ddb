"""Sums of shared updates, in a view: each is a question to the second server."""

import math
from collections.abc import Mapping

import numpy as np

from ..core.errors import OF_HELPERS, OF_NO_UPDATE
from ..core.session import SERVER
from ..parts.models import Models
from ..parts.run import Run
from ..parts.weights import asked
from ..view.answers import Assignment, BelowFloor, Sum, Updates, Weights
from ..view.functionality import Functionality
from .asking import Unanswered
from .helpers import Helpers
from .run import sums
from .sharing import HeldShares
from .terms import ShareTerms


class SharedSums:
    """Answers sums."""

    tells_energy = False

    def __init__(self, run: Run, models: Models, sharing: HeldShares, helpers: Helpers, terms: ShareTerms) -> None:
        self._run = run
        self._models = models
        self._sharing = sharing
        self._helpers = helpers
        self._terms = terms

    def train_and_sum(
        self, round: int, work: Mapping[str, Assignment], weights: Mapping[str, Weights], /
    ) -> Mapping[str, Sum | BelowFloor]:
        """See `Sums`. Shares are kept until the survivors are agreed on: 8 bytes for each coordinate of each client's update."""
        handles = self._sharing.train(round, work)
        answered: dict[str, Sum | BelowFloor] = {}
        for cluster in work:
            if cluster in handles:
                answered |= self.sums(handles[cluster], {cluster: weights[cluster]})
                self._sharing.forget([handles[cluster].name])
            else:
                answered[cluster] = self._run.record.unsummed(f"{cluster}@{round}", ())
        return answered

    def sums(self, updates: Updates, weights: Mapping[str, Weights], /) -> Mapping[str, Sum | BelowFloor]:
        """See `Sums`."""
        run, rejected = self._run, self._sharing.rejected.get(updates.name, set())
        run.allow(Functionality.SUMS)
        collected = self._sharing.collected(updates)
        rows = asked(weights, {i: n for i, (_, n) in sorted(collected.received.items()) if i not in rejected})
        with run.timed():
            enough = {name: row for name, row in rows.items() if len(row) >= weights[name].fewest}
            weighed = {name: self._terms.weigh(row) for name, row in enough.items() if math.fsum(row.values()) != 0}
            safe = run.gate.admit(updates.name, {name: whole for name, (whole, _) in weighed.items()})
        answered: dict[str, Sum | BelowFloor] = {}
        for name, row in rows.items():
            label = f"{name}@{updates.round}"
            found = self._sum(updates, label, row, *weighed[name]) if name in safe else None
            answered[name] = found or run.record.unsummed(label, tuple(row), weights[name].fewest, weights=row.values())
            if found is not None:
                run.record.open(updates, found, row)
        return answered

    def _sum(self, updates: Updates, label: str, row: Mapping[int, float], whole: Mapping[int, int], unit: float) -> Sum | None:
        """One sum; None, and a fault on record, if there is none."""
        run, record, terms = self._run, self._run.record, self._terms
        collected = self._sharing.collected(updates)
        weights = [(i, q, collected.received[i][0]) for i, q in whole.items()]
        source, number = collected.session.digest, self._helpers.number()
        ended = sums(run.network, self._helpers.everybody, terms, run.setup.run, number, source, weights)
        clients = tuple(row)
        if not isinstance(ended, Unanswered):
            record.disclose(updates.round, "server", "sums", clients, terms.length, "the sum of the updates")
        words = "the weights of the sum, and nothing of it"
        record.disclose(updates.round, "second server", "sums", clients, len(row), words)
        if isinstance(ended, Unanswered):
            record.fault(ended.waited_for, f"the sum {label} was not answered")
            return None
        with run.timed():
            total = terms.decode(ended.total, unit)
            norm = float(np.linalg.norm(total))
        if norm > math.fsum(abs(q) for q in whole.values()) * unit * terms.radius * terms.step * (1 + 1e-9):
            record.fault(SERVER, f"the sum {label} {OF_NO_UPDATE}, as a Gram question says, {OF_HELPERS}")
            return None
        weight = math.fsum(row.values())
        mean = (total / weight).astype(np.float32)
        name = self._models.mean_name(label)
        self._models.means[name] = mean
        record.disclose(updates.round, "clients", "sums", clients, len(mean), "the mean update of their own cluster")
        error = terms.sum_error(row, whole, unit) / abs(weight)
        return Sum(name, "server", clients, weight, 0.0, norm / abs(weight), error)
