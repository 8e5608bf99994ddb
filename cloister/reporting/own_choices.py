"""Which of the models that it was given a client chose, round by round, from its own record, and who can tell."""

from collections.abc import Mapping, Sequence
from typing import Any

from .own_presence import Rounds, joined

IN_CLEAR = ("Plain", "Permuted")
"""Protections under which shares go to the coordinator with the update, as they are."""

WITH = {"Encrypted": "one other client", "TwoServer": "the second server, or with the clients that chose otherwise,"}
"""With whom the coordinator could tell, by protection; with those that chose otherwise under any other."""
OTHERS = (
    " Where others that tell how well they predict name their model with it, what they named taken off the counts leaves what all"
    " the rest chose: of one client that alone keeps it, its choice, and that it keeps it does not hide that."
)
"""Of a client that keeps how well it predicts."""
COUNTED = " Clients are told the counts, too: one that chooses as no other does can tell it by itself."
"""Under the clients' key."""


def choices(lines: Sequence[Mapping[str, Any]]) -> list[Rounds]:
    """In order of rounds; neighbours in which it chose alike are one entry. Of a round that was played again, the last."""
    found: dict[int, str] = {}
    for line in lines:
        t, shares = line.get("round"), line.get("chose")
        if type(t) is int and t >= 0 and isinstance(shares, list) and shares and all(type(s) is int and s >= 0 for s in shares):
            found[t] = _words(shares)
    return joined(Rounds(t, t, found[t]) for t in sorted(found))


def in_slots(lines: Sequence[Mapping[str, Any]], protection: str) -> bool:
    """Whether its update went into sums of those that chose alike, where nobody is told who they are."""
    told = any(one.get("what") == "Choice" for line in lines for one in line.get("revealed", ()))
    return bool(choices(lines)) and not told and not protection.startswith(IN_CLEAR)


def who_can_tell(lines: Sequence[Mapping[str, Any]], protection: str) -> str:
    """Of what it chose, in sentences."""
    kinds = {str(one.get("what")) for line in lines for one in line.get("revealed", ())}
    times = sum("named" in line for line in lines)
    if "Choice" in kinds or protection.startswith(IN_CLEAR):
        return "The coordinator was told, and that it was this client's choice."
    helper = next((words for name, words in WITH.items() if protection.startswith(name)), "the clients that chose otherwise")
    counts = "In sums, the coordinator learns how many clients chose each model, and not who, unless all chose alike"
    sums = f"{counts}; together with {helper} it could tell.{COUNTED if protection.startswith('Encrypted') else ''}"
    if not times:
        return f"{sums}{OTHERS if any('withheld' in line for line in lines) else ''}"
    often = "once" if times == 1 else f"{times} times"
    return (
        f"{sums} But with how well it predicts it told the coordinator, {often}, which model it goes by most: --no-scores keeps"
        " that, as far as enough others keep it, too. Counts less what clients named tell what the rest chose."
    )


def _words(shares: Sequence[int]) -> str:
    """By what share it chose each model; as people read it."""
    total, chosen = sum(shares), [k for k, share in enumerate(shares) if share]
    if len(chosen) == 1:
        return f"model {chosen[0] + 1} of {len(shares)}"
    return ", ".join(f"model {k + 1} by {100 * shares[k] / total:.0f} %" for k in chosen) or "none"
