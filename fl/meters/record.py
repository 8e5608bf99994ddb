"""The record of an account as lines of a run folder, and what its meters say in the end."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ...protocol.uploaded.fusing import TOLD
from ...protocol.uploaded.sums import COORDINATEWISE, LAST_MEAN
from ...protocol.view.account import Opened, Sketched
from ...protocol.view.asks import ServerView
from .participation import participation
from .span import span
from .temporal import temporal
from .watch import RHO, Watch


def lines(sketched: Iterable[Sketched], opened: Iterable[Opened]) -> list[dict[str, Any]]:
    """One line of plain JSON values for each set of sketches and each published sum."""
    found: list[dict[str, Any]] = []
    for s in sketched:
        at = {"what": "sketched", "round": s.round, "cluster": s.cluster, "kind": s.kind, "key": s.key.hex(), "form": s.form}
        found.append(at | {"clients": list(s.clients), "rounds": list(s.rounds), "numbers": s.numbers})
    for o in opened:
        at = {"what": "opened", "round": o.round, "cluster": o.cluster, "kind": o.kind, "to": o.to}
        found.append(at | {"row": {str(i): a for i, a in o.row.items()}})
    return found


def read(plain: Iterable[Mapping[str, Any]]) -> tuple[list[Sketched], list[Opened]]:
    """The inverse of `lines`."""
    sketched, opened = [], []
    for line in plain:
        at = line["round"], line["cluster"]
        if line["what"] == "sketched":
            key, clients, rounds = bytes.fromhex(line["key"]), tuple(line["clients"]), tuple(line["rounds"])
            sketched.append(Sketched(key, line["form"], line["kind"], *at, clients, rounds, line["numbers"]))
        else:
            opened.append(Opened(*at, line["kind"], {int(i): a for i, a in line["row"].items()}, False, line["to"]))
    return sketched, opened


NOT_SUMS = (COORDINATEWISE, LAST_MEAN, TOLD)
"""What clients may be told that no meter reckons with, as it is no sum of one round's updates."""
Exposure = dict[str, dict[str, float]]
"""By meter and client, as text, its value."""


def said(watch: Watch, view: ServerView, log: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The first of `said_with_each`."""
    return said_with_each(watch, view, log)[0]


def said_with_each(watch: Watch, view: ServerView, log: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], Exposure]:
    """All meters of a run, plain JSON values: the largest value and the mean, and whom they are about; and of each client.

    log: lines of the disclosure log. Span and temporal are None where the server holds each update in a transformed form, and
    where clients are elsewhere: they take the updates themselves. noise: whether sums have some; meters take them for what they
    are without. elsewhere, transformed, alike, hidden: then, and of `Watch`.
    """
    account, rho = watch.account, watch.rho
    there = participation(account.opened, rho or RHO)
    log = list(log)
    grams = (e for e in log if e["recipient"] == "server" and e["what"].startswith("gram") and e["scalars"])
    uncovered = Counter(words for e in log if e["recipient"] == "clients" for words in NOT_SUMS if e["words"].startswith(words))
    compared = Counter(i for e in grams for i in e["about"])
    observers = {"client" if isinstance(e.to, int) else e.to for e in account.opened}
    found: dict[str, Any] = {
        "observer": "the server alone",
        "opened_by": sorted(observers),
        "sums": there.sums,
        "slots": any(e.kind == "slots" for e in account.opened),
        "grams": max(compared.values(), default=0),
        "leverage": _most(there.leverage),
        "information": _most(there.information),
        "rho": rho or RHO,
        "rho_measured": rho is not None,
        "numbers": max((e.numbers for e in account.sketched), default=0),
        "with_a_client": view.record.with_a_client,
        "noise": any(unit == "client" for _, unit in view.record.ledgers),
        "uncovered": [f"{words} ({times} time{'s' * (times != 1)})" for words, times in sorted(uncovered.items())],
        "pairs": None,
        "span": None,
        "temporal": None,
    }
    each = {"leverage": _each(there.leverage), "information": _each(there.information)}
    if not watch.here:
        shown = any(e["recipient"] == "server" and e["scalars"] and e["what"] != "scores" for e in log)
        transformed = view.record.holds_transformed and shown
        return found | {"elsewhere": True, "transformed": transformed, "alike": watch.alike, "hidden": watch.hidden}, each
    if view.record.holds_transformed:
        return found, each
    told = span(account)
    clients = {i: [e for (_, _, client), e in told.energy.items() if client == i] for _, _, i in told.energy}
    largest = {i: max(values) for i, values in clients.items()}
    habits = temporal(account, rho or RHO)
    found |= {
        "pairs": told.pairs,
        "span": _most(largest) | {"mean": float(np.mean(list(told.energy.values()))) if told.energy else 0.0},
        "temporal": _most(habits),
        "watched": len(watch.watched),
        "clients": len(watch.clients),
        "width": account.width,
        "exact": account.width == account.d,
        "missing": told.missing,
    }
    return found, each | {"span": _each(largest), "temporal": _each(habits)}


def _each(values: Mapping[int, float]) -> dict[str, float]:
    return {str(i): float(value) for i, value in sorted(values.items())}


def _most(values: Mapping[int, float]) -> dict[str, Any]:
    """The largest value, whose it is, and the mean; 0 where there is none."""
    client = max(values, key=lambda i: values[i], default=None)
    mean = float(np.mean(list(values.values()))) if values else 0.0
    return {"largest": values[client] if client is not None else 0.0, "client": client, "mean": mean}
