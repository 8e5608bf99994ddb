"""Playing an evaluation's grid into a folder that a kill leaves resumable."""

from collections.abc import Iterator
from functools import partial

from ..fl.runs.results_folder import Row
from ..grids.ledger import Ledger as Cells
from ..grids.workers import Crew
from ..threat_models.cell import ends, follows
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
        """The cell's line. Not that of a failure, which is tried again, nor of an attack-free run whose file is gone, or lacks
        models that a backdoor of the evaluation is held against.
        """
        row = super().known(cell)
        if row is None or cell.attack is not None or row["status"] != "done":
            return row
        found = self.folder.read_clean(row["key"], row["clean_sha256"])
        return None if found is None or not ends(self.evaluation, cell) <= found.earlier.keys() else row


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
