"""MobileNetV2 (Sandler et al. 2018) without its classifier and with batch normalisation folded into the convolutions.

Folded, it has no running statistics: every number in it is a weight or a bias, which is what federated averaging averages.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Table 2 of the paper: expansion, channels, repetitions, stride of the first."""
FEATURES = 1280
EPS = 1e-5


class Convolution(nn.Conv2d):
    """A convolution with a bias. same: pads as TensorFlow does, more at the lower right where the stride leaves a choice."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, groups: int, same: bool) -> None:
        super().__init__(inputs, outputs, kernel, stride, 0 if same else kernel // 2, groups=groups)
        self.same = same

    def forward(self, input: Tensor) -> Tensor:
        if self.same:
            pads: list[int] = []
            for length in (input.shape[3], input.shape[2]):
                missing = max((-(-length // self.stride[0]) - 1) * self.stride[0] + self.kernel_size[0] - length, 0)
                pads += [missing // 2, missing - missing // 2]
            input = functional.pad(input, pads)
        return super().forward(input)


class Bottleneck(nn.Module):
    """Expand, filter each channel, and project without an activation; what keeps its shape is added to its input."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int, same: bool) -> None:
        super().__init__()
        wide = inputs * expansion
        layers: list[nn.Module] = [_active(Convolution(inputs, wide, 1, 1, 1, same))] if expansion > 1 else []
        layers += [_active(Convolution(wide, wide, 3, stride, wide, same)), Convolution(wide, outputs, 1, 1, 1, same)]
        self.conv = nn.Sequential(*layers)
        self.adds = inputs == outputs and stride == 1

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x)
        return x + out if self.adds else out


class MobileNetV2(nn.Module):
    """Images float32 (n, 3, height, width), prepared as the weights expect them, to float32 (n, 1280)."""

    def __init__(self, same: bool) -> None:
        super().__init__()
        layers: list[nn.Module] = [_active(Convolution(3, 32, 3, 2, 1, same))]
        channels = 32
        for expansion, outputs, repetitions, stride in BLOCKS:
            for repetition in range(repetitions):
                layers.append(Bottleneck(channels, outputs, expansion, 1 if repetition else stride, same))
                channels = outputs
        layers.append(_active(Convolution(channels, FEATURES, 1, 1, 1, same)))
        self.features = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.features(x).mean((2, 3))
        return out


@dataclass(frozen=True, slots=True)
class MobileNet:
    """Builds the network. same: TensorFlow's padding, for weights that come from there; torchvision's pad evenly."""

    same: bool = False

    def __call__(self) -> nn.Module:
        return MobileNetV2(self.same)

    def weights(self, state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """torchvision's weights folded; weights that are folded already, named as they are here, as they come."""
        return folded(state) if any(name.endswith("running_var") for name in state) else state


def folded(state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Weights and biases that do what convolutions do with the batch normalisation, in evaluation mode, that follows each.

    state: as torchvision names it, where the layer after "features.0.0" is "features.0.1". Raises ValueError for a convolution
    without one.
    """
    found: dict[str, Tensor] = {}
    for name, weight in state.items():
        if weight.ndim != 4:
            continue
        before, _, place = name.removesuffix(".weight").rpartition(".")
        norm = f"{before}.{int(place) + 1}" if place.isdecimal() else "?"
        try:
            scale, shift, mean, variance = (state[f"{norm}.{part}"] for part in ("weight", "bias", "running_mean", "running_var"))
        except KeyError as error:
            raise ValueError(f"no batch normalisation follows {name}; give weights as torchvision names them") from error
        gain = scale / torch.sqrt(variance + EPS)
        found[name] = weight * gain[:, None, None, None]
        found[f"{before}.{place}.bias"] = shift - mean * gain + state.get(f"{before}.{place}.bias", torch.zeros(())) * gain
    return found


def _active(convolution: Convolution) -> nn.Module:
    return nn.Sequential(convolution, nn.Identity(), nn.ReLU6())  # the identity is where torchvision has its normalisation
