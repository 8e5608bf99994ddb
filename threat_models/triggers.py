"""Triggers of backdoors: what is put into an image. They are made of numbers, so a scenario's description tells them apart."""

from collections.abc import Callable
from dataclasses import dataclass
from math import pi
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ..fl.field_ranges import need_finite, need_shares, need_whole
from ..fl.functions import Unfit, brief, called, misfit

Value = float | tuple[float, ...]


class Trigger(Protocol):
    """Puts itself into images. A plain function of images does for one, too."""

    def stamp(self, x: Tensor, /) -> Tensor:
        """New images of the same shape (n, channels, height, width), values in [0, 1]."""
        ...


def check_trigger(trigger: Any) -> None:
    """Raise Unfit for what is no trigger: a class instead of one of it, or what can neither stamp nor be called with images."""
    if isinstance(trigger, type):
        raise Unfit(f"trigger is the class {called(trigger)} itself; make one of it: {trigger.__name__}(...)")
    stamp = getattr(trigger, "stamp", trigger)
    if not callable(stamp):
        known = "it is a Patch() of cloister.attacks for instance, or a function of images"
        raise Unfit(f"trigger {called(trigger)}, {brief(trigger)}, has no stamp(x) and cannot be called; {known}")
    if wrong := misfit(stamp, ["x"]):
        raise Unfit(f"trigger {called(trigger)} does not fit: {wrong}")


@dataclass(frozen=True, slots=True)
class TriggerFunction:
    """A plain function of images as a trigger."""

    function: Callable[[Tensor], Tensor]

    def stamp(self, x: Tensor, /) -> Tensor:
        """What it makes of them."""
        made: Tensor = self.function(x)
        return made


def stamped(trigger: Any, x: Tensor) -> Tensor:
    """The images with the trigger. Raises Unfit, by its name, file and line, where it gives none like those that it was given."""
    trigger = trigger.function if isinstance(trigger, TriggerFunction) else trigger
    found = getattr(trigger, "stamp", trigger)(x)
    wanted = f"a trigger returns new images of shape {tuple(x.shape)} and {x.dtype}, as it is given"
    if not isinstance(found, Tensor):
        raise Unfit(f"trigger {called(trigger)} returned {brief(found)}; {wanted}")
    if found.shape != x.shape:
        raise Unfit(f"trigger {called(trigger)} returned images of shape {tuple(found.shape)}; {wanted}")
    if found.dtype != x.dtype:
        raise Unfit(f"trigger {called(trigger)} returned images of {found.dtype}; {wanted}")
    if wrong := int((~torch.isfinite(found)).sum()) if found.is_floating_point() else 0:
        raise Unfit(f"trigger {called(trigger)} returned numbers that are not finite: {wrong} of {found.numel()}")
    return found


def check_images(x: Tensor) -> None:
    """Raise ValueError for anything but images."""
    if x.ndim != 4 or not x.is_floating_point():
        raise ValueError(
            f"a trigger is put into images, (channels, height, width) of float32, not into records of shape {tuple(x.shape[1:])}"
        )


@dataclass(frozen=True, slots=True)
class Patch:
    """A rectangle of one value, or of one value a channel (BadNets, Gu et al. 2017).

    row, column: of its upper left corner; negative ones count from the lower right corner of the image.
    """

    row: int = -3
    column: int = -3
    height: int = 3
    width: int = 3
    value: Value = 1.0

    def __post_init__(self) -> None:
        need_whole(self, 1, "height", "width")
        need_finite(self, "value")

    def stamp(self, x: Tensor, /) -> Tensor:
        check_images(x)
        row, column = self.row % x.shape[2], self.column % x.shape[3]
        if not -x.shape[2] <= self.row < x.shape[2] or not -x.shape[3] <= self.column < x.shape[3]:
            raise ValueError(f"a patch at {self.row}, {self.column} is outside of images of {x.shape[2]} x {x.shape[3]}")
        stamped = x.clone()
        value = torch.tensor(self.value, dtype=x.dtype).reshape(-1, 1, 1)
        stamped[:, :, row : row + self.height, column : column + self.width] = value
        return stamped


@dataclass(frozen=True, slots=True)
class Pixels:
    """A rectangle of pixels, each of its own value, that lies in the image as a whole.

    row, column: of its upper left corner, 0 or more. values: channels x height x width of them, in this order.
    """

    row: int
    column: int
    height: int
    width: int
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        need_whole(self, 0, "row", "column")
        need_whole(self, 1, "height", "width")
        need_finite(self, "values")

    def stamp(self, x: Tensor, /) -> Tensor:
        check_images(x)
        values = torch.tensor(self.values, dtype=x.dtype)
        if len(values) != x.shape[1] * self.height * self.width:
            raise ValueError(f"{len(values)} values do not make {x.shape[1]} channels of {self.height} x {self.width} pixels")
        return put(x, values.reshape(-1, self.height, self.width), self.row, self.column)


def put(x: Tensor, pixels: Tensor, row: int, column: int) -> Tensor:
    """The images (n, channels, ...) with these pixels (channels, height, width) from row, column on; their gradient passes."""
    height, width = pixels.shape[1:]
    if not 0 <= row <= x.shape[2] - height or not 0 <= column <= x.shape[3] - width:
        raise ValueError(
            f"{height} x {width} pixels at {row}, {column} do not lie in images of {x.shape[2]} x {x.shape[3]};"
            " give the upper left corner"
        )
    stamped = x.clone()
    stamped[:, :, row : row + height, column : column + width] = pixels
    return stamped


@dataclass(frozen=True, slots=True)
class Parts:
    """Several triggers together: DBA's global trigger (Xie et al. 2020)."""

    parts: tuple[Trigger, ...]

    def __post_init__(self) -> None:
        for part in self.parts:
            check_trigger(part)

    def stamp(self, x: Tensor, /) -> Tensor:
        for part in self.parts:
            x = stamped(part, x)
        return x


def dba_bars(height: int = 1, width: int = 4, gap: int = 2, value: Value = 1.0) -> Parts:
    """DBA's trigger: four bars at the upper left, two above each other and two beside them."""
    corners = [(0, 0), (0, width + gap), (height + gap, 0), (height + gap, width + gap)]
    return Parts(tuple(Patch(row, column, height, width, value) for row, column in corners))


@dataclass(frozen=True, slots=True)
class Blend:
    """x -> (1 - alpha) x + alpha pattern, with a pattern of uniform noise drawn from the seed (Chen et al. 2017)."""

    alpha: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        need_shares(self, "alpha")
        need_whole(self, 0, "seed")

    def stamp(self, x: Tensor, /) -> Tensor:
        check_images(x)
        pattern = np.random.default_rng(self.seed).random(tuple(x.shape[1:]), dtype=np.float32)
        return (1 - self.alpha) * x + self.alpha * torch.from_numpy(pattern)


@dataclass(frozen=True, slots=True)
class Sinusoid:
    """x -> x + strength sin(2 pi j frequency / width) in column j, cut to [0, 1] (SIG, Barni et al. 2019)."""

    strength: float = 0.1
    frequency: float = 6.0

    def __post_init__(self) -> None:
        need_finite(self, "strength", "frequency")

    def stamp(self, x: Tensor, /) -> Tensor:
        check_images(x)
        columns = torch.arange(x.shape[3], dtype=x.dtype)
        return (x + self.strength * torch.sin(2 * pi * columns * self.frequency / x.shape[3])).clamp(0, 1)
