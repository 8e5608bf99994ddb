"""CFL's privacy step (Sattler et al. 2020, section V-B): clients transform updates by a secret they share.

The server averages and compares what it cannot place; clients invert the mean and own the model. This is obfuscation: the
server learns the exact Gram matrix and what the transform leaks (a permutation leaks every value), and one client that
hands over the seed opens every update.
"""

from dataclasses import dataclass
from typing import Literal

from ...crypto.orthonormal import Permutation, Transform
from ..parts.gate import Rules
from ..view.functionality import Functionality
from ..view.protection import Setup
from .clients import transforming_clients
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
        _ = self.rules

    @property
    def rules(self) -> Rules:
        return Rules(self.floor)

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
        of = self.transform.draw(bytes(32), len(setup.initial))  # another one than the clients': it has their length
        how = Answering(
            owner="clients",
            rules=self.rules,
            clients=transforming_clients(self.transform, self.keys),
            length=of.length,
            tolerance=of.tolerance,
            seen=self.transform.leak,
            across_rounds=self.keys == "run",
            coordinatewise=self.transform.keeps_coordinates,
        )
        return UploadView(setup, how)
