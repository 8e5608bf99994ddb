"""What bounds that a client's update is seen, and who could see it together, in sentences for who answers for its data."""

import re
from collections.abc import Collection, Mapping

from ..protocol.masked.protection import measurements
from ..protocol.pairs.noise import OF
from .coalitions import OF_TWO_SERVERS, dealer_with_either
from .own_words import SKETCHES, UPDATES

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
COMPARED = (
    "The coordinator is told how long its updates are and how alike others', rounded, and the client that opens that reads it"
    " unrounded, which this record does not have and the run's page counts."
)
"""Under the clients' key, where updates are compared."""


PERSONAL = (
    "Other clients are each handed a sum with weights of their own, and its update in it: those of them that put theirs together"
    " could read it, with fewer than all others, unless the protection's colluding names them."
)
"""Where clients open sums for themselves."""


def bounded(protection: str, sent: Mapping[str, int], received: Collection[str] = (), parameters: int = 0) -> str:
    """Sentences; empty where updates are sent as they are, or no protection is known. protection: as the client's record has it,
    with its fields; sent: how many messages, by kind; received: kinds of those that it was sent. parameters: of the model; 0 of
    a record that does not say.
    """
    name = protection.partition("(")[0]
    corrupt, sketch = (_field(protection, field) for field in ("corrupt", "sketch"))
    if name not in IN_SUMS:
        return ""
    said, sums = [], bool(UPDATES & sent.keys())
    if sums and (fewest := fewest_opened(protection)):
        hidden = f"should {corrupt} of them be corrupt, it hides among {fewest - corrupt}"
        among = f"; {hidden if corrupt else 'all others in a sum and the coordinator together could take theirs off'}"
        said.append(f"No sum with its update is opened over fewer than {fewest} clients{among}.")
    said += [PERSONAL] if "SenderKey" in sent else []
    said += [COMPARED] if name == "Encrypted" and "SketchRequest" in received else []
    said += [TOGETHER[name]] if sums and name in TOGETHER else []
    said += [f"{dealer_with_either('its update', _field(protection, 'k'))}."] if sums and name == OF_TWO_SERVERS else []
    if name == "Masked" and (times := sum(count for kind, count in sent.items() if kind in SKETCHES)):
        numbers = measurements(sketch, parameters) if sketch and parameters else 0
        said.append(f"The coordinator and any one other client could read {_sketches(numbers, times)}.")
    return " ".join(said)


def differences_bounded(spent: Mapping[str, Mapping[str, object]]) -> str:
    """What noise in sums makes of what their differences tell of a client, in a sentence; empty where they have none."""
    units = ["what it did" if unit == "client" else f"any {unit} of it" for unit, of in spent.items() if of.get("of") != OF]
    if not units:
        return ""
    whom = " and ".join(units)
    return f"There is noise in them: its epsilon, of what it released, bounds what such a difference tells of {whom}, too."


def fewest_opened(protection: str) -> int:
    """Over how many clients, at the least, a sum is opened, the corrupt ones included; 0 where the protection has no floor."""
    floor = _field(protection, "floor")
    return floor and floor + _field(protection, "corrupt")


def _sketches(numbers: int, times: int) -> str:
    """What so many sketches of so many numbers say."""
    whose = "its update's" if times == 1 else "that update's"
    sums = f"{numbers} numbers, each a sum over all of {whose}" if numbers else f"weighted sums of all of {whose}"
    thousands = f"{numbers * times:,}".replace(",", " ")
    total = f", {thousands} numbers in all" if numbers else ""
    many = f"its {times} sketches{total}: of each of as many updates"
    return f"{'its sketch:' if times == 1 else many} {sums}, which tell most of its labels"


def _field(protection: str, name: str) -> int:
    """A whole number of the protection's fields; 0 where there is none."""
    found = re.search(rf"\b{name}=(\d+)\b", protection)
    return int(found[1]) if found else 0
