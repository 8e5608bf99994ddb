"""The privacy that is asked of local training, for one record of a client, and what a round of it costs.

Everything that a client tells of itself by its updates (sums, sketches, inner products, models) is a function of what DP-SGD
released, so that it costs nothing more, however often and in whatever form it is told. What is told besides by a function of the
records has no noise of this claim: a scenario with such answers is refused unless they are acknowledged by name (`BESIDE`). Where
local training itself goes by records beyond their clipped gradients, as in slots, there is no claim to make (`check_training`).
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from ...protocol.privacy.adjacency import Adjacency
from ...protocol.view.functionality import FULL_GRADIENTS, NUMBER_OF_EXAMPLES, Functionality
from ...protocol.view.noise_free import check_names
from ..field_types import fits, instead

if TYPE_CHECKING:
    from ...protocol.privacy.ledger import Ledger, Release

BESIDE = frozenset({Functionality.CHOICE, Functionality.PAIRS, FULL_GRADIENTS, NUMBER_OF_EXAMPLES})
"""What clients tell that is a function of their records, and not of their updates alone."""
OF = "its updates by DP-SGD, and all that is made of them: sums, sketches, inner products, models"
NOT_COVERED = (
    "that it takes part, and when it answers",
    "the number of its examples, where that is told",
    "how well models do on its test and validation data, where that is told, and what is chosen by that",
)

GRID = 1 << 19
"""Standard deviation of the noise in units of its grid: rounding to it costs a sensitivity of sqrt(d) / GRID deviations."""
LEAST_DELTA = 1e-12
"""Below it the accountant of sampled records would tell of nothing but rounding."""
SLACK = 1 + 1e-6
"""Room for rounding in norms, and in sums of float64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPrivacy:
    """DP-SGD in the place of SGD. multiplier: standard deviation of the noise on a step's sum of gradients, over `clip`.

    clip: l2 norm that each record's gradient over all trainable parameters is scaled down to. budget, delta: no client trains
    where all of its trainings together would exceed epsilon = budget at delta; it declines. From epsilon to settings:
    `RecordPrivacy.for_epsilon`.
    adjacency: "replace", one record may become any other (the number of examples is public); "add or remove", one may be missing:
    every algorithm tells how many there are, which acknowledge=("number of examples",) then leaves out of the claim.
    records: a public number of examples, by which every client finds how likely it samples a record and how many steps it takes;
    None for each client's own number, which only "replace" leaves as it is. With one for all, all spend alike, and that is
    found once for all of them; it takes about half a second a round for every other number of examples.
    acknowledge: what clients tell all the same of their records without noise of this claim (`BESIDE`, by the names in
    `NOISE_FREE`): nothing bounds what it tells, and the names stand beside every epsilon.
    """

    clip: float
    multiplier: float
    budget: float
    delta: float
    adjacency: Adjacency = "replace"
    records: int | None = None
    acknowledge: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not all(0 < value < math.inf for value in (self.clip, self.multiplier, self.budget)) or not 0 < self.delta < 1:
            raise ValueError("clip, multiplier and budget are finite and above 0, delta between 0 and 1")
        _check_known(self.adjacency, self.delta)
        if self.records is not None and (type(self.records) is not int or self.records < 1):
            raise ValueError(f"records is a public number of examples of at least 1, or None, not {self.records!r}")
        if self.records is None and self.adjacency == "add or remove":
            raise ValueError(
                "where a record may be missing a client's number of examples is no public number, and sampling and steps must not"
                " follow from it: set records to one that is"
            )
        check_names(self.acknowledge)
        if covered := [name for name in self.acknowledge if name not in BESIDE]:
            raise ValueError(
                f"acknowledge names {covered[0]!r}, which is made of updates, and so is covered: leave it out; not covered are"
                f" {', '.join(sorted(BESIDE))}"
            )

    @classmethod
    def for_epsilon(
        cls,
        epsilon: float,
        *,
        delta: float,
        clip: float,
        records: int,
        batch: int,
        epochs: int,
        rounds: int,
        adjacency: Adjacency = "replace",
        parameters: int = 1_000_000,
        acknowledge: tuple[str, ...] = (),
    ) -> Self:
        """The least noise, within 1 %, by which so many rounds of training cost a client at most epsilon at delta; as its budget.

        batch, epochs: as in `Training`. rounds: in which a client trains, at most. records: the public number of examples that
        every client samples as if it had. parameters: of the model, at most; a larger one than this could cost a little more,
        and clients would decline the last round. What a client releases by other noise counts beside it, and is not in epsilon.
        It takes seconds for usual budgets, and minutes where epsilon is so large that next to no noise will do: 178 s at epsilon
        100, delta .01, and 100 records of which a step samples one. Raises ValueError for numbers that are none of a training, or
        where no noise would do.

        >>> privacy = RecordPrivacy.for_epsilon(8.0, delta=1e-5, clip=1.0, records=360, batch=120, epochs=1, rounds=25)
        >>> 3.4 < privacy.multiplier < 3.6, privacy.budget
        (True, 8.0)
        """
        whole = {"records": records, "batch": batch, "epochs": epochs, "rounds": rounds, "parameters": parameters}
        for kind, given in ((float, {"epsilon": epsilon, "delta": delta, "clip": clip}), (int, whole)):
            if wrong := next((name for name, value in given.items() if isinstance(value, bool) or not fits(kind, value)), ""):
                raise ValueError(f"RecordPrivacy.for_epsilon: {wrong} is {instead(kind, given[wrong])}")
        if min(records, batch, epochs, rounds, parameters) < 1:
            raise ValueError("records, batch, epochs, rounds and parameters are at least 1")
        if not all(0 < value < math.inf for value in (epsilon, clip)) or not 0 < delta < 1:
            raise ValueError("epsilon and clip are finite and above 0, delta between 0 and 1")
        _check_known(adjacency, delta)
        steps = rounds * epochs * -(-records // batch)
        multiplier = multiplier_for(epsilon, delta, min(1.0, batch / records), steps, adjacency, parameters)
        return cls(
            clip=clip,
            multiplier=multiplier,
            budget=epsilon,
            delta=delta,
            adjacency=adjacency,
            records=records,
            acknowledge=acknowledge,
        )

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on a sum of gradients, on each coordinate."""
        return self.multiplier * self.clip

    def public(self, examples: int) -> int:
        """The number that sampling and steps follow from. examples: the client's own."""
        return examples if self.records is None else self.records

    def expected(self, examples: int, batch: int) -> int:
        """What every step's noisy sum is divided by: the records that it samples on average, or would of `records`."""
        return min(batch, self.public(examples))

    def steps(self, examples: int, epochs: int, batch: int) -> int:
        """How many steps a client takes in a round."""
        return epochs * -(-self.public(examples) // batch)

    def release(self, examples: int, epochs: int, batch: int, dimension: int) -> "Release":
        """The ledger's entry for one training of a model of so many parameters.

        The noise is a discrete Gaussian on a grid. About whatever integers it stands, it is what rounding makes of a Gaussian
        of deviation `z` (below, in grid steps) up to a factor of e^(1e-12 / 2) at every point, as in `SummedDiscreteGaussians`,
        and so is a mixture of such over the records that were sampled. So a step costs what a Poisson-sampled Gaussian does, and
        1e-12 of epsilon, which is not counted.
        """
        from dp_accounting import dp_event

        from ...protocol.privacy.gaussian import ROOM
        from ...protocol.privacy.ledger import Release

        smoothing = math.log(16 * dimension / ROOM) / (2 * math.pi**2)
        l2 = GRID * SLACK / self.multiplier + math.sqrt(dimension)  # of one record, in the grid; each coordinate is rounded
        z = math.sqrt(GRID**2 - smoothing) / l2
        apart = 2 if self.adjacency == "replace" else 1
        public, steps = self.public(examples), self.steps(examples, epochs, batch)
        step = dp_event.GaussianDpEvent(z / apart)
        if (rate := min(1.0, batch / public)) < 1:
            step = dp_event.PoissonSampledDpEvent(rate, step)
        words = f"discrete Gaussian, standard deviation {self.deviation:.6g}, on each of {steps} sums of gradients"
        covers = f"an update of {steps} steps, each of records sampled with chance {rate:.4g}"
        sensitivity = apart * self.clip * (self.multiplier / z)
        return Release(dp_event.SelfComposedDpEvent(step, steps), sensitivity, self.adjacency, "record", words, covers)

    def opened(self, client: int) -> "Ledger":
        """A client's ledger before it trains."""
        from ...protocol.privacy.ledger import Ledger

        ledger = Ledger(client, "record", self.adjacency, self.budget, self.delta, OF, self.acknowledge)
        return ledger.without(*NOT_COVERED)


def _check_known(adjacency: str, delta: float) -> None:
    """Raises ValueError for what no accountant knows."""
    if delta < LEAST_DELTA:
        raise ValueError(f"delta is {delta:g}, and {LEAST_DELTA:g} is the least at which an epsilon is known")
    if adjacency not in ("replace", "add or remove"):
        raise ValueError(f'adjacency is "replace" or "add or remove", not {adjacency!r}')


def multiplier_for(
    epsilon: float, delta: float, rate: float, steps: int, adjacency: Adjacency = "replace", parameters: int = 1_000_000
) -> float:
    """The least `RecordPrivacy.multiplier`, within 1 %, by which so many steps at this rate of sampling cost at most epsilon.

    Leaves room for the grid of models of up to so many parameters. Raises ValueError where no multiplier up to 2^20 does.
    """
    from dp_accounting import dp_event

    from ...protocol.privacy.accountant import spent
    from ...protocol.privacy.gaussian import gaussian_mu

    apart = 2 if adjacency == "replace" else 1

    def cost(multiplier: float) -> float:
        z = multiplier / (1 + 1e-5 + multiplier * math.sqrt(parameters) / GRID) / apart
        step = dp_event.GaussianDpEvent(z) if rate >= 1 else dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(z))
        return spent([dp_event.SelfComposedDpEvent(step, steps)], adjacency, delta).epsilon

    about = min(1.0, rate) * math.sqrt(steps) / gaussian_mu(epsilon, delta)  # small q sqrt(steps (e^(1 / z^2) - 1)) is about mu
    low = high = max(0.3, 1 / math.sqrt(math.log1p(1 / about**2)))
    while cost(high) > epsilon:
        low, high = high, 1.2 * high
        if high > 1 << 20:
            raise ValueError(
                f"no noise makes {steps} steps at rate {rate:.3g} cost at most {epsilon} at delta {delta} on the grid of a model"
                f" of {parameters} parameters (parameters: of the model, at most); take fewer rounds, or a larger epsilon"
            )
    while low == high or cost(low) <= epsilon:
        low, high = low / 1.2, low
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if cost(middle) > epsilon else (low, middle)
    return high
