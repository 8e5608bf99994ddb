"""Models have the papers' sizes, and a model is one vector of what it learns."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cloister.fl.functions import Unfit
from cloister.fl.models.papers import CflCnn, Cifar5Cnn, EmdCflCnn, FlicCnn, FpfcCnn, Lstm, Mlp, ModelFactory, initial, split
from cloister.fl.models.vector import dimension, load_vector, names_and_shapes, to_vector

IMAGE_MODELS = [Mlp((20, 30)), Mlp(()), CflCnn(), FlicCnn(), EmdCflCnn(), FpfcCnn(), Cifar5Cnn()]


@pytest.mark.parametrize(
    ("factory", "shape", "classes", "parameters"),
    [
        (CflCnn(), (1, 28, 28), 62, 18_506),  # CFL's notebook
        (FlicCnn(), (1, 28, 28), 10, 1_663_370),  # FLIC, section IV
        (EmdCflCnn(), (1, 28, 28), 10, 3_287_178),  # EMD-CFL's code
        (FpfcCnn(), (1, 28, 28), 10, 6_582),  # FPFC's code
        (EmdCflCnn(), (3, 28, 28), 10, 3_288_330),
        (Mlp((64,)), (1, 8, 8), 10, 64 * 64 + 64 + 64 * 10 + 10),
        (Lstm(embedding=3, hidden=5), (7,), 11, 11 * 3 + 4 * 5 * (3 + 5 + 2) + 4 * 5 * (5 + 5 + 2) + 5 * 11 + 11),
    ],
)
def test_parameters_are_as_published(factory: ModelFactory, shape: tuple[int, ...], classes: int, parameters: int) -> None:
    assert dimension(initial(factory, shape, classes, 0)) == parameters


@pytest.mark.parametrize("factory", IMAGE_MODELS)
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
def test_forward_is_head_of_embedding(factory: ModelFactory, shape: tuple[int, ...]) -> None:
    module = initial(factory, shape, 10, 0)
    x = torch.rand(2, *shape)
    embedded = module.get_submodule("embedding")(x)
    assert embedded.shape == (2, module.get_submodule("head").in_features)
    assert torch.equal(module(x), module.get_submodule("head")(embedded))
    assert module(x).shape == (2, 10)


def test_lstm_never_sees_the_word_that_it_predicts() -> None:
    module = initial(Lstm(), (9,), 30, 0)
    x = torch.arange(9).repeat(2, 1)
    x[1, 5:] = 29
    logits = module(x)
    assert logits.shape == (2, 9, 30)
    torch.testing.assert_close(logits[0, :5], logits[1, :5])
    assert not torch.allclose(logits[0, 5], logits[1, 5])


def test_initial_weights_come_from_the_seed_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = to_vector(initial(Mlp(), (1, 8, 8), 10, 5))
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(2)
    assert np.array_equal(first, to_vector(initial(Mlp(), (1, 8, 8), 10, 5)))
    assert not np.array_equal(first, to_vector(initial(Mlp(), (1, 8, 8), 10, 6)))


def test_what_a_factory_makes_that_is_no_module_is_said_with_its_place() -> None:
    def network(shape: tuple[int, ...], classes: int) -> nn.Module:
        nn.Linear(shape[0], classes)  # and no return

    with pytest.raises(Unfit, match=r"network \(test_models.py, line \d+\) returned None, .*; is there a `return`\?"):
        initial(network, (4,), 2, 0)


def test_images_that_are_too_small_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit this model"):
        CflCnn()((1, 8, 8), 10)


class Own(nn.Module):
    """A user's module, whose last layer has another name."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.BatchNorm1d(3))
        self.classifier = nn.Sequential(nn.Dropout(), nn.Linear(3, 2))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.classifier(torch.tanh(self.body(x)))
        return out


def test_split_finds_embedding_and_head_of_any_module() -> None:
    own = Own().eval()
    x = torch.rand(5, 4)
    parts = split(own, "classifier.1").eval()
    assert torch.equal(parts(x), own(x))
    assert torch.equal(parts.embedding(x), torch.tanh(own.body(x)))
    assert isinstance(own.classifier[1], nn.Linear)
    for name in ("fc", ""):
        with pytest.raises(ValueError, match="body, classifier"):
            split(own, name)


def test_vector_holds_what_is_learned_and_nothing_else() -> None:
    own = Own()
    own.body[1].bias.requires_grad_(False)
    assert names_and_shapes(own) == {
        "body.1.weight": (3, 4),
        "body.2.weight": (3,),
        "body.2.bias": (3,),
        "classifier.1.weight": (2, 3),
        "classifier.1.bias": (2,),
    }
    vector = to_vector(own)
    assert vector.dtype == np.float32
    assert vector.shape == (dimension(own),) == (12 + 3 + 3 + 6 + 2,)
    own(torch.rand(8, 4))  # moves the running statistics of BatchNorm
    assert np.array_equal(vector, to_vector(own))


def test_vector_round_trip_copies() -> None:
    own = Own()
    vector = np.random.default_rng(0).normal(size=dimension(own)).astype(np.float32)
    vector.flags.writeable = False
    load_vector(own, vector)
    back = to_vector(own)
    assert np.array_equal(back, vector)
    with torch.no_grad():
        own.get_parameter("classifier.1.bias").add_(1)
    assert np.array_equal(back, vector)
    assert np.array_equal(to_vector(own)[-2:], vector[-2:] + 1)
    for wrong in (vector[:-1], np.append(vector, np.float32(0)), vector[None]):
        with pytest.raises(ValueError, match=f"this model has {dimension(own)} trainable parameters"):
            load_vector(own, wrong)


def test_threads_that_draw_at_once_get_the_weights_of_their_own_seeds() -> None:
    """Clients that begin together in one process drew from one generator, and held other first models than the coordinator."""
    seeds = [*range(8)] * 6
    alone = {seed: to_vector(initial(Mlp((64,)), (1, 8, 8), 10, seed)) for seed in set(seeds)}
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda seed: to_vector(initial(Mlp((64,)), (1, 8, 8), 10, seed)), seeds))
    assert all(np.array_equal(vector, alone[seed]) for seed, vector in zip(seeds, found, strict=True))
