"""Playing a search: its plan asks for tries, worker processes play them, and every line is on disk before more is asked for."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..fl.runs.results_folder import Row
from ..fl.runs.scenario import described
from ..grids.ledger import Ledger
from ..grids.workers import Crew
from ..threat_models.search.plan import Hunt
from ..threat_models.search.play import Try
from ..threat_models.search.space import Space

FORMAT = 1
"""Of a try's line; lines of another format are played anew."""


@dataclass(frozen=True, slots=True)
class Named:
    """Names tries by what they resolve to, as far as it is described: neither the code of functions nor the data."""

    about: str

    @property
    def id(self) -> str:
        """Of the search: 24 hex digits, in every line of it."""
        return hashlib.sha256(self.about.encode()).hexdigest()[:24]

    @classmethod
    def of(cls, space: Space, share: float) -> "Named":
        made_of = {"format": FORMAT, "scenario": described(space.scenario), "share": share, "knows": space.knows.name}
        return cls(json.dumps(made_of, sort_keys=True))

    def key(self, one: Try) -> str:
        """24 hex digits of a hash."""
        return hashlib.sha256((self.about + json.dumps(asdict(one), sort_keys=True)).encode()).hexdigest()[:24]


def play_hunt(hunt: Hunt, ledger: "Ledger[Try]", crew: Crew, about: str) -> Iterator[Row]:
    """Plays what the hunt asks for and is not known; yields every line that it is answered with, known ones too.

    about: the id of the search, for its lines. A try that fails has a line, too, and is not played again: it would fail again.
    """
    try:
        asked = next(hunt)
        while True:
            yield from _answers(asked, ledger, crew, about)
            asked = hunt.send([ledger.rows[ledger.key(one)] for one in asked])
    except StopIteration:
        return


def _answers(asked: Sequence[Try], ledger: "Ledger[Try]", crew: Crew, about: str) -> Iterator[Row]:
    tasks: list[tuple[Any, Any]] = []
    for one in asked:
        row = ledger.rows.get(ledger.key(one))
        if row is not None:
            yield row
            continue
        tasks.append(((ledger.key(one), one), None if one.is_absent else ledger.rows[ledger.key(one.absent)]))
    for _, row in crew.play(tasks, lambda cell, line: ()):
        yield ledger.enter({**row, "about": about})
