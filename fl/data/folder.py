"""Where data sets lie: the data folder, the files expected in it, and fetching the ones that are missing."""

import os
from collections.abc import Sequence
from pathlib import Path

import pooch


class DataMissing(ValueError):
    """A data set is not in the data folder and could not be fetched; the message says which file to put where."""


def data_folder(folder: Path | None) -> Path:
    """The folder that holds the data sets: `folder`, else what CLOISTER_DATA names, else the user's cache folder."""
    if folder is not None:
        return folder
    named = os.environ.get("CLOISTER_DATA")
    return Path(named).expanduser() if named else Path(pooch.os_cache("cloister"))


def missing(what: str, place: Path, reason: str) -> DataMissing:
    """The one-line error that says to put `what` into the folder `place`; `reason` says why it was not fetched."""
    return DataMissing(
        f"{what} is missing: put it into {place}, or name another data folder by --data (data= in Python) or CLOISTER_DATA"
        f" ({reason})"
    )


def obtain(places: Sequence[Path], url: str, md5: str) -> Path:
    """The first of `places` that exists; if none does, `places[0]`, fetched from `url` and checked against `md5`.

    A file that is already there is taken as it is: re-encoded copies are legitimate, and every reader checks what it
    reads. Raises DataMissing when there is no file and it cannot be fetched.
    """
    for place in places:
        if place.is_file():
            return place
    target = places[0]
    try:
        pooch.retrieve(url=url, known_hash=f"md5:{md5}", fname=target.name, path=target.parent)
    except OSError as error:
        raise missing(target.name, target.parent, f"fetching {url} failed with {type(error).__name__}") from error
    except ValueError as error:
        raise missing(target.name, target.parent, f"what {url} sent does not have the md5 {md5}") from error
    return target
