"""A coordinator that takes a client and drops it in turn, or says things without end, does not fill the client's disk."""

import asyncio
import json
import random

import pytest

from cloister.fl.runs import member
from cloister.fl.runs.member import LOG, OwnRecord
from cloister.protocol.links import dialled
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.pauses import Pauses

NIGHT = 8 * 3600


class Over(Exception):
    """The night is."""


class FakeTime:
    """On which seconds pass by being waited for."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    async def sleep(self, seconds):
        self.now += seconds
        if self.now > NIGHT:
            raise Over


class Dropped(Dialled):
    """A client at a coordinator that takes it for so many seconds, in turn, each time, and says why in so many words."""

    def __init__(self, clock, lasting):
        super().__init__("127.0.0.1:1", None, 0)
        self._clock, self._lasting = clock, lasting

    async def _connected(self):
        self._greet(b"run", 1, b"")
        self._clock.now += self._lasting[self.connections % len(self._lasting)]
        return f"DROPPED {self.connections}: {'x' * 200}"


def of_a_night(monkeypatch, tmp_path, lasting):
    """The lines of its record, and the link."""
    clock, record = FakeTime(), OwnRecord(tmp_path / LOG)
    monkeypatch.setattr(dialled.time, "monotonic", clock.monotonic)
    monkeypatch.setattr(dialled.asyncio, "sleep", clock.sleep)
    monkeypatch.setattr(dialled.random, "uniform", random.Random(0).uniform)
    monkeypatch.setattr(dialled.log, "warning", lambda *_, **__: None)
    link = Dropped(clock, lasting)
    link.noted = record.connected
    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(Over):
            loop.run_until_complete(link._connect_again())
    finally:
        loop.close()
        record.close()
    return [json.loads(line) for line in (tmp_path / LOG).read_text().splitlines()], link


@pytest.mark.parametrize("lasting", [(0.0,), (9.9,), (0.0, 0.0, 10.1)], ids=["no time", "nearly long enough", "long in between"])
def test_a_coordinator_that_takes_it_and_drops_it_all_night_writes_a_line_in_two_seconds_at_most(lasting, monkeypatch, tmp_path):
    """Two for each connection: that it is back, and away. At most NIGHT / 2 lines, 14,400 of 300 bytes, which are 4 MB."""
    lines, link = of_a_night(monkeypatch, tmp_path, lasting)
    assert {key for line in lines for key in line} == {"time", "away", "back"}
    assert link.connections > 1000, "it comes back all the same"
    assert len(lines) <= NIGHT / 2
    assert (tmp_path / LOG).stat().st_size <= 300 * NIGHT / 2


def test_who_was_dropped_a_few_times_in_a_row_is_back_at_once():
    """As of a coordinator that is started again: the first five do not count, nor any before one that stood."""
    pauses, waited = Pauses(), []
    for stood in (0, 0, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0, 60):
        pauses.connected(stood)
        waited.append(pauses.next())
    assert waited == [0.2] * 11 + [0.4, 0.8, 0.2]


def test_a_record_that_is_as_long_as_no_run_needs_takes_no_more_and_says_what_to_do(monkeypatch, tmp_path):
    """Also not from a client that is started again and again: its beginning is a line, too."""
    line = len('{"time": "2026-01-01T00:00:00Z", "started": true}\n')
    monkeypatch.setattr(member, "MOST_BYTES", 3 * line)
    for _ in range(3):
        record = OwnRecord(tmp_path / LOG)
        record.add(started=True)
        record.close()
    record = OwnRecord(tmp_path / LOG)
    with pytest.raises(OSError, match=r"join.jsonl: \d+ bytes, more than a run needs: .*; find out why, and move that file"):
        record.add(started=True)
    record.left()
    record.close()
    assert (tmp_path / LOG).stat().st_size == 3 * line
