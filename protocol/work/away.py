"""Clients in processes of their own, which the server's process reaches over pipes: by frames, and by words of who plays a run.

Nothing but bytes crosses a pipe. A client's process makes the client, from a setup that is made there, with entropy, computers
and data of its own; it decodes what it is sent, finds the role that takes it by the kind of message, does its work, and encodes
its answers. Roles, messages and their order are those of one process: what is different is who can look at what.
"""

import multiprocessing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import cbor2

from ..drivers.journal import InFile, InMemory
from ..view.protection import Setup
from .driving import MOST_BYTES, Driven
from .far import Far, answer
from .maker import Maker

SetupOf = Callable[[int], Setup]
"""In a client's process, what it begins with: its own entropy, computers and data, and nobody else's. It must pickle."""


@dataclass(frozen=True, slots=True)
class Processes:
    """Where clients live: a process for each. setup_of: called there. clients: their ids. folder: where each has its journal, so
    that it can be started again; None for journals in memory. started: those that run.
    """

    setup_of: SetupOf
    clients: tuple[int, ...]
    folder: Path | None = None
    started: dict[int, "Away"] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __call__(self, maker: Maker) -> Mapping[int, "Away"]:
        """Start them all."""
        self.stop()
        if self.folder is not None:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for i in self.clients:
            self.started[i] = Away(i, self.setup_of, maker, None if self.folder is None else self.folder / f"client {i}.journal")
        return dict(self.started)

    def stop(self) -> None:
        """End all processes."""
        for away in self.started.values():
            away.stop()
        self.started.clear()


class Away(Far):
    """A client in a process of its own, over a pipe."""

    def __init__(self, id: int, setup_of: SetupOf, maker: Maker, journal: Path | None = None) -> None:
        super().__init__(id)
        self._made = id, setup_of, maker, journal
        self.start()

    def start(self) -> None:
        """Start its process; again after a crash, from its journal."""
        context = multiprocessing.get_context("forkserver")  # a fresh process, which has nothing of this one
        made_by = getattr(self._made[1], "func", self._made[1]).__module__  # imported once, and not by each client anew
        context.set_forkserver_preload([f"{__package__.rpartition('.')[0]}.messages", __name__, made_by])
        self._link, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, *self._made), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def process(self) -> int | None:
        """Its process' id."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether its process does."""
        return self._process.is_alive()

    def ask(self, *words: Any) -> Any:
        """The answer to these words; None of a client whose process is gone."""
        try:
            self._link.send_bytes(cbor2.dumps(words))
            return cbor2.loads(self._link.recv_bytes(MOST_BYTES))
        except (EOFError, OSError):
            return None

    def kill(self) -> None:
        """End its process at once, as a crash would."""
        self._process.kill()
        self._process.join()
        self._link.close()

    def stop(self) -> None:
        """End its process."""
        self._link.close()
        self._process.join()


# --- in the client's process ----------------------------------------------------------------------------------------------


def _serve(link: Connection, id: int, setup_of: SetupOf, maker: Maker, path: Path | None) -> None:
    """Answer one word after another, until the pipe is closed."""
    driven = Driven(id, setup_of(id), maker, InMemory() if path is None else InFile(path))
    while True:
        try:
            what, *of = cbor2.loads(link.recv_bytes(MOST_BYTES))
            link.send_bytes(cbor2.dumps(answer(driven, what, *of)))
        except (EOFError, OSError):
            return
