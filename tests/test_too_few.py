"""Rounds to which fewer clients came than a sum needs, while others may be back: they are waited for."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from cloister.fl.runs.member import Member
from cloister.fl.runs.too_few import HELPERS, Rests, wait_for_enough
from cloister.protocol.core.errors import FEW_KEYS, OF_NO_COUNTS, Fault
from cloister.protocol.core.session import SECOND_SERVER
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.pauses import LONGEST_PAUSE
from cloister.protocol.links.terms import Limits, grpc_or_words
from cloister.protocol.view.answers import BelowFloor

from .served import SMALL, played
from .test_served_to_nobody import Links

grpc_or_words()
UNOPENED = BelowFloor("0@1", (0, 1, 2), 2)


@pytest.mark.long
@pytest.mark.trains
def test_a_run_waits_for_those_whom_its_sums_need_and_goes_on_with_them(tmp_path, monkeypatch, caplog):
    """Before: the rounds that were left were over in no time, with one client there, and none of them had a sum."""
    works, answer, slow = Member._works, Dialled.answer, {1: False, 2: False, 3: False}

    def worked(member, workers, client, jobs):
        if slow.get(client) is False:
            slow[client] = True
        yield from works(member, workers, client, jobs)

    def slowly(link, number, data):
        if slow.get(link.standing.party):
            slow[link.standing.party] = None
            time.sleep(5.0)
        answer(link, number, data)

    monkeypatch.setattr(Member, "_works", worked)
    monkeypatch.setattr(Dialled, "answer", slowly)
    found = played(replace(SMALL, rounds=6), tmp_path, limits=Limits(at_most=2.0))
    assert "too few are there for a sum" in caplog.messages
    assert [line["round"] for line in found.read("metrics.jsonl") if line["below_floor"]] == [0]


def test_those_are_waited_for_without_whom_there_is_no_sum_and_who_may_be_back(caplog):
    links = Links(there=(-2, 0, 1), come=(2,))
    wait_for_enough(links, range(5), 3, 90.0)
    assert links.waited == [(3, 90.0), (5, LONGEST_PAUSE + 5.0)]
    (line,) = [of for of in caplog.records if of.message == "too few are there for a sum"]
    assert (line.there, line.need, line.waits_for) == (["client-0", "client-1"], 3, ["client-2", "client-3", "client-4"])
    caplog.clear()
    links = Links(there=(0, 1, 2), behind=(1, 2))
    wait_for_enough(links, range(3), 3, 9.0)
    assert links.waited == [(3, 9.0)]  # and then it is played with those that there are
    assert caplog.messages == ["too few are there for a sum", "too few came"]


@pytest.mark.parametrize(
    "links",
    [
        Links(there=(0, 1, 2)),  # as many as a sum needs
        Links(there=(-2,)),  # nobody, who is waited for otherwise
        Links(there=(0, 1), revoked=(2, 3, 4)),  # who is left is too few for good
    ],
)
def test_nobody_else_is_waited_for(links):
    wait_for_enough(links, range(5), 3, 9.0)
    assert not links.waited


DOUBLING = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0)


def of_rounds() -> SimpleNamespace:
    return SimpleNamespace(below_floor=[], opened=[], faults=[])


def test_after_rounds_without_a_sum_the_next_one_waits_longer_each_time_while_somebody_is_away(caplog):
    """As many may be there as a sum needs, and no cluster or cohort has so many of them."""
    rests, record, links = Rests(), of_rounds(), Links(there=(0, 1, 2, 3))
    rests.before(record, (), True)
    rests.rest(links, range(6))
    for _ in range(9):
        record.below_floor.append(UNOPENED)
        rests.before(record, (), True)
        rests.rest(links, range(6))
    assert links.waited == [(5, seconds) for seconds in DOUBLING]
    assert caplog.records[-1].waits_for == ["client-4", "client-5"]
    rests.rest(Links(there=range(6)), range(6))  # all are there
    record.opened.append("a sum")
    record.below_floor.append(UNOPENED)  # of another cluster
    rests.before(record, (), True)
    rests.rest(links, range(6))
    assert len(links.waited) == 9


def test_rests_double_while_a_server_stands_still_and_end_when_it_answers():
    """Ten rounds were lost within four seconds, and with them the run, where a second server stood still for twelve."""
    rests, record, links = Rests(), of_rounds(), Links(there=range(6))
    for missed in [*[HELPERS[:1]] * 9, (), HELPERS[1:]]:
        rests.before(record, missed, True)
        rests.rest(links, range(6))
    assert links.paused == [*DOUBLING, 1.0]


def test_a_second_server_that_answers_what_is_of_no_use_is_waited_for_too(caplog):
    """All rounds that were left were over in seconds, where clients could not reach it for eight."""
    rests, record, links = Rests(), of_rounds(), Links(there=range(6))
    rests.before(record, (), True)
    for _ in range(3):
        record.faults.append(Fault(SECOND_SERVER, f"it says that it has the keys of 0 of the 6 {FEW_KEYS}"))
        rests.before(record, (), True)
        rests.rest(links, range(6))
    assert links.paused == [1.0, 2.0, 4.0]
    assert caplog.records[-1].parties == ["second-server"]
    record.faults.append(Fault(SECOND_SERVER, "a client's word of it", by=3))
    rests.before(record, (), True)
    record.faults.append(Fault(SECOND_SERVER, "another cluster's sum"))
    record.opened.append("a sum")
    rests.before(record, (), True)
    rests.rest(links, range(6))
    assert len(links.paused) == 3


@pytest.mark.parametrize("before", [True, False])
def test_what_an_input_spoilt_is_not_asked_for_again_at_once(caplog, before):
    """There is somebody to find; a run that never had a sum ends after ten."""
    rests, record, links = Rests(), of_rounds(), Links(there=range(6))
    rests.before(record, (), before)
    for _ in range(2):
        record.below_floor.append(replace(UNOPENED, clients=(), shut=f"6 clients {OF_NO_COUNTS}"))
        rests.before(record, (), before)
        rests.rest(links, range(6))
    assert links.paused == [1.0, 2.0] * before
