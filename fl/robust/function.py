"""A plain function of all updates as a rule; so is an aggregator of another library, such as ByzFL's."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..field_ranges import need_whole
from ..field_types import made
from ..functions import Unfit, as_vector, brief, called, called_with, check_finite, misfit, name_of, parameters_of
from ..own import is_own
from .rule import Block, Matrix, Rule, Sight

METHODS = {
    Sight.SUM: "weights(gram, rng)",
    Sight.NORMS: "weights(gram, rng)",
    Sight.GRAM: "weights(gram, rng)",
    Sight.COORDINATES: "combine(block)",
    Sight.UPDATES: "weigh(rows, rng) or combine_all(updates)",
}
"""What a rule of our kinds does its work by."""
CALLS = {"weights": ["gram", "rng"], "combine": ["block"], "weigh": ["rows", "rng"], "combine_all": ["updates"]}
"""What rules of our kinds are called with, by position."""
WRITTEN_SO = "write yours as a function of inner products alone, to a weight for each update: rules.OfGram(mine)"
"""What may do the work of a function of updates where a protection gives none."""
KNOWN = ("weights", "weights_with", "combine", "weigh", "combine_all", "steps")


@dataclass(frozen=True, slots=True)
class FunctionRule:
    """A rule that is a function of all updates: float32 (n, d) to one vector (d,), numbers of numpy or torch.

    It sees the updates themselves, so it runs where the server does. told: the function's parameters, by which a run's record
    knows it from the same with others. Where updates were rejected it is given those that are left, and is not told.
    """

    function: Callable[[Block], Any]
    told: str = field(default="")
    sees: ClassVar[Sight] = Sight.UPDATES

    def __post_init__(self) -> None:
        object.__setattr__(self, "told", self.told or parameters_of(self.function))

    def combine_all(self, updates: Block, /) -> Block:
        """The result, float32 (d,). Raises Unfit where it is none, is not finite, or where the user's code raised
        ValueError.
        """
        remedy = "one vector of all updates; for weights by the Gram matrix say rules.OfGram(mine)"
        return as_vector(called_with(self.function, updates), updates.shape[1:], self.function, remedy, finite=True)


@dataclass(frozen=True, slots=True)
class OfGram:
    """A rule that is a function of the Gram matrix, float64 (n, n), to weights (n,), numbers of numpy or torch: the result is
    the updates' sum by these weights. It sees inner products alone, so it runs under secure aggregation, too.

    f: how many attackers it is built for; None where it states none. shift_invariant: whether its weights sum to 1 and depend on
    differences of updates alone, so that less need be told. told: as of `FunctionRule`. Raises ValueError for what is no such
    function.
    """

    function: Callable[[Matrix], Any]
    f: int | None = None
    shift_invariant: bool = False
    told: str = field(default="")
    sees: ClassVar[Sight] = Sight.GRAM

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ValueError(
                f"OfGram takes a function of the Gram matrix, float64 (n, n), to weights (n,), not {brief(self.function)}"
            )
        if wrong := misfit(self.function, ["gram"]):
            raise ValueError(
                f"{called(self.function)} is a function of the Gram matrix, float64 (n, n), to weights (n,): {wrong}"
            )
        need_whole(self, 0, "f")
        object.__setattr__(self, "told", self.told or parameters_of(self.function))

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        """The weights, float64 (n,). Raises Unfit where these are none, are not finite, or where the user's code raised
        ValueError.
        """
        found = called_with(self.function, gram.copy())
        as_vector(found, (len(gram),), self.function, "a weight for each update", finite=True)
        return np.asarray(found.detach().cpu().numpy() if hasattr(found, "detach") else found, dtype=np.float64)


def _of_gram(function: Any) -> bool:
    """Whether a function's first parameter is called as a Gram matrix is."""
    try:
        names = [*inspect.signature(function).parameters]
    except (TypeError, ValueError):
        return False
    return bool(names) and names[0].lower() in ("gram", "g", "gram_matrix", "inner_products")


def as_rule(rule: Any) -> Rule:
    """The rule, a plain function as one. Raises ValueError for what is none, and says what it lacks."""
    if isinstance(rule, type):
        raise ValueError(f"rule is the class {called(rule)} itself; make one of it: {made(rule)}")
    if hasattr(rule, "mixing"):
        raise ValueError(
            f"rule is {brief(rule)}, a step before a rule: write rules.Mixed(({brief(rule)},), rules.MultiKrum(f=...))"
        )
    if hasattr(rule, "sees") and not isinstance(rule.sees, Sight):
        there = ", ".join(f"Sight.{one.name}" for one in Sight)
        raise ValueError(f"{called(rule)} says that it sees {brief(rule.sees)}; it is one of {there}, of cloister.rules")
    has = [name for name in KNOWN if callable(getattr(rule, name, None)) or (name == "steps" and hasattr(rule, name))]
    if isinstance(rule, FunctionRule) or (hasattr(rule, "sees") and has):
        if "weights" in has and not hasattr(rule, "shift_invariant"):
            raise ValueError(
                f"{name_of(rule)} has no shift_invariant: say whether its weights sum to 1 and look at differences alone"
            )
        _check_calls(rule)
        found: Rule = rule
        return found
    if hasattr(rule, "sees"):
        wanted = METHODS.get(rule.sees, "weights(gram, rng)")
        raise ValueError(f"{called(rule)} says that it sees {_kind(rule.sees)}, and has no {wanted}")
    if has:
        raise ValueError(f"{name_of(rule)} has no sees: name the least that it must see, for example sees = Sight.GRAM")
    if callable(rule):
        if _of_gram(rule):
            raise ValueError(
                f"rule {called(rule)} takes a Gram matrix, and a plain function is given all updates, (n, d):"
                f" say rule=rules.OfGram({name_of(rule)}), which runs under secure aggregation, too"
            )
        if wrong := misfit(rule, ["updates"]):
            raise ValueError(f"rule {called(rule)} is a function of all updates, float32 (n, d), to one vector (d,): {wrong}")
        return FunctionRule(rule)
    raise ValueError(f"rule is {brief(rule)}, which is none; give one, for example rules.Median(), or a function of all updates")


def _check_calls(rule: Any) -> None:
    """Raise ValueError for a method that cannot be called as rules are."""
    for name, given in CALLS.items():
        method = getattr(rule, name, None)
        if callable(method) and (wrong := misfit(method, given)):
            raise ValueError(f"{name} of the rule {called(rule)} is to take ({', '.join(given)}): {wrong}")


def checked_weights(rule: object, weights: Any, n: int) -> Matrix:
    """The weights, float64 (n,). Raises Unfit for another shape, and for those of a user's own rule that are not finite."""
    found = np.asarray(weights, dtype=np.float64)
    last: Any = rule
    while hasattr(last, "steps") and hasattr(last, "rule"):
        last = last.rule
    if found.shape != (n,):
        raise Unfit(f"{called(last)} gave weights of shape {found.shape}, for {n} updates")
    if is_own(last):
        check_finite(found, last, "gave weights,")
    return found


def _kind(sight: Any) -> str:
    return sight.name if isinstance(sight, Sight) else repr(sight)
