"""What counts of slots tell, in words for the disclosure log."""

from collections.abc import Sequence

ALIKE = "and, as all chose alike, what each of them did"
"""Of counts that say of everybody what it chose."""
NOBODY = "no client chose it"
"""Why a slot stays shut that has nothing in it."""


def counts_in_words(counts: Sequence[int] | None, clients: int) -> str:
    """counts: of clients that chose each slot; None where they are none that so many clients can have made."""
    alike = counts is not None and clients > 0 and all(n in (0, clients) for n in counts)
    return f"how many clients chose each slot, of small ones too, {ALIKE if alike else 'and nothing of who did'}"


def too_few_chose(chose: int, fewest: int, spare: int = 0) -> str:
    """Why a slot stays shut. fewest: clients that it is opened for. spare: how many of them are for who
    may be lost between the counts and the sums.
    """
    who = NOBODY if chose == 0 else f"{chose} client{'s' * (chose != 1)} chose it"
    of = f": the floor of {fewest - spare}, and {spare} who may drop out before it is summed" if spare else ", its floor"
    return f"{who}, where it is opened for {fewest} or more{of}"
