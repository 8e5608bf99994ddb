"""Members where clients work for slots (IFCA and its kin): another slot than they would take to, and another upload in it.

Nothing ties a client's slot to its data. A member that says another one trains from that slot's model, as whoever is there does,
and gives it the share that it would give its favourite; then its upload is changed as everywhere.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from ..fl.clients.corruption import Computers
from ..fl.data.population import Examples
from ..fl.models.vector import dimension
from ..protocol.core.errors import Refused
from ..protocol.view.work import LocalJob, LocalOffer, LocalWork, Unwilling
from .choosing import Choosing
from .conduct import Conduct
from .functions import alone
from .handing import handed
from .knowledge import Own, Situation


def check(conduct: Conduct, colludes: bool) -> None:
    """Raises Refused for what a member of a coalition has no way to do to work for slots. colludes: whether its uploads are made
    together."""
    names = [n for n in ("local", "shown") if getattr(conduct, n) is not None] + ["a coalition's upload"] * colludes
    if names:
        raise Refused(
            f"clients work for slots here, where members change their data, their slot and their own upload, not {names[0]}"
        )


@dataclass(slots=True, eq=False)
class Taken:
    """The slots that clients of one round take to by themselves, by client, and the work of members that say another."""

    honest: dict[int, int] = field(default_factory=dict)
    waiting: dict[int, tuple[LocalJob, LocalWork]] = field(default_factory=dict)

    def hear(self, job: LocalJob, work: LocalWork, member: bool) -> None:
        """Of several slots, a client takes to the one of its largest share. member: one that is about to say another."""
        self.honest[job.client] = int(np.argmax(work.shares))
        if member:
            self.waiting[job.client] = job, work

    def forged(
        self, choosing: Choosing, computers: Computers, members: frozenset[int], instead: Mapping[int, Examples]
    ) -> Iterator[tuple[int, LocalWork | Unwilling]]:
        """What members have for the slots that they say. instead: examples that they train on in place of their own."""
        d = dimension(computers.module)
        wanted, jobs = {}, []
        for client, (job, _) in self.waiting.items():
            models = tuple(start[:d] for start in job.starts)
            offer = LocalOffer(client, job.round, tuple(sorted(self.honest)), models)
            k = choosing.forged(offer, members, self.honest)
            if not 0 <= k < len(models):
                raise ValueError(f"client {client} chose slot {k} of {len(models)}")
            if k != self.honest[client]:
                wanted[client] = k
                jobs.append(LocalJob(client, job.round, computers.in_slots, models[k]))
        yield from ((client, work) for client, (_, work) in self.waiting.items() if client not in wanted)
        for client, answer in computers.honest(jobs, instead) if jobs else ():
            yield client, answer if isinstance(answer, Unwilling) else _moved(self.waiting[client][1], wanted[client], answer)


def _moved(work: LocalWork, k: int, trained: LocalWork) -> LocalWork:
    """All of a client in slot k, as much as in its favourite before; numbers beside the models stay as they came."""
    rows = np.zeros_like(work.vector)
    rows[k, : len(trained.vector)] = trained.vector
    return replace(work, vector=rows, shares=tuple(max(work.shares) * (slot == k) for slot in range(len(work.shares))))


def uploaded(conduct: Conduct, member: Situation, work: LocalWork, samples: int) -> LocalWork:
    """What a member sends for slots: its upload changed in each slot that it gives a share, its shares as they are."""
    upload: Any = conduct.upload
    vectors = work.vector if upload is None else work.vector.copy()
    known = {f.name: getattr(member, f.name) for f in fields(Situation)}
    for k in (k for k, share in enumerate(work.shares) if share and upload is not None):
        own = Own(**(known | {"start": member.starts[k]}), update=work.vector[k], samples=samples)
        vectors[k] = alone(upload, own, handed(upload, own))
    return replace(work, vector=vectors, samples=samples)
