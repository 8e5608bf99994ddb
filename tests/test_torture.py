"""Whole deployments on simulated time: no schedule breaks what must hold, and every planted defect is found."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from .torture.defects import DEFECTS
from .torture.exhaustive import PATTERNS, played
from .torture.play import play
from .torture.schedule import PROTECTIONS, Again, Apart, Crash, Cut, Fall, Fate, Lie, Older, Schedule, Silent, drawn
from .torture.shrink import like, shrunk

FOUND = {
    "away when its sum ended": Schedule("masked", (Silent(3, "MaskKeys"), Silent(2, "MaskedInput"))),
    "told twice that a round is over": Schedule("masked", (Again(0, 8, 3),)),
    "a task that comes when its session is over": Schedule("two servers", (Fate("Task", 1, "stale"),), calm=False, again=True),
    "a round's proposal in the next one's session": Schedule("masked", (Lie("Proposal", 7, "relabelled"),), rounds=2, calm=False),
    "answered when nobody waited, just before the calm round": Schedule(
        "two servers", (Fate("Task", 7, "stale"), Fate("KeyShare", 4, "late")), rounds=2, floor=3
    ),
}
"""Schedules that found something, as they were shrunk."""
SCHEDULES, PARTS = 400, 10
QUICK = 40
"""Seeds that a planted defect may take in the quick tests."""


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_stays_cured(name):
    verdict = play(FOUND[name])
    assert not verdict.broken
    assert len(verdict.happened) == len(FOUND[name].events)


def test_a_client_that_falls_when_it_goes_on_after_standing_still_is_there_in_the_calm_round():
    assert play(drawn(2747)).broken == ()


@pytest.mark.long
@pytest.mark.parametrize("protection", PROTECTIONS)
def test_without_events_everybody_is_in_every_answer(protection):
    verdict = play(Schedule(protection, rounds=1, again=True))
    assert not verdict.broken
    assert verdict.ended == Counter({"compared": 2} if protection == "pairs" else {"summed": 4})


@pytest.mark.long
@pytest.mark.sweeps
@pytest.mark.parametrize("part", range(PARTS))
def test_random_schedules_break_nothing(part):
    """One that fails is printed as it is and as the shortest that fails in the same way."""
    for seed in range(part * SCHEDULES // PARTS, (part + 1) * SCHEDULES // PARTS):
        schedule = drawn(seed)
        if broken := play(schedule).broken:
            pytest.fail(f"seed {seed}: {broken}\n{schedule!r}\nin short: {shrunk(schedule, like(schedule))!r}")


@pytest.mark.parametrize("pattern", [(None,) * 4, ("Accepted", None, None, None), ("Reveal", None, None, None)], ids=str)
@pytest.mark.long
def test_a_client_killed_at_any_word_of_a_sum(pattern):
    """Of these silence patterns; all 7^4 of them are played by `python -m tests.torture --exhaustive`."""
    assert pattern in PATTERNS
    ended = Counter()
    for schedule, verdict, _ in played(pattern):
        assert not verdict.broken, schedule
        ended += verdict.ended
    assert ended["summed"]
    assert ended.total() == 61


@pytest.mark.parametrize("protection", PROTECTIONS)
def test_with_clients_that_are_online_a_fifth_of_the_time_runs_end(protection):
    away = tuple(Apart((i,), 3.0 * k + i / 2, 2.4) for i in range(4) for k in range(30))
    verdict = play(Schedule(protection, away, rounds=1 if protection == "encrypted" else 5, jitter=True))
    assert not verdict.broken
    assert verdict.ended.total() == (2 if protection == "encrypted" else 6)


# --- planted defects ----------------------------------------------------------------------------------------------------------


def marked(defect):
    return pytest.param(defect, id=defect.name, marks=pytest.mark.slow if defect.within > QUICK else ())


@pytest.mark.parametrize("defect", [marked(defect) for defect in DEFECTS])
@pytest.mark.long
def test_a_planted_defect_is_found_within_so_many_seeds(defect):
    with defect.planted():
        lines = (line for schedule in defect.schedules() for line in play(schedule).broken)
        assert next((line for line in lines if defect.found in line), None)


@pytest.mark.long
def test_a_schedule_that_fails_is_shrunk_to_what_it_takes():
    defect = next(d for d in DEFECTS if d.name == "stays in a sum that is over")
    with defect.planted():
        long = Schedule("masked", (Cut(0, 3, 0.3), Silent(3, "MaskKeys"), Crash(1, 9, "sent", 2.0), Fall(90)), rounds=2, seed=5)
        assert play(long).broken
        short = shrunk(long, like(long))
        assert short == Schedule("masked", (Silent(3, "MaskKeys"),))
        assert play(eval(repr(short))).broken  # noqa: S307  what is printed can be pasted
    assert not play(short).broken


# --- the simulation itself ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protection", ["masked", "pairs"])
@pytest.mark.long
def test_a_schedule_is_played_alike_in_every_process(protection):
    """Whatever the order of sets and dictionaries of strings is there."""
    code = "from tests.torture.play import play; from tests.torture.schedule import drawn; "
    code += f"print(play(drawn(3, {protection!r})).trace)"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert found == {play(drawn(3, protection)).trace + "\n"}
    assert play(replace(drawn(3, protection), seed=4)).trace + "\n" not in found


OLDER = (Crash(2, 1, "after", 0.0), Fall(10), Older(2, 1))


@pytest.mark.xfail(strict=True, reason="a journal that is older as a whole looks to its client like one that is up to date")
def test_an_older_copy_of_a_journal_is_noticed():
    """The client's, put back when it was killed, in a round that a coordinator that was killed asks for again."""
    assert not play(Schedule("pairs", OLDER, calm=False)).broken


def test_without_the_older_copy_nothing_breaks():
    assert not play(Schedule("pairs", OLDER[:2], calm=False)).broken
