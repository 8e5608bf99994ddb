"""Playing an evaluation: the grid, or breakdown searches over it, into one folder that a kill leaves resumable."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ..fl.runs.results_folder import Row
from ..grids.ledger import Ledger as Cells
from ..grids.workers import Crew
from ..threat_models.breakdown import Found, Search, Steps, search
from ..threat_models.cell import follows, idle
from ..threat_models.evaluation import Cell, Evaluation, all_cells, attacked_cells, clean_cells, key_of
from ..threat_models.evaluation_folder import EvaluationFolder
from .workers import Task


class Ledger(Cells[Cell]):
    """The cells of an evaluation that are known."""

    folder: EvaluationFolder

    def __init__(self, evaluation: Evaluation, folder: EvaluationFolder, rows: dict[str, Row]) -> None:
        super().__init__(folder, rows, partial(key_of, evaluation))
        self.evaluation = evaluation

    def known(self, cell: Cell) -> Row | None:
        """The cell's line. Not that of a failure, which is tried again, nor of an attack-free run whose file is gone."""
        row = super().known(cell)
        if row is None or cell.attack is not None or row["status"] != "done":
            return row
        return None if self.folder.read_clean(row["key"], row["clean_sha256"]) is None else row


def play_grid(ledger: Ledger, crew: Crew) -> Iterator[Row]:
    """Every cell of the grid that is not known yet; yields its line. In the end the file is in the order of the grid."""
    evaluation = ledger.evaluation
    cleans = clean_cells(evaluation)
    missing = [cell for cell in cleans if ledger.known(cell) is None]
    skipped: list[Row] = []

    def after(cell: Cell, row: Row) -> list[Task]:
        """The cells that can be played once the attack-free run is there; entered at once where it came to nothing."""
        tasks: list[Task] = []
        for next_ in attacked_cells(evaluation, cell) if cell.attack is None else ():
            if ledger.known(next_) is not None:
                continue
            line = follows(row, next_, ledger.key(next_))
            if line is None:
                tasks.append((next_, row))
            else:
                skipped.append(line)
        return tasks

    ready = [task for cell in cleans if (row := ledger.known(cell)) is not None for task in after(cell, row)]
    for _, row in crew.play([*((cell, None) for cell in missing), *ready], after):
        yield ledger.enter(row)
        yield from (ledger.enter(line) for line in skipped)
        skipped.clear()
    yield from (ledger.enter(line) for line in skipped)
    arrange(ledger)


def arrange(ledger: Ledger) -> None:
    """Put the file in order: the grid's cells as the grid has them, then what searches or earlier grids have left."""
    ledger.arrange(all_cells(ledger.evaluation))


@dataclass(frozen=True, slots=True)
class Searched:
    """One search: of an attack on a defence under a protection with one seed. reason: why there is no result, or empty."""

    attack: str
    defence: str
    protection: str
    seed: int
    found: Found | None
    reason: str = ""
    partition: str = ""


def play_searches(
    ledger: Ledger, crew: Crew, steps: Steps, attacks: Sequence[str], defences: Sequence[str], protections: Sequence[str]
) -> Iterator[Searched]:
    """A search for each combination and each of the evaluation's seeds; yields as they end. Cells known already are not played.

    Cells of several searches are played side by side; what a search tries depends on its own cells alone.
    """
    running: dict[Cell, Search] = {}
    ended: list[Searched] = []

    def begin(clean: Cell, row: Row) -> Iterator[Task]:
        never = idle(row) if row["status"] == "done" else ""
        reason = f"it does not work without attack either: {never}" if never else row["reason"]
        for attack in attacks:
            if row["status"] != "done" or never:
                ended.append(Searched(attack, clean.defence, clean.protection, clean.seed, None, reason, clean.partition))
                continue
            of = replace(clean, attack=attack)
            running[of] = search(steps)
            yield from advance(of, row, None)

    def advance(of: Cell, clean: Row, answer: Row | None) -> Iterator[Task]:
        """Sends the search what it asked for, and what is known of what it asks next, until a cell must be played."""
        while True:
            try:
                strength = next(running[of]) if answer is None else running[of].send(is_broken(answer, steps))
            except StopIteration as end:
                ended.append(Searched(str(of.attack), of.defence, of.protection, of.seed, end.value, "", of.partition))
                return
            asked = replace(of, strength=strength)
            answer = ledger.known(asked)
            if answer is None:
                yield asked, clean
                return
            if answer["status"] != "done":
                stop(of, answer)
                return

    def stop(of: Cell, answer: Row) -> None:
        reason = f"at strength {answer['strength']:g}: {answer['reason']}"
        ended.append(Searched(str(of.attack), of.defence, of.protection, of.seed, None, reason, of.partition))

    def after(cell: Cell, row: Row) -> Iterable[Task]:
        if cell.attack is None:
            return list(begin(cell, row))
        of, clean = replace(cell, strength=None), ledger.rows[ledger.key(cell.clean)]
        if row["status"] != "done":
            stop(of, row)
            return []
        return list(advance(of, clean, row))

    cleans = [c for c in clean_cells(ledger.evaluation) if c.defence in defences and c.protection in protections]
    known = {cell: row for cell in cleans if (row := ledger.known(cell)) is not None}
    tasks: list[Task] = [(cell, None) for cell in cleans if cell not in known]
    tasks += [task for cell, row in known.items() for task in begin(cell, row)]
    for _, row in crew.play(tasks, after):
        ledger.enter(row)
        yield from ended
        ended.clear()
    yield from ended
    arrange(ledger)


def is_broken(row: Row, steps: Steps) -> bool:
    """Whether loyal clients lost more than the stated drop, judged late in the run, in this cell."""
    return bool(row["impact"]["late"] > steps.drop)
