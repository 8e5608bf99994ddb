"""Running a scenario: rounds, evaluation, logs and checkpoints, and the summary at the end."""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from ...protocol.view.disclosure import Disclosure, party_of, totals
from ..algorithms.algorithm import Cluster, Measured, State
from ..clients.losses import CROSS_ENTROPY
from ..clients.training import Executor
from ..clustering.fusion_theory import smoothness_of
from ..clustering.separation import separation_gap
from ..emd.record import newly_compared, undecided
from ..meters.record import read as read_account
from ..meters.record import said
from .checkpoint import Checkpoint, latest, read, write
from .codec import from_plain, to_plain
from .evaluation import Evaluation, Score, accuracies
from .feasibility import Doubt, check_feasible, doubts
from .generality import ensemble_accuracy, fall_back, models_of_clients
from .origin import ORIGIN, origin
from .privacy import headline, ran_out, spent
from .run_folder import RunFolder, machine, versions
from .scenario import Scenario, described
from .simulation import Hosts, Simulation
from .standstill import Standstill, standing_still
from .verdicts import agreement, clearness, metric_of, numbers_of, over_clients

Make = Callable[[Scenario, Path | None], Simulation]
Engine = Callable[[Executor], Executor]
"""Of what trains clients, the same elsewhere (`fl/engines/`)."""


@dataclass(frozen=True, slots=True)
class Round:
    """What a watcher is told after each round. accuracy: mean over clients, None in a round without evaluation, or where targets
    are numbers. numbers: of the round by name, as far as they are known: accuracy_mean, accuracy_worst, loss_mean, the mean over
    clients of each further metric, bytes_up, bytes_down, seconds, clusters, and epsilon of a unit ("epsilon client"). round: how
    many are over. stopped: clusters whose training stands still. unplaced: clients that are in no cluster.
    """

    round: int
    rounds: int
    clusters: int
    accuracy: float | None
    numbers: Mapping[str, float] = field(default_factory=dict)
    stopped: tuple[Standstill, ...] = ()
    unplaced: tuple[int, ...] = ()


@dataclass(slots=True)
class _Progress:
    """What the summary needs from rounds that are over; kept in checkpoints. stopped: since when, by cluster."""

    seconds: float = 0.0
    before: float | None = None
    stopped: Mapping[str, int] = field(default_factory=dict)


def run(
    scenario: Scenario,
    out: Path,
    data: Path | None = None,
    resume: bool = False,
    make: Make = Simulation,
    hosts: Hosts | None = None,
    engine: Engine | None = None,
    given: Mapping[str, Any] | None = None,
) -> Iterator[Round]:
    """Play the scenario's rounds, yielding after each; the run folder is complete when the iterator ends.

    A run folder is resumed from its newest checkpoint and ends with the models and metrics of an undisturbed run.
    make: makes the simulation of the scenario with this folder of data, for whoever listens to it. hosts: where the clients are,
    if not in this process; nobody listens then. engine: where clients' local training is computed, if not in this process; the
    run is the same, and may go on under another one. given: the scenario's file, source, name and settings, for the record.
    Raises ValueError of one line for bad input, a damaged checkpoint, or a folder that does not fit.
    """
    folder = RunFolder(out)
    plain = described(scenario)
    if resume:
        _same_scenario(folder.scenario(), plain)
    else:
        folder.check_free()
    simulation = make(scenario, data) if hosts is None else Simulation(scenario, data, hosts)
    check_feasible(scenario, len(simulation.population.clients))
    if engine is not None:
        simulation.execution = engine(simulation.execution)
    for doubt in doubts(scenario, len(simulation.population.clients), simulation.population.groups):
        warnings.warn(doubt, Doubt, stacklevel=2)
    if not resume:
        folder.begin(plain)
    folder.write_json(ORIGIN, origin(given, simulation.population if hosts is None else None))
    progress = _Progress()
    path = latest(folder.checkpoints) if folder.checkpoints.exists() else None
    if path is not None:
        checkpoint = read(path)
        if checkpoint.round > scenario.rounds:
            raise ValueError(f"{out} has already played {checkpoint.round} rounds; resume it with at least as many")
        simulation.state = from_plain(type(simulation.state), checkpoint.state)
        simulation.view.harness.restore(checkpoint.snapshot, simulation.state.remembered)
        if simulation.corrupted is not None:
            simulation.corrupted.restore(checkpoint.adversary)
        folder.cut(checkpoint.lines)
        if simulation.weighing is not None:
            simulation.weighing.kept.restore(checkpoint.clients)
        simulation.watch.restore(checkpoint.account, *read_account(folder.read("account.jsonl")))
        progress = _Progress(checkpoint.extra["seconds"], checkpoint.extra["before"], dict(checkpoint.extra.get("stopped", [])))
        simulation.went = dict(checkpoint.extra.get("went by", []))
        simulation.in_vain = checkpoint.extra.get("in_vain", 0)
        simulation.spending.restore(checkpoint.extra.get("spent on training", []))
    else:
        folder.cut({})
    if resume:
        folder.write_json("scenario.json", plain)  # rounds may be more than they were
    if hosts is not None:
        hosts.begin(simulation.state.round, simulation.view)
    while simulation.state.round < scenario.rounds:
        yield _play(simulation, folder, progress, hosts)
    finish(simulation, folder, progress)
    if hosts is not None:
        hosts.finished(simulation.finals)


def _same_scenario(begun: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    differing = [key for key in now if key != "rounds" and begun.get(key) != now[key]]
    if differing:
        raise ValueError(f"the run was begun with another {', '.join(differing)}; resume it with the scenario it had")


def _play(simulation: Simulation, folder: RunFolder, progress: _Progress, hosts: Hosts | None) -> Round:
    started = time.perf_counter()
    earlier = simulation.state
    scenario, t = simulation.scenario, simulation.state.round
    record = simulation.view.record
    before, logged, known, refused = record.traffic, len(record.log), len(record.faults), len(record.below_floor)
    try:
        if hosts is not None:
            hosts.admit(simulation.view)
        simulation.step()
    finally:  # also when the round came to nothing, and the faults say why
        faults = [{"round": t, "client": f.blame, "reason": f.reason, "rejected": f.rejected} for f in record.faults[known:]]
        folder.append("faults.jsonl", faults)
    state: State = simulation.state
    last = state.round == scenario.rounds
    evaluated = simulation.evaluate() if last or state.round % scenario.evaluate_every == 0 else None
    took = time.perf_counter() - started
    progress.seconds += took
    now = record.traffic
    traffic = {"bytes_up": now.bytes_up - before.bytes_up, "bytes_down": now.bytes_down - before.bytes_down}
    below = [{"round": t, "cluster": b.name, "members": list(b.clients)} for b in record.below_floor[refused:]]
    stopped = standing_still(earlier.clusters, state.clusters, record.below_floor[refused:], progress.stopped, t)
    progress.stopped = {of.cluster: of.since for of in stopped}
    privacy = spent(simulation.ledgers)
    epsilon = {unit: of["epsilon_worst"] for unit, of in privacy.items()}
    line = _metrics(simulation, t, evaluated) | traffic | {"below_floor": below, "seconds": took}
    line |= {"stopped": dict(progress.stopped)} if stopped else {}
    line |= {"epsilon": epsilon} if epsilon else {}
    beside = {unit: of["acknowledged"] for unit, of in privacy.items() if of["acknowledged"]}
    line |= {"epsilon_leaves_out": beside} if beside else {}
    if evaluated is not None and len(simulation.clusters) == 1:
        progress.before = line["accuracy_mean"]
    folder.append("metrics.jsonl", [line])
    folder.append("splits.jsonl", list(_splits(simulation, t)))
    folder.append("similarities.jsonl", list(_similarities(simulation, t, evaluated is not None)))
    folder.append("pairs.jsonl", list(newly_compared(earlier, state, t)))
    folder.append("disclosure.jsonl", [entry.as_dict() for entry in record.log[logged:]])
    folder.append("account.jsonl", simulation.accounted)
    if privacy:
        folder.write_json("privacy.json", privacy)
    extra: dict[str, Any] = {"seconds": progress.seconds, "before": progress.before, "in_vain": simulation.in_vain}
    extra |= {"went by": sorted(simulation.went.items())} if simulation.went else {}
    extra |= {"stopped": sorted(progress.stopped.items())} if stopped else {}
    extra |= {"spent on training": spending} if (spending := simulation.spending.save()) else {}
    memory = simulation.corrupted.save() if simulation.corrupted is not None else {}
    snapshot, account = simulation.view.harness.save(), simulation.watch.save()
    clients = simulation.weighing.kept.save() if simulation.weighing is not None else {}
    kept = Checkpoint(state.round, to_plain(state), snapshot, folder.lengths(), extra, memory, account, clients)
    if hosts is not None:
        hosts.begin(state.round, simulation.view)
    write(folder.checkpoints, kept)
    count = len(simulation.clusters)
    apart = _apart(simulation)
    return Round(state.round, scenario.rounds, count, line.get("accuracy_mean"), numbers_of(line, count), stopped, apart)


def _apart(simulation: Simulation) -> tuple[int, ...]:
    """Clients that are in no cluster; none where clients choose among models by themselves."""
    placed = {i for cluster in simulation.clusters.values() for i in cluster.members}
    return () if simulation.weighing is not None else tuple(sorted(simulation.population.clients.keys() - placed))


def _metrics(simulation: Simulation, t: int, evaluated: Mapping[int, Score] | None) -> dict[str, Any]:
    state: State = simulation.state
    groups = simulation.population.groups
    line: dict[str, Any] = {
        "round": t,
        "clusters": {name: list(c.members) for name, c in sorted(simulation.clusters.items())},
        "norms": {name: _norms(m) for name, m in state.measured.items()},
        "gap": {
            name: separation_gap(m.similarity, [groups[i] for i in m.clients])
            for name, m in state.measured.items()
            if groups and m.similarity is not None and len(m.clients) > 1
        },
        "detected": {name: _detected(m, groups) for name, m in state.measured.items() if m.communities},
        "left_out": {str(i): reason for m in state.measured.values() for i, reason in m.left_out.items()},
    }
    return line if evaluated is None else line | _scores(evaluated)


def _norms(measured: Measured) -> dict[str, float]:
    """What is known of the norms of a round: of the mean update, of the longest, and their root mean square."""
    known = {"mean": measured.mean, "max": measured.largest, "rms": measured.rms}
    return {key: value for key, value in known.items() if value is not None}


def _scores(evaluated: Mapping[int, Score]) -> dict[str, Any]:
    known = {i: score.accuracy for i, score in evaluated.items() if not isnan(score.accuracy)}
    accuracies = list(known.values())  # none where targets are numbers, or clients are asked, and nobody says
    names = dict.fromkeys(name for score in evaluated.values() for name in score.measures)
    measured = {name: {str(i): score.measures.get(name) for i, score in evaluated.items()} for name in names}
    return {
        "accuracy": {str(i): accuracy for i, accuracy in known.items()},
        "loss": {str(i): score.loss for i, score in evaluated.items()},
        **({"metrics": measured} if measured else {}),
        "accuracy_mean": float(np.mean(accuracies)) if accuracies else None,
        "accuracy_worst": float(np.min(accuracies)) if accuracies else None,
    }


def _detected(measured: Measured, groups: Mapping[int, int]) -> dict[str, Any]:
    """Communities that were looked for in a round, and how they agree with the planted groups."""
    return {"communities": [list(c) for c in measured.communities], **agreement(measured.communities, groups)}


def _similarities(simulation: Simulation, t: int, evaluated: bool) -> Iterator[dict[str, Any]]:
    """The cosines among which communities were looked for, in evaluated rounds and when they became clusters; null: not known."""
    for name, measured in sorted(simulation.state.measured.items()):
        similarity = measured.similarity
        if similarity is not None and measured.communities and (evaluated or name not in simulation.state.clusters):
            known = np.ones_like(similarity, np.bool_) if measured.known is None else measured.known
            rows = [
                [round(float(a), 4) if there else None for a, there in zip(*row, strict=True)]
                for row in zip(similarity, known, strict=True)
            ]
            about = {"about": "mean"} if measured.centred else {}
            yield {"round": t, "cluster": name, "clients": list(measured.clients), **about, "similarity": rows}


def _splits(simulation: Simulation, t: int) -> Iterator[dict[str, Any]]:
    groups = simulation.population.groups
    for name, measured in sorted(simulation.state.measured.items()):
        if measured.split is None or measured.similarity is None:
            continue
        node = simulation.state.tree[name]
        yield {
            "round": t,
            "cluster": name,
            "clients": list(measured.clients),
            **({"about": "mean"} if measured.centred else {}),
            "similarity": [[round(float(a), 6) for a in row] for row in measured.similarity],
            "children": dict(zip(node.children, (list(measured.split.left), list(measured.split.right)), strict=True)),
            "cross": measured.split.cross,
            "gamma": float(np.sqrt(max(0.0, (1 - measured.split.cross) / 2))),
            "gap": separation_gap(measured.similarity, [groups[i] for i in measured.clients]) if groups else None,
        }


def finish(simulation: Simulation, folder: RunFolder, progress: _Progress) -> dict[str, Any]:
    """Write models, tree and summary of a run whose rounds are over, and return the summary."""
    scenario, state, groups = simulation.scenario, simulation.state, simulation.population.groups
    clusters = [list(c.members) for _, c in sorted(simulation.clusters.items())]
    placed = {i for members in clusters for i in members}
    final = folder.read("metrics.jsonl")[-1]
    if "accuracy" not in final:  # stopped between two evaluations, and resumed to end there
        logged = len(simulation.view.record.log)
        final |= _scores(simulation.evaluate())
        folder.append("disclosure.jsonl", [entry.as_dict() for entry in simulation.view.record.log[logged:]])
    models = {name: c.model for name, c in state.clusters.items()}
    models |= {f"tree {name}": node.model for name, node in state.tree.items()}
    seen = {name: simulation.parameters(model) for name, model in models.items() if simulation.sees(model)}
    folder.write_models(simulation.module, seen)
    folder.write_json("tree.json", list(_tree(state, simulation.clusters, final)))
    faults = folder.read("faults.jsonl")
    answers = folder.read("disclosure.jsonl")
    log = (Disclosure(**{**entry, "about": tuple(entry["about"])}) for entry in answers)
    asked = {str(i) for i in simulation.unseen} if simulation.told is not None else set()
    targets = simulation.population.clients[min(placed)].test.y
    summary = {
        "name": scenario.name,
        "algorithm": type(scenario.algorithm).__name__,
        "protection": type(scenario.protection).__name__,
        "data": type(scenario.data).__name__,
        "metric": metric_of(targets, final),
        "seed": scenario.seed,
        "rounds": state.round,
        "seconds": progress.seconds,
        "accuracy_mean": final["accuracy_mean"],
        "accuracy_worst": final["accuracy_worst"],
        "accuracy_before_clustering": progress.before,
        "loss_mean": float(np.mean(list(final["loss"].values()))) if final["loss"] else None,
        **({"metrics": over_clients(final["metrics"])} if final.get("metrics") else {}),
        **({"scored": {"clients": len(asked & {*final["accuracy"]}), "of": len(asked)}} if asked else {}),
        "clusters": clusters,
        "groups": {str(i): g for i, g in sorted(groups.items())},
        **agreement(clusters, groups),
        **clearness(clusters, folder),
        **({"doubts": known} if (known := doubts(scenario, len(simulation.population.clients), groups)) else {}),
        "bytes_up": simulation.view.record.traffic.bytes_up,
        "bytes_down": simulation.view.record.traffic.bytes_down,
        "disclosed": totals(log, map(party_of, simulation.view.record.costs)),
        "rejected": [f for f in faults if f["rejected"]],
        "below_floor": [row for line in folder.read("metrics.jsonl") for row in line["below_floor"]],
        **({"stopped": dict(progress.stopped)} if progress.stopped else {}),
        **({"apart": apart} if (apart := _apart(simulation)) else {}),
        "faults": len(faults),
        "unplaced": sorted(simulation.population.clients.keys() - placed),
        **({"names": {str(i): name for i, name in names.items()}} if (names := simulation.population.names) else {}),
        **({} if (compared := undecided(state)) is None else {"compared": compared}),
        **({} if simulation.corrupted is None else {"corrupt": sorted(simulation.corrupted.members)}),
        **({"account": said(simulation.watch, simulation.view, answers)} if simulation.watch.on else {}),
        **({"privacy": headline(spent(ledgers))} if (ledgers := simulation.ledgers) else {}),
        **({"ran_out": found} if (found := ran_out(faults)) else {}),
        **_generality(simulation),
        **_conditions(simulation),
        "versions": versions(),
        "machine": machine(),
    }
    folder.write_json("summary.json", summary)
    return summary


def _tree(state: State, clusters: Mapping[str, Cluster], final: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, node in sorted(state.tree.items()):
        parent = name[:-1] or None
        yield {"name": name, "parent": parent, "members": list(node.members), "born": node.born, "accuracy": None, "leaf": False}
    for name, cluster in sorted(clusters.items()):
        known = [final["accuracy"][str(i)] for i in cluster.members if str(i) in final["accuracy"]]
        parent = name[:-1] if name[:-1] in state.tree else None
        leaf = {"name": name, "parent": parent, "members": list(cluster.members), "born": cluster.born}
        yield leaf | {"accuracy": float(np.mean(known)) if known else None, "leaf": True}


def _conditions(simulation: Simulation) -> dict[str, Any]:
    """What the algorithm's convergence is proved under, and whether that holds here."""
    scenario = simulation.scenario
    of = getattr(scenario.algorithm, "conditions", None)
    if of is None:
        return {}
    data = [client.train for _, client in sorted(simulation.population.clients.items())]
    found = of(scenario.training, [len(examples) for examples in data], smoothness_of(simulation.module, data))
    return {"conditions": [asdict(condition) for condition in found]}


def _generality(simulation: Simulation) -> dict[str, Any]:
    """What clients gain from the more general models on their paths: the ensemble, and falling back where allowed."""
    if not simulation.state.tree or simulation.asks_all or simulation.scenario.training.loss != CROSS_ENTROPY:
        return {}
    observe, module, clients = simulation.view.harness.observe, simulation.module, simulation.population.clients
    named = models_of_clients(simulation.state)
    if not all(map(simulation.sees, chain(*named.values()))):
        return {}
    paths = {i: [observe(m) for m in models] for i, models in named.items()}
    ensembles = [ensemble_accuracy(module, vectors, clients[i]) for i, vectors in paths.items()]
    found: dict[str, Any] = {"accuracy_ensemble": float(np.mean(ensembles))}
    if simulation.validation:
        losses = {
            i: [accuracies(module, [Evaluation(i, v, simulation.validation[i].train)])[i].loss for v in vectors]
            for i, vectors in paths.items()
        }
        chosen = fall_back(losses)
        picked = accuracies(module, [Evaluation(i, paths[i][k], clients[i].test) for i, k in chosen.items()])
        found["fell_back"] = sorted(i for i, k in chosen.items() if k < len(paths[i]) - 1)
        found["accuracy_chosen"] = float(np.mean([s.accuracy for s in picked.values()]))
    return found
