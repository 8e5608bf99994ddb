"""Data whose clients are there already, dealt anew by a partition: said, since these are then not the clients of the run."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloister import Comparison, Method, algorithms, data, partitions
from cloister.auditing.audited import audited
from cloister.comparing.play import _check_data
from cloister.evaluating.play import opened
from cloister.fl.data.natural import dealt_anew
from cloister.fl.runs.feasibility import Doubt
from cloister.fl.runs.simulation import Simulation
from cloister.threat_models.audit.experiment import QUICK
from cloister.threat_models.audit.observer import Observer

from . import evaluation_sample

SAID = (
    "the 3 clients of data sets ('a' to 'c') are not the clients of the run: partitions.{} pools their records and deals them"
    " anew; if they are to be, leave the partition out"
)
ROWS = [(np.array([k / 10, 1.0], np.float32), k % 2) for k in range(10)]
OWNED = data.from_datasets(dict.fromkeys("abc", ROWS))
NATURAL = partitions.Natural()


@pytest.mark.parametrize("partition", [partitions.Iid(clients=2), partitions.Dirichlet(clients=2, alpha=1.0)])
def test_a_partition_that_pools_clients_of_the_data_is_said(partition: Any) -> None:
    assert dealt_anew(OWNED(None), partition) == [SAID.format(type(partition).__name__)]


@pytest.mark.parametrize("partition", [NATURAL, partitions.TopicPerClient(clients=6), lambda source, rng: None])
def test_a_partition_that_leaves_records_with_their_client_says_nothing(partition: Any) -> None:
    assert dealt_anew(OWNED(None), partition) == []


def test_data_without_clients_are_there_to_be_dealt() -> None:
    assert dealt_anew(data.Digits()(None), partitions.Iid(clients=2)) == []


@pytest.mark.parametrize(("partition", "said"), [(partitions.Iid(clients=4), [SAID.format("Iid")]), (NATURAL, [])])
def test_a_run_and_an_evaluation_say_it(partition: Any, said: list[str], tmp_path: Path) -> None:
    scenario = replace(evaluation_sample.scenario, data=OWNED, partition=partition)
    attacks = {"minus": evaluation_sample.minus}
    evaluation = replace(evaluation_sample.evaluation, scenario=scenario, attacks=attacks, strengths=(1,))
    assert Simulation(scenario, None).of_data == said
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", Doubt)
        opened(evaluation, None, tmp_path / "out", False, {})
    assert [str(one.message) for one in seen if "deals them anew" in str(one.message)] == said


def test_a_comparison_and_an_audit_say_it() -> None:
    scenario = replace(evaluation_sample.scenario, data=OWNED, partition=partitions.Iid(clients=4))
    methods = {"one": Method(algorithm=algorithms.FedAvg())}
    comparison = Comparison(name="c", data={"a": scenario, "b": scenario}, methods=methods, seeds=(0,), scale="quick")
    with pytest.warns(Doubt) as seen:
        _check_data(comparison, None)
    assert [str(one.message) for one in seen] == [SAID.format("Iid")]
    nobody = Observer(frozenset(), frozenset({9}))
    with pytest.warns(Doubt, match="partitions.Iid pools"), pytest.raises(ValueError, match="there is no client 9"):
        audited(scenario, QUICK, (), None, quiet=True, against=(nobody,))
