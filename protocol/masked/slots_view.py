"""Sums into K slots with the choice hidden, in the view of secure aggregation: two masked sums, as specs/slots.md has them."""

import math
from dataclasses import dataclass

import numpy as np

from ...crypto.fixed_point import FixedPoint, Nearest, WeightedMean
from ..core.errors import Refused
from ..core.session import SERVER
from ..drivers.in_process import Fault
from ..parts.slot_work import check
from ..view.answers import Assignment, BelowFloor, Sum, Updates
from ..view_base import unused
from .server import Summed
from .sessions import Masking, Shape
from .slots import COUNTING, Slots
from .weights_view import WeighingView


@dataclass(frozen=True, slots=True)
class SlotTerms:
    """Public, of a run. spare: clients that may drop out between the counts and the sums; each of them raises by one what a slot
    needs to be opened."""

    ring_bits: int
    clip: float
    spare: int


class MaskedSlots(WeighingView):
    """Answers sums into slots."""

    def _slots(self, round: int, name: str, work: Assignment, most: int, how: SlotTerms) -> tuple[Sum | BelowFloor, ...]:
        count, d = check(work, most), len(self._setup.initial)
        labels = [f"{name}/{k}@{round}" for k in range(count)]
        updates = self._heard(round, {name: work}, "slots", most=most)[name]
        clients = updates.clients
        if len(clients) < max(self._least, 2):
            return tuple(self._unsummed(label, clients) for label in labels)
        try:
            grid = FixedPoint.finest(how.ring_bits, how.clip, len(clients), most)
        except ValueError as error:
            raise Refused(f"slots of {name}: {error}") from None
        slots = Slots(count, d, grid, self._gate.rules.floor, self._gate.rules.corrupt)
        try:
            summed, means = self._counted_and_summed(slots, updates, f"{name}@{round}", how.spare)
        except Refused as error:
            self._network.faults.append(Fault(SERVER, str(error)))
            return tuple(self._unsummed(label, ()) for label in labels)
        found = zip(labels, means, strict=True)
        return tuple(self._unsummed(k, ()) if m is None else self._slot_sum(k, updates, summed, m, grid) for k, m in found)

    def _counted_and_summed(
        self, slots: Slots, updates: Updates, label: str, spare: int
    ) -> tuple[Summed, tuple[WeightedMean | None, ...]]:
        """Both sessions. Raises Refused, and leaves a fault on record, where there are no sums."""
        ones = dict.fromkeys(updates.clients, 1.0)
        size = (32, slots.count, 2, 1.0, 1)  # slots.COUNTS
        counting = self._plan(updates, Shape(f"the counts of {label}", COUNTING, self._least, size, ones, purpose=b"counts"))
        counted = self._mask({f"counts of {label}": Masking(counting, updates)})[f"counts of {label}"]
        if counted is None:
            raise Refused(f"the slots of {label} were not counted")
        words = f"how many clients chose each of {slots.count} slots, of small ones too, and nothing of who did"
        self._disclose(updates.round, "server", "slots", counted.clients, slots.count, words)
        threshold = max(len(counted.clients) - spare, self._least)
        try:
            session, opened = slots.summing(counting.session, counted, threshold, counting.session.cluster)
        except ValueError as error:
            raise Refused(f"the slots of {label} stay shut: {error}") from None
        grid, alive = slots.grid, dict.fromkeys(counted.clients, 1.0)
        shape = (grid.ring_bits, slots.length, grid.bits, grid.clip, grid.max_weight)
        summing = self._plan(updates, Shape(f"the slots of {label}", session.protocol, threshold, shape, alive, purpose=b"sums"))
        summed = self._mask({f"slots of {label}": Masking(summing, updates)})[f"slots of {label}"]
        if summed is None:
            raise Refused(f"the slots of {label} were not summed")
        try:
            with self._network.timed(SERVER):
                return summed, slots.decode(summed, opened)
        except ValueError as error:
            raise Refused(f"the slots of {label} cannot be read: {error}") from None

    def _slot_sum(self, label: str, updates: Updates, summed: Summed, mean: WeightedMean, grid: FixedPoint) -> Sum:
        d, words = len(mean.mean), "the sum and the weight of a slot that enough clients chose, and nothing of who did"
        self._disclose(updates.round, "server", "slots", summed.clients, d + 1, words)
        self._disclose(updates.round, "clients", "slots", summed.clients, d, "the mean update of a slot")
        name = unused(label, self._means)
        self._means[name] = mean.mean
        norm = float(np.linalg.norm(mean.mean.astype(np.float64)))
        error = math.sqrt(d) * grid.error(Nearest())
        return Sum(name, "server", summed.clients, float(mean.weight), 0.0, norm, error)
