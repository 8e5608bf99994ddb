"""What bounds that a client's update is seen, and who could see it together, in sentences for who answers for its data."""

import re
from collections.abc import Collection

from .own_words import SKETCHES

IN_SUMS = ("Masked", "Encrypted", "TwoServer")
"""Protections under which nobody sees an update as it is."""
TOGETHER = {
    "Encrypted": "The coordinator and any one other client could open its update together: clients share the key.",
    "TwoServer": (
        "The coordinator is answered whatever inner products it asks for, of its update with others' and with itself, which this"
        " record does not have and the run's page counts. The coordinator and the second server could put its update together."
    ),
}
"""Who could, whatever the floor is, by protection."""


def bounded(protection: str, kinds: Collection[str]) -> str:
    """Sentences; empty where updates are sent as they are, or no protection is known. protection: as the client's record has it,
    with its fields; kinds: of messages that it sent.
    """
    name = protection.partition("(")[0]
    floor, corrupt, sketch = (_field(protection, field) for field in ("floor", "corrupt", "sketch"))
    if name not in IN_SUMS:
        return ""
    said = []
    if floor:
        hidden = f"should {corrupt} of them be corrupt, it hides among {floor}"
        among = f"; {hidden if corrupt else 'all others in a sum and the coordinator together could take theirs off'}"
        said.append(f"No sum with its update is opened over fewer than {floor + corrupt} clients{among}.")
    said += [TOGETHER[name]] if name in TOGETHER else []
    if name == "Masked" and SKETCHES & {*kinds}:
        numbers = f"{sketch} numbers, each a sum over" if sketch else "weighted sums of"
        of = f"{numbers} all of its update's, which tell most of its labels"
        said.append(f"The coordinator and any one other client could read its sketch: {of}.")
    return " ".join(said)


def _field(protection: str, name: str) -> int:
    """A whole number of the protection's fields; 0 where there is none."""
    found = re.search(rf"\b{name}=(\d+)\b", protection)
    return int(found[1]) if found else 0
