"""A cluster that learns nothing any more: in the run's record, the coordinator's log, its metrics and view, and the report."""

import io
import json
import logging
from dataclasses import replace

import pytest
from rich.console import Console

from cloister.deployment.live import shown
from cloister.deployment.log import Told
from cloister.deployment.metrics import Collected
from cloister.fl.algorithms.algorithm import Few
from cloister.fl.algorithms.fedavg import Oracle
from cloister.fl.data.partition import LabelSwap
from cloister.fl.runs.experiment import Round, run
from cloister.fl.runs.standstill import Standstill, standing_still
from cloister.fl.runs.vitals import Vitals
from cloister.protocol import Masked
from cloister.protocol.view.account import Asked
from cloister.protocol.view.answers import BelowFloor, Model
from cloister.reporting.headline import turned_down_in_words
from cloister.reporting.panels import why_no_split
from cloister.reporting.report import write_report
from cloister.reporting.run_data import Run
from cloister.reporting.run_verdict import stood_still, verdict
from cloister.reporting.shut_slots import shut_to_the_end
from cloister.summary import summary_rows

from .served import SMALL

STILL = Standstill("00", 4, (0, 2), "a sum over 0 clients is below the floor of 2")


class Cluster:
    def __init__(self, model, members=(0, 2), alone=None):
        self.model, self.members, self.alone = Model(model), members, alone


def test_a_cluster_stands_still_where_a_sum_was_refused_and_its_model_stayed():
    before = {"00": Cluster("a"), "01": Cluster("b", (1,)), "02": Cluster("c", (3,))}
    now = {"00": Cluster("a"), "01": Cluster("moved", (1,)), "02": Cluster("c", (3,)), "03": Cluster("d", ())}
    refused = [BelowFloor(f"{name}@7/update", (), 2) for name in ("00", "01", "03")]
    found = standing_still(before, now, {}, 7, refused=refused, opened=["01"])
    assert found == (Standstill("00", 7, (0, 2), "a sum over 0 clients is below the floor of 2"),)
    assert standing_still(before, now, {"00": 4}, 7, refused=refused, opened=["01"])[0].since == 4
    assert standing_still(before, now, {"00": 4}, 7) == ()


def test_a_sum_of_few_is_for_want_of_the_second_server_where_that_has_the_keys_of_few():
    clusters, words = {"00": Cluster("a")}, "the second server says that it has the keys of 1 of the 6 clients whose shares came"
    refused = [BelowFloor("00@7", (0,), 3)]
    assert [of.words for of in standing_still(clusters, clusters, {}, 7, refused=refused, silent=words)] == [words]
    other = "the second server was not there"
    assert "below the floor" in standing_still(clusters, clusters, {}, 7, refused=refused, silent=other)[0].words


def test_a_round_that_ended_before_sums_were_asked_for_says_by_what():
    clusters = {"00": Cluster("a")}
    asked = [Asked(7, "00", "update", (0, 2), (0, 2))]
    (still,) = standing_still(clusters, clusters, {}, 7, asked=asked)
    assert "not enough for a sum" in still.words
    (still,) = standing_still(clusters, clusters, {}, 7, asked=asked, ended="no client opened the inner products of 00@7")
    assert still.words == "no client opened the inner products of 00@7"


def test_a_cluster_that_is_dealt_anew_stands_still_since_the_one_whose_model_it_has():
    before = {"community 5": Cluster("a"), "community 6": Cluster("b", (1, 3))}
    now = {"community 7": Cluster("a"), "community 8": Cluster("b", (1, 3)), "community 9": Cluster("c", (5,))}
    refused = [BelowFloor("community 5@7/update", (1, 3), 3)]
    assert [(of.cluster, of.since) for of in standing_still(before, now, {"community 5": 4}, 7, refused=refused)] == [
        ("community 7", 4)
    ]
    assert [(of.cluster, of.since) for of in standing_still(before, now, {"community 6": 4}, 7, refused=refused)] == [
        ("community 7", 7)
    ]
    moved = {"community 7": Cluster("a moved")}  # its sum was opened: the refused one is of a fork that nobody goes on with
    assert standing_still(before, moved, {"community 5": 4}, 7, refused=refused, opened=["community 5.1"]) == ()


def test_the_log_follows_a_cluster_that_is_dealt_anew_by_its_clients(caplog):
    told = Told(logging.getLogger("cloister.test"))
    halves = replace(STILL, cluster="02", clients=(0,)), replace(STILL, cluster="03", clients=(2,))
    with caplog.at_level(logging.INFO, "cloister.test"):
        for stopped in ((STILL,), (replace(STILL, cluster="01"),), halves, halves[:1], ()):
            told.round(Round(5, 9, 2, 0.5, {}, stopped))
    said = [(r.getMessage(), r.cluster, r.clients) for r in caplog.records if r.getMessage() != "round"]
    assert said == [
        ("stopped training", "00", [0, 2]),
        ("trains again", "03", [2]),
        ("trains again", "02", [0]),
    ]


def test_the_log_says_once_that_training_stopped_and_that_it_goes_on(caplog):
    told = Told(logging.getLogger("cloister.test"))
    with caplog.at_level(logging.INFO, "cloister.test"):
        told.round(Round(4, 9, 2, 0.5))
        told.round(Round(5, 9, 2, 0.5, {}, (STILL,), (7,)))
        told.round(Round(6, 9, 2, 0.5, {}, (STILL,), (7,)))
        told.round(Round(7, 9, 2, 0.5))
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "round",
        *("round", "stopped training", "in no cluster"),
        "round",
        *("round", "trains again", "all in clusters"),
    ]
    first = caplog.records[0]
    assert (first.round, first.played, first.of) == (3, 4, 9)
    stopped = caplog.records[2]
    assert (stopped.levelname, stopped.cluster, stopped.since, stopped.clients) == ("WARNING", "00", 4, [0, 2])
    assert "below the floor" in stopped.why


def test_a_log_that_begins_anew_goes_on_with_who_stood_still(caplog):
    """Before: nobody was said to train again whose coordinator had been started again meanwhile."""
    told = Told(logging.getLogger("cloister.test"), {0: "00", 2: "00"})
    with caplog.at_level(logging.INFO, "cloister.test"):
        told.round(Round(6, 9, 2, 0.5))
    assert [(r.getMessage(), r.clients) for r in caplog.records[1:]] == [("trains again", [0, 2])]


def test_metrics_and_view_have_it():
    vitals = Vitals(round=5, rounds=9, cohort=4, stopped={"00": 4}, unplaced=1)
    pytest.importorskip("prometheus_client")
    found = {family.name: family.samples[0].value for family in Collected(lambda: vitals).collect() if family.samples}
    assert (found["cloister_stopped_clusters"], found["cloister_unplaced"]) == (1.0, 1.0)
    out = io.StringIO()
    Console(file=out, width=200).print(shown(vitals))
    assert "groups 00 (since round 4): no sum of theirs is opened" in out.getvalue()
    assert "5 of 9 played, round 5 in progress" in out.getvalue()
    out = io.StringIO()
    Console(file=out, width=200).print(shown(replace(vitals, stopped={}, unplaced=0)))
    assert "stand still" not in out.getvalue()


@pytest.mark.trains
def test_a_run_says_of_a_cluster_whose_clients_are_gone_since_when_it_learns_nothing_also_gone_on_with(tmp_path):
    now = {"round": 0}

    def lost(frame):
        return [] if now["round"] >= 1 and (frame.kind, frame.sender in (0, 1)) == ("Ready", True) else [frame]

    groups = LabelSwap(clients=4, groups=2, pairs=((1, 7), (3, 8)), shared_test=True)
    how = replace(SMALL, partition=groups, algorithm=Oracle(by_samples=False), protection=Masked(floor=2), faults=lost)
    seen = []
    for rounds, resume in ((2, False), (3, True)):
        for done in run(replace(how, rounds=rounds), tmp_path / "run", resume=resume):
            now["round"] = done.round
            seen.append([(of.cluster, of.since, of.clients) for of in done.stopped])
    assert seen == [[], [("group 0", 1, (0, 1))], [("group 0", 1, (0, 1))]]
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [[(of["cluster"], of["since"], of["clients"]) for of in line.get("stood_still", [])] for line in lines] == [
        [],
        *([("group 0", 1, [0, 1])],) * 2,
    ]
    assert json.loads((tmp_path / "run/summary.json").read_text())["stopped"] == {"group 0": 1}
    said = dict(summary_rows(json.loads((tmp_path / "run/summary.json").read_text())))
    assert said["stands still"].startswith("cluster group 0 (from round 1 on) learned nothing")
    text = write_report(tmp_path / "run").read_text()
    assert "Cluster group 0 (clients 0, 1) learned nothing from round 1 on" in text


def test_pauses_that_are_over_are_told_too():
    def line(t, **stopped):
        members = {"a": [0, 1], "b": [2]}
        still = [{"cluster": name, "since": since, "clients": members[name], "why": ""} for name, since in stopped.items()]
        return {"round": t, "clusters": members, "stood_still": still}

    rounds = [line(0), line(1, a=1), line(2, a=1), line(3), line(4, b=4), line(5, a=5), line(6, a=5)]
    assert stood_still(Run("x", {}, {}, rounds, [], [], [], [], [], {})) == [
        "Cluster a (clients 0, 1) learned nothing in rounds 1 to 2: too few were there for a sum.",
        "Cluster b (clients 2) learned nothing in round 4: too few were there for a sum.",
        "Cluster a (clients 0, 1) learned nothing from round 5 on: too few were there for a sum.",
    ]
    many = [line(t, **({"a": t} if t % 2 else {})) for t in range(11)]
    floor = {"protection": {"type": "Masked", "floor": 2, "corrupt": 0}}
    (small,) = stood_still(Run("x", {}, floor, rounds[-1:], [{}], [], [], [], [], {}))
    assert "from round 6 on" in small
    assert "too few were there for a sum" in small  # it has two, just as many as it needs
    floor["protection"]["corrupt"] = 1
    (small,) = stood_still(Run("x", {}, floor, rounds[-1:], [{}], [], [], [], [], {}))
    assert small.endswith("the split made it smaller than the floor of 3 clients, so that it had no sum, whoever was there.")
    earlier = {"round": 3, "clusters": {"a": [0, 1, 2]}}  # it was large enough at its birth: no split is to blame
    floor["algorithm"] = {"by_samples": True}
    (small,) = stood_still(Run("x", {}, floor, [earlier, rounds[-1]], [{}], [], [], [], [], {}))
    assert small.endswith("too few were there for a sum, or one of them has too many samples for it.")
    assert stood_still(Run("x", {}, {}, many, [], [], [], [], [], {}))[-1] == "So it was 2 times more."


def test_a_pause_under_several_names_is_told_once_with_who_trained_for_the_sum():
    def line(t, cluster, since, trained):
        why = "a sum over 2 clients is below the floor of 3"
        still = [{"cluster": name, "since": of, "clients": [0, 1], "why": why} for name, of in since.items()]
        below = [{"cluster": f"{cluster}@{t}", "members": trained, "why": why}] if trained else []
        return {"round": t, "clusters": {name: [0, 1] for name in since or ("c",)}, "stood_still": still, "below_floor": below}

    rounds = [
        line(5, "a", {"b": 5}, [2, 3]),
        line(6, "b", {"b": 5}, [0, 1]),
        line(7, "b", {"c": 5}, [2, 3]),
        line(8, "c", {}, []),
    ]
    asked = "a sum over 2 clients is below the floor of 3 (of 2, 3, who trained for it)"
    told = f"Cluster c (clients 0, 1; under other names before) learned nothing in rounds 5 to 7: in the last of them, {asked}."
    assert stood_still(Run("x", {}, {}, rounds, [], [], [], [], [], {})) == [told]
    (lasting,) = stood_still(Run("x", {}, {}, rounds[:3], [], [], [], [], [], {}))
    assert lasting == told.replace("in rounds 5 to 7", "from round 5 on")


def test_a_pause_is_of_whose_cluster_stood_still_and_names_who_came_to_it_later_apart():
    def line(t, **still):
        return {"round": t, "stood_still": [{"cluster": c, "since": 3, "clients": of, "why": "w"} for c, of in still.items()]}

    rounds = [line(3, a=[0, 1]), line(4, b=[0, 1, 2]), line(5, b=[0, 2], c=[1]), line(6, b=[0])]
    assert stood_still(Run("x", {}, {}, rounds, [], [], [], [], [], {})) == [
        "Cluster c (clients 1; under other names before) learned nothing in rounds 3 to 5: w.",
        "Cluster b (clients 2) learned nothing in rounds 4 to 5: w.",
        "Cluster b (clients 0; under other names before) learned nothing from round 3 on: w.",
    ]


def test_a_cluster_stands_still_of_which_no_sum_was_asked_for_as_its_clients_are_gone():
    """Before: the log said "trains again", and pages nothing."""
    before = {"00": Cluster("a"), "01": Cluster("b", (1,)), "02": Cluster("c", (3, 4))}
    gone = [Asked(7, "00", "update", (0, 2), ()), Asked(7, "01", "update", (1,), (1,)), Asked(7, "02", "update", (3, 4), (3,))]
    now = {"00": Cluster("a"), "01": Cluster("b moved", (1,)), "02": Cluster("c", (3, 4))}
    still = standing_still(before, now, {"00": 5}, 7, asked=gone)
    assert [(of.cluster, of.since, of.clients) for of in still] == [("00", 5, (0, 2)), ("02", 7, (3, 4))]
    assert still[0].words == "none of the 2 clients that were asked to train answered"
    assert "1 of the 2 clients" in still[1].words
    assert standing_still(before, now, {}, 7, asked=gone[1:2]) == ()  # nobody was asked: it had nothing to learn
    assert standing_still(before, now, {}, 7, asked=gone[2:], measured=["02"]) == ()  # it was compared, and not to be summed


def test_of_a_fork_whose_sum_was_refused_those_stand_still_who_keep_its_model():
    before = {"community 9": Cluster("a", (0, 1, 2, 3, 4, 5))}
    now = {"community 10": Cluster("a", (2, 3, 5)), "community 11": Cluster("a.2", (0, 1, 4))}
    (still,) = standing_still(before, now, {}, 7, refused=[BelowFloor("community 9.1@7", (1, 4), 2)], opened=["community 9.2"])
    assert (still.cluster, still.clients, still.gone) == ("community 10", (2, 3, 5), False)


def test_a_cluster_whose_sum_was_refused_and_whose_clients_went_to_others_stood_still_in_that_round():
    before = {"c5": Cluster("a", (0, 1)), "c6": Cluster("b", (2, 3))}
    now = {"c7": Cluster("b moved", (0, 1, 2, 3))}
    (still,) = standing_still(before, now, {"c5": 4}, 7, refused=[BelowFloor("c5@7", (0,), 2)], opened=["c6"])
    assert (still.cluster, still.since, still.clients, still.gone) == ("c5", 4, (0, 1), True)
    # who is left to train by itself has done so
    by_itself = {"client 0": Cluster("own", (0,), alone=Few((0, 1), 2)), "client 1": Cluster("own", (1,), alone=Few((0, 1), 2))}
    assert standing_still(before, by_itself, {}, 7, refused=[BelowFloor("c5@7", (0,), 2)], opened=["c6"]) == ()
    # and who comes to an old model only now has not stood still
    (still,) = standing_still(before, {"c8": Cluster("a", (0, 2))}, {}, 7, refused=[BelowFloor("c5@7", (0,), 2)], opened=["c6"])
    assert still.clients == (0,)


def test_a_cut_that_was_turned_down_is_said_once_for_each_cluster():
    rounds = [
        {"round": t, "clusters": {"0": [0, 1]}, "turned_down": {"0": "a cut into 5 and 2 clients was turned down: sums need 3"}}
        for t in (4, 9)
    ]
    words = "cluster 0: a cut into 5 and 2 clients was turned down: sums need 3 (round 9, 2 times)"
    run = Run("x", {}, {}, [*rounds, {"round": 10, "clusters": {"0": [0, 1]}}], [], [], [], [], [], {})
    assert stood_still(run) == [f"Not split: {words}."]
    assert why_no_split(run) == f"No cluster was split in 3 rounds. In {words}."
    assert turned_down_in_words([{}, {"turned_down": None}]) == []


def test_a_client_in_no_cluster_is_not_counted_among_those_that_ended_in_one():
    def after(**clusters):
        lines = [{"round": 0, "clusters": {"00": [0, 1, 2, 3]}}, {"round": 1, "clusters": clusters}]
        run = replace(Run("r", {"rounds": 2}, {}, [], [], [], [], [], [], {}), rounds=lines)
        return verdict(run, {name: [*map(str, members)] for name, members in clusters.items()})

    assert after(a=[0, 2], b=[1]).startswith("3 of 4 clients ended in 2 clusters")
    assert after(a=[0, 2], b=[1, 3]).startswith("4 clients ended in 2 clusters")


def test_a_page_says_that_the_coordinator_was_started_again():
    """Before: only link.json and a metric had it."""
    run = Run("x", {}, {}, [{"round": 0, "clusters": {"0": [0, 1]}}], [], [], [], [], [], {})
    assert stood_still(replace(run, link={"life": 1})) == stood_still(run) == []
    assert stood_still(replace(run, link={"life": 3})) == [
        "The coordinator was started 3 times for this run, which went on where it was."
    ]


def test_a_model_whose_slot_stayed_shut_is_named_where_somebody_goes_by_it():
    """Before: "6 clients ended in 2 clusters", of which one went by a model that never learned."""

    def line(t, *shut):
        rows = [{"round": t, "cluster": f"models/{k}@{t}", "members": [], "why": f"{n} chose it"} for k, n in shut]
        return {"round": t, "clusters": {"model 1": [2, 3], "model 3": [0, 1]}, "below_floor": rows}

    def told(*rounds):
        return shut_to_the_end(Run("x", {}, {}, [*rounds], [], [], [], [], [], {}))

    assert told(line(0, (1, 0), (2, 1)), line(1, (2, 1)), line(2, (1, 0), (2, 2))) == [
        "Model 3, which clients 0, 1 go by, learned nothing from round 0 on: 2 chose it."
    ]
    assert told(line(0, (2, 1)), line(1), line(2, (2, 1)))[0].endswith("learned nothing from round 2 on: 1 chose it.")
    assert told(line(0, (2, 1)), line(1)) == []
