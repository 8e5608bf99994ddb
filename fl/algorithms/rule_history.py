"""What two robust rules carry from round to round, under views that keep and compare sums of updates of several rounds.

- FoolsGold judges each client by the sum of all its updates so far (Fung et al. 2020, algorithm 1): of all that could be compared
  in their round, whatever came of the round. Who has sent so much that its sum cannot be compared any more is not trusted.
- Centred clipping starts from the result of the round before, v (Karimireddy et al. 2021, eq. 7). That is a weighted sum of
  earlier updates, which the view keeps. What is left of v in the new result moves the model on along its last movement, v.

Rules behind steps (`Mixed`) carry nothing. Where the Gram matrix is one of sketches, a client that sketches one vector and sums
another makes the v that is compared another than the v that moves the model, for as long as v lasts.
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
    """weights: of the round's updates, float64 (n,). carried: the weight of the last result."""

    weights: Matrix = field(repr=False)
    carried: float = 0.0


def carries(rule: Rule) -> bool:
    """Whether the rule looks back beyond the round."""
    return isinstance(rule, FoolsGold | CenteredClipping)


def before_weighing(rule: Rule, view: ServerView, these: Updates, past: Remembered | None) -> Remembered | None:
    """What is kept once these updates are there: FoolsGold's sums with them, and centred clipping's as they were."""
    if isinstance(rule, FoolsGold):
        return view.accumulate(these, dict.fromkeys(these.clients, 1.0), past)
    return past


def weighed(
    rule: Rule, view: ServerView, these: Updates, gram: Gram, past: Remembered | None, rng: np.random.Generator
) -> Weighed:
    """The weights of a rule that looks back. these: the updates of the clients of `gram`. past: what is kept by now.

    Raises ValueError where the rule cannot give any.
    """
    if isinstance(rule, FoolsGold) and past is not None:
        sums = view.gram_with(replace(these, clients=()), replace(past, clients=these.clients))
        fit = np.isfinite(np.diagonal(sums))
        weights = np.zeros(len(fit))
        weights[fit] = rule.weights(sums[np.ix_(fit, fit)], rng)
        return Weighed(weights)
    if isinstance(rule, CenteredClipping) and past is not None:
        weights = rule.weights_with(view.gram_with(these, past), rng)
        return Weighed(weights[:-1], float(weights[-1]))
    if isinstance(rule, CenteredClipping):
        return Weighed(rule.weights(gram.matrix, rng))
    raise ValueError(f"{rule} does not look back beyond the round")


def after_publishing(
    rule: Rule, view: ServerView, these: Updates, past: Remembered | None, answer: Sum, of: Mapping[int, float], carried: float
) -> Remembered | None:
    """What is kept for the next round. answer: the published mean with the weights `of`; the model moves by it times their sum.

    Clients that were lost on the way to it are not in it, and the others count for them.
    """
    if not isinstance(rule, CenteredClipping):
        return past
    scale = sum(of.values()) / answer.weight
    return view.accumulate(these, {i: scale * of[i] for i in answer.clients}, past, decay=carried, together=True)
