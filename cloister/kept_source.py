"""A file of the user's, read again from the text that a record kept of it."""

import sys
from itertools import chain, count
from pathlib import Path
from typing import Any

from .shipped import file_and_name


def source_of(where: str) -> dict[str, str]:
    """Of FILE[:NAME], for a record: how it was named, and its text."""
    return {"file": where, "source": file_and_name(where)[0].read_text(encoding="utf-8")}


def written_again(kept: Any, into: Path, of: str) -> str:
    """FILE[:NAME] of the kept text: the file where it is still the same, which may need what lies beside it; else one that is
    written into the folder, for which the first one's neighbours, and those of the working directory, are found too.

    kept: as `source_of`. of: what is to be repeated, in words. Raises ValueError where it kept no source.
    """
    if not isinstance(text := kept.get("source"), str):
        raise ValueError(f"{of} is of an earlier version, which kept no source: play it anew by its command")
    path, _, name = file_and_name(str(kept["file"]))
    if _text(path) == text:
        return str(kept["file"])
    sys.path += [place for place in (str(path.resolve().parent), str(Path.cwd())) if place not in sys.path]
    into.mkdir(parents=True, exist_ok=True)
    names = chain((path.name,), (f"{path.stem}_{k}{path.suffix}" for k in count(2)))  # of another folder one may be called alike
    written = next(into / name for name in names if not (into / name).exists() or _text(into / name) == text)
    written.write_text(text, encoding="utf-8")
    return f"{written}:{name}" if name else str(written)


def _text(path: Path) -> str | None:
    """None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
