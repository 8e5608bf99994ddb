"""What clients spend on DP-SGD: a ledger of each, which it looks at before it trains.

Of each client, by itself: what it would release is put on its ledger first, and where that would go past its budget, it does not
train, and says why. Whether it is then told to anybody is of no account: a training is charged when it is done.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Self

from ...crypto.entropy import Entropy
from ...crypto.prg import KEY_BYTES
from .training import Job, Training

if TYPE_CHECKING:
    from ...protocol.privacy.ledger import Ledger, Release


@dataclass(frozen=True, slots=True)
class Spending:
    """Of the clients of a simulation. entropy: where each training's secret comes from. ledgers: by client.

    beside: what a client released about its records by other noise, which counts as well. declined: who did not train, for
    its budget.
    """

    training: Training
    entropy: Entropy = field(repr=False)
    ledgers: dict[int, "Ledger"]
    beside: Callable[[int], Sequence["Release"]] = field(repr=False)
    declined: set[int] = field(default_factory=set)

    @classmethod
    def of(
        cls, training: Training, entropy: Entropy, clients: Iterable[int], beside: Callable[[int], Sequence["Release"]]
    ) -> Self:
        """Of these clients, before they train."""
        privacy = training.privacy
        ledgers = {} if privacy is None else {client: privacy.opened(client) for client in sorted(clients)}
        return cls(training, entropy, ledgers, beside)

    def released(self, client: int) -> Sequence["Release"]:
        """What this client released by training."""
        ledger = self.ledgers.get(client)
        return () if ledger is None else ledger.releases

    def admit(self, jobs: Sequence[Job]) -> tuple[list[Job], dict[int, str]]:
        """Jobs to train with noise, each with a secret of its own; and why other clients do none of theirs.

        A client does all of its jobs or none. Where no privacy is asked for, all are as they were.
        """
        privacy = self.training.privacy
        if privacy is None:
            return list(jobs), {}
        from ...protocol.privacy.ledger import BudgetExceeded

        reasons: dict[int, str] = {}
        admitted: dict[int, list[Job]] = {}
        for client in dict.fromkeys(job.client for job in jobs):
            own = [job for job in jobs if job.client == client]
            ledger = self.ledgers[client]
            try:
                with_others = replace(ledger, releases=(*ledger.releases, *self.beside(client)))
                for job in own:
                    release = privacy.release(len(job.examples), self.training.epochs, self.training.batch, len(job.start))
                    with_others, after = with_others + release, replace(ledger, releases=(*ledger.releases, release))
                    admitted.setdefault(client, []).append(replace(job, secret=self._secret(client, len(ledger.releases))))
                    ledger = after
            except BudgetExceeded as error:
                admitted.pop(client, None)
                reasons[client] = str(error)
                self.declined.add(client)
                continue
            self.ledgers[client] = ledger
        rest = {client: iter(own) for client, own in admitted.items()}
        return [next(rest[job.client]) for job in jobs if job.client in rest], reasons

    def _secret(self, client: int, before: int) -> bytes:
        """Of the training after so many: no two of a client share noise, whatever round they are of."""
        return self.entropy.secret(f"DP-SGD {client} {before}", KEY_BYTES)

    def save(self) -> list[dict[str, Any]]:
        """Plain JSON values; equal releases in a row are written once, with their number."""
        return [
            {
                **replace(ledger, releases=()).as_dict(),
                "releases": [[of.as_dict(), len(list(same))] for of, same in groupby(ledger.releases)],
            }
            for ledger in self.ledgers.values()
        ]

    def restore(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Go on from that. Raises ValueError for ledgers past their budget."""
        from ...protocol.privacy.ledger import Ledger

        self.ledgers.clear()
        for plain in saved:
            releases = [of for of, times in plain["releases"] for _ in range(times)]
            ledger = Ledger.from_dict({**plain, "releases": releases})
            self.ledgers[ledger.client] = ledger


def together(training: "Ledger", answers: "Ledger") -> "Ledger":
    """One ledger of a client's, of what it spent by training and by answers with noise of their own, for the same unit.

    Raises ValueError where their adjacency or delta differ.
    """
    if (training.adjacency, training.delta) != (answers.adjacency, answers.delta):
        raise ValueError("ledgers of one unit that differ in adjacency or delta")
    return replace(
        training,
        budget=max(training.budget, answers.budget),
        of=f"{training.of}; and {answers.of}",
        acknowledged=tuple(dict.fromkeys((*training.acknowledged, *answers.acknowledged))),
        releases=(*training.releases, *answers.releases),
    ).without(*answers.not_covered)
