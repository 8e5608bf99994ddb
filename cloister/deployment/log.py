"""A coordinator's log of its rounds: what each came to, and every change of what an operator has to know."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..fl.runs.declines import why_declined
from ..fl.runs.experiment import Round


@dataclass(slots=True)
class Told:
    """What was said last, so that a change is said once. stopped: clients of clusters that learn nothing. apart: in none.

    declined: who sat out, and why."""

    log: logging.Logger
    stopped: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    apart: frozenset[int] = field(default_factory=frozenset)
    declined: frozenset[tuple[int, str]] = field(default_factory=frozenset)

    def round(self, done: Round) -> None:
        """A line for the round that is over, which is counted from 0, and one for each change."""
        told = {"round": done.round - 1, "played": done.round, "of": done.rounds, "clusters": done.clusters}
        self.log.info("round", extra=told | {"accuracy": done.accuracy})
        now = {of.cluster: of.clients for of in done.stopped}
        for of in done.stopped:
            if of.cluster not in self.stopped and of.clients not in self.stopped.values():  # else the same, under another name
                about = {"cluster": of.cluster, "since": of.since, "clients": list(of.clients), "why": of.words}
                self.log.warning("stopped training", extra=about)
        still = {i for clients in now.values() for i in clients}
        for cluster, clients in sorted(self.stopped.items()):
            if cluster not in now and not (clients and still.issuperset(clients)):
                again = [i for i in clients if i not in still]
                self.log.info("trains again", extra={"cluster": cluster, "round": done.round - 1, "clients": again})
        if (apart := frozenset(done.unplaced)) != self.apart:
            why = "clients that are in no cluster get no model, unless they are placed in a later round"
            self.log.warning("in no cluster" if apart else "all in clusters", extra={"clients": sorted(apart), "why": why})
        for client, reason in done.declined:
            if (client, reason) not in self.declined:
                self.log.warning("declined", extra={"client": client, "round": done.round - 1, "why": why_declined(reason)})
        self.stopped, self.apart, self.declined = now, apart, self.declined | {*done.declined}
