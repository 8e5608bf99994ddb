"""Whether a client was always summed with the same others, from its own record, and what it may show of it where it was not."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from .headline import hides_from_one
from .own_bounds import fewest_opened
from .own_choices import in_slots
from .own_slots import shut_in_words

SUMMED = {"Masked": "Survivors", "Encrypted": "EncryptedSum", "TwoServer": "Task"}
"""By protection, the message that says with whom; under two servers a client is told no more than who is asked with it."""
UNTOLD = (
    "Who was in its sums in the end, of those who were asked, it is not told, nor whether its own update came in time for one: a"
    " sum that was made without it because it was slow tells of it what one does that it was away from."
)
"""Under two servers."""

OF_SLOTS = (
    "In a sum with its update are those alone that chose the same model, or gave some share to it, as it did. How many, it is not"
    " told, nor when that changed: "
)


def others_changed(lines: Sequence[Mapping[str, Any]], protection: str) -> str:
    """A sentence; empty where they were always the same, or the record does not tell."""
    kind = SUMMED.get(protection.partition("(")[0], "")
    found = sorted(dict(_each(lines, kind)).items())
    changes = [t for (_, before), (t, now) in pairwise(found) if before != now]
    untold = UNTOLD if kind == "Task" and found else ""
    if not changes:
        return untold
    often = f"{len(changes)} times, first in" if len(changes) > 1 else "in"
    asked = "was asked for" if kind == "Task" or in_slots(lines, protection) else "was summed"
    return " ".join(
        [
            f"With whom its update {asked} changed {often} round {changes[0]}, as others were away or back, drawn or not, or",
            "parted from it: whoever has sums of before and after can subtract them, and if updates hardly changed, what is left",
            "is of few clients, and may set its own update apart though it was itself in all of them.",
            *([untold] if untold else []),
        ]
    )


def smallest_company(lines: Sequence[Mapping[str, Any]], protection: str) -> str:
    """Over how few clients a sum with it was, and what one of them has by it, in a sentence; empty where it was in none. Of slots
    it is not told over how many, and the floor bounds it.
    """
    name = protection.partition("(")[0]
    kind = SUMMED.get(name, "")
    slots, fewest = in_slots(lines, protection), fewest_opened(protection)
    shut = shut_in_words(lines)
    least_of = f"{OF_SLOTS}they may be as few as {fewest}{hides_from_one(fewest)}. {shut}" if slots and fewest else ""
    got = [(line.get("received") or {}, line.get("round")) for line in lines]
    sizes = [(of["among"][0], t) for of, t in got if kind and of.get("what") == kind and type(t) is int and _counted(of)]
    if not sizes:
        return least_of
    least = min(size for size, _ in sizes)
    often = len({t for size, t in sizes if size == least})
    rounds = f"in {often} round{'s' * (often != 1)}"
    if slots:
        return f"{least_of} Of all that took part in a round, whatever they chose, the fewest were {least}, {rounds}.".lstrip()
    if kind == "Task":
        return f"The fewest that were asked together with it, itself included, are {least}, {rounds}{hides_from_one(least)}."
    return f"The smallest sum with its update is over {least} client{'s' * (least != 1)}, {rounds}{hides_from_one(least)}."


def _counted(of: Mapping[str, Any]) -> bool:
    among = of.get("among")
    return isinstance(among, list) and bool(among) and type(among[0]) is int and among[0] > 0


def _each(lines: Sequence[Mapping[str, Any]], kind: str) -> Iterator[tuple[int, object]]:
    """Rounds, each with what tells its others from those of other rounds."""
    for line in lines:
        got, t = line.get("received") or {}, line.get("round")
        if kind and got.get("what") == kind and type(t) is int:
            # Of a record that does not say who: the size of the word, in which they are all that has no fixed length.
            now = got.get("among") or (got.get("bytes") if kind == "Survivors" else None)
            if now is not None:
                yield t, now
