"""The shortest schedule that fails in the same way as a given one."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, replace

from .play import play
from .schedule import NEVER, Event, Garble, Schedule

Fails = Callable[[Schedule], bool]


def ways(broken: tuple[str, ...]) -> frozenset[str]:
    """What did not hold, whoever it was about."""
    return frozenset(re.sub(r"\d+", "#", re.sub(r"\[[^]]*\]|\([^)]*\)", "()", line.partition(":")[0])) for line in broken)


def like(schedule: Schedule) -> Fails:
    """Whether another schedule fails in a way in which this one does."""
    found = ways(play(schedule).broken)
    return lambda other: not found.isdisjoint(ways(play(other).broken))


def shrunk(schedule: Schedule, fails: Fails, tries: int = 400) -> Schedule:
    """No event less, and nothing simpler, fails any more. tries: schedules that are played for it at most."""
    left = tries
    smaller = True
    while smaller and left > 0:
        smaller = False
        for candidate in _simpler(schedule):
            left -= 1
            if fails(candidate):
                schedule, smaller = candidate, True
                break
            if left <= 0:
                break
    return schedule


def _simpler(schedule: Schedule) -> Iterator[Schedule]:
    """Half of its events, or all but one; then its own fields, then those of its events."""
    events = schedule.events
    size = len(events)
    if size > 2:
        yield replace(schedule, events=events[: size // 2])
        yield replace(schedule, events=events[size // 2 :])
    for k in range(size):
        yield replace(schedule, events=events[:k] + events[k + 1 :])
    plain = {"rounds": 1, "calm": False, "again": False, "jitter": False, "early": False, "floor": 2, "seed": 0}
    for name, value in plain.items():
        if getattr(schedule, name) != value:
            yield replace(schedule, **{name: value})
    if schedule.colluder is not None and not any(isinstance(event, Garble) for event in events):
        yield replace(schedule, colluder=None, clients=4)
    for k, event in enumerate(events):
        for simpler in _simpler_events(event):
            yield replace(schedule, events=(*events[:k], simpler, *events[k + 1 :]))


def _simpler_events(event: Event) -> Iterator[Event]:
    for field in fields(event):
        value = getattr(event, field.name)
        if field.name == "client" or not isinstance(value, int | float):
            continue
        smaller = (0, value // 2, value - 1) if isinstance(value, int) else (0.0, 2.0, 15.0, NEVER)
        for other in smaller:
            better = other < value if isinstance(value, int) else _rank(other) < _rank(value)
            if better:
                yield replace(event, **{field.name: other})  # type: ignore[arg-type]


def _rank(seconds: float) -> float:
    """Of seconds, the simpler the smaller."""
    return -1.0 if seconds == NEVER else seconds if math.isfinite(seconds) else 0.0
