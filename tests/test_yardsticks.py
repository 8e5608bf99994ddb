"""What a run's groups are worth: agreement by each definition, silhouette, stability over seeds, gains; names in the report."""

import html
import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, silhouette_score
from torch import nn

import cloister
from cloister import Scenario, Training, algorithms, attacks, cli, data, models, partitions, protections
from cloister.fl.clients.measures import directions
from cloister.fl.runs.metrics import adjusted_rand_index, isolated, majority_purity, purity, silhouette
from cloister.fl.runs.verdicts import over_clients
from cloister.fl.runs.yardsticks import Yardsticks
from cloister.reporting.agreement import agreement_in_words, worth_at_first, worth_in_words

from .test_given_data import hospitals

PLANTED = {0: 0, 1: 0, 2: 0, 3: 1, 4: 1, 5: 1}


def test_purities_and_groups_isolated_by_hand():
    mixed = [(0, 1, 3), (2,), (4, 5)]
    assert purity(mixed, PLANTED) == 0.5  # FLIC's: 2, 4 and 5 see no stranger
    assert majority_purity(mixed, PLANTED) == pytest.approx(5 / 6)  # the standard one
    assert isolated(mixed, PLANTED) == 0  # each group shares a cluster
    assert isolated([(0, 1), (2,), (3, 4, 5)], PLANTED) == 2
    assert isolated([(0, 1, 3), (2, 4)], {0: 0, 1: 0, 3: 1, 2: 2, 4: 2}) == 1
    assert majority_purity([tuple(PLANTED)], PLANTED) == 0.5


@given(st.lists(st.integers(0, 3), min_size=2, max_size=8), st.integers(0, 10**6))
def test_the_silhouette_is_the_literatures(labels, seed):
    rng = np.random.default_rng(seed)
    n = len(labels)
    clusters = [tuple(10 + k for k in range(n) if labels[k] == label) for label in sorted(set(labels))]
    similarity = np.clip(rng.normal(size=(n, n)), -1, 1)
    similarity = (similarity + similarity.T) / 2
    np.fill_diagonal(similarity, 1)
    found = silhouette(clusters, [10 + k for k in range(n)], similarity.tolist())
    if not 2 <= len(set(labels)) < n:
        assert found is None
        return
    assert found == pytest.approx(silhouette_score(1 - similarity, labels, metric="precomputed"))
    assert -1 <= found <= 1
    similarity[0, 1] = np.nan
    assert silhouette(clusters, [10 + k for k in range(n)], similarity.tolist()) is None


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=12))
def test_the_adjusted_rand_index_is_the_literatures(labels):
    """Of few clients, which are all alone, all in one, or neither."""
    found, planted = ({10 + k: pair[side] for k, pair in enumerate(labels)} for side in (0, 1))
    expected = adjusted_rand_score([*planted.values()], [*found.values()])
    assert adjusted_rand_index(found, planted) == pytest.approx(expected, abs=1e-12)


def test_gains_count_what_is_better():
    found = Yardsticks("accuracy", 0.9, 0.6, None, None, None, (), False)
    assert found.gains == pytest.approx({"over one model": 0.3})
    assert replace(found, metric="MSE", alone=1.0, less_is_better=True).gains == pytest.approx(
        {"over one model": -0.3, "over LOCAL": 0.1}
    )
    assert Yardsticks("R2", None, 0.1, 0.1, None, None, (), False).gains == {}
    assert replace(found, metric="mine", less_is_better=None).gains == {}, "nobody knows what a gain is"


def test_of_a_metric_of_one_s_own_nobody_is_worst_unless_it_says_which_way_is_better(tmp_path):
    """Before: of RMSE the best client was "worst", and what was lost over LOCAL was a gain."""

    def rmse(outputs, targets):
        return float(np.sqrt(np.mean((outputs.reshape(targets.shape) - targets) ** 2)))

    assert directions((rmse, "R2", "MSE")) == {"rmse": None, "R2": False, "MSE": True}
    values = {"rmse": {"0": 2.0, "1": 1.0, "2": None}}
    unknown = over_clients(values, directions((rmse,)))["rmse"]
    assert (unknown["worst"], unknown["least"], unknown["most"]) == (None, 1.0, 2.0)
    rmse.less_is_better = True
    assert over_clients(values, directions((rmse,)))["rmse"]["worst"] == 2.0
    rmse.less_is_better = "yes"
    assert directions((rmse,)) == {"rmse": None}


@pytest.mark.trains
@pytest.mark.parametrize(("less", "words"), [(None, "which way is better, the metric does not say"), (True, "worst client")])
def test_a_run_by_a_metric_of_one_s_own_says_what_is_known_of_it(tmp_path, less, words):
    def rmse(outputs, targets):
        return float(np.sqrt(np.mean((outputs.reshape(targets.shape) - targets) ** 2)))

    if less is not None:
        rmse.less_is_better = less
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    rows = [(*x, x.sum() + (0.2 + 0.5 * i) * rng.normal(), f"c{i}") for i in range(4) for x in rng.normal(size=(30, 2))]
    given = data.from_dataframe(pandas.DataFrame(rows, columns=["a", "b", "y", "who"]), client="who", label="y", numbers=True)
    training = Training(epochs=1, batch=8, lr=0.1, loss="mean squared error", metrics=(rmse,))
    one = scenario(tmp_path, data=given, model=nn.Linear(2, 1), training=training, algorithm=algorithms.FedAvg(), rounds=2,
                   protection=protections.Plain())  # fmt: skip
    result = cloister.run(one, tmp_path / "r", quiet=True, yardsticks=True)
    page = html.unescape(re.sub("<[^>]*>", " ", result.report.read_text()))
    assert words in page
    assert ("worst client" in str(result)) == bool(less)
    assert ("gain over LOCAL" in str(result)) == bool(less)


def test_words_name_every_measure():
    summary = {"ari": 0.5, "purity": 0.4, "purity_majority": 0.7, "groups_isolated": 1, "groups": {"0": 0, "1": 1}}
    assert agreement_in_words(summary) == ["ARI 0.50", "purity 0.70 (as FLIC defines it 0.40)", "1 of 2 groups isolated"]
    assert agreement_in_words(summary | {"corrupt": [1]}) == []
    assert agreement_in_words({}) == []
    assert agreement_in_words(summary | {"groups": {"0": 0, "1": 0}}) == [], "of one group any single cluster is a match"
    yardsticks = Yardsticks("accuracy", 0.9, 0.6, 0.95, 1.0, 0.8, (1, 2), False).as_dict()
    words = dict(worth_in_words({"silhouette": {"value": 0.61, "round": 9, "clients": 12}, "yardsticks": yardsticks}))
    assert words["silhouette"].startswith("0.61, by the similarities of 12 clients that the server saw in round 9")
    assert words["stability over seeds"] == "ARI 1.00 between the clusters of two seeds (least 0.80; also seeds 1, 2)"
    assert words["gain over one model"] == "+0.300 of accuracy, 0.900 against 0.600; of one seed, which tells nothing of chance"
    assert words["gain over LOCAL"].startswith("-0.050 of accuracy")
    assert dict(worth_in_words({"silhouette": None, "yardsticks": {}})) == {}
    (first,) = worth_at_first({"yardsticks": yardsticks})
    assert first.startswith("Mean accuracy by clusters is 0.900; one model for all has 0.600, every client alone 0.950")
    assert list(worth_at_first({})) == []


def test_under_attack_gains_are_of_the_loyal_and_say_that_the_others_are_not_attacked():
    """Before: attackers were in the run's own mean, and one model and LOCAL, played without attack, were not said to be."""
    yardsticks = Yardsticks("accuracy", 0.9, 0.6, 0.95, None, None, (), False).as_dict()
    words = dict(worth_in_words({"yardsticks": yardsticks, "corrupt": [1]}))
    assert "of the loyal clients, and the other without attack" in words["gain over LOCAL"]
    (first,) = worth_at_first({"yardsticks": yardsticks, "corrupt": [1]})
    assert first.startswith("Mean accuracy by clusters is 0.900 of the loyal clients")
    assert "(without attack, one seed each)" in first


@pytest.mark.long
@pytest.mark.trains
def test_gains_under_attack_leave_the_attackers_out_on_both_sides(tmp_path):
    hospitals(tmp_path / "data", 6)
    hit = attacks.Adversary(members=attacks.Pool(1), upload=attacks.MinusGradient())
    played = scenario(tmp_path / "data", algorithm=algorithms.FedAvg(), adversary=hit, rounds=2, protection=protections.Plain())
    result = cloister.run(played, tmp_path / "r", quiet=True, yardsticks=True)
    (_,) = corrupt = result.summary["corrupt"]
    last = json.loads((tmp_path / "r" / "metrics.jsonl").read_text().splitlines()[-1])["accuracy"]
    assert result.summary["yardsticks"]["own"] == pytest.approx(sum(v for i, v in last.items() if int(i) not in corrupt) / 5)


def net(shape, classes):
    """Values are about 30: a norm first, whose statistics are each batch's."""
    return nn.Sequential(
        nn.BatchNorm1d(shape[0], track_running_stats=False), nn.Linear(shape[0], 12), nn.ReLU(), nn.Linear(12, classes)
    )


def scenario(folder, **fields):
    given = {"rounds": 12, "protection": protections.Masked()}
    cfl = algorithms.CFL(thresholds=algorithms.ScaleFree(eps1=0.4, eps2=0.5), patience=3)
    training = Training(epochs=3, batch=30, lr=0.1)
    return Scenario(**{"name": "own", "data": data.from_csv(folder), "model": net, "training": training,
                       "algorithm": cfl, **given, **fields})  # fmt: skip


@pytest.mark.trains
@pytest.mark.long
def test_without_planted_groups_a_run_says_what_its_clusters_are_worth(tmp_path):
    hospitals(tmp_path / "data", 8)
    result = cloister.run(scenario(tmp_path / "data"), tmp_path / "r", quiet=True, yardsticks=True)
    summary = result.summary
    assert summary["ari"] is None
    assert summary["groups_isolated"] is None
    found = summary["yardsticks"]
    assert json.loads((tmp_path / "r" / "summary.json").read_text())["yardsticks"] == found
    assert found["own"] == summary["accuracy_mean"]
    assert found["seeds"] == [1, 2]
    assert sorted(summary["clusters"]) == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert found["gains"]["over one model"] > 0.1
    assert found["stability"] == 1.0
    assert summary["silhouette"]["clients"] == 8
    assert summary["silhouette"]["value"] > 0.3
    text, page = str(result), html.unescape(re.sub("<[^>]*>", " ", result.report.read_text()))
    for name in ("silhouette", "stability over seeds", "gain over one model", "gain over LOCAL"):
        assert name in text
        assert name in page
    for words in ("ARI 0", "purity", "planted group", "isolated", " of 1"):
        assert words not in text
    names = list(summary["names"].values())
    assert len(names) == 8
    assert all(name in page for name in names)
    assert not re.search(r"worst client \d+\.\d % client \d", page)


@pytest.mark.trains
def test_planted_groups_have_no_stability_where_seeds_change_the_data(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from cloister import *\n"
        "scenario = Scenario(name='m', data=data.Digits(), partition=partitions.Iid(clients=4, samples=20, shared_test=True),\n"
        "  model=models.Mlp(hidden=(8,)), training=Training(epochs=1, batch=10, lr=0.1), algorithm=algorithms.FedAvg(),\n"
        "  protection=protections.Masked(), rounds=2)\n"
    )
    monkeypatch.setattr(sys, "argv", ["cloister", "run", "mine.py", "--yardsticks", "--out", "r"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert not caught.value.code
    said = capsys.readouterr().out
    assert "gain over LOCAL" in said
    assert "stability" not in said
    found = json.loads((tmp_path / "r" / "summary.json").read_text())
    assert found["yardsticks"]["gains"]["over one model"] == pytest.approx(0, abs=0.05)
    assert "silhouette" not in found


@pytest.mark.long
@pytest.mark.trains
def test_planted_groups_are_counted_as_isolated_not_as_clusters(tmp_path):
    swap = partitions.LabelSwap(clients=6, groups=2, pairs=((1, 7), (3, 8)), samples=60, shared_test=True)
    one = scenario(
        tmp_path, data=data.Digits(), partition=swap, model=models.Mlp(hidden=(8,)), algorithm=algorithms.FedAvg(), rounds=2
    )
    result = cloister.run(one, tmp_path / "r", quiet=True)
    assert result.summary["groups_isolated"] == 0
    assert "0 of 2 groups isolated" in str(result)
    page = html.unescape(re.sub(r"<[^>]*>|\s+", " ", result.report.read_text()))
    assert re.search(r"groups isolated\s+0 of 2\s+1 cluster; ARI 0.00, purity 0.50 \(as FLIC defines it 0.00\)", page)
