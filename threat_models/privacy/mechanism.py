"""What is audited: shipped code, played on two neighbouring data sets, with the epsilon that its own ledger claims for it.

A mechanism is audited in two ways. `Mechanism`: many independent trials, each one run of all of the code on one of the two data
sets. `InOneRun`: one run, in which a coin of its own decides for each canary which of two records it is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from . import clopper_pearson, gdp, one_run
from .bound import Floats, LowerBound
from .discriminant import Discriminant
from .one_run import Guesses

Auditor = Literal["Clopper-Pearson", "GDP", "one run"]

CHOOSING = 0.2
"""Share of the trials that choose the score and its threshold."""


class Play(Protocol):
    """One trial: all of the shipped code on one of the two neighbours.

    Returns everything that the release's reader sees, float64 (k,). seed: of all secrets of this trial; trials of other seeds are
    independent, and the same seed has the same noise on both neighbours.
    """

    def __call__(self, neighbour: bool, seed: int, /) -> Floats: ...


class PlayAll(Protocol):
    """The same of many seeds at once, float64 (seeds, k), where the shipped code takes many at once."""

    def __call__(self, neighbour: bool, seeds: Sequence[int], /) -> Floats: ...


@dataclass(frozen=True, slots=True)
class Mechanism:
    """epsilon, delta: what the shipped ledger claims. gaussian: whether its noise is, as `gdp` needs. auditor: which one is named
    for it; any other that applies is valid too. play_all: None for one trial after the other. unit: what the ledger is of,
    empty where there is none."""

    name: str
    epsilon: float
    delta: float
    gaussian: bool
    auditor: Auditor
    play: Play
    play_all: PlayAll | None = None
    unit: str = ""

    def trials(self, neighbour: bool, seeds: Sequence[int]) -> Floats:
        """What is seen of one side, float64 (seeds, k)."""
        if self.play_all is not None:
            return self.play_all(neighbour, seeds)
        return np.array([self.play(neighbour, seed) for seed in seeds])

    def observe(self, trials: int, seed: int) -> "Observed":
        """trials: on each side, at least 10. Seeds of trials follow from `seed`, and none is used in two trials that bound."""
        return Observed.of(self, trials, seed)

    def audit(self, trials: int, seed: int, confidence: float, auditor: Auditor | None = None) -> LowerBound:
        """auditor: the one that is named for the mechanism, if None. Raises ValueError for one that does not hold for it."""
        return self.observe(trials, seed).lower_bound(auditor or self.auditor, confidence)


@dataclass(frozen=True, slots=True)
class Observed:
    """The trials of one mechanism, as scores, float (trials,) each, from which any auditor takes its bound."""

    mechanism: Mechanism
    scores_with: Floats
    scores_without: Floats

    @classmethod
    def of(cls, mechanism: Mechanism, trials: int, seed: int) -> "Observed":
        """The first trials have one seed for both sides: they choose the score alone, and then their difference is what the unit
        moved. All others have seeds of their own."""
        if trials < 10:
            raise ValueError(f"{trials} trials a side are too few to choose a score by some and bound by others")
        cut = round(CHOOSING * trials)
        seeds = np.random.default_rng([seed, 0xD9]).integers(0, 2**62, (2, trials))
        seeds[1, :cut] = seeds[0, :cut]
        sides = [mechanism.trials(neighbour, of.tolist()) for neighbour, of in zip((True, False), seeds, strict=True)]
        score = Discriminant.between(sides[0][:cut], sides[1][:cut])
        return cls(mechanism, score(sides[0]), score(sides[1]))

    def lower_bound(self, auditor: Auditor, confidence: float) -> LowerBound:
        """Raises ValueError for an auditor that does not hold for the mechanism."""
        if auditor == "GDP" and self.mechanism.gaussian:
            return gdp.lower_bound(self.scores_with, self.scores_without, self.mechanism.delta, confidence, CHOOSING)
        if auditor == "Clopper-Pearson":
            delta = self.mechanism.delta
            return clopper_pearson.lower_bound(self.scores_with, self.scores_without, delta, confidence, CHOOSING)
        raise ValueError(f"{auditor} does not hold for {self.mechanism.name}")


class PlayOnce(Protocol):
    """The one run. coins: bool (canaries,), which of its two records each canary is. Returns what is seen of each canary,
    float64 (canaries, k), and which way its coin moves it, float64 (k,)."""

    def __call__(self, coins: NDArray[np.bool_], seed: int, /) -> tuple[Floats, Floats]: ...


@dataclass(frozen=True, slots=True)
class InOneRun:
    """As `Mechanism`, for canaries in one run. canaries: how many. guesses: coins that are guessed."""

    name: str
    epsilon: float
    delta: float
    gaussian: bool
    canaries: int
    guesses: int
    play: PlayOnce
    unit: str = ""

    @property
    def auditor(self) -> Auditor:
        return "one run"

    def audit(self, seed: int, confidence: float) -> LowerBound:
        """By f-DP: of the Gaussian curve where the noise is Gaussian, or else of (epsilon, delta)."""
        rng = np.random.default_rng([seed, 0x01])
        coins = rng.random(self.canaries) < 0.5
        seen, towards = self.play(coins, int(rng.integers(2**62)))
        score: Callable[[Floats], Floats] = Discriminant.along(towards, seen)
        guesses = Guesses.by_scores(score(seen), coins, self.guesses)
        curve: one_run.Curve = "gaussian" if self.gaussian else "approximate"
        return one_run.lower_bound(guesses, self.delta, confidence, curve=curve)
