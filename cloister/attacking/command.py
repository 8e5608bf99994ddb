"""The command `attack`: what it takes and what it says of itself. What it does is in play.py, imported when asked for."""

from typing import Annotated

import typer

from ..grids.options import Data, Engine, EngineName, Json, Out, Resume, Set, Workers

File = Annotated[
    str, typer.Argument(metavar="FILE[:NAME]", help="A Python file with a Scenario or an Evaluation; NAME picks one of several.")
]


def attack(
    file: File,
    against: Annotated[
        str | None,
        typer.Option(metavar="DEFENCE", help="One of the evaluation's, or HardenedFLIC(), MultiKrum(6). Default: the file's."),
    ] = None,
    partition: Annotated[
        str | None, typer.Option(metavar="NAME", help="One of the evaluation's. Default: its first, else the scenario's.")
    ] = None,
    attackers: Annotated[
        str | None,
        typer.Option(metavar="RANGE", help="How many, e.g. 1-6. Default: up to what the defence is built for, or below half."),
    ] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Or FILE.py:NAME of yours. Repeatable. Default: all but slow ones, and the file's own."
        ),
    ] = None,
    fix: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Not searched, e.g. schedule=always. Repeatable.")
    ] = None,
    knows: Annotated[str, typer.Option(metavar="LEVEL", help="At most: own, colluding, omniscient or insider.")] = "insider",
    budget: Annotated[
        int | None, typer.Option(help="Runs, of all kinds. Default: 200, if no --minutes are given.", min=1)
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="CPU minutes of all processes, alone or beside --budget; the report takes seconds on top."),
    ] = None,
    exhaust: Annotated[
        bool, typer.Option("--exhaust", help="Spend the whole budget, on what else breaks the defence and how badly.")
    ] = False,
    goal: Annotated[str, typer.Option(help="What counts as a break: any, accuracy or backdoor.")] = "any",
    loss: Annotated[
        float | None, typer.Option(help="Accuracy lost that breaks a defence. Default: the evaluation's, else 0.05.")
    ] = None,
    success: Annotated[
        float | None, typer.Option(help="By so much more often a backdoor succeeds. Default: the evaluation's, else 0.1.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(metavar="LIST", help="Seeds that are searched. Default: the scenario's.")] = None,
    held_out: Annotated[
        str | None, typer.Option(metavar="LIST", help="Seeds on which a break must hold, too. Default: the next two.")
    ] = None,
    out: Out = None,
    resume: Resume = False,
    workers: Workers = None,
    engine: Engine = EngineName.LOCAL,
    data: Data = None,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Search for the cheapest break of a defence: over attacks, their strength, schedule, votes, layers, and who attacks.

    Try:  cloister attack cloister:evaluate_digits --against Multi-Krum --budget 80

    A defence is broken, as everywhere in Cloister, where loyal clients lose more than --loss of accuracy, late in the run,
    against the lower of the runs of the same seed without attack and without the attackers' data, or in the last evaluation
    alone if that lies as far below what they have late, or where a backdoor succeeds more often by --success, in its last
    poisoned round, than on the models without attack. A break must hold on every seed that was held out. The cheapest has the
    fewest attackers, then the least strength of what is really sent, with every factor on it.

    An attack of yours is one more family, in the evaluation's file or by --attack FILE.py:NAME: fields of a dataclass are
    searched as ours are, or in the span that they are annotated with: scale: Annotated\\[float, attacks.Span(0.1, 10, log=True)].

    First comes each attack as it is by default, before anything else where you name them, then each client in turn, in blocks by
    id where they are many, as a defence may trust some more than others, then what an optimiser (Optuna's TPE) proposes. That
    nothing was found is said with how much was tried, and what the budget did not come to; it is no proof.

    The folder holds results.jsonl, one line a run, report.html, found.json, table.csv and table.md with a row for every point,
    and what was found as scenarios for `cloister run`: worst.py, and break.py where the cheapest break is another. A search
    that was stopped, even by a kill, goes on with the same command plus --out FOLDER --resume; so does one with a larger
    budget. Needs the extra: pip install 'cloister\\[search]'
    """
    from .asked import Asked
    from .play import play_attack

    asked = Asked(
        file=file, against=against, partition=partition, attackers=attackers, attacks=attack or (), fixed=fix or (),
        knows=knows, goal=goal, loss=loss, success=success, runs=budget, minutes=minutes, exhaust=exhaust, out=out,
        resume=resume, workers=workers, engine=engine.value, seeds=seeds, held_out=held_out, data=data, settings=set_ or (),
    )  # fmt: skip
    play_attack(asked, as_json)
