"""What the commands of a deployment share: options, and what is made of them."""

import os
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .passphrase import passphrase
from .protocol.core.errors import Revoked

if TYPE_CHECKING:
    from .protocol.pki.standing import Standing

File = Annotated[str, typer.Argument(metavar="FILE[:NAME]", help="A Python file with a Scenario; NAME picks one of several.")]
Keys = Annotated[
    Path | None,
    typer.Option(help="This party's folder, as `cloister keys` makes it: keys, certificate, and what the authority says of all."),
]
Insecure = Annotated[
    bool, typer.Option("--insecure-loopback", help="No certificates, on this machine alone: anybody on it can be any client.")
]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Set any field. Repeatable.")]

NAMED = 8
"""Folders that are named where one is not there."""


def scenario_of(file: str, set_: list[str] | None, **given: int | None) -> Any:
    """The scenario of a file with these settings, and those of `given` that are not None. Raises ValueError of one line."""
    from .errors_in_one_line import said_in_a_line
    from .scenario_file import load, with_settings

    settings = [*(set_ or []), *(f"{name}={value}" for name, value in given.items() if value is not None)]
    with said_in_a_line():
        return with_settings(load(file), settings)


def standing_of(keys: Path | None, insecure: bool, *, notes: bool = False) -> "Standing | None":
    """What a party's folder of keys says; None on the loopback device. notes: whether the party notes there in which runs it took
    part. Raises ValueError of one line.
    """
    if (keys is None) != insecure:
        raise ValueError("give either --keys FOLDER or, on this machine alone, --insecure-loopback")
    if keys is None:
        return None
    if not keys.is_dir():
        raise ValueError(
            f"there is no folder {keys}{_beside(keys)}; give the folder of this party's keys, as `cloister keys request` made"
            f" it, or parties/NAME in what `cloister keys init` made"
        )
    from .protocol.pki.standing import Standing

    try:
        found = Standing(keys, passphrase())
        found.credentials()  # so that a passphrase is asked for now
        if notes and not os.access(keys, os.W_OK):
            raise ValueError(f"{keys} cannot be written to: this party notes there in which runs it took part")
        return found
    except Revoked as error:
        raise Revoked(
            f"{error}: this party takes no further part, unless the authority gives it another ({_taken(keys)})"
        ) from None
    except ValueError as error:
        raise ValueError(_with_remedy(keys, str(error))) from None


def _beside(missing: Path) -> str:
    """Which folders there are where it was looked for, the most alike first; empty where there are none."""
    above = missing.parent
    there = sorted(one.name for one in above.iterdir() if one.is_dir() and not one.name.startswith(".")) if above.is_dir() else []
    if close := get_close_matches(missing.name, there, 1):
        return f"; did you mean {above / close[0]}"
    more = f" and {len(there) - NAMED} more" if len(there) > NAMED else ""
    return f"; {above.resolve()} has the folders {', '.join(there[:NAMED])}{more}" if there else ""


def _taken(keys: Path) -> str:
    return f"`cloister keys accept {keys} PUBLIC` takes what it hands out"


def _with_remedy(keys: Path, wrong: str) -> str:
    """What is wrong with a folder of keys, and what to do, unless it says so: all but private keys can be had again."""
    said = wrong if str(keys) in wrong else f"{keys}: {wrong}"
    if any(word in wrong for word in ("`cloister", "chmod", "chown", ".key", "parties", "is meant?", "passphrase")):
        return said
    if "there is no file" in wrong and not any(keys.glob("*.key")):
        return f"{keys} holds no keys of a party: give the folder that `cloister keys request` made, on this party's own machine"
    if "is valid from" in wrong:
        return f"{said}: set the clock, if it is that"
    if "the certificate expired" in wrong:
        return f"{said}; the authority makes another by `cloister keys rotate`, and {_taken(keys)}"
    return f"{said}; {_taken(keys)} anew"
