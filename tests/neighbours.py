"""Audits of noisy comparisons through the whole pipeline: what one record moves, and the noise that is really there.

`shifts` plays neighbouring data sets (one record replaced: input and label) with one key, so that the noise is the same and the
difference of what is released is what the record moved. `residuals` plays a run and takes off what a client's data say, so that
the noise is left, in units of the deviation that the client's ledger claims. Both return numbers; `flagged` judges them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import nn

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.clients.embedders import SimulatedEmbedders
from cloister.fl.data.population import Client, Examples
from cloister.fl.emd.embedding import LAST_LINEAR
from cloister.fl.emd.subsample import Size
from cloister.fl.models.papers import EmbeddingAndHead
from cloister.fl.runs.simulation import held_out
from cloister.protocol import Masked
from cloister.protocol.core.session import Session
from cloister.protocol.pairs.choices import Choice, Distances, PerPair
from cloister.protocol.pairs.compute import Respondent, answer_of, report_of, showing_of
from cloister.protocol.pairs.question import PairQuestion
from cloister.protocol.pairs.terms import ONCE, PROTOCOL, terms_of
from cloister.protocol.view.answers import Assignment, Model
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork

from .pairs_sample import RUN, TAU, all_pairs

SIDE = 5
FLOAT32 = 4e-7


def data(rng: np.random.Generator, n: int, classes: int, side: int = SIDE) -> Examples:
    """Images around a centre for each label, some of them far outside of any clip."""
    y = rng.integers(0, classes, n)
    centres = rng.standard_normal((classes, 1, side, side))
    scale = rng.choice([0.1, 1.0, 30.0], size=(n, 1, 1, 1))
    x = scale * (centres[y] + rng.standard_normal((n, 1, side, side)))
    return Examples(torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y))


def neighbour(examples: Examples, rng: np.random.Generator, classes: int) -> Examples:
    """With one record replaced, input and label: by its opposite, by anything, or by nothing."""
    at = int(rng.integers(len(examples)))
    x, y = examples.x.clone(), examples.y.clone()
    other = torch.from_numpy(rng.standard_normal(x.shape[1:]).astype(np.float32))
    x[at] = (-100 * x[at], 50 * other, 0 * other)[rng.integers(3)]
    y[at] = int(rng.integers(classes))
    return Examples(x, y)


@lru_cache(maxsize=16)
def network(kind: int, seed: int) -> nn.Module:
    """Public embeddings: the pixels, a linear layer, rectified ones, a small CNN."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        size = SIDE * SIDE
        return (
            nn.Flatten(),
            nn.Sequential(nn.Flatten(), nn.Linear(size, 12)),
            nn.Sequential(nn.Flatten(), nn.Linear(size, 16), nn.ReLU()),
            nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten()),
        )[kind]


def embedders_of(kept: dict[int, Examples], share: float, size: Size, kind: int, seed: int) -> SimulatedEmbedders:
    """As a simulation makes them: validation data held out, and subsamples drawn."""
    halves = {i: held_out(Client(i, own, own), share, seed + i) for i, own in kept.items()}
    parts = {"train": {i: a for i, (a, _) in halves.items()}, "validation": {i: b for i, (_, b) in halves.items()}}
    inputs = next(iter(kept.values())).x[0].numel()
    module = EmbeddingAndHead(nn.Sequential(nn.Flatten(), nn.Linear(inputs, 4)), nn.Linear(4, 2))
    return SimulatedEmbedders(module, LAST_LINEAR, parts, size, lambda i, _: seed + i, network(kind, seed % 4), noisy=True)


@dataclass(frozen=True)
class Shift:
    """What one record moved, over the sensitivity that the ledger was told."""

    what: str
    ratio: float


def shifts(choice: Choice, count: int, seed: int) -> Iterator[Shift]:
    """Of so many random neighbours, five of each data set."""
    rng = np.random.default_rng(seed)
    for _ in range(-(-count // 5)):
        n, classes, kind = int(rng.integers(20, 120)), int(rng.integers(2, 11)), int(rng.integers(4))
        share, size = float(rng.choice([0.2, 0.5])), Size(int(rng.choice([4, 10, 24, 60])), rng.choice([None, 0.5, 0.9]))
        own, other = data(rng, n, classes), data(rng, n + int(rng.integers(9)), classes)
        drawn = int(rng.integers(2**31))
        of = replace(choice.noise, clip=float(rng.choice([0.5, 4.0])), nonnegative=bool(rng.integers(2)))
        how = (replace(choice, noise=of), share, size, kind, drawn)
        before = _answers({1: own, 5: other}, *how)
        for _ in range(5):
            after = _answers({1: neighbour(own, rng, classes), 5: other}, *how)
            for what, (value, claimed) in before.items():
                moved = float(np.linalg.norm((after[what][0] - value).reshape(-1)))
                yield Shift(what, max(0.0, moved - FLOAT32 * float(np.linalg.norm(value))) / claimed)


def _answers(
    kept: dict[int, Examples], choice: Any, share: float, size: Size, kind: int, seed: int
) -> dict[str, tuple[Any, float]]:
    """Everything that is released about client 1's data, with the sensitivities of its ledger's entries."""
    embedders = embedders_of(kept, share, size, kind, seed)
    pair = isinstance(choice, PerPair | Distances)
    session = Session(PROTOCOL, RUN, 0, "1-5", (1, 5), 2) if pair else Session(ONCE, RUN, 0, "1", (1,), 1)
    terms = terms_of(session, choice, embedders, 0)

    def asked(client: int) -> Respondent:
        def embedded(part: str) -> Any:
            return embedders.embed(client, part, None)

        return Respondent(terms, client, embedders, embedded, None, None, TAU, choice.noise, bytes(range(client, client + 32)))

    if not isinstance(choice, Distances):
        answer = answer_of(asked(1), bytes(range(32)))
        released, claims = answer.release(), [entry.sensitivity for entry in answer.releases]
        found = {"cloud": (released.own.astype(np.float64), claims[0])}
        if released.other is not None:
            found["second cloud"] = (released.other.astype(np.float64), claims[1])
        if len(claims) > 1:
            found["tau"] = (np.array([released.reference]), claims[-1])
        return found
    shown = [showing_of(asked(client)) for client in (1, 5)]
    clouds = [each.release().own for each in shown]
    reports = [report_of(asked(1), clouds[1]), report_of(asked(5), clouds[0])]
    claims = [entry.sensitivity for entry in shown[0].releases]
    values = (reports[0].distance, reports[1].distance, reports[0].reference)
    return {name: (np.array([v]), c) for name, v, c in zip(("its W", "the other's W", "tau"), values, claims, strict=True)}


class Recording(SimulatedEmbedders):
    """The clients' computers, which note what they sent."""

    def sent(self, client: int, occasion: Any, honest: Any, /) -> Any:
        self.__dict__.setdefault("notes", []).append((client, occasion, honest))
        return honest


def residuals(choice: Choice, seed: int, clients: int = 6) -> dict[int, Any]:
    """By client: float64 (numbers,), what it released less what its data say, over the deviation that its ledger claims."""
    rng = np.random.default_rng(seed)
    kept = {i: data(rng, 60, 4, 20) for i in range(1, clients + 1)}
    embedders = embedders_of(kept, 0.4, Size(20), 0, seed)
    embedders.__class__ = Recording
    setup = Setup(RUN, np.zeros(40, np.float32), tuple(kept), _workers, SimulatedEntropy(seed), None, embedders=embedders)
    view = Masked(floor=2, sketch=8).open(setup)
    work = {"all": Assignment(Model("init"), tuple(kept), tuple(kept))}
    updates = view.train(0, work)
    question = PairQuestion(all_pairs(tuple(kept)), choice, TAU, lambda ds: {(d.client, d.other): True for d in ds})
    view.pairs(0, work, updates, question)
    found: dict[int, list[Any]] = {i: [] for i in kept}
    shown = {}
    for client, occasion, honest in embedders.notes:  # type: ignore[attr-defined]
        rows = {part: _clipped(choice.noise, embedders.embed(client, part, None)) for part in ("train", "validation")}
        entries = view.record.ledgers[client, choice.noise.unit].releases
        if isinstance(choice, Distances):
            if not hasattr(honest, "distance"):
                shown[client, occasion.terms.binding] = _clipped(choice.noise, honest.own)
                continue
            theirs = next(cloud for (i, of), cloud in shown.items() if i != client and of == occasion.terms.binding)
            exact = [TAU(rows["train"], theirs), TAU(rows["train"], rows["validation"])]
            told = np.array([honest.distance, honest.reference])
            found[client].append((told - exact) / _deviation(entries[0]))
            continue
        train = rows["train"].mean(axis=0, keepdims=True) if occasion.terms.released == "mean" else rows["train"]
        off = honest.own.astype(np.float64) - train @ occasion.projection
        found[client].append(off.ravel() / _deviation(entries[0]))
    return {i: np.concatenate(each) for i, each in found.items()}


def _workers(jobs: Any) -> Any:
    for job in jobs:
        yield job.client, LocalWork(np.full(40, 0.01 * job.client, np.float32), 10)


def _clipped(noise: Any, rows: Any) -> Any:
    """By hand: norms at most the clip."""
    wide = np.maximum(rows, 0).astype(np.float64) if noise.nonnegative else rows.astype(np.float64)
    lengths = np.sqrt((wide**2).sum(axis=1, keepdims=True))
    return wide / np.maximum(1.0, lengths / noise.clip)


def _deviation(entry: Any) -> float:
    """Standard deviation of the noise, in the released values' units, that this entry of a ledger pays for."""
    return float(entry.sensitivity * math.sqrt(entry.event.variance * entry.event.honest) / entry.event.l2)


def flagged(noise: dict[int, Any]) -> list[str]:
    """What is wrong with residuals that should be standard normal and independent; errs in one of a million honest runs."""
    chance, wrong = 1e-6 / 4, []
    values = np.concatenate(list(noise.values()))
    low, high = stats.chi2.ppf([chance / 2, 1 - chance / 2], len(values))
    if not low <= float((values**2).sum()) <= high:
        wrong.append(f"variance {float((values**2).mean()):.3g}")
    if stats.kstest(values, "norm").pvalue < chance:
        wrong.append("not normal")
    by_client = [each[: min(map(len, noise.values()))] for each in noise.values()]
    limit = stats.norm.isf(chance / len(by_client) ** 2)
    for at, one in enumerate(by_client):
        for other in by_client[:at]:
            if abs(float(one @ other)) * math.sqrt(len(one)) > limit * float(np.linalg.norm(one) * np.linalg.norm(other)):
                wrong.append("the noise of two clients goes together")
    return wrong
