"""Rounds in which the slots that a client chose stayed shut, from its own record: its input was zeros, and it knew that."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .own_words import ZEROS
from .who_was_there import in_words

Line = Mapping[str, Any]
UNKNOWN = "Where too few chose it, no sum with its update was opened."
"""Of records, and protections, by which a client is not told."""


def zeros_named(lines: Sequence[Line]) -> list[Line]:
    """The lines, with inputs to sums into slots called what they are where no slot was open that the client chose."""
    found = list[Line]()
    for line, chose in _with_choices(lines):
        named = [
            {**one, "what": ZEROS} if "open" in one and chose and chose.isdisjoint(one["open"]) else one
            for one in line.get("revealed") or ()
        ]
        found.append({**line, "revealed": named} if named else line)
    return found


def shut_in_words(lines: Sequence[Line]) -> str:
    """In which rounds, in sentences. lines: as `zeros_named` gives them."""
    zeros, some, known = list[int](), list[int](), False
    for line, chose in _with_choices(lines):
        for one in (one for one in line.get("revealed") or () if "open" in one and type(line.get("round")) is int):
            known = True
            if one["what"] == ZEROS:
                zeros.append(line["round"])
            elif chose.difference(one["open"]):
                some.append(line["round"])
    if not known:
        return UNKNOWN
    said = [f"In round{_s(some)} {in_words(some)} some of what it gave shares to stayed shut."] if some else []
    if zeros:
        shut = f"In round{_s(zeros)} {in_words(zeros)} what it chose stayed shut, as too few had chosen it"
        said.append(f"{shut}: it sent zeros in the place of its update, and no sum has it.")
    return " ".join(said) or "In no round that came to such a sum did what it chose stay shut."


def _with_choices(lines: Sequence[Line]) -> Iterator[tuple[Line, frozenset[int]]]:
    """Lines, each with the slots that the client chose in its round, as it said last."""
    chosen = dict[object, frozenset[int]]()
    for line in lines:
        if isinstance(shares := line.get("chose"), list):
            chosen[line.get("round")] = frozenset(k for k, share in enumerate(shares) if share)
        yield line, chosen.get(line.get("round"), frozenset())


def _s(rounds: Sequence[int]) -> str:
    return "s" * (len({*rounds}) > 1)
