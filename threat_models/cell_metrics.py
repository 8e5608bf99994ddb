"""What is recorded of a cell: the metrics of a trial, beside those of the attack-free run of the same seed, as plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ..fl.runs.diverged import diverged, guess_of, one_label
from ..fl.runs.metrics import adjusted_rand_index, purity
from ..fl.runs.privacy import headline, spent
from ..fl.runs.unsummed import nothing_summed
from ..protocol.view.disclosure import party_of, totals
from .attack_metrics import course, durability, loyal_clusters
from .backdoors import LearnedTarget, Target
from .cell_detection import detected
from .design_limit import built_for
from .kappa_theory import kappa_bound, least_kappa
from .trial import Clean, Trial, mean_over, success_of

NO_GROUP = -1
"""The planted group of members of an adversary, in agreement with clusters."""


def clean_metrics(trial: Trial) -> dict[str, Any]:
    """Of an attack-free run."""
    classes = trial.simulation.population.classes
    return {
        **_accuracy(trial, trial.accuracy),
        "classes": classes,
        "one_label": one_label(trial.simulation.population),
        "clusters": clusters_of(trial),
        **price(trial),
        **trouble(trial),
        **came_to_nothing(trial),
    }


def attacked_metrics(trial: Trial, clean: Clean, target: Target | LearnedTarget | None) -> dict[str, Any]:
    """Of a run under attack. Accuracies are those of the loyal clients, in the attack-free run too: of the same ones.

    loyal: how many are corrupt in no round; where none is, accuracies are those of all. everybody_corrupt: in one round.
    same_models: whether every loyal client ended with the very model of the run without attack.
    attackers, built_for: of the round in which most were at work beyond what the defence is built for, how many were, the silent
    among them, and how many that is; None where it states none, and the round is that with most.
    """
    with_attack, without = _accuracy(trial, trial.accuracy), _accuracy(trial, clean.accuracy)["accuracy"]
    of = with_attack["accuracy"]
    impact = {name: without[name] - of[name] for name in ("final", "late", "best_of_last_50")}
    return {
        "members": sorted(trial.members),
        **_most_at_work(trial),
        "loyal": len(trial.loyal),
        "everybody_corrupt": any(one.clients and one.clients == one.members for one in trial.judged),
        **with_attack,
        "clean": without,
        "impact": impact,
        "success": None if target is None else _success(trial, target, clean),
        "same_models": _same_models(trial, clean),
        "detection": detected(trial, _groups(trial)),
        "clusters": clusters_of(trial),
        "kappa": _kappa(trial),
        **price(trial),
        **trouble(trial),
    }


def _same_models(trial: Trial, clean: Clean) -> bool:
    pairs = [(trial.models.get(i), clean.models.get(i)) for i in trial.loyal]
    return bool(pairs) and all(a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in pairs)


def _most_at_work(trial: Trial) -> dict[str, int | None]:
    algorithm = trial.simulation.scenario.algorithm
    rounds = [(one.at_work, built_for(algorithm, one.met)) for one in trial.judged] or [(0, built_for(algorithm, 0))]
    attackers, limit = max(rounds, key=lambda of: (of[0] - (of[1] or 0), of[0]))
    return {"attackers": attackers, "built_for": limit}


def _accuracy(trial: Trial, accuracy: Any) -> dict[str, Any]:
    means = mean_over(accuracy, trial.clients, trial.measured)
    places = {client: k for k, client in enumerate(trial.clients)}
    last = {i: float(accuracy[-1, places[i]]) for i in trial.measured}
    measured = {i: a for i, a in last.items() if np.isfinite(a)}
    worst = min(measured, key=lambda i: measured[i], default=None)
    of = asdict(course([float(a) for a in means[np.isfinite(means)]]))
    of |= {"worst": None if worst is None else measured[worst], "worst_client": worst}
    return {"accuracy": of, "rounds": trial.rounds, "course": [float(a) for a in means]}


def _success(trial: Trial, target: Target | LearnedTarget, clean: Clean) -> dict[str, Any]:
    """The backdoor's rate without the target class at the end, in its last poisoned round and at its highest, with the
    attack-free model's beside it. The highest is of half of the attack on: a model that has learned little may take everything
    for the target.
    """
    found = success_of(trial, target, clean)
    worst = max(found.of, key=lambda i: found.of[i])
    last, after = trial.last_poisoned, [t for t in sorted(trial.success) if t >= trial.last_poisoned]
    peak = max(trial.success, key=lambda t: trial.success[t], default=None)
    return {
        "mean": found.mean,
        "last_poisoned": trial.success.get(last, found.mean),
        "last_poisoned_round": last,
        "peak": found.mean if peak is None else trial.success[peak],
        "peak_round": peak,
        "worst": found.worst,
        "worst_client": worst,
        "of": {str(i): rate for i, rate in found.of.items()},
        "clean_mean": found.clean_mean,
        "clean_worst": None if found.clean is None else max(found.clean.values()),
        "measured_after": after if len(after) > 1 else [],
        "durability": durability(trial.success, last) if len(after) > 1 else None,
    }


def _kappa(trial: Trial) -> dict[str, Any] | None:
    """Over the rounds under attack; n, f, bound and least, the latter what no rule goes below, of the round with the largest."""
    if not trial.kappas:
        return None
    n, f = trial.sizes[int(np.argmax(trial.kappas))]
    bound = kappa_bound(getattr(trial.simulation.scenario.algorithm, "rule", None), n, f)
    least = least_kappa(n, f) if 2 * f < n else None
    found = {"mean": float(np.mean(trial.kappas)), "max": max(trial.kappas)}
    return found | {"n": n, "f": f, "bound": bound, "least": least}


def clusters_of(trial: Trial) -> dict[str, Any]:
    """Agreement of the clusters with the planted groups, members of the adversary being a group of their own.

    None where nobody is loyal throughout: one group is always found.
    """
    clusters = _groups(trial)
    placed = {i for c in clusters for i in c}
    counts = {"count": len(clusters), "unplaced": len(trial.clients) - len(placed)}
    if not trial.loyal:
        return counts | dict.fromkeys(("loyal", "loyal_mean_size", "loyal_lost", "purity", "ari"))
    groups = trial.simulation.population.groups
    planted = {i: NO_GROUP if i in trial.members else groups.get(i, 0) for i in placed}
    loyal = loyal_clusters(clusters, trial.members & placed, placed)
    return counts | {
        "loyal": loyal.count,
        "loyal_mean_size": loyal.mean_size,
        "loyal_lost": len(set(loyal.lost) - trial.members),
        "purity": purity(clusters, planted),
        "ari": adjusted_rand_index(clusters, planted),
    }


def _groups(trial: Trial) -> Sequence[tuple[int, ...]]:
    """The clusters at the end: of those who contribute, where the state tells them from those who are served.

    A client that contributes to none is one of its own.
    """
    state: Any = trial.simulation.state
    clusters = [tuple(c.members) for c in trial.simulation.clusters.values()]
    contributors: Mapping[str, tuple[int, ...]] | None = getattr(state, "contributors", None)
    if contributors is None:
        return clusters
    inside = [tuple(c) for c in contributors.values() if c]
    apart = {i for c in clusters for i in c} - {i for c in inside for i in c}
    return [*inside, *((i,) for i in sorted(apart))]


def price(trial: Trial) -> dict[str, Any]:
    """What the run cost and who learned what. cost: of this machine, and so the only values that vary. seconds: of CPU.

    server_ms: of CPU per round, of servers and rule together, without the clients' work and protocol. peak_mb: that the whole
    process held, data and libraries counted. epsilon: of the client that spent most, None where the protection adds no noise.
    epsilon_leaves_out: answers about the same data that have no noise, as the scenario acknowledges.
    """
    view, rounds = trial.simulation.view, max(1, trial.simulation.state.round)
    parties = totals(view.record.log, map(party_of, view.record.costs))
    learned = {party: [_learned(row) for row in rows] for party, rows in parties.items()}
    privacy = headline(spent(trial.simulation.ledgers))
    return {
        "epsilon": max((of["epsilon_worst"] for of in privacy.values()), default=None),
        "epsilon_leaves_out": sorted({name for of in privacy.values() for name in of["acknowledged"]}),
        "privacy": privacy,
        "bytes_up": view.record.traffic.bytes_up,
        "bytes_down": view.record.traffic.bytes_down,
        "learned": learned,
        "cost": {"seconds": trial.seconds, "server_ms": 1000 * trial.server / rounds, "peak_mb": trial.peak},
    }


def _learned(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("what", "words", "scalars", "bytes", "times")}


def came_to_nothing(trial: Trial) -> dict[str, Any]:
    """Of a run without attack that diverged or learned nothing, by which losses (`fl.runs.diverged`), or of how many clients the
    loss at the end is not finite, or in which no update was summed; else nothing.
    """
    scenario, clients = trial.simulation.scenario, trial.simulation.population.clients
    last = trial.losses[-1].get("loss", {}) if trial.losses else {}
    if bad := sum(not np.isfinite(loss) and len(clients[int(i)].test) > 0 for i, loss in last.items()):
        return {"not_finite": int(bad)}
    population = trial.simulation.population
    grown = diverged(trial.losses, scenario.training.loss, population.classes, guess_of(population))
    return ({"diverged": grown} if grown else {}) | _unsummed(trial)


def _unsummed(trial: Trial) -> dict[str, Any]:
    """Why no update was summed in any round, as of a run (`fl.runs.unsummed`); nothing where some was."""
    record = trial.simulation.view.record
    if trial.withheld < trial.simulation.state.round:
        return {}
    lines = [{"below_floor": [{"members": list(below.clients)} for below in record.below_floor]}]
    faults = [{"reason": fault.reason} for fault in record.faults]
    why = nothing_summed(lines, [answer.as_dict() for answer in record.log], faults)
    return {"nothing_summed": why} if why else {}


def trouble(trial: Trial) -> dict[str, Any]:
    """Uploads that could not be used, and rounds that came to nothing.

    stood: the share of the measured clients whose model stayed as it was, mean over the rounds; withheld: rounds in which a sum
    was withheld (`withheld`), and first_withheld, the first one. An attack that has rounds come to nothing once models are good
    takes nothing that accuracy shows.
    """
    members = sum(member for _, member in trial.rejected)
    return {
        "rejected": {"loyal": len(trial.rejected) - members, "members": members},
        "unmoved": {"rounds": trial.unmoved[0], "reason": trial.unmoved[1]} if trial.unmoved[0] else None,
        "lost": {"rounds": trial.lost[0], "reason": trial.lost[1]} if trial.lost[0] else None,
        "stood": float(np.mean(trial.stood)) if trial.stood else None,
        "withheld": trial.withheld,
        "first_withheld": None if trial.first_withheld is None else asdict(trial.first_withheld),
    }
