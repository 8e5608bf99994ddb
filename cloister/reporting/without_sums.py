"""Sums of a run that were not opened, each with its reason, for the table at its end; slots that nobody chose stand apart."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..protocol.parts.slot_words import NOBODY
from .pauses import model_of_slot, of_cluster
from .who_was_there import in_words

FEW = "too few clients for a sum that hides them"
TOLD = 6
"""Reasons that are told; the rest are counted."""


def without_sums(below: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Rows of a name and words. below: as a summary has it, of all rounds."""
    why: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    unchosen: dict[str, list[int]] = defaultdict(list)
    for row in below:
        reason = row.get("why") or FEW
        if reason.startswith(NOBODY):
            unchosen[of_cluster(row)].append(int(row["round"]))
        else:
            why[reason].append(row)
    if why:
        more = f"; {len(why) - TOLD} more reasons stand in the report" if len(why) > TOLD else ""
        yield "without a sum", "; ".join(f"{_which(rows)}: {reason}" for reason, rows in [*why.items()][:TOLD]) + more
    if unchosen:
        yield "chosen by nobody", "; ".join(f"{name} {_when(rounds)}" for name, rounds in sorted(unchosen.items()))


def _which(rows: Sequence[Mapping[str, Any]]) -> str:
    """Whose sums, and in which rounds."""
    names = sorted({of_cluster(row) for row in rows})
    kind = "" if all(map(model_of_slot, rows)) else f"cluster{'s' * (len(names) > 1)} "
    return f"{kind}{', '.join(names)} {_when([int(row['round']) for row in rows])}"


def _when(rounds: Sequence[int]) -> str:
    return f"in round{'s' * (len({*rounds}) > 1)} {in_words(rounds)}"
