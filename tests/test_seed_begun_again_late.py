"""The agreement on a seed that is begun again, on simulated time: keys of attempts before are lost, or come in later ones."""

import random
from dataclasses import dataclass, field, replace

import pytest

from .torture import play
from .torture.schedule import drawn

ATTEMPTS_LOST = 2
LOST, COMES_LATER, WAITS = 0.7, 0.3, 30.0


@dataclass
class Lossy:
    """A protection whose first attempts lose keys of clients, which it brings in later ones. again: how often they were begun."""

    how: object
    rng: random.Random
    again: int = 0
    kept: list = field(default_factory=list)

    def open(self, setup):
        def gathered(clients, why):
            self.again += 1
            clock = setup.hosts.linked._link.clock
            clock.until(clock.now + WAITS)  # who was away is back

        def tap(frame):
            if frame.kind == "Advertise" and self.again < ATTEMPTS_LOST and self.rng.random() < LOST:
                self.kept.append(frame)
                return []
            later = [self.kept.pop(0)] if self.again and self.kept and self.rng.random() < COMES_LATER else []
            return [*later, *setup.tap(frame)]

        return self.how.open(replace(setup, tap=tap, gathered=gathered))


@pytest.mark.long
@pytest.mark.parametrize("seeds", [range(8130, 8145), range(8205, 8220)], ids=str)
def test_what_comes_of_attempts_before_makes_no_sum_wrong_and_blames_nobody_who_is_honest(seeds, monkeypatch):
    """With crashes, partitions and lies from the first word on: what torture says of each."""
    protection_of, played = play.protection_of, []

    def lossy(schedule):
        played.append(Lossy(protection_of(schedule), random.Random(schedule.seed)))
        return played[-1]

    monkeypatch.setattr(play, "protection_of", lossy)
    broken = {seed: play.play(replace(drawn(seed, None, False), early=True)).broken for seed in seeds}
    assert not {seed: why for seed, why in broken.items() if why}
    assert sum(one.again for one in played) >= 5, "attempts were begun again"
