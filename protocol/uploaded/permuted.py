"""CFL's privacy step (Sattler et al. 2020, section V-B): clients transform updates by a secret they share.

The server averages and compares what it cannot place; clients invert the mean and own the model. This is obfuscation: the
server learns the exact Gram matrix and what the transform leaks (a permutation leaks every value), and one client that
hands over the seed opens every update.
"""

from dataclasses import dataclass
from typing import Literal

from ...crypto.orthonormal import Permutation, Transform
from ...crypto.prg import derive_key
from ..parts.gate import Rules
from ..seeding.group_seed import agree, session_of
from ..view.answers import Functionality
from ..view.protection import Setup
from ..work.lending import lending_of
from .uploading import Answering
from .view import UploadView


@dataclass(frozen=True, slots=True)
class Permuted:
    """Clients upload transformed updates and invert the mean.

    transform: Permutation (the paper's), SignedPermutation or HadamardRotation. keys: "run" keeps one transform, so updates
    of different rounds compare; "session" draws one per (round, cluster), so the server cannot link values across rounds.
    floor: fewest clients in a published sum.
    """

    transform: type[Transform] = Permutation
    keys: Literal["run", "session"] = "run"
    floor: int = 3

    def __repr__(self) -> str:
        return f"Permuted({self.transform.__name__}, keys={self.keys!r}, floor={self.floor})"

    def __post_init__(self) -> None:
        if self.keys not in ("run", "session"):
            raise ValueError(f'keys is "run" or "session", not {self.keys!r}')

    @property
    def gives(self) -> frozenset[Functionality]:
        given = {Functionality.SUMS, Functionality.CHOICE, Functionality.SLOTS, Functionality.PAIRS, Functionality.PERSONAL_SUMS}
        given |= {Functionality.GRAM, Functionality.GRAM_ORIGIN}
        if self.keys == "run":
            given |= {Functionality.GRAM_EDGE, Functionality.GRAM_RECALL}
            given |= {Functionality.GRAM_REMEMBER, Functionality.GRAM_HISTORY, Functionality.FUSION}
        if self.transform.keeps_coordinates:
            given.add(Functionality.COORDINATES)
        return frozenset(given)

    def open(self, setup: Setup, /) -> UploadView:
        session = session_of("permuted", setup.run, setup.clients)
        agreed = agree(session, setup.entropy, setup.tap, check=setup.verify)
        shared = SharedSecret(agreed.seed, setup.run, self.transform, self.keys, len(setup.initial))
        with agreed.network.timed(*(session.roster if self.keys == "run" else ())):  # each client draws it for itself
            sample = shared(session.digest)
        how = Answering(
            owner="clients",
            rules=Rules(self.floor),
            transform=shared,
            length=sample.length,
            tolerance=sample.tolerance,
            seen=self.transform.leak,
            across_rounds=self.keys == "run",
            coordinatewise=self.transform.keeps_coordinates,
        )
        return UploadView(setup, how, lending_of(agreed.seed, setup), agreed.network)


class SharedSecret:
    """What every client of a run holds: the seed, and the transforms drawn from it. The last few are kept drawn."""

    KEPT = 32

    def __init__(self, seed: bytes, run: bytes, transform: type[Transform], keys: str, d: int) -> None:
        self._seed = seed
        self._run = run
        self._transform = transform
        self._keys = keys
        self._d = d
        self._drawn: dict[bytes, Transform] = {}

    def __call__(self, session: bytes) -> Transform:
        """The transform of the session with this digest."""
        context = self._run if self._keys == "run" else session
        if context not in self._drawn:
            if len(self._drawn) >= self.KEPT:
                del self._drawn[next(iter(self._drawn))]
            self._drawn[context] = self._transform.draw(derive_key(self._seed, "transform", context), self._d)
        return self._drawn[context]
