"""What an experiment is: an attack on recorded views, and a score of its guess for every victim."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ...fl.field_ranges import need_whole
from ...protocol.core.link import Tap
from ...protocol.view.answers import Vector
from ..inference.label_regression import Features
from .estimates import Estimate, estimates
from .made_up import MadeUp, made_up
from .reading import Instance
from .truth import Truth
from .view import CorruptView

Values = NDArray[np.float64]
Anchor = Literal["sums alone", "chance", "sums less their own part"]
"""What a leakage of 0 is: what the published sums tell, or what an observer of nothing finds, of claims about the sums too; of
claims about corrupt clients, what the sums tell them who know what they put in."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much an audit spends. seeds: runs of the scenario. victims: clients whose single records are tried. records: of each
    victim, and as many that it has not. steps: of optimisers. shadows: models that are trained with half of the records in
    question each, a victim and round; clients: that are made up of public examples, to learn from."""

    name: str
    seeds: int
    victims: int
    records: int
    steps: int
    shadows: int
    clients: int

    def __post_init__(self) -> None:
        need_whole(self, 1, "seeds", "victims", "records", "steps", "shadows", "clients")


QUICK = Budget("quick", seeds=2, victims=16, records=60, steps=200, shadows=32, clients=400)
FULL = Budget("full", seeds=5, victims=24, records=200, steps=2000, shadows=128, clients=1000)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What an attacker has. view: of the audited run. shadow: the same observer's view of a run of its own, on data that it
    knows: `known`. sums: nothing but the audited run's published sums, against which recovery is measured. prior: float64 (m,
    d), how updates differ from their mean in the attacker's run; None where they are not vectors of one kind. released: the
    model that each client ended up with, float32 (d,), as side information of all but the network. replay: for who may do more
    than look on, plays the audited scenario's first round once more with a network of its own, and returns its `Recorder`.
    pooled: what the server and all clients of the audited run have together, of the anchor of everything alone. lessons: what
    `taught` made, for all evidence of one run.
    """

    view: CorruptView
    shadow: CorruptView = field(repr=False)
    known: Truth = field(repr=False)
    sums: CorruptView = field(repr=False)
    prior: Features | None = field(default=None, repr=False)
    released: Mapping[int, Vector] = field(default_factory=dict, repr=False)
    replay: Callable[[Tap], Any] | None = field(default=None, repr=False)
    pooled: CorruptView | None = field(default=None, repr=False)
    lessons: dict[int, MadeUp] = field(default_factory=dict, repr=False)
    _made: dict[int, dict[Instance, Estimate]] = field(default_factory=dict, init=False, repr=False)

    def estimated(self, view: CorruptView) -> dict[Instance, Estimate]:
        """`estimates` of the view or of the shadow, by the prior; they are made once for all experiments."""
        if id(view) not in self._made:
            self._made[id(view)] = estimates(view, self.prior)
        return self._made[id(view)]

    def taught(self, count: int, rng: np.random.Generator) -> MadeUp:
        """So many clients that the attacker makes up, of sizes as in its own run; they are made once for all observers."""
        if count not in self.lessons:
            sizes = [len(c.train) for c in self.known.population.clients.values()]
            self.lessons[count] = made_up(self.view.public, sizes, count, rng)
        return self.lessons[count]


@dataclass(frozen=True, slots=True)
class Examined:
    """What exact tests of recorded values came to, where no leakage is estimated. witness: what refutes a claim, in words; empty
    if nothing does. looked: at what, and how. missed: what could not be looked at; empty if all was. nothing: that nothing was
    looked at.
    """

    witness: str
    looked: str
    missed: str
    nothing: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """What an attack got. victims: whom it tried; why: in words why nobody, if so. values: of each, from 0 (nothing) to 1 (all),
    larger for more.

    members, others: scores of what it had to tell apart, where there is such a thing; (k,) each. figures: in units of their own,
    by what they are called. pictures: to look at. records: of a victim, how many of its records, or of its updates
    where these are sought, were read, and how many it has.
    examined: what is judged in the place of values. noticed: what refutes a claim however much was recovered, in words. moves:
    (n,), of values that come from comparing victims with each other, what each adds to their mean; empty of any other. chances:
    (n,), of values that come from ranking a few of a victim's, how likely a guess is to rank them as well; empty of any other.
    """

    victims: tuple[int, ...]
    values: Values
    members: Values = field(default_factory=lambda: np.zeros(0), repr=False)
    others: Values = field(default_factory=lambda: np.zeros(0), repr=False)
    figures: Mapping[str, float] = field(default_factory=dict)
    pictures: Mapping[str, Any] = field(default_factory=dict, repr=False)
    records: Mapping[int, tuple[int, int]] = field(default_factory=dict, repr=False)
    examined: Examined | None = None
    noticed: str = ""
    moves: Values = field(default_factory=lambda: np.zeros(0), repr=False)
    chances: Values = field(default_factory=lambda: np.zeros(0), repr=False)
    why: str = ""


def victims_of(view: CorruptView, count: int, rng: np.random.Generator) -> tuple[int, ...]:
    """So many clients that are not corrupt, drawn so that observers with few corrupt clients have nearly the same victims."""
    drawn: list[int] = rng.permutation(view.public.clients).tolist()
    return tuple(sorted([i for i in drawn if i not in view.observer.clients][:count]))


@runtime_checkable
class Experiment(Protocol):
    """name: what is sought. unit: what a value is. side: what the attacker knows beside the view. source: paper or place.

    anchor: what its values are measured from.
    """

    @property
    def name(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def side(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def anchor(self) -> Anchor: ...

    def applies(self, evidence: Evidence, /) -> str:
        """Empty, or why this experiment says nothing about such a run."""
        ...

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding: ...
