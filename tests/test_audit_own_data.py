"""Audits of clients with data of their own: what the attacker makes up for its own run."""

from dataclasses import replace

import numpy as np
import pytest

from cloister import Scenario, Training, algorithms, data, models, protections
from cloister.fl.data.skew import Dirichlet
from cloister.fl.runs.lost_round import NothingLearned
from cloister.threat_models.audit import stage
from cloister.threat_models.audit.kept import NOTHING_KEPT
from cloister.threat_models.audit.own_run import SHADOW, TIMES, HeldOut, own_run, ways_of
from cloister.threat_models.audit.stage import stages

from .frame import Frame


def owned(**changes):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 2))
    table = Frame(a=x[:, 0], b=x[:, 1], label=(x.sum(1) > 0).astype(int), who=np.array(list("abcdef"))[np.arange(240) % 6])
    scenario = Scenario(
        name="owned",
        data=data.from_dataframe(table, client="who", label="label"),
        model=models.Mlp(hidden=(4,)),
        training=Training(epochs=1, batch=10, lr=0.2),
        algorithm=algorithms.FedAvg(),
        protection=protections.Masked(),
        rounds=1,
    )
    return replace(scenario, **changes)


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize(
    ("seed", "protection"),
    [(0, protections.Masked()), (1, protections.Masked(floor=5)), (2, protections.Masked(corrupt=1, max_samples=64))],
)
def test_clients_alike_whose_sums_count_samples_are_audited(seed, protection):
    """The attacker's own clients are of uneven sizes, of which one had too much of every sum: the audit ended there, and blamed
    a client of the run.
    """
    (made,) = [one for one in stages(owned(protection=protection), [seed], None) if isinstance(one, stage.Stage)]
    assert made.shadow.truth.updates


def test_held_out_records_are_dealt_evenly_where_they_have_to_be():
    source = owned().data(None)
    for even in (False, True):
        dealt = HeldOut(100, even)(source, np.random.default_rng(0))
        sizes = {len(client.train) for client in dealt.clients.values()}
        assert (sizes == {32}) == even, "as the run's clients have"
        assert len(dealt.clients) == 6
        labels = [tuple(np.bincount(client.train.y.numpy(), minlength=2)) for client in dealt.clients.values()]
        assert len(set(labels)) > 1, "skewed all the same"


def test_what_is_refused_whatever_sizes_are_is_not_played_for_ever(monkeypatch):
    tried = []

    def refused(scenario, data, readings, over):
        if isinstance(scenario.partition, HeldOut):
            tried.append(scenario.partition.even)
            raise NothingLearned("refused")

    monkeypatch.setattr(stage, "_played", refused)
    with pytest.raises(NothingLearned, match=r"^the attacker's own run, of clients .* 6 times played anew: refused"):
        list(stages(owned(), [0], None))
    assert tried == [False, True] * TIMES


def test_an_own_run_of_which_nothing_comes_is_played_anew_with_another_seed():
    """Before: the audit of a recorded run of IFCA ended there, and advised to change the scenario of what had been played."""
    of_nobody, found = replace(owned(), partition=Dirichlet(clients=6, alpha=0.5)), object()
    for scenario, third in ((owned(), (2 * SHADOW, False)), (of_nobody, (3 * SHADOW, None))):
        tried = []

        def play(of, tried=tried, scenario=scenario):
            tried.append((of.seed, getattr(of.partition, "even", None)))
            if len(tried) < 3:
                raise NothingLearned("too few chose it")
            return found

        ways = ways_of(scenario)
        run, way = own_run(replace(scenario, seed=SHADOW), "own", NOTHING_KEPT, play, ways)
        assert (run, tried[-1], way) == (found, third, ways[2])
