"""A coordinator's log of its rounds: what each came to, and every change of what an operator has to know."""

import logging
from dataclasses import dataclass, field

from ..fl.runs.declines import why_declined
from ..fl.runs.experiment import Round


@dataclass(slots=True)
class Told:
    """What was said last, so that a change is said once. stopped: clusters that learn nothing. apart: clients in none.

    declined: who sat out, and why."""

    log: logging.Logger
    stopped: frozenset[str] = frozenset()
    apart: frozenset[int] = field(default_factory=frozenset)
    declined: frozenset[tuple[int, str]] = field(default_factory=frozenset)

    def round(self, done: Round) -> None:
        """A line for the round that is over, which is counted from 0, and one for each change."""
        told = {"round": done.round - 1, "played": done.round, "of": done.rounds, "clusters": done.clusters}
        self.log.info("round", extra=told | {"accuracy": done.accuracy})
        for of in done.stopped:
            if of.cluster not in self.stopped:
                about = {"cluster": of.cluster, "since": of.since, "clients": list(of.clients), "why": of.words}
                self.log.warning("stopped training", extra=about)
        now = frozenset(of.cluster for of in done.stopped)
        for cluster in sorted(self.stopped - now):
            self.log.info("trains again", extra={"cluster": cluster, "round": done.round - 1})
        if (apart := frozenset(done.unplaced)) != self.apart:
            why = "clients that are in no cluster get no model, unless they are placed in a later round"
            self.log.warning("in no cluster" if apart else "all in clusters", extra={"clients": sorted(apart), "why": why})
        for client, reason in done.declined:
            if (client, reason) not in self.declined:
                self.log.warning("declined", extra={"client": client, "round": done.round - 1, "why": why_declined(reason)})
        self.stopped, self.apart, self.declined = now, apart, self.declined | {*done.declined}
