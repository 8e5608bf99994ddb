"""How large the runs of a comparison are, and what played them: what stands with all of its numbers."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from ..fl.runs.origin import commit
from ..fl.runs.results_folder import Row
from ..fl.runs.run_folder import machine
from .data import Found

UNKNOWN = "not recorded"


@cache
def here() -> Mapping[str, str]:
    """What plays the runs of this process: the commit of Cloister's source tree, and the processor."""
    return {"commit": commit() or "none, installed", "machine": str(machine()["processor"])}


def examples_of(counts: Sequence[int]) -> Mapping[str, float]:
    """Of how many training examples clients have, from each one's: what a line says."""
    return {"least": min(counts), "mean": sum(counts) / len(counts), "most": max(counts)}


def columns_of(found: Found, data: str) -> dict[str, str]:
    """The scale of a data set as a table's columns, empty where its lines do not say."""
    scenario = found.about["data"][data]
    of: dict[str, Any] = {key: _one(_rows(found, data), key) for key in ("clients", "examples")}
    examples: Mapping[str, float] = of["examples"] or {}
    training = scenario.get("training", {})
    values = {
        "clients": of["clients"],
        "examples_a_client": f"{examples['mean']:g}" if examples else None,
        "rounds": scenario["rounds"],
        "epochs": training.get("epochs"),
        "batch": training.get("batch"),
        "commit": " and ".join(_played(found, data, "commit")),
        "machine": " and ".join(_played(found, data, "machine")),
    }
    return {key: "" if value is None else str(value) for key, value in values.items()}


def scale_words(found: Found) -> str:
    """Of each data set how many clients of how many examples train for how long: "turned: 16 clients, ..."."""
    return "; ".join(f"{data}: {_size(found, data)}" for data in found.data) + "."


def played_words(found: Found) -> str:
    """The commits and processors of all runs of the table."""
    commits, machines = (_joined(_played(found, data, what) for data in found.data) for what in ("commit", "machine"))
    return f"Commit: {commits}. Machine: {machines}."


def attackers_words(found: Found) -> str:
    """How many clients attack under each attack: "Attackers: minus: 2 of 8 clients." Empty where no line says."""
    said = []
    for attack in found.attacks:
        by = {data: words for data in found.data if (words := _attackers(found, data, attack))}
        if len({*by.values()}) == 1 and len(by) == len(found.data):
            said.append(f"{attack}: {next(iter(by.values()))}")
        else:
            said += [f"{attack} on {data}: {words}" for data, words in by.items()]
    return f"Attackers: {'; '.join(said)}." if said else ""


def _attackers(found: Found, data: str, attack: str) -> str:
    """ "2 of 8 clients", "2 to 3 of 8 clients" where runs differ; empty where no line says."""
    lines = [row for spot, rows in found.cells.items() if (spot.data, spot.attack) == (data, attack) for row in rows]
    counts = {len(row["members"]) for row in lines if row["status"] == "done" and "members" in row}
    if not counts:
        return ""
    least, most = min(counts), max(counts)
    of = columns_of(found, data)["clients"]
    return f"{f'{least} to ' * (least < most)}{most}{f' of {of}' if of else ''} clients"


def _size(found: Found, data: str) -> str:
    of = columns_of(found, data)
    examples = _one(_rows(found, data), "examples")
    words = _many(of["clients"], "client") if of["clients"] else f"clients {UNKNOWN}"
    if examples is None:
        words += f", training examples a client {UNKNOWN}"
    elif examples["least"] == examples["most"]:
        words += f" of {examples['least']:,} training examples"
    else:
        words += f" of {examples['least']:,} to {examples['most']:,} training examples (mean {examples['mean']:,.0f})"
    words += f", {_many(of['rounds'], 'round')}"
    return f"{words} of {_many(of['epochs'], 'epoch')} in batches of {of['batch']}" if of["epochs"] and of["batch"] else words


def _many(count: str, what: str) -> str:
    return f"{count} {what}" if count == "1" else f"{count} {what}s"


def _rows(found: Found, data: str) -> list[Row]:
    return [row for spot, rows in found.cells.items() if spot.data == data for row in rows if row["status"] == "done"]


def _one(rows: Iterable[Row], key: str) -> Any:
    """What a line says of its data's size; seeds of one partition may differ a little: the first that says."""
    return next((row[key] for row in rows if key in row), None)


def _played(found: Found, data: str, what: str) -> list[str]:
    return list(dict.fromkeys(str(row.get("played", {}).get(what, UNKNOWN)) for row in _rows(found, data)))


def _joined(lists: Iterable[list[str]]) -> str:
    return " and ".join(dict.fromkeys(word for words in lists for word in words)) or UNKNOWN
