"""What a client or the dealer has for the second server, on a link of its own to it.

The first server sees nothing of this link: it can neither read nor alter what goes there, nor hold it back or send it again. The
second server asks, session by session, and is answered when there is something, or when there will be nothing.
"""

import threading
from collections.abc import Iterable

from ..core.errors import Refused
from ..drivers.roles import drop_oldest
from ..links.dialled import Dialled
from ..wire.codec import Buffer, first_items
from ..wire.fields import DIGEST_BYTES

MOST = 64
"""Of so many sessions it is known what there is for them, and so many questions may be open."""


class Aside:
    """A party's link to the second server, answered in a thread of its own from `start` to `stop`."""

    def __init__(self, link: Dialled) -> None:
        self.link = link
        self._there: dict[bytes, bytes] = {}
        self._asked: dict[bytes, int] = {}
        self._lock = threading.Lock()
        self._failed: BaseException | None = None

    def start(self, drawn: bytes, beside: Dialled | None = None) -> None:
        """Connect. drawn: what names the run. beside: the link to the coordinator; when that has ended, nobody waits any more
        for the second server. Raises Refused where another run is played there, LinkRefused, ConnectionError.
        """
        if beside is not None:
            threading.Thread(target=self._stop_after, args=(beside,), name="cloister aside ends", daemon=True).start()
        if self.link.start() != drawn:
            self.link.stop()
            raise Refused("the second server plays another run than the coordinator")
        threading.Thread(target=self._play, name="cloister aside", daemon=True).start()

    def check(self) -> None:
        """Raises what ended the link, if it was not the second server that ended it in order."""
        if self._failed is not None:
            raise self._failed

    def followed(self, told: Buffer, frames: Iterable[bytes]) -> None:
        """A frame of the coordinator's led to these for the second server, or to none for its session."""
        found = {_session(frame): frame for frame in frames}
        with self._lock:
            for session, frame in found.items():
                self._have(session, frame)
            if told and (session := _session(told)) not in self._there:
                self._have(session, b"")

    def stop(self) -> None:
        """End the connection."""
        self.link.stop()

    def _stop_after(self, beside: Dialled) -> None:
        beside.ended.wait()
        self.link.stop()

    def _play(self) -> None:
        try:
            for number, word in self.link.words():
                session = bytes(word)
                with self._lock:
                    if len(session) != DIGEST_BYTES:
                        self.link.answer(number, b"")
                    elif session in self._there:
                        self._answer(number, self._there[session])
                    else:
                        self._asked[session] = number
                        for oldest in list(self._asked)[:-MOST]:
                            self.link.answer(self._asked.pop(oldest), b"")
        except Exception as error:  # whoever plays the party looks at it (`check`)
            self._failed = error

    def _have(self, session: bytes, frame: bytes) -> None:
        self._there[session] = frame
        drop_oldest(self._there, MOST)
        if (number := self._asked.pop(session, None)) is not None:
            self._answer(number, frame)

    def _answer(self, number: int, frame: bytes) -> None:
        """To this question; to those before it there is nothing any more, as sessions of a party come one after another."""
        for session in [session for session, earlier in self._asked.items() if earlier < number]:
            self.link.answer(self._asked.pop(session), b"")
        self.link.answer(number, frame)


def _session(frame: Buffer) -> bytes:
    """Of a frame; empty of what is none."""
    try:
        found = first_items(frame, 2)[1]
    except (ValueError, IndexError, TypeError):
        return b""
    return found if isinstance(found, bytes) else b""
