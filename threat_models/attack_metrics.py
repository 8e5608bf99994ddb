"""What an attack achieved: success of a backdoor, detection, harm, durability, and the robustness coefficient of a rule."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata
from torch import nn

from ..fl.data.population import Examples
from ..fl.runs.evaluation import ScoringJob, accuracies
from ..fl.runs.metrics import late_count
from ..protocol.view.answers import Vector
from .backdoors import Target, tested


@dataclass(frozen=True, slots=True)
class Success:
    """Attack success rate: the share of triggered examples that get the attacker's label, none of which had it.

    of: per client. clean: the same of the clean model, what the rate would be without an attack, or None where there is none.
    """

    of: Mapping[int, float]
    clean: Mapping[int, float] | None = None

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.of.values())))

    @property
    def worst(self) -> float:
        """Of the client that is hit hardest."""
        return max(self.of.values())

    @property
    def clean_mean(self) -> float | None:
        return None if self.clean is None else float(np.mean(list(self.clean.values())))


def attack_success(
    module: nn.Module,
    models: Mapping[int, Vector],
    tests: Mapping[int, Examples],
    backdoor: Target,
    classes: int,
    clean: Mapping[int, Vector] | None = None,
) -> Success:
    """The success of a backdoor on clients' models, each on its own test examples; clients with no example for it are left out.

    models, clean: float32 (d,) by client, of the run with the attack and of the same seed's run without. Give loyal clients.
    """
    triggered = {i: found for i in sorted(models) if len(found := tested(backdoor, tests[i], classes))}
    if not triggered:
        raise ValueError("no client has a test example that the backdoor is about")

    def rates(vectors: Mapping[int, Vector]) -> dict[int, float]:
        scores = accuracies(module, [ScoringJob(i, vectors[i], examples) for i, examples in triggered.items()])
        return {i: score.accuracy for i, score in scores.items()}

    return Success(rates(models), None if clean is None else rates(clean))


@dataclass(frozen=True, slots=True)
class Detection:
    """How flags fit members. true_positive_rate: nan without members; false_positive_rate: nan without loyal clients.

    loyal_lost: loyal clients that were flagged.
    """

    true_positive_rate: float
    false_positive_rate: float
    loyal_lost: tuple[int, ...]


def detection(flagged: Collection[int], members: Collection[int], clients: Collection[int]) -> Detection:
    """Flagged clients against the true members, among all clients. Raises ValueError for ids that are no clients."""
    everyone, bad, hit = set(clients), set(members), set(flagged)
    if not (bad | hit) <= everyone:
        raise ValueError(f"not among the clients: {sorted((bad | hit) - everyone)}")
    loyal = everyone - bad
    caught = len(hit & bad) / len(bad) if bad else float("nan")
    false = len(hit & loyal) / len(loyal) if loyal else float("nan")
    return Detection(caught, false, tuple(sorted(hit & loyal)))


def area_under_curve(suspicion: Mapping[int, float], members: Collection[int]) -> float:
    """Probability that a member is more suspicious than a loyal client, ties counted half (Mann and Whitney 1947)."""
    ids = sorted(suspicion)
    bad = np.array([i in set(members) for i in ids])
    if bad.all() or not bad.any():
        raise ValueError("the curve needs members and loyal clients among those with a suspicion")
    ranks = rankdata([suspicion[i] for i in ids])
    count = int(bad.sum())
    return float((ranks[bad].sum() - count * (count + 1) / 2) / (count * (len(ids) - count)))


@dataclass(frozen=True, slots=True)
class LoyalClusters:
    """Clusters without any member. lost: loyal clients that share a cluster with a member, or are in none."""

    count: int
    mean_size: float
    lost: tuple[int, ...]


def loyal_clusters(clusters: Sequence[Sequence[int]], members: Collection[int], clients: Collection[int]) -> LoyalClusters:
    """FLIC's count of loyal clusters and their mean size (0 if there is none)."""
    bad = set(members)
    pure = [c for c in clusters if len(c) and not bad & set(c)]
    kept = {i for c in pure for i in c}
    size = float(np.mean([len(c) for c in pure])) if pure else 0.0
    return LoyalClusters(len(pure), size, tuple(sorted(set(clients) - bad - kept)))


@dataclass(frozen=True, slots=True)
class Course:
    """Accuracy over rounds, the three ways that papers report it side by side: the best hides a collapse.

    late: the mean of the last evaluations, `late_count` of them.
    """

    final: float
    late: float
    best_of_last_50: float


def course(accuracy: Sequence[float]) -> Course:
    """Of the accuracy of every round, in order."""
    if not accuracy:
        raise ValueError("no round was evaluated")
    return Course(accuracy[-1], float(np.mean(accuracy[-late_count(len(accuracy)) :])), max(accuracy[-50:]))


def impact(clean: Mapping[int, float], attacked: Mapping[int, float]) -> dict[int, float]:
    """Accuracy lost to the attack, by seed: each run is compared with the run of the same seed without attack."""
    if clean.keys() != attacked.keys():
        raise ValueError(f"seeds without their pair: {sorted(clean.keys() ^ attacked.keys())}")
    return {seed: clean[seed] - attacked[seed] for seed in sorted(clean)}


def durability(success: Mapping[int, float], last_poisoned: int) -> int | None:
    """Rounds after the last poisoned one until the success rate is under half of what it was then; None if it never is.

    success: rate by round.
    """
    if last_poisoned not in success:
        raise ValueError(f"the success rate of round {last_poisoned} is missing")
    half = success[last_poisoned] / 2
    fallen = [round for round, rate in sorted(success.items()) if round > last_poisoned and rate < half]
    return fallen[0] - last_poisoned if fallen else None


def empirical_kappa(result: Vector, honest: Sequence[Vector]) -> float:
    """|R - mu_H|^2 / (1 / |H| sum |x_i - mu_H|^2) (Allouah et al. 2023, definition 2); infinite where honest updates are equal.

    A robust rule keeps it under its kappa whatever the attack.
    """
    mean = np.zeros(len(result))
    for update in honest:
        mean += update
    mean /= len(honest)
    spread = float(np.mean([np.sum((update - mean) ** 2) for update in honest]))
    moved = float(np.sum((result - mean) ** 2))
    return moved / spread if spread > 0 else (0.0 if moved == 0 else float("inf"))
