"""All pairs of clients: edges or distances of many problems, on all cores.

POT's solver, numpy's products and the assignment solver let go of the interpreter while they work, so threads are enough.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from threadpoolctl import threadpool_limits

from .bounds import Pair, Stage
from .decision import LADDER, Decision, decide
from .distances import COSINE, Cosine, Distance, Euclidean, Sample

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Does `client` accept `other`? Both samples are embedded by the client's model and projected by one R.

    source: a sample of the client's training data, (n, D). target: a sample of the other's data, (m, D). reference: tau, the
    distance of the same source, under the same R, to a sample of the client's validation data.
    """

    client: int
    other: int
    source: Sample = field(repr=False)
    target: Sample = field(repr=False)
    reference: float


class PairProgress(Protocol):
    """Is told after every pair how many are done, in the caller's thread."""

    def __call__(self, done: int, /) -> None: ...


def silent(done: int) -> None:
    """Tells nobody."""


@dataclass(frozen=True, slots=True)
class Cores:
    """How many pairs are worked on at once (0: one a core), and who hears of progress. Answers do not depend on it."""

    workers: int = 0
    progress: PairProgress = silent

    def __post_init__(self) -> None:
        if self.workers < 0:
            raise ValueError(f"workers must be 0, for one a core, or more, not {self.workers}")


def decisions(
    problems: Iterable[Problem],
    eps: float,
    ground: Cosine | Euclidean = COSINE,
    stages: Sequence[Stage] = LADDER,
    cores: Cores = Cores(),
) -> dict[tuple[int, int], Decision]:
    """Whether W - tau < eps for every problem, as (client, other): Decision. Problems are taken as they are needed.

    Raises ValueError for a pair that occurs twice, or samples that `Pair.of` refuses.
    """

    def settle(problem: Problem) -> Decision:
        return decide(Pair.of(ground, problem.source, problem.target), problem.reference, eps, stages)

    return _each(settle, problems, cores)


def distances(problems: Iterable[Problem], distance: Distance, cores: Cores = Cores()) -> dict[tuple[int, int], float]:
    """W for every problem, as (client, other): distance. Raises ValueError for a pair that occurs twice."""
    return _each(lambda problem: distance(problem.source, problem.target), problems, cores)


def _each(work: Callable[[Problem], Answer], problems: Iterable[Problem], cores: Cores) -> dict[tuple[int, int], Answer]:
    found: dict[tuple[int, int], Answer] = {}
    for problem, answer in _in_order(work, problems, cores.workers or os.cpu_count() or 1):
        if (problem.client, problem.other) in found:
            raise ValueError(f"the pair of clients {problem.client} and {problem.other} occurs twice; give each pair once")
        found[problem.client, problem.other] = answer
        cores.progress(len(found))
    return found


def _in_order(work: Callable[[Problem], Answer], problems: Iterable[Problem], workers: int) -> Iterator[tuple[Problem, Answer]]:
    """Problems with their answers; at most four problems a worker are held."""
    waiting: deque[tuple[Problem, Future[Answer]]] = deque()
    with threadpool_limits(limits=1), ThreadPoolExecutor(workers) as pool:
        try:
            for problem in problems:
                waiting.append((problem, pool.submit(work, problem)))
                if len(waiting) >= 4 * workers:
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        finally:
            pool.shutdown(cancel_futures=True)
