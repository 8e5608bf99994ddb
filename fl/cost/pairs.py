"""What comparing pairs of clients costs, measured: the protocol is played on random embeddings, in place of forward passes.

Random embeddings fall into as many groups as the workload has clusters, so that the server's decisions are as hard as those of a
run that finds its groups. Each pair is compared once, in the first round in which both answer, as `EMDCFL` does; or in each
round, as `FedSaC` does, where clients release for one (`PerRound`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from ...protocol.pairs.choices import Choice, PerRound
from ...protocol.pairs.question import Answered, Occasion, PairQuestion, Rows
from ...protocol.view.answers import Assignment, Updates, Vector
from ...protocol.view.asks import ServerView
from ...protocol.view.functionality import Functionality
from ..data.agreed import made_up
from ..emd.distances import COSINE, Distance, ExactEmd
from ..emd.judging import Judging, Tolerance, tau_of
from ..emd.pairs import Cores
from ..models.papers import initial
from ..models.vector import to_vector
from ..runs.dealt import Apportioned, seed_of
from ..runs.scenario import Scenario
from ..runs.to_compare import embedders_of

Pair = tuple[int, int]
EXACT = ExactEmd(COSINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairLoad:
    """What clients are compared by. d: coordinates of an embedding. inputs: of an example. rows: of a sample. weights: floats of
    an embedding model, at most those of the whole model. choice, distance, eps: the algorithm's. shown, decided: as in
    `PairQuestion`.
    """

    choice: Choice
    d: int
    inputs: int
    rows: int
    weights: int
    distance: Distance = EXACT
    eps: Tolerance = 0.025
    shown: str = ""
    decided: str = ""

    def __post_init__(self) -> None:
        if min(self.d, self.inputs, self.rows, self.weights) < 1:
            raise ValueError("embeddings, examples, samples and embedding models have a size of at least 1")


def pair_load_of(scenario: Scenario, folder: Path | None) -> PairLoad | None:
    """Of the scenario's algorithm, its data and its model; None where it compares no pairs. Reads the data."""
    algorithm: Any = scenario.algorithm
    if Functionality.PAIRS not in scenario.algorithm.needs:
        return None
    dealt = Apportioned.of(scenario, folder)
    population = dealt.population
    module = initial(scenario.model, population.shape, population.classes, seed_of(scenario.seed, "model"))
    found = embedders_of(scenario, dealt, module, () if made_up(scenario.data) else None)
    if hasattr(algorithm, "embedders"):
        said, decided = (str(getattr(algorithm, name, "")) for name in ("shown", "decided"))
        return PairLoad(
            choice=algorithm.choice,
            d=found.d,
            inputs=found.inputs,
            rows=found.rows,
            weights=1,
            shown=said,
            decided=decided,
        )
    return PairLoad(
        choice=algorithm.choice,
        d=found.d,
        inputs=found.inputs,
        rows=found.rows,
        weights=len(found.weights_of(to_vector(module))),
        distance=algorithm.distance,
        eps=algorithm.eps,
    )


class RandomEmbedders:
    """Implements `pairs.question.Embedders` by random numbers, drawn when a client is first asked. groups: by client."""

    def __init__(self, load: PairLoad, groups: Mapping[int, int], parameters: int, seed: int) -> None:
        self.d, self.inputs, self.rows, self.by_position = load.d, load.inputs, load.rows, True
        self._weights = min(load.weights, parameters)
        samples = tau_of(load.distance, load.eps).samples
        held_out = ("validation",) if samples == 1 else tuple(f"validation {k}" for k in range(samples))
        self._samples = {
            (i, part): self._drawn(group, load.d, seed_of(seed, "cost", "embeddings", i, part))
            for i, group in groups.items()
            for part in ("train", *held_out)
        }

    def _drawn(self, group: int, width: int, seed: int) -> Rows:
        centre = np.random.default_rng(group).standard_normal(width, np.float32)
        rows = centre + np.random.default_rng(seed).standard_normal((self.rows, width), np.float32)
        return np.asarray(np.maximum(rows, 0))

    def weights_of(self, model: Vector, /) -> Vector:
        return model[: self._weights]

    def embed(self, client: int, part: str, weights: Vector | None, /) -> Rows:
        return self._samples[client, part]

    def examples(self, client: int, part: str, /) -> Rows:
        return np.resize(self._samples[client, part], (self.rows, self.inputs))

    def embed_examples(self, examples: Rows, weights: Vector | None, /) -> Rows:
        return np.resize(examples, (len(examples), self.d))

    def sent(self, client: int, occasion: Occasion, honest: Answered, /) -> Answered:
        return honest


def compared(
    view: ServerView,
    load: PairLoad,
    t: int,
    work: Mapping[str, Assignment],
    updates: Mapping[str, Updates],
    known: set[Pair],
) -> int:
    """Compare all pairs of the clients that answered which are not known yet, and know them, if they will not be compared in the
    next round again. Returns how many were decided."""
    present = sorted(i for handle in updates.values() for i in handle.clients)
    pairs = tuple(pair for pair in combinations(present, 2) if pair not in known)
    if not pairs:
        return 0
    judge = Judging(load.distance, load.eps, Cores(), float(load.eps) if isinstance(load.eps, float | int) else None)
    found = view.pairs(
        t, work, updates, PairQuestion(pairs, load.choice, tau_of(load.distance, load.eps), judge, load.shown, load.decided)
    )
    decided = {(a, b) for a, b in found.accepts if a < b}
    if not isinstance(load.choice, PerRound):
        known |= decided | set(found.lost)
    return len(decided)
