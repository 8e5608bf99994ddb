"""`cloister report`: the report of a folder once more, whatever wrote it."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .errors_in_one_line import one_line_errors, say


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER", help="A run folder, or that of an evaluation, a search, a comparison or a client."),
    ],
    client: Annotated[str | None, typer.Option(help="Of a run: what each party learned of this client, by id or name.")] = None,
    out: Annotated[Path | None, typer.Option(help="Of several evaluations' folders: the one to put them together in.")] = None,
) -> None:
    """Rebuild report.html of a run folder, or of that of an evaluation, a search, a comparison or a client, finished or not.

    A client's says what it revealed, to whom, what it spent of its privacy, and what it refused, from its own record alone.
    Folders of evaluations of one scenario, with other seeds, attacks or defences, become one table: cloister report A B --out C

    Try:  cloister report runs/quickstart-seed0

    What was learned of one client:  cloister report runs/quickstart-seed0 --client 3
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
    from .tables_out import print_table

    with one_line_errors():
        if len(folders) > 1 and out is None:
            for one in folders:
                check_kind(one)
            raise ValueError("several folders are put together in one: cloister report A B --out C")
        if len(folders) == 1 and out is not None:
            raise ValueError("--out is for several folders, cloister report A B --out C; one keeps its report in itself")
        folder = folders[0] if out is None else merge(folders, out)
        if client is not None:
            print_table(Console(), _of_client(folder, client))
            for words in gaps(read_run(folder)):
                say(f"note: {words}")
            return
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


def _of_client(folder: Path, client: str) -> Table:
    """What the run in this folder says of one client. Raises ValueError for another folder, or a client that is none of it."""
    from .reporting.of_client import of_client
    from .reporting.own_record import is_record
    from .reporting.run_data import read_run

    if is_record(folder):
        raise ValueError(f"{folder} is a client's own folder, and speaks of it alone: cloister report {folder}, without --client")
    found = of_client(read_run(folder), client)
    table = Table(title=found.title, show_header=False, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, words in found.rows:
        table.add_row(name, escape(words))
    return table
