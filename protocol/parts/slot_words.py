"""What counts of slots tell, in words for the disclosure log."""

from collections.abc import Sequence

ALIKE = "and, as all chose alike, what each of them did"
"""Of counts that say of everybody what it chose."""


def counts_in_words(counts: Sequence[int] | None, clients: int) -> str:
    """counts: of clients that chose each slot; None where they are none that so many clients can have made."""
    alike = counts is not None and clients > 0 and all(n in (0, clients) for n in counts)
    return f"how many clients chose each slot, of small ones too, {ALIKE if alike else 'and nothing of who did'}"
