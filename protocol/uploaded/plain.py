"""No protection: the server sees every update. The reference that every other protection is tested against."""

from dataclasses import dataclass

from ..parts.gate import Rules
from ..view.functionality import Functionality
from ..view.protection import Setup
from .clients import uploading_clients
from .uploading import Answering
from .view import UploadView


@dataclass(frozen=True, slots=True)
class Plain:
    """Clients upload clear updates. floor: fewest clients in a published sum (1: any; it protects clients from each other)."""

    floor: int = 1

    @property
    def gives(self) -> frozenset[Functionality]:
        return frozenset(Functionality)

    def open(self, setup: Setup, /) -> UploadView:
        how = Answering(
            owner="server",
            rules=Rules(self.floor),
            clients=uploading_clients(),
            length=len(setup.initial),
            tolerance=0.0,
            seen="everything",
            across_rounds=True,
            coordinatewise=True,
        )
        return UploadView(setup, how)
