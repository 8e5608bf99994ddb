"""A client's process on its node, for as long as a run lasts: data, keys, roles and journal are here, and in no Flower process.

Flower makes a process for every message, and what it keeps between two of them (`Context.state`) it keeps in its own database. A
client in the middle of a round holds secrets that must never be used twice: were they stored there, whoever brings back an older
copy could have the client answer twice, and open its update. So they stay in this process' memory. Killed, it is started again
with the next message, from its journal: it takes part in nothing of that round any more, and in everything after it.

    python -m cloister.flower.resident FOLDER CLIENT SCENARIO [--own DATA] [--data DATA_SETS] [--idle SECONDS]
"""

import argparse
import fcntl
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..protocol.core.errors import Refused
from ..protocol.links.batches import Answers, Batch, answered
from .home import LOCK, SOCKET, listen, own_user, private_folder, receive, send

if TYPE_CHECKING:
    from ..fl.runs.member import Member

GREETING = "greeting"
IDLE = 24 * 3600.0
"""Seconds without a message after which a client's process ends."""
STALLED = 60.0
"""Seconds in which a message comes whole."""


class Resident:
    """A client and what it was greeted with. member: made with the first greeting. folder: its own, for this run."""

    def __init__(self, folder: Path, client: int, member: "Callable[[bytes], Member]") -> None:
        self.over = False
        self._folder, self._client, self._make = folder, client, member
        self._member: Member | None = None
        self._last = Answers(0)

    def answer(self, data: bytes) -> bytes:
        """To a message. One that comes again is answered as before; an older one, or one that it does not take, is refused."""
        try:
            batch = Batch.of(data)
        except Refused as error:
            return Answers(0, refusal=str(error)).encoded()
        if batch.number < self._last.number:
            return Answers(batch.number, refusal="a message from before one that was answered").encoded()
        if batch.number > self._last.number:
            try:
                member = self._greeted(batch.greeting)
            except (Refused, ValueError, OSError) as error:
                return Answers(batch.number, refusal=f"{error!s:.1000}").encoded()
            self._last = answered(batch, lambda word: self._said(member, word))
        return self._last.encoded()

    def _said(self, member: "Member", word: bytes) -> bytes:
        found = member.said(word)
        if found.final:
            member.record.add(ended=True)
            self.over = True
        return found.data

    def _greeted(self, greeting: bytes) -> "Member":
        """Raises Refused for a greeting that is another than the first of the run, and for none."""
        path = self._folder / GREETING
        known = path.read_bytes() if path.is_file() else b""
        if not (greeting or known):
            raise Refused("a word before the greeting")
        if greeting and known and greeting != known:
            raise Refused("the coordinator greets this client again, and otherwise")
        if self._member is None:
            self._member = self._make(known or greeting)
            if not known:
                partial = path.with_suffix(".partial")
                partial.write_bytes(greeting)
                partial.replace(path)
        return self._member


def serve(listening: socket.socket, answer: Callable[[bytes], bytes], over: Callable[[], bool], idle: float) -> None:
    """Answer one message after another, until all is over or none comes for `idle` seconds."""
    listening.settimeout(idle)
    while not over():
        try:
            link, _ = listening.accept()
        except TimeoutError:
            return
        with link, suppress(OSError):
            link.settimeout(STALLED)
            if own_user(link):
                data = receive(link)
                link.settimeout(None)
                send(link, answer(data))


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve; at once nothing where another process does."""
    parser = argparse.ArgumentParser(prog="python -m cloister.flower.resident")
    parser.add_argument("folder", type=Path)
    parser.add_argument("client", type=int)
    parser.add_argument("scenario")
    parser.add_argument("--own", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--idle", type=float, default=IDLE)
    given = parser.parse_args(arguments)
    os.umask(0o077)
    folder = private_folder(given.folder)
    lock = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    listening = listen(folder)  # whoever connects waits until the rest is there
    try:
        resident = Resident(folder, given.client, _maker_of(given, folder))
        serve(listening, resident.answer, lambda: resident.over, given.idle)
    finally:
        (folder / SOCKET).unlink(missing_ok=True)


def _maker_of(given: Any, folder: Path) -> "Callable[[bytes], Member]":
    """How the client is made when it is greeted; what is slow about it is done now."""
    from ..fl.runs.greeting import Greeting
    from ..fl.runs.member import Member

    loaded: list[Any] = []
    refused = ""
    try:
        from ..scenario_file import load

        loaded.append(load(given.scenario))
    except ValueError as error:
        refused = str(error)

    def make(data: bytes) -> Member:
        if refused:
            raise Refused(refused)
        greeting = Greeting.of(data)
        if greeting.client != given.client:
            raise Refused(f"the coordinator takes client {given.client} for client {greeting.client}")
        return Member(loaded[0], greeting, folder, own=given.own, data=given.data)

    return make


if __name__ == "__main__":
    main()
