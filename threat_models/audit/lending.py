"""What somebody's own attack is given: the evidence as copies, and no way to what is true of the run.

An attack that writes into what it was given then spoils nothing for the experiments after it, and one that plays the first round
again is shown the observer's view of it, as it would be, and not who uploaded what.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from ...protocol.core.link import Tap
from .experiment import Evidence
from .view import CorruptView


def lent(evidence: Evidence) -> Evidence:
    """The same evidence, of which nothing can be changed: arrays are read-only, tensors and all else are copies of it.

    Its `replay` returns a `CorruptView`: what the evidence's observer sees of the first round, played again.
    """
    kept = dict[int, Any]()
    for array in _large(evidence):
        array.setflags(write=False)
        kept[id(array)] = array
    for public in {view.public for view in _views(evidence)}:
        kept |= {id(part): part for part in (public.kinds, public.training, public.algorithm, public.protection)}
    bare = replace(evidence, replay=None, lessons={})
    copied = deepcopy(bare, kept)
    if evidence.replay is None:
        return copied
    replay, observer = evidence.replay, evidence.view.observer

    def seen(tap: Tap) -> CorruptView:
        found: CorruptView = replay(tap).seen_by(observer)
        return found

    return replace(copied, replay=seen)


def _views(evidence: Evidence) -> list[CorruptView]:
    views = (evidence.view, evidence.shadow, evidence.sums, evidence.pooled)
    return [view for view in views if view is not None]


def _large(evidence: Evidence) -> Iterator[NDArray[Any]]:
    """Arrays of d numbers and more, which are not copied."""
    if evidence.prior is not None:
        yield evidence.prior
    yield from evidence.released.values()
    yield from evidence.known.updates.values()
    yield from evidence.known.starts.values()
    for view in _views(evidence):
        yield view.public.initial
        yield from view.models.values()
        yield from (s.mean for s in view.sums if s.mean is not None)
        for held in view.held.values():
            yield from held.updates.values()
            yield from held.models.values()
