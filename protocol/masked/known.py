"""What everybody knows before a run under secure aggregation: the server proposes by it, clients hold proposals against it."""

import hashlib
import math
from collections.abc import Mapping

from ..parts.charter import Charter, Numbers
from ..parts.leverage import MOST_ROWS
from ..view.protection import Setup
from ..work.sketch_keys import SketchTerms
from ..work.uploads import to_bytes
from .protection import Masked, measurements
from .receiver_opened.terms import OpeningPolicy


def numbers_of(how: Masked, d: int) -> Numbers:
    """Of sums of updates of d coordinates."""
    noise = None if how.noise is None else how.noise.terms
    return Numbers(d, how.ring_bits, how.clip, how.max_samples, how.rules, noise)


def charter_of(how: Masked, setup: Setup, enrolled: Mapping[int, bytes]) -> Charter:
    """Of a run. enrolled: everybody's identity."""
    initial = hashlib.sha256(to_bytes(setup.initial)).digest()
    numbers = numbers_of(how, len(setup.initial))
    span = MOST_ROWS if setup.span is None else setup.span
    return Charter(setup.run, initial, numbers, how.dropped, enrolled, span, starts_apart=setup.starts_apart)


def sketched_of(how: Masked, setup: Setup) -> SketchTerms:
    """Of the run's sketches."""
    d = len(setup.initial)
    return SketchTerms(how.keys, setup.run, d, measurements(how.sketch, d), how.clip * math.sqrt(d))


def opening_policy(how: Masked) -> OpeningPolicy:
    """Of sums that a receiver opens."""
    return OpeningPolicy(how.floor, how.colluding, corrupt=how.corrupt)
