"""A client that answers every word with nothing of use is in no sum, and is named; and faults of scores are on record."""

import json
import logging
import struct
from dataclasses import replace
from types import SimpleNamespace

import cbor2
import pytest

from cloister.deployment.log import Told
from cloister.fl.runs.experiment import Round
from cloister.fl.runs.member import Member
from cloister.fl.runs.not_summed import counted, not_summed, to_tell
from cloister.protocol.core.errors import Fault
from cloister.protocol.links.terms import grpc_or_words
from cloister.protocol.view.account import Asked, Opened
from cloister.reporting.run_verdict import not_summed_in_words

from .served import SMALL, played

grpc_or_words()
ASKED = [Asked(4, "0", "update", (0, 1, 2, 3, 4), (0, 1, 2, 3))]
OPENED = [Opened(4, "0", "update", {0: 1.0, 1: 1.0, 2: 1.0}, lost=(3,))]


def test_who_is_in_no_sum_though_others_are_and_nobody_knows_why():
    assert not_summed(ASKED, OPENED, [], ()) == {3, 4}
    assert not_summed(ASKED, OPENED, [Fault(4, "late", by=0)], (3,)) == {4}  # another's word is none
    assert not_summed(ASKED, OPENED, [Fault(4, "a message does not decode"), Fault(3, "declined", True)], ()) == set()
    assert not_summed(ASKED, [], [], ()) == set()  # nobody is in one
    left_out = [Opened(4, "0", "update", {0: 1.0, 1: 1.0})]
    assert not_summed(ASKED, left_out, [], (4,)) == set()  # by the method


def test_it_is_counted_until_it_is_in_a_sum_and_told_of_three_rounds():
    counts = counted({}, {3, 4}, OPENED)
    counts = counted(counts, {3, 4}, OPENED)
    assert counts == {3: 2, 4: 2}
    assert (to_tell(counts, 9), to_tell(counts, 2)) == ({}, {3: 2, 4: 2})
    assert counted(counts, {4}, [Opened(5, "0", "update", {3: 1.0})]) == {4: 3}
    assert counted(counts, (), []) == counts


def test_it_is_in_the_log_once_and_in_the_report(caplog):
    told = Told(logging.getLogger("cloister.test"))
    with caplog.at_level("WARNING"):
        for count in (3, 4):
            told.round(Round(count, 9, 1, None, not_summed={4: count}))
    (line,) = [of for of in caplog.records if of.message == "answers, and is in no sum"]
    assert (line.client, line.rounds) == (4, 3)
    run = SimpleNamespace(summary={"not_summed": {"4": 7}}, client=lambda i: f"client-{i}")
    (words,) = not_summed_in_words(run)
    assert words.startswith("There, and in no sum of the last rounds: client-4 (answered in 7 rounds).")
    assert not_summed_in_words(SimpleNamespace(summary={})) == []


@pytest.mark.long
@pytest.mark.trains
def test_a_client_that_answers_with_nothing_and_one_whose_score_is_no_number_are_named(tmp_path, monkeypatch):
    said = Member.said

    def lying(member, data):
        answer = said(member, data)
        client = member._driven.client.id
        sent, learned, refused = cbor2.loads(answer.data) if answer.sent else ((), (), ())
        if client == 3 and any(kind != "Score" for _, kind, _ in sent):
            return replace(answer, data=cbor2.dumps([[], learned, refused]))
        if client == 2 and any(kind == "Score" for _, kind, _ in sent):
            frames = [[to, kind, cbor2.loads(frame)] for to, kind, frame in sent]
            for _, _, items in frames:
                items[5:] = [10, 0, struct.pack(">d", float("nan")), 0]
            return replace(answer, data=cbor2.dumps([[[a, b, cbor2.dumps(c)] for a, b, c in frames], learned, refused]))
        return answer

    monkeypatch.setattr(Member, "said", lying)
    found = played(replace(SMALL, rounds=3), tmp_path, scores=True)
    assert found.summary["not_summed"] == {"3": 3}
    faults = [json.loads(line) for line in (found.folder / "faults.jsonl").read_text().splitlines()]
    assert {of["round"] for of in faults if of["client"] == 2 and "loss is no number" in of["reason"]} == {0, 1, 2}
