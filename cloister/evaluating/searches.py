"""Breakdown searches over an evaluation: for each attack, defence and seed the smallest strength that breaks it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite

from ..fl.runs.results_folder import Row
from ..grids.spread import metric
from ..grids.workers import Crew
from ..threat_models.breakdown import Found, Search, Steps, search
from ..threat_models.broken import Bounds, breaks, gained, lost, lost_at_end, ruined
from ..threat_models.cell import idle
from ..threat_models.chance import gave_up, of_rows
from ..threat_models.evaluation import ABSENT, Cell, clean_cells, names_of
from .data import is_measure
from .run import Ledger, arrange
from .workers import Task


@dataclass(frozen=True, slots=True)
class Searched:
    """One search: of an attack on a defence under a protection with one seed. reason: why there is no result, or empty.

    by: what broke at each strength that broke the defence, as `broken.breaks` says it.
    """

    attack: str
    defence: str
    protection: str
    seed: int
    found: Found | None
    reason: str = ""
    partition: str = ""
    by: dict[float, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Running:
    """A search under way, at the cell that it waits for."""

    driven: Search
    clean: Row
    by: dict[float, str] = field(default_factory=dict)
    begun: bool = False


def play_searches(
    ledger: Ledger,
    crew: Crew,
    steps: Steps,
    attacks: Sequence[str],
    defences: Sequence[str],
    protections: Sequence[str],
    bounds: Bounds | None = None,
) -> Iterator[Searched]:
    """A search for each combination and each of the evaluation's seeds; yields as they end. Cells known already are not played.

    bounds: when a defence is broken; None for the evaluation's. Cells of several searches are played side by side; what a search
    tries depends on its own cells alone. Runs without the attackers' data are played where the run without attack alone would
    say that a defence is broken.
    """
    return _Searches(ledger, steps, bounds or ledger.evaluation.bounds).play(crew, attacks, defences, protections)


@dataclass(slots=True)
class _Searches:
    ledger: Ledger
    steps: Steps
    bounds: Bounds
    running: dict[Cell, _Running] = field(default_factory=dict)
    fresh: dict[Cell, Row] = field(default_factory=dict)
    waiting: dict[Cell, list[Cell]] = field(default_factory=dict)
    ended: list[Searched] = field(default_factory=list)

    def play(self, crew: Crew, attacks: Sequence[str], defences: Sequence[str], protections: Sequence[str]) -> Iterator[Searched]:
        cleans = [c for c in clean_cells(self.ledger.evaluation) if c.defence in defences and c.protection in protections]
        known = {cell: row for cell in cleans if (row := self.ledger.known(cell)) is not None}
        tasks: list[Task] = [(cell, None) for cell in cleans if cell not in known]
        tasks += [task for cell, row in known.items() for task in self._begin(cell, row, attacks)]

        def after(cell: Cell, row: Row) -> Iterable[Task]:
            if cell.attack is None:
                return list(self._begin(cell, row, attacks))
            self.fresh[cell] = row
            of = self.waiting.pop(cell, [replace(cell, strength=None)])
            return [task for one in of for task in self._advance(one, float(cell.strength or 0.0))]

        for _, row in crew.play(tasks, after):
            self.ledger.enter(row)
            yield from self.ended
            self.ended.clear()
        yield from self.ended
        arrange(self.ledger)

    def _begin(self, clean: Cell, row: Row, attacks: Sequence[str]) -> Iterator[Task]:
        never = idle(row) if row["status"] == "done" else ""
        reason = f"it does not work without attack either: {never}" if never else row["reason"]
        for attack in attacks:
            of = replace(clean, attack=attack)
            if row["status"] != "done" or never:
                self._end(of, None, reason)
                continue
            self.running[of] = _Running(search(self.steps), row)
            yield from self._advance(of, None)

    def _advance(self, of: Cell, strength: float | None) -> Iterator[Task]:
        """Sends the search what it asked for, and what is known of what it asks next, until a cell must be played. strength: that
        it asked for; None to begin.
        """
        one = self.running[of]
        try:
            strength = next(one.driven) if strength is None else strength
            while True:
                asked = replace(of, strength=strength)
                if (answer := self._known(asked)) is None:
                    yield asked, one.clean
                    return
                if why := without_result(answer):
                    self._end(of, None, f"at strength {answer['strength']:g}: {why}")
                    return
                absent = self._absent(asked, answer)
                if absent is not None and (beside := self._known(absent)) is None:
                    others = self.waiting.setdefault(absent, [])
                    others.append(of)
                    if len(others) == 1:
                        yield absent, one.clean
                    return
                by = broken_by(answer, None if absent is None else beside, self.bounds, of_rows([one.clean]))
                if by:
                    one.by[strength] = by
                strength = one.driven.send(bool(by))
        except StopIteration as end:
            self._end(of, end.value, "")

    def _known(self, cell: Cell) -> Row | None:
        return self.fresh.get(cell) or self.ledger.known(cell)

    def _absent(self, cell: Cell, answer: Row) -> Cell | None:
        """The run without the attackers' data that decides a cell; None where there is none, or it could change nothing."""
        if not broken_by(answer, None, self.bounds).startswith("accuracy"):
            return None
        evaluation = self.ledger.evaluation
        plays = ABSENT not in evaluation.attacks and ABSENT in names_of(evaluation, float(cell.strength or 0.0))
        return replace(cell, attack=ABSENT) if plays else None

    def _end(self, of: Cell, found: Found | None, reason: str) -> None:
        by = self.running[of].by if of in self.running else {}
        self.ended.append(Searched(str(of.attack), of.defence, of.protection, of.seed, found, reason, of.partition, by))


def without_result(row: Row) -> str:
    """Why a cell says nothing of whether it breaks the defence; empty where it does."""
    if row["status"] != "done":
        return str(row["reason"])
    known = isfinite(metric(row, "accuracy", "late")) and isfinite(metric(row, "clean", "late"))
    return "" if known else "it has no accuracy"


def broken_by(row: Row, absent: Row | None, bounds: Bounds, chance: float | None = None) -> str:
    """What an attack broke in this cell, as `broken.breaks` says it. absent: the line without the attackers'
    data. chance: accuracy of a guess, where it is known.
    """
    clean, beside = metric(row, "clean", "late"), None
    held = [clean, metric(row, "clean", "final")]
    if absent is not None and is_measure(absent):
        late = metric(absent, "accuracy", "late")
        if not gave_up(late, clean, chance):
            beside = late
            held += [late, metric(absent, "accuracy", "final")]
    late, final = (metric(row, "accuracy", name) for name in ("late", "final"))
    ruins = ruined(lost_at_end(final, held), late, final, bounds.loss)
    return breaks(lost(late, clean, beside), gained(row.get("success")), bounds, ruins)
