"""Rounds in which clusters learned nothing, as no sum of theirs could be opened, each pause told once whatever its names were."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .run_data import DASH, Run, number


@dataclass(frozen=True, slots=True)
class Pause:
    """Of one cluster. since, until: its first and last round. clients: its members, then, and reason, of the last.

    lasts: that it went on at the end of the run. renamed: that the cluster was dealt anew meanwhile, under another name.
    """

    cluster: str
    since: int
    until: int
    clients: Sequence[Any]
    reason: str
    lasts: bool = False
    renamed: bool = False

    @property
    def when(self) -> str:
        """In which rounds, in words."""
        if self.lasts:
            return f"from round {self.since} on"
        return f"in round {self.since}" if self.until <= self.since else f"in rounds {self.since} to {self.until}"


def pauses(run: Run) -> list[Pause]:
    """All of a run, by when they began; those that went on at its end last."""
    over: list[Pause] = []
    open_: list[Pause] = []
    for line in run.rounds:
        going = []
        for cluster, since in sorted((line.get("stopped") or {}).items()):
            members = (line.get("clusters") or {}).get(cluster) or []
            until, reason = int(number(line.get("round", since))), _reason(run, line, cluster, members)
            before = next((of for of in open_ if _goes_on(of, cluster, since, members)), None)
            renamed = before is not None and (before.renamed or before.cluster != cluster)
            going.append(Pause(cluster, since, until, members, reason, renamed=renamed))
        over += [of for of in open_ if not any(_goes_on(of, now.cluster, now.since, now.clients) for now in going)]
        open_ = going
    last = sorted(open_, key=lambda of: of.cluster)
    return sorted(over, key=lambda of: (of.since, of.cluster)) + [replace(of, lasts=True) for of in last]


def _goes_on(of: Pause, cluster: str, since: int, members: Sequence[Any]) -> bool:
    """Whether a cluster that stands still since then is one that did in the round before."""
    return of.since == since and (of.cluster == cluster or not {*of.clients}.isdisjoint(members))


def _reason(run: Run, line: Mapping[str, Any], cluster: str, members: Sequence[Any]) -> str:
    """Why a cluster had no sum in a round, as far as its line says so: who did not answer, or what was wanting."""
    if line.get("unanswered"):
        return str(line["unanswered"])
    rows = [row for row in line.get("below_floor") or () if "why" in row]
    others = line.get("clusters") or {}  # of the round's end: a sum of any other name was of one that was dealt anew in it
    of = [row for row in rows if of_cluster(row) == cluster] or [row for row in rows if of_cluster(row) not in others]
    if not of:
        return ""
    trained = of[0].get("members") or []
    strangers = ", ".join(run.name_of(i) for i in trained) if {*trained} - {*members} else ""
    return f"{of[0]['why']}{f' (of {strangers}, who trained for it)' if strangers else ''}"


def of_cluster(row: Mapping[str, Any]) -> str:
    """Of a sum that was not opened: its cluster's name, which stands before the round."""
    return str(row.get("cluster", DASH)).partition("@")[0]
