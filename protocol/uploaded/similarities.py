"""Inner products of uploads, of the round or kept."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..parts.gram import about, centred, cosine_block, gram_matrix, rounding
from ..parts.history import History, of_split, parted
from ..parts.run import Ids, Run
from ..view.answers import Gram, Remembered, Updates, Vector
from ..view.functionality import Functionality
from .uploading import Answering, Uploads


class UploadSimilarities:
    """Answers Gram matrices and cosines."""

    def __init__(self, run: Run, uploads: Uploads, history: History, how: Answering) -> None:
        self._run = run
        self._uploads = uploads
        self._history = history
        self._how = how

    def gram(self, updates: Updates, /, *, origin: bool = False) -> Gram:
        """See `Similarities`."""
        self._run.allow(Functionality.GRAM_ORIGIN if origin else Functionality.GRAM)
        rows = self._uploads.rows(updates, updates.clients)
        return self._compared(updates.round, "gram", updates.clients, rows, origin)

    def recall(self, round: int, kept: Sequence[Remembered], /) -> Gram:
        """See `Recalls`."""
        self._run.allow(Functionality.GRAM_RECALL)
        rows = {i: row for handle in kept for i, row in zip(handle.rows, self._history.recalled(handle), strict=True)}
        clients, parts = parted(kept)
        found = self._compared(round, "gram(recall)", clients, [rows[i] for i in clients], True)
        return replace(found, matrix=centred(found.matrix, parts))

    def cosines(self, updates: Updates, remembered: Remembered, /) -> NDArray[np.float64]:
        """See `Recalls`."""
        run = self._run
        run.allow(Functionality.GRAM_REMEMBER, Functionality.GRAM_EDGE)
        new, rows = [*self._uploads.lasting(updates, updates.clients).values()], self._history.recalled(remembered)
        if of_split(remembered) and rows:
            new, rows = about(rows, new), about(rows, rows)
        whom = tuple(sorted({*updates.clients, *remembered.clients}))
        words = "inner products with updates of earlier rounds"
        run.record.disclose(updates.round, "server", "gram(remember)", whom, len(new) * len(rows), words)
        with run.timed():
            return cosine_block(new, rows)

    def _compared(self, round: int, what: str, clients: Ids, rows: Sequence[Vector], origin: bool) -> Gram:
        size = len(rows) * (len(rows) + 1) // 2
        self._run.record.disclose(round, "server", what, clients, size, "all inner products and norms of the updates")
        with self._run.timed():
            matrix = gram_matrix(rows) if origin else centred(gram_matrix(rows))
        return Gram(clients, matrix, self._how.tolerance + rounding(self._how.length))
