"""The command `audit`: what it takes and what it says of itself. What it does is in play.py, imported when asked for."""

from enum import StrEnum
from typing import Annotated

import typer

from ..grids.options import Data, Json, Out, Seeds, Set


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
HowMuch = Annotated[Spend, typer.Option(help="quick: minutes, two seeds. full: five seeds, all victims and records.")]
SelfTest = Annotated[
    bool, typer.Option("--self-test", help="Audit the auditors: correct noise must pass them, and noise with a fault must not.")
]

Attacks = Annotated[
    list[str] | None,
    typer.Option(
        "--attack",
        metavar="FILE[:NAME]",
        help="A Python file with an Attack of yours, a row beside ours; it refutes no claim by itself. Repeatable.",
    ),
]


def audit(
    file: File = None,
    budget: HowMuch = Spend.QUICK,
    self_test: SelfTest = False,
    out: Out = None,
    seeds: Seeds = None,
    data: Data = None,
    set_: Set = None,
    attack: Attacks = None,
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

    Exit codes: 0 if no claim of Cloister's is refuted, 4 if one is. Claims of papers that are refuted are shown, and expected.
    """
    from .play import play

    play(file, budget.value, self_test, out, seeds, data, set_ or (), attack or (), as_json)
