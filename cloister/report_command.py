"""`cloister report`: the report of a folder once more, whatever wrote it."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .errors_in_one_line import one_line_errors, say


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER", help="A run folder, or that of an evaluation, a search, a comparison or a client."),
    ],
    out: Annotated[Path | None, typer.Option(help="Of several evaluations' folders: the one to put them together in.")] = None,
) -> None:
    """Rebuild report.html of a run folder, or of that of an evaluation, a search, a comparison or a client, finished or not.

    A client's says what it revealed, to whom, what it spent of its privacy, and what it refused, from its own record alone.
    Folders of evaluations of one scenario, with other seeds, attacks or defences, become one table: cloister report A B --out C

    Try:  cloister report runs/quickstart-seed0
    """
    from .attacking.report import write_search_report
    from .comparing.report import write_comparison_report
    from .evaluating.merging import check_kind, merge
    from .evaluating.report import write_evaluation_report
    from .fl.runs.results_folder import cut_off
    from .reporting.gaps import gaps
    from .reporting.own_record import is_record, write_client_report
    from .reporting.report import write_report
    from .reporting.run_data import read_run

    with one_line_errors():
        if len(folders) > 1 and out is None:
            for one in folders:
                check_kind(one)
            raise ValueError("several folders are put together in one: cloister report A B --out C")
        if len(folders) == 1 and out is not None:
            raise ValueError("--out is for several folders, cloister report A B --out C; one keeps its report in itself")
        folder = folders[0] if out is None else merge(folders, out)
        lost: list[str] = []
        if is_record(folder):
            path = write_client_report(folder)
        elif (folder / "comparison.json").is_file():
            path = write_comparison_report(folder)
        elif (folder / "search.json").is_file():
            path = write_search_report(folder)
        elif (folder / "evaluation.json").is_file() or (folder / "results.jsonl").is_file():
            path = write_evaluation_report(folder)
        else:
            path = write_report(folder)
            lost = gaps(read_run(folder))
        for words in [*lost, *cut_off(folder)]:
            say(f"note: {words}")
    Console().print(f"report      {path}", highlight=False, soft_wrap=True)
