"""What the account of a run says, in words: how much the server pieces together from all answers, over all rounds."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from .coalitions import OF_TWO_SERVERS, dealer_with_either
from .run_data import DASH, number

WITHOUT_NOISE = "; reckoned as if sums had no noise: with it the server knows less"


@dataclass(frozen=True, slots=True)
class Meter:
    """One meter: what it is about, its largest value with whose it is, its mean, and what the numbers mean."""

    label: str
    largest: str
    client: str
    mean: str
    words: str


def account_meters(account: Mapping[str, Any], names: Mapping[str, str] = MappingProxyType({})) -> list[Meter]:
    """The meters of a summary's account, as far as it has them."""
    found = []
    if account.get("span") is not None:
        words = "of what sets a client's update apart from its cluster's mean, the share that the server knows"
        words += f" by answers of the same round; {_pairs(account)}{WITHOUT_NOISE if account.get('noise') else ''}"
        found.append(_meter("single updates", account["span"], words, names))
    if account.get("temporal") is not None:
        words = (
            "how well the server estimates what a client does in every round, by answers of the same rounds: squared cosine of"
        )
        words += f" its estimate and the truth{WITHOUT_NOISE if account.get('noise') else ''}"
        found.append(_meter("habits over rounds", account["temporal"], words, names))
    if isinstance(account.get("leverage"), Mapping):
        by = opener(account)
        crowd = 1 / worst if (worst := number(account["leverage"].get("largest"))) > 0 else 0.0
        words = f"how far the sums that {by} opened, all rounds and clusters together, isolate a client that never changes"
        words += ", as if it also knew who chose what in slots" if account.get("slots") else ""
        words += f"; the most exposed hides as in a group of {crowd:.3g}" if crowd else "; no sum was opened"
        words += WITHOUT_NOISE if account.get("noise") and crowd else ""
        found.append(_meter("taking part", account["leverage"], words, names))
        measured = "measured" if account.get("rho_measured") else "assumed"
        words = "the same for clients that change, beyond what all have in common, each cluster by itself:"
        words += " the share of a client's own that sums tell"
        words += f" (correlation between rounds {number(account.get('rho')):.2f}, {measured})"
        found.append(_meter("taking part, told apart", account.get("information") or {}, words, names))
    return found


def opener(account: Mapping[str, Any]) -> str:
    """Who opened the sums."""
    names = {"server": "the server", "clients": "the clients of a cluster", "client": "single clients, each its own,"}
    return " and ".join(names.get(str(who), str(who)) for who in account.get("opened_by") or []) or "nobody"


def account_notes(account: Mapping[str, Any], protection: str = "", k: int = 0) -> list[str]:
    """What goes with the meters: comparisons, who else could join the server, and how they were measured.

    protection: its name; k: of two servers, projections in a comparison, 0 where that is not known.
    """
    grams = _count(account.get("grams"))
    kinds = "Gram matrix" if grams == 1 else "Gram matrices"
    entered = f"A client's updates entered {grams} comparison{'s' * (grams != 1)} ({kinds}) at most."
    notes = [entered if grams else "No update entered a comparison (Gram matrix)."]
    if with_one := account.get("with_a_client"):
        numbers, sketches = _count(account.get("numbers")), "sketch" in with_one
        counted = f" Here: {numbers} numbers for each update in a Gram matrix." if numbers and grams else ""
        none = "; no sketch was sent in this run" if sketches and not numbers else ""
        notes.append(f"The server and one client together also learn {with_one}{none}.{counted}")
    if protection == OF_TWO_SERVERS:
        notes.append(f"{dealer_with_either('each update in it', k)}.")
    if account.get("elsewhere"):
        notes += _elsewhere(account)
    if account.get("span") is None and account.get("transformed", True):
        notes.append("The server holds every update, transformed by a secret of the clients; no meter covers what that leaks.")
    elif account.get("exact") is False:
        notes.append(f"Updates were measured on a public sketch of {account.get('width')} numbers.")
    few, clients = _count(account.get("watched")), _count(account.get("clients"))
    if few < clients:
        notes.append(
            f"Single updates and habits are of {few} of {clients} clients, drawn at random, as more did not fit in memory: others"
            " may be worse off."
        )
    if missing := _count(account.get("missing")):
        were = "1 sketched update was" if missing == 1 else f"{missing} sketched updates were"
        notes.append(f"{were} not kept for measuring: single updates and habits may be told more of than these figures say.")
    notes += [f"In no meter: {words}." for words in account.get("uncovered") or ()]
    return notes


def _elsewhere(account: Mapping[str, Any]) -> list[str]:
    """Of a run whose clients were processes of their own: what could not be measured, and what was assumed."""
    notes = [
        "Clients were elsewhere: single updates, and habits over rounds, are measured on the updates themselves, and nobody here"
        " has these. A simulation of the scenario (cloister run) measures both."
    ]
    if account.get("alike"):
        notes.append("Sums are weighted by numbers of records, which the coordinator does not know: all count alike here.")
    if account.get("hidden"):
        notes.append("Sums of slots are left out: nobody here knows who is in which.")
    return notes


def _pairs(account: Mapping[str, Any]) -> str:
    pairs = _count(account.get("pairs"))
    sums = f"{pairs} published sum{'s' * (pairs != 1)} whose sketch it also knows"
    return f"it has {sums}" if pairs else "there is no published sum whose sketch it also knows"


def _count(value: object) -> int:
    """A whole number as it was recorded; 0 where none was."""
    return int(found) if (found := number(value)) == found else 0


def _meter(label: str, values: Mapping[str, Any], words: str, names: Mapping[str, str]) -> Meter:
    largest, mean = number(values.get("largest")), number(values.get("mean"))
    whose = str(values.get("client"))
    alike = DASH if largest != largest else "all alike"
    client = names.get(whose, f"client {whose}") if largest > mean + 1e-9 else alike
    return Meter(label, _share(largest), client, _share(mean), words)


def _share(value: float) -> str:
    """A share from 0 to 1 as people read it."""
    if value != value:
        return DASH
    return "0" if value < 1e-12 else "< 0.001" if value < 0.001 else f"{value:.3f}"
