"""Playing a search: its plan asks for tries, worker processes play them, and every line is on disk before more is asked for."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..fl.runs.results_folder import Row
from ..fl.runs.scenario import described
from ..grids.ledger import Ledger
from ..grids.workers import Crew
from ..threat_models.search.found import try_of
from ..threat_models.search.plan import Hunt
from ..threat_models.search.play import Try
from ..threat_models.search.space import Space
from ..threat_models.search.spent import since_counted, with_more_beside

FORMAT = 4
"""Of a try's line; lines of another format are played anew."""


@dataclass(frozen=True, slots=True)
class Named:
    """Names tries by what they resolve to, as far as it is described: not the data. own: a digest of each of the user's own
    attacks, its code included, so that one that was edited is another.
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

    def made_of(self, one: Try) -> str:
        """The digest of its attack; empty for one of Cloister's."""
        return self.own.get(str(one.numbers.get("attack")), "")

    def key(self, one: Try) -> str:
        """24 hex digits of a hash."""
        made_of = self.about + self.made_of(one)
        return hashlib.sha256((made_of + json.dumps(asdict(one), sort_keys=True)).encode()).hexdigest()[:24]


def _made_of(attack: Any) -> str:
    return hashlib.sha256(json.dumps(described(attack), sort_keys=True).encode()).hexdigest()[:8]


def play_hunt(hunt: Hunt, ledger: "Ledger[Try]", crew: Crew, named: Named) -> Iterator[Row]:
    """Plays what the hunt asks for and is not known; yields every line that it is answered with, known ones too.

    named: says in each line which search it is of, and by what code of an attack. A try that fails has a line, too, and is not
    played again: it would fail again.
    """
    try:
        asked = next(hunt)
        while True:
            yield from _answers(asked, ledger, crew, named)
            asked = hunt.send([ledger.rows[ledger.key(one)] for one in asked])
    except StopIteration:
        return


def _answers(asked: Sequence[Try], ledger: "Ledger[Try]", crew: Crew, named: Named) -> Iterator[Row]:
    tasks: list[tuple[Any, Any]] = []
    for one in asked:
        row = ledger.rows.get(ledger.key(one))
        if row is not None:
            yield row
            continue
        tasks.append(((ledger.key(one), one), None if one.is_clean or one.is_absent else ledger.rows[ledger.key(one.clean)]))
    for _, row in crew.play(tasks, lambda cell, line: ()):
        row = with_more_beside(row, since_counted())
        yield ledger.enter({**row, "about": named.id, "own": named.made_of(try_of(row))})
