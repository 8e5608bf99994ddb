"""What a client's own record says, and its report: what it was sent, when it was not there, that it was revoked."""

import html
import json
import re
from dataclasses import fields, is_dataclass

import pytest

from cloister.fl.algorithms.emd_cfl import EMDCFL
from cloister.fl.algorithms.fedsac import FedSaC
from cloister.fl.algorithms.fpfc import FPFC
from cloister.fl.algorithms.pacfl import PACFL
from cloister.fl.runs.joining import is_over
from cloister.fl.runs.member import OwnRecord, compared_in_words
from cloister.fl.runs.shared_words import shared_in_words
from cloister.protocol.encrypted import messages as encrypted
from cloister.protocol.links.terms import LinkRevoked
from cloister.protocol.masked import messages as masked
from cloister.protocol.pairs.choices import DISTANCES, SERVER_SAMPLES
from cloister.protocol.pairs.noise import OF
from cloister.protocol.two_servers import messages as two_servers
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.wire import messages as plain
from cloister.reporting.own_choices import choices, who_can_tell
from cloister.reporting.own_presence import (
    BEFORE,
    BROKE_OFF,
    MISSED,
    NOT_ASKED,
    NOT_RUNNING,
    SHUT,
    TOOK,
    UNTOLD,
    Away,
    Rounds,
    absences,
    outcome,
    rounds_of,
    without_it,
)
from cloister.reporting.own_record import in_short, read_record, received, render
from cloister.reporting.own_record import revealed as revealed_rows
from cloister.reporting.own_slots import zeros_named
from cloister.reporting.own_words import OF_DATA, SAID, UPLOADED

MESSAGES = {
    name: kind
    for module in (plain, two_servers, masked, encrypted)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and is_dataclass(kind) and hasattr(kind, "kind")
}


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
        Rounds(2, 2, NOT_ASKED),
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
        (("Ready", "MaskKeys"), "it was ready, and no sum with its update was made: too few were there for one,"),
        (("Declined",), "it was asked, and declined"),
        (("Ready", "Declined, weights"), "it was asked, and declined"),
        (("Ready", "MaskedInput"), "its update went into the protocol"),
    ],
)
def test_why_an_update_was_not_sent_is_said(kinds, words):
    (found,) = rounds_of([JOINED, task(0), *(update(0, kind) for kind in kinds)])
    assert found.words.startswith(words)


def test_shares_of_which_a_client_was_cut_off_may_not_have_come():
    """Under TwoServer it is not told who is in a sum: killed once they were on record, it said that its update was in."""
    over = {"received": {"what": "RoundOver"}, "round": 0}
    lines = [JOINED, task(0), update(0, "ExplicitShare"), over, task(1), update(1, "ExplicitShare"), {"started": True}, JOINED]
    lines += [task(2), update(2, "ExplicitShare"), {"received": {"what": "RoundOver"}, "round": 2}]
    found = rounds_of(lines)
    assert [of.words for of in found] == ["its update went into the protocol", UNTOLD, "its update went into the protocol"]
    assert without_it(found, "TwoServer()").startswith("Round 1 (perhaps: it was not told) went on without it")


def test_why_it_declined_is_said_where_its_record_has_it():
    """Of one that was away when clients were split, "was handed no model" had no reason anywhere."""
    split = "no key of the split that this sketch would be compared with"
    lines = [JOINED, task(0), update(0), task(1), update(1, "Declined") | {"said": split}]
    first, second = rounds_of(lines)
    assert first.words == "its update went into the protocol"
    assert second.words.startswith(f"it was asked, and declined: {split}: whoever was not there when clients were split")
    assert without_it([first, second], "Masked()").startswith("Round 1 went on without it")


def test_a_round_that_a_client_was_killed_in_may_have_gone_on_without_it():
    """Its sum over the others, beside that of the round before, is what isolates it; its page left that round out."""
    killed = [JOINED, task(0), update(0), task(1), update(1, "Ready"), {"started": True}, JOINED, task(4), update(4)]
    found = rounds_of(killed)
    assert [(of.first, of.last, of.words) for of in found[1:3]] == [(1, 1, BROKE_OFF), (2, 3, MISSED)]
    assert without_it(found, "Masked()").startswith("Rounds 1 (perhaps: it was not told), 2 to 3 went on without it")
    over = {"received": {"what": "RoundOver"}, "round": 1}  # what is between rounds is of none
    (_, second, *_) = rounds_of([*killed[:5], over, *killed[5:]])
    assert second.words.startswith("it was ready, and no sum with its update was made")
    (_, last) = rounds_of([*killed[:5], {"away": "lost"}])
    assert last.words == BROKE_OFF


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
        (
            [{"time": "t1", "told": "x"}, {"time": "t5", "started": True}, {**JOINED, "time": "t6"}],
            [Away("t1", "t6", NOT_RUNNING)],
        ),
        (
            [
                {"time": "t1", "told": "x"},
                {"time": "t5", "started": True},
                {"time": "t5", "away": "refused"},
                {**JOINED, "time": "t6"},
            ],
            [Away("t1", "t5", NOT_RUNNING), Away("t5", "t6", "refused")],
        ),
        ([{"time": "t1", "ended": True}, {"time": "t5", "started": True}, {"time": "t5", "away": "x"}, {"left": "y"}], []),
        ([{"time": "t1", "told": "x"}, {"time": "t5", "started": True}], [Away("t1", "", NOT_RUNNING)]),
    ],
    ids=["never", "and back", "once", "killed", "stopped", "revoked", "over", "started", "in vain", "over again", "starting"],
)
def test_when_a_client_was_not_there(after, expected):
    assert absences([JOINED, *after]) == expected


def test_what_lies_before_a_client_was_first_taken_is_no_absence():
    waited = [{"time": "s0", "started": True}, {"time": "s1", "away": "nobody there"}, {"time": "s2", "started": True}, JOINED]
    assert absences(waited) == []
    assert absences([*waited, {"time": "t1", "away": "lost"}]) == [Away("t1", "", "lost")]
    page = render(waited)
    assert "started 2 times" in page
    assert "started 1 time" in render([{"started": True}, JOINED])


def test_a_client_whose_run_is_over_joins_no_more(tmp_path):
    lines = [JOINED, {"received": {"what": "final"}}, {"told": "final"}]
    log = tmp_path / "join.jsonl"

    def noted(*more):
        log.write_text("".join(json.dumps(line) + "\n" for line in (*lines, *more)) + '{"cut')
        return is_over(tmp_path)

    assert not is_over(tmp_path)
    (tmp_path / "model.safetensors").touch()
    assert not noted()
    assert noted({"ended": True})
    assert noted({"ended": True}, {"started": True}, {"left": "in vain"})
    assert not noted({"ended": True}, JOINED)
    noted()
    with pytest.raises(ValueError, match="is the folder of client 2, and this is client 3: give its own as --folder"):
        is_over(tmp_path, 3)
    assert not is_over(tmp_path, 2)
    (tmp_path / "model.safetensors").unlink()
    assert not noted({"ended": True})  # handed none: a run that was ended early may go on


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (
            [{"ended": True}, {"started": True}, {"left": "in vain", "time": "t9"}],
            "It was there when the coordinator ended a run, or stopped",
        ),
        ([{"left": "x", "revoked": True, "time": "t9"}], "Its certificate was revoked: it left a run at t9."),
        (
            [{"away": "x", "time": "t3"}, {"left": "x", "revoked": True, "time": "t9"}],
            "Its certificate was revoked: it left a run at t3.",
        ),
        ([{"left": "why", "time": "t9"}], "It left a run at t9: why."),
        (
            [{"ended": True}],
            "It was there when the coordinator ended a run, or stopped and may go on, and was handed no model.",
        ),
        (
            [{"ended": True, "why": "no sum"}],
            "It was there when the coordinator ended a run, or stopped and may go on, and was handed no model. The coordinator"
            " said why: no sum.",
        ),
        ([{"told": "final"}, {"ended": True}], "Took part to the end of a run."),
        ([], "Takes part in, or was cut off from, a run: in the second case its rounds went on without it from there."),
        ([{"left": "why", "time": "t3"}, {"left": "in vain", "time": "t9"}], "It left a run at t3: why."),
        (
            [{"left": "x", "time": "t3"}, {"left": "y", "revoked": True, "time": "t9"}],
            "Its certificate was revoked: it left a run at t3.",
        ),
        ([{"left": "x", "time": "t3"}, JOINED, {"left": "why", "time": "t9"}], "It left a run at t9: why."),
        ([{"left": "x", "revoked": True}, JOINED], "Takes part in, or was cut off from, a run: in the second case"),
    ],
)
def test_how_it_ended(after, words):
    assert outcome([JOINED, *after], "a run").startswith(words)


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
    assert "messages with a model or a mean" in text
    assert "sums received" not in text
    assert "it did not come back" in text


def test_messages_that_have_a_number_of_records_in_clear_say_so_and_no_others():
    """In sentences that are about its data."""
    clear = {kind for kind, message in MESSAGES.items() if "samples" in {field.name for field in fields(message)}}
    said = {kind for kind, (words, _) in SAID.items() if "number of its records" in words and "hidden" not in words}
    assert said | {"Upload"} == clear
    assert clear <= OF_DATA
    assert all("number of its records" in words for words in UPLOADED.values())


@pytest.mark.parametrize(
    ("revealed", "spent", "words"),
    [
        ([], {}, "It revealed nothing of its data."),
        (["Ready", "Accepted"], {}, "It revealed nothing of its data."),
        (
            ["MaskedInput", "MaskedInput", "Score"],
            {},
            "Of its data it revealed its update, hidden by masks that vanish in the sum (2 messages to the coordinator); how well"
            " it predicts its own test records (1 message to the coordinator). No epsilon bounds it.",
        ),
        (
            ["ExplicitShare", "KeyShare", "Ready"],
            {},
            "Of its data it revealed a share of its update, which says nothing without the other, and the number of its records,"
            " as it is (1 message to the coordinator). No epsilon bounds it.",
        ),
        (["MaskedInput"], {"record": {"epsilon_worst": 1.2341}}, "Epsilon of what stands under noise: 1.24 for a single record."),
        (
            ["MaskedInput"],
            {"client": {"epsilon_worst": 1.2341, "delta": 1e-5}},
            ": 1.24 at delta 1e-05 for a single client.",
        ),
    ],
)
def test_the_headline_says_what_was_revealed_of_its_data_and_what_bounds_it(revealed, spent, words):
    rows = revealed_rows([{"revealed": [{"what": kind, "bytes": 8}]} for kind in revealed], "Masked()")
    assert in_short(rows, spent).endswith(words)


def test_sketches_about_the_origin_are_named_and_no_epsilon_is_said_to_bound_them():
    """Before, the page called them the result of its work, and lacked who could read them, where more is sent than of a split."""
    of = "Masked(sketch=64, keys='session', floor=3, corrupt=1, noise=Noise())"
    spent = {"client": {"epsilon_worst": 17.0, "delta": 1e-5, "budget": 20.0}}
    joined = {**JOINED, "protection": of, "parameters": 300}
    lines = [joined, task(0), update(0, "Upload"), update(0), update(0, "Score"), {"spent": spent}]
    page = " ".join(render(lines).split())
    sketch = "a sketch of its whole update, by a secret of the clients"
    assert f"It does not bound what has no noise: {sketch}; how well it predicts its own test records." in page
    assert "The coordinator and any one other client could read its sketch: 64 numbers" in page
    assert "the result of its work" not in page
    trained = {"record": spent["client"]}
    rows = revealed_rows([{"revealed": [{"what": kind, "bytes": 8}]} for kind in ("Upload, sketch", "MaskedInput")], "Masked()")
    assert "no noise" not in in_short(rows, trained), "a sketch of what was trained with noise has it"
    plain = render([{**JOINED, "protection": "Plain()"}, task(0), update(0, "Upload")])
    assert "its update and the number of its records, as they are" in plain


def test_the_headline_tells_a_client_that_said_how_well_it_predicts_from_one_that_kept_it():
    sent = {"revealed": [{"what": "Score", "bytes": 8}]}
    empty = {"revealed": [{"what": "Score, empty", "bytes": 4}]}
    kept = [{"withheld": "how well it predicts its own test records"}, empty] * 3
    rows = revealed_rows([JOINED, *kept], "Masked()")
    assert [(row.words, row.times) for row in rows] == [("that it does not say how well it predicts", 3)]
    assert in_short(rows, {}) == "It revealed nothing of its data."
    rows = revealed_rows([JOINED, sent, *kept, JOINED, sent], "Masked()")
    assert [(row.words, row.times) for row in rows] == [
        ("how well it predicts its own test records", 2),
        ("that it does not say how well it predicts", 3),
    ]


def test_a_record_notes_a_lost_link_once_and_that_it_was_revoked(tmp_path):
    record = OwnRecord(tmp_path / "join.jsonl")
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


def test_which_models_it_chose_is_said_by_rounds_the_last_word_of_each():
    lines = [{"chose": shares, "round": t} for t, shares in ((0, [0, 1, 0]), (1, [1, 0, 0]), (1, [0, 7, 0]), (2, [3, 0, 1]))]
    lines += [{"chose": [1, 0], "round": -1}, {"chose": "x", "round": 3}, {"chose": [], "round": 4}]
    found = [(one.named, one.words) for one in choices(lines)]
    assert found == [("0 to 1", "model 2 of 3"), ("2", "model 1 by 75 %, model 3 by 25 %")]
    page = render([JOINED, *lines])
    assert "Which models it chose it revealed, too" in page
    assert "model 1 by 75 %" in page
    assert "models it chose it" not in render([JOINED])


@pytest.mark.parametrize(
    ("lines", "protection", "words"),
    [
        (
            [],
            "Masked(floor=2)",
            r"how many .* not who, unless all chose alike; together with the clients that chose otherwise it could tell\.$",
        ),
        (
            [],
            "Encrypted()",
            "together with one other client it could tell.*one that chooses as no other does can tell it by itself",
        ),
        ([], "TwoServer()", "together with the second server, or with the clients that chose otherwise, it could tell"),
        (
            [{"named": 1, "of": 2}] * 3,
            "Masked()",
            "told the coordinator, 3 times, which model it goes by most: --no-scores keeps that, as far as enough others keep it",
        ),
        (
            [{"withheld": "how well"}],
            "Masked()",
            "of one client that alone keeps it, its choice, and that it keeps it does not hide",
        ),
        ([], "Masked()", "it could tell[.]$"),
        ([], "Plain()", "that it was this client's choice"),
        ([update(0, "Choice")], "Masked()", "that it was this client's choice"),
    ],
)
def test_who_can_tell_what_a_client_chose(lines, protection, words):
    assert re.search(words, who_can_tell(lines, protection))


def test_who_trains_for_itself_alone_was_asked_for_that():
    """Before: "It was asked for work in no round", of LOCAL."""
    lines = [JOINED, {"told": "alone", "round": 0}, {"told": "alone", "round": 1}, {"told": "holds"}]
    found = [(one.named, one.words) for one in rounds_of(lines)]
    assert found == [("0 to 1", "it trained for itself alone, and nothing of that was sent")]


def test_messages_on_weights_are_what_those_on_updates_are():
    """Before: sealed shares of a sum of weights were "keys, signatures and what they are of", for the coordinator."""
    for kind in ("SealedShares", "Reveal", "Accepted"):
        (on_weights,) = revealed_rows([update(0, f"{kind}, weights")], "Masked()")
        (on_updates,) = revealed_rows([update(0, kind)], "Masked()")
        assert (on_weights.words, on_weights.to) == (on_updates.words, on_updates.to)


def test_choices_that_are_counted_are_told_from_updates():
    """Before: both were "its update", and who was killed after the counts read that its update went into the protocol."""
    lines = [
        JOINED,
        task(0),
        update(0, "Ready"),
        update(0, "MaskedInput, counts"),
        {"away": "x"},
        {"back": True},
        task(1),
        update(1),
    ]
    assert rounds_of(lines)[0].words == BROKE_OFF
    assert "Round 0 (perhaps: it was not told) went on without it" in without_it(rounds_of(lines), "Masked()")
    rows = {row.kind: row.words for row in revealed_rows(lines, "Masked()")}
    assert rows["MaskedInput, counts"].startswith("which model it chose")


def test_after_the_last_round_that_is_named_others_went_on_where_it_left():
    """Before: the rounds after one that it was not told of were left out."""
    left = [JOINED, task(0), update(0), task(1), {"left": "stopped"}]
    assert "1 (perhaps: it was not told) and after 1, if there were any," in without_it(rounds_of(left), "Masked()", True)


def test_a_sum_of_two_is_on_the_page_of_either():
    """Before: "all others in a sum and the coordinator together could take theirs off", where one other client alone had it."""

    def among(count: int, t: int) -> dict[str, object]:
        return {"received": {"what": "Survivors", "bytes": 9, "among": [count, f"{count}"]}, "round": t}

    lines = [JOINED, task(0), among(6, 0), update(0), task(1), among(2, 1), update(1)]
    two = "The smallest sum with its update is over 2 clients, in 1 round; each of the two takes its own part off"
    assert two in html.unescape(render(lines))
    assert "The smallest sum with its update" not in render([JOINED, task(0), update(0)])
    damaged = {"received": {"what": "Survivors", "among": ["x"]}, "round": 0}
    assert "The smallest sum with its update" not in render([JOINED, task(0), damaged])


def test_a_sum_of_slots_may_be_of_as_few_as_the_floor():
    """Before: "The smallest sum with its update is over 5 clients", of all that took part, where 3 chose what it chose."""
    five = {"received": {"what": "Survivors", "bytes": 9, "among": [5, "a"]}, "round": 0}
    chose = {"chose": [1, 0], "round": 0}
    joined = JOINED | {"protection": "Masked(floor=2, corrupt=0)"}
    lines = [joined, chose, task(0), update(0, "MaskedInput, counts"), five, update(0)]
    said = html.unescape(render(lines))
    assert "they may be as few as 2; each of the two takes its own part off, and has the other's update." in said
    assert "Of all that took part in a round, whatever they chose, the fewest were 5, in 1 round." in said
    assert "The smallest sum" not in said
    assert "The smallest sum with its update is over 5" in html.unescape(render([*lines, update(0, "Choice")]))
    under_key = [JOINED | {"protection": "Encrypted(floor=3, corrupt=0)"}, chose, task(0), update(0, "EncryptedInput")]
    assert "they may be as few as 3; from one of them" in html.unescape(render(under_key))
    fewer = {"received": {"what": "Survivors", "bytes": 9, "among": [4, "b"]}, "round": 1}
    assert "With whom its update was asked for changed in round 1" in html.unescape(render([*lines, fewer, update(1)]))


def test_its_number_of_records_is_told_exactly_by_sums_with_it_and_without_it_and_by_no_others():
    """Before: it stood on the page of a client that was in all sums, and not on that of one whose update came into none."""
    counted = update(0, "MaskedInput, weights")
    for lines, told in (
        ([task(0), counted, update(0), task(1), update(1), {"told": "final"}, {"ended": True}], False),
        (
            [task(0), counted, update(0), {"away": "x"}, {"back": True}, task(2), update(2), {"told": "final"}, {"ended": True}],
            True,
        ),
        ([task(0), counted, {"away": "x"}], True),
    ):
        assert ("exactly the number of its records" in render([JOINED, *lines])) == told


def test_choices_and_what_is_compared_have_no_noise_of_training():
    """Before: the headline named scores and sketches alone as what no epsilon bounds."""
    kinds = ("MaskedInput", "Choice", "PairClouds", "SealedEmbedding", "Score")
    rows = revealed_rows([{"revealed": [{"what": kind, "bytes": 8}]} for kind in kinds], "Masked()")
    said = in_short(rows, {"record": {"epsilon_worst": 1.0, "delta": 1e-5}}).partition("It does not bound")[2]
    assert all(SAID[kind][0] in said for kind in kinds[1:])


@pytest.mark.parametrize(
    ("algorithm", "tells", "together"),
    [
        (
            PACFL(beta=10.0),
            "for each label the directions in which its records vary most, and so which labels it has",
            "The coordinator and any one other client together have that without the projection",
        ),
        (
            FedSaC(),
            "the directions in which its embeddings by its own model vary most",
            "The coordinator and any one other client together",
        ),
        (EMDCFL(), "embeddings under a secret projection", "The coordinator and the other client of a pair together"),
        (EMDCFL(choice=DISTANCES), "", "Each client that it was compared with has its embeddings as they are"),
        (EMDCFL(choice=SERVER_SAMPLES, eps=0.1), "samples of its examples, as they are", ""),
    ],
    ids=["PACFL", "FedSaC", "EMDCFL", "distances", "samples"],
)
def test_a_client_that_is_compared_is_told_what_it_shows_and_to_whom(algorithm, tells, together):
    """Before: "its data as the choice of the algorithm releases it", whatever that was."""
    found = compared_in_words(algorithm.choice, getattr(algorithm, "shown", ""))
    kind = "PairDistance" if "Each client" in together else "PairClouds"
    sent = {"revealed": [{"what": kind, "bytes": 8}], "to": "coordinator", "round": 0}
    page = html.unescape(render([JOINED | {"compared": found}, task(0), sent]))
    assert tells in page
    assert together in page
    assert "each client's" not in page
    assert ("The coordinator and" in page or "Each client" in page) == bool(together)


def test_what_was_booked_and_never_sent_is_said_to_be():
    """Before: "It revealed nothing of its data. Epsilon of what stands under noise: 4.06", of a client killed in between."""
    spent = {"client": {"epsilon_worst": 4.0, "delta": 0.01}}
    for kinds, booked in (((), True), (("MaskedInput",), False)):
        rows = revealed_rows([{"revealed": [{"what": kind, "bytes": 8} for kind in kinds]}], "Masked()")
        assert ("booked before it was to be sent, and nothing of it was." in in_short(rows, spent)) == booked


def test_of_a_client_that_never_took_part_it_is_said_why(tmp_path):
    lines = [{"started": True}, {"left": "the certificate is revoked: it takes no part", "revoked": True}]
    (tmp_path / "join.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ValueError, match="of a client that took part in nothing: the certificate is revoked: it takes no part"):
        read_record(tmp_path / "join.jsonl")


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        (
            [task(0), update(0), {"away": "x"}, {"back": True}, task(4), update(4)],
            "Rounds 1 to 3 went on without it, and others with it",
        ),
        (
            [task(0), update(0), {"away": "x"}, {"back": True}, task(2), update(2)],
            "Round 1 went on without it, and others with it",
        ),
        ([task(3), update(3)], "Rounds 0 to 2 went on without it"),
        ([task(0), update(0), task(1), update(1)], ""),
        # it was there: others were drawn, or it was slow and counted as absent
        ([task(0), update(0), task(4), update(4)], "Rounds 1 to 3 went on without it, and others with it"),
        (
            [task(0), update(0), task(1), update(1, "Ready"), task(2), update(2)],
            "Round 1 (perhaps: it was not told) went on without it",
        ),
        ([task(3)], ""),
        ([task(0), update(0), task(1), update(1), {"left": "stopped"}], "Rounds after 1, if there were any, went on without it"),
        ([task(2), update(2), {"left": "why", "revoked": True}], "Rounds 0 to 1 and after 2, if there were any, went on without"),
        ([task(0), update(0), {"told": "final"}, {"ended": True}, {"started": True}, {"left": "in vain"}], ""),
        ([task(0), update(0), {"ended": True}], "Rounds after 0, if there were any, went on without it"),  # it may have gone on
        ([{"left": "why"}], ""),
    ],
)
def test_that_it_was_away_between_sums_with_it_is_said(gone, said):
    """Two sums, with it and without it, can be subtracted."""
    masked = [JOINED | {"protection": "Masked(floor=2)"}, *gone]
    assert said in render(masked)
    assert bool(said) == ("can subtract them" in render(masked))
    assert "can subtract them" not in render([JOINED | {"protection": "Plain()"}, *gone])


def test_an_update_that_was_sent_and_whose_sum_it_never_signed_may_not_be_in_it():
    """As where its keys are rotated in mid-round: the sum is made without it, and it is told nothing of that."""

    def signed(round):
        return [task(round), update(round), update(round, "SurvivorSignature")]

    lines = [JOINED, *signed(0), task(1), update(1), {"away": "x"}, {"back": True}, *signed(2)]
    assert [(of.named, of.words) for of in rounds_of(lines)] == [("0", TOOK), ("1", UNTOLD), ("2", TOOK)]
    assert "Round 1 (perhaps: it was not told) went on without it" in render(lines)


def test_a_client_that_took_part_by_another_scenario_is_told_so_first():
    """Its page said that whatever it was told was what it had agreed to."""
    differs = {"differs": {"algorithm": ["RobustFedAvg", "CFL"], "training.epochs": ["5", "2"]}}
    page = render([JOINED, differs, task(0), update(0)])
    assert "agreed to" not in page
    assert "It took part by a scenario that is another than its own in algorithm, training.epochs." in page
    assert "algorithm is RobustFedAvg at the coordinator, CFL here; training.epochs is 5 at the coordinator, 2 here" in page
    assert "No word and no message." in page
    back = render([JOINED, differs, task(0), update(0), {"differs": {}}])  # it came back with the agreed one
    assert "another than its own" not in back


def into_slots(t, chose, opened):
    """A round in which a client chose, and was shown open slots."""
    counts, put = update(t, "MaskedInput, counts"), update(t)
    put["revealed"][0]["open"] = opened
    return [task(t), {"chose": chose, "round": t}, counts, put]


def test_rounds_in_which_its_slot_was_shut_are_none_with_its_update():
    """Before: "Rounds 0 to 2: its update went into the protocol", where it sent zeros in two, and knew that."""
    joined = JOINED | {"protection": "Masked(floor=2, corrupt=0)"}
    rounds = [*into_slots(0, [0, 1], [0]), *into_slots(1, [0, 1], [0]), *into_slots(2, [1, 0], [0])]
    lines = zeros_named([joined, *rounds])
    assert [(of.named, of.words) for of in rounds_of(lines)] == [("0 to 1", SHUT), ("2", TOOK)]
    said = html.unescape(render([joined, *rounds]))
    assert "In rounds 0 to 1 what it chose stayed shut, as too few had chosen it: it sent zeros" in said
    assert "its update, hidden by masks that vanish in the sum (1 message to the coordinator)" in said
    assert "Where too few chose it" not in said
    assert "In no round that came to such a sum did what it chose stay shut." in render([joined, *rounds[-4:]])
    assert "In round 0 some of what it gave shares to stayed shut." in render([joined, *into_slots(0, [3, 1], [0])])
    unsaid = [joined, task(0), {"chose": [0, 1], "round": 0}, update(0, "MaskedInput, counts"), update(0)]
    assert "Where too few chose it, no sum with its update was opened." in render(unsaid)


def test_who_is_told_combinations_of_its_model_is_said_under_a_fusion_penalty():
    """Before: its update went "to the coordinator" alone, and it was sent "the mean of its cluster's updates"."""
    shared = shared_in_words(FPFC(rounds=4).needs)
    sent = {"received": {"what": "Mean", "bytes": 9, "model": True}, "round": 0}
    lines = [JOINED | {"protection": "Permuted()", "shared": shared}, task(0), update(0, "Upload"), sent]
    said = html.unescape(render(lines))
    assert "Of other clients each is told where its pairs pull it" in said
    assert "norms of differences of clients' models" in said
    assert "the mean of its cluster's updates" not in said
    assert "a mean of the last models of their cluster" in said
    assert shared_in_words({Functionality.SUMS, Functionality.GRAM}) == {}


def test_under_noise_epsilon_bounds_what_a_difference_of_sums_tells():
    """Before: what is left is "close to its update alone", of sums with noise too."""
    noise = {"epsilon_worst": 7.67, "delta": 1e-5, "budget": 8.0, "of": "sums of its updates"}
    lines = [JOINED, task(0), update(0), {"away": "x"}, {"back": True}, task(2), update(2)]
    assert "subtract them" in render(lines)
    assert "There is noise in them" not in render(lines)
    spent = {"spent": {"client": noise}}
    assert "its epsilon, of what it released, bounds what such a difference tells of what it did, too." in render([*lines, spent])
    records = {"spent": {"record": noise}}
    assert "bounds what such a difference tells of any record of it, too." in render([*lines, records])
    compared = {"spent": {"record": noise | {"of": OF}}}
    assert "There is noise in them" not in render([*lines, compared])
