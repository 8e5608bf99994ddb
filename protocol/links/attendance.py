"""Who of a coordinator's clients is not waited for any more, and who may not stay: looked at again and again."""

import asyncio
import logging
import time

from ..pki.names import name_of
from ..pki.standing import Standing
from .door import TAKEN_BACK, Door, TurnedAway
from .owing import Owing
from .terms import Limits

_TICK = 0.1
_NEWS, _ANEW = 1.0, 60.0
"""Seconds after which the authority's files are looked at, and after which those who are there are asked about in any case."""
_QUIET = 10.0
"""Seconds that an answer is waited for of somebody who is not connected, before the log says so."""
log = logging.getLogger("cloister.link")


class Attendance:
    """standing: the coordinator's own; None without certificates. revoked: how often somebody was sent away for good."""

    def __init__(self, owing: Owing, door: Door, standing: Standing | None, limits: Limits) -> None:
        self.revoked = 0
        self._awaited: set[int] = set()
        self._owing, self._door, self._standing, self._limits = owing, door, standing, limits

    async def watch(self) -> None:
        """Find out who owes an answer and moves nothing, who keeps a slot from others, and whom the authority has sent away."""
        looked = asked = time.monotonic()
        known = self._standing and self._standing.known
        self._taken_back()
        while True:
            await asyncio.sleep(_TICK)
            now = time.monotonic()
            if self._standing is not None and now - looked > _NEWS:
                looked = now
                self._standing.look_again()
                if known != self._standing.known or now - asked > _ANEW:
                    known, asked = self._standing.known, now
                    self._ask_anew()
            for peer in self._owing.peers.values():
                if (
                    peer.leave is not None
                    and peer.flow is not None
                    and peer.flow.stalled(self._limits.patience, self._limits.at_most)
                ):
                    peer.leave("DEADLINE_EXCEEDED", "its long message moves too slowly, and others wait for its slot")
                self._owing.given_up(peer, now)
            self.name_awaited(now)

    def name_awaited(self, now: float) -> None:
        """Whose answer is waited for though they are not connected, as they may be back: in the log, once while it is so."""
        away = {peer.id: peer.until for peer in self._owing.peers.values() if peer.flow is None and peer.owed}
        due = {i for i in away if now - next(iter(self._owing.peers[i].owed.values())).since > _QUIET}
        if due - self._awaited:
            whom = {"parties": [name_of(i) for i in sorted(due)], "seconds": round(max(away[i] for i in due) - now)}
            log.info("waits for who may be back", extra=whom)
        self._awaited = due

    def _ask_anew(self) -> None:
        """Whether those who are there may still be; others leave, and nobody waits for them."""
        for peer in self._owing.peers.values():
            if peer.leave is None:
                continue
            try:
                self._door.whose(peer.certificate)
            except TurnedAway as away:
                peer.revoked = away.code == TAKEN_BACK  # else a list has expired, or a clock jumped: that is nobody's revocation
                self.revoked += peer.revoked
                log.warning("sent away", extra=peer.who | {"why": str(away)})
                peer.barred = True
                self._owing.drop(peer, str(away))
                peer.leave(away.code, away.words)
        self._taken_back()

    def _taken_back(self) -> None:
        """Who is away and was revoked, before this coordinator was there too, does not come: nobody waits for it."""
        if (standing := self._standing) is None:
            return
        for peer in self._owing.peers.values():
            if peer.flow is None and not peer.barred and standing.took_back(peer.id):
                peer.revoked = peer.barred = True
                self._owing.drop(peer, "its certificate is revoked")
