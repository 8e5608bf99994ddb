"""What a run's groups are worth where nobody planted any: the same run without them, and whether other seeds find them.

Three kinds of runs are played beside it: one model for all (FedAvg), every client alone (LOCAL), both in clear, which changes no
more than rounding; and the scenario itself with other seeds, of first models, sampling and secrets, on the same data.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from ...protocol.uploaded.plain import Plain
from ..algorithms.fedavg import FedAvg, Local
from ..clients.measures import LOWER, directions
from ..data.natural import Natural
from .evaluation import ModelScore
from .lost_round import NothingLearned
from .metrics import adjusted_rand_index
from .own_rule import as_given
from .run_folder import RunFolder
from .scenario import Scenario
from .simulation import Simulation

SEEDS = 2
"""Other seeds."""


@dataclass(frozen=True, slots=True)
class Yardsticks:
    """metric: what is compared, mean over clients. own, one_model, alone: of the run, of FedAvg, of LOCAL. stability: mean and
    least ARI between the clusters of two of the seeds, 1 if all find the same; None where data differ from seed to seed, or no
    other seed came to an end. Clusters of all clients in one agree wholly, whatever they are worth. less_is_better: of the
    metric, None where nobody knows.
    """

    metric: str
    own: float | None
    one_model: float | None
    alone: float | None
    stability: float | None
    least_stability: float | None
    seeds: tuple[int, ...]
    less_is_better: bool | None

    @property
    def gains(self) -> dict[str, float]:
        """Over one model and over LOCAL, as far as they are known; above 0 is better, whichever way the metric goes. Of one of
        which nobody knows which way is better there is none.
        """
        if self.less_is_better is None:
            return {}
        sign = -1 if self.less_is_better else 1
        known = {"over one model": self.one_model, "over LOCAL": self.alone}
        return {k: sign * (self.own - v) for k, v in known.items() if v is not None and self.own is not None}

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "gains": self.gains}


def play_yardsticks(
    scenario: Scenario,
    summary: Mapping[str, Any],
    last: Mapping[str, Any],
    data: Path | None,
    tell: Callable[[str, int, int], None] = lambda *_: None,
) -> Yardsticks:
    """summary, last: of the scenario's own run, and its last line. data: folder of data sets. tell: what is played, rounds that
    are done, of how many. Under attack all figures are of the loyal clients, and the others are played without the attack.
    """
    metric = str(summary["metric"])
    perplexity = metric == "perplexity"
    name = "loss" if perplexity else metric
    own = summary["loss_mean"] if perplexity else summary["accuracy_mean"]
    if metric not in ("accuracy", "perplexity"):
        own = summary["metrics"][metric]["mean"]
    algorithms: dict[str, Any] = {"one model": FedAvg(), "LOCAL": Local()}
    found = {
        what: _played(replace(scenario, algorithm=of, protection=Plain(), adversary=None, arrivals={}), data, what, tell)
        for what, of in algorithms.items()
    }
    clusters = [[list(members) for members in summary["clusters"]]]
    seeds = range(scenario.seed + 1, scenario.seed + 1 + SEEDS) if isinstance(scenario.partition, Natural) else ()
    for seed in seeds:
        if (other := _played(replace(scenario, seed=seed), data, f"seed {seed}", tell)) is not None:
            clusters.append([list(c.members) for c in other.clusters.values()])
    agreeing = [_agree(one, two) for one, two in combinations(clusters, 2)]
    placed = {i for members in summary["clusters"] for i in members}  # the run's own mean is of these
    if corrupt := set(summary.get("corrupt") or ()):
        placed -= corrupt
        own = _own(last, name, placed)
    scores = {what: None if of is None else _mean(of.evaluate(), name, placed) for what, of in found.items()}
    mean, least = (float(np.mean(agreeing)), min(agreeing)) if agreeing else (None, None)
    played = tuple(seeds) if agreeing else ()
    less = directions(scenario.training.metrics).get(name, name in (*LOWER, "loss"))
    return Yardsticks(name, own, scores["one model"], scores["LOCAL"], mean, least, played, less)


def add_yardsticks(
    scenario: Scenario, out: Path, data: Path | None, tell: Callable[[str, int, int], None] = lambda *_: None
) -> Yardsticks:
    """The same of the run in this folder, whose summary has it then. Raises ValueError where the run is not over."""
    path = out / "summary.json"
    if not path.is_file():
        raise ValueError(f"the run in {out} is not over")
    summary = json.loads(path.read_text(encoding="utf-8"))
    folder = RunFolder(out)
    last = folder.read("metrics.jsonl")[-1]
    found = play_yardsticks(scenario, summary, last, data, tell)
    folder.write_json("summary.json", summary | {"yardsticks": found.as_dict()})
    return found


def _played(scenario: Scenario, data: Path | None, what: str, tell: Callable[[str, int, int], None]) -> Simulation | None:
    """At its end; None where nothing was learned."""
    simulation = Simulation(as_given(scenario), data)
    simulation.watch.on = False
    tell(what, 0, scenario.rounds)
    try:
        while simulation.state.round < scenario.rounds:
            simulation.step()
            tell(what, simulation.state.round, scenario.rounds)
    except NothingLearned:
        return None
    return simulation


def _own(last: Mapping[str, Any], name: str, clients: Collection[int]) -> float | None:
    """Of the run itself, of these clients. last: its last line."""
    of = last[name] if name in ("accuracy", "loss") else last["metrics"][name]
    known = [value for i in clients if (value := of.get(str(i))) is not None and isfinite(value)]
    return float(np.mean(known)) if known else None


def _mean(scores: Mapping[int, ModelScore], name: str, placed: Collection[int]) -> float | None:
    """Over clients that are in a cluster of the run."""
    of = [score for i, score in scores.items() if i in placed]
    values = [getattr(score, name) if name in ("accuracy", "loss") else score.measures[name] for score in of]
    known = [value for value in values if isfinite(value)]
    return float(np.mean(known)) if known else None


def _agree(one: list[list[int]], two: list[list[int]]) -> float:
    """ARI on the clients that both have placed."""
    common = {i for c in one for i in c} & {i for c in two for i in c}
    first, second = ([[i for i in members if i in common] for members in clusters] for clusters in (one, two))
    planted = {i: k for k, members in enumerate(second) for i in members}
    return adjusted_rand_index([members for members in first if members], planted)
