"""Pre-trained embeddings: MobileNetV2's shape, folding, TensorFlow's padding, files of weights, and frozen networks in front."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from cloister.fl.data.partition import Iid
from cloister.fl.data.population import Examples, Source
from cloister.fl.models.mobilenet import Convolution, MobileNet, MobileNetV2, folded
from cloister.fl.models.papers import IMAGENET, EmbeddingAndHead, Mlp, Normalised, initial
from cloister.fl.models.pretrained import Embedded, Pretrained
from cloister.fl.models.vector import dimension


@dataclass(frozen=True)
class Tiny:
    """A network of one convolution, for files that are made here."""

    def __call__(self) -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def weights(self, state: Any) -> Any:
        return state


def saved(network: nn.Module, path: Path) -> str:
    torch.save(network.state_dict(), path)
    return str(path)


def source(count: int = 12) -> Source:
    examples = Examples(torch.rand(count, 3, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(count) % 2)
    return Source("noise", examples, examples, 2)


def test_mobilenet_has_the_papers_size() -> None:
    """Torchvision's MobileNetV2 has 2,223,872 parameters before its classifier, 34,112 of them shifts, as many scales; folding
    keeps one bias where there were a scale and a shift: 17,056 fewer."""
    network = MobileNetV2(same=False)
    assert dimension(network) == 2_223_872 - 17_056
    assert len([m for m in network.modules() if isinstance(m, nn.Conv2d)]) == 52
    assert network.eval()(torch.zeros(2, 3, 64, 64)).shape == (2, 1280)
    assert list(network.buffers()) == []


def test_folding_is_the_convolution_with_its_normalisation() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(3, 5, 3, bias=False), nn.BatchNorm2d(5)).double().eval()
    norm = plain[1]
    assert isinstance(norm, nn.BatchNorm2d)
    for tensor in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
        assert tensor is not None
        nn.init.uniform_(tensor, 0.5, 2.0)
    state = folded({f"features.0.{name}": tensor for name, tensor in plain.state_dict().items()})
    assert set(state) == {"features.0.0.weight", "features.0.0.bias"}
    x = torch.rand(2, 3, 9, 9, dtype=torch.float64)
    found = functional.conv2d(x, state["features.0.0.weight"], state["features.0.0.bias"])
    torch.testing.assert_close(found, plain(x), rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="no batch normalisation follows"):
        folded({"features.0.0.weight": torch.zeros(1, 1, 1, 1), "features.0.1.running_var": torch.zeros(1)})


def test_torchvisions_names_fit_after_folding() -> None:
    """A state with torchvision's names, made from ours: a neutral normalisation behind every convolution."""
    network = MobileNetV2(same=False)
    state: dict[str, torch.Tensor] = {"classifier.1.weight": torch.zeros(1000, 1280)}
    for name, tensor in network.state_dict().items():
        if name.endswith(".weight"):
            before, _, place = name.removesuffix(".weight").rpartition(".")
            norm, channels = f"{before}.{int(place) + 1}", len(tensor)
            state[name] = tensor
            values = {"weight": 1.0, "bias": 0.5, "running_mean": 0.0, "running_var": 1 - 1e-5}
            state |= {f"{norm}.{part}": torch.full((channels,), value) for part, value in values.items()}
    found = MobileNet().weights(state)
    assert set(found) == set(network.state_dict())
    assert all(torch.allclose(found[name], torch.full_like(found[name], 0.5)) for name in found if name.endswith("bias"))
    assert MobileNet().weights(network.state_dict()).keys() == found.keys()


@pytest.mark.parametrize("length", [7, 8])
def test_same_padding_is_tensorflows(length: int) -> None:
    """Stride 2, kernel 3: even lengths are padded at the end alone, odd ones on both sides."""
    convolution = Convolution(1, 1, 3, 2, 1, same=True)
    with torch.no_grad():
        convolution.weight.copy_(torch.arange(9.0).reshape(1, 1, 3, 3))
        nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
        x = torch.rand(1, 1, length, length)
        pads = (0, 1, 0, 1) if length == 8 else (1, 1, 1, 1)
        torch.testing.assert_close(convolution(x), functional.conv2d(functional.pad(x, pads), convolution.weight, stride=2))
        assert convolution(x).shape[-1] == -(-length // 2)


def test_a_file_of_weights_is_the_embedding(tmp_path: Path) -> None:
    torch.manual_seed(0)
    trained = Tiny()()
    file = saved(nn.ModuleDict({}), tmp_path / "empty.pt")
    torch.save(trained.state_dict() | {"fc.weight": torch.zeros(10, 4)}, tmp_path / "weights.pt")
    factory = Pretrained(weights=str(tmp_path / "weights.pt"), network=Tiny(), size=16)
    model = initial(factory, (3, 8, 8), 2, 0)
    assert isinstance(model, EmbeddingAndHead)
    x = torch.rand(5, 3, 8, 8)
    mean, deviation = (torch.tensor(numbers).reshape(1, 3, 1, 1) for numbers in IMAGENET)
    larger = functional.interpolate(x, (16, 16), mode="bilinear", align_corners=False)
    torch.testing.assert_close(model.embedding(x), trained((larger - mean) / deviation))
    assert dimension(model) == dimension(trained) + 4 * 2 + 2
    grey = model.embedding(x[:, :1])
    torch.testing.assert_close(grey, model.embedding(x[:, :1].expand(-1, 3, -1, -1)))
    with pytest.raises(ValueError, match=r"does not fit the network: 0\.weight"):
        replace(factory, weights=file).embedding()


def test_what_is_no_file_of_weights_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.pt").write_text("weights")
    torch.save([1, 2], tmp_path / "list.pt")

    class Evil:
        def __reduce__(self) -> Any:
            return (print, ("executed",))

    torch.save({"0.weight": Evil()}, tmp_path / "evil.pt")
    for weights, words in (("", "no weights"), ("missing.pt", "no file"), ("text.pt", "no file of"), ("list.pt", "dictionary")):
        path = str(tmp_path / weights) if weights else ""
        with pytest.raises(ValueError, match=words) as caught:
            Pretrained(weights=path, network=Tiny()).embedding()
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="UnpicklingError"):
        Pretrained(weights=str(tmp_path / "evil.pt"), network=Tiny()).embedding()


def test_clients_hold_vectors_of_the_frozen_network(tmp_path: Path) -> None:
    torch.manual_seed(1)
    by = Pretrained(weights=saved(Tiny()(), tmp_path / "weights.pt"), network=Tiny(), size=8)
    partition = Embedded(partition=Iid(clients=3), by=by, tests=2)
    population = partition(source(), np.random.default_rng(0))
    images = Iid(clients=3)(source(), np.random.default_rng(0))
    assert population.shape == (4,)
    for i, client in population.clients.items():
        torch.testing.assert_close(client.train.x, by.embedding()(images.clients[i].train.x))
        assert torch.equal(client.train.y, images.clients[i].train.y)
        torch.testing.assert_close(client.test.x, by.embedding()(images.clients[i].test.x[:2]))
        assert not client.train.x.requires_grad


def test_images_are_embedded_once_a_process_by_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And again by another network, by the same file once it is written anew, and of other images."""
    read: list[str] = []
    whole = Pretrained.embedding
    monkeypatch.setattr(Pretrained, "embedding", lambda self: (read.append(self.weights), whole(self))[1])
    images = source().train
    by = Pretrained(weights=saved(Tiny()(), tmp_path / "first.pt"), network=Tiny(), size=8)
    embedded = Embedded(partition=Iid(clients=2), by=by)
    first, second = embedded.embedded(images), embedded.embedded(replace(images, y=images.y + 1))
    assert torch.equal(first.x, second.x)
    assert torch.equal(second.y, images.y + 1)
    assert len(read) == 1
    first.x.zero_()
    assert torch.equal(embedded.embedded(images).x, second.x)
    embedded.embedded(images.take(torch.arange(5)))
    replace(embedded, by=replace(by, size=6)).embedded(images)
    assert len(read) == 3
    unhashable: Any = type("Unhashable", (Tiny,), {"__hash__": None})()
    assert torch.equal(replace(embedded, by=replace(by, network=unhashable)).embedded(images).x, second.x)
    saved(Tiny()(), tmp_path / "first.pt")
    assert not torch.equal(embedded.embedded(images).x, second.x)


def test_a_normalised_model_is_the_model_on_normalised_inputs() -> None:
    factory = Mlp(hidden=(4,))
    normalised = initial(Normalised(factory, (0.1, 0.2, 0.3), (0.5, 0.25, 2.0)), (3, 2, 2), 3, 7)
    plain = initial(factory, (3, 2, 2), 3, 7)
    x = torch.rand(6, 3, 2, 2)
    moved = (x - torch.tensor([0.1, 0.2, 0.3]).reshape(1, 3, 1, 1)) / torch.tensor([0.5, 0.25, 2.0]).reshape(1, 3, 1, 1)
    torch.testing.assert_close(normalised(x), plain(moved))
    assert dimension(normalised) == dimension(plain)
    with pytest.raises(ValueError, match="each of 1 channels"):
        Normalised(factory, (0.1, 0.2, 0.3), (0.5, 0.25, 2.0))((1, 2, 2), 3)
