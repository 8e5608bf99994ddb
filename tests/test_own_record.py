"""What a client's own record says, and its report: what it was sent, when it was not there, that it was revoked."""

import json

import pytest

from cloister.fl.runs.member import Record
from cloister.protocol.links.terms import LinkRevoked
from cloister.reporting.own_presence import BEFORE, NOT_RUNNING, Away, Rounds, absences, outcome, rounds_of
from cloister.reporting.own_record import read_record, received, render


def task(round, time=""):
    return {"time": time, "received": {"what": "Task", "bytes": 100, "model": True}, "round": round}


def update(round, kind="MaskedInput"):
    return {"revealed": [{"what": kind, "bytes": 50}], "to": "coordinator", "round": round}


JOINED = {"joined": "ab", "client": 2, "clients": [0, 1, 2], "protection": "Masked()", "time": "t0"}


def test_rounds_that_a_client_missed_are_told_apart_by_whether_it_was_there():
    lines = [JOINED, task(0), update(0), task(1), update(1), task(3), update(3), {"away": "lost"}, {"back": True}, task(6)]
    lines += [task(7), update(7), JOINED, task(9), update(9)]
    assert rounds_of(lines) == [
        Rounds(0, 1, "its update went into the protocol"),
        Rounds(2, 2, "it was there, and asked for nothing"),
        Rounds(3, 3, "its update went into the protocol"),
        Rounds(4, 5, "it was not there"),
        Rounds(6, 6, "it was asked, and sent nothing of an update"),
        Rounds(7, 7, "its update went into the protocol"),
        Rounds(8, 8, "it was not there"),
        Rounds(9, 9, "its update went into the protocol"),
    ]
    assert rounds_of([JOINED, {"received": {"what": "Task"}, "round": True}, {"round": -1}, {"round": "x"}]) == []
    assert rounds_of([JOINED, task(2**31)])[0] == Rounds(0, 2**31 - 1, BEFORE)  # not one by one


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        (("Ready", "MaskKeys"), "it was ready, and no sum with its update was made: too few were there for a sum, or"),
        (("Declined",), "it was asked, and declined"),
        (("Ready", "MaskedInput"), "its update went into the protocol"),
    ],
)
def test_why_an_update_was_not_sent_is_said(kinds, words):
    (found,) = rounds_of([JOINED, task(0), *(update(0, kind) for kind in kinds)])
    assert found.words.startswith(words)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ([], []),
        ([{"time": "t1", "away": "lost"}, {"time": "t2", "back": True}], [Away("t1", "t2", "lost")]),
        ([{"time": "t1", "away": "lost"}, {"time": "t2", "away": "other"}], [Away("t1", "", "other")]),
        ([{"time": "t1", "told": "x"}, {**JOINED, "time": "t2"}], [Away("t1", "t2", NOT_RUNNING)]),
        ([{"time": "t1", "left": "stopped"}, {**JOINED, "time": "t2"}], [Away("t1", "t2", "stopped")]),
        ([{"time": "t1", "away": "gone"}, {"time": "t2", "left": "revoked", "revoked": True}], [Away("t1", "", "revoked")]),
        ([{"time": "t1", "ended": True}], []),
    ],
    ids=["never", "and back", "once", "killed", "stopped", "revoked", "over"],
)
def test_when_a_client_was_not_there(after, expected):
    assert absences([JOINED, *after]) == expected


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ([{"left": "x", "revoked": True, "time": "t9"}], "Its certificate was revoked: it left a run at t9."),
        ([{"left": "why", "time": "t9"}], "It left a run at t9: why."),
        ([{"ended": True}], "It was there at the end of a run, and was handed no model."),
        ([{"told": "final"}, {"ended": True}], "Took part to the end of a run."),
        ([], "Takes part in, or was cut off from, a run."),
        ([{"left": "why", "time": "t3"}, {"left": "in vain", "time": "t9"}], "It left a run at t3: why."),
        (
            [{"left": "x", "time": "t3"}, {"left": "y", "revoked": True, "time": "t9"}],
            "Its certificate was revoked: it left a run at t3.",
        ),
        ([{"left": "x", "time": "t3"}, JOINED, {"left": "why", "time": "t9"}], "It left a run at t9: why."),
        ([{"left": "x", "revoked": True}, JOINED], "Takes part in, or was cut off from, a run."),
    ],
)
def test_how_it_ended(after, words):
    assert outcome([JOINED, *after], "a run") == words


def test_the_page_says_what_was_sent_to_the_client_and_counts_models(tmp_path):
    lines = [JOINED, task(0), update(0), {"received": {"what": "Mean", "bytes": 7, "model": True}, "round": 0}]
    lines += [{"received": {"what": "NeighbourKeys", "bytes": 9, "model": False}, "round": 0}]
    lines += [{"time": "t5", "left": "the certificate is revoked", "revoked": True}]
    assert [(row.kind, row.times, row.bytes) for row in received(lines)] == [
        ("Task", 1, 100),
        ("Mean", 1, 7),
        ("NeighbourKeys", 1, 9),
    ]
    text = render(lines)
    assert "Its certificate was revoked" in text
    assert "models and means received" in text
    assert "sums received" not in text
    assert "it did not come back" in text


def test_a_record_notes_a_lost_link_once_and_that_it_was_revoked(tmp_path):
    record = Record(tmp_path / "join.jsonl")
    record.connected(True, "")
    record.add(**{key: value for key, value in JOINED.items() if key != "time"})
    record.connected(False, "UNAVAILABLE: gone")
    record.connected(True, "")
    record.left(LinkRevoked("the certificate is revoked"))
    record.left()
    found = read_record(tmp_path / "join.jsonl")
    assert [next(key for key in line if key != "time") for line in found] == ["joined", "away", "back", "left", "left"]
    assert [line.get("revoked") for line in found[-2:]] == [True, None]
    assert json.loads((tmp_path / "join.jsonl").read_text().splitlines()[-1])["left"] == "it was stopped where it runs"
