"""README's table of protections, made from the rows that the cards begin with (`cards/*.md`)."""

import re
from pathlib import Path

CARDS = (
    "plain",
    "masked_sum",
    "private_gram",
    "differential_privacy",
    "two_servers",
    "ckks",
    "permuted_cfl",
    "slots",
    "projected_embeddings",
    "deployment",
)
"""In the table's order."""
HEADER = (
    "| protection | the server alone learns | server and one client learn | who owns the model |",
    "| --- | --- | --- | --- |",
)
FOLDER = Path(__file__).parent / "cards"


def card(name: str) -> str:
    """A card's text. Raises FileNotFoundError if there is none of this name."""
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def rows(text: str) -> tuple[str, ...]:
    """The rows of the comment that a card begins with. Raises ValueError for a card without one, or a row without four cells."""
    if (found := re.match(r"<!-- README\n((?:\|.*\|\n)*)-->\n", text)) is None:
        raise ValueError("a card begins with a comment: README, then its rows of the table")
    lines = tuple(found[1].splitlines())
    if wrong := [line for line in lines if line.count("|") != HEADER[0].count("|")]:
        raise ValueError(f"not as many cells as the table has: {wrong[0]}")
    return lines


def table() -> str:
    """The table as README has it, lines without a newline at the end."""
    return "\n".join([*HEADER, *(row for name in CARDS for row in rows(card(name)))])
