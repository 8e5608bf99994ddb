"""The FLIC scenarios in examples/: each runs in small, and what they print and draw follows from what they computed."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cloister.fl.clustering.communities import Louvain, detect, one_plus_cosine
from cloister.fl.runs.experiment import run
from cloister.protocol.core.errors import Refused

from .example_files import EXAMPLES, load

QUICK = ["flic_fig3_filling_matrix", "flic_fig5_early_clustering", "flic_table1", "flic_table2"]


def test_all_figures_and_tables_are_there() -> None:
    names = {path.stem.split("_")[1] for path in EXAMPLES.glob("flic_*.py")}
    assert names == {"fig1", "fig3", "fig5", "table1", "table2"}


@pytest.mark.trains
@pytest.mark.parametrize("name", QUICK)
def test_quick_scenario_runs(name: str, tmp_path: Path) -> None:
    rounds = list(run(replace(load(name).quick, rounds=2), tmp_path / "run"))
    assert [done.round for done in rounds] == [1, 2]
    assert rounds[-1].accuracy is not None


# --- minus gradient -----------------------------------------------------------------------------------------------


# The median loses what it has learned in each round in which three of the five sampled attack, and may have it back by the next:
# what it ends with is luck, and its lowest accuracy, with an evaluation after every round, is not.


@pytest.mark.slow
@pytest.mark.trains
def test_minus_gradient_is_isolated_and_does_no_harm() -> None:
    """8 of 20 attack: they are isolated while there is something to learn, and the median collapses on the way.

    Once all is learned updates are noise, and whoever comes back into the sums does no harm.
    """
    example = load("minus_gradient")
    value = replace(example.scenario, protection=example.PROTECTIONS["updates in clear"])
    clean = example.outcome(replace(value, algorithm=example.ALGORITHMS["FedAvg"], adversary=None))
    learning = example.outcome(replace(value, rounds=36), last=3)
    assert (learning.purity, learning.isolated) == (1, 1)
    assert example.outcome(value).loyal >= clean.loyal - 0.02
    ruined = example.outcome(replace(value, algorithm=example.ALGORITHMS["median"], evaluate_every=1), last=60)
    assert ruined.worst < clean.worst - 0.3
    assert ruined.isolated == 0


@pytest.mark.slow
@pytest.mark.trains
def test_minus_gradient_is_isolated_by_a_server_that_sees_no_update() -> None:
    """The same under secure aggregation, in half of the rounds: one median is refused there, the other collapses."""
    example = load("minus_gradient")
    value = replace(example.scenario, protection=example.PROTECTIONS["secure aggregation"], rounds=36, seed=2)
    clean = example.outcome(replace(value, algorithm=example.ALGORITHMS["FedAvg"], adversary=None), last=3)
    found = example.outcome(value, last=3)
    assert (found.purity, found.isolated) == (1, 1)
    assert found.loyal >= clean.loyal - 0.02
    ruined = example.outcome(replace(value, algorithm=example.ALGORITHMS["geometric median"], evaluate_every=1), last=28)
    assert ruined.worst < clean.worst - 0.3
    assert ruined.isolated == 0
    with pytest.raises(Refused, match="needs coordinates"):
        replace(value, algorithm=example.ALGORITHMS["median"])


# --- Fig. 1 -------------------------------------------------------------------------------------------------------


def test_weights_drift_only_where_clients_differ() -> None:
    fig1 = load("flic_fig1_linear_regression")
    ends = {}
    for name, parameters in fig1.CASES.items():
        w, paths = fig1.federated(parameters, np.random.default_rng(3))
        assert w[0] == 0
        np.testing.assert_allclose(w[1:], paths[:, :, -1].mean(axis=0))
        ends[name] = abs(paths[0, -1, -1] - paths[1, -1, -1])
        assert abs(w[-1] - 45) < 4
    assert ends["IID"] < 1
    assert ends["non-IID"] > 20


# --- Fig. 3 and 5 -------------------------------------------------------------------------------------------------


@pytest.mark.trains
def test_the_matrix_of_a_round_is_what_the_server_knew(tmp_path: Path) -> None:
    fig3 = load("flic_fig3_filling_matrix")
    found, groups = fig3.snapshots(replace(fig3.quick, rounds=11))
    assert [shot.round for shot in found] == [0, 10]
    first = found[0].similarity
    assert first.shape == (100, 100)
    assert np.isfinite(first).sum() == 10 * 10
    np.testing.assert_array_equal(first, first.T)
    seen = np.isfinite(np.diagonal(first))
    assert seen.sum() == found[0].seen == 10
    np.testing.assert_allclose(np.diagonal(first)[seen], 2)
    assert np.isfinite(found[1].similarity).sum() > np.isfinite(first).sum()
    numbers = found[1].numbers(groups)
    assert numbers["inside"] > numbers["between"]
    fig3.draw(found, groups).savefig(tmp_path / "matrix.png")


def test_self_loops_part_what_is_alike_but_small() -> None:
    """Ten clients with one cosine: one community as printed, ten with the loops of the authors' code."""
    cosines = np.full((10, 10), 0.3) + 0.7 * np.eye(10)
    known = np.ones((10, 10), np.bool_)
    for self_loop, communities in ((0.0, 1), (2.0, 10)):
        found = detect(Louvain(self_loop=self_loop), one_plus_cosine, cosines, known, range(10), np.random.default_rng(0))
        assert len(found) == communities
    with pytest.raises(ValueError, match="weight of 0 or more"):
        Louvain(self_loop=-1)


def test_what_holds_to_the_end_has_settled() -> None:
    settled = load("flic_fig5_early_clustering").settled
    assert settled([True, False, True, True]) == 3
    assert settled([True, True]) == 1
    assert settled([True, False]) is None


@pytest.mark.trains
def test_the_trace_is_of_a_run_of_federated_averaging() -> None:
    fig5 = load("flic_fig5_early_clustering")
    rows = fig5.traced(replace(fig5.quick, rounds=6))
    assert [row["round"] for row in rows] == list(range(1, 7))
    assert rows[0]["seen"] == 10
    assert [row["seen"] for row in rows] == sorted(row["seen"] for row in rows)
    assert all(0 <= row["purity"] <= 1 for row in rows)


# --- tables -------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.trains
def test_table_1_measures_before_and_after() -> None:
    table1 = load("flic_table1")
    found = table1.played(table1.case("quick", "swap", 0))
    assert found["ari"] == 1
    assert found["clusters"] == 5
    assert found["after"][0] > found["before"][0] + 0.15
    assert "0.75 +- 0.075" in table1.table({"swap": [found]})


def test_a_cell_of_table_2_is_played_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table2 = load("flic_table2")
    played = []

    def play(value: object, folder: Path | None = None) -> dict[str, object]:
        played.append(value)
        point = {"round": 300, "loyal": 0.875, "attackers": None, "loyal_clusters": 0.875}
        numbers = dict.fromkeys(
            ("final", "best", "best_of_loyal_clusters", "purity", "purity_when_last_grouped", "seconds"), 0.875
        )
        return numbers | {"isolated": 1.0, "loyal_clusters": 1, "clients_in_a_loyal_cluster": 60.0, "curve": [point]}

    monkeypatch.setattr(table2, "played", play)
    command = [
        "flic_table2.py",
        "--quick",
        "--rows",
        "fedavg",
        "flic",
        "--columns",
        "0",
        "40",
        "--seeds",
        "1",
        "--out",
        str(tmp_path),
    ]
    for _ in range(2):
        monkeypatch.setattr(sys, "argv", command)
        table2.main()
    assert len(played) == 3
    assert sorted(path.name for path in (tmp_path / "quick_cells").iterdir()) == [
        "fedavg_0_seed_1.json",
        "fedavg_40_seed_1.json",
        "flic_40_seed_1.json",
    ]
    assert json.loads((tmp_path / "quick_cells" / "flic_40_seed_1.json").read_text())["row"] == "flic"
    said = capsys.readouterr().out
    assert "| FLIC, paper |  | 0.94 |" in said
    assert "| FLIC, ours |  | 0.875 |" in said
    assert (tmp_path / "minus_gradient_quick.png").exists()


@pytest.mark.trains
def test_a_cell_counts_who_shares_a_community_with_whom() -> None:
    """FLIC on digits at T = 11: communities are pure. A round later those that were never sampled choose, attackers too."""
    table2 = load("flic_table2")
    value = table2.cell("quick", "flic", 40, 0)
    value = replace(value, rounds=11, evaluate_every=4, algorithm=replace(value.algorithm, rounds_before=11))
    at, after = table2.played(value), table2.played(replace(value, rounds=12))
    assert [point["round"] for point in after["curve"]] == [4, 8, 12]
    assert at["purity"] == at["purity_when_last_grouped"] == after["purity_when_last_grouped"] == 1
    assert at["loyal_clusters"] == 1
    assert after["purity"] < 1
    assert after["loyal_clusters"] == 0
    assert after["curve"][-1]["loyal_clusters"] is None
