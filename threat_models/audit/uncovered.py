"""What an audit says nothing about: claims of a protection that do not apply to a run, and leakage that no claim is about."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .claim import Claim
from .scoring import BOUND
from .view import PublishedSum

AT_CHANCE = 0.02
"""AUC above that of a guess, below which a guess is all that it is."""
WIDEST = 1.0
"""Of an interval of leakage, where it begins at little: above that it is not told as a leak."""


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """Claims of Cloister's that one might expect of a run, and that are of others: of those `where` says. who: against whom."""

    claims: tuple[str, ...]
    sought: tuple[str, ...]
    who: str
    where: str


def unclaimed(
    claims: Iterable[Claim], protection: Any, algorithm: Any, runs: Sequence[Sequence[PublishedSum]] = ()
) -> tuple[Unclaimed, ...]:
    """Those of the runs' kind that do not apply to them, together where they are about the same runs and the same adversary.

    runs: of recorded runs, the published sums.
    """
    groups: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims:
        ours = claim.whose == "Cloister" and claim.kin(protection, algorithm)
        if ours and not (claim.applies(protection, algorithm) and all(map(claim.given, runs))):
            groups.setdefault((claim.who, claim.where), []).append(claim)
    return tuple(
        Unclaimed(tuple(c.id for c in some), tuple(c.experiment for c in some), who, where)
        for (who, where), some in groups.items()
    )


def leaks(rows: Sequence[Mapping[str, Any]], least: float = BOUND) -> list[tuple[str, list[tuple[str, Mapping[str, Any]]]]]:
    """By observer, each with its leakage: what it found more than `least` of, and more than chance finds, or half and more of
    some victims, where no claim of Cloister's is about it, and what so few victims leave open is not everything.

    rows: as `Row.as_dict`. The largest first; an attack of the user's own counts, too.
    """
    found: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for row in rows:
        leak = row["leakage"]
        covered = any(claim["whose"] == "Cloister" for claim in row["claims"])
        told = leak and leak["value"] > least and leak["low"] > 0 and not is_open(leak) and not by_guessing(row)
        certain = leak and leak.get("exposed") and (leak.get("lone") or leak.get("ranked") or not by_guessing(row))
        if leak and not covered and ((leak["valid"] and told) or certain):
            found.setdefault(row["observer"], []).append((row["experiment"], leak))
    return [(name, sorted(several, key=lambda one: -one[1]["value"])) for name, several in found.items()]


def by_guessing(row: Mapping[str, Any], above: float = 0.0) -> bool:
    """Whether what was found may be found by guessing, as its interval says; above: whether it is not even so much better. What
    sums alone tell can be worse than a guess by chance, and a guess is no leak for that.
    """
    area = (row.get("told") or {}).get("here", {}).get("area")
    if area is None:
        return False
    return bool(area["value"] < 0.5 + above if above else area["low"] <= 0.5)


def is_open(leak: Mapping[str, Any]) -> bool:
    """Whether its interval holds little and nearly everything: nobody knows then how much it is."""
    return bool(leak["low"] <= BOUND and leak["high"] - leak["low"] > WIDEST)


def left_open(rows: Sequence[Mapping[str, Any]], least: float = BOUND) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Observer, experiment and leakage of what is more than `least` and may be nothing, of those that no claim is about."""
    found, named = [], {(observer, experiment) for observer, several in leaks(rows, least) for experiment, _ in several}
    for row in rows:
        leak = row["leakage"]
        covered = any(claim["whose"] == "Cloister" for claim in row["claims"])
        told = leak and leak["valid"] and not covered and leak["value"] > least
        told = told and (row["observer"], row["experiment"]) not in named
        if told and not by_guessing(row, AT_CHANCE) and (by_guessing(row) or leak["low"] <= 0 or is_open(leak)):
            found.append((row["observer"], row["experiment"], leak))
    return found


def untried(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Observers on whose view no attack could be tried, and no test, in order, with the reason that most attacks have."""
    reasons: dict[str, list[str]] = {}
    tried = set[str]()
    for row in rows:
        reasons.setdefault(row["observer"], []).append(str(row["reason"]))
        if row["leakage"] is not None or row.get("tested"):
            tried.add(row["observer"])
    return {who: Counter(of).most_common(1)[0][0] for who, of in reasons.items() if who not in tried}


def read_records(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows in which some record, or some whole update, was read that the row's anchor has not, whatever the share of all is.

    rows: as `Row.as_dict`. Those of most clients first.
    """
    found = [row for row in rows if (of := row.get("records")) and of["here"]["read"] > of[row["anchor"]].get("read", 0)]
    return sorted(found, key=lambda row: -row["records"]["here"]["clients"])
