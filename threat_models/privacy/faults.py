"""Faults that have been made in code whose epsilon was stated, put into the shipped code for as long as a self-test lasts.

Each swaps one attribute of a shipped module or class. Nothing else in Cloister uses this module, and none of it is thread-safe.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...crypto.fixed_point import Conditional
from ...crypto.prg import derive_key
from ...crypto.samplers import discrete_gaussian
from ...fl.emd.subsample import Size
from ...protocol.masked import gaussian
from ...protocol.pairs import compute
from ...protocol.pairs.compute import Respondent
from ...protocol.pairs.computer import OwnComputer
from ...protocol.pairs.noise import Noise, noised
from ...protocol.uploaded import central
from ...protocol.uploaded.central import CentralSums
from . import central_sum, distance_releases, head_release, noisy_sum, pair_releases
from .fault import Fault, Swap
from .mechanism import Auditor
from .training_faults import TRAINING_FAULTS

# --- noisy sums ----------------------------------------------------------------------------------------------------------------


def _sum_noise(change: Callable[[bytes, int, int], Any]) -> Callable[[], tuple[Swap, ...]]:
    return lambda: ((gaussian, "discrete_gaussian", change),)


def _divided(key: bytes, count: int, variance: int) -> Any:
    return np.rint(discrete_gaussian(key, count, variance) / len(noisy_sum.CLIENTS)).astype(np.int64)


def _halved(key: bytes, count: int, variance: int) -> Any:
    return np.rint(discrete_gaussian(key, count, variance) / 2).astype(np.int64)


def _deviation_for_variance(key: bytes, count: int, variance: int) -> Any:
    return discrete_gaussian(key, count, math.isqrt(int(variance)))


def _block_without(key: bytes, count: int, variance: Any) -> Any:
    """The first quarter of all coordinates."""
    found = discrete_gaussian(key, count, variance)
    found[: count // 4] = 0
    return found


def _to_twice(vector: Any, l2: float) -> Any:
    norm = float(np.linalg.norm(vector))
    return vector * (2 * l2 / norm) if norm > 2 * l2 else vector


def _sum_clip(change: Callable[[Any, float], Any]) -> Callable[[], tuple[Swap, ...]]:
    """Nor is it held to the clip by the rounding, which would raise."""
    loose = 1e3
    return lambda: (
        (gaussian, "_clipped", change),
        (gaussian, "Conditional", lambda key, l2, beta: Conditional(key, loose * l2, beta)),
    )


def _sum_key(of_noise: Callable[[bytes, str, bytes], bytes]) -> Callable[[], tuple[Swap, ...]]:
    """Another key for the noise alone."""

    def derived(secret: bytes, purpose: str, context: bytes) -> bytes:
        of = of_noise if purpose == "distributed noise" else derive_key
        return of(secret, purpose, context)

    return lambda: ((gaussian, "derive_key", derived),)


def _zero(secret: bytes, purpose: str, context: bytes) -> bytes:
    return derive_key(bytes(32), purpose, context)


def _same_in_all_rounds() -> tuple[Swap, ...]:
    """A client keeps one secret, and derives its key without naming the session."""
    encode = gaussian.Place.encode

    class Lasting:
        def __init__(self, entropy: Any, client: int) -> None:
            self.entropy, self.client = entropy, client

        def secret(self, label: str, size: int) -> bytes:
            return bytes(self.entropy.secret(f"distributed gaussian {self.client}", size))

    def without_session(secret: bytes, purpose: str, context: bytes) -> bytes:
        return derive_key(secret, purpose, b"")

    def reused(place: Any, vector: Any, entropy: Any) -> Any:
        return encode(place, vector, Lasting(entropy, place.client))  # type: ignore[arg-type]

    return ((gaussian.Place, "encode", reused), *_sum_key(without_session)())


# --- sums of a trusted server ---------------------------------------------------------------------------------------------------


def _central_noise(change: Callable[[bytes, int, int], Any]) -> Callable[[], tuple[Swap, ...]]:
    return lambda: ((central, "discrete_gaussian", change),)


def _central_unclipped() -> tuple[Swap, ...]:
    return ((CentralSums, "_within", lambda self, update: np.asarray(update, np.float64)),)


def _of_central(mechanism: str) -> tuple[Fault, ...]:
    def zero(secret: bytes, purpose: str, context: bytes) -> bytes:
        return derive_key(bytes(32), purpose, b"")

    return (
        Fault("noise / n", mechanism, "GDP", _central_noise(_divided)),
        Fault("half of the noise", mechanism, "GDP", _central_noise(_halved), times=2),
        Fault("deviation for variance", mechanism, "GDP", _central_noise(_deviation_for_variance)),
        Fault("no clip", mechanism, "GDP", _central_unclipped),
        Fault("a block of coordinates without noise", mechanism, "GDP", _central_noise(_block_without)),
        Fault("all-zero noise key", mechanism, "GDP", lambda: ((central, "derive_key", zero),)),
    )


# --- pair releases -------------------------------------------------------------------------------------------------------------


def _pair_noise(change: Callable[[Any, float, bytes], Any]) -> Callable[[], tuple[Swap, ...]]:
    return lambda: ((compute, "noised", change),)


def _unclipped() -> Swap:
    return (Noise, "clipped", lambda self, rows: np.asarray(rows, np.float64))


def _clip_twice() -> tuple[Swap, ...]:
    shipped = Noise.clipped
    return ((Noise, "clipped", lambda self, rows: 2 * shipped(self, np.asarray(rows) / 2)),)


def _clip_after_noise() -> tuple[Swap, ...]:
    """To about the norm that a clipped row, or mean, has."""

    def late(values: Any, deviation: float, key: bytes) -> Any:
        found = noised(values, deviation, key)
        norms = np.linalg.norm(found, axis=-1, keepdims=True)
        return found / np.maximum(norms, 1e-12)

    return (_unclipped(), (compute, "noised", late))


def _columns_without(values: Any, deviation: float, key: bytes) -> Any:
    """The first quarter of all coordinates of each row."""
    found, block = noised(values, deviation, key), max(1, values.shape[-1] // 4)
    found[..., :block] = values[..., :block]
    return found


def _pair_zero() -> tuple[Swap, ...]:
    return ((Respondent, "deviate", lambda self, label: bytes(32)),)


def _same_for_all_clients() -> tuple[Swap, ...]:
    asked = OwnComputer._asked

    def reused(computer: Any, *given: Any) -> Any:
        return replace(asked(computer, *given), key=computer._entropy.secret("pair noise", 32))

    return ((OwnComputer, "_asked", reused),)


def _without_label() -> tuple[Swap, ...]:
    """The distance and the reference distance have the same noise."""
    shipped = Respondent.deviate
    return ((Respondent, "deviate", lambda self, label: shipped(self, "distance")),)


def _exact_reference() -> tuple[Swap, ...]:
    shipped = compute._scalar

    def said(asked: Any, noise: Any, exact: float, label: str) -> float:
        return exact if label == "reference" else shipped(asked, noise, exact, label)

    return ((compute, "_scalar", said),)


def _by_label() -> tuple[Swap, ...]:
    return ((Size, "by_position", lambda self, noisy: False),)


def _of_pairs(mechanism: str, rows: int, auditor: Auditor) -> tuple[Fault, ...]:
    """Those that any noisy pair release can have. rows: of a client's sample."""
    return (
        Fault("noise / n", mechanism, auditor, _pair_noise(lambda values, s, key: noised(values, s / rows, key))),
        Fault("variance for deviation", mechanism, auditor, _pair_noise(lambda values, s, key: noised(values, s * s, key))),
        Fault("clip after noise", mechanism, auditor, _clip_after_noise),
        Fault("no clip", mechanism, auditor, lambda: (_unclipped(),)),
        Fault("a block of coordinates without noise", mechanism, auditor, _pair_noise(_columns_without)),
        Fault("the same noise key for all clients", mechanism, auditor, _same_for_all_clients),
    )


def _of_distances(mechanism: str, auditor: Auditor) -> tuple[Fault, ...]:
    rows = distance_releases.ROWS
    return (
        Fault("noise / n", mechanism, auditor, _pair_noise(lambda values, s, key: noised(values, s / rows, key))),
        Fault("half of the noise", mechanism, auditor, _pair_noise(lambda values, s, key: noised(values, s / 2, key))),
        Fault("variance for deviation", mechanism, auditor, _pair_noise(lambda values, s, key: noised(values, s * s, key))),
        Fault("a reference distance without noise", mechanism, auditor, _exact_reference),
        Fault("the same noise for distance and reference", mechanism, auditor, _without_label),
        Fault("all-zero noise key", mechanism, auditor, _pair_zero),
    )


FAULTS: tuple[Fault, ...] = (
    Fault("noise / n", noisy_sum.NAME, "GDP", _sum_noise(_divided)),
    Fault("half of the noise", noisy_sum.NAME, "GDP", _sum_noise(_halved), times=2),
    Fault("deviation for variance", noisy_sum.NAME, "GDP", _sum_noise(_deviation_for_variance)),
    Fault("no clip", noisy_sum.NAME, "GDP", _sum_clip(lambda vector, l2: vector)),
    Fault("clip twice too large", noisy_sum.NAME, "GDP", _sum_clip(_to_twice), times=2),
    Fault("a block of coordinates without noise", noisy_sum.NAME, "GDP", _sum_noise(_block_without)),
    Fault("all-zero noise key", noisy_sum.NAME, "GDP", _sum_key(_zero)),
    Fault("the same noise key in all rounds", noisy_sum.NAME, "GDP", _same_in_all_rounds),
    *_of_central(central_sum.NAME),
    *_of_pairs(pair_releases.MEAN, pair_releases.MEAN_ROWS, "GDP"),
    Fault("all-zero noise key", pair_releases.MEAN, "GDP", _pair_zero),
    Fault(
        "half of the noise", pair_releases.MEAN, "GDP", _pair_noise(lambda values, s, key: noised(values, s / 2, key)), times=2
    ),
    Fault("clip twice too large", pair_releases.MEAN, "GDP", _clip_twice, times=2),
    Fault("label-dependent subsample", pair_releases.MEAN, "GDP", _by_label),
    *_of_pairs(pair_releases.CLOUDS, pair_releases.ROWS, "one run"),
    Fault("all-zero noise key", pair_releases.CLOUDS, "one run", _pair_zero),
    *_of_pairs(head_release.NAME, head_release.RECORDS, "one run"),
    Fault("all-zero noise key", head_release.NAME, "one run", _pair_zero),
    *_of_distances(distance_releases.NAME, "GDP"),
    *TRAINING_FAULTS,
)
"""Of all mechanisms of the self-test; faults of a further one are added here."""
