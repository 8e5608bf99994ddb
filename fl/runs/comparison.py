"""A comparison: methods on data sets, under protections, over seeds, as one Python value.

Every method does the same local work: the epochs, batches and rounds of the data set's scenario. Its hyper-parameters are
searched on validation data, which are a share of each client's training data and stand in the place of its test data, so that a
search never holds a test example. The search has seeds of its own, and for every method the same number of configurations at
most.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from ...protocol.core.errors import Refused
from ...protocol.uploaded.plain import Plain
from ...protocol.view.protection import Protection
from ..algorithms.algorithm import Algorithm
from ..clients.corruption import Corruption
from ..clients.losses import OF_NUMBERS
from ..data.partition import Partition
from ..data.population import Population, Source
from ..near_names import not_there
from .comparison_check import check_parts
from .scenario import Scenario, replaced
from .simulation import Simulation, held_out, seed_of

USUAL_YARDSTICK = "LOCAL"
"""Where nothing else is said; a comparison without a method of this name has none."""
Settings = Mapping[str, Any]
"""Values by their path in a scenario, "algorithm.mu" or "training.lr"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One row of the table.

    algorithm: or what makes it for a data set's scenario, of its rounds or its number of groups. grid: the values to try, by
    their path in the scenario; every combination is a configuration, and a path with one value is set to it. Without a search the
    first configuration is played.
    fits: names of the data sets that the method's card says it is made for. second_hand: known by what others say of it.
    work: how its clients' work differs from the others', in words; empty where it does not.
    """

    algorithm: Algorithm | Callable[[Scenario], Algorithm]
    grid: Mapping[str, Sequence[Any]] = field(default_factory=lambda: MappingProxyType({}))
    fits: tuple[str, ...] = ()
    second_hand: bool = False
    work: str = ""

    def __post_init__(self) -> None:
        if wrong := [path for path in self.grid if not isinstance(path, str)]:
            raise ValueError(f"the grid's key {wrong[0]!r} is no field's path; write its text, for example 'training.lr'")
        if empty := [path for path, values in self.grid.items() if not values]:
            raise ValueError(f"the grid has no value for {empty[0]}; name one, or leave it out")

    @property
    def configurations(self) -> list[Settings]:
        """Every combination of the grid, the last path's values changing fastest; one without any setting for an empty grid."""
        return [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How hyper-parameters are found: the configuration of the best mean accuracy over clients on validation data, mean over
    seeds, the first of equal ones.

    seeds: none of the comparison's. configurations: of a method, at most. share: of each client's training data, for validation.
    protection: under which is searched, once for all; without noise the others would find the same.
    """

    seeds: tuple[int, ...]
    configurations: int
    share: float = 0.2
    protection: Protection = field(default_factory=Plain)

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"a search needs seeds, each once, not {self.seeds}")
        if self.configurations < 1 or not 0 < self.share < 1:
            raise ValueError(
                f"a search has at least 1 configuration and a share in (0, 1), not {self.configurations}, {self.share}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """methods x data x protections x seeds, all by name, and what is searched before.

    scale: of all its numbers. data: scenarios, of which algorithm, protection and seed are replaced. search: None for the first
    configuration of each method. attacks: adversaries, of one strength each; attacked: the protections under which they are
    played, the first of all if empty. measures: further columns by their heading, each a share that is taken of a simulation at
    the end of a run without attack, NaN where it does not apply. yardstick: the method that each is to reach on the data that fit
    it. margin: of accuracy, within which two methods are as good as each other.
    """

    name: str
    scale: Literal["quick", "paper"]
    data: Mapping[str, Scenario]
    methods: Mapping[str, Method]
    seeds: tuple[int, ...]
    protections: Mapping[str, Protection] = field(default_factory=lambda: MappingProxyType({"Plain": Plain()}))
    search: Search | None = None
    attacks: Mapping[str, Corruption] = field(default_factory=lambda: MappingProxyType({}))
    attacked: tuple[str, ...] = ()
    measures: Mapping[str, Callable[[Simulation], float]] = field(default_factory=lambda: MappingProxyType({}))
    yardstick: str = USUAL_YARDSTICK
    margin: float = 0.01

    def __post_init__(self) -> None:
        check_parts(self, Method, Search)
        for name in ("data", "methods", "protections", "seeds"):
            if not getattr(self, name):
                raise ValueError(f"a comparison needs {name}")
        for name, scenario in self.data.items():
            if scenario.training.loss in OF_NUMBERS:
                raise ValueError(f"a comparison is by accuracy, and the targets of {name!r} are numbers (its training.loss)")
        if self.scale not in ("quick", "paper"):
            raise ValueError(f'scale is "quick" or "paper", not {self.scale!r}')
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds names one value twice: {self.seeds}")
        if not 0 < self.margin < 1:
            raise ValueError(f"margin is between 0 and 1, not {self.margin}")
        if len({name.replace(" ", "_") for name in self.measures}) < len(self.measures) or not all(
            map(str.isprintable, self.measures)
        ):
            raise ValueError(f"measures have headings of one line, each another: {', '.join(map(repr, self.measures))}")
        if unknown := sorted({*self.attacked} - self.protections.keys()):
            raise ValueError(f"attacked names protections that are not there: {not_there(unknown, self.protections)}")
        if self.yardstick not in {*self.methods, USUAL_YARDSTICK}:
            raise ValueError(f"yardstick names a method that is not there: {not_there([self.yardstick], self.methods)}")
        if common := sorted({*(self.search.seeds if self.search else ())} & {*self.seeds}):
            raise ValueError(f"seeds of the search are none of the comparison's, but both have {common[0]}")
        for scenario in self.data.values():
            if scenario.adversary is not None:
                raise ValueError("the scenarios of a comparison have no adversary; name it among the attacks")
        for name, method in self.methods.items():
            self._check(name, method)

    def _check(self, name: str, method: Method) -> None:
        if unknown := sorted({*method.fits} - self.data.keys()):
            raise ValueError(f"{name} fits data that are not there: {not_there(unknown, self.data)}")
        most, count = self.search.configurations if self.search else None, len(method.configurations)
        if most is not None and count > most:
            raise ValueError(f"{name} has {count} configurations, and the search gives every method {most} at most")
        for data in self.data:
            for index in range(count):
                try:
                    self.without_attack(data, name, index, Plain(), self.seeds[0])
                except Refused:  # its cells will say why
                    continue
                except ValueError as error:
                    raise ValueError(f"{name} on {data}: {error}") from error

    def without_attack(self, data: str, name: str, configuration: int, protection: Protection, seed: int) -> Scenario:
        """The scenario of a method. Raises Refused, with the reason, where the protection cannot give what it needs; ValueError
        where its clients would do other work than the other methods' and it does not say so.
        """
        base, method = replace(self.data[data], seed=seed), self.methods[name]
        algorithm: Any = method.algorithm
        made = algorithm if hasattr(algorithm, "needs") else algorithm(base)
        found = replace(base, algorithm=made, protection=Plain())
        for path, value in method.configurations[configuration].items():
            found = replaced(found, path, value)
        _check_work(base, found, method)
        return replace(found, protection=protection)

    @property
    def under_attack(self) -> tuple[str, ...]:
        """The protections under which attacks are played."""
        return self.attacked or tuple(self.protections)[:1]


def _check_work(base: Scenario, found: Scenario, method: Method) -> None:
    """Raises ValueError where a configuration changes more than the algorithm and how local steps are taken."""
    free = {"algorithm", "training", "protection"}
    changes = [f.name for f in fields(Scenario) if f.name not in free and getattr(base, f.name) != getattr(found, f.name)]
    if changes:
        raise ValueError(f"a configuration sets the algorithm's and the training's fields, not {changes[0]}")
    own = found.algorithm.local(found.training)
    differs = [n for n in ("epochs", "batch") if getattr(own, n) != getattr(base.training, n)]
    if differs and not method.work:
        raise ValueError(
            f"its clients would train with other {' and '.join(differs)} than the other methods'; say how in Method.work"
        )


@dataclass(frozen=True, slots=True)
class Validating:
    """The partition, with a share of each client's training data in the place of its test data, which are not handed out."""

    partition: Partition
    share: float
    seed: int

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        population = self.partition(source, rng)
        parts = {i: held_out(c, self.share, seed_of(self.seed, "search", i)) for i, c in population.clients.items()}
        clients = {i: replace(kept, test=out.train) for i, (kept, out) in parts.items()}
        return replace(population, clients=clients)
