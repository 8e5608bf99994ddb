"""Sums into K slots with the choice hidden, in the view of secure aggregation: two masked sums, as specs/slots.md has them."""

import math
from collections.abc import Sequence

import numpy as np

from ...crypto.fixed_point import FixedPoint, Nearest, WeightedMean
from ..core.errors import LOST_BETWEEN, Refused
from ..core.session import SERVER
from ..parts.charter import Numbers
from ..parts.held import HeldUpdates
from ..parts.models import Models
from ..parts.run import Run
from ..parts.slot_words import counts_in_words, too_few_chose
from ..view.answers import Assignment, BelowFloor, Sum, Updates
from ..view.functionality import Functionality
from ..work.slot_work import check
from .masking import MaskedSessions
from .server import Unmasked
from .shape import Shape
from .slots import COUNTING, SlotLayout


class MaskedSlots:
    """Answers sums into slots. spare: clients that may drop out between the counts and the sums; each of them raises by one what
    a slot needs to be opened."""

    def __init__(
        self, run: Run, models: Models, held: HeldUpdates, sessions: MaskedSessions, numbers: Numbers, spare: int, noisy: bool
    ) -> None:
        self._run = run
        self._models = models
        self._held = held
        self._sessions = sessions
        self._numbers = numbers
        self._spare = spare
        self._noisy = noisy

    def slots(self, round: int, name: str, work: Assignment, most: int = 1, /) -> Sequence[Sum | BelowFloor]:
        """See `Slots`."""
        run, how = self._run, self._numbers
        run.allow(Functionality.SLOTS)
        if self._noisy:
            raise Refused("noise covers one sum of each client a round, not its slots; leave protection.noise out")
        unsummed, rules = run.record.unsummed, run.gate.rules
        count, d = check(work, most), len(run.setup.initial)
        labels = [f"{name}/{k}@{round}" for k in range(count)]
        updates = self._held.hear(round, {name: work}, "slots", most=most)[name]
        clients = updates.clients
        if len(clients) < max(rules.least, 2):
            return tuple(unsummed(label, clients) for label in labels)
        run.gate.into_slots(updates.name, clients)
        try:
            grid = FixedPoint.finest(how.ring_bits, how.clip, len(clients), most)
        except ValueError as error:
            raise Refused(f"slots of {name}: {error}") from None
        slots = SlotLayout(count, d, grid, rules.floor, rules.corrupt)
        try:
            summed, means, shut = self._counted_and_summed(slots, updates, f"{name}@{round}")
        except Refused as error:
            run.record.fault(SERVER, str(error))
            return tuple(unsummed(label, (), shut=str(error)) for label in labels)
        answers = tuple(
            unsummed(label, (), shut=why) if mean is None else self._slot_sum(label, updates, summed, mean, grid)
            for label, mean, why in zip(labels, means, shut, strict=True)
        )
        run.record.open_slots(round, name, answers)
        return answers

    def _counted_and_summed(
        self, slots: SlotLayout, updates: Updates, label: str
    ) -> tuple[Unmasked, tuple[WeightedMean | None, ...], tuple[str, ...]]:
        """Both sessions, and why a slot would stay shut. Raises Refused, and puts a fault on record, where there are no sums."""
        run, sessions, least = self._run, self._sessions, self._run.gate.rules.least
        ones = dict.fromkeys(updates.clients, 1.0)
        size = (32, slots.count, 2, 1.0, 1)  # slots.COUNTS
        counting = sessions.plan(updates, Shape(f"the counts of {label}", COUNTING, least, size, ones, purpose=b"counts"))
        counted = sessions.mask({f"counts of {label}": counting})[f"counts of {label}"]
        if counted is None:
            raise Refused(f"the slots of {label} were not counted")
        try:
            counts = slots.decode_counts(counted)
        except ValueError:
            counts = None  # `summing` says so
        words = counts_in_words(counts, len(counted.clients))
        run.record.disclose(updates.round, "server", "slots", counted.clients, slots.count, words)
        threshold = max(len(counted.clients) - self._spare, least)
        try:
            session, opened = slots.summing(counting.session, counted, threshold, counting.session.cluster)
        except ValueError as error:
            raise Refused(f"the slots of {label} stay shut: {error}") from None
        least = slots.floor + slots.margin(len(counted.clients), threshold)
        shut = tuple(too_few_chose(n, least, len(counted.clients) - threshold) for n in counts or ())
        grid, alive = slots.grid, dict.fromkeys(counted.clients, 1.0)
        shape = (grid.ring_bits, slots.length, grid.bits, grid.clip, grid.max_weight)
        asked = Shape(f"the slots of {label}", session.protocol, threshold, shape, alive, purpose=b"sums")
        summing = sessions.plan(updates, asked)
        summed = sessions.mask({f"slots of {label}": summing})[f"slots of {label}"]
        if summed is None:
            raise Refused(f"the slots of {label} {LOST_BETWEEN}")
        try:
            with run.timed():
                means = slots.decode(summed, opened)
        except ValueError as error:
            raise Refused(f"the slots of {label} cannot be read: {error}") from None
        lost = len(counted.clients) - len(summed.clients)
        amiss = [
            "" if mean is None else slots.amiss(k, mean, chose, lost)
            for k, (mean, chose) in enumerate(zip(means, counts or (), strict=True))
        ]
        for why in filter(None, amiss):
            run.record.fault(SERVER, f"the slots of {label}: {why}")
        return (
            summed,
            tuple(None if why else mean for mean, why in zip(means, amiss, strict=True)),
            tuple(why or few for why, few in zip(amiss, shut, strict=True)),
        )

    def _slot_sum(self, label: str, updates: Updates, summed: Unmasked, mean: WeightedMean, grid: FixedPoint) -> Sum:
        d, words = len(mean.mean), "the sum and the weight of a slot that enough clients chose"
        record, carried = self._run.record, self._run.setup.carried
        record.disclose(updates.round, "server", "slots", summed.clients, d + 1, words + carried)
        record.disclose(updates.round, "clients", "slots", summed.clients, d, "the mean update of a slot" + carried)
        name = self._models.mean_name(label)
        self._models.means[name] = mean.mean
        norm = float(np.linalg.norm(mean.mean.astype(np.float64)))
        error = math.sqrt(d) * grid.error(Nearest())
        return Sum(name, "server", summed.clients, float(mean.weight), 0.0, norm, error)
