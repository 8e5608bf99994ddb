"""What is on record of a run: every answer, every message that was refused, what each party spent. No algorithm reads it."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ..core.errors import Fault
from ..drivers.in_process import InProcess
from ..view.account import Asked, Opened, Sketched, kind_of
from ..view.answers import BelowFloor, Cost, Sum, Traffic, Updates, Work
from ..view.disclosure import IN_CLUSTER, ROSTER, TAKE_PART, Disclosure
from ..view.disclosure import Party as Recipient
from ..work.uploads import UNUSABLE
from .gate import Rules
from .leverage import Row

if TYPE_CHECKING:
    from ..privacy.ledger import Ledger, Unit

Ledgers = Callable[[], Mapping[tuple[int, "Unit"], "Ledger"]]


class Record:
    """log: every answer so far, in order. below_floor: every sum that rested on too few clients.

    sketched: every set of updates that the server has sketches or all inner products of; opened: every sum that was published;
    asked: whom it asked for work; all in order, and not kept by snapshots. sees_updates: whether the server holds clients'
    updates as they are; holds_transformed: transformed by a secret of the clients. with_a_client: what server and one client
    together learn beyond what the server does, in words; empty for nothing. ledgers_of: where privacy ledgers are kept. least:
    as views say it.
    """

    def __init__(
        self,
        network: InProcess,
        rules: Rules,
        *,
        sees_updates: bool = False,
        holds_transformed: bool = False,
        with_a_client: str = "",
        least: int = 0,
    ) -> None:
        self.log: list[Disclosure] = []
        self.below_floor: list[BelowFloor] = []
        self.sketched: list[Sketched] = []
        self.opened: list[Opened] = []
        self.asked: list[Asked] = []
        self.sees_updates = sees_updates
        self.holds_transformed = holds_transformed
        self.with_a_client = with_a_client
        self.ledgers_of: list[Ledgers] = []
        self.noted: Callable[[Disclosure], None] = lambda _: None
        self._network = network
        self.least = max(rules.least, least)

    @property
    def faults(self) -> list[Fault]:
        """Messages that some party refused, and vectors that were rejected, in order."""
        return self._network.faults

    @property
    def traffic(self) -> Traffic:
        return Traffic(self._network.messages, self._network.bytes_up, self._network.bytes_down)

    @property
    def costs(self) -> Mapping[int, Cost]:
        """What each party has spent since the view was opened, keys and seeds included, by party id. Not kept by snapshots."""
        return self._network.costs

    @property
    def ledgers(self) -> "Mapping[tuple[int, Unit], Ledger]":
        """What each client's unit has spent of its privacy budget; empty where no answer has noise."""
        return {key: ledger for of in self.ledgers_of for key, ledger in of().items()}

    # --- by the parts of a view -----------------------------------------------------------------------------------------

    def disclose(
        self,
        round: int,
        to: Recipient,
        what: str,
        about: tuple[int, ...],
        scalars: int,
        words: str,
        client: int | None = None,
    ) -> None:
        """Enter an answer. scalars: numbers in it. One that is about nobody and has none was given by nobody."""
        if not about and not scalars:
            return
        width = 8 if what.startswith("gram") or what == "scores" else 4
        self.log.append(Disclosure(round, to, what, about, scalars, width * scalars, words, client))
        self.noted(self.log[-1])

    def ask(
        self, round: int, cluster: str, kind: Work, clients: Iterable[int], answered: Iterable[int], apart: bool = False
    ) -> None:
        """Enter who of a cluster was asked for work, and who answered. apart: whether clients start from models of their own, and
        who is asked together is no cluster.
        """
        self.asked.append(Asked(round, cluster, kind, tuple(clients), tuple(answered)))
        self.name(round, self.asked[-1].clients, apart or kind == "slots")

    def name(self, round: int, clients: tuple[int, ...], apart: bool) -> None:
        """Enter that each of these was told who they are, by its task. apart: as in `ask`."""
        self.disclose(round, "clients", ROSTER, clients, 0, TAKE_PART if apart else IN_CLUSTER)

    def open(self, updates: Updates, answer: Sum, row: Row, times_samples: bool = False) -> None:
        """Enter a published sum, with the weights of those that are in it."""
        kind = kind_of(updates.name.rpartition("/")[2])
        there = {i: row[i] for i in answer.clients if i in row}
        lost = tuple(i for i in row if row[i] and i not in there)
        self.opened.append(Opened(updates.round, updates.cluster, kind, there, times_samples, answer.recipient, lost=lost))

    def open_slots(self, round: int, name: str, answers: Iterable[Sum | BelowFloor]) -> None:
        """Enter the published sums of slots."""
        there = ((k, answer) for k, answer in enumerate(answers) if isinstance(answer, Sum))
        self.opened += [
            Opened(round, f"{name}/{k}", "slots", dict.fromkeys(sum_.clients, 1.0), to=sum_.recipient, slot=k)
            for k, sum_ in there
        ]

    def unsummed(
        self, name: str, clients: tuple[int, ...], fewest: int = 0, shut: str = "", weights: Iterable[float] = ()
    ) -> BelowFloor:
        """Enter a sum that ended below the floor. fewest: clients that this one had to have, where that is more. shut: why, of a
        slot whose choosers are hidden, or that nobody chose. weights: of all of these clients, where they are known.
        """
        alike = len({*weights}) == 1
        self.below_floor.append(BelowFloor(name, clients, max(self.least, fewest), shut, alike))
        return self.below_floor[-1]

    def fault(self, blame: int, reason: str) -> None:
        """Enter what a party refused, or what went wrong."""
        self.faults.append(Fault(blame, reason))

    def reject(self, clients: Iterable[int], reason: str = UNUSABLE) -> None:
        """Enter work of these clients that cannot be used."""
        self.faults.extend(Fault(i, reason, True) for i in clients)
