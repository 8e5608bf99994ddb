"""Whether a record is in a client's training data: from the client's updates, or from confidences of models.

`alignment` and `loss_scores` are for an adversary that has a client's updates over rounds, or estimates of them, with the models
that they began from. `lira_online`, `lira_offline` and `rmia` compare a target model's confidences with those of shadow models
(`shadow_models`), which the adversary trained on public data of the same kind: they are functions of arrays alone. Every score is
higher the more likely a record is a member; none sees who is. Report the true positive rate at a low false positive rate beside
the area under the curve (Carlini et al. 2022).
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_ndtr
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from ...fl.clients.losses import CROSS_ENTROPY, LossFunction
from ...fl.clients.losses import losses as losses_of
from ...fl.data.population import Examples
from ...fl.functions import Unfit
from ...fl.models.vector import names_and_shapes, pieces_of, trainable

Scores = NDArray[np.float64]
Membership = NDArray[np.bool_]
CHUNK = 64
"""Records whose gradients are held at once."""
KEPT = 16
"""Bases of gradients that are held at once."""
TINY = 1e-30


def alignment(
    module: nn.Module,
    rounds: Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]],
    records: Examples,
    public: Examples | None = None,
    spans: "Spans | None" = None,
    loss: str | LossFunction = CROSS_ENTROPY,
) -> Scores:
    """Sum over rounds of the cosine of the update with minus the record's gradient: float64 (records,).

    rounds: (start, update) of the client, float32 (d,) each: the model that it trained from, and its update or an estimate of
    it. The gradient-similarity attacks of Nasr et al. 2019 and of Li et al. 2023 on federated learning. A round
    whose update is 0 counts nothing. public: records that the client does not have, of the same kind; of both vectors goes what
    their gradients span, so that what is left is told of the record and not of its label. It costs a decomposition of (d,
    public) a round, so a few hundred are enough. spans: decompositions of these public records, for whoever asks of many clients.
    loss: that the client trains by, by name or a function.
    """
    found = np.zeros(len(records))
    for start, update in rounds:
        at, direction = pieces(module, start), torch.from_numpy(update).float()
        basis = torch.zeros(len(update), 0) if public is None else (spans or Spans()).of(module, start, public, loss)
        left = direction - basis @ (basis.T @ direction)
        length, cosines = float(left.norm()), []
        if length == 0:
            continue
        for rows in gradients(module, at, records, loss):
            own = rows - (rows @ basis) @ basis.T
            cosines.append(-(own @ left) / own.norm(dim=1).clamp(min=TINY) / length)
        found += torch.cat(cosines).double().numpy()
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Orthonormal bases of what the gradients of public records span, by the model that they are taken at: KEPT at most.

    All are of one module, one loss and the same records.
    """

    _known: dict[bytes, Tensor] = field(default_factory=dict, repr=False)

    def of(
        self, module: nn.Module, start: NDArray[np.float32], public: Examples, loss: str | LossFunction = CROSS_ENTROPY
    ) -> Tensor:
        """float32 (d, up to public)."""
        name = hashlib.sha256(start.tobytes()).digest()
        if name not in self._known:
            while len(self._known) >= KEPT:
                del self._known[next(iter(self._known))]
            rows = torch.cat(list(gradients(module, pieces(module, start), public, loss)))
            self._known[name] = torch.linalg.qr(rows.T)[0]
        return self._known[name]


def gradients(
    module: nn.Module, at: Mapping[str, Tensor], records: Examples, loss: str | LossFunction = CROSS_ENTROPY
) -> Iterator[Tensor]:
    """The gradient of each record's own loss, float32 (up to CHUNK, d) at a time."""

    def own(parameters: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return losses_of(functional_call(module, dict(parameters), (x[None],)), y[None], loss).mean()

    for index in torch.split(torch.arange(len(records)), CHUNK):
        x, y = records.x[index], records.y[index]
        with at_rest(module):
            try:
                slopes = vmap(grad(own), in_dims=(None, 0, 0))(dict(at), x, y)
            except (
                RuntimeError,
                Unfit,
            ):  # a layer or a loss that is not computed for many at once: one by one
                alone = [grad(own)(dict(at), one, label) for one, label in zip(x, y, strict=True)]
                slopes = {name: torch.stack([of[name] for of in alone]) for name in at}
        yield torch.cat([slope.flatten(1) for slope in slopes.values()], dim=1)


@contextmanager
def at_rest(module: nn.Module) -> Iterator[None]:
    """As a model is that predicts: nothing is dropped out. Afterwards its parts are as they were."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def loss_scores(
    module: nn.Module,
    rounds: Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]],
    records: Examples,
    loss: str | LossFunction = CROSS_ENTROPY,
) -> Scores:
    """Mean over rounds of how much the update lowers the record's loss: float64 (records,).

    The loss at the start less the loss at start + update (Yeom et al. 2018's loss, calibrated by the model before). rounds,
    loss: as in `alignment`.
    """
    found = np.zeros(len(records))
    for start, update in rounds:
        found += losses(module, start, records, loss) - losses(module, (start + update).astype(np.float32), records, loss)
    return found / max(len(rounds), 1)


def losses(module: nn.Module, vector: NDArray[np.float32], records: Examples, loss: str | LossFunction = CROSS_ENTROPY) -> Scores:
    """The loss of each record at a model, float64 (records,)."""
    with torch.no_grad(), at_rest(module):
        outputs = functional_call(module, pieces(module, vector), (records.x,)).double()
        return np.asarray(losses_of(outputs, records.y, loss).double().reshape(len(records), -1).mean(1).numpy())


def pieces(module: nn.Module, vector: NDArray[np.float32]) -> dict[str, Tensor]:
    """A vector of the module's, in pieces by name."""
    return dict(zip(trainable(module), pieces_of(vector, names_and_shapes(module)), strict=True))


def logit_scaled(confidence: Scores) -> Scores:
    """log(p / (1 - p)) of the true label's probability p, kept within [1e-12, 1 - 1e-12] (Carlini et al. 2022)."""
    kept = np.clip(confidence, 1e-12, 1 - 1e-12)
    return np.asarray(np.log(kept) - np.log1p(-kept))


def lira_online(target: Scores, shadow: Scores, inside: Membership, fixed_variance: bool = False) -> Scores:
    """log N(phi; in) - log N(phi; out) of each record (Carlini et al. 2022, algorithm 1): float64 (records,).

    target: logit-scaled confidences of the target model, float64 (records,). shadow: the same of shadow models, (models,
    records). inside: whether the shadow model was trained on the record, (models, records); every record is in and out of one at
    least, of two where the variance is the record's own. Centres are medians, as in the authors' code. fixed_variance: one
    variance for all records, about each record's centre, which is better with few models. Raises ValueError for shapes or counts
    that do not fit.
    """
    inner, outer = of_records(target, shadow, inside, fixed_variance), of_records(target, shadow, ~inside, fixed_variance)
    return normal_log(target, *inner) - normal_log(target, *outer)


def lira_offline(target: Scores, shadow: Scores, inside: Membership, fixed_variance: bool = False) -> Scores:
    """log Pr(Z <= phi) for Z as confidences of models without the record (Carlini et al. 2022): float64 (records,).

    The paper's offline attack, a one-sided test that looks at shadow models without the record alone. Arguments as
    `lira_online`'s.
    """
    centre, deviation = of_records(target, shadow, ~inside, fixed_variance)
    return np.asarray(log_ndtr((target - centre) / (deviation + TINY)))


def of_records(target: Scores, shadow: Scores, taken: Membership, fixed_variance: bool) -> tuple[Scores, Scores]:
    """Medians (records,), and deviations (records,) or one of all, of the shadow values that are taken."""
    if shadow.shape != taken.shape or shadow.shape[1:] != target.shape:
        raise ValueError(f"shapes (records,) and (models, records) do not fit: {target.shape}, {shadow.shape}, {taken.shape}")
    if int(taken.sum(axis=0).min()) < (1 if fixed_variance else 2):
        raise ValueError("some record is in, or out of, too few shadow models; train more, or ask for one variance")
    values = np.where(taken, shadow, np.nan)
    centre = np.nanmedian(values, axis=0)
    if not fixed_variance:
        return centre, np.nanstd(values, axis=0)
    return centre, np.full(len(centre), float(np.sqrt(np.nanmean(np.square(values - np.nanmean(values, axis=0))))))


def normal_log(x: Scores, centre: Scores, deviation: Scores) -> Scores:
    """Logarithm of the normal density, up to log sqrt(2 pi)."""
    spread = deviation + TINY
    return np.asarray(-0.5 * np.square((x - centre) / spread) - np.log(spread))


def rmia(
    target: Scores,
    out: Scores,
    population: Scores,
    population_out: Scores,
    inside: Scores | None = None,
    offline_a: float = 0.3,
    gamma: float = 1.0,
) -> Scores:
    """Share of population records z with LR(x, z) >= gamma, where LR = (Pr(x|t) / Pr(x)) / (Pr(z|t) / Pr(z)) (Zarifzadeh et al.
    2024, RMIA): float64 (records,).

    target: the target model's probabilities of the true label, float64 (records,), not scaled. population: the same of records
    that are in no model, (others,). out: mean over shadow models without the record, (records,); population_out: mean over all,
    (others,). Online, inside is the mean over shadow models with the record, and Pr(x) the mean of both; offline it is ((1 + a)
    out + (1 - a)) / 2, a = 1 where a record's presence does not matter. A population record's presence is always
    unknown, so its Pr(z) is the offline one.
    """
    if not 0 <= offline_a <= 1 or not gamma > 0:
        raise ValueError(f"offline_a is within 0 and 1 and gamma above 0, not {offline_a} and {gamma}")
    guessed = ((1 + offline_a) * out + (1 - offline_a)) / 2
    usual = guessed if inside is None else (out + inside) / 2
    of_x = target / np.maximum(usual, TINY)
    of_z = population / np.maximum(((1 + offline_a) * population_out + (1 - offline_a)) / 2, TINY)
    bars = np.sort(gamma * of_z)
    return np.asarray(np.searchsorted(bars, of_x, side="right") / len(bars))


def mean_where(values: Scores, taken: Membership) -> Scores:
    """Means of each record's values that are taken, over models: float64 (records,). values, taken: (models, records)."""
    if int(taken.sum(axis=0).min()) < 1:
        raise ValueError("some record is in none of the models that are asked about; train more")
    return np.asarray(np.where(taken, values, 0.0).sum(axis=0) / taken.sum(axis=0))
