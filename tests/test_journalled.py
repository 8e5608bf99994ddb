"""A coordinator that crashes goes on from its journal: with nothing lost, and nobody asked or answering twice."""

import shutil

import numpy as np
import pytest

from cloister.protocol import Masked, Plain

from .crashing import Moments, Play, check
from .test_away import MEMBERS

PROTECTIONS = [Plain(), Masked(floor=2)]


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch):
    """What is lost with the machine is drawn here, and not left to the disk."""
    monkeypatch.setattr("cloister.protocol.drivers.event_log.os.fsync", lambda of: None)


def moments_of(protection, folder):
    """How many there are in a run without crashes, and how it ends."""
    play, moments = Play(protection, folder), Moments()
    found = play.life(moments)
    check(found)
    assert [ended[0] for ended in found] == [MEMBERS] * 2
    return moments.seen, found


def check_crashes(protection, folder, share, crashes=1, **how):
    folder.joinpath("whole").mkdir()
    count, expected = moments_of(protection, folder / "whole")
    for at in range(1, count + 1, share):
        shutil.rmtree(folder / "one", ignore_errors=True)
        (folder / "one").mkdir()
        play = Play(protection, folder / "one", seed=at, **how)
        found = play.lives(*[at] * crashes)
        assert not any(end.twice for end in play.ends.values()), at
        check(found)
        if not how.get("absent"):
            for (clients, model, _), (same, other, _) in zip(found, expected, strict=True):
                assert clients == same
                assert np.allclose(model, other, atol=1e-5), at
    return count


@pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
def test_a_crash_at_any_moment_loses_nothing(protection, tmp_path):
    assert check_crashes(protection, tmp_path, 7) > 100


@pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
def test_a_crash_that_also_loses_what_was_not_on_disk_loses_nothing(protection, tmp_path):
    check_crashes(protection, tmp_path, 13, power=True)


@pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
def test_lives_that_crash_one_after_another_lose_nothing(protection, tmp_path):
    check_crashes(protection, tmp_path, 29, crashes=4, power=True)


@pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
def test_with_absent_clients_and_late_answers_sums_are_right_of_those_whom_they_name(protection, tmp_path):
    check_crashes(protection, tmp_path, 11, power=True, absent=0.08)
