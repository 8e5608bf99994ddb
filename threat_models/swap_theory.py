"""What no method can promise where few clients hold a label: a lower bound on what the loyal lose, below half of the clients too.

**Statement.** Some clients, the blind, hold no example of two labels; the others are split into two sets, `first` and `second`.
Play two runs of one method on the same data by the same seed: in one `first` are corrupt and do all honestly, training and
choices (`Pretended`), on data in which the two labels have changed places (`SwappedLabels`), in the other `second` do the same.
If the method knows nothing of what labels mean, that is if renaming the two in all data and tests renames the predictions and
changes nothing else, then a blind client is served the same model in both runs but for the names, and no test of the two labels
is right in both. Let P be their share of the tests, and let models be right on the share `right` of those in either run if the
corrupt do not answer. Then on these tests alone a blind client loses P (2 right - 1) in both runs together, at the least, and
half of it in one of them.

**Proof.** Rename the two labels in the second run, in all data and in the tests. Now `first` hold the two labels swapped and
`second` work on them as they are, as in the first run; the blind hold neither. So every client works on the examples that it
works on in the first run, honestly: all that clients send is the same, whoever of them is called corrupt, and so is all that a
blind client is served, its own choices and its own training included. A test of the two labels has one true name in the first
run and the other in the second, so that one prediction is right in at most one of them.

**In the mean of the loyal.** On tests of the two labels: if no other client loses or gains anything on them, the mean loss in
one of the runs is at least blind P (r1 + r2 - 1) / (2 blind + first + second), where r1 and r2 are what models have right in
the one run and the other if the corrupt do not answer; if all loyal clients are served one model it is P (r1 + r2 - 1) / 2.
Other tests say nothing: what members do honestly may help there.

**What it needs.** Tests that have all labels, and nothing in the server's hands that knows their names: neither data of its own
nor clients that it trusts. Runs are the same to the bit if the first model is, output by output under its name; with random first
models the statement is of means over seeds. `tests/test_swap_theory.py` plays the second run under both names.

**What it does not say.** How much a method loses where more clients hold the labels: nothing, or more than this. The same
idea bounds what can be promised where the loyal are fewer than attackers, whatever they hold: of k equal groups each may be
honest for a task of its own (list-decodable learning).
"""

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..fl.runs.dealt import population_of
from ..fl.runs.scenario import Scenario
from .search.who import counts_of_labels


@dataclass(frozen=True, slots=True)
class Swap:
    """Two runs that look the same to the blind. Clients are places in the order of ids.

    labels: the two that change places. blind: who holds neither. first, second: who is corrupt in the one run and the other.
    share: of the tests that have these labels.
    """

    labels: tuple[int, int]
    blind: tuple[int, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]
    share: float

    def loss(self, first: float, second: float) -> float:
        """What the loyal lose in the mean on tests of the two labels, as a share of all tests, in one of the runs at least, if
        nobody but the blind loses or gains anything on these. first, second: what models have right of these tests in either run
        without the corrupt, from 0 to 1: to be measured. 0 where that is too little to say anything.
        """
        return self.alike(first, second) * 2 * len(self.blind) / (2 * len(self.blind) + len(self.first) + len(self.second))

    def alike(self, first: float, second: float) -> float:
        """The same, if all loyal clients are served one model.

        >>> round(Swap((0, 1), (4,), (0, 1), (2, 3), share=0.2).alike(0.9, 0.9), 2)
        0.08
        """
        for right in (first, second):
            if not 0 <= right <= 1:
                raise ValueError(f"the share of tests that models have right is from 0 to 1, not {right}")
        return max(0.0, self.share * (first + second - 1)) / 2


def worst_swap(counts: NDArray[np.int64], corrupt: int, tests: NDArray[np.float64]) -> Swap | None:
    """The two labels and the two sets of at most `corrupt` clients by which the loss would be largest if models had all right;
    None where there is no pair. Both sets hold both labels, so that either run can learn them without the corrupt.

    counts: training examples of each label, int (clients, labels). tests: each label's share of the tests, float (labels,).

    >>> worst_swap(np.array([[9, 9, 0], [9, 9, 0], [0, 0, 9]]), 1, np.full(3, 1 / 3)).blind
    (2,)
    """
    counts = np.asarray(counts)
    if counts.ndim != 2 or counts.min(initial=0) < 0 or np.shape(tests) != counts.shape[1:]:
        raise ValueError("counts are (clients, labels), 0 or more, and tests a share for each label")
    if not 0 < corrupt <= len(counts):
        raise ValueError(f"corrupt is from 1 to {len(counts)}, not {corrupt}")
    best: Swap | None = None
    for a, b in combinations(range(counts.shape[1]), 2):
        held = counts[:, [a, b]]
        holders = int(held.any(axis=1).sum())
        if holders == len(counts) or not 2 <= holders <= 2 * corrupt:
            continue
        first, second = _halves(held, corrupt)
        if not (held[list(first)].any(axis=0).all() and held[list(second)].any(axis=0).all()):
            continue
        nobody = tuple(np.flatnonzero(~held.any(axis=1)).tolist())
        found = Swap((a, b), nobody, first, second, float(tests[a] + tests[b]))
        if best is None or found.loss(1.0, 1.0) > best.loss(1.0, 1.0):
            best = found
    return best


def swap_of(scenario: Scenario, corrupt: int, data: Path | None = None) -> Swap | None:
    """That of a scenario's clients, by the labels that its seed deals them; None where there is no pair. data: folder of sets.

    Raises ValueError where the clients do not share their tests: what a label counts for differs between them then.
    """
    clients = population_of(scenario, data).clients
    counts = counts_of_labels(clients)
    tests = [client.test.y.flatten().numpy() for _, client in sorted(clients.items())]
    shares = [np.bincount(y[y >= 0], minlength=counts.shape[1])[: counts.shape[1]] / max(1, len(y)) for y in tests]
    if any(not np.array_equal(share, shares[0]) for share in shares):
        raise ValueError("the bound is of tests that all clients share; give the partition shared_test=True")
    return worst_swap(counts, corrupt, shares[0])


def _halves(held: NDArray[np.int64], most: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Those who hold something in two sets of at most so many, each in turn, who holds most first, to the set that has less of
    what it holds most of. held: of either label, int (clients, 2).
    """
    halves: tuple[list[int], list[int]] = [], []
    for i in np.argsort(-held.sum(axis=1), kind="stable").tolist():
        if not held[i].any():
            break
        label = int(held[i].argmax())
        less = 0 if held[halves[0], label].sum() <= held[halves[1], label].sum() else 1
        halves[less if len(halves[less]) < most else 1 - less].append(i)
    return tuple(sorted(halves[0])), tuple(sorted(halves[1]))
