"""`cloister rerun`: a run, an evaluation or an audit played again from its own record, and whether it came out the same."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from .errors_in_one_line import one_line_errors
from .grids.options import Data, Out

OTHERWISE = 4
"""The exit code of a run that came out otherwise."""


def rerun(
    folder: Annotated[Path, typer.Argument(help="The folder of the run, the evaluation or the audit to repeat.")],
    out: Out = None,
    data: Data = None,
    against: Annotated[
        Path | None, typer.Option(help="Play nothing: compare with this folder, of a repetition elsewhere for instance.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found alone to stdout, as JSON.")] = False,
) -> None:
    """Play a run, an evaluation or an audit again from its own record, and say whether it came out the same.

    Try:  cloister rerun runs/quickstart-seed0

    The folder's origin.json has the source of the scenario's file, its settings, a checksum of the data, versions and commit. The
    source is run like the file it was: repeat folders that you trust. What is compared, bit for bit: models, the numbers of each
    round, what each party was told, the accounts of opened sums and of privacy, and the summary. Where it came
    out otherwise, it is said by how much, and what is different here: versions, processor, data or scenario. A run under
    Encrypted always does: TenSEAL draws the noise of ciphertexts anew. Of an evaluation the record is in evaluation.json, all of
    its cells are played, and cells are compared; of an audit in audit.json, with the sources of attacks of one's own, and rows
    are compared. An audit of a recorded run needs that run's folder.

    Exit codes: 0 the same, 4 otherwise, or where the folder's scenario.json is not what its origin.json makes.
    """
    compared: Callable[[Path, Path], Any]
    in_words: Callable[..., list[str]]
    if (folder / "evaluation.json").is_file():
        from .evaluating.again import compared, in_words, play_again
    elif (folder / "audit.json").is_file():
        from .auditing.again import compared, in_words, play_again
    else:
        from .fl.runs.repetition import compared
        from .rerunning import in_words, play_again

    with one_line_errors():
        other = play_again(folder, out, data) if against is None else against
        found = compared(folder, other)
    if as_json:
        sys.stdout.write(json.dumps(found.as_dict()) + "\n")
    else:
        for line in in_words(found, other, played=against is None):
            typer.echo(line)
    if not found.same:
        raise typer.Exit(OTHERWISE)
