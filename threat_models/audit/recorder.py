"""Plays a scenario and keeps what every party saw of it.

It stands where nothing changes by it: as a tap on the links, before the clients' computers, and between an algorithm and the view
that it asks. What it kept is a `Recorded`, of which `seen_by` takes one observer's share.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...fl.clients.embedders import SimulatedEmbedders
from ...fl.data.population import Examples
from ...fl.meters.record import said
from ...fl.models.vector import dimension, load_vector
from ...fl.runs.lost_round import NothingLearned
from ...fl.runs.privacy import headline, spent
from ...fl.runs.scenario import Scenario
from ...fl.runs.simulation import Simulation, seed_of
from ...protocol.core.errors import PAST_BUDGET, Fault, ProtocolError, Refused
from ...protocol.core.link import Frame, Tap
from ...protocol.masked.masking import MaskedSessions
from ...protocol.masked.protection import Masked
from ...protocol.pairs.client import key_for
from ...protocol.pairs.messages import PairOffer
from ...protocol.pairs.roles import PAIR_SEED
from ...protocol.pairs.terms import PairTerms
from ...protocol.parts.models import Models
from ...protocol.two_servers.protection import TwoServer
from ...protocol.view.account import source_of
from ...protocol.view.answers import COMPUTED, Gram, Sum, Updates, Vector, Weights, Work
from ...protocol.view.work import LocalJob, LocalWork, Unwilling
from ...protocol.wire.codec import decode
from ...protocol.work.uploads import usable
from .mask_keys import OfRun, of_shares, of_sums
from .observer import SERVER_ALONE, Observer
from .own_sketches import Started, foreign_sketches, sketched_of
from .reading import Instance
from .recorded import Recorded
from .truth import Truth
from .view import Answered, Compared, CorruptView, Public, PublishedSum

QUESTIONS = (
    *("train_and_sum", "sums", "gram", "cosines", "recall", "gram_with", "accumulate"),
    *("coordinates", "slots", "personal_sums", "choose", "pairs"),
)
"""What a view answers with numbers; other asks answer with handles."""
HEARD = ("train", *QUESTIONS)


@dataclass(slots=True)
class Recording:
    """A tap that keeps every frame that was sent, and by its place what came instead. inner: what the network does to it."""

    inner: Tap | None = None
    frames: list[Frame] = field(default_factory=list)
    arrived: dict[int, tuple[Frame, ...]] = field(default_factory=dict)

    def __call__(self, frame: Frame, /) -> Iterable[Frame]:
        came = (frame,) if self.inner is None else tuple(self.inner(frame))
        if came != (frame,):
            self.arrived[len(self.frames)] = came
        self.frames.append(frame)
        return came

    @property
    def came(self) -> list[Frame]:
        """All that was received, in the order in which it was sent."""
        return [f for place, sent in enumerate(self.frames) for f in self.arrived.get(place, (sent,))]


class Listening:
    """The view of a simulation, as its algorithm asks it; `heard` is told every answer that is numbers, and who was trained."""

    def __init__(self, view: Any, heard: Any) -> None:
        self._view, self._heard = view, heard

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._view, name)
        if name not in HEARD:
            return asked

        def answer(*question: Any, **options: Any) -> Any:
            found = asked(*question, **options)
            self._heard(name, question, options, found)
            return found

        return answer


class Recorder:
    """Plays one run and keeps it whole.

    share: of the test examples, what the attacker has (`auxiliary`); the rest is `outside`. readings: how often in the run its
    meters are read, evenly and at its end. meters: what was read. updates: float32 (d,) by round, kind and client.
    """

    def __init__(self, scenario: Scenario, data: Path | None, share: float = 0.5, readings: int = 0) -> None:
        self.tap = Recording(scenario.faults)
        self.simulation = Simulation(replace(scenario, faults=self.tap), data)
        self.simulation.scenario = scenario
        self.sums: list[PublishedSum] = []
        self.compared: list[Compared] = []
        self.answered: list[Answered] = []
        self.updates: dict[tuple[int, Work, int], Vector] = {}
        self.meters: list[tuple[int, dict[str, Any]]] = []
        self._starts: dict[tuple[int, int], Vector] = {}
        self._apart: set[tuple[int, int]] = set()
        self._worked: dict[Instance, Started] = {}
        self._models: dict[str, Vector] = {}
        self._invited: dict[str, frozenset[int]] = {}
        self._known, self._ran_out = 0, dict[int, int]()
        self._scenario = scenario
        self._share = share
        self._every = max(1, scenario.rounds // readings) if readings else 0
        watch = self.simulation.watch
        self._workers, watch.workers = watch.workers, self._work
        self._view: Any = self.simulation.view
        self.simulation.view = Listening(self._view, self._hear)

    def rounds(self) -> Iterator[int]:
        """Play the scenario to its end, yielding after each round."""
        while self.simulation.state.round < self._scenario.rounds:
            self.simulation.step()
            self.read_meters()
            yield self.simulation.state.round

    def read_meters(self) -> None:
        """To be told after each round: reads them where it is time, as a run's summary says it; empty where updates are seen."""
        t, last = self.simulation.state.round, self._scenario.rounds
        for fault in self.faults[self._known :]:
            if PAST_BUDGET in fault.reason:
                self._ran_out.setdefault(fault.blame, t - 1)
        self._known = len(self.faults)
        if self._every and (t == last or t % self._every == 0):
            log = [entry.as_dict() for entry in self._view.record.log]
            self.meters.append((t, said(self.simulation.watch, self._view, log) if self.simulation.watch.on else {}))

    @property
    def faults(self) -> Sequence[Fault]:
        """What went wrong in the protocol until now, and who is to blame."""
        found: Sequence[Fault] = self._view.record.faults
        return found

    @property
    def recorded(self) -> Recorded:
        """What was kept until now."""
        simulation = self.simulation
        mine, outside = self._parts
        clients, masks, public = self._view.harness.run.clients.all, self._mask_keys(), self._public(mine)
        seeds = {i: of_client.admission[1] for i, of_client in sorted(clients.items())}
        sent = CorruptView(SERVER_ALONE, public, tuple(self.tap.frames))
        sketched = sketched_of(sent, self._worked, self._models)
        sketches = foreign_sketches(sent, seeds, sketched, self._view.harness.run.setup.entropy)
        return Recorded(
            public,
            self._view.owner,
            tuple(self.tap.frames),
            dict(self._starts),
            tuple(self.sums),
            tuple(self.compared),
            tuple(self.answered),
            seeds,
            Truth(
                simulation.population,
                dict(self.updates),
                outside,
                dict(self._starts),
                self._compared,
                masks.keys,
                (*masks.wrong, *sketches),
                self._said(),
            ),
            tuple(self.meters),
            simulation.vectors(),
            self._pair_keys(),
            {i: getattr(of_client.roles.get(PAIR_SEED), "seed", b"") for i, of_client in sorted(clients.items())},
            dict(self._ran_out),
            headline(spent(simulation.ledgers)),
            dict(self.tap.arrived),
            frozenset(self._apart),
            masks.opened,
        )

    def seen_by(self, observer: Observer) -> CorruptView:
        """That observer's view of the rounds that were played."""
        return self.recorded.seen_by(observer)

    @property
    def sums_alone(self) -> CorruptView:
        """See `Recorded.sums_alone`."""
        return self.recorded.sums_alone

    @property
    def public(self) -> Public:
        """What everybody knows of the rounds that were played."""
        return self.recorded.public

    @property
    def truth(self) -> Truth:
        """What is true of them."""
        return self.recorded.truth

    def _said(self) -> dict[tuple[int, Work, int], int]:
        """Numbers of samples that clients said that they have, where they have others."""
        has = {i: len(c.train) for i, c in self.simulation.population.clients.items()}
        return {key: work.samples for key, (_, work) in self._worked.items() if work.samples != has[key[2]]}

    def _public(self, auxiliary: Examples) -> Public:
        simulation, scenario, run = self.simulation, self._scenario, self._view.harness.run
        module = deepcopy(simulation.module).cpu()
        load_vector(module, run.setup.initial[: dimension(module)])
        return Public(
            run.setup.run,
            module,
            run.setup.initial,
            scenario.training,
            scenario.algorithm,
            scenario.protection,
            simulation.state.round,
            run.setup.clients,
            simulation.population.classes,
            auxiliary,
            run.network.kinds,
            self._groups,
        )

    @property
    def _parts(self) -> tuple[Examples, Examples]:
        """Test examples of all clients: the attacker's, and those that nobody has.

        Sets of one length are cut alike: groups that differ in labels alone have the same inputs in their test sets.
        """
        clients = self.simulation.population.clients.values()
        mine, rest = list[Examples](), list[Examples]()
        for test in {id(c.test): c.test for c in clients}.values():
            order = np.random.default_rng(seed_of(self._scenario.seed, "auxiliary")).permutation(len(test))
            cut = round(self._share * len(test))
            mine.append(test.take(torch.from_numpy(order[:cut])))
            rest.append(test.take(torch.from_numpy(order[cut:])))
        return _whole(mine), _whole(rest)

    @property
    def _groups(self) -> NDArray[np.int64]:
        """Of the attacker's examples, in order: the planted group of the clients that have their like in their test sets."""
        population = self.simulation.population
        of = {id(c.test): (population.groups.get(i, 0), round(self._share * len(c.test))) for i, c in population.clients.items()}
        return np.repeat(*(np.array(column, np.int64) for column in zip(*of.values(), strict=True)))

    @property
    def _compared(self) -> dict[int, Examples]:
        """The examples that each client is compared by, where it is by embeddings of single ones."""
        embedders = self._view.harness.run.setup.embedders
        clients = self.simulation.population.clients if isinstance(embedders, SimulatedEmbedders) else ()
        return {i: embedders.sample(i, "train") for i in clients}

    def _pair_keys(self) -> dict[int, dict[bytes, bytes]]:
        """By client, of every pair that it was offered to be compared in."""
        run = self._view.harness.run
        found: dict[int, dict[bytes, bytes]] = {i: {} for i in run.clients.all}
        for frame in self.tap.came:
            if frame.kind == PairOffer.__name__ and frame.receiver in found:
                try:
                    envelope = decode(frame.data, frame.sender, len(frame.data), run.network.kinds)
                    terms = PairTerms.offered(envelope.message)
                except (ProtocolError, ValueError):
                    continue  # the client left it, too
                if len(terms.session.roster) == 2:
                    found[frame.receiver][envelope.session] = key_for(terms, frame.receiver, run.setup.entropy).secret
        return found

    def _mask_keys(self) -> OfRun:
        """Of all sums until now; of none that has noise inside."""
        run, how = self._view.harness.run, self._scenario.protection
        if isinstance(how, TwoServer):
            return of_shares(self.tap.frames, run.network.kinds, run.setup.entropy)
        if not isinstance(how, Masked) or how.noise is not None:
            return OfRun()
        charter = self._view.harness.part(MaskedSessions).charter
        return of_sums(self.tap.frames, self.tap.came, run.network.kinds, charter, run.setup.entropy)

    def _work(self, jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork | Unwilling]]:
        made: dict[int, LocalJob] = {job.client: job for job in jobs}
        models = self._view.harness.part(Models).held
        held = {model.tobytes() for model in models.values()}
        self._models |= models
        for client, work in self._workers(jobs):
            job = made[client]
            if job.work in COMPUTED and not isinstance(work, Unwilling) and usable(work.vector):
                self.updates[job.round, job.work, client] = work.vector
                self._starts[job.round, client] = job.start
                self._worked[job.round, job.work, client] = job.start, work
                if self._view.owner == "server" and job.start.tobytes() not in held:
                    self._apart.add((job.round, client))
            yield client, work

    # --- answers ------------------------------------------------------------------------------------------------------

    def _hear(self, asked: str, question: tuple[Any, ...], options: Mapping[str, Any], found: Any) -> None:
        first: Any = question[0] if question else None
        t = self.simulation.state.round
        match asked, found:
            case "train", Mapping():
                for name, updates in found.items():
                    self._invited[updates.name] = frozenset(question[1][name].participants)
            case "gram", Gram():
                origin = bool(options.get("origin", False))
                kind = source_of(first.name)[2]
                self.compared.append(Compared(t, kind, found.clients, found.clients, found.matrix, origin, asked))
            case "recall", Gram():
                self.compared.append(Compared(t, "update", found.clients, found.clients, found.matrix, False, asked))
            case "cosines", np.ndarray():
                self.compared.append(Compared(t, "update", first.clients, question[1].rows, found, False, asked))
            case "gram_with", np.ndarray():
                self.compared += _with_earlier(t, first.clients, question[1].rows, found)
            case "sums" | "train_and_sum", Mapping():
                for name, answer in found.items():
                    if isinstance(answer, Sum):
                        weights: Weights = question[-1][name]
                        of = first if isinstance(first, Updates) else Updates(f"{name}@{t}/update", name, t, (), ())
                        asked_of = self._invited.get(of.name, frozenset()) - set(of.clients)
                        asked_of |= frozenset() if isinstance(first, Updates) else frozenset(question[1][name].participants)
                        self.sums.append(self._sum(of, weights, answer, asked_of.union(weights.of)))
            case _:
                self.answered.append(Answered(t, asked, found))

    def _sum(self, of: Updates, weights: Weights, answer: Sum, wanted: frozenset[int]) -> PublishedSum:
        row = {i: weights.of[i] for i in answer.clients if weights.of.get(i, 0.0) != 0}
        means = self._view.harness.part(Models)
        mean = means.means.get(answer.name)
        if mean is None and (lesson := means.handles.means.get(answer.name)) is not None:
            clients = self._view.harness.run.clients.all
            held = (clients[i].mean(lesson.key) for i in sorted(lesson.clients))
            mean = next((v for v in held if v is not None), None)
        kind, told = source_of(of.name)[2], (answer.weight, answer.energy, mean)
        return PublishedSum(
            of.round, of.cluster, kind, row, weights.times_samples, answer.recipient, *told, wanted.difference(row)
        )


def _with_earlier(t: int, now: tuple[int, ...], earlier: tuple[int, ...], found: NDArray[np.float64]) -> Iterator[Compared]:
    """The Gram matrix of these clients' updates and of what is remembered of those, in its parts."""
    n = len(now)
    if now:
        yield Compared(t, "update", now, now, found[:n, :n], True, "gram_with")
        yield Compared(t, "update", now, earlier, found[:n, n:], True, "with earlier")
    yield Compared(t, "update", earlier, earlier, found[n:, n:], True, "earlier")


def _whole(parts: Sequence[Examples]) -> Examples:
    return Examples(torch.cat([p.x for p in parts]), torch.cat([p.y for p in parts]))


def again(scenario: Scenario, data: Path | None, tap: Tap) -> Recorder:
    """The scenario's first round once more, with this network in place of its own; also where nothing is learned, or a party
    refuses what the network changed and the run ends: what was sent until then was sent. Any other error is one of the code.
    """
    once = Recorder(replace(scenario, faults=tap, rounds=1), data)
    with suppress(ProtocolError, Refused, NothingLearned):
        next(once.rounds())
    return once
