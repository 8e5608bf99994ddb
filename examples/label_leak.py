"""Label histograms from what a server sees over a whole run: how much a protection tells beyond the published means.

72 clients with Dirichlet(0.5) labels are clustered by CFL. The server alone regresses each client's label histogram on its view
of all rounds, learned on a run of its own (seed + 1000). Beside the protection stand the two ends: what the published means alone
tell, and everything. The figure counts only where everything is enough: a total variation of at most 0.16.

    python examples/label_leak.py                    # the shipped default, one seed, some minutes
    python examples/label_leak.py --small            # 24 clients, 12 rounds, under a minute
    python examples/label_leak.py --keys run         # one sketch key for the whole run, as on request
    python examples/label_leak.py --seeds 0 1 2 --json
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.stats import binomtest

from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Dirichlet
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked, Plain
from cloister.protocol.view.answers import Sum
from cloister.protocol.view.work import LocalJob, LocalWork
from cloister.threat_models.inference.label_regression import (
    Compared,
    LabelRegression,
    Seen,
    features,
    top_label,
    total_variation,
)

CLASSES = 10
SHADOW = 1000
VALID = 0.16
"""Where everything is seen the regression must reach this total variation, or its failing elsewhere says nothing."""
MARGIN = 0.03


def scenario(seed: int, clients: int, rounds: int, protection: Any, every_round: bool) -> Scenario:
    similarities = "every round" if every_round else "when ripe"
    return Scenario(
        name="labels",
        data=Digits(),
        partition=Dirichlet(clients=clients, alpha=0.5),
        model=Mlp(hidden=(64,)),
        training=Training(epochs=3, batch=10, lr=0.1),
        algorithm=CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.74), patience=8, similarities=similarities, remember=not every_round),
        protection=protection,
        rounds=rounds,
        seed=seed,
    )


@dataclass
class Recorder:
    """What the server computes from, as it is answered; and, for the end where everything is seen, the updates."""

    simulation: Simulation
    compared: list[Compared] = field(default_factory=list)
    means: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    updates: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        view: Any = self.simulation.view
        self.gram, self.sums, self.workers = view.gram, view.sums, self.simulation.watch.workers
        view.gram, view.sums = self._gram, self._sums
        self.simulation.watch.workers = self._work

    def _gram(self, updates: Any, /, *, origin: bool = False) -> Any:
        found = self.gram(updates, origin=origin)
        self.compared.append(Compared(updates.round, found.clients, found.matrix, origin))
        return found

    def _sums(self, updates: Any, weights: Any, /) -> Any:
        answers, view = self.sums(updates, weights), self.simulation.view
        for answer in answers.values():
            if isinstance(answer, Sum):
                before = view.harness.observe(self.model)
                mean = view.harness.observe(view.advance(self.model, answer)) - before
                self.means |= {(updates.round, i): mean for i in updates.members}
        return answers

    @property
    def model(self) -> Any:
        return next(iter(self.simulation.state.clusters.values())).model

    def _work(self, jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        rounds = {job.client: job.round for job in jobs}
        for client, work in self.workers(jobs):
            self.updates[rounds[client], client] = work.vector
            yield client, work

    def seen(self, everything: bool, compared: bool) -> Seen:
        of_round = {(t, i): mean for (t, i), mean in self.means.items()}
        grams = [replace(c, mean=of_round.get((c.round, c.clients[0]))) for c in self.compared if c.clients]
        return Seen(self.simulation.state.round, self.means, grams if compared else (), self.updates if everything else {})


def played(value: Scenario) -> Recorder:
    recorder = Recorder(Simulation(value, None))
    for _ in range(value.rounds):
        recorder.simulation.step()
    return recorder


def histograms(simulation: Simulation) -> np.ndarray:
    clients = simulation.population.clients
    counts = [np.bincount(clients[i].train.y.numpy(), minlength=CLASSES) for i in sorted(clients)]
    return np.stack([c / c.sum() for c in counts])


def attack(seed: int, clients: int, rounds: int, protection: Any, every_round: bool) -> dict[str, Any]:
    target, shadow = (played(scenario(s, clients, rounds, protection, every_round)) for s in (seed, seed + SHADOW))
    d = len(target.simulation.view.harness.observe(target.model))
    read, everybody = slice(d - CLASSES, d), range(clients)
    truth, row = histograms(target.simulation), {}
    for name, everything, compared in (("means alone", False, False), ("protection", False, True), ("everything", True, False)):
        known = features(shadow.seen(everything, compared), everybody, read)
        learned = LabelRegression.learned(known, histograms(shadow.simulation))
        estimated = learned.histograms(features(target.seen(everything, compared), everybody, read))
        row[name] = (total_variation(estimated, truth).tolist(), top_label(estimated, truth).tolist())
    grams = max(sum(i in c.clients for c in target.compared) for i in everybody)
    return {"seed": seed, "clusters": len(target.simulation.state.clusters), "grams": grams, **row}


def interval(hits: Sequence[bool]) -> tuple[float, float]:
    """Of a share, by Clopper and Pearson, at 95 %."""
    found = binomtest(int(sum(hits)), len(hits)).proportion_ci(0.95, "exact")
    return float(found.low), float(found.high)


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {"seeds": [row["seed"] for row in rows], "grams": max(row["grams"] for row in rows)}
    for name in ("means alone", "protection", "everything"):
        apart = [tv for row in rows for tv in row[name][0]]
        hits = [hit for row in rows for hit in row[name][1]]
        found[name] = {"tv": float(np.mean(apart)), "top": float(np.mean(hits)), "top_interval": interval(hits)}
    low, high = found["means alone"]["top_interval"]
    found["valid"] = found["everything"]["tv"] <= VALID
    within = found["protection"]["tv"] >= found["means alone"]["tv"] - MARGIN and low <= found["protection"]["top"] <= high
    found["verdict"] = "inconclusive" if not found["valid"] else "not refuted" if within else "refuted"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--clients", type=int, default=72)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--keys", choices=["session", "run"], default="session")
    parser.add_argument("--every-round", action="store_true", help="compare in every round about the origin, as the paper has it")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--clear", action="store_true", help="play in clear, which is faster and shows the server everything")
    parser.add_argument("--json", action="store_true")
    how = parser.parse_args()
    clients, rounds = (24, 12) if how.small else (how.clients, how.rounds)
    protection = Plain() if how.clear else Masked(keys=how.keys)
    found = summary([attack(seed, clients, rounds, protection, how.every_round) for seed in how.seeds])
    if how.json:
        print(json.dumps(found))
        return
    for name in ("means alone", "protection", "everything"):
        part = found[name]
        low, high = part["top_interval"]
        print(f"{name:12}  labels TV {part['tv']:.3f}   top label {part['top']:.2f} [{low:.2f}, {high:.2f}]")
    print(f"{found['verdict']}; a client's updates entered {found['grams']} Gram matrices at most")


if __name__ == "__main__":
    main()
