"""The harness: the clients' computers with members of an adversary among them. It alone decides what an attack is told.

Who works together is in sittings.py, what members choose, where models are offered, in choosing.py, and what they do where
clients work for slots in slot_members.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..fl.clients.corruption import Computers
from ..fl.data.population import Examples
from ..fl.functions import as_vector
from ..fl.runs.simulation import seed_of
from ..protocol.view.answers import COMPUTED, Vector
from ..protocol.view.work import LocalJob, LocalOffer, LocalWork, Unwilling
from .attack import looks_back
from .choosing import Choosing
from .conduct import Conduct
from .functions import alone, poisoned_by, together
from .handing import handed
from .knowledge import Level, Own, Situation, colluding
from .label_attacks import check_among
from .sittings import Sitting, Sittings
from .slot_members import Taken, check, uploaded


@dataclass(frozen=True, slots=True)
class TwoFacedWork(LocalWork):
    """The work of a client that sums one vector and sketches another."""

    shown: Vector = field(repr=False, kw_only=True)

    @property
    def sketched(self) -> Vector:
        return self.shown


class Coalition:
    """The clients' computers, some of them corrupt. Implements `fl.corruption.Corrupted`.

    Honest results pass through as they come. At Level.OWN so do the members'; colluding members answer when all have worked.
    """

    def __init__(self, conduct: Conduct, computers: Computers) -> None:
        self._conduct = conduct
        self._computers = computers
        clients = tuple(sorted(computers.clients))
        for attack in (conduct.data, conduct.local, conduct.upload):
            check_among(attack, computers.classes)
        self._members = conduct.members.everyone(clients, computers.seed)
        self._present: frozenset[int] = frozenset()
        self._places = {client: place for place, client in enumerate(sorted(self._members))}
        looking = any(map(looks_back, (conduct.data, conduct.local, conduct.upload, conduct.shown)))
        self._sittings = Sittings(conduct.members, clients, computers.seed, looking)
        self._choosing = Choosing(conduct, computers, self._places)
        self._learns = hasattr(conduct.upload, "learn")
        self._learned: dict[str, Vector] = {}  # about the poison
        self._learned_in: int | None = None  # the round
        self._colludes = conduct.upload is not None and conduct.upload.needs > Level.OWN
        self._memory: dict[str, Vector] = {}

    @property
    def members(self) -> frozenset[int]:
        return self._members

    @property
    def present(self) -> frozenset[int]:
        """Members of the sessions that were worked for last: of the latest round, whether the adversary was active or not."""
        return self._present

    @property
    def learned(self) -> Mapping[str, Vector]:
        """What members have learned about their poison: what whoever measures its success needs; empty if it is not learned."""
        return self._learned

    def save(self) -> Mapping[str, Vector]:
        kept = {f"start {k}": start for k, start in enumerate(self._sittings.lately)}
        kept |= {f"memory {name}": vector for name, vector in self._memory.items()}
        return kept | {f"learned {name}": vector for name, vector in self._learned.items()}

    def restore(self, memory: Mapping[str, Vector], /) -> None:
        starts = {int(name.removeprefix("start ")): v for name, v in memory.items() if name.startswith("start ")}
        self._sittings.restore([starts[k] for k in sorted(starts)])
        self._memory = {name.removeprefix("memory "): v for name, v in memory.items() if name.startswith("memory ")}
        self._learned = {name.removeprefix("learned "): v for name, v in memory.items() if name.startswith("learned ")}
        self._learned_in = None

    def __call__(self, jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork | Unwilling]]:
        for kind in (*COMPUTED, "slots"):
            of_kind = [job for job in jobs if job.work == kind]
            if of_kind:
                yield from self._play(of_kind)

    def _play(self, jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork | Unwilling]]:
        """All jobs of one kind, so that a client has at most one."""
        round, kind = jobs[0].round, jobs[0].work
        active = round in self._conduct.when
        taken = Taken() if kind == "slots" else None
        if taken is not None:
            check(self._conduct, self._colludes)
        sittings = self._sittings.of(jobs)
        self._present = frozenset().union(*(sitting.members for sitting in sittings.values()))
        if active and round not in self._conduct.silent:
            self._learn_poison(jobs, sittings)
        at_work: dict[int, Situation] = {}
        instead: dict[int, Examples] = {}
        honest: list[LocalJob] = []
        own: list[LocalJob] = []
        by_client = {job.client: job for job in jobs}
        for job in jobs:
            member = job.client in sittings[job.client].members
            if member and round in self._conduct.silent:
                continue
            if member:
                at_work[job.client] = situation = self._situation(job, sittings[job.client], None)
                if active and self._conduct.data is not None:
                    instead[job.client] = poisoned_by(self._conduct.data, situation)
                    at_work[job.client] = self._situation(job, sittings[job.client], instead[job.client])
            (own if member and active and self._conduct.local is not None and kind == "update" else honest).append(job)
        for client, answer in self._computers.honest(honest, instead) if honest else ():
            if isinstance(answer, Unwilling):
                yield client, answer
                continue
            if taken is not None:
                forges = active and self._conduct.choice is not None and client in at_work
                taken.hear(by_client[client], answer, forges)
                if forges:
                    continue
            yield from self._passed(sittings[client], at_work.get(client), client, answer, active)
        if taken is not None and taken.waiting:
            members = sittings[jobs[0].client].members
            for client, forged in taken.forged(self._choosing, self._computers, members, instead):
                if isinstance(forged, Unwilling):
                    yield client, forged
                else:
                    yield from self._passed(sittings[client], at_work[client], client, forged, active)
        for job in own:
            work = LocalWork(self._trained(at_work[job.client]), len(self._computers.clients[job.client].train))
            yield from self._passed(sittings[job.client], at_work[job.client], job.client, work, active)
        for sitting in {id(s): s for s in sittings.values()}.values():
            yield from self._colluded(sitting, active)

    def _learn_poison(self, jobs: Sequence[LocalJob], sittings: Mapping[int, Sitting]) -> None:
        """Once a round, by the member with the least id of those that work first: what it learns is every member's."""
        attack: Any = self._conduct.data
        members = [job for job in jobs if job.client in sittings[job.client].members]
        if not members or not hasattr(attack, "learn") or self._learned_in == jobs[0].round:
            return
        job = min(members, key=lambda job: job.client)
        found = handed(attack, self._situation(job, sittings[job.client], None), attack.learn)
        self._learned = {name: np.array(vector, dtype=np.float32) for name, vector in found.items()}
        self._learned_in = job.round

    def _passed(
        self, sitting: Sitting, member: Situation | None, client: int, work: LocalWork, active: bool
    ) -> Iterator[tuple[int, LocalWork]]:
        """A result on its way: kept for the coalition where it may see it, answered now unless the coalition must confer."""
        if member is None:
            if self._conduct.knows >= Level.OMNISCIENT and self._colludes and sitting.members:
                sitting.honest[client] = work
            yield client, work
            return
        samples = max(1, round(work.samples * self._conduct.samples)) if active else work.samples
        if work.shares:
            yield client, uploaded(self._conduct, member, work, samples) if active else work
            return
        own = Own(**_fields(member), update=work.vector, samples=samples)
        if self._colludes and (active or self._learns):
            sitting.own[client] = own
        if not active:
            yield client, work
        elif not self._colludes:
            upload: Any = self._conduct.upload
            yield client, self._answer(own, work.vector if upload is None else alone(upload, own, handed(upload, own)))

    def _colluded(self, sitting: Sitting, active: bool) -> Iterator[tuple[int, LocalWork]]:
        if not sitting.own:
            return
        attack: Any = self._conduct.upload
        if self._learns:
            known = colluding(self._conduct.knows, sitting.own, sitting.honest, self._conduct.rule, self._memory)
            self._memory = dict(handed(attack, known, attack.learn))
        if active:
            known = colluding(self._conduct.knows, sitting.own, sitting.honest, self._conduct.rule, self._memory)
            vectors = together(attack, known, handed(attack, known))
            for client in sorted(sitting.own):
                yield client, self._answer(sitting.own[client], vectors[client])

    def _answer(self, own: Own, vector: Vector) -> LocalWork:
        shown = self._conduct.shown
        if shown is None:
            return LocalWork(vector, own.samples)
        return TwoFacedWork(vector, own.samples, shown=alone(shown, own, handed(shown, own)))

    def _trained(self, situation: Situation) -> Vector:
        local: Any = self._conduct.local
        return as_vector(handed(local, situation), situation.start.shape, local)

    def judge(self, offer: LocalOffer, /) -> int | None:
        """What a client says when it is offered models; None where it is a member and silent."""
        return self._choosing.judge(offer)

    def _situation(self, job: LocalJob, sitting: Sitting, examples: Examples | None) -> Situation:
        seed, computers = self._computers.seed, self._computers
        drawer = job.client if self._conduct.randomness == "member" else "shared"
        return Situation(
            member=job.client,
            place=self._places[job.client],
            members=len(self._members),
            roster=sitting.roster,
            round=job.round,
            work=job.work,
            examples=computers.clients[job.client].train if examples is None else examples,
            classes=computers.classes,
            start=job.start,
            starts=job.starts,
            previous=sitting.previous,
            module=computers.module,
            training=computers.training,
            training_seed=seed_of(seed, "local", job.round, job.client),
            data_rng=np.random.default_rng(seed_of(seed, "adversary", "data", drawer)),
            rng=np.random.default_rng(seed_of(seed, "adversary", "round", job.round, job.work, drawer)),
            agreed=np.random.default_rng(seed_of(seed, "adversary", "agreed")),
            sketch=job.sketch,
            learned=self._learned,
        )


def _fields(situation: Situation) -> dict[str, Any]:
    return {name: getattr(situation, name) for name in Situation.__dataclass_fields__}
