"""Who was there in which rounds: noted by the coordinator where it changes, and in its report as ranges."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from cloister.fl.runs.linked_hosts import LinkedHosts
from cloister.fl.runs.presence import PRESENCE, Presence, ranges
from cloister.protocol.links.terms import grpc_or_words
from cloister.reporting.report import write_report
from cloister.reporting.run_data import DASH, Run, read_run
from cloister.reporting.who_was_there import differing as said_of_terms
from cloister.reporting.who_was_there import in_ranges, revoked_in_words, who_was_there, without_model


def test_changes_are_noted_and_told_as_ranges(tmp_path):
    noted = Presence(tmp_path, (0, 1, 2))
    noted.round(0, (0, 1, 2), (), {}, {})
    noted.round(1, (0, 1), (), {}, {})
    noted.round(2, (0, 1), (), {}, {})
    noted.round(3, (0, 1, 2), (), {1: 1}, {})  # client 1 did not answer in time
    noted.round(4, (0, 1, 2), (), {1: 1}, {})
    noted.round(5, (0, 1), (2, -2), {1: 1}, {})
    lines = [json.loads(line) for line in (tmp_path / PRESENCE).read_text().splitlines()]
    assert [line["round"] for line in lines] == [0, 1, 3, 4, 5]
    assert ranges(lines, 8) == {"away": {2: [(1, 2), (5, 7)], 1: [(3, 3)]}, "revoked": {2: [(5, 7)]}}


def test_rounds_that_a_later_life_plays_again_count_once():
    lines = [{"round": 0, "away": []}, {"round": 4, "away": [1]}, {"round": 3, "away": [2]}, {"round": 5, "away": []}]
    assert ranges(lines, 9) == {"away": {2: [(3, 4)]}, "revoked": {}}
    assert ranges([], 3) == {"away": {}, "revoked": {}}


def test_a_later_life_takes_no_count_of_before_for_its_own_and_counts_the_round_that_it_goes_on_with(tmp_path):
    Presence(tmp_path, (0, 1, 2)).round(4, (0, 1, 2), (), {1: 3, 2: 1}, {1: 3})
    assert json.loads((tmp_path / PRESENCE).read_text()) == {"round": 4, "away": [2], "revoked": []}


def test_what_was_not_answered_in_a_round_that_was_replayed_is_none_of_the_next(tmp_path):
    """Before: all were "away at the end, or did not answer in time" in the round after it, whose sum they were in."""
    noted = Presence(tmp_path, (0, 1, 2))
    noted.replayed({0: 2, 1: 2, 2: 2})  # who did not answer in it, counted from its beginning, is not said again
    noted.round(3, (0, 1, 2), (), {0: 2, 1: 2, 2: 3}, {0: 1, 1: 1, 2: 1})
    assert json.loads((tmp_path / PRESENCE).read_text()) == {"round": 3, "away": [2], "revoked": []}


def test_rows_of_following_rounds_are_one():
    rows = [{"round": t, "cluster": "1", "members": [1, 2]} for t in (3, 4, 5, 7)] + [{"round": 6, "cluster": "2", "members": []}]
    assert [(row["cluster"], row["round"]) for row in in_ranges(rows)] == [("1", "3 to 5"), ("1", "7"), ("2", "6")]
    assert in_ranges([{"client": 1, "reason": "x"}]) == [{"client": 1, "reason": "x"}]
    twice = [{"round": 2, "client": c, "reason": "x"} for c in (1, 2, 1)]
    assert [(row["client"], row["round"]) for row in in_ranges(twice)] == [(1, "2"), (2, "2")]


def test_who_was_revoked_after_the_last_round_is_said_to_be():
    """Before: it stood under "not there to be handed a model", with the file to hand it, and without why."""
    rounds = [{"round": 0, "clusters": {"0": [1, 3]}}]
    link = {"without_model": [1, 3], "sent_away": [2, 3]}
    run = Run("r", {}, {}, rounds, splits=(), similarities=(), pairs=(), answers=(), tree=(), privacy={}, link=link)
    run = replace(run, presence=[{"round": 0, "away": [], "revoked": [2]}])
    assert revoked_in_words(run) == ["Revoked, and sent away: client 2 (round 0), client 3 (after the last round)."]
    assert without_model(run) == [("client 1", ""), ("client 3, whose certificate is revoked", "")]


def test_who_was_there_and_did_not_say_that_it_has_its_model_is_not_said_to_have_none():
    """Killed between its model and its answer, it may have it."""
    linked, here = SimpleNamespace(without=None), SimpleNamespace(present=lambda: (0, 1, 2))
    linked.finish = lambda models: setattr(linked, "without", (1, 3, 4))
    hosts = SimpleNamespace(linked=linked, words=SimpleNamespace(begin=lambda: None), listener=here)
    hosts._there = lambda: LinkedHosts._there(hosts)
    LinkedHosts.finished(hosts, dict.fromkeys((0, 1, 3), ()))
    assert hosts.perhaps == (1,)  # 3 was not there, and 4 was handed none
    link = {"without_model": [3, 4], "perhaps_without_model": [1]}
    rounds = [{"round": 0, "clusters": {"0": [0, 1, 3]}}]
    run = Run("r", {}, {}, rounds, splits=(), similarities=(), pairs=(), answers=(), tree=(), privacy={}, link=link)
    assert without_model(run, "perhaps_without_model") == [("client 1", "")]
    assert without_model(run) == [("client 3", ""), ("client 4", "")]


@pytest.mark.trains
@pytest.mark.long
def test_the_coordinators_report_says_who_was_there(tmp_path):
    grpc_or_words()
    from .served import SMALL, played

    found = played(SMALL, tmp_path)
    page = write_report(found.folder).read_text()
    assert "Who was there" not in page  # all were
    assert found.read(PRESENCE)[0] == {"round": 0, "away": [], "revoked": []}
    (found.folder / PRESENCE).write_text(
        '{"round": 0, "away": [2], "revoked": []}\n{"round": 1, "away": [2], "revoked": [2]}\n{"x": 1}\n'
    )
    assert who_was_there(read_run(found.folder)) == [("client-2", "0 to 1", "1")]
    page = write_report(found.folder).read_text()
    assert "Who was there" in page
    assert revoked_in_words(read_run(found.folder)) == ["Revoked, and sent away: client-2 (round 1)."]
    assert "Revoked, and sent away: client-2 (round 1)." in page.partition("<h2")[0]
    assert "<td>client-2</td><td>0 to 1</td><td>1</td>" in page
    assert "Not there to be handed a model" not in page
    assert found.link["without_model"] == []
    differing = {"round": 0, "client": 3, "differs": {"training.lr": ["0.2", "0.1"], "seed": ["7", None]}}
    (found.folder / "link.json").write_text(json.dumps({"without_model": [3, 1]}))
    (found.folder / "other_terms.jsonl").write_text(
        "".join(json.dumps({**differing, "client": i}) + "\n" for i in (3, 2))  # 2 was away in all rounds
    )
    run = read_run(found.folder)
    model = found.folder / "models" / f"{next(iter(run.rounds[-1]['clusters']))}.safetensors"
    assert without_model(run) == [("client-1", ""), ("client-3", "")]  # clients own their models here
    model.parent.mkdir(exist_ok=True)
    model.touch()
    assert without_model(run) == [("client-1", f"models/{model.name}"), ("client-3", f"models/{model.name}")]
    (found.folder / "link.json").write_text(json.dumps({"without_model": [], "perhaps_without_model": [1]}))
    page = write_report(found.folder).read_text()
    assert "they may have it:</p>\n<ul><li>client-1: its cluster" in page
    assert "Not there to be handed a model" not in page
    assert sorted(said_of_terms(run)) == [
        f"client-3, from round 0 on: seed is 7 there, {DASH} at the coordinator",
        "client-3, from round 0 on: training.lr is 0.2 there, 0.1 at the coordinator",
    ]
    page = write_report(found.folder).read_text()
    assert f"<li>client-1: its cluster's is models/{model.name} in this run folder</li>" in page
    assert "client-3, from round 0 on: training.lr is 0.2 there, 0.1 at the coordinator" in page
