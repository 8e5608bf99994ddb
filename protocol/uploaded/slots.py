"""Sums into slots of uploads: the server is shown who chose what, with what share; the floor is counted by choosers."""

from collections.abc import Sequence

import numpy as np

from ..core.session import SERVER
from ..drivers.roles import Party
from ..parts.models import Models
from ..parts.run import Run
from ..parts.slot_words import too_few_chose
from ..parts.tasks import session_of
from ..view.answers import Assignment, BelowFloor, Sum
from ..view.functionality import Functionality
from ..wire.messages import HEAD_BYTES
from ..work.slot_work import check, unfair, unpacked
from ..work.upload_server import CollectingUploads, UploadsCollected, server_step
from .sums import UploadSums
from .uploading import Answering, Uploads


class UploadSlots:
    """Answers sums into slots."""

    def __init__(self, run: Run, models: Models, uploads: Uploads, sums: UploadSums, how: Answering) -> None:
        self._run = run
        self._uploads = uploads
        self._sums = sums
        self._how = how

    def slots(self, round: int, name: str, work: Assignment, most: int = 1, /) -> Sequence[Sum | BelowFloor]:
        """See `Slots`."""
        run, length = self._run, self._how.length
        run.allow(Functionality.SLOTS)
        count, d = check(work, most), len(run.setup.initial)
        session = session_of(run, round, name, work.participants, "slots")
        party = Party(SERVER, CollectingUploads(session, count * (length + 1)), server_step)
        run.network.allow(4 * count * (max(length, d) + 1) + HEAD_BYTES)
        self._uploads.play({name: work}, "slots", {name: session}, {name: party}, most=most)
        collected: UploadsCollected = party.state
        run.record.reject(collected.rejected)
        run.record.ask(round, name, "slots", work.participants, collected.received)
        uploads = {i: unpacked(vector, count) for i, (vector, _) in collected.received.items()}
        for i in [i for i, (_, shares) in uploads.items() if unfair(shares.tolist(), most) is not None]:
            run.record.reject([i], f"its shares are not whole numbers from 0 to {most}")
            del uploads[i]
        words = f"of each client's vectors for {count} slots: {self._how.seen}; and which slots it chose, with what share"
        words += run.setup.carried
        run.record.disclose(round, "server", "slots", tuple(uploads), len(uploads) * count * (length + 1), words)
        answered: list[Sum | BelowFloor] = []
        opened: list[dict[int, float]] = []
        for k in range(count):
            label, row = f"{name}/{k}@{round}", {i: float(shares[k]) for i, (_, shares) in uploads.items() if shares[k]}
            if uploads and not row:
                answered.append(run.record.unsummed(label, (), shut=too_few_chose(0, run.gate.rules.least)))
                continue
            if run.gate.rules.reveals([*opened, row]):  # clients' shares of several slots: the later ones stay shut
                answered.append(run.record.unsummed(label, tuple(row)))
                continue
            opened.append(row)
            total = np.zeros(length)
            with run.timed():
                for client, a in row.items():
                    total += a * uploads[client][0][k].astype(np.float64)
            answered.append(self._sums.publish(label, session, row, total, work.members, told="the mean update of a slot"))
        run.record.open_slots(round, name, answered)
        return answered
