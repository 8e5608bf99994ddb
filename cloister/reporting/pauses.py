"""Rounds in which clients' clusters learned nothing, as no sum of theirs was opened, each told once whatever their names."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .run_data import DASH, Run, number

SLOT = "models/"
"""Before the number of a slot, from 0, in the name of its sum."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Of clients that were in one cluster when it ended, which has that name then. since, until: its first and last round.

    reason: of the last. lasts: that it went on at the end of the run. renamed: that their cluster had another name before, as it
    was dealt anew. changed: that the reason was another one before.
    """

    cluster: str
    since: int
    until: int
    clients: Sequence[Any]
    reason: str
    lasts: bool = False
    renamed: bool = False
    changed: bool = False

    @property
    def when(self) -> str:
        """In which rounds, in words."""
        if self.lasts:
            return f"from round {self.since} on"
        return f"in round {self.since}" if self.until <= self.since else f"in rounds {self.since} to {self.until}"


def pauses(run: Run) -> list[Pause]:
    """All of a run, by when they began; those that went on at its end last."""
    over: list[Pause] = []
    going: dict[Any, Pause] = {}  # by client
    for line in run.rounds:
        now: dict[Any, Pause] = {}
        for entry in line.get("stood_still") or ():
            cluster, reason, clients = str(entry.get("cluster", DASH)), _reason(run, line, entry), entry.get("clients") or []
            until = int(number(line.get("round", entry.get("since"))))
            for i in clients:
                before = going.get(i, Pause(cluster, until, until, (), reason))
                renamed, changed = before.renamed or before.cluster != cluster, before.changed or before.reason != reason
                now[i] = Pause(cluster, before.since, until, (), reason, renamed=renamed, changed=changed)
        over += _together({i: pause for i, pause in going.items() if i not in now})
        going = now
    last = sorted(_together(going), key=lambda of: (of.cluster, of.since))
    return sorted(over, key=lambda of: (of.since, of.cluster)) + [replace(of, lasts=True) for of in last]


def _together(of: Mapping[Any, Pause]) -> list[Pause]:
    """Pauses that are alike, as one of all of their clients."""
    alike: dict[Pause, list[Any]] = defaultdict(list)
    for i, pause in of.items():
        alike[pause].append(i)
    return [replace(pause, clients=tuple(clients)) for pause, clients in alike.items()]


def _reason(run: Run, line: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    """Why these clients' cluster had no sum in a round, and who trained for it if those were others."""
    rows = line.get("below_floor") or ()
    others = line.get("clusters") or {}  # of the round's end: a sum of any other name was of one that was dealt anew in it
    of = [row for row in rows if of_cluster(row) == entry.get("cluster")]
    of = of or [row for row in rows if of_cluster(row) not in others and row.get("why") == entry.get("why")]
    trained = (of[0].get("members") or []) if of else []
    strangers = ", ".join(run.name_of(i) for i in trained) if {*trained} - {*(entry.get("clients") or ())} else ""
    return f"{entry.get('why') or ''}{f' (of {strangers}, who trained for it)' if strangers else ''}"


def of_cluster(row: Mapping[str, Any]) -> str:
    """Of a sum that was not opened: its cluster's name, which stands before the round; of a slot, its model's."""
    return model_of_slot(row) or str(row.get("cluster", DASH)).partition("@")[0]


def model_of_slot(row: Mapping[str, Any]) -> str:
    """Of a slot that was not opened: its model's name; empty of any other sum."""
    name = str(row.get("cluster", DASH)).partition("@")[0]
    slot = name.removeprefix(SLOT)
    return f"model {int(slot) + 1}" if slot != name and slot.isdecimal() else ""
