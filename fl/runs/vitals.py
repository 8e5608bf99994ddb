"""How a run with clients elsewhere is doing, for whoever operates it: numbers about messages, and nothing that is in them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Vitals:
    """At one moment.

    round, rounds: played, and to be played. clusters, accuracy: after the last round. cohort: how many clients the run has.
    connected: how many are there. stage: the kind of message that was sent last. owing: seconds since the oldest word that each
    client has not answered, by client. unanswered: how often clients did not answer in time; late: answers that came afterwards.
    bytes_in, bytes_out: on links. displaced, refused, slow: see `Listener`. running: False when it is over. stalled: seconds
    since anything was heard.
    """

    round: int = 0
    rounds: int = 0
    cohort: int = 0
    connected: int = 0
    clusters: int = 0
    accuracy: float | None = None
    stage: str = ""
    owing: Mapping[int, float] = field(default_factory=dict)
    unanswered: int = 0
    late: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    displaced: int = 0
    refused: int = 0
    slow: int = 0
    running: bool = True
    stalled: float = 0.0

    @property
    def stragglers(self) -> tuple[tuple[int, float], ...]:
        """Who owes an answer, longest first: (client, seconds)."""
        return tuple(sorted(self.owing.items(), key=lambda one: (-one[1], one[0])))
