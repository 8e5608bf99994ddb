"""Models that a malicious server hands out: records imprinted into sums, and one client's update isolated by unlike models.

Both go through the shipped protections: imprinting needs one model for all and so passes masked sums, model inconsistency is
refused there by the clients, who compare digests of the model that they got, and by the second of two servers, who is told them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.clients.training import Job, full_gradient
from cloister.fl.data.population import Examples
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import CflCnn, Mlp, initial
from cloister.fl.models.vector import dimension, load_vector, to_vector
from cloister.protocol import Masked, Plain, TwoServer
from cloister.protocol.core.link import Frame, Tap
from cloister.protocol.core.session import SERVER
from cloister.protocol.messages import decode
from cloister.protocol.view.answers import Assignment, Model, Sum, Weights
from cloister.protocol.view.protection import Protection, Setup
from cloister.protocol.view.work import LocalJob, LocalWork
from cloister.protocol.wire.codec import encode
from cloister.protocol.wire.messages import Task
from cloister.threat_models.inference.crafted_models import imprint, imprinted, isolated, layers_of, relative_error, silenced
from cloister.threat_models.inference.image_scores import exact_share

CLIENTS = tuple(range(8))
RECORDS = 5
TARGET = 3


@pytest.fixture(scope="module")
def digits() -> Examples:
    train: Examples = Digits()(None).train
    return train


@dataclass(frozen=True)
class Computers:
    """Clients that answer with the gradient of their records at the model that they opened."""

    module: nn.Module
    examples: Examples

    def of(self, client: int) -> Examples:
        return self.examples.take(torch.arange(client * RECORDS, (client + 1) * RECORDS))

    def gradient(self, client: int, start: np.ndarray) -> np.ndarray:
        return full_gradient(self.module, Job(client, start, self.of(client), 0))

    def __call__(self, jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            yield job.client, LocalWork(self.gradient(job.client, job.start), RECORDS)


@dataclass(frozen=True)
class Lying:
    """Puts a model at which nothing is learned into the tasks of all clients but the target, or of it alone."""

    forged: np.ndarray
    to_target: bool = False

    def __call__(self, frame: Frame) -> Iterable[Frame]:
        if frame.kind != "Task" or (frame.receiver == TARGET) != self.to_target:
            return [frame]
        envelope = decode(frame.data, SERVER, 1 << 22)
        task: Any = envelope.message
        if not isinstance(task, Task) or len(task.vector) != 4 * len(self.forged):
            return [frame]
        altered = replace(task, vector=self.forged.astype("<f4").tobytes())
        return [replace(frame, data=encode(replace(envelope, message=altered)))]


def published(
    protection: Protection, computers: Computers, start: np.ndarray, tap: Tap | None, apart: bool = False
) -> tuple[Any, Any, Any]:
    """The answer, the mean if there is one, and the view. apart: whether the run has agreed on starts beside the public model."""
    entropy = SimulatedEntropy(3)
    setup = Setup(entropy.secret("run", 16), start, CLIENTS, computers, entropy, tap, starts_apart=apart)
    view: Any = protection.open(setup)
    weights = {"0": Weights(dict.fromkeys(CLIENTS, 1.0))}
    answer = view.train_and_sum(0, {"0": Assignment(Model("init"), CLIENTS, CLIENTS)}, weights)["0"]
    if not isinstance(answer, Sum):
        return answer, None, view
    return answer, view.harness.observe(view.advance(Model("init"), answer)) - start, view


@pytest.mark.trains
@pytest.mark.parametrize("protection", [Plain(), Masked(floor=2)], ids=lambda p: type(p).__name__)
def test_records_are_read_from_a_sum_of_an_imprinted_model(protection: Protection, digits: Examples) -> None:
    """Also from a masked sum, which is exact up to fixed point: (1 - 1/256)^39 = .86 of the records are alone in a bin."""
    module = initial(Mlp((256,)), (1, 8, 8), 10, 0)
    start = imprint(module, digits.x[400:], np.random.default_rng(0))
    answer, mean, _ = published(protection, computers := Computers(module, digits), start, None)
    assert isinstance(answer, Sum)
    share = exact_share(imprinted(module, mean, 1e-4), digits.x[: len(CLIENTS) * RECORDS])
    assert share > 0.6
    assert len(computers.of(0)) == RECORDS


@pytest.mark.trains
def test_unlike_models_isolate_a_client_where_nobody_compares_them(digits: Examples) -> None:
    """The sum is the target's update, but for the last bias."""
    module = initial(Mlp((16,)), (1, 8, 8), 10, 0)
    start = to_vector(module)
    computers = Computers(module, digits)
    answer, mean, _ = published(Plain(), computers, start, Lying(silenced(module)))
    assert isinstance(answer, Sum)
    guess = isolated(module, (mean * len(CLIENTS)).astype(np.float32))
    assert relative_error(guess, computers.gradient(TARGET, start)) < 1e-4
    assert int(np.isnan(guess).sum()) == 10


@pytest.mark.trains
def test_clients_under_masked_sums_refuse_unlike_models(digits: Examples) -> None:
    module = initial(Mlp((16,)), (1, 8, 8), 10, 0)
    computers = Computers(module, digits)
    answer, _, view = published(Masked(floor=2), computers, to_vector(module), Lying(silenced(module)))
    assert not isinstance(answer, Sum)
    refusals = [fault for fault in view.record.faults if "another model than the one received" in fault.reason]
    assert len(refusals) >= len(CLIENTS) - 1
    assert {fault.blame for fault in refusals} == {SERVER}


@pytest.mark.trains
def test_at_a_silenced_model_only_the_last_bias_has_a_gradient(digits: Examples) -> None:
    module = initial(Mlp((16, 12)), (1, 8, 8), 10, 0)
    was = to_vector(module)
    forged = silenced(module)
    assert np.array_equal(to_vector(module), was)
    slope = full_gradient(module, Job(0, forged, digits.take(torch.arange(20)), 0))
    assert not slope[:-10].any()
    assert slope[-10:].any()


@pytest.mark.trains
@pytest.mark.parametrize("seed", range(3))
def test_more_bins_show_more_records(seed: int, digits: Examples) -> None:
    rng = np.random.default_rng(seed)
    shares = []
    for bins in (64, 1024):
        module = initial(Mlp((bins,)), (1, 8, 8), 10, seed)
        load_vector(module, start := imprint(module, digits.x[700:], rng))
        some = digits.take(torch.from_numpy(rng.permutation(700)[:80]))
        shares.append(exact_share(imprinted(module, full_gradient(module, Job(0, start, some, 0))), some.x))
        assert len(start) == dimension(module)
    assert shares[0] < 0.5 < 0.6 < shares[1]


def test_only_layers_that_it_can_craft() -> None:
    with pytest.raises(ValueError, match="only models of linear layers"):
        silenced(initial(CflCnn(), (1, 28, 28), 10, 0))


@pytest.mark.trains
@pytest.mark.parametrize("forged_for", ["the others", "the target"])
def test_under_two_servers_a_client_with_a_model_of_its_own_is_in_no_sum(forged_for: str, digits: Examples) -> None:
    """The sum is that of all others, who had one model, right in every coordinate; nothing in it is the target's."""
    module = initial(Mlp((16,)), (1, 8, 8), 10, 0)
    start, silent = to_vector(module), silenced(module)
    given = silent if forged_for == "the others" else start
    computers = Computers(module, digits)
    tap = Lying(silent, to_target=forged_for == "the target")
    answer, mean, view = published(TwoServer(floor=2), computers, start, tap)
    others = tuple(i for i in CLIENTS if i != TARGET)
    assert isinstance(answer, Sum)
    assert answer.clients == others
    expected = np.mean([computers.gradient(i, given) for i in others], axis=0)
    assert np.abs(mean - expected).max() < answer.error + 1e-6
    guess = isolated(module, (mean * len(others)).astype(np.float32))
    assert relative_error(guess, computers.gradient(TARGET, start)) > 0.9
    (fault,) = view.record.faults
    assert fault.blame == TARGET
    assert "it or the first server lied" in fault.reason


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (
            nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)),
            "crafted here, and this one has a LayerNorm$",
        ),
        (nn.Sequential(nn.Linear(4, 2)), "crafted here$"),
    ],
)
def test_what_cannot_be_crafted_is_named(module, words):
    with pytest.raises(ValueError, match=words):
        layers_of(module)
