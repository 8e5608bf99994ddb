"""Faults that have been made in DP-SGD, put into both of its executors, as `faults` does for other noise."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from ...crypto.prg import derive_key, random_uint64
from ...fl.clients import dp_sgd, dp_stacked
from ...fl.clients.dp_sgd import Draw, noisy_mean
from ...fl.clients.dp_sgd import draws as shipped_draws
from ...fl.clients.record_privacy import RecordPrivacy
from ...fl.clients.spending import Spending
from ...fl.clients.training import Job, Training
from . import local_training
from .fault import Fault, Swap
from .mechanism import Auditor

LOOSE = 1e30
"""A clip that nothing reaches."""


def _step(change: Callable[[Any, Any, RecordPrivacy, int], Any]) -> tuple[Swap, ...]:
    """Another way from a sum of gradients to what a step goes by."""
    return tuple((module, "noisy_mean", change) for module in (dp_sgd, dp_stacked))


def _draws(change: Callable[[Job, Training], Iterator[Draw]]) -> tuple[Swap, ...]:
    return tuple((module, "draws", change) for module in (dp_sgd, dp_stacked))


def _divided(total: Any, noise: Any, privacy: RecordPrivacy, expected: int) -> Any:
    return noisy_mean(total, np.rint(noise / expected), privacy, expected)


def _variance(total: Any, noise: Any, privacy: RecordPrivacy, expected: int) -> Any:
    return noisy_mean(total, np.rint(noise * privacy.deviation), privacy, expected)


def _layer_without(total: Any, noise: Any, privacy: RecordPrivacy, expected: int) -> Any:
    """Without noise on the first layer's weights: no fewer than half of the parameters."""
    kept = noise.copy()
    kept[: len(noise) // 2] = 0
    return noisy_mean(total, kept, privacy, expected)


def _unclipped() -> tuple[Swap, ...]:
    sums = dp_stacked.sums
    return (
        (dp_sgd, "clipped", lambda gradient, norm, clip: gradient),
        (dp_stacked, "sums", lambda layers, x, labels, share, clip: sums(layers, x, labels, share, LOOSE)),
    )


def _twice_too_large() -> tuple[Swap, ...]:
    sums = dp_stacked.sums
    return (
        (dp_sgd, "clipped", lambda gradient, norm, clip: gradient * (2 * clip / norm)),
        (dp_stacked, "sums", lambda layers, x, labels, share, clip: sums(layers, x, labels, share, 2 * clip)),
    )


def _of_mean(total: Any, noise: Any, privacy: RecordPrivacy, expected: int) -> Any:
    """The batch's mean gradient is clipped, in the place of each record's."""
    longest = privacy.clip * expected
    return noisy_mean(total * min(1.0, longest / max(float(np.linalg.norm(total)), 1e-30)), noise, privacy, expected)


def _late(total: Any, noise: Any, privacy: RecordPrivacy, expected: int) -> Any:
    """The noisy sum scaled down to as much as clipped gradients could have added up to."""
    found = noisy_mean(total, noise, privacy, expected)
    return (found * min(1.0, privacy.clip / max(float(np.linalg.norm(found)), 1e-30))).astype(np.float32)


def _part(of: float) -> Callable[[], tuple[Swap, ...]]:
    """As if the multiplier were as much smaller than what is charged."""
    return lambda: _step(lambda total, noise, privacy, expected: noisy_mean(total, np.rint(of * noise), privacy, expected))


def _first_step_alone(job: Job, training: Training) -> Iterator[Draw]:
    """Has noise, and the others of a training none."""
    for step, drawn in enumerate(shipped_draws(job, training)):
        yield drawn if step == 0 else Draw(drawn.index, np.zeros_like(drawn.noise))


def _zero(secret: bytes, purpose: str, context: bytes) -> bytes:
    return derive_key(bytes(32) if purpose == "DP-SGD step" else secret, purpose, context)


def _same_in_all_rounds() -> tuple[Swap, ...]:
    shipped = Spending._secret
    return ((Spending, "_secret", lambda self, client, before: shipped(self, client, 0)),)


def _same_in_all_steps() -> tuple[Swap, ...]:
    """The number of the step is left out, and so is that of the training."""

    def derived(secret: bytes, purpose: str, context: bytes) -> bytes:
        return derive_key(secret, purpose, b"" if purpose == "DP-SGD step" else context)

    return (dp_sgd, "derive_key", derived), *_same_in_all_rounds()


def _of_own_size() -> tuple[Swap, ...]:
    """Opacus' (issue 819): the number of records over the number of batches, rounded down."""
    return ((RecordPrivacy, "expected", lambda self, examples, batch: examples // -(-examples // batch)),)


def _all_records(job: Job, training: Training) -> Iterator[Draw]:
    """Every step takes all records, and is charged as if it sampled them."""
    for drawn in shipped_draws(job, training):
        yield Draw(torch.arange(len(job.examples)), drawn.noise)


def _one_sample(job: Job, training: Training) -> Iterator[Draw]:
    """Every step of a training takes the records that its first one sampled."""
    index = None
    for drawn in shipped_draws(job, training):
        index = drawn.index if index is None else index
        yield Draw(index, drawn.noise)


def _balanced(job: Job, training: Training) -> Iterator[Draw]:
    """Records are sampled so that each label is as frequent as any other."""
    labels = job.examples.y.numpy()
    present, counts = np.unique(labels, return_counts=True)
    chance = np.minimum(1.0, training.batch / len(present) / counts)[np.searchsorted(present, labels)]
    for step, drawn in enumerate(shipped_draws(job, training)):
        key = derive_key(job.secret, "balanced", step.to_bytes(4, "big"))
        index = np.flatnonzero(random_uint64(key, len(labels)) / 2.0**64 < chance)
        yield Draw(torch.from_numpy(index), drawn.noise)


def _everywhere(mechanism: str, auditor: Auditor) -> tuple[Fault, ...]:
    return (
        Fault("noise / n", mechanism, auditor, lambda: _step(_divided)),
        Fault("variance for deviation", mechanism, auditor, lambda: _step(_variance)),
        Fault("no clip", mechanism, auditor, _unclipped),
        Fault("clip after noise", mechanism, auditor, lambda: (*_unclipped(), *_step(_late))),
        Fault("clip of the mean gradient", mechanism, auditor, lambda: (*_unclipped(), *_step(_of_mean))),
        Fault("a layer without noise", mechanism, auditor, lambda: _step(_layer_without)),
        Fault("all-zero noise key", mechanism, auditor, lambda: ((dp_sgd, "derive_key", _zero),)),
    )


_REUSED = ("the same noise key in all rounds", _same_in_all_rounds), ("the same noise key in all steps", _same_in_all_steps)

TRAINING_FAULTS: tuple[Fault, ...] = (
    *_everywhere(local_training.STACKED, "GDP"),
    *_everywhere(local_training.LOOP, "one run"),
    *_everywhere(local_training.SAMPLED, "Clopper-Pearson"),
    *(Fault(name, local_training.STACKED, "GDP", swaps) for name, swaps in _REUSED),
    *(Fault(name, local_training.LOOP, "one run", swaps) for name, swaps in _REUSED),
    Fault("half of the noise", local_training.STACKED, "GDP", _part(0.5)),
    Fault(".7 of the noise", local_training.STACKED, "GDP", _part(0.7), times=4),
    Fault("clip twice too large", local_training.STACKED, "GDP", _twice_too_large),
    Fault("noise in the first step alone", local_training.STACKED, "GDP", lambda: _draws(_first_step_alone)),
    Fault("normaliser from the data set's size", local_training.SAMPLED, "Clopper-Pearson", _of_own_size),
    Fault("label-dependent subsample", local_training.SAMPLED, "Clopper-Pearson", lambda: _draws(_balanced)),
    Fault("no sampling, charged as sampled", local_training.RARE, "Clopper-Pearson", lambda: _draws(_all_records)),
    Fault("one sample for all steps", local_training.RARE, "Clopper-Pearson", lambda: _draws(_one_sample), times=20),
)
