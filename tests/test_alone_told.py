"""Clients that train alone, and those in no cluster: what summary, page and terminal say, and of measures without them."""

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cloister
from cloister.deployment.log import Told
from cloister.fl.algorithms.algorithm import Cluster, Few
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.data.partition import LabelSwap
from cloister.fl.runs.alone import on_their_own, without_any_sum
from cloister.fl.runs.experiment import Round
from cloister.fl.runs.verdicts import agreement
from cloister.protocol import Masked
from cloister.protocol.view.answers import Model
from cloister.reporting.agreement import agreement_in_words
from cloister.reporting.report import write_report
from cloister.reporting.run_data import Run, final_clusters, read_run
from cloister.reporting.run_tiles import tiles
from cloister.reporting.run_verdict import stood_still, verdict
from cloister.summary import summary_rows

from .test_flic import SMALL

FEW = Few((0, 1, 5), 4)
WHY = "a cluster of 3 is below the floor of 4, so that each trains alone"


def cluster(*members: int, alone: Few | None = None) -> Cluster:
    return Cluster(members, Model("m"), alone=alone)


def test_a_round_without_a_sum_has_a_row_for_each_cluster_that_was_too_small() -> None:
    other = Few((7, 8), 4)
    left = {f"client {i}": cluster(i, alone=FEW) for i in FEW.members}
    more = {"client 8": cluster(8, alone=other), "community 1": cluster(2, 3, 4, 6)}
    assert on_their_own(left | more) == (0, 1, 5, 8)
    assert without_any_sum(left | more, left | more, 9) == [
        {"round": 9, "cluster": "client 0 and 2 more", "members": [0, 1, 5], "why": WHY, "alone": True},
        {"round": 9, "cluster": "client 8", "members": [8], "why": WHY.replace("of 3", "of 2"), "alone": True},
    ]
    whole = {"community 2": cluster(0, 1, 5)}
    assert without_any_sum(whole, left, 9) == [], "their sum was refused in this round"
    assert without_any_sum(left, whole, 9) == [], "they have come together again"


def test_one_of_several_clients_agrees_with_no_groups() -> None:
    groups = {i: i % 2 for i in range(12)}
    assert agreement([[0]], groups) == dict.fromkeys(("ari", "purity", "purity_majority", "groups_isolated"))
    assert agreement([[0], [1]], groups)["ari"] == 1.0
    assert agreement([[0]], {0: 0})["ari"] == 1.0


def summary(*clusters: list[int], **more: Any) -> dict[str, Any]:
    groups = {str(i): i % 2 for i in range(12)}
    placed = {i for of in clusters for i in of}
    found = {"clusters": [*clusters], "groups": groups, **agreement(clusters, {int(i): g for i, g in groups.items()})}
    return found | {"apart": sorted({*range(12)} - placed)} | more


def test_agreement_says_over_how_many_clients_it_is_where_others_are_in_no_cluster() -> None:
    words = agreement_in_words(summary([0, 2], [1, 3]))
    assert words[0] == "ARI 1.00"
    assert words[-1] == "over 4 of 12 clients: the others are in no cluster"
    assert agreement_in_words(summary([0])) == []
    (last,) = [words for words in agreement_in_words(summary([0, 2], [1, 3], apart=[])) if "over" in words]
    assert last == "over 4 of 12 clients: the others may be in any"
    whole = summary([*range(0, 12, 2)], [*range(1, 12, 2)], apart=[])
    assert not [words for words in agreement_in_words(whole) if "over" in words]


def page_of(clusters: dict[str, list[int]], alone: list[int], rounds: int = 3) -> Run:
    rows = [{"round": t, "cluster": "client 0", "members": alone, "why": WHY, "alone": True} for t in range(1, rounds)]
    lines = [
        {
            "round": t,
            "clusters": clusters if t else {"0": [*range(12)]},
            "below_floor": [row for row in rows if row["round"] == t],
        }
        | ({"alone": alone} if t else {})
        for t in range(rounds)
    ]
    answers = [{"round": 0, "what": "sums", "recipient": "server", "scalars": 10, "words": "", "about": [0, 1]}]
    found = summary(*clusters.values())
    return Run("r", found | {"below_floor": rows}, {}, lines, [], [], [], answers, [], {})


def test_one_client_that_trains_alone_shares_no_model() -> None:
    run = page_of({"client 0": [0]}, [0])
    final = final_clusters(run)
    assert verdict(run, final) == "1 of 12 clients trained alone in the end."
    shown = {tile.label: tile for tile in tiles(run, final)}
    assert shown["mean accuracy"].detail == "each client by its own model, trained alone"
    assert shown["groups isolated"].detail == "1 cluster; over 1 of 12 clients: the others are in no cluster"
    told = stood_still(run)
    assert f"Trained without a sum in 2 rounds (1 to 2): client 0 ({WHY})." in told
    assert "No sum was opened in 2 of 3 rounds (1 to 2)." in told


def test_a_round_to_which_nobody_answered_has_no_sum_either() -> None:
    run = page_of({"client 0": [0]}, [0], 4)
    still = {"round": 4, "stood_still": [{"cluster": "0", "since": 4, "clients": [0], "why": "nobody"}], "below_floor": []}
    told = stood_still(replace(run, rounds=[*run.rounds, still, {"round": 5, "below_floor": []}]))
    assert "No sum was opened in 4 of 6 rounds (1 to 4)." in told


def test_clusters_of_clients_that_train_alone_are_told_from_others() -> None:
    run = page_of({"client 0": [0], "client 1": [1]}, [0, 1])
    assert verdict(run, final_clusters(run)).startswith(
        "2 of 12 clients ended in 2 clusters, each of a client that trains alone."
    )
    run = page_of({"client 0": [0], "community 1": [1, 3]}, [0])
    assert verdict(run, final_clusters(run)).startswith(
        "3 of 12 clients ended in 2 clusters, 1 of them of a client that trains alone."
    )


def test_the_log_says_once_that_a_cluster_is_not_parted_yet(caplog: pytest.LogCaptureFixture) -> None:
    told = Told(logging.getLogger("cloister.test"))
    with caplog.at_level(logging.INFO, "cloister.test"):
        for t, turned_down in enumerate(({}, {"0": "not yet, as two"}, {"0": "not yet, as three"}, {}, {"0": "again"}), 1):
            told.round(Round(t, 9, 1, 0.5, turned_down=turned_down))
    said: list[Any] = [record for record in caplog.records if record.getMessage() == "not split"]
    assert [(of.cluster, of.round, of.why) for of in said] == [("0", 1, "not yet, as two"), ("0", 4, "again")]


@pytest.mark.trains
def test_a_run_whose_communities_are_all_too_small_says_so_of_every_round(tmp_path: Path) -> None:
    partition = LabelSwap(clients=6, groups=2, pairs=((1, 7), (3, 8)), shared_test=True)
    scenario = replace(SMALL, partition=partition, algorithm=FLIC(rounds_before=2), protection=Masked(floor=4), rounds=6)
    result = cloister.run(scenario, tmp_path / "r", quiet=True)
    assert sorted(map(len, result.summary["clusters"])) == [1] * 6
    below = result.summary["below_floor"]
    assert {row["round"] for row in below} == {2, 3, 4, 5}
    assert all(row["alone"] for row in below if row["round"] > 2)
    lines = [json.loads(line) for line in (tmp_path / "r" / "metrics.jsonl").read_text().splitlines()]
    assert [line.get("alone", []) for line in lines] == [[], [], *[[*range(6)]] * 4]
    page = write_report(tmp_path / "r").read_text()
    assert "6 clients ended in 6 clusters, each of a client that trains alone." in page
    assert "No sum was opened in 4 of 6 rounds (2 to 5)." in page
    rows = dict(summary_rows(result.summary))
    assert "so that each trains alone" in rows["without a sum"]
    assert stood_still(read_run(tmp_path / "r"))
