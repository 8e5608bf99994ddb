"""What two robust rules carry from round to round, under views that compare updates of different rounds.

- FoolsGold judges each client by the sum of all its updates so far (Fung et al. 2020, algorithm 1).
- Centred clipping starts from the result of the round before, v (Karimireddy et al. 2021, eq. 7). That is a weighted sum of
  earlier updates, of which the view keeps each client's part; <x_i, v> is the sum of x_i's inner products with the parts. What is
  left of v in the new result moves the model on along its last movement, which v was.

Rules behind steps (`Mixed`) carry nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ...protocol.answers import Gram, Remembered, Sum, Updates
from ...protocol.view import ServerView
from ..robust.rule import Matrix, Rule
from ..robust.similarity import FoolsGold
from ..robust.weiszfeld import CenteredClipping


@dataclass(frozen=True, slots=True, eq=False)
class Weighed:
    """weights: of the round's updates, float64 (n,). past: what is kept by now. carried: the weight of the last result."""

    weights: Matrix = field(repr=False)
    past: Remembered | None = None
    carried: float = 0.0


def carries(rule: Rule) -> bool:
    """Whether the rule looks back beyond the round."""
    return isinstance(rule, FoolsGold | CenteredClipping)


def weighed(
    rule: Rule, view: ServerView, updates: Updates, gram: Gram, past: Remembered | None, rng: np.random.Generator
) -> Weighed:
    """The weights of a rule that looks back. gram: of these updates, of whose clients there is at least one.

    What centred clipping keeps changes once its result is published, by `after_publishing`.
    """
    these = replace(updates, clients=gram.clients)
    if isinstance(rule, FoolsGold):
        sums = view.accumulate(these, dict.fromkeys(gram.clients, 1.0), past)
        of_sums = view.gram_with(replace(these, clients=()), replace(sums, clients=gram.clients))
        return Weighed(rule.weights(of_sums, rng), sums)
    if not isinstance(rule, CenteredClipping):
        raise ValueError(f"{rule} does not look back beyond the round")
    n = len(gram.clients)
    if past is None:
        return Weighed(rule.weights(gram.matrix, rng))
    together = view.gram_with(these, past)
    fold = np.zeros((len(together), n + 1))
    fold[:n, :n] = np.eye(n)
    fold[n:, n] = 1.0
    weights = rule.weights_with(fold.T @ together @ fold, rng)
    return Weighed(weights[:n], past, float(weights[n]))


def after_publishing(
    rule: Rule, view: ServerView, updates: Updates, answer: Sum, of: Mapping[int, float], found: Weighed
) -> Remembered | None:
    """What is kept for the next round. answer: the published mean with the weights `of`; the model moves by it times their sum.

    Clients that were lost on the way to it are not in it, and the others count for them.
    """
    if not isinstance(rule, CenteredClipping):
        return found.past
    scale = sum(of.values()) / answer.weight
    return view.accumulate(updates, {i: scale * of[i] for i in answer.clients}, found.past, decay=found.carried)
