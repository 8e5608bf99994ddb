"""Which clients of a run between processes were not there, and in which rounds, for its report."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..fl.runs.other_terms import noted
from ..fl.runs.presence import ranges
from .run_data import DASH, Run, sorted_ids


def who_was_there(run: Run) -> list[tuple[str, str, str]]:
    """Of each client that was away or revoked: its name, the rounds, counted from 0, in which it was away, and those since it was
    revoked. Empty where all were there all the time, or nothing was noted. Lines that say something else are passed over.
    """
    right = [line for line in run.presence if type(line.get("round")) is int]
    found = ranges(right, len(run.rounds))
    clients = sorted(found["away"].keys() | found["revoked"].keys())
    away, revoked = found["away"], found["revoked"]
    return [(run.client(i), _words(away.get(i, [])), _words(revoked.get(i, []))) for i in clients]


def never_there(run: Run) -> frozenset[str]:
    """Clients that were away in every round: they took part in none, though clusters may have them."""
    right = [line for line in run.presence if type(line.get("round")) is int]
    away = ranges(right, len(run.rounds))["away"]
    return frozenset(str(i) for i, times in away.items() if times == [(0, len(run.rounds) - 1)])


def revoked_in_words(run: Run) -> list[str]:
    """A sentence on the clients that were revoked, and since when; none where nobody was."""
    rows = {client: rounds for client, _, rounds in who_was_there(run) if rounds}
    found = [f"{client} (round{'s' * (not rounds.isdecimal())} {rounds})" for client, rounds in rows.items()]
    found += [f"{client} (after the last round)" for client in map(run.client, _sent_away(run)) if client not in rows]
    return [f"Revoked, and sent away: {', '.join(found)}."] if found else []


def _sent_away(run: Run) -> list[str]:
    """Clients whose certificate was revoked at the coordinator's end."""
    return sorted_ids(run.link.get("sent_away") or [])


def revoked_in(run: Run, client: str) -> list[tuple[int, int]]:
    """The first and last rounds of each time in which its certificate was revoked when a round was over."""
    right = [line for line in run.presence if type(line.get("round")) is int]
    return ranges(right, len(run.rounds))["revoked"].get(int(client), []) if client.isdecimal() else []


def without_model(run: Run, key: str = "without_model") -> list[tuple[str, str]]:
    """Of each client that the coordinator could hand no model at the end: its name, and that of the file of its cluster's model,
    empty where there is none, and of one that was revoked. key: of link.json; "perhaps_without_model" names those that were sent
    one and did not say that they have it.
    """
    last = (run.rounds[-1].get("clusters") or {}) if run.rounds else {}
    files = {str(i): f"models/{str(name).replace(' ', '-')}.safetensors" for name, members in last.items() for i in members}
    found = [(i, files.get(i, "")) for i in sorted_ids(run.link.get(key) or [])]
    gone = {*_sent_away(run)}
    there = [(i, file if file and i not in gone and (Path(run.path) / file).is_file() else "") for i, file in found]
    return [(f"{run.client(i)}{', whose certificate is revoked' * (i in gone)}", file) for i, file in there]


def differing(run: Run) -> list[str]:
    """A line on each client whose scenario differed from the coordinator's in what it works by, for each time that it did, and in
    some round of which it was not away: who came with other terms and left took part by none.
    """
    found = []
    away = ranges([line for line in run.presence if type(line.get("round")) is int], len(run.rounds))["away"]
    for client, said in noted(list(run.other_terms)).items():
        for k, (since, fields) in enumerate(said):
            until = None if k + 1 == len(said) else max(since, said[k + 1][0] - 1)
            last = max(since, len(run.rounds) - 1) if until is None else until
            if any(first <= since and last <= end for first, end in away.get(client, ())):
                continue
            when = f"from round {since} on" if until is None else f"round {_words([(since, until)])}"
            found += [
                f"{run.client(client)}, {when}: {name} is {_or_dash(there)} there, {_or_dash(here)} at the coordinator"
                for name, (there, here) in fields.items()
            ]
    return found


def _or_dash(value: object) -> str:
    return DASH if value is None else str(value)


def in_ranges(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows that are alike but for their rounds, which follow each other, as one, whose `round` is "3 to 9"."""
    found: list[tuple[dict[str, Any], list[int]]] = []
    last: dict[str, int] = {}
    for row in rows:
        rest, t = {key: value for key, value in row.items() if key != "round"}, row.get("round")
        at = last.get(kind := repr(sorted(rest.items(), key=str)))
        if type(t) is not int:
            found.append((dict(row), []))
        elif at is not None and found[at][1][-1] in (t, t - 1):
            found[at][1].append(t)
        else:
            last[kind] = len(found)
            found.append((rest, [t]))
    return [{**rest, "round": _words([(times[0], times[-1])])} if times else rest for rest, times in found]


def in_words(rounds: Iterable[int]) -> str:
    """Numbers of rounds as people say them: "0 to 3, 7"."""
    found: list[tuple[int, int]] = []
    for t in sorted(set(rounds)):
        found[-1:] = [(found[-1][0], t)] if found and found[-1][1] == t - 1 else [*found[-1:], (t, t)]
    return _words(found)


def _words(times: list[tuple[int, int]]) -> str:
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in times)
