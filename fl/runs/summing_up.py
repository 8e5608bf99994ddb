"""The end of a run: its models, tree and summary."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from math import isfinite
from typing import Any

import numpy as np

from ...protocol.pki.names import name_of
from ...protocol.view.disclosure import Disclosure, party_of, totals
from ..algorithms.algorithm import Cluster, State
from ..clients.losses import CROSS_ENTROPY
from ..clients.measures import directions
from ..clustering.fusion_theory import smoothness_of
from ..data.agreed import in_metadata, made_up
from ..emd.record import undecided
from ..meters.record import said_with_each
from .diverged import diverged, guess_of
from .evaluation import ScoringJob, accuracies
from .feasibility import NOISE_OF, doubts
from .generality import ensemble_accuracy, fall_back, models_of_clients
from .not_summed import to_tell
from .outweighing import outweighed
from .privacy import headline, ran_out, spent
from .round_lines import fault_lines, scores
from .rule_check import rule_doubts
from .run_folder import RunFolder, machine, versions
from .simulation import Simulation
from .under_attack import under_attack
from .unsummed import nothing_summed
from .verdicts import agreement, clearness, metric_of, over_clients


@dataclass(slots=True)
class Progress:
    """What the summary needs from rounds that are over; kept in checkpoints. stopped: since when, by cluster. in_vain: see
    `counted` of not_summed.py.
    """

    seconds: float = 0.0
    before: float | None = None
    stopped: Mapping[str, int] = field(default_factory=dict)
    in_vain: Mapping[int, int] = field(default_factory=dict)


def finish(simulation: Simulation, folder: RunFolder, progress: Progress) -> dict[str, Any]:
    """Write models, tree and summary of a run whose rounds are over, and return the summary."""
    scenario, state, groups = simulation.scenario, simulation.state, simulation.population.groups
    clusters = [list(c.members) for _, c in sorted(simulation.clusters.items())]
    placed = {i for members in clusters for i in members}
    lines = folder.read("metrics.jsonl")
    final = lines[-1]
    if "accuracy" not in final:  # stopped between two evaluations, and resumed to end there
        logged, known = len(simulation.view.record.log), len(simulation.view.record.faults)
        final |= scores(simulation.evaluate())
        folder.append("faults.jsonl", fault_lines(state.round - 1, simulation.view.record.faults[known:]))
        folder.append("disclosure.jsonl", [entry.as_dict() for entry in simulation.view.record.log[logged:]])
    models = {name: c.model for name, c in state.clusters.items()}
    models |= {f"tree {name}": node.model for name, node in state.tree.items()}
    seen = {name: simulation.parameters(model) for name, model in models.items() if simulation.sees(model)}
    folder.write_models(simulation.module, seen, in_metadata(simulation.schema))
    folder.write_json("tree.json", list(_tree(state, simulation.clusters, final)))
    faults = folder.read("faults.jsonl")
    answers = folder.read("disclosure.jsonl")
    log = (Disclosure(**{**entry, "about": tuple(entry["about"])}) for entry in answers)
    turned_down = [{key: line[key] for key in ("round", "turned_down")} for line in lines if "turned_down" in line]
    unmoved = [line["unmoved"] for line in lines if "unmoved" in line]
    asked = {str(i) for i in simulation.unseen} if simulation.told is not None else set()
    rows = made_up(scenario.data) if simulation.told is None else ""
    doubtful = [rows] * bool(rows) + doubts(scenario, len(simulation.population.clients), groups) + simulation.of_data
    doubtful += rule_doubts(scenario, len(simulation.population.clients))
    doubtful += outweighed(scenario, simulation.samples, names_of(simulation)) if simulation.told is None else []
    doubtful = borne_out(doubtful, faults)
    losses = [*final["loss"].values()]  # None where one is not finite
    targets = simulation.population.clients[min(placed or simulation.population.clients)].test.y
    account, exposure = said_with_each(simulation.watch, simulation.view, answers) if simulation.watch.on else ({}, {})
    folder.write_json("exposure.json", exposure)
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
        "accuracy_before_clustering": _before(lines, final, progress.before),
        "loss_mean": float(np.mean(losses)) if losses and None not in losses else None,
        **({"not_finite": broken} if (broken := _not_finite(simulation, final)) else {}),
        **({"diverged": grown} if (grown := _diverged(simulation, [*lines[:-1], final])) and not rows else {}),
        **({"metrics": over_clients(final["metrics"], directions(scenario.training.metrics))} if final.get("metrics") else {}),
        **({"scored": {"clients": len(asked & {*final["accuracy"]}), "of": len(asked)}} if asked else {}),
        "clusters": clusters,
        "groups": {str(i): g for i, g in sorted(groups.items())},
        **agreement(clusters, groups),
        **clearness(clusters, folder),
        **({"doubts": doubtful} if doubtful else {}),
        "bytes_up": simulation.view.record.traffic.bytes_up,
        "bytes_down": simulation.view.record.traffic.bytes_down,
        "disclosed": totals(log, map(party_of, simulation.view.record.costs)),
        "rejected": [f for f in faults if f["rejected"]],
        **({"turned_down": turned_down} if turned_down else {}),
        **({"unmoved": {"rounds": len(unmoved), "reason": unmoved[0]}} if unmoved else {}),
        **({"nothing_summed": why} if simulation.corrupted is None and (why := nothing_summed(lines, answers, faults)) else {}),
        "below_floor": [row for line in lines for row in line["below_floor"]],
        **({"stopped": dict(progress.stopped)} if progress.stopped else {}),
        **({"not_summed": {str(i): n for i, n in told.items()}} if (told := to_tell(progress.in_vain, state.round)) else {}),
        **({"adapts": True} if hasattr(scenario.algorithm, "adapt") else {}),
        **({"apart": apart} if (apart := in_no_cluster(simulation)) else {}),
        "faults": len(faults),
        "unplaced": sorted(simulation.population.clients.keys() - placed),
        **({"names": {str(i): name for i, name in names.items()}} if (names := names_of(simulation)) else {}),
        **({} if (compared := undecided(state)) is None else {"compared": compared}),
        **_corrupt(simulation, folder, final),
        **({"account": account} if account else {}),
        **({"privacy": headline(spent(ledgers))} if (ledgers := simulation.ledgers) else {}),
        **({"ran_out": found} if (found := ran_out(faults)) else {}),
        **_generality(simulation),
        **_conditions(simulation),
        "versions": versions(),
        "machine": machine(),
    }
    folder.write_json("summary.json", summary)
    return summary


def borne_out(doubtful: Sequence[str], faults: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of a run that is over, its doubts, without that budgets may be spent before, where none was."""
    return [words for words in doubtful if not words.startswith(NOISE_OF) or ran_out(faults)]


def _before(lines: Sequence[Mapping[str, Any]], final: Mapping[str, Any], known: float | None) -> float | None:
    """Mean accuracy in the last round in which all were in one cluster, of the clients whose accuracy is known at the end: others
    may have been there, or have said how well they predict, then. known: of all of them.
    """
    alone = [line["accuracy"] for line in lines if line.get("accuracy") and len(line.get("clusters") or ()) == 1]
    common = [value for i, value in alone[-1].items() if i in final["accuracy"] and value is not None] if alone else []
    return float(np.mean(common)) if known is not None and common else known


def _corrupt(simulation: Simulation, folder: RunFolder, final: Mapping[str, Any]) -> dict[str, Any]:
    if simulation.corrupted is None:
        return {}
    members, lines = sorted(simulation.corrupted.members), [*folder.read("metrics.jsonl")[:-1], final]
    said = under_attack(simulation.scenario.adversary, members, simulation.population.clients, lines)
    return {"corrupt": members, "under_attack": said}


def _not_finite(simulation: Simulation, final: Mapping[str, Any]) -> list[int]:
    """Clients whose loss at the end is no number, though they have examples to be tested on: their model came to nothing."""
    clients = simulation.population.clients
    bad = [int(i) for i, loss in final["loss"].items() if loss is None or not isfinite(loss)]
    return sorted(i for i in bad if i not in clients or len(clients[i].test))


def _diverged(simulation: Simulation, lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Nothing where clients are corrupt, too: that is then why, and said by itself."""
    if simulation.corrupted is not None:
        return {}
    population = simulation.population
    return diverged(lines, simulation.scenario.training.loss, population.classes, guess_of(population))


def names_of(simulation: Simulation) -> Mapping[int, str]:
    """What clients are called: as the data call them; of clients elsewhere as certificates, commands and logs do, since the
    coordinator's own table is no client's.
    """
    clients = simulation.population.clients
    return simulation.population.names if simulation.told is None else {i: name_of(i) for i in clients}


def in_no_cluster(simulation: Simulation) -> tuple[int, ...]:
    """Clients that are in no cluster; none where clients choose among models by themselves."""
    placed = {i for cluster in simulation.clusters.values() for i in cluster.members}
    return () if simulation.weighing is not None else tuple(sorted(simulation.population.clients.keys() - placed))


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
    if simulation.told is not None and made_up(scenario.data):  # what clients train on is not here
        data = []
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
            i: [accuracies(module, [ScoringJob(i, v, simulation.validation[i].train)])[i].loss for v in vectors]
            for i, vectors in paths.items()
        }
        chosen = fall_back(losses)
        picked = accuracies(module, [ScoringJob(i, paths[i][k], clients[i].test) for i, k in chosen.items()])
        found["fell_back"] = sorted(i for i, k in chosen.items() if k < len(paths[i]) - 1)
        found["accuracy_chosen"] = float(np.mean([s.accuracy for s in picked.values()]))
    return found
