"""Playing a search: its plan asks for tries, worker processes play them, and every line is on disk before more is asked for."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import FunctionType
from typing import Any

from ..fl.functions import digest_of
from ..fl.runs.results_folder import Row
from ..fl.runs.scenario import described
from ..grids.ledger import Ledger
from ..grids.workers import Crew
from ..threat_models.search.plan import Hunt
from ..threat_models.search.play import Try
from ..threat_models.search.space import Space

FORMAT = 2
"""Of a try's line; lines of another format are played anew."""


@dataclass(frozen=True, slots=True)
class Named:
    """Names tries by what they resolve to, as far as it is described: not the data. own: what the user's own attacks are made
    of.
    """

    about: str
    own: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Of the search: 24 hex digits, in every line of it."""
        return hashlib.sha256(self.about.encode()).hexdigest()[:24]

    @classmethod
    def of(cls, space: Space) -> "Named":
        made_of = {"format": FORMAT, "scenario": described(space.scenario), "knows": space.knows.name}
        return cls(json.dumps(made_of, sort_keys=True), {name: _made_of(attack) for name, attack in space.own.items()})

    def key(self, one: Try) -> str:
        """24 hex digits of a hash."""
        own = self.own.get(str(one.numbers.get("attack")), "")
        return hashlib.sha256((self.about + own + json.dumps(asdict(one), sort_keys=True)).encode()).hexdigest()[:24]


def _made_of(attack: Any) -> str:
    """An attack of the user's own with its code, so that one that was edited is another."""
    kind = attack if isinstance(attack, type) else type(attack)
    call = vars(kind).get("__call__")
    code = digest_of(call) if isinstance(call, FunctionType) else ""
    return json.dumps([described(attack), code], sort_keys=True)


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
        tasks.append(((ledger.key(one), one), None if one.is_clean or one.is_absent else ledger.rows[ledger.key(one.clean)]))
    for _, row in crew.play(tasks, lambda cell, line: ()):
        yield ledger.enter({**row, "about": about})
