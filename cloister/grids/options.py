"""The options that commands which play a grid have in common."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Out = Annotated[Path | None, typer.Option(help="Folder to write. Default: a new one under runs/.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on: cells that are in the folder are not played again.")]
Workers = Annotated[int | None, typer.Option(help="Worker processes. Default: as many as there are cores.", min=1, max=1024)]


class EngineName(StrEnum):
    """What computes."""

    LOCAL = "local"
    RAY = "ray"


Engine = Annotated[
    EngineName,
    typer.Option(help="local: this machine. ray (extra ray): the Ray cluster at RAY_ADDRESS, or one begun here for the command."),
]
Seeds = Annotated[str | None, typer.Option(metavar="LIST", help="Seeds, e.g. 0,1,5 or 0-4. Default: the file's.")]
Data = Annotated[Path | None, typer.Option(help="Folder of the data sets. Default: CLOISTER_DATA, else a cache folder.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PATH=VALUE", help="Set a field of the scenario, e.g. rounds=5 or training.lr=0.1. Repeatable."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the results alone to stdout, as JSON.")]
