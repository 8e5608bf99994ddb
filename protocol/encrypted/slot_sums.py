"""Sums into K slots with the choice hidden, in the view of the encrypted sum: two of them, opened by the members."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...crypto.ckks import SUMS as SUM_PARAMETERS
from ..answers import Assignment, BelowFloor, Sum, Updates, Vector
from ..errors import Refused
from ..held_view import HeldView
from ..in_process import Fault
from ..messages import HEAD_BYTES, Task
from ..roles import Effect, Party, Worked
from ..session import SERVER, Session
from ..slot_work import check, misfit
from ..view import LocalWork
from ..view_base import Clients, unused
from . import sum as encrypted_sum
from .keys import Failed, KeyName, RelayedKey
from .messages import SEALED_BYTES
from .scaling import Values, Weighting, unsummable
from .slots import COUNTS, SUMS, EncryptedSlots

Perform = Callable[[list[tuple[int, Task]]], Iterator[tuple[int, Worked]]]
OF_ALL = "nothing without the seed that every client holds; with it, what each client chose and computed"
OF_SUMS = "the mean and the weight of every open slot, be it of few clients by now; whoever holds the key could open more"


class EncryptedSlotSums(HeldView):
    """Answers sums into slots. `EncryptedView` has what is declared here."""

    _holders: dict[int, Party]
    _opened: dict[bytes, Vector]

    def _new_keys(self, rosters: Mapping[KeyName, Clients]) -> dict[KeyName, RelayedKey]:
        raise NotImplementedError

    def _run(self, parties: Mapping[bytes, Party], opening: Iterable[Effect], perform: Perform | None = None) -> None:
        raise NotImplementedError

    def slots(self, round: int, name: str, work: Assignment, most: int = 1, /) -> Sequence[Sum | BelowFloor]:
        """Members open both sums and tell the server the counts and the weights; it takes what most of them say.

        A slot stays shut, and nothing of it is sent, unless `floor` clients were counted in it; that is what the members say,
        and clients take the server's word for it. One that clients are lost from until the sums, so that fewer are left, is not
        answered; but members have read it. Whoever holds the key could open more: each client's own ciphertexts.
        """
        count, d = check(work, most), len(self._setup.initial)
        labels = [f"{name}/{k}@{round}" for k in range(count)]
        how = EncryptedSlots(count, d, most, max(self._floor, 2))
        members = work.members or work.participants
        for party in self._holders.values():  # as all parties agreed beforehand
            party.state = replace(party.state, slots=how)
        results: dict[int, LocalWork] = {}

        def perform(tasks: list[tuple[int, Task]]) -> Iterator[tuple[int, Worked]]:
            for client, result in self._worked(tasks, "slots"):
                with self._network.timed(client):
                    reason = misfit(result, count, d, most) or unsummable(result.vector.ravel(), 1)
                if reason is not None:
                    self._reject([client], reason)
                    continue
                results[client] = result
                yield client, Worked(np.zeros(0, np.float32), 1)

        updates = self._heard(round, {name: work}, "slots", perform)[name]
        self.clients.held[updates.name] = {i: results[i] for i in updates.clients}
        try:
            return self._counted_and_summed(how, updates, labels, members)
        except Refused as error:
            self._network.faults.append(Fault(SERVER, f"slots of {name}@{round}: {error}"))
            return tuple(self._unsummed(label, ()) for label in labels)

    def _counted_and_summed(
        self, how: EncryptedSlots, updates: Updates, labels: Sequence[str], members: Clients
    ) -> Sequence[Sum | BelowFloor]:
        """Both sessions. Raises Refused where there are no sums."""
        label = updates.name.replace("/slots", " slots")
        ended, _ = self._session_of(how, updates, (COUNTS, f"{label} counted"), updates.clients, members, how.ones)
        counts = ended.reported
        opened = frozenset(k for k, n in enumerate(counts) if n >= how.floor)
        if not opened:
            raise Refused(f"no slot was chosen by {how.floor} clients: {[int(n) for n in counts]}")
        bits = sum(1 << k for k in opened)  # in the session's name: clients that are told other slots use another key
        called = (SUMS, f"{label} {bits:x}")
        ended, means = self._session_of(how, updates, called, ended.clients, members, lambda work: how.rows(work, opened))
        now, weights = ended.reported[: how.count], ended.reported[how.count :]
        answered: list[Sum | BelowFloor] = []
        for k, slot in enumerate(labels):
            if k not in opened or now[k] < how.floor:
                answered.append(self._unsummed(slot, ()))
                continue
            name = unused(slot, self._means)
            self._means[name] = means[k]
            error = how.error(len(ended.clients), weights[k])
            answered.append(Sum(name, "clients", ended.clients, weights[k], 2.0**-24, None, error))
        return answered

    def _session_of(
        self,
        how: EncryptedSlots,
        updates: Updates,
        called: tuple[str, str],
        roster: Clients,
        members: Clients,
        rows: Callable[[LocalWork], Values],
    ) -> tuple[encrypted_sum.Summed, Vector]:
        """One session, and the means that members hold after it, float32 (K, d). called: its protocol and name.

        Raises Refused if it has no end.
        """
        protocol, label = called
        if len(roster) < how.floor:
            raise Refused(f"{len(roster)} clients take part where {how.floor} are the fewest")
        length = how.length(protocol)
        ciphertexts = -(-(length + 2) // SUM_PARAMETERS.slots)
        self._network.allow(ciphertexts * (SUM_PARAMETERS.ciphertext_bytes + 4) + SEALED_BYTES + HEAD_BYTES)
        session = Session(protocol, self._setup.run, updates.round, label, roster, how.floor)
        name = KeyName(self._setup.run, "sums", updates.round, label)
        if (key := self._new_keys({name: roster}).get(name)) is None:
            raise Refused(f"no client made the key of {label}")
        weighting = Weighting(dict.fromkeys(roster, 1.0), False)
        plan = encrypted_sum.SumPlan(session, key, weighting, length, members, how.reported(protocol))

        def perform(tasks: list[tuple[int, Task]]) -> Iterator[tuple[int, Worked]]:
            for client, work in self._results({i: updates.name for i, _ in tasks}):
                yield client, Worked(rows(work), 1)

        server = Party(SERVER, encrypted_sum.Adding(plan), encrypted_sum.server_step)
        self._run({session.digest: server}, encrypted_sum.invite(plan), perform)
        ended: encrypted_sum.Summed | Failed = server.state
        about = ended.clients if isinstance(ended, encrypted_sum.Summed) else roster
        self._disclose(updates.round, "server", "ciphertexts of slots", about, 0, OF_ALL)
        held = self._opened.pop(session.digest, None)
        if held is not None:  # though the server may not have heard of it
            words = OF_SUMS if protocol == SUMS else f"how many clients chose each of {how.count} slots, of small ones too"
            self._disclose(updates.round, "clients", "slots", about, how.count * (how.d + 2 if protocol == SUMS else 1), words)
        if isinstance(ended, Failed) or held is None:
            raise Refused(f"the encrypted sum {label} was not opened")
        self._network.faults += [Fault(i, "other counts or weights of slots than most members found") for i in ended.blame]
        words = "how many clients chose each slot, of small ones too, and the weights of open ones; and nothing of who did"
        self._disclose(updates.round, "server", "slots", about, plan.reported, words)
        return ended, held.reshape(-1, how.d)
