"""An evaluation played again from its own record, and which of its cells came out the same."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors_in_one_line import said_in_a_line
from ..fl.runs.held_alone import ANOTHER, folder_may_be
from ..fl.runs.results_folder import DATA, Row, read_results
from ..grids.watching import folder_for, stoppable
from ..kept_source import written_again
from ..repeated_words import where_and_what
from .data import described_in
from .merging import measured
from .play import opened, watched_grid
from .report import write_evaluation_report
from .run import play_grid
from .workers import Origin, crew

SHOWN = 3
"""Cells that are named."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """same: whether all cells are there with the same result, bit for bit. apart: those with another, in words. lacking: how many
    of the first the other has not, as its code or its settings are others. different: what is not as it was here, in words.
    cells: how many have the same result.
    """

    same: bool
    apart: tuple[str, ...]
    different: tuple[str, ...]
    cells: int
    lacking: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def play_again(folder: Path, out: Path | None, data: Path | None) -> Path:
    """The folder of the same evaluation, its strengths and seeds, played by worker processes. Raises ValueError where the record
    does not say how it was made.
    """
    about = described_in(folder)
    origin = about.get("origin") or {}
    if origin.get("file") is None:
        raise ValueError(
            f"the evaluation in {folder} was played from Python, which has it: play it there again with another out=, and"
            f" compare: cloister rerun {folder} --against OTHER_FOLDER"
        )
    into = out or folder_for(str(about["name"]), "evaluation", resume=False)
    folder_may_be(into, "evaluation")
    goes_on = _stopped(into, origin)
    if (into / "evaluation.json").exists() and not goes_on:
        raise ValueError(f"{into} already holds an evaluation; {ANOTHER}")
    where = written_again(origin, into, f"the evaluation in {folder}")
    made = Origin(where, tuple(map(str, origin["settings"])), tuple(map(int, about["seeds"])), data)
    with said_in_a_line():
        evaluation = made.load()
        _, ledger = opened(evaluation, data, into, goes_on, made.about | {"file": origin["file"]})
    going = f"cloister rerun {folder} --out {into}"
    with stoppable(into, by=going), crew(made, evaluation, ledger.folder, None) as hands:
        for _ in watched_grid(ledger, play_grid(ledger, hands), always=True):
            pass
    write_evaluation_report(into)
    return into


def _stopped(into: Path, origin: Mapping[str, Any]) -> bool:
    """Whether a folder holds the beginning of the same evaluation."""
    if not (into / "evaluation.json").is_file():
        return False
    about = described_in(into)
    other = about.get("origin") or {}
    same = all(other.get(name) == origin.get(name) for name in ("file", "source", "settings"))
    return same and not {*about.get("keys", ())} <= {*read_results(into, "evaluation", "evaluate")}


def compared(folder: Path, other: Path) -> Repeated:
    """What two folders of evaluations have in common. Raises ValueError for what is none."""
    abouts = [described_in(one) for one in (folder, other)]
    first, second = (read_results(one, "evaluation", "evaluate") for one in (folder, other))
    first = {key: row for key, row in first.items() if key in abouts[0].get("keys", first)}  # beside searches' and earlier ones
    both = [key for key in first if key in second]
    apart = [key for key in both if measured(first[key]) != measured(second[key])]
    alike, lacking = len(both) - len(apart), len(first) - len(both)
    same, different = alike > 0 and not apart and not lacking, tuple(_different(*abouts))
    return Repeated(same, tuple(_named(first[key]) for key in apart), different, alike, lacking)


def _different(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    known = {
        "the data: their checksums differ": (one.get(DATA), other.get(DATA)),
        "the source of its file": tuple((about.get("origin") or {}).get("source") for about in (one, other)),
        "versions": (one.get("versions"), other.get("versions")),
        "machine": (one.get("machine"), other.get("machine")),
        "Cloister's commit": tuple((about.get("origin") or {}).get("commit") for about in (one, other)),
    }
    return [words for words, (first, second) in known.items() if first is not None and first != second]


def _named(row: Row) -> str:
    return f"{row['attack'] or 'no attack'}, {row['defence']}, {row['protection']}, seed {row['seed']}"


def in_words(found: Repeated, other: Path, played: bool = True) -> list[str]:
    """Lines, the verdict first. played: whether just now."""
    lines = [f"the same, bit for bit: {found.cells} cell{'s' * (found.cells != 1)}"]
    if not found.same:
        more = f" and {len(found.apart) - SHOWN} more" if len(found.apart) > SHOWN else ""
        parts = [f"{len(found.apart)} came out otherwise ({'; '.join(found.apart[:SHOWN])}{more})"] if found.apart else []
        are = "is" if found.lacking == 1 else "are"
        parts += [f"{found.lacking} {are} not there, of other code, settings or seeds"] if found.lacking else []
        of = found.cells + len(found.apart) + found.lacking
        lines = [f"not the same: of {of} cells {', and '.join(parts) or 'none is there'}"]
    return [*lines, *where_and_what(found.different, found.same, other, played)]
