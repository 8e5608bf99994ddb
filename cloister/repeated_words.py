"""What is said of a repetition below its verdict, of a run, an evaluation or an audit."""

from collections.abc import Sequence
from pathlib import Path


def where_and_what(different: Sequence[str], same: bool, other: Path, played: bool) -> list[str]:
    """Lines below the verdict on a repetition: where it is, and what is not as it was. played: whether just now."""
    lines = [f"{'again in   ' if played else 'compared with'} {other}"]
    if different:
        lines += ["different here, without effect:" if same else "different here:", *(f"  {one}" for one in different)]
    return lines
