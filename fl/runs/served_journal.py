"""The coordinator's journal in its run folder: how it began, a log of what it heard before the first round, and one per round.

`journal/` is as secret as the coordinator's process: it has mode 0700, its files 0600. A round's log begins with where the words
to each client were; it is there before the checkpoint that it goes on from, so a crash leaves a checkpoint and what was heard
since. The logs of two rounds are kept, as two checkpoints are. How often the coordinator was started is in `life`, which is on
disk before it listens: who has seen a later life, or a word that the journal does not know of, tells it that it is an older copy.
"""

import fcntl
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cbor2

from ...protocol.drivers.event_log import EventLog
from .begun_with import other_fields
from .checkpoint import KEPT

JOURNAL = "journal"
_SETUP, _LIFE = "setup", "life"
RUN_BYTES, ROOT_BYTES = 16, 32


class ServedJournal:
    """The journal under a run's folder, made where there is none. run: what was drawn to name the run. root: of the coordinator's
    secrets. enrolled: clients' identities when the run began, by use and id, as the directory had them; None without one.

    life: of the coordinator, counted from 1. Raises ValueError of one line for the journal of another scenario.
    """

    def __init__(self, out: Path, scenario: Mapping[str, Any], enrolled: Mapping[str, Mapping[int, bytes]] | None = None) -> None:
        self.folder = out / JOURNAL
        plain = cbor2.dumps({key: value for key, value in scenario.items() if key != "rounds"}, canonical=True)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise ValueError(f"another process plays the run in {out}; end it, or choose another --out") from None
        if not (self.folder / _SETUP).exists():
            begun = [os.urandom(RUN_BYTES), os.urandom(ROOT_BYTES), plain, enrolled]
            EventLog.begun(self.folder / _SETUP, cbor2.dumps(begun)).close()
        self.setup = EventLog(self.folder / _SETUP)
        first = next(self.setup.records(), None)
        if first is None:
            raise ValueError(f"{self.folder / _SETUP} is damaged at its beginning; the run cannot go on")
        self.enrolled: Mapping[str, Mapping[int, bytes]] | None
        self.run, self.root, begun_with, self.enrolled = cbor2.loads(first)
        if begun_with != plain:
            what = ", ".join(other_fields(cbor2.loads(begun_with), cbor2.loads(plain))) or "scenario"
            raise ValueError(f"the run in {out} was begun with another {what}; resume it with that one, or choose another --out")
        self.life = self._lived()

    @classmethod
    def there(cls, out: Path) -> bool:
        """Whether there is one."""
        return (out / JOURNAL / _SETUP).exists()

    @property
    def began(self) -> bool:
        """Whether a round has begun."""
        return any(self.folder.glob("round-*[0-9]"))

    def of(self, round: int, first: Any) -> EventLog:
        """The log of a round, begun with this record where there is none. The logs of older rounds go.

        Raises ValueError where others have gone on.
        """
        path = self.folder / f"round-{round:06d}"
        if path.exists():
            return EventLog(path)
        logs = sorted(self.folder.glob("round-*[0-9]"))
        if (logs or round) and (not logs or logs[-1].name != f"round-{round - 1:06d}"):
            raise ValueError(f"{self.folder} has no {path.name}, which the checkpoint goes on from; the run cannot go on")
        log = EventLog.begun(path, cbor2.dumps(first))
        for old in logs[: 1 - KEPT or None]:
            old.unlink()
        return log

    def close(self) -> None:
        """Another process may go on."""
        os.close(self._lock)

    def over(self) -> None:
        """The run is over, or did not begin, and clients were told: there is nothing to go on from."""
        over = self.folder.with_suffix(".over")  # at once: half of one would be an older copy
        self.folder.replace(over)
        shutil.rmtree(over)

    def _lived(self) -> int:
        """Count this life."""
        path = self.folder / _LIFE
        before = next(EventLog(path).records(), b"\0") if path.exists() else b"\0"
        life = int.from_bytes(before, "big") + 1
        EventLog.begun(path, life.to_bytes(8, "big")).close()
        return life
