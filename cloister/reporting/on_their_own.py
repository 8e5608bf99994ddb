"""Clients that trained by themselves, as their cluster was too small for a sum, and rounds in which no sum was opened."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ..fl.runs.unsummed import is_sum
from .run_data import Run, number, sorted_ids
from .who_was_there import in_words


def on_their_own(run: Run) -> frozenset[str]:
    """Who trained alone at the end."""
    return frozenset(map(str, run.rounds[-1].get("alone") or ())) if run.rounds else frozenset()


def alone_in_words(run: Run) -> Iterator[str]:
    """A sentence on those of each cluster that was too small, with the rounds in which they trained without a sum."""
    found: dict[tuple[tuple[str, ...], str], list[int]] = defaultdict(list)
    for line in run.rounds:
        for row in line.get("below_floor") or ():
            if row.get("alone"):
                found[tuple(sorted_ids(row.get("members") or ())), str(row.get("why"))].append(int(number(row.get("round"))))
    for (clients, why), rounds in found.items():
        names = ", ".join(map(run.name_of, clients))
        yield f"Trained without a sum in {_times(rounds)}: client{'s' * (len(clients) != 1)} {names} ({why})."


def no_sum_in_words(run: Run) -> list[str]:
    """In how many rounds no sum was opened though some were due, in a run that had others."""
    summed = {number(entry.get("round")) for entry in run.answers if is_sum(entry)}
    due = [line for line in run.rounds if line.get("below_floor") or line.get("stood_still")]  # that where nobody answered
    rounds = [int(t) for line in due if (t := number(line.get("round"))) not in summed]
    if not summed or not rounds:
        return []
    return [f"No sum was opened in {len(rounds)} of {len(run.rounds)} rounds ({in_words(rounds)})."]


def _times(rounds: Sequence[int]) -> str:
    return f"round {rounds[0]}" if len(rounds) == 1 else f"{len(rounds)} rounds ({in_words(rounds)})"
