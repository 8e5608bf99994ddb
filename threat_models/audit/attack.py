"""Somebody's own attack as an experiment: a function of what the attacker has, which is scored here and sees no truth."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from ...fl.data.population import Examples
from ..inference.label_regression import total_variation
from .estimates import Estimate
from .experiment import Anchor, Budget, Evidence, Finding, Values, victims_of
from .images import read_of, towards, with_mean
from .lending import lent
from .membership import comparable, compared, found_of
from .reading import Instance
from .recovery import recovered
from .truth import Truth

Sought = Literal["updates", "labels", "images", "records"]
Guess = Callable[[Evidence, int, Examples | None, np.random.Generator], Any]
"""(evidence, client, records in question, generator) -> what it believes of this client; see `Attack.guess`."""
UNITS: Mapping[Sought, str] = {
    "updates": "share of what sets an update apart from its cluster's mean",
    "labels": "1 - total variation of label histograms",
    "images": "how far PSNR comes from the mean image's to that of a picture hardly to be told from the original",
    "records": "2 AUC - 1 over a victim's records and others of the same labels",
}


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack of one's own: `Attack("my attack", my_function, "labels")`.

    name: of the row, and of no other experiment. guess: called for each victim with the evidence (the recorded view, and a run
    of the attacker's own whose data it knows), the client's id, the records in question (None unless `sought` is "records") and a
    generator; what it returns depends on what is sought:

    updates: of rounds, what the client uploaded: {round: (d,)}
    labels: shares of labels, (classes,), not negative
    images: any number of images, (k, channels, height, width) within [0, 1]
    records: a score of each record, (n,), larger for one that the client has

    It is called with the anchors' evidence too: what everybody's frames tell, and what the published sums tell. The evidence is
    lent: arrays of it are read-only, tensors are copies, and `evidence.replay(tap)` returns the observer's view of a first round
    played again. Raises ValueError where what it returns is of another shape, or not finite.
    """

    name: str
    guess: Guess
    sought: Sought
    side: str = "as its author says"
    source: str = "an attack given by the user"
    anchor: Anchor = "sums alone"

    def __post_init__(self) -> None:
        if self.sought not in UNITS:
            raise ValueError(f"an attack seeks one of {', '.join(UNITS)}, not {self.sought!r}")

    @property
    def unit(self) -> str:
        """Of what it seeks."""
        return UNITS[self.sought]

    def applies(self, evidence: Evidence, /) -> str:
        """See `Experiment`."""
        public = evidence.view.public.auxiliary
        if self.sought == "images" and public.x.ndim != 4:
            return "inputs are no images"
        return "targets are tokens" if self.sought in ("labels", "records") and public.y.ndim == 2 else ""

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        evidence = lent(evidence)
        if self.sought == "updates":
            return self._updates(evidence, truth, rng)
        victims = victims_of(evidence.view, budget.victims, rng)
        if self.sought == "records":
            return self._records(evidence, truth, victims, budget, rng)
        if self.sought == "labels":
            return Finding(victims, np.array([self._label(evidence, truth, i, rng) for i in victims]))
        scored = [self._images(evidence, truth, i, rng) for i in victims]
        records = {i: read for i, (_, read) in zip(victims, scored, strict=True)}
        return Finding(victims, np.array([value for value, _ in scored]), records=records)

    def _updates(self, evidence: Evidence, truth: Truth, rng: np.random.Generator) -> Finding:
        found: dict[Instance, Estimate] = {}
        for i in sorted({i for _, kind, i in truth.updates if kind == "update"} - set(evidence.view.observer.clients)):
            guessed = self.guess(evidence, i, None, rng)
            if not isinstance(guessed, Mapping) or not guessed.keys() <= set(range(evidence.view.public.rounds)):
                last = evidence.view.public.rounds - 1
                raise ValueError(f"{self.name}: a guess of updates is by round, from 0 to {last}, not {guessed!r:.60}")
            for t, vector in guessed.items():
                found[t, "update", i] = Estimate(self._checked(vector, evidence.view.public.initial.shape), self.name)
        return recovered(evidence, found, truth)

    def _label(self, evidence: Evidence, truth: Truth, client: int, rng: np.random.Generator) -> float:
        guess = self._checked(self.guess(evidence, client, None, rng), (evidence.view.public.classes,))
        if (guess < 0).any() or not guess.sum():
            raise ValueError(f"{self.name}: shares of labels are not negative, and not all 0")
        return 1 - float(total_variation((guess / guess.sum())[None], truth.histogram(client)[None])[0])

    def _images(self, evidence: Evidence, truth: Truth, client: int, rng: np.random.Generator) -> tuple[float, tuple[int, int]]:
        own = truth.population.clients[client].train
        found = np.asarray(self.guess(evidence, client, None, rng), np.float32)
        guess = self._checked(found, (len(found), *own.x.shape[1:])).astype(np.float32)
        mean = evidence.view.public.auxiliary.x.mean(dim=0, keepdim=True)
        way, got = towards(with_mean(torch.from_numpy(guess), own, mean), own, mean)
        return float(way.mean()), read_of(got, own, mean)

    def _records(
        self, evidence: Evidence, truth: Truth, victims: tuple[int, ...], budget: Budget, rng: np.random.Generator
    ) -> Finding:
        members, others = list[Values](), list[Values]()
        victims = comparable(truth, victims)
        for i in victims:
            records, count = compared(truth, i, budget.records, rng)
            mixed = torch.from_numpy(rng.permutation(len(records)))  # so that their order tells nothing
            scores = np.zeros(len(records))
            scores[mixed.numpy()] = self._checked(self.guess(evidence, i, records.take(mixed), rng), (len(records),))
            members.append(scores[:count])
            others.append(scores[count:])
        return found_of(victims, members, others)

    def _checked(self, guess: Any, shape: tuple[int, ...] | None) -> Values:
        try:
            found = np.asarray(guess, np.float64)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"{self.name}: a guess of {self.sought} is numbers; {error}") from None
        if shape is not None and found.shape != shape:
            given = "None" if guess is None else f"numbers of shape {found.shape}"
            raise ValueError(f"{self.name}: a guess of {self.sought} is finite numbers of shape {shape}, not {given}")
        if not np.isfinite(found).all():
            wrong = found[~np.isfinite(found)].flat[0]
            raise ValueError(f"{self.name}: a guess of {self.sought} is finite numbers, and has {wrong}")
        return found
