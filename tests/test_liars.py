"""The two liars: a poison that a known sketch does not see, and a client that sketches one vector and sums another."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from cloister.crypto.dense_projection import Dense, Gaussian
from cloister.crypto.hadamard import Hadamard
from cloister.crypto.projection import TwoStage
from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.data.partition import Iid
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.robust.similarity import FoolsGold
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.knowledge import Level
from cloister.threat_models.liars import KernelPoison, adjoint, conjugate_gradients, forward, kernel_poison, shared
from cloister.threat_models.membership import Fixed
from cloister.threat_models.simple_attacks import Honest, MinusGradient

from .coalition_sample import SMALL, gaussian, own

PUBLIC, SECRET = b"p" * 32, b"s" * 32

SKETCHES = {
    "gaussian stage alone": lambda: TwoStage.draw(PUBLIC, SECRET, 3_000, 300),
    "both stages": lambda: TwoStage.draw(PUBLIC, SECRET, 20_011, 512),
    "whole blocks": lambda: TwoStage.draw(PUBLIC, SECRET, 4 * 8192, 256),
    "gaussian": lambda: Gaussian.draw(PUBLIC, 500, 40),
    "hadamard": lambda: Hadamard.draw(PUBLIC, 5_003, 100),
    "dense": lambda: Dense(np.random.default_rng(0).standard_normal((20, 70))),
}


@pytest.mark.parametrize("name", SKETCHES)
def test_forward_is_the_sketch_and_adjoint_is_its_transpose(name: str) -> None:
    sketch: Any = SKETCHES[name]()
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal(sketch.d), rng.standard_normal(sketch.k)
    assert np.allclose(forward(sketch, x), sketch.apply(x), atol=1e-5 * np.linalg.norm(x))
    assert forward(sketch, x) @ y == pytest.approx(float(x @ adjoint(sketch, y)), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", SKETCHES)
def test_a_poison_in_the_kernel_keeps_the_sketch_and_most_of_the_poison(name: str) -> None:
    sketch: Any = SKETCHES[name]()
    honest, aim = gaussian(2, sketch.d, 2)
    poison = -10 * aim
    sent = kernel_poison(sketch, honest, poison)
    assert sent.dtype == np.float32
    before, after = sketch.apply(honest), sketch.apply(sent)
    assert np.linalg.norm(after - before) < 1e-6 * np.linalg.norm(sketch.apply(poison)) + 2e-6 * np.linalg.norm(sent)
    hidden = sent.astype(np.float64) - honest
    assert np.sum(hidden**2) == pytest.approx((1 - sketch.k / sketch.d) * np.sum(poison.astype(np.float64) ** 2), rel=0.1)
    assert hidden @ poison == pytest.approx(np.sum(hidden**2), rel=1e-3)  # an orthogonal projection of the poison


@pytest.mark.long
def test_cosines_of_sketches_do_not_tell_a_kernel_poison_from_an_honest_update() -> None:
    sketch = TwoStage.draw(PUBLIC, SECRET, 20_011, 512)
    honest, other = gaussian(2, 20_011, mean=1.0)
    sent = kernel_poison(sketch, honest, -20 * other)

    def cosine(a: Any, b: Any) -> float:
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    assert cosine(sent, other) < -0.9
    assert cosine(sketch.apply(sent), sketch.apply(other)) == pytest.approx(
        cosine(sketch.apply(honest), sketch.apply(other)), abs=1e-4
    )
    fresh = TwoStage.draw(PUBLIC, b"t" * 32, 20_011, 512)  # drawn after the upload
    assert cosine(fresh.apply(sent), fresh.apply(other)) < -0.7


def test_conjugate_gradients_solve_and_say_when_they_cannot() -> None:
    rng = np.random.default_rng(0)
    root = rng.standard_normal((20, 30))
    right = rng.standard_normal(20)
    assert np.allclose(root @ root.T @ conjugate_gradients(lambda z: root @ (root.T @ z), right), right)
    with pytest.raises(ValueError, match="kernel"):
        conjugate_gradients(lambda z: np.zeros_like(z), right)


def test_the_attack_adds_what_it_can_of_another_attack() -> None:
    sketch = Gaussian.draw(PUBLIC, 400, 40)
    update = gaussian(1, 400)[0]
    sent = KernelPoison(MinusGradient(5), lambda known: sketch)(own(update))
    assert np.allclose(sent, kernel_poison(sketch, update, -6 * update), atol=1e-5)


# --- in a run under secure aggregation --------------------------------------------------------------------------------


def played(adversary: Adversary | None) -> tuple[Any, Any]:
    """What the server saw of a round under Masked, and the model after it."""
    algorithm = CFL(thresholds=ScaleFree(eps1=0.01, eps2=0.1), similarities="every round", remember=False)
    simulation = Simulation(
        replace(SMALL, algorithm=algorithm, protection=Masked(floor=2, sketch=256), adversary=adversary), None
    )
    simulation.step()
    return simulation.state.measured["0"].similarity, simulation.vectors()[0]


@pytest.mark.trains
def test_two_faced_clients_show_honest_similarities_and_sum_a_poison_under_masked() -> None:
    members = Fixed((0, 1, 2, 3))
    honest, clean = played(None)
    open_liars, poisoned = played(Adversary(members=members, upload=MinusGradient(3)))
    two_faced, also_poisoned = played(Adversary(members=members, upload=MinusGradient(3), shown=Honest()))
    assert np.allclose(two_faced, honest, atol=1e-6)  # the server cannot tell it from a run without attack
    assert open_liars[0, 9] < 0 < honest[0, 9]  # and could, had they sketched what they sum
    assert np.allclose(also_poisoned, poisoned, atol=1e-4)
    assert np.linalg.norm(poisoned - clean) > 0.01


@pytest.mark.trains
def test_a_member_that_knows_the_seed_hides_its_poison_in_the_kernel_under_masked() -> None:
    hidden, poisoned = played(Adversary(members=Fixed((0, 1, 2, 3)), upload=KernelPoison(MinusGradient(10))))
    honest, clean = played(None)
    assert np.allclose(hidden, honest, atol=1e-5)
    moved = poisoned - clean
    _, openly = played(Adversary(members=Fixed((0, 1, 2, 3)), upload=MinusGradient(10)))
    assert moved @ (openly - clean) > 0.5 * np.sum((openly - clean) ** 2)  # 1 - 256 / 610 of it


@pytest.mark.trains
@pytest.mark.parametrize(
    ("protection", "known"),
    [
        (Masked(keys="run"), "run"),
        (Masked(), "session"),
        (Encrypted(), "run"),
        (Encrypted(keys="session"), None),
        (Plain(), None),
        (Permuted(), None),
        (TwoServer(), None),
    ],
    ids=repr,
)
def test_members_are_told_the_sketch_that_clients_share_where_they_share_one(protection: Any, known: str | None) -> None:
    """It is the one by which the view compares; whose projection is drawn after the upload tells nobody."""
    told: dict[tuple[int, int], Any] = {}

    @dataclass(frozen=True)
    class Listening:
        needs: Level = Level.OWN

        def __call__(self, own: Any) -> Any:
            told[own.round, own.member] = shared(own)
            return own.update

    adversary = Adversary(members=Fixed((1, 4)), upload=Listening())
    few, uniform = Iid(clients=5, samples=60), FedAvg(by_samples=False)
    simulation = Simulation(replace(SMALL, partition=few, algorithm=uniform, protection=protection, adversary=adversary), None)
    simulation.step()
    simulation.step()
    assert sorted(told) == [(t, i) for t in (0, 1) for i in (1, 4)]
    if known is None:
        assert set(told.values()) == {None}
        return
    x = gaussian(1, 610)[0]
    rows = {key: tuple(sketch.apply(x)[:5]) for key, sketch in told.items()}
    assert rows[0, 1] == rows[0, 4]
    assert (rows[0, 1] == rows[1, 1]) == (known == "run")


@pytest.mark.trains
def test_what_members_are_told_is_what_the_server_receives() -> None:
    """Under Masked the Gram matrix of a round is that of the told sketches of the uploads, less their mean for differences."""
    told: list[Any] = []

    @dataclass(frozen=True)
    class Listening:
        needs: Level = Level.OWN

        def __call__(self, own: Any) -> Any:
            told.append((own.update, shared(own)))
            return own.update

    for keys, rule in product(("run", "session"), (MultiKrum(2), FoolsGold())):
        told.clear()
        seen: list[Any] = []
        adversary = Adversary(members=Fixed(tuple(range(10))), upload=Listening())
        protection = Masked(floor=2, sketch=256, keys=keys)  # type: ignore[arg-type]
        algorithm = RobustFedAvg(rule=rule, memory=False)
        simulation = Simulation(replace(SMALL, algorithm=algorithm, protection=protection, adversary=adversary), None)
        view: Any = simulation.view
        gram = view.gram

        def watched(updates: Any, *, origin: bool = False, gram: Any = gram, seen: list[Any] = seen) -> Any:
            seen.append((gram(updates, origin=origin), origin))
            return seen[-1][0]

        view.gram = watched
        simulation.step()
        rows = np.stack([sketch.apply(update) for update, sketch in told]).astype(np.float64)
        (found, origin), *_ = seen
        assert origin == isinstance(rule, FoolsGold)
        shown = rows if origin else rows - rows.mean(axis=0)
        assert np.allclose(found.matrix, shown @ shown.T, rtol=1e-4, atol=1e-5)


@pytest.mark.trains
def test_without_sketches_there_is_one_face() -> None:
    adversary = Adversary(members=Fixed((0, 1)), upload=MinusGradient(), shown=Honest())
    one, two = (
        Simulation(replace(SMALL, algorithm=FedAvg(), adversary=a), None) for a in (adversary, replace(adversary, shown=None))
    )
    one.step()
    two.step()
    assert np.array_equal(one.vectors()[0], two.vectors()[0])
