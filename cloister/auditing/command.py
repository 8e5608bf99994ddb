"""The command `audit`: what it takes and what it says of itself. What it does is in play.py, imported when asked for."""

from enum import StrEnum
from typing import Annotated

import typer

from ..errors_in_one_line import one_line_errors
from ..grids.options import Data, Json, Out, Set
from .asked import check_asked, check_self_test


class Spend(StrEnum):
    """How much an audit spends."""

    QUICK = "quick"
    FULL = "full"


File = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE[:NAME] or FOLDER",
        help="A Python file with a Scenario; or the folder of a run that was recorded; or of an earlier audit, to show it again.",
    ),
]
HowMuch = Annotated[
    Spend,
    typer.Option(
        help="How much is tried. quick: 2 seeds; of each, 60 records each of 16 clients, 32 shadow models a client, 200 steps of"
        " optimisers; minutes. full: 5 seeds, 200 records each of 24 clients, 128 shadow models, 2000 steps; an hour and more."
    ),
]
AuditResume = Annotated[
    bool,
    typer.Option("--resume", help="Go on: what was played and tried is in the folder, with clients' data, until it is over."),
]
AuditSeeds = Annotated[
    str | None,
    typer.Option(
        "--seeds",
        metavar="LIST",
        help="Seeds, e.g. 0,1,5 or 0-4: each is a whole run, and three or so more to compare it with, and adds as many victims."
        " Default: the scenario's seed and those after it, 2 if quick, 5 if full.",
    ),
]
SelfTest = Annotated[
    bool,
    typer.Option(
        "--self-test",
        help="Audit the auditors: correct noise must pass them, and noise with a fault must not. On a core that is free 2 to 4"
        " minutes with --budget quick, 10 to 20 with full.",
    ),
]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option(
        "--mechanism",
        metavar="NAME",
        help="With --self-test: this mechanism and its faults alone, by its name in the table, for example"
        " 'mean sketches of two clients'."
        " Any other word lists the names. Repeatable.",
    ),
]
Attacks = Annotated[
    list[str] | None,
    typer.Option(
        "--attack",
        metavar="FILE[:NAME]",
        help="A Python file with an Attack or a PropertyInference of yours, a row beside ours; it refutes no claim by itself."
        " Repeatable.",
    ),
]
Against = Annotated[
    list[str] | None,
    typer.Option(
        "--against",
        metavar="PARTIES",
        help="Who is corrupt, in the place of the usual observers: server, client:3, client:NAME, clients:1,2,"
        " server+client:0,3, second-server, dealer, network, outsider (who is handed the final models, and saw nothing of the"
        " run). Default: each but the outsider, and the server with as many clients as the"
        " protection's `corrupt`. Repeatable.",
    ),
]


def audit(
    file: File = None,
    budget: HowMuch = Spend.QUICK,
    self_test: SelfTest = False,
    out: Out = None,
    seeds: AuditSeeds = None,
    data: Data = None,
    set_: Set = None,
    attack: Attacks = None,
    against: Against = None,
    mechanism: Mechanisms = None,
    resume: AuditResume = False,
    as_json: Json = False,
) -> None:
    """Attack what each party of a run really saw, and say which claims of its threat model stand.

    Try:  cloister audit cloister:quickstart --budget quick

    The scenario is played, and so is the same in clear, and runs of the attacker's own. Every attack is given what a corrupt
    party sent, received and holds, and nothing else; what it finds stands between what the published sums alone tell (0) and
    what the updates tell (1).

    A claim is refuted, not refuted, or inconclusive, because the attack fails in clear too or has too few victims. What no
    experiment could try is not covered. The folder holds audit.json and report.html.

    In the folder of `cloister run FILE --record` the recorded run is audited as it is, and only the others are played. The folder
    holds the scenario's source, which is executed: audit only folders that you trust.

    Exit codes: 0 if no claim of Cloister's is refuted, also where nothing could be tried, as the first words say; 4 if one is; 3
    if none is but an attack of yours failed. Claims of papers that are refuted are shown, and expected.
    """
    with one_line_errors():
        if self_test:
            others = {
                "FILE": file,
                "--attack": attack,
                "--set": set_,
                "--seeds": seeds,
                "--against": against,
                "--out": out,
                "--resume": resume,
            }
            check_self_test({**others, "--data": data}, mechanism or ())
        else:
            check_asked(file, seeds, attack or (), against or (), mechanism or ())
    from .play import play

    play(
        file, budget.value, self_test, out, seeds, data, set_ or (), attack or (), against or (), as_json, mechanism or (), resume
    )
