"""Who knows of slots what each client chose: sums, counts, and scores that name a model, in sentences of a run's page."""

from typing import Any

from ..fl.runs.unsummed import OF_COUNTS
from ..protocol.parts.slot_words import ALIKE
from .run_data import Run, number

NAMES = "which of the models it goes by most"
"""The end of what is told of scores that say which."""


def in_slots(run: Run) -> bool:
    """Whether sums of slots were told."""
    return any(entry.get("what") == "slots" and number(entry.get("scalars")) > 0 for entry in run.answers)


def unnamed_in_words(run: Run) -> list[str]:
    """A sentence on clients that are in sums of slots, and in no cluster of the page, as nobody told which model they go by."""
    asked = (entry for entry in run.answers if entry.get("what") == "slots")
    summed = {str(i) for entry in asked for i in entry.get("about") or ()}
    if not (silent := [i for i in map(str, run.summary.get("unplaced") or ()) if i in summed]):
        return []
    who, many = ", ".join(map(run.client, silent)), len(silent) > 1
    said = (
        f"{'They were' if many else 'It was'} in sums of slots, and did not say which model is {'theirs' if many else 'its own'}"
    )
    return [f"In no cluster here: {who}. {said}, so that clusters and their sizes are of the others."]


def slots_in_words(run: Run) -> str:
    """Of a run whose sums of slots were told."""
    nobody = "no sum tells" if (named := _named_with_scores(run)) else "nobody is told"
    words = f"No sum of a slot is over fewer clients than the floor, and {nobody} who is in which{_alike(run)}."
    return f"{words} {named}".rstrip()


def _alike(run: Run) -> str:
    """That counts of slots said of everybody what it chose, and in how many rounds; empty where they did not."""
    told = (entry for entry in run.answers if entry.get("what") == "slots" and str(entry.get("words")).endswith(ALIKE))
    rounds = {number(entry.get("round")) for entry in told}
    many = f"{len(rounds)} of {len(run.rounds)} rounds"
    return f", but in {many} all chose alike, which the counts say" if rounds else ""


def _named_with_scores(run: Run) -> str:
    """Which clients named the model that they go by, and what that tells of those that did not; empty where none did."""
    named: dict[float, set[Any]] = {}
    counted: dict[float, set[Any]] = {}
    for entry in run.answers:
        words, found = str(entry.get("words")), None
        if entry.get("recipient") == "server" and entry.get("what") == "scores" and words.endswith(NAMES):
            found = named
        elif entry.get("recipient") == "server" and entry.get("what") == "slots" and words.startswith(OF_COUNTS):
            found = counted
        if found is not None:
            found.setdefault(number(entry.get("round")), set()).update(entry.get("about") or ())
    if not (who := set().union(*named.values())):
        return ""
    said = f"{len(who)} client{'s' * (len(who) != 1)} named the model that they go by with their scores"
    left = {t: about - told for t, about in counted.items() if (told := named.get(t, set()) | named.get(t - 1, set()))}
    bare = [t for t, rest in left.items() if len(rest) == 1]
    if bare:
        often = f"{len(bare)} round{'s' * (len(bare) != 1)}"
        return f"{said}: in {often}, counts less what they named tell what the one client chose that named none."
    return f"{said}: counts less what they named tell how many of the others chose each." if any(left.values()) else f"{said}."
