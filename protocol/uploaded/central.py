"""Noise that a trusted server adds to the sums that it publishes: client-level differential privacy, central (DP-FedAvg).

Against whoever sees models, the other clients among them; the server itself sees every update. McMahan, Ramage, Talwar and Zhang
2018, Algorithm 1, with all weights equal and the number of clients in a sum public, as who takes part is.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...crypto.entropy import Entropy
from ...crypto.prg import derive_key
from ...crypto.samplers import discrete_gaussian
from ..core.errors import Refused
from ..core.session import Session
from ..parts.leverage import Row
from ..privacy.adjacency import Adjacency
from ..view.answers import Remembered, Snapshot, Traffic
from ..view.disclosure import Disclosure
from ..view.noise_free import check_names

if TYPE_CHECKING:
    from ..privacy.ledger import Release, Unit

STEPS = 1 << 19
"""Standard deviation of the noise in units of its grid: rounding to it costs a sensitivity of sqrt(d) / 2 STEPS deviations."""
SLACK = 1 + 1e-9
"""Room for rounding in norms."""
FROM_THE_SERVER = "its updates as they are, from the server, which adds the noise"


@dataclass(frozen=True, slots=True, kw_only=True)
class CentralNoise:
    """What the published sums of a run may tell about a client: epsilon at delta, of all of its updates in all rounds together.

    Against everybody but the server, which sees each update: for noise against it too, take `Masked(noise=Noise(...))`.
    rounds: sums that a client is in; the noise is solved for them, and once the budget is spent it is in no more. l2: norm that
    every update is scaled down to. adjacency: "zero out" (its updates become zeros) or "replace" (any others); who takes part is
    public. acknowledge: as in `masked.noise.Noise`.
    """

    epsilon: float
    delta: float
    rounds: int
    l2: float
    adjacency: Adjacency = "zero out"
    acknowledge: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.adjacency not in ("zero out", "replace"):
            raise ValueError(f'adjacency is "zero out" or "replace", not {self.adjacency!r}: who takes part is public')
        if not (0 < self.epsilon < math.inf and 0 < self.delta < 1 and 0 < self.l2 < math.inf and self.rounds >= 1):
            raise ValueError("epsilon and l2 are above 0 and finite, delta between 0 and 1, rounds 1 or more")
        check_names(self.acknowledge)

    def solved(self, d: int) -> tuple[float, "Release"]:
        """Of sums of updates of d numbers: the deviation of the noise on each, and what one sum costs a client. Raises Refused.

        It is the least noise at which `rounds` sums cost epsilon at delta, up to 2^-8 of it.
        """
        from ..privacy.accountant import spent
        from ..privacy.gaussian import SummedDiscreteGaussians, gaussian_mu
        from ..privacy.ledger import Release

        apart = 1 if self.adjacency == "zero out" else 2
        multiplier = apart * math.sqrt(self.rounds) / gaussian_mu(self.epsilon, self.delta)
        for _ in range(256):
            event = SummedDiscreteGaussians(STEPS**2, 1, d, apart * (STEPS / multiplier + math.sqrt(d) / 2))
            if spent([event] * self.rounds, self.adjacency, self.delta).epsilon <= self.epsilon:
                deviation = multiplier * self.l2
                words = f"discrete Gaussian, standard deviation {deviation:.6g}, by the server"
                return deviation, Release(event, apart * self.l2, self.adjacency, "client", words, "a sum of updates")
            multiplier *= 1 + 2.0**-8
        raise Refused(f"no noise makes epsilon {self.epsilon:.3g} of sums of {d} numbers: their rounding spends more")


class CentralSums:
    """The server's account of what its noisy sums cost clients. length: of an update."""

    def __init__(self, noise: CentralNoise, length: int, clients: Iterable[int], entropy: Entropy) -> None:
        from ..privacy.ledger import Ledger

        self._noise = noise
        self._deviation, self._release = noise.solved(length)
        self._entropy = entropy
        self._last: dict[int, int] = {}
        empty = Ledger(0, "client", noise.adjacency, noise.epsilon, noise.delta, "the sums of its updates", noise.acknowledge)
        self.ledgers: dict[tuple[int, Unit], Ledger] = {
            (i, "client"): replace(empty, client=i).without(FROM_THE_SERVER) for i in clients
        }

    def check(self, round: int, rows: Mapping[str, Row]) -> None:
        """Raises Refused for a sum that is not uniform, or not the only one of its clients in this round. rows: all, by name."""
        asked = [i for row in rows.values() for i in row]
        for name, row in rows.items():
            if len(set(row.values())) > 1:
                raise Refused(f"sum {name} is not uniform: a client's weight would be its sensitivity; set by_samples=False")
            if any(self._last.get(i) == round or asked.count(i) > 1 for i in row):
                raise Refused(f"sum {name} would be another of its clients' in round {round}; under noise a client is in one")

    def paid(self, round: int, row: Row) -> dict[int, float]:
        """Charge the clients of a sum; those of them who could pay, whose sum it is."""
        from ..privacy.ledger import BudgetExceeded

        found: dict[int, float] = {}
        for i, weight in row.items():
            try:
                self.ledgers[i, "client"] += self._release
            except BudgetExceeded:
                continue
            found[i] = weight
            self._last[i] = round
        return found

    def total(self, session: Session, name: str, row: Row, updates: Mapping[int, NDArray[Any]]) -> NDArray[np.float64]:
        """The weighted sum of the updates within l2, and noise: float64 (d,)."""
        grid = self._deviation / STEPS
        secret = self._entropy.secret(f"central noise {session.digest.hex()} {name}", 32)
        d = len(next(iter(updates.values())))
        found = discrete_gaussian(derive_key(secret, "central noise", session.digest), d, Fraction(STEPS) ** 2)
        for i in row:
            found += np.rint(self._within(updates[i]) / grid).astype(np.int64)
        return np.asarray(found * (grid * next(iter(row.values()))), np.float64)

    def _within(self, update: NDArray[Any]) -> NDArray[np.float64]:
        wide = np.where(np.isfinite(update), update, 0).astype(np.float64)
        return np.asarray(wide * min(1.0, self._noise.l2 / max(float(np.linalg.norm(wide)), 1e-300) / SLACK))

    def noted(self, entry: Disclosure) -> None:
        """Name what others than the server were told of clients without noise."""
        for i in entry.about if entry.recipient != "server" and entry.what != "sums" else ():
            self.ledgers[i, "client"] = self.ledgers[i, "client"].without(entry.words)

    # --- keeping ----------------------------------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`."""

    def save(self) -> Snapshot:
        """See `Part`."""
        return Snapshot({}, {}, {}, Traffic(), ledgers=tuple(ledger.as_dict() for ledger in self.ledgers.values()))

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`. Raises ValueError for a ledger that is past its budget."""
        from ..privacy.ledger import Ledger

        for plain in snapshot.ledgers:
            ledger = Ledger.from_dict(plain)
            self.ledgers[ledger.client, ledger.unit] = ledger
