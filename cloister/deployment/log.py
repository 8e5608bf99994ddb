"""A coordinator's log of its rounds: what each came to, and every change of what an operator has to know."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..fl.runs.declines import why_declined
from ..fl.runs.experiment import Round

WHY_NOT_SUMMED = (
    "what it sends is of no use to others, or they refuse it: see its own log and record, whether it runs this release, and"
    " reaches a second server;"
    " a client that does not follow the protocol looks like that"
)


@dataclass(slots=True)
class Told:
    """What was said last, so that a change is said once. stopped: clients whose cluster learns nothing, with its name. apart: in
    none. declined: who sat out, and why. not_summed: who answers, and is in no sum. lost: whether nobody learned anything.
    turned_down: clusters that were not parted.
    """

    log: logging.Logger
    stopped: Mapping[int, str] = field(default_factory=dict)
    apart: frozenset[int] = field(default_factory=frozenset)
    declined: frozenset[tuple[int, str]] = field(default_factory=frozenset)
    not_summed: frozenset[int] = field(default_factory=frozenset)
    lost: bool = False
    turned_down: frozenset[str] = field(default_factory=frozenset)

    def round(self, done: Round) -> None:
        """A line for the round that is over, which is counted from 0, and one for each change."""
        told = {"round": done.round - 1, "played": done.round, "of": done.rounds, "clusters": done.clusters}
        self.log.info("round", extra=told | {"accuracy": done.accuracy})
        if done.lost and not self.lost:
            self.log.warning("nothing was learned", extra={"round": done.round - 1, "why": done.lost})
        self.lost = bool(done.lost)
        now = {i: of.cluster for of in done.stopped for i in of.clients}
        for of in done.stopped:
            if new := [i for i in of.clients if i not in self.stopped]:
                since = of.since if len(new) == len(of.clients) else done.round - 1
                about = {"cluster": of.cluster, "since": since, "clients": new, "why": of.words}
                self.log.warning("stopped training", extra=about)
        again = {i: cluster for i, cluster in self.stopped.items() if i not in now and i not in done.unplaced}
        for cluster in sorted({*again.values()}):
            clients = sorted(i for i in again if again[i] == cluster)
            self.log.info("trains again", extra={"cluster": cluster, "round": done.round - 1, "clients": clients})
        if (apart := frozenset(done.unplaced)) != self.apart:
            why = "clients that are in no cluster get no model, unless they are placed in a later round"
            self.log.warning("in no cluster" if apart else "all in clusters", extra={"clients": sorted(apart), "why": why})
        for client, reason in done.declined:
            if (client, reason) not in self.declined:
                self.log.warning("declined", extra={"client": client, "round": done.round - 1, "why": why_declined(reason)})
        for client in sorted(done.not_summed.keys() - self.not_summed):
            self.log.warning(
                "answers, and is in no sum", extra={"client": client, "rounds": done.not_summed[client], "why": WHY_NOT_SUMMED}
            )
        for name in sorted(done.turned_down.keys() - self.turned_down):
            self.log.info("not split", extra={"cluster": name, "round": done.round - 1, "why": done.turned_down[name]})
        self.not_summed, self.turned_down = frozenset(done.not_summed), frozenset(done.turned_down)
        self.stopped, self.apart, self.declined = now, apart, self.declined | {*done.declined}
