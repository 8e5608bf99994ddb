"""Golden runs: what goes over the links of whole runs, recorded once: `python tests/golden_runs.py` writes it anew.

Three algorithms under seven protections, 12 clients of two groups, and whole numbers in place of training, so that no figure
depends on how a processor rounds. A recording says, round by round and kind of message by kind: how many, how many bytes, and a
hash of them where they do not depend on the processor (sketches and noise do) or on the library (ciphertexts do); then the log,
what was refused, the sums and the models. A change of structure moves none of it. One that means to says in its commit what
moved and why.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.algorithms.algorithm import Algorithm, Start
from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.emd_cfl import EMDCFL
from cloister.fl.algorithms.flic import FLIC
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.link import Frame
from cloister.protocol.masked.noise import Noise
from cloister.protocol.view.answers import Model, Vector
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Protection, Setup
from cloister.protocol.view.work import LocalJob, LocalOffer, LocalWork

RECORDED = Path(__file__).parent / "vectors" / "golden"
CLIENTS, D, ROUNDS, LOST = tuple(range(12)), 96, 6, 5
"""LOST: the client whose messages of round 2 do not arrive."""

BESIDE = ("gram", "gram(origin)", "gram(edge)", "choice", "pairs")
NOISY = Noise(epsilon=1e3, delta=1e-5, rounds=ROUNDS + 2, l2=16.0, acknowledge=BESIDE)
PROTECTIONS: dict[str, Protection] = {
    "plain": Plain(floor=3),
    "permuted": Permuted(floor=3),
    "masked": Masked(corrupt=1),
    "masked, run keys": Masked(keys="run"),
    "masked, noise": Masked(ring_bits=64, noise=NOISY),
    "encrypted": Encrypted(k=32),
    "two servers": TwoServer(max_norm=128.0, k=64),
}
ALGORITHMS: dict[str, Algorithm] = {
    "cfl": CFL(thresholds=ScaleFree(eps1=0.9, eps2=0.2)),
    "flic": FLIC(rounds_before=3, participation=0.5, by_samples=False),
    "emd_cfl": EMDCFL(eps=0.5, by_samples=False),
}
RANDOM = ("Encrypted", "Offered", "Sealed", "Product", "Score", "Opened", "Sketch")
"""What begins or ends the names of messages with ciphertexts of a library that draws its own randomness."""


def vector(client: int, round: int, kind: str) -> Vector:
    """A client's update: whole numbers from -3 to 3, alike in a group."""
    rng = np.random.default_rng([client % 2, 11])
    own = np.random.default_rng([client, round, len(kind), 12])
    found = np.where(rng.random(D) < 0.5, 2.0, -2.0) * (1 if client % 2 else -1)
    return (found + own.integers(-1, 2, D)).astype(np.float32)


def work(jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork]]:
    for job in jobs:
        yield job.client, LocalWork(vector(job.client, job.round, job.work), 10 + job.client)


def judge(offer: LocalOffer) -> int:
    return offer.client % len(offer.models)


@dataclass(frozen=True)
class Embedding:
    """Embeddings of the two groups: eight points each, far apart. Implements `Embedders`."""

    d: int = 4
    inputs: int = 4
    rows: int = 8
    by_position: bool = True

    def weights_of(self, model: Vector, /) -> Vector:
        return model[:4]

    def embed(self, client: int, part: str, weights: Vector | None, /) -> Vector:
        rng = np.random.default_rng([client, len(part)])
        points = np.zeros((8, 4), np.float32)
        points[:, 2 * (client % 2)] = 8
        return points + rng.integers(0, 2, (8, 4)).astype(np.float32)

    def examples(self, client: int, part: str, /) -> Vector:
        return self.embed(client, part, None)

    def embed_examples(self, examples: Vector, weights: Vector | None, /) -> Vector:
        return examples

    def sent(self, client: int, occasion: Any, honest: Any, /) -> Any:
        return honest


class Recorder:
    """Sees every frame. Loses those of one client in one round."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.round = 0

    def __call__(self, frame: Frame) -> Iterable[Frame]:
        if self.round == 2 and LOST in (frame.sender, frame.receiver):
            return []
        self.frames.append(frame)
        return [frame]

    def told(self, rounded: Sequence[str]) -> dict[str, Any]:
        """What went over the links since this was last asked."""
        found: dict[str, Any] = {}
        for kind in sorted({frame.kind for frame in self.frames}):
            data = [frame.data for frame in self.frames if frame.kind == kind]
            found[kind] = {"messages": len(data)}
            if not kind.startswith(RANDOM) and not kind.endswith(RANDOM):
                found[kind]["bytes"] = sum(map(len, data))
                if kind not in rounded and not kind.startswith("Pair"):
                    found[kind]["sha256"] = hashlib.sha256(b"".join(data)).hexdigest()[:32]
        self.frames.clear()
        return found


def algorithm_for(name: str, protection: str) -> Algorithm:
    """The algorithm as it fits: beside noise CFL does not remember."""
    algorithm = ALGORITHMS[name]
    return replace(algorithm, remember=False) if isinstance(algorithm, CFL) and "noise" in protection else algorithm


def rounded(protection: Protection) -> tuple[str, ...]:
    """Kinds of messages with figures that processors round in their own way: sketches; with noise also inputs and models."""
    if not isinstance(protection, Masked):
        return ()
    if protection.noise is not None:
        return ("OffsetSketched", "Upload", "MaskedInput", "Task")
    return ("OffsetSketched",) if protection.keys == "session" else ("Upload",)


def played(algorithm: Algorithm, protection: Protection) -> Iterator[Mapping[str, Any]]:
    """One line a round, and one for what opened the run and one for how it ended."""
    recorder, entropy = Recorder(), SimulatedEntropy(7)
    pairs = Embedding() if Functionality.PAIRS in algorithm.needs else None
    run, initial = entropy.secret("run", 16), np.zeros(D, np.float32)
    view = protection.open(Setup(run, initial, CLIENTS, work, entropy, recorder, judge, pairs))
    state: Any = algorithm.init(Start(CLIENTS, {}, Model("init"), 3))
    kinds = rounded(protection)
    yield {"opening": recorder.told(kinds)}
    logged = 0
    for t in range(ROUNDS):
        recorder.round = t
        state = algorithm.round(state, view, np.random.default_rng(t))
        view.harness.retire(state.models, state.remembered)
        log = [[e.recipient, e.what, list(e.about), e.scalars, e.client] for e in view.record.log[logged:]]
        logged = len(view.record.log)
        yield {"round": t, "frames": recorder.told(kinds), "log": log}
    models = {name: view.harness.observe(cluster.model) for name, cluster in sorted(state.clusters.items())}
    yield {
        "clusters": {name: list(state.clusters[name].members) for name in models},
        "norms": {name: round(float(np.linalg.norm(model)), 2) for name, model in models.items()},
        "below the floor": [[below.name, list(below.clients), below.floor] for below in view.record.below_floor],
        "faults": [[fault.blame, fault.reason, fault.rejected] for fault in view.record.faults],
        "opened": [[o.round, o.cluster, sorted(o.row), str(o.to)] for o in view.record.opened],
        "sketched": [[s.round, s.cluster, s.form, list(s.clients), s.numbers] for s in view.record.sketched],
    }


def fitting() -> list[tuple[str, str]]:
    """Names of what goes together."""
    return [(a, p) for a in ALGORITHMS for p in PROTECTIONS if ALGORITHMS[a].needs <= PROTECTIONS[p].gives]


def file_of(algorithm: str, protection: str) -> Path:
    return RECORDED / f"{algorithm}_{protection.replace(', ', '_').replace(' ', '_')}.jsonl"


def main() -> None:
    RECORDED.mkdir(parents=True, exist_ok=True)
    for algorithm, protection in fitting():
        lines = [json.dumps(line) for line in played(algorithm_for(algorithm, protection), PROTECTIONS[protection])]
        file_of(algorithm, protection).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
