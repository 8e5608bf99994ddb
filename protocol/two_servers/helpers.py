"""The second server and the dealer of a run, as the first server's parts ask them."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.session import SERVER
from ..drivers.roles import Role
from ..parts.run import Run
from ..view.answers import Remembered, Snapshot, Traffic
from ..work.uploads import Policy
from .kept import QUESTION
from .run import helper_parties
from .terms import ShareTerms


class Helpers:
    """parties: the second server and the dealer, by id; in this process or, as the setup says, elsewhere."""

    def __init__(self, run: Run, terms: ShareTerms, policy: Policy) -> None:
        setup = run.setup
        self.parties: Mapping[int, Any] = (
            setup.helpers() if setup.helpers else helper_parties(setup.run, terms, policy, setup.entropy)
        )
        self.questions = 0
        self._clients = run.clients.parties

    @property
    def everybody(self) -> dict[int, Role]:
        """With the clients."""
        return {**self._clients, **self.parties}

    def number(self) -> int:
        """Of one more question."""
        self.questions += 1
        return self.questions - 1

    # --- keeping ------------------------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`."""

    def save(self) -> Snapshot:
        """See `Part`."""
        return Snapshot({}, {}, {SERVER: {QUESTION: self.questions}}, Traffic())

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`."""
        self.questions = snapshot.next_round[SERVER][QUESTION]
