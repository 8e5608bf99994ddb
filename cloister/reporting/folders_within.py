"""A folder that holds others with results, where one of these is wanted."""

from pathlib import Path

MARKS = (
    "summary.json", "scenario.json", "metrics.jsonl", "results.jsonl", "comparison.json", "search.json", "audit.json",
    "join.jsonl",
)  # fmt: skip
"""One of these is in every folder that a command writes."""
LISTED = 6


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
