"""The commands `evaluate` and `breakdown`: what they take and what they say of themselves. What they do is in play.py,
which brings all that training needs, and is imported when it is asked for."""

from typing import Annotated

import typer

from ..grids.options import Data, Engine, EngineName, Json, Out, Resume, Seeds, Set, Workers

File = Annotated[
    str,
    typer.Argument(metavar="FILE[:NAME]", help="A Python file with an Evaluation, or a Scenario; NAME picks one of several."),
]


def evaluate(
    file: File,
    out: Out = None,
    resume: Resume = False,
    workers: Workers = None,
    engine: Engine = EngineName.LOCAL,
    seeds: Seeds = None,
    data: Data = None,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Play a grid of attacks and defences: every strength, protection and seed, each beside its run without attack.

    Try:  cloister evaluate cloister:evaluate_digits:small

    Of a file with a Scenario it plays the usual grid: its algorithm and usual rules, all built for three tenths of the clients,
    against the strongest attack of each family by as many; if data are dealt IID or by Dirichlet, on data alike and skewed.

    The folder holds results.jsonl, one line a cell with all its metrics, evaluation.json, report.html, and the cells as
    table.csv and table.md: one row a cell, with what it lost and whether that breaks the defence; summary.csv and summary.md
    have one row a defence. What a protection refuses and what fails is there too, with the reason. An evaluation that was
    stopped, even by a kill, goes on with the same command plus --out FOLDER --resume; so does one that has grown.

    Exit codes: 0 if some defence has a result, 1 for an error, or if none has, as all were refused or never moved, 3 if a cell
    failed.
    """
    from .play import play_evaluation

    play_evaluation(file, out, resume, workers, engine.value, seeds, data, set_ or (), as_json)


def breakdown(
    file: File,
    attack: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="An attack of the file. Repeatable. Default: all.")
    ] = None,
    against: Annotated[
        list[str] | None, typer.Option(metavar="DEFENCE", help="One of the file's. Repeatable. Default: all.")
    ] = None,
    protection: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A protection of the file. Repeatable. Default: all.")
    ] = None,
    least: Annotated[float | None, typer.Option(help="The smallest strength to try. Default: the evaluation's, else 1.")] = None,
    most: Annotated[float | None, typer.Option(help="The greatest strength to try. Default: the evaluation's.")] = None,
    step: Annotated[float | None, typer.Option(help="Between two strengths. Default: the evaluation's, else 1.")] = None,
    loss: Annotated[
        float | None,
        typer.Option(help="Accuracy lost by loyal clients that breaks a defence. Default: the evaluation's, else 0.05."),
    ] = None,
    success: Annotated[
        float | None,
        typer.Option(help="By so much more often a backdoor succeeds when it gets through. Default: the evaluation's, else 0.1."),
    ] = None,
    out: Out = None,
    resume: Resume = False,
    workers: Workers = None,
    engine: Engine = EngineName.LOCAL,
    seeds: Seeds = None,
    data: Data = None,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Search the smallest strength of each attack that breaks each defence, by bisection, for every seed.

    Try:  cloister breakdown cloister:evaluate_digits:small --against median --attack "minus gradient"

    A defence is broken, as everywhere in Cloister, where loyal clients lose more than --loss of accuracy, late in the run,
    against the lower of the runs of the same seed without attack and without the attackers' data, or in the last evaluation
    alone if that lies as far below what they have late, or where a backdoor succeeds more often by --success, in its last
    poisoned round, than on the models without attack. The result says which of these it was. Harm need not grow with strength,
    so bisection finds a crossing: a strength that breaks next to one that does not. Its neighbours are tried too, and the search
    goes on below whatever breaks; where the strengths tried fit no single crossing, the result says so. Over seeds: the median
    with a distribution-free interval.

    It is a command of its own because it plays other strengths than the grid. Both may use one folder (--out, --resume), and
    cells in it are never played twice; a grid that is in the folder stays as it is described, and its report about all of it.

    It tries the evaluation's attacks, as they are. `cloister attack` searches all that there are, by the same bisection.
    """
    from .breaking import play_breakdown

    names = {"attack": attack, "defence": against, "protection": protection}
    steps, bounds = {"least": least, "most": most, "step": step}, {"loss": loss, "success": success}
    play_breakdown(file, names, steps, bounds, out, resume, workers, engine.value, seeds, data, set_ or (), as_json)
