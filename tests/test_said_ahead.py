"""What commands that play a grid say before they begin, and of how long the rest may take."""

from pathlib import Path

import pytest

from cloister.comparing.play import _runs_words
from cloister.evaluating.breaking import breakdown_asked
from cloister.evaluating.play import _cells_words
from cloister.grids.ahead import Pace, begun, hands_words
from cloister.grids.watching import counted

from . import comparison_sample
from . import evaluation_sample as sample


class Clock:
    """Seconds, as they are set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_rest_is_estimated_after_the_first_cells_and_whenever_twice_as_many_are_over() -> None:
    clock = Clock()
    pace = Pace("cells", 100, clock=clock)
    said = {}
    for k in range(1, 101):
        clock.now = 60.0 * k
        if words := pace.over():
            said[k] = words
    assert [*said] == [4, 8, 16, 32, 64]
    assert said[4] == ("the first 4 took 4 min; at their pace the other 96 cells take about 1.6 h, though they need not be alike")


def test_cells_that_nobody_played_say_nothing_of_those_that_will_be() -> None:
    clock = Clock()
    pace = Pace("cells", 24, most=True, clock=clock)
    assert not any(pace.over(played=False) for _ in range(10))
    said = []
    for _ in range(4):
        clock.now += 30
        said.append(pace.over())
    assert said[:3] == [""] * 3
    assert "the other 10 cells take at most about 5 min" in said[3]


def test_what_is_over_at_once_is_not_estimated() -> None:
    clock = Clock()
    pace = Pace("cells", 40, clock=clock)
    for _ in range(40):
        clock.now += 0.1
        assert pace.over() == ""


def test_how_much_there_is_where_it_goes_and_who_plays_it(capsys: pytest.CaptureFixture[str]) -> None:
    begun("tiny: 12 cells", Path("runs/tiny"), 3, hands_words(2, "local"))
    begun("tiny: 12 cells", Path("runs/tiny"), by=hands_words(None, "ray"))
    begun("tiny: 12 cells", Path("runs/tiny"), aside=17)
    assert capsys.readouterr().err.splitlines() == [
        "tiny: 12 cells, 3 known already, played by 2 processes; results go to runs/tiny",
        "tiny: 12 cells; results go to runs/tiny",
        "tiny: 12 cells, 17 in the folder are of other settings or cells, and are left aside; results go to runs/tiny",
    ]


def test_each_grid_is_counted_in_its_own_words() -> None:
    assert _cells_words(sample.evaluation) == "20 cells (4 without attack, 16 under attack)"
    assert _runs_words(comparison_sample.tiny).endswith("of the table)")
    names, most = dict.fromkeys(("attack", "defence", "protection")), {"least": None, "most": 6.0, "step": None}
    asked = breakdown_asked(sample.evaluation, names, most, {})
    assert asked.in_words == "8 searches, each of some of 6 strengths from 1 to 6 (attackers)"


def test_the_first_failure_of_a_grid_is_said_when_it_comes(capsys: pytest.CaptureFixture[str]) -> None:
    rows = iter([{"status": "done"}, *({"status": "failed", "reason": why} for why in ("no such trigger", "another"))])
    played = counted(rows, "tiny", 0, 3, always=True, quiet=True)
    next(played)
    assert capsys.readouterr().err == ""
    next(played)
    told = capsys.readouterr().err
    assert told == "a first one failed: no such trigger; the others are played, and what failed is again with --resume\n"
    assert [row["reason"] for row in played] == ["another"]
    assert capsys.readouterr().err == ""
