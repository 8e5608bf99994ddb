"""Residual networks of small images: the paper's sizes, and normalisation that an update carries whole."""

import pytest
import torch

from cloister.fl.models.fit import check_model
from cloister.fl.models.papers import initial
from cloister.fl.models.resnet import ResNet


@pytest.mark.parametrize("norm", ["group", "batch"])
@pytest.mark.parametrize(("depth", "parameters"), [(20, 269_722), (32, 464_154)])
def test_parameters_are_as_many_as_the_papers(depth, parameters, norm):
    """Table 6: .27 and .46 million."""
    module = initial(ResNet(depth, norm=norm), (3, 32, 32), 10, 0)
    assert sum(p.numel() for p in module.parameters()) == parameters
    assert not dict(module.named_buffers())


@pytest.mark.parametrize("norm", ["group", "batch"])
def test_any_size_of_image_is_taken_and_nothing_is_kept(norm):
    factory = ResNet(8, 4, norm)
    for shape in ((3, 32, 32), (1, 28, 28), (1, 8, 8)):
        module = initial(factory, shape, 7, 0)
        x = torch.randn(5, *shape, generator=torch.Generator().manual_seed(0))
        check_model(module, x, torch.arange(5), 7)
        assert module(x).shape == (5, 7)
        assert module.embedding(x).shape == (5, 16)
        assert torch.equal(module.train()(x), module.eval()(x))


def test_a_shortcut_is_its_input():
    """With convolutions of 0 a block passes on what it was given, halved in size where it is wider."""
    module = initial(ResNet(8, 4), (3, 8, 8), 3, 0)
    blocks = [part for part in module.embedding if hasattr(part, "added")]
    assert [block.added for block in blocks] == [0, 4, 8]
    for block in blocks:
        torch.nn.init.zeros_(block.second.weight)
    x = torch.rand(2, 4, 8, 8, generator=torch.Generator().manual_seed(1))
    assert torch.equal(blocks[0](x), x)
    wider = blocks[1](x)
    assert torch.equal(wider[:, 2:6], x[:, :, ::2, ::2])
    assert not wider[:, :2].any()
    assert not wider[:, 6:].any()


@pytest.mark.parametrize("wrong", [{"depth": 18}, {"depth": 2}, {"width": 3}, {"norm": "layer"}])
def test_what_is_no_such_network_is_refused(wrong):
    with pytest.raises(ValueError, match=f"{'ResNet' if 'depth' in wrong else next(iter(wrong))}"):
        ResNet(**wrong)
