"""Images of a client's training data, from what the observer makes of one of its updates."""

import base64
import io
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from ...fl.data.population import Examples
from ...fl.models.vector import load_vector, to_vector
from ..inference.image_scores import matched_psnr, psnr
from ..inference.inversion import first_layer, inverting_gradients
from .experiment import Anchor, Budget, Evidence, Finding, Values, victims_of
from .membership import start_of
from .scoring import GOOD
from .truth import Truth
from .unread import unread
from .view import CorruptView

FEW = 8
"""Records of a client up to which an optimiser is set on its images too."""
SHOWN = 6


@dataclass(frozen=True, slots=True)
class GradientInversion:
    """Of each victim whether any of its images was recovered to GOOD dB or better: 1, or 0. The mean is a share of victims.

    One record that is read is what a client is hurt by, however many others are not: a mean over records would hide it. An image
    that the mean image comes as close to is not counted. Guesses are read off the first layer in closed form where it is linear,
    and sought by an optimiser where records are FEW. The update is the first that the observer knows a start of.
    """

    name: str = "images"
    unit: str = f"share of clients of whom some record is recovered at {GOOD:.0f} dB or better"
    side: str = "the labels of a client with few records; public images, for their mean"
    source: str = "Phong et al. 2017; Geiping et al. 2020"
    anchor: Anchor = "sums alone"

    def applies(self, evidence: Evidence, /) -> str:
        if reason := unread(evidence):
            return reason
        public = evidence.view.public.auxiliary
        if public.x.ndim != 4:
            return "inputs are no images"
        sizes = [len(c.train) for c in evidence.known.population.clients.values()]
        if not _linear_first(evidence.view.public.module) and min(sizes) > FEW:
            return f"the first layer is not linear, and every client has more than {FEW} records"
        return ""

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        view = evidence.view
        victims = victims_of(view, budget.victims, rng)
        found = {key: e.vector for key, e in evidence.estimated(view).items() if key[1] == "update"}
        mean = view.public.auxiliary.x.mean(dim=0, keepdim=True)
        records, ways, ratios, shown = dict[int, tuple[int, int]](), list[float](), list[float](), list[dict[str, Any]]()
        for i in victims:
            own = truth.population.clients[i].train
            guesses = with_mean(guessed(view, i, found, own, budget, rng), own, mean)
            way, got = towards(guesses, own, mean)
            records[i] = read_of(got, own, mean)
            ways += way.tolist()
            ratios += np.clip(got, 0, 200).tolist()
            best = int(np.argmax(got - psnr(mean, own.x)[0]))
            nearest = guesses[int(np.argmax(psnr(guesses, own.x[best : best + 1])[:, 0]))]
            picture = {"original": png(own.x[best]), "recovered": png(nearest), "psnr": float(min(got[best], 200.0))}
            shown += [{**picture, "client": i}] * (len(shown) < SHOWN)
        words = "Of each victim the image that was recovered best."
        way_words = f"mean way from the mean image's PSNR to {GOOD:.0f} dB"
        figures = {"median PSNR, dB": float(np.median(ratios)), way_words: float(np.mean(ways))} if victims else {}
        values = np.array([float(records[i][0] > 0) for i in victims], np.float64)
        return Finding(victims, values, figures=figures, pictures={"pairs": shown, "words": words}, records=records)


def with_mean(guesses: Tensor, own: Examples, mean: Tensor) -> Tensor:
    """The guesses (k, ...), and the mean image once for each of the client's, which nobody needs to guess worse than."""
    return torch.cat([mean.expand(len(own), *mean.shape[1:]), guesses])


def towards(guesses: Tensor, own: Examples, mean: Tensor) -> tuple[Values, Values]:
    """Of each image of the client how far its guess comes from the mean image (0) to GOOD dB (1), and the guess's PSNR, dB."""
    floor, got = psnr(mean, own.x)[0], matched_psnr(guesses, own.x)
    return np.clip((np.maximum(got, floor) - floor) / (GOOD - np.minimum(floor, GOOD - 1)), 0, 1), got


def read_of(got: Values, own: Examples, mean: Tensor) -> tuple[int, int]:
    """How many of a client's images were recovered at GOOD dB or better where the mean image is not, and how many it has.

    got: of each the PSNR of its guess, dB.
    """
    return int(((got >= GOOD) & (psnr(mean, own.x)[0] < GOOD)).sum()), len(own)


def guessed(
    view: CorruptView, client: int, found: dict[Any, Any], own: Examples, budget: Budget, rng: np.random.Generator
) -> Tensor:
    """Images (k, ...) that the attacker reads out of the client's first update with a known start; own: for labels and shapes."""
    rounds = sorted(t for t, _, i in found if i == client and start_of(view, t, client) is not None)
    nothing = own.x[:0]
    if not rounds:
        return nothing
    public, t = view.public, rounds[0]
    start, module = start_of(view, t, client), deepcopy(view.public.module).cpu().eval()
    d = len(to_vector(module))
    load_vector(module, np.asarray(start, np.float32)[:d])
    update = np.asarray(found[t, "update", client], np.float32)[:d]
    pieces = [nothing]
    if _linear_first(module):
        read = first_layer(module, update)[: 4 * len(own)]
        pieces.append(read.reshape(len(read), *own.x.shape[1:]).clamp(0, 1))
    if len(own) <= FEW and np.any(update):
        shape = tuple(own.x.shape[1:])
        pieces.append(inverting_gradients(module, update, own.y, shape, public.training, rng, t, budget.steps).x)
    return torch.cat(pieces).nan_to_num()


def png(image: Tensor) -> str:
    """A float image (channels, height, width) within [0, 1], as a data URI."""
    pixels = (image.detach().clamp(0, 1) * 255).round().to(torch.uint8).numpy()
    picture = Image.fromarray(pixels[0] if len(pixels) == 1 else np.moveaxis(pixels[:3], 0, -1))
    file = io.BytesIO()
    picture.save(file, format="PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _linear_first(module: nn.Module) -> bool:
    first = next((layer for layer in module.modules() if not list(layer.children()) and list(layer.parameters())), None)
    return isinstance(first, nn.Linear) and first.bias is not None
