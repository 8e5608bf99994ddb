"""A folder that holds others with results, where one of these is wanted."""

from difflib import get_close_matches
from pathlib import Path

MARKS = (
    "summary.json", "scenario.json", "metrics.jsonl", "results.jsonl", "comparison.json", "search.json", "audit.json",
    "join.jsonl",
)  # fmt: skip
"""One of these is in every folder that a command writes."""
LISTED = 6


def near_folder(folder: Path) -> str:
    """What there is beside a folder that is not there by a name much like its, as the end of a sentence; empty where nothing is.

    A folder of results has more in its name than the scenario, `pics-seed0`.
    """
    home = folder.parent
    there = sorted(of.name for of in home.iterdir() if of.is_dir()) if home.is_dir() else []
    close = [name for name in there if name.startswith(f"{folder.name}-")] or get_close_matches(folder.name, there, 1, 0.75)
    return f"; did you mean {home / close[0]}" if close and folder.name else ""


def within(folder: Path) -> str:
    """Which folders of results lie in this one, the newest first, and that one of them is to be given; empty where none does."""
    marks = {of: [of / name for name in MARKS if (of / name).is_file()] for of in folder.iterdir() if of.is_dir()}
    newest = sorted((of for of in marks if marks[of]), key=lambda of: -max(file.stat().st_mtime for file in marks[of]))
    if not newest:
        return ""
    listed, more = ", ".join(of.name for of in newest[:LISTED]), len(newest) - LISTED
    listed += f" and {more} more" if more > 0 else ""
    count = f"{len(newest)} folders of results" if len(newest) > 1 else "a folder of results"
    return f"{folder} is no run folder, but holds {count}: {listed}; give one of them, for example {newest[0]}"
