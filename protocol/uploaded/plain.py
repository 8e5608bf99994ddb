"""No protection: the server sees every update. The reference that every other protection is tested against."""

from dataclasses import dataclass

from ..parts.gate import Rules
from ..view.functionality import Functionality
from ..view.protection import Setup
from .central import CentralNoise
from .clients import uploading_clients
from .uploading import Answering
from .view import UploadView

WITHOUT_NOISE = frozenset(
    {Functionality.COORDINATES, Functionality.SLOTS, Functionality.PERSONAL_SUMS, Functionality.FUSION, Functionality.REVISION}
)
"""Answers that make models of updates otherwise than by sums, and would need noise of their own."""


@dataclass(frozen=True, slots=True)
class Plain:
    """Clients upload clear updates. floor: fewest clients in a published sum (1: any; it protects clients from each other).

    noise: that the server, which is trusted, adds to every sum that it publishes, or none.
    """

    floor: int = 1
    noise: CentralNoise | None = None

    def __post_init__(self) -> None:
        _ = self.rules

    @property
    def rules(self) -> Rules:
        return Rules(self.floor)

    @property
    def gives(self) -> frozenset[Functionality]:
        return frozenset(Functionality) - (frozenset() if self.noise is None else WITHOUT_NOISE)

    def open(self, setup: Setup, /) -> UploadView:
        how = Answering(
            owner="server",
            rules=self.rules,
            clients=uploading_clients(),
            length=len(setup.initial),
            tolerance=0.0,
            seen="everything",
            across_rounds=True,
            coordinatewise=True,
            noise=self.noise,
        )
        return UploadView(setup, how)
