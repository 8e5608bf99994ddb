"""A run with clients elsewhere as whoever operates it has it: numbers about messages, nothing that is in them, and an end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...protocol.core.halt import Halt
from ...protocol.pki.standing import Standing

if TYPE_CHECKING:
    from .experiment import Round
    from .linked_hosts import LinkedHosts


@dataclass(frozen=True, slots=True)
class Vitals:
    """At one moment.

    round, rounds: played, and to be played. clusters, accuracy: after the last round. cohort: how many clients the run has.
    connected: how many are there. stage: the kind of message that was sent last. owing: seconds since the oldest word that each
    client has not answered, by client. missing: seconds since a client was connected, by client that is not. unanswered: how
    often clients did not answer in time; late: answers that came afterwards. bytes_in, bytes_out: on links. displaced, refused,
    slow, revoked: see `Listener.counted`. life: of the coordinator, from 1 on. stopped: since which round, counted from 0, by
    cluster whose training stands still. unplaced: how many clients are in no cluster. barred: how many clients are
    revoked, also since before the run, with no other certificate. starting: whether it does not listen yet. running: False until
    it does, and when the run is over, or this life of it. stalled: seconds since anything moved on a link. ends: of the
    coordinator's certificate, its directory and its revocation list, when each ends, in Unix seconds. expired: which of them are
    over, in words; empty while links are let in.
    """

    round: int = 0
    rounds: int = 0
    cohort: int = 0
    connected: int = 0
    clusters: int = 0
    accuracy: float | None = None
    stopped: Mapping[str, int] = field(default_factory=dict)
    unplaced: int = 0
    stage: str = ""
    owing: Mapping[int, float] = field(default_factory=dict)
    missing: Mapping[int, float] = field(default_factory=dict)
    unanswered: int = 0
    late: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    displaced: int = 0
    refused: int = 0
    slow: int = 0
    revoked: int = 0
    barred: int = 0
    life: int = 1
    starting: bool = False
    running: bool = True
    stalled: float = 0.0
    ends: Mapping[str, int] = field(default_factory=dict)
    expired: str = ""

    @property
    def stragglers(self) -> tuple[tuple[int, float], ...]:
        """Who owes an answer, longest first: (client, seconds)."""
        return tuple(sorted(self.owing.items(), key=lambda one: (-one[1], one[0])))


def not_listening_yet() -> Vitals:
    """Of a coordinator that reads its scenario and its data."""
    return Vitals(starting=True, running=False)


@dataclass(slots=True)
class Control:
    """An operator's hold on a run, for use by other threads and handlers of signals. vitals: at any moment.

    leave: whether clients are told that the run is over when it is stopped; else they wait for the coordinator's next life.
    """

    vitals: Callable[[], Vitals] = field(default=not_listening_yet, repr=False)
    halt: Halt = field(default_factory=Halt)
    leave: bool = False

    def stop(self, leave: bool = False) -> None:
        """At the next word: whoever plays the run raises Halted. Nothing is lost; `serve` in the same folder goes on."""
        self.leave, self.halt.asked = leave, True


@dataclass(slots=True)
class Watched:
    """What a coordinator's vitals are read from. hosts: of linked_hosts.py. clients: how many. before: the line of metrics.jsonl
    of the last round of an earlier life, if there was one. standing: the coordinator's own; None without certificates. played:
    what was told after the last round of this one; `serve` sets it, and `running`.
    """

    hosts: "LinkedHosts"
    clients: int
    rounds: int
    life: int
    before: Mapping[str, Any] = field(default_factory=dict)
    standing: Standing | None = None
    played: "Round | None" = None
    running: bool = True

    def _before(self) -> dict[str, Any]:
        """What is known of the run until a round of this life is over."""
        clusters = self.before.get("clusters") or {}
        placed = {i for members in clusters.values() for i in members}
        return {
            "clusters": len(clusters),
            "accuracy": self.before.get("accuracy_mean"),
            "stopped": {of["cluster"]: of["since"] for of in self.before.get("stood_still") or () if of["cluster"] in clusters},
            "unplaced": self.clients - len(placed) if clusters else 0,
        }

    def vitals(self) -> Vitals:
        """At this moment."""
        listener, linked, played = self.hosts.listener, self.hosts.linked, self.played
        found = Vitals(
            round=self.hosts.round,
            rounds=self.rounds,
            cohort=self.clients,
            **(self._before() if played is None else _after(played)),
            stage=linked.stage,
            unanswered=sum(list(linked.absent.values())),
            late=linked.late,
            life=self.life,
            starting=self.running and listener is None,
            running=self.running and listener is not None,
            ends={} if self.standing is None else {end.of: end.until for end in self.standing.ends},
            expired="" if self.standing is None else self.standing.expired,
        )
        if listener is None:
            return found
        there, owing, stalled = sum(party >= 0 for party in listener.present()), listener.owing(), listener.stalled()
        counted: dict[str, Any] = listener.counted
        barred = len(listener.barred())
        return replace(found, connected=there, owing=owing, missing=listener.missing(), stalled=stalled, barred=barred, **counted)


def _after(played: "Round") -> dict[str, Any]:
    return {
        "clusters": played.clusters,
        "accuracy": played.accuracy,
        "stopped": {of.cluster: of.since for of in played.stopped if not of.gone},
        "unplaced": len(played.unplaced),
    }
