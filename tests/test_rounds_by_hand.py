"""Whole rounds of simulations, torch and all, against the papers' equations in numpy; and methods that are others in a limit."""

from collections.abc import Iterator
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cloister.fl.algorithms.cfl import CFL, Absolute
from cloister.fl.algorithms.cfl_gp import CFLGP
from cloister.fl.algorithms.fed_clust import FedClust
from cloister.fl.algorithms.fedavg import FedAvg, FedProx, Local
from cloister.fl.algorithms.fedem import FedEM
from cloister.fl.algorithms.fedrc import FedRC
from cloister.fl.algorithms.fedsoft import FedSoft
from cloister.fl.algorithms.fesem import FeSEM
from cloister.fl.algorithms.flex_cfl import FlexCFL
from cloister.fl.algorithms.fpfc import FPFC
from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.algorithms.pacfl import PACFL
from cloister.fl.algorithms.pfed_graph import PFedGraph
from cloister.fl.clients.training import Job, Training, train_one
from cloister.fl.clustering.fusion import L1, Scad
from cloister.fl.data.population import Examples
from cloister.fl.models.vector import to_vector

from .softmax_by_hand import (
    CLIENTS,
    LR,
    TRAIN,
    C,
    F,
    M,
    N,
    Values,
    active,
    farthest,
    gradient,
    held,
    loaded,
    losses,
    simulation,
    trained,
    used,
)

pytestmark = pytest.mark.trains
K = 3
CLOSE = 1e-5
some = pytest.mark.parametrize("participation", [1.0, 0.5])


def mean_losses(models: list[Values], client: int) -> list[float]:
    return [float(losses(w, client).mean()) for w in models]


def soft(scores: Values) -> Values:
    e = np.exp(scores - scores.max(axis=0))
    return np.asarray(e / e.sum(axis=0))


def best_partition(points: Any, count: int) -> list[tuple[int, ...]]:
    """k-means by trying all partitions."""
    rows, found = np.asarray(points), []
    for rest in product(range(count), repeat=M - 1):
        labels = np.array((0, *rest))
        if len(set(labels)) == count:
            groups = [tuple(map(int, np.flatnonzero(labels == k))) for k in range(count)]
            found.append((sum(float(((rows[list(g)] - rows[list(g)].mean(axis=0)) ** 2).sum()) for g in groups), sorted(groups)))
    return min(found)[1]


def shared(groups: list[tuple[int, ...]], models: list[Values]) -> list[Values]:
    """Of each client the model of its group."""
    return [next(w for g, w in zip(groups, models, strict=True) if i in g) for i in CLIENTS]


def averaged(groups: list[tuple[int, ...]], models: list[Values]) -> list[Values]:
    """A round of federated averaging inside each group, by samples."""
    return [np.average([trained(w, i) for i in g], axis=0, weights=N[list(g)]) for g, w in zip(groups, models, strict=True)]


def left(penalty: Scad | L1, norm: float, rho: float) -> float:
    """The prox of the penalty as a factor, by search among three million points."""
    if isinstance(penalty, L1):
        return max(0.0, 1 - penalty.lam / (rho * norm)) if norm > 0 else 0.0
    lam, a, xi = penalty.lam, penalty.a, penalty.xi
    low, high = 0.0, norm
    for _ in range(4):
        t = np.linspace(low, high, 2001)
        beyond = np.where(t <= a * lam, (a * lam * t - 0.5 * (t**2 + lam**2)) / (a - 1), lam**2 * (a + 1) / 2)
        cost = np.where(t <= xi, lam / (2 * xi) * t**2 + xi * lam / 2, np.where(t <= lam, lam * t, beyond))
        at = float(t[int(np.argmin(cost + rho / 2 * (norm - t) ** 2))])
        step = (high - low) / 2000
        low, high = max(0.0, at - 2 * step), min(norm, at + 2 * step)
    return at / norm if norm > 0 else 0.0


@some
@pytest.mark.parametrize("penalty", [Scad(lam=0.5, a=3.0, xi=0.05), L1(lam=0.15)], ids=lambda p: type(p).__name__)
def test_fpfc(penalty: Any, participation: float) -> None:
    rho, rounds, nu = 1.2, 5, 0.4
    run = simulation(FPFC(rounds=rounds, penalty=penalty, rho=rho, nu=nu, participation=participation))
    w = used(run)
    zeta, d, met = [*w], len(w[0]), set[int]()
    theta, v = np.zeros((M, M, d)), np.zeros((M, M, d))
    for k in range(rounds):
        who = active(run, participation)
        run.step()
        met.update(who)
        for i in who:
            w[i] = trained(w[i], i, also=lambda x, z=zeta[i]: rho * (x - z))
        for i, j in combinations(CLIENTS, 2):
            if i in who or j in who:
                delta = w[i] - w[j] + v[i, j] / rho
                theta[i, j] = left(penalty, float(np.linalg.norm(delta)), rho) * delta
                v[i, j] += rho * (w[i] - w[j] - theta[i, j])
                theta[j, i], v[j, i] = -theta[i, j], -v[i, j]
        zeta = [np.mean([w[j] + theta[i, j] - v[i, j] / rho for j in CLIENTS], axis=0) for i in CLIENTS]
        if k + 1 < rounds:
            assert farthest(used(run), w) < CLOSE
    near = {i: {j for j in CLIENTS if j == i or ({i, j} <= met and np.linalg.norm(theta[i, j]) <= nu)} for i in CLIENTS}
    for _ in CLIENTS:
        near = {i: set().union(*(near[j] for j in near[i])) for i in CLIENTS}
    groups = sorted({tuple(sorted(g)) for g in near.values()})
    assert sorted(c.members for c in run.state.clusters.values()) == groups
    alphas = [np.average([w[i] for i in g], axis=0, weights=N[list(g)]) for g in groups]
    assert farthest(used(run), shared(groups, alphas)) < CLOSE


def test_fpfc_without_a_penalty_is_local_where_a_round_is_one_step() -> None:
    """And only there: line 3 pulls every step of a round to where the round began."""
    for epochs, same in ((1, True), (2, False)):
        training = Training(epochs=epochs, batch=1000, lr=LR)
        runs = [simulation(a, training=training) for a in (FPFC(rounds=9, penalty=Scad(lam=0)), Local())]
        for _ in range(3):
            for run in runs:
                run.step()
        assert (farthest(*map(used, runs)) < CLOSE) is same


@some
@pytest.mark.parametrize("average", ["models", "gradients"])
def test_ifca(average: Any, participation: float) -> None:
    gamma = 0.37
    run = simulation(IFCA(models=K, average=average, gamma=gamma, participation=participation, sampling="random"))
    models = held(run)
    for _ in range(3):
        who = active(run, participation)
        run.step()
        of = {k: [i for i in who if np.argmin(mean_losses(models, i)) == k] for k in range(K)}
        if average == "models":
            models = [np.mean([trained(w, i) for i in of[k]], axis=0) if of[k] else w for k, w in enumerate(models)]
        else:
            models = [w - gamma / len(who) * sum(gradient(w, i) for i in of[k]) for k, w in enumerate(models)]
        assert farthest(held(run), models) < CLOSE
        assert farthest(used(run), [models[int(np.argmin(mean_losses(models, i)))] for i in CLIENTS]) < CLOSE


@some
@pytest.mark.parametrize("by_concept", [False, True], ids=["FedEM", "FedRC"])
def test_fedem_and_fedrc(by_concept: bool, participation: float) -> None:
    kind = FedRC if by_concept else FedEM
    run = simulation(kind(models=K, participation=participation, sampling="random"))
    models, pi, p = held(run), dict[int, Values](), np.full((K, C), 1 / K)
    for _ in range(4):
        who = active(run, participation)
        run.step()
        ends, table = {}, np.zeros((K, C))
        for i in who:
            y = TRAIN[i][1]
            scores = np.log(pi.get(i, np.full(K, 1 / K)))[:, None] - np.stack([losses(w, i) for w in models])
            q = soft(scores - np.log(p[:, y]) if by_concept else scores)
            pi[i] = q.mean(axis=1)
            ends[i] = [trained(w, i, q[k]) for k, w in enumerate(models)]
            table += q @ np.eye(C)[y]
        models = [np.average([ends[i][k] for i in who], axis=0, weights=N[who]) for k in range(K)]
        p = table / table.sum(axis=1, keepdims=True)
        assert farthest(held(run), models) < CLOSE


@some
def test_fedsoft(participation: float) -> None:
    pull, sigma, interval = 0.4, 1e-2, 2
    run = simulation(
        FedSoft(models=K, pull=pull, interval=interval, smoother=sigma, participation=participation, sampling="random")
    )
    centres, own, counts, since = held(run), dict[int, Values](), dict[int, Values](), dict[int, int]()
    for t in range(5):
        who = active(run, participation)
        run.step()
        for i in who:
            if i not in since or since[i] // interval != t // interval:
                nearest = np.argmin([losses(c, i) for c in centres], axis=0)
                counts[i], since[i] = np.bincount(nearest, minlength=K).astype(np.float64), t
            u = np.where(counts[i] == 0, sigma, counts[i] / N[i])
            start = own.get(i, sum(u[k] * c for k, c in enumerate(centres)) / u.sum())

            def pulled(w: Values, u: Values = u, centres: list[Values] = centres) -> Values:
                return np.asarray(pull * sum(u[k] * (w - c) for k, c in enumerate(centres)))

            own[i] = trained(start, i, also=pulled)
        total = sum(counts[i] for i in who)
        centres = [sum(counts[i][k] * own[i] for i in who) / total[k] if total[k] else c for k, c in enumerate(centres)]
        assert farthest(held(run), centres) < CLOSE
        assert farthest([used(run)[i] for i in sorted(own)], [own[i] for i in sorted(own)]) < CLOSE


@pytest.mark.parametrize("mu", [0.0, 0.5])
@pytest.mark.parametrize("centres", ["this round's", "printed"])
def test_fesem(centres: Any, mu: float) -> None:
    run = simulation(FeSEM(models=2, centres=centres, prox=mu))
    start = used(run)[0]
    models = [trained(start, i, also=lambda x: mu * (x - start)) for i in CLIENTS]
    groups = best_partition(models, 2)
    c = [np.mean([models[i] for i in g], axis=0) for g in groups]
    run.step()
    for _ in range(3):
        assert farthest(used(run), shared(groups, c)) < CLOSE
        run.step()
        own = shared(groups, c)
        models = [trained(own[i], i, also=lambda x, a=own[i]: mu * (x - a)) for i in CLIENTS]
        about = c if centres == "printed" else [np.mean([models[i] for i in g], axis=0) for g in groups]
        r = [int(np.argmin([np.sum((w - a) ** 2) for a in about])) for w in models]
        groups = [tuple(i for i in CLIENTS if r[i] == k) for k in range(2)]
        c = [np.mean([models[i] for i in g], axis=0) for g in groups]


@pytest.mark.parametrize("eta", [0.0, 0.3])
def test_flex_cfl(eta: float) -> None:
    run = simulation(FlexCFL(groups=2, eta_g=eta))
    start = used(run)[0]
    updates = np.array([trained(start, i) - start for i in CLIENTS])
    directions = np.linalg.svd(updates.T, full_matrices=False)[0][:, :2]
    groups = best_partition(updates @ directions / np.linalg.norm(updates, axis=1)[:, None], 2)
    models = [start + updates[list(g)].mean(axis=0) for g in groups]
    run.step()
    for _ in range(3):
        assert farthest(used(run), shared(groups, models)) < CLOSE
        run.step()
        ends = averaged(groups, models)
        drawn = [w / np.linalg.norm(w) for w in ends]
        models = [(w + eta * drawn[1 - k]) / (1 + eta / float(np.linalg.norm(ends[1 - k]))) for k, w in enumerate(ends)]


@pytest.mark.parametrize(("count", "limit"), [(2, 6), (3, 4)])
def test_cfl_gp(count: int, limit: int) -> None:
    period = 2
    run = simulation(CFLGP(models=count, period=period, limit=limit))
    models, labels = [used(run)[0]] * count, [0] * M
    d = len(models[0])
    profiles = np.zeros((count * d, M))
    for t in range(8):
        run.step()
        if t % period == 0 and t < limit:
            k, beta = t // period % count, 1 / ((t + 1) // (count * period) + 1)
            block = slice(k * d, (k + 1) * d)
            profiles[block] = (1 - beta) * profiles[block] + beta * np.stack([gradient(models[k], i) for i in CLIENTS], axis=1)
            leading = np.linalg.svd(profiles, full_matrices=False)[0][:, :count]
            groups = best_partition((leading.T @ profiles).T, count)
            names = list(permutations(range(count)))
            new = [[next(name[k] for k, g in enumerate(groups) if i in g) for i in CLIENTS] for name in names]
            kept = [sum(a == b for a, b in zip(one, labels, strict=True)) for one in new]
            labels = [next(k for k, c in enumerate(run.state.every.values()) if i in c.members) for i in CLIENTS]
            assert labels in [one for one, agree in zip(new, kept, strict=True) if agree == max(kept)]
        members = [[i for i in CLIENTS if labels[i] == k] for k in range(count)]
        models = [np.mean([trained(w, i) for i in of], axis=0) if of else w for w, of in zip(models, members, strict=True)]
        assert farthest(used(run), [models[k] for k in labels]) < CLOSE


def merged(distances: Values, at: float, by: str) -> list[tuple[int, ...]]:
    """The nearest two clusters become one while they are within `at`; its distances are the larger, or the mean, of both."""
    far, clusters = distances + np.diag(np.full(M, np.inf)), [{i} for i in CLIENTS]
    while len(clusters) > 1 and far.min() <= at:
        a, b = sorted(map(int, np.unravel_index(np.argmin(far), far.shape)))
        row = np.maximum(far[a], far[b]) if by == "complete" else (far[a] + far[b]) / 2
        far[a] = far[:, a] = row
        far[a, a] = np.inf
        far = np.delete(np.delete(far, b, axis=0), b, axis=1)
        clusters[a] |= clusters.pop(b)
    return sorted(tuple(sorted(c)) for c in clusters)


@pytest.mark.parametrize("share", [0.1, 0.4, 0.7])
def test_fedclust(share: float) -> None:
    """Of a softmax regression the last layer is all of it."""
    start = used(simulation(Local()))[0]
    weights = [trained(start, i) for i in CLIENTS]
    far = np.array([[np.linalg.norm(a - b) for b in weights] for a in weights])
    at = float(np.quantile(far[far > 0], share))
    groups = merged(far, at, "complete")
    run, models = simulation(FedClust(threshold=at)), [start] * len(groups)
    for _ in range(3):
        run.step()
        assert sorted(c.members for c in run.state.clusters.values()) == groups
        assert farthest(used(run), shared(groups, models)) < CLOSE
        models = averaged(groups, models)
    assert 1 < len(groups) < M


@pytest.mark.parametrize("share", [0.1, 0.4, 0.7])
def test_pacfl(share: float) -> None:
    bases = [[np.linalg.svd(x[y == c].astype(np.float64).T)[0][:, 0] for c in range(C)] for x, y in TRAIN]
    far = np.array(
        [
            [np.mean([np.degrees(np.arccos(min(1.0, abs(p @ q)))) for p, q in zip(a, b, strict=True)]) for b in bases]
            for a in bases
        ]
    )
    np.fill_diagonal(far, 0.0)
    beta = float(np.quantile(far[far > 0], share))
    groups = merged(far, beta, "weighted")
    run, models = simulation(PACFL(beta=beta + 1e-3, vectors=1)), [used(simulation(Local()))[0]] * len(groups)
    for _ in range(2):
        run.step()
        models = averaged(groups, models)
        assert sorted(c.members for c in run.state.clusters.values()) == groups
        assert farthest(used(run), shared(groups, models)) < CLOSE
    assert 1 < len(groups) < M


def test_a_single_client_of_pacfl_does_not_wait_for_others_for_good() -> None:
    runs = [simulation(a, data=lambda folder: loaded(folder, 1)) for a in (PACFL(beta=20.0, vectors=1), Local())]
    for _ in range(2):
        for run in runs:
            run.step()
    assert len(used(runs[0])) == 1
    assert np.array_equal(*(used(run)[0] for run in runs))


def nearest_of_simplex(y: Values) -> Values:
    """By trying all sets of weights that are not 0."""

    def points() -> Iterator[Values]:
        for size in range(1, len(y) + 1):
            for chosen in map(list, combinations(range(len(y)), size)):
                x = np.zeros(len(y))
                x[chosen] = y[chosen] + (1 - y[chosen].sum()) / size
                if (x >= 0).all():
                    yield x

    return min(points(), key=lambda x: float(((x - y) ** 2).sum()))


@some
def test_pfedgraph(participation: float) -> None:
    lam, mu = 0.8, 0.05
    run = simulation(PFedGraph(lam=lam, mu=mu, participation=participation, sampling="random"))
    models = used(run)
    start = models[0]

    def pull(a: Values, w: Values) -> Values:
        """Gradient of -mu cos(w, a)."""
        lengths = np.linalg.norm(w) * np.linalg.norm(a)
        return np.asarray(-mu * (a / lengths - (w @ a) / lengths * w / (w @ w)))

    for t in range(4):
        who = active(run, participation)
        run.step()
        for i in who:
            models[i] = trained(models[i], i, also=None if t == 0 else lambda w, a=models[i]: pull(a, w))
        moved = [(models[i] - start) / np.linalg.norm(models[i] - start) for i in who]
        rows = [nearest_of_simplex(1 / len(who) + np.array([u @ v for v in moved]) / (2 * lam)) for u in moved]
        means = [sum(x * models[j] for x, j in zip(row, who, strict=True)) for row in rows]
        for i, mean in zip(who, means, strict=True):
            models[i] = mean
        assert farthest(used(run), models) < CLOSE


def test_fedprox() -> None:
    run, mu = simulation(FedProx(mu=0.4)), 0.4
    (w,) = held(run)
    for _ in range(3):
        run.step()
        w = np.average([trained(w, i, also=lambda x, a=w: mu * (x - a)) for i in CLIENTS], axis=0, weights=N)
        assert farthest(held(run), [w]) < CLOSE


def test_cfl_that_no_mean_is_short_enough_for_is_federated_averaging_bit_for_bit() -> None:
    never, fedavg = simulation(CFL(thresholds=Absolute(eps1=0.0, eps2=0.0))), simulation(FedAvg(by_samples=False))
    for _ in range(4):
        never.step()
        fedavg.step()
        assert len(never.state.clusters) == 1
        assert all(np.array_equal(a, b) for a, b in zip(used(never), used(fedavg), strict=True))


def test_an_update_holds_no_counter_of_batches_and_no_running_statistics() -> None:
    """With them a norm would count steps, and all updates would point one way (card 1.1)."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(F, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, C))
    start = to_vector(module)
    assert len(start) == sum(p.numel() for p in module.parameters()) < sum(t.numel() for t in module.state_dict().values())
    job = Job(0, start, Examples(*map(torch.tensor, TRAIN[7])), seed=1)
    update = train_one(module, job, Training(epochs=60, batch=3, lr=1e-4), 0)
    assert 60 * len(job.examples) / 3 > 400, "steps"
    assert 0 < float(np.linalg.norm(update)) < 1
