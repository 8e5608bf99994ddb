"""What an audit's first words say that no leakage is: what a server knows anyway, what is little, and what sums tell."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..threat_models.audit.clusters import DECIDED
from ..threat_models.audit.experiment import Anchor
from ..threat_models.audit.scoring import GOOD
from .sought import CALLED, SOUGHT, sought

SUMS: Anchor = "sums alone"
CHANCE: Anchor = "chance"
UPDATES = "updates"
LITTLE = 0.75
"""An area from which on it is not called little."""
TOLD = 0.01
"""Of what sets updates apart, by sums alone, from which on it is said."""


def decided(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Who knows the clusters, as they are of its making: nothing had to be attacked for that."""
    if whose := [CALLED.get(row["observer"], row["observer"]) for row in rows if row.get("reason") == DECIDED]:
        yield f"{' / '.join(whose)} know{'s' * (len(whose) == 1)} {SOUGHT['clusters']}, as {DECIDED}"


def little(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What is too little for a leakage, in clear too, and yet more than a guess, of those who know nothing else."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if not row["leakage"] or row["leakage"]["valid"] or row.get("anchor") != CHANCE or not row.get("told"):
            continue
        if (area := row["told"]["here"]["area"])["value"] < LITTLE and area["low"] > 0.5:
            what = sought(row["experiment"])
            how = f"{what} (AUC {area['value']:.2f}, {area['low']:.2f} to {area['high']:.2f}, where 0.50 is a guess)"
            found.setdefault(CALLED.get(row["observer"], row["observer"]), []).append(how)
    for who, several in found.items():
        yield f"Little, and yet more than by guessing: {who} can tell {', '.join(several)}."


def of_sums_alone(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What leaks are measured from, where it is more than guessing: published sums, whoever hides what they are made of."""
    known: dict[str, str] = {}
    for row in rows:
        area = row["told"].get(SUMS, {}).get("area") if row.get("told") else None
        if area is not None and area["low"] > 0.5:
            how = f"AUC {area['value']:.2f}, {area['low']:.2f} to {area['high']:.2f}"
            known.setdefault(sought(row["experiment"]), how)
        if read := (row.get("records") or {}).get(SUMS, {}).get("read", 0):
            of = row["records"][SUMS]
            whose = f"of {of['clients']} of {of['victims']} clients"
            known.setdefault("single records", f"{read} of {of['of']}, {whose}, at {GOOD:.0f} dB or better")
        if row["experiment"] != UPDATES or row.get("anchor") != SUMS or not row["leakage"]:
            continue
        if (share := row["leakage"]["aggregate"]) >= TOLD:
            each = row.get("values", {}).get(SUMS) or [share]
            most = f" in the mean, up to {max(each):.2f}," if max(each) > share else ""
            how = f"{share:.2f}{most} of what sets them apart from their cluster's mean, where 1 is all of it"
            known.setdefault(sought(UPDATES), how)
    if known:
        things = "; ".join(f"{what} ({how})" for what, how in known.items())
        yield f"Not counted above, which is measured from there: the published sums alone tell {things}."
