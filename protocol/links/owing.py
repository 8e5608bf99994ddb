"""What clients owe a coordinator: words that were sent and are not answered, and the answers that came, of all of them.

All but `room` and the queues is for the loop's thread alone.
"""

import logging
import queue
import threading
import time
from collections.abc import Mapping

from .flow import Arrived, Misplaced
from .terms import CoordinatorRun, Limits
from .words import ANSWER, FORGOTTEN, Heard, Owed, Peer, behind_head

log = logging.getLogger("cloister.link")


class Owing:
    """peers: the clients. back: seconds in which those may be back that another life of the coordinator had.

    heard: answers that came. unsent: bytes of words on their way; held: of those without an answer, their own; both changed under
    `room`. slow: how often a client was given up.
    """

    def __init__(self, clients: tuple[int, ...], limits: Limits, run: CoordinatorRun, back: float) -> None:
        self.peers: Mapping[int, Peer] = {i: Peer(i, until=time.monotonic() + back) for i in clients}
        self.heard: queue.SimpleQueue[Heard] = queue.SimpleQueue()
        self.room = threading.Condition()
        self.unsent = self.held = 0
        self.slow = 0
        self._limits = limits
        self._run = run

    async def posted(self, client: int, parts: tuple[bytes, ...], own: int, given: int | None) -> int:
        """The client owes an answer to one word more; of one that is gone it is heard at once that there is none."""
        peer = self.peers[client]
        number = peer.number = peer.number + 1 if given is None else given
        if peer.expired or (peer.flow is None and not self._may_be_back(peer)):
            self.heard.put(Heard(client, number, None))
            self._let_go(Owed(parts, own, 0.0))
        else:
            peer.owed[number] = Owed(parts, own, time.monotonic())
            peer.news.set()
        return number

    def less_than(self, held: int) -> bool:
        """Whether words without an answer are shorter together."""
        return self.held < held

    def sent_off(self, size: int) -> None:
        """So many bytes are on their way no more."""
        with self.room:
            self.unsent -= size
            self.room.notify_all()

    def anew(self, peer: Peer) -> None:
        """What it owes is sent again: the connection before may have lost it."""
        with self.room:
            for owed in peer.owed.values():
                self.unsent += owed.size if owed.sent else 0
                owed.sent = False
        peer.news.set()

    def drop(self, peer: Peer, why: str) -> None:
        """Nothing that it owes is waited for any more."""
        if peer.owed:
            log.warning("absent", extra=peer.who | {"why": why, "owed": len(peer.owed)})
        for number, owed in peer.owed.items():
            self.heard.put(Heard(peer.id, number, None))
            self._let_go(owed)
        peer.owed.clear()

    def given_up(self, peer: Peer, now: float) -> None:
        """Unless it is there, and moves something in time, or may be back."""
        if not peer.owed:
            return
        since = next(iter(peer.owed.values())).since
        if peer.flow is None:
            if not self._may_be_back(peer):
                self.drop(peer, "its connection is lost")
            return
        if peer.flow.waits:  # for a slot: it is not its fault
            peer.moved = now
        if now - max(since, peer.moved) > self._limits.patience or now - since > self._limits.at_most:
            self.slow += 1
            peer.expired = {n for n, owed in peer.owed.items() if owed.sent}
            self.drop(peer, "slow")

    def settled(self, peer: Peer) -> int:
        """Up to which number the client need keep no answer."""
        lasting = self._run.settled
        return peer.settled if lasting is None else min(peer.settled, lasting.get(peer.id, 0))

    def answered(self, peer: Peer, arrived: Arrived) -> None:
        """Take an answer. Raises Misplaced."""
        if len(arrived.data) < ANSWER.size:
            raise Misplaced("an answer without a head")
        (number,) = ANSWER.unpack_from(arrived.data)
        number, forgotten = number & ~FORGOTTEN, number >= FORGOTTEN
        owed = peer.owed.pop(number, None)
        late = owed is None
        if late and number not in peer.expired:
            arrived.free()  # given already
            return
        if owed is not None:
            self._let_go(owed)
        newest = max(peer.expired, default=0)
        peer.expired.discard(number)
        if late and number == newest:
            peer.expired.clear()
            log.info("caught up", extra=peer.who)
        for later in peer.owed.values():
            later.since = max(later.since, time.monotonic())  # its time runs from when the one before is answered
        if forgotten:
            arrived.free()
            self.heard.put(Heard(peer.id, number, None, late))
        else:
            self.heard.put(Heard(peer.id, number, behind_head(arrived.data, ANSWER), late, arrived.free))

    def _let_go(self, owed: Owed) -> None:
        """No answer is due to this word any more."""
        with self.room:
            self.held -= owed.own
            self.unsent -= 0 if owed.sent else owed.size
            self.room.notify_all()

    def _may_be_back(self, peer: Peer) -> bool:
        return not peer.barred and time.monotonic() < peer.until
