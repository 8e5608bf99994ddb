"""Whole deployments on simulated time: what random schedules, and those that once failed, must not break."""

import pytest

from .torture.play import play
from .torture.schedule import Again, Fate, Schedule, Silent

FOUND = {
    "away when its sum ended": Schedule("masked", (Silent(3, "MaskKeys"), Silent(2, "MaskedInput"))),
    "told twice that a round is over": Schedule("masked", (Again(0, 8, 3),)),
    "a task that comes when its session is over": Schedule("two servers", (Fate("Task", 1, "stale"),), calm=False, again=True),
}
"""Schedules that found something, as they were shrunk."""


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_stays_cured(name):
    verdict = play(FOUND[name])
    assert not verdict.broken
    assert len(verdict.happened) == len(FOUND[name].events)
