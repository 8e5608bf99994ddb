"""FPFC: its prox against brute force, its rounds against the paper's lines in float64, under all protections that give fusion."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cloister.crypto.entropy import SimulatedEntropy
from cloister.crypto.orthonormal import HadamardRotation, Permutation, SignedPermutation
from cloister.fl.algorithms.algorithm import Start
from cloister.fl.algorithms.fpfc import ALL, FPFC, State, l1
from cloister.fl.clients.training import Training
from cloister.fl.clustering.fusion import L1, Penalty, Scad, components
from cloister.fl.cost.measure import measure
from cloister.fl.cost.workload import Workload
from cloister.fl.runs.checkpoint import Checkpoint, read, write
from cloister.fl.runs.codec import from_plain, to_plain
from cloister.fl.runs.scenario import PROTECTIONS
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.errors import Refused
from cloister.protocol.core.link import Frame
from cloister.protocol.messages import decode
from cloister.protocol.uploaded.pair_state import ARRAYS, PairState
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Sum, Weights
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Protection, Setup, check_composition
from cloister.protocol.view.work import LocalJob, LocalWork

from . import sides

Values = NDArray[np.float64]
PAPER = Scad(lam=0.6, a=3.7, xi=1e-3)


# --- the penalty ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("distance", "left"), [(0.3, 0.000499), (1.0, 0.4), (1.5, 1.076471), (2.22, 2.22), (3.0, 3.0)])
def test_the_prox_has_its_known_answers(distance: float, left: float) -> None:
    assert distance * float(PAPER.shrink(np.array([distance]), 1.0)[0]) == pytest.approx(left, abs=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_the_closed_form_is_the_minimum(seed: int) -> None:
    """Of g(|theta|) + rho/2 |theta - delta|^2, which is on the line of delta, at 200,001 points between 0 and beyond delta."""
    rng = np.random.default_rng(seed)
    lam, rho = rng.uniform(0.1, 2), rng.uniform(0.3, 5)
    a = 1 + 1 / rho + rng.uniform(0.05, 4)
    for penalty in (Scad(lam=lam, a=a, xi=lam * rng.choice([0.0, 1e-3, 0.3, 0.9])), L1(lam=lam)):
        for d in (0.0, *rng.uniform(0, 1.5 * a * lam, 6), a * lam, lam + lam / rho):
            t = np.linspace(0, 1.2 * d + 0.1, 200_001)
            values = penalty(t) + rho / 2 * (t - d) ** 2
            found = d * penalty.shrink(np.array([d]), rho)
            at = float((penalty(found) + rho / 2 * (found - d) ** 2)[0])
            assert at <= float(values.min()) + 1e-9
            assert found == pytest.approx(float(t[values.argmin()]), abs=2e-4 * (1 + d))


def test_the_penalty_is_the_papers() -> None:
    t = np.array([0.0, 5e-4, 1e-3, 0.3, 0.6, 1.0, 2.22, 9.0])
    smooth = [0.6 / 2e-3 * x**2 + 0.3e-3 for x in (0.0, 5e-4, 1e-3)]
    middle = [(3.7 * 0.6 * x - 0.5 * (x**2 + 0.36)) / 2.7 for x in (1.0, 2.22)]
    assert PAPER(t) == pytest.approx([*smooth, 0.18, 0.36, *middle, 0.36 * 4.7 / 2], abs=1e-12)
    assert L1(lam=0.2)(t) == pytest.approx(0.2 * t)


@pytest.mark.parametrize("penalty", [PAPER, Scad(lam=0.6, xi=0.0), Scad(lam=1, a=2.1), L1(lam=0.2)], ids=str)
def test_the_prox_is_continuous_and_a_factor(penalty: Penalty) -> None:
    d = np.linspace(0, 4, 400_001)
    c = penalty.shrink(d, 1.0)
    assert ((c >= 0) & (c <= 1)).all()
    assert np.abs(np.diff(c * d)).max() < 2e-4  # at most 1/(1 - 1/(a - 1)) times the step, on a boundary too


def test_no_penalty_leaves_every_difference() -> None:
    for penalty in (Scad(lam=0), L1(lam=0)):
        assert (penalty.shrink(np.array([0.0, 1.0, 5.0]), 1.0) == 1).tolist()[1:] == [True, True]


@pytest.mark.parametrize("bad", [{"lam": -1}, {"lam": 0.1, "xi": 0.2}, {"lam": 1, "a": 1.0}, {"lam": float("nan")}])
def test_penalties_out_of_range_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        Scad(**bad)


def test_a_prox_without_a_closed_form_is_refused() -> None:
    with pytest.raises(ValueError, match=r"above 1 \+ 1/rho"):
        FPFC(rounds=1, penalty=Scad(lam=0.6, a=1.9), rho=1.0)
    with pytest.raises(ValueError, match="rho"):
        FPFC(rounds=1, rho=0.0)
    with pytest.raises(ValueError, match="rounds"):
        FPFC(rounds=0)


def test_clusters_are_connected_components() -> None:
    """A chain of near ones is one cluster though its ends are far apart; who is at infinity is alone."""
    far = np.full((5, 5), 9.0)
    np.fill_diagonal(far, 0.0)
    for i, j in ((0, 2), (2, 4)):
        far[i, j] = far[j, i] = 0.1
    far[3, :] = far[:, 3] = np.inf
    assert components(far, (10, 11, 12, 13, 14), 0.1) == ((10, 12, 14), (11,), (13,))
    assert components(far, (10, 11, 12, 13, 14), 0.09) == ((10,), (11,), (12,), (13,), (14,))


# --- the rounds -------------------------------------------------------------------------------------------------------------

M, D, STEPS, LR = 8, 24, 3, 0.2
CLIENTS = tuple(range(M))
INIT = Model("init")
START = np.linspace(-0.3, 0.3, D, dtype=np.float32)
TOY = Scad(lam=0.5, a=3.0, xi=0.05)
PLAIN_STEPS = Training(epochs=STEPS, batch=1, lr=LR)
FUSING = [Plain(), *(Permuted(t, floor=1) for t in (Permutation, SignedPermutation, HadamardRotation))]
everywhere = pytest.mark.parametrize("protection", FUSING, ids=str)


def target(client: int) -> Values:
    """Two groups, near 1.2 and -1.2, and one client by itself."""
    rng = np.random.default_rng(client)
    centre = 4.0 if client == M - 1 else 1.2 * (-1) ** client
    found: Values = np.ones(D) * centre / np.sqrt(D) * 3 + 0.02 * rng.standard_normal(D)
    return found


def samples(client: int) -> int:
    return 3 + 2 * client


def trained(client: int, w: Values, zeta: Values, rho: float) -> Values:
    """Line 3 of f_i(w) = 1/2 |w - target|^2."""
    for _ in range(STEPS):
        w = w - LR * ((w - target(client)) + rho * (w - zeta))
    return w


@dataclass
class Paper:
    """Algorithm 1 line by line, in float64, with theta_ij and v_ij of all pairs."""

    penalty: Penalty
    rho: float
    mixed: bool

    def __post_init__(self) -> None:
        self.w = np.tile(START.astype(np.float64), (M, 1))
        self.theta, self.v = np.zeros((M, M, D)), np.zeros((M, M, D))
        self.zeta = self.w.copy()

    def round(self, active: Sequence[int]) -> None:
        for i in active:
            self.w[i] = trained(i, self.w[i], self.zeta[i], self.rho)
        for i in range(M):
            for j in range(i + 1, M):
                if (i in active) + (j in active) >= (1 if self.mixed else 2):
                    delta = self.w[i] - self.w[j] + self.v[i, j] / self.rho
                    norm = np.array([np.linalg.norm(delta)])
                    self.theta[i, j] = self.penalty.shrink(norm, self.rho)[0] * delta
                    self.v[i, j] += self.rho * (self.w[i] - self.w[j] - self.theta[i, j])
                    self.theta[j, i], self.v[j, i] = -self.theta[i, j], -self.v[i, j]
        for i in range(M):
            self.zeta[i] = np.mean(self.w + self.theta[i] - self.v[i] / self.rho, axis=0)


class Run:
    """A view whose clients train on the toy losses, and the algorithm's state over it. active: who took part, round by round."""

    def __init__(self, algorithm: FPFC, protection: Protection, tap: Any = None, seed: int = 0) -> None:
        self.algorithm, self.active = algorithm, dict[int, list[int]]()
        setup = Setup(bytes(range(16)), START, CLIENTS, self.work, SimulatedEntropy(seed), tap, starts_apart=True)
        self.view = protection.open(setup)
        self.state: State = algorithm.init(Start(CLIENTS, {}, INIT, 7))

    def work(self, jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            self.active.setdefault(job.round, []).append(job.client)
            start = job.start.astype(np.float64)
            zeta = start if job.toward is None else job.toward.astype(np.float64)
            end = trained(job.client, start, zeta, self.algorithm.local(PLAIN_STEPS).prox_in(job.round))
            yield job.client, LocalWork((end - start).astype(np.float32), samples(job.client))

    def step(self) -> None:
        self.state = self.algorithm.round(self.state, self.view, np.random.default_rng(self.state.round))
        self.view.harness.retire(self.state.models, self.state.remembered)

    def models(self) -> dict[int, NDArray[np.float32]]:
        return {i: self.view.harness.observe(c.model) for c in self.state.clusters.values() for i in c.members}


@everywhere
@pytest.mark.parametrize("mixed", [True, False])
@pytest.mark.parametrize("participation", [1.0, 0.5])
@pytest.mark.parametrize("penalty", [TOY, L1(lam=0.3)], ids=lambda p: type(p).__name__)
@pytest.mark.long
def test_every_round_is_the_papers(protection: Protection, mixed: bool, participation: float, penalty: Penalty) -> None:
    algorithm = FPFC(rounds=30, penalty=penalty, rho=1.5, nu=0.05, participation=participation, mixed=mixed)
    run, paper = Run(algorithm, protection), Paper(penalty, 1.5, mixed)
    for t in range(29):
        run.step()
        paper.round(run.active[t])
        found = run.models()
        assert max(np.abs(found[i] - paper.w[i]).max() for i in CLIENTS) < 2e-5
        assert run.state.fused is not None
        there = [i for i in CLIENTS if any(i in run.active[s] for s in range(t + 1))]
        if mixed:
            distances = run.view.distances(t, run.state.fused)[np.ix_(there, there)]
            assert distances == pytest.approx(np.linalg.norm(paper.theta[np.ix_(there, there)], axis=2), abs=5e-5)
    run.step()
    paper.round(run.active[29])
    groups = components(np.linalg.norm(paper.theta, axis=2), CLIENTS, 0.05)
    assert {c.members for c in run.state.clusters.values()} == set(groups)
    n = np.array([samples(i) for i in CLIENTS], float)
    for group in groups:
        alpha = n[list(group)] @ paper.w[list(group)] / n[list(group)].sum()
        assert np.abs(run.models()[group[0]] - alpha).max() < 2e-5
    assert not run.view.record.faults


@pytest.mark.long
def test_groups_are_found_and_parted() -> None:
    """Scad finds the two groups and the client by itself; and their models are not biased, as the l1 penalty's are."""
    ends = {}
    for penalty in (TOY, L1(lam=0.3)):
        run = Run(FPFC(rounds=60, penalty=penalty, rho=1.5, nu=0.05), Plain())
        for _ in range(60):
            run.step()
        ends[type(penalty)] = run
    expected = {tuple(i for i in CLIENTS[:-1] if i % 2 == k) for k in (0, 1)} | {(M - 1,)}
    assert {c.members for c in ends[Scad].state.clusters.values()} == expected

    def bias(run: Run) -> float:
        found = run.models()
        return max(float(np.linalg.norm(found[i] - target(i))) for i in CLIENTS)

    assert bias(ends[Scad]) < 0.15
    assert bias(ends[L1]) > 0.2


@pytest.mark.long
@pytest.mark.parametrize("transform", [Permutation, SignedPermutation, HadamardRotation])
def test_permuted_and_plain_agree_to_rounding(transform: Any) -> None:
    algorithm = FPFC(rounds=40, penalty=TOY, rho=1.5, nu=0.05, participation=0.5)
    plain, permuted = Run(algorithm, Plain()), Run(algorithm, Permuted(transform, floor=1))
    for _ in range(40):
        plain.step()
        permuted.step()
        assert plain.active == permuted.active
        assert {n: c.members for n, c in plain.state.clusters.items()} == {
            n: c.members for n, c in permuted.state.clusters.items()
        }
        one, other = plain.models(), permuted.models()
        assert max(np.abs(one[i] - other[i]).max() for i in CLIENTS) < 1e-5
    assert len(plain.state.clusters) == 3


def test_after_k_rounds_nothing_changes() -> None:
    run = Run(FPFC(rounds=5, penalty=TOY, rho=1.5), Plain())
    for _ in range(5):
        run.step()
    clusters, told = run.state.clusters, len(run.view.record.log)
    run.step()
    assert (run.state.round, run.state.clusters, len(run.view.record.log)) == (6, clusters, told)
    assert run.state.fused is None


@pytest.mark.long
@everywhere
def test_refined_clusters_average_without_the_pull(protection: Protection) -> None:
    """Rounds after K: the mean by samples of what plain steps make of a group's model; who is alone keeps its own."""
    run = Run(FPFC(rounds=40, penalty=TOY, rho=1.5, nu=0.05, refine=True), protection)
    for _ in range(40):
        run.step()
    groups, expected = {c.members for c in run.state.clusters.values()}, run.models()
    assert groups == {(0, 2, 4, 6), (1, 3, 5), (M - 1,)}
    for t in range(40, 43):
        run.step()
        for group in (group for group in groups if len(group) > 1):
            n = np.array([samples(i) for i in group], float)
            ends = np.stack([trained(i, expected[i].astype(np.float64), expected[i], 0.0) for i in group])
            expected |= dict.fromkeys(group, (n @ ends / n.sum()).astype(np.float32))
        assert sorted(run.active[t]) == list(CLIENTS[:-1])
        assert max(np.abs(run.models()[i] - expected[i]).max() for i in CLIENTS) < 2e-5
    assert {c.members for c in run.state.clusters.values()} == groups
    assert not run.view.record.faults


def test_a_client_that_never_took_part_is_alone() -> None:
    """Its theta_ij are 0, as at the start: that is no sign of being alike."""

    def silent(frame: Frame) -> list[Frame]:
        return [] if frame.kind == "Task" and frame.receiver in (0, 2) else [frame]

    run = Run(FPFC(rounds=30, penalty=TOY, rho=1.5, nu=0.05), Plain(), silent)
    for _ in range(30):
        run.step()
    members = {c.members for c in run.state.clusters.values()}
    assert members == {(0,), (2,), (4, 6), (1, 3, 5), (7,)}
    assert np.array_equal(run.models()[0], START)


def test_traced_clusters_are_on_record_in_every_round() -> None:
    run = Run(FPFC(rounds=4, penalty=TOY, rho=1.5, trace=True), Plain())
    for _ in range(4):
        run.step()
        assert sorted(i for group in run.state.measured[ALL].communities for i in group) == list(CLIENTS)
    quiet = Run(FPFC(rounds=4, penalty=TOY, rho=1.5), Plain())
    quiet.step()
    assert quiet.state.measured == {}


# --- who learns what ----------------------------------------------------------------------------------------------------------


def entries(run: Run, recipient: str) -> list[Any]:
    return [e for e in run.view.record.log if e.recipient == recipient and e.what == "fusion"]


@everywhere
def test_the_log_says_what_each_round_told_whom(protection: Protection) -> None:
    run = Run(FPFC(rounds=3, penalty=TOY, rho=1.5, nu=0.05), protection)
    for _ in range(3):
        run.step()
    server = entries(run, "server")
    assert [(e.round, e.scalars, e.about) for e in server] == [(t, M * (M - 1) // 2, CLIENTS) for t in range(3)]
    clients = entries(run, "clients")
    assert {e.round for e in clients} == {1, 2}, "in round 0 nobody knows anything yet"
    for e in clients:
        assert e.scalars == D
        assert e.client is not None
        assert e.client not in e.about
    uploads = [e for e in run.view.record.log if e.what == "updates"]
    length = D if not isinstance(protection, Permuted) or protection.transform is not HadamardRotation else 32
    assert [e.scalars for e in uploads] == [M * (length + 1)] * 3
    means = [e for e in run.view.record.log if e.what == "sums"]
    assert {e.about for e in means} == {c.members for c in run.state.clusters.values() if len(c.members) > 1}


@pytest.mark.long
def test_a_client_is_told_nothing_of_those_that_the_penalty_has_parted_from_it() -> None:
    run = Run(FPFC(rounds=61, penalty=TOY, rho=1.5, nu=0.05), Plain())
    for _ in range(60):
        run.step()
    assert M - 1 not in {e.client for e in entries(run, "clients") if e.round == 59}
    for e in entries(run, "clients"):
        if e.round == 59:
            assert {i % 2 for i in e.about} == {e.client % 2}
            assert M - 1 not in e.about


@everywhere
def test_only_the_receiver_holds_its_pull_and_its_model(protection: Protection) -> None:
    run = Run(FPFC(rounds=3, penalty=TOY, rho=1.5), protection)
    run.step()
    assert run.state.fused is not None
    told = run.view.pulls(1, run.state.fused, (0, 3))
    assert [(i, pull.recipient) for i, pull in told.items()] == [(0, 0), (3, 3)]
    with pytest.raises(Refused, match="was told its pull of round 1"):
        run.view.pulls(1, run.state.fused, (3,))
    models = {c.model.name for c in run.state.clusters.values()}
    assert not models & sides.models(run.view).held.keys()
    held = {i: {n for n in models if party.owned.holds(n)} for i, party in sides.clients(run.view).parties.items()}
    assert all(len(of) == 1 for of in held.values())
    assert set.union(*held.values()) == models
    if isinstance(protection, Permuted):
        for store in sides.server(run.view):
            assert "init" not in store or store is not sides.models(run.view).held


def test_the_server_of_a_permuted_view_holds_no_model() -> None:
    run = Run(FPFC(rounds=3, penalty=TOY, rho=1.5), Permuted(floor=1))
    run.step()
    (kept,) = (of for store in sides.server(run.view) if isinstance(store, dict) for of in store.values() if hasattr(of, "pairs"))
    for i in CLIENTS:
        drift = run.models()[i] - START
        row = kept.pairs.models[i]
        assert not np.allclose(row, drift, atol=1e-4)
        assert np.sort(row) == pytest.approx(np.sort(drift), abs=1e-6)


@pytest.mark.parametrize("protection", [Masked(), Encrypted(), TwoServer(), Permuted(keys="session")], ids=repr)
def test_protections_that_cannot_fuse_are_refused_by_name(protection: Protection) -> None:
    with pytest.raises(Refused, match=r"FPFC needs fusion, which .* does not give; these would: Plain"):
        check_composition("FPFC", FPFC(rounds=3).needs, protection, PROTECTIONS)
    assert Functionality.FUSION in Permuted().gives


def test_views_that_do_not_fuse_say_so() -> None:
    algorithm = FPFC(rounds=2, penalty=TOY, rho=1.5)
    with pytest.raises(Refused, match="use keys='run'"):
        Run(algorithm, Permuted(keys="session", floor=1)).step()


@pytest.mark.parametrize("protection", [Plain(), Permuted(floor=3)], ids=str)
def test_the_cost_of_fusion_is_measured(protection: Protection) -> None:
    """Without it a round costs a task and an upload; from the second round on each client gets a vector more."""
    load = Workload(needs=frozenset({Functionality.FUSION}), clients=5, parameters=400, rounds=3, seed=1)
    first, second, third = measure(protection, load, lambda done: None).rounds
    assert [(r.summed, r.unsummed) for r in (first, second, third)] == [(5, 0)] * 3
    for i in range(5):
        more = second.costs[i].bytes_down - first.costs[i].bytes_down
        assert 4 * 400 < more < 4 * 400 + 500
    few = Workload(needs=frozenset({Functionality.FUSION}), clients=3, parameters=40, rounds=2, seed=1)
    assert [r.unsummed for r in measure(Permuted(floor=3), few, lambda done: None).rounds] == [0, 3]


# --- floors and losses --------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_below_the_floor_a_client_trains_by_itself_and_a_group_stays_apart() -> None:
    """Floor 3: of a group of four each is told a sum over three others; in a group of three nobody is told anything.

    Means over groups of three and four are published if they are uniform. By samples, 3 to 17 a client, one outweighs the rest.
    """
    for by_samples, expected in ((False, {(0, 2, 4, 6), (1, 3, 5), (7,)}), (True, {(i,) for i in CLIENTS})):
        run = Run(FPFC(rounds=60, penalty=TOY, rho=1.5, nu=0.5, by_samples=by_samples), Permuted(floor=3))
        for _ in range(60):
            run.step()
        assert set(run.state.measured[ALL].communities) == {(0, 2, 4, 6), (1, 3, 5), (7,)}
        assert {c.members for c in run.state.clusters.values()} == expected
        told = entries(run, "clients")
        assert {e.client for e in told if e.round == 59} == {0, 2, 4, 6}
        assert min(len(e.about) for e in told) == 3
        refused = {b.clients for b in run.view.record.below_floor if b.name.startswith("cluster")}
        assert refused == ({(0, 2, 4, 6), (1, 3, 5)} if by_samples else set())


def test_a_lost_upload_leaves_the_client_and_its_pairs_with_each_other_as_they_were() -> None:
    lost = {(2, 1), (2, 3)}

    def tap(frame: Frame) -> list[Frame]:
        gone = frame.kind == "Upload" and (run.state.round, frame.sender) in lost
        return [] if gone else [frame]

    run = Run(FPFC(rounds=9, penalty=TOY, rho=1.5), Plain(), tap)
    paper = Paper(TOY, 1.5, True)
    for t in range(6):
        run.step()
        paper.round([i for i in CLIENTS if (t, i) not in lost])
        assert max(np.abs(run.models()[i] - paper.w[i]).max() for i in CLIENTS) < 2e-5


@pytest.mark.parametrize("protection", [Plain(), Permuted(floor=1)], ids=repr)
def test_a_client_that_does_not_say_that_it_holds_its_model_is_absent(protection: Protection) -> None:
    """Its word on what it trained, and, from the second round on, on what it is pulled to, is lost, however often said."""
    rng = np.random.default_rng(4)
    lost = {(t, int(i), bool(rng.integers(2))) for t in range(8) for i in rng.choice(CLIENTS, 2, replace=False)}
    gone = set()

    def tap(frame: Frame) -> list[Frame]:
        if frame.kind != "Holds":
            return [frame]
        (name,) = decode(frame.data, frame.sender, 1 << 20).message.names  # type: ignore[union-attr]
        at = run.state.round, frame.sender
        if (*at, name.startswith("pull")) in lost and not name.startswith("init"):
            gone.add(at)
            return []
        return [frame]

    run = Run(FPFC(rounds=9, penalty=TOY, rho=1.5), protection, tap)
    paper = Paper(TOY, 1.5, True)
    for t in range(8):
        run.step()
        paper.round([i for i in CLIENTS if (t, i) not in gone])
        assert max(np.abs(run.models()[i] - paper.w[i]).max() for i in CLIENTS) < 5e-5
    assert len(gone) > 5


def test_what_was_fused_is_not_told_in_other_ways() -> None:
    run = Run(FPFC(rounds=3, penalty=TOY, rho=1.5), Plain())
    own = dict.fromkeys(CLIENTS, INIT)
    updates = run.view.train(0, {ALL: Assignment(INIT, CLIENTS, CLIENTS, own=own)})[ALL]
    fused = run.view.fuse(updates, CLIENTS, lambda d: TOY.shrink(d, 1.5))
    with pytest.raises(Refused, match="gave personal sums"):
        run.view.sums(updates, {"all": Weights(dict.fromkeys(CLIENTS, 1.0))})
    with pytest.raises(Refused, match="is gone"):
        run.view.fuse(updates, CLIENTS, lambda d: d, replace(fused, name="other"))
    with pytest.raises(Refused, match="is not of those"):
        run.view.pulls(1, fused, (99,))
    with pytest.raises(ValueError, match="factor from 0 to 1"):
        run.view.fuse(updates, CLIENTS, lambda d: 2 + d)
    plain = Run(FPFC(rounds=3, penalty=TOY, rho=1.5), Plain())
    updates = plain.view.train(0, {ALL: Assignment(INIT, CLIENTS, CLIENTS)})[ALL]
    with pytest.raises(Refused, match="no model of their own"):
        plain.view.fuse(updates, CLIENTS, lambda d: TOY.shrink(d, 1.5))


def test_means_of_last_models_hold_the_floor_together() -> None:
    run = Run(FPFC(rounds=3, penalty=TOY, rho=1.5), Permuted(floor=3))
    run.step()
    assert run.state.fused is not None
    ones = dict.fromkeys(CLIENTS, 1.0)
    first = run.view.last_means(1, run.state.fused, {"a": Weights(ones)})["a"]
    assert isinstance(first, Sum)
    with pytest.raises(Refused, match="together with what was published"):
        run.view.last_means(1, run.state.fused, {"b": Weights({i: 1.0 for i in CLIENTS if i})})
    few = run.view.last_means(1, run.state.fused, {"c": Weights({0: 1.0, 1: 1.0})})["c"]
    assert isinstance(few, BelowFloor)


def kept_in(frames: list[Frame]) -> Any:
    """A tap that passes everything on."""

    def tap(frame: Frame) -> list[Frame]:
        frames.append(frame)
        return [frame]

    return tap


@everywhere
@pytest.mark.parametrize("at", [1, 12])
def test_a_run_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(protection: Protection, at: int, tmp_path: Path) -> None:
    """To the sessions of its frames: a coordinator that was killed says the same again, or clients take it for another's.

    Before: pulls that go out before a round begins had other numbers in the next life, and no run went on.
    """
    algorithm = FPFC(rounds=20, penalty=TOY, rho=1.5, nu=0.05, participation=0.5)
    sent: tuple[list[Frame], list[Frame]] = [], []
    first, second = (Run(algorithm, protection, kept_in(of)) for of in sent)
    for _ in range(at):
        first.step()
    sent[0].clear()
    path = write(tmp_path, Checkpoint(at, to_plain(first.state), first.view.harness.save(), {}, {}))
    found = read(path)
    second.state = from_plain(State, found.state)
    second.view.harness.restore(found.snapshot, second.state.remembered)
    for _ in range(20 - at):
        first.step()
        second.step()
    one, other = first.models(), second.models()
    assert first.state.clusters == second.state.clusters
    moved = [[(f.receiver, decode(f.data, f.sender, 1 << 20).session) for f in of if f.kind == "Recipe"] for of in sent]
    if isinstance(protection, Plain):  # clients of a simulation that goes on are handed the server's own model anew
        moved = [of[:1] for of in moved]
    assert moved[0]
    assert moved[0] == moved[1]
    assert all(np.array_equal(one[i], other[i]) for i in CLIENTS)


def test_a_pair_takes_one_vector_and_one_scalar() -> None:
    """And all that 100 clients with 6,582 parameters take is below 200 MB."""
    pairs = PairState(range(100), 6582)
    assert pairs.vectors.nbytes == 4 * 6582 * 4950
    assert sum(getattr(pairs, name).nbytes for name in ARRAYS) < 200e6
    assert sum(getattr(pairs, name).nbytes for name in ("scales", "norms", "touched", "carried", "parts")) < 50 * 4950


@pytest.mark.parametrize(("both", "changed"), [(False, 4 * 3 // 2 + 4 * 6), (True, 4 * 3 // 2)])
def test_a_round_touches_the_pairs_of_its_clients_and_no_others(both: bool, changed: int) -> None:
    """Four of ten clients: pairs of two of them, and (mixed) of one of them with another; the rest stays as it was."""
    rng, pairs = np.random.default_rng(0), PairState(range(10), 5)

    def rows(clients: Sequence[int]) -> dict[int, tuple[NDArray[np.float32], int]]:
        return {i: (rng.standard_normal(5).astype(np.float32), 1) for i in clients}

    pairs.update(0, rows(range(10)), lambda d: np.full_like(d, 0.5), False)
    before = {name: getattr(pairs, name).copy() for name in ("vectors", "scales", "norms", "touched")}
    assert pairs.update(1, rows((1, 4, 5, 8)), lambda d: np.full_like(d, 0.25), both) == changed
    for name, was in before.items():
        assert (getattr(pairs, name) != was).reshape(len(was), -1).any(1).sum() == changed


FACTORS = (0.0, 0.3, 1.0, 0.6, 0.2, 0.9, 0.4, 1.0, 0.1, 0.5)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_row_of_a_pull_is_how_it_depends_on_last_models(seed: int, both: bool) -> None:
    """By differences: pulls are linear in the models while the factors stay, so one client's last model is moved by 1."""
    rng = np.random.default_rng(seed)
    rounds = [sorted(rng.choice(M, 3, replace=False).tolist()) for _ in FACTORS]
    models = {(t, i): rng.standard_normal(5).astype(np.float32) for t, active in enumerate(rounds) for i in active}
    last = {i: max(t for t, active in enumerate(rounds) if i in active) for i in {i for _, i in models}}

    def played(moved: int | None) -> PairState:
        found = PairState(CLIENTS, 5)
        for t, active in enumerate(rounds):
            rows = {i: (models[t, i] + np.float32(i == moved and t == last[i]), 1) for i in active}
            found.update(t, rows, lambda d, c=FACTORS[t]: np.full_like(d, c), both)
        return found

    plain = played(None)
    for j in last:
        with_j = played(j)
        for i in (i for i in CLIENTS if i != j):
            assert with_j.pull(i) - plain.pull(i) == pytest.approx(np.full(5, plain.row(i).get(j, 0.0)), abs=1e-5)


def test_a_client_parted_from_all_is_pulled_to_its_own_last_model() -> None:
    rng, pairs = np.random.default_rng(0), PairState(CLIENTS, 5)
    for t, c in enumerate((0.0, 0.5, 1.0, 1.0)):
        pairs.update(
            t, {i: (rng.standard_normal(5).astype(np.float32), 1) for i in CLIENTS}, lambda d, c=c: np.full_like(d, c), False
        )
        for i in CLIENTS:
            same = pairs.pull(i) == pytest.approx(pairs.models[i], abs=1e-6)
            assert (pairs.alone(i), same) == ((True, True) if t == 3 else (False, False))
    assert pairs.row(0) == {}


def test_fpfc_l1_is_fpfc_with_the_convex_penalty() -> None:
    assert l1(7, 0.2, 4.0, 0.3) == FPFC(rounds=7, penalty=L1(lam=0.2), nu=4.0, participation=0.3)
