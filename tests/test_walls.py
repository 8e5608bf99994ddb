"""In one process too, nothing goes between parties but bytes: no object with numbers in it is reached from two sides."""

from dataclasses import fields, is_dataclass

import numpy as np
import pytest

from cloister.protocol import Masked
from cloister.protocol.drivers.in_process import InProcess
from cloister.protocol.drivers.roles import Received
from cloister.protocol.pairs.choices import DISTANCES, ONE_RELEASE, PER_PAIR
from cloister.protocol.view.answers import Assignment, Model, Weights

from . import pairs_sample
from .test_away import INITIAL, MEMBERS, PROTECTIONS, opened

PLAIN = (int, str, bytes, memoryview, bool, float)


def only_bytes(value):
    """Whether this is made of numbers, words and bytes."""
    if isinstance(value, tuple):
        return all(map(only_bytes, value))
    return isinstance(value, PLAIN)


def arrays(thing, skip, seen):
    """All arrays that can be reached from here, but through what is skipped."""
    todo = [thing]
    while todo:
        one = todo.pop()
        if id(one) in seen or any(one is other for other in skip) or isinstance(one, (str, bytes, int, float, type)):
            continue
        seen[id(one)] = one
        if isinstance(one, np.ndarray):
            yield one
        elif isinstance(one, dict):
            todo += [*one.keys(), *one.values()]
        elif isinstance(one, (list, tuple, set, frozenset)):
            todo += list(one)
        elif callable(one) and getattr(one, "__closure__", None):
            todo += [cell.cell_contents for cell in one.__closure__]
        elif is_dataclass(one):
            todo += [getattr(one, f.name) for f in fields(one) if hasattr(one, f.name)]
        else:
            todo += list(getattr(one, "__dict__", {}).values())
            todo += [getattr(one, name) for name in getattr(type(one), "__slots__", ()) if hasattr(one, name)]


@pytest.fixture
def received(monkeypatch):
    """Messages that roles took, as they come."""
    found = []
    feed = InProcess._feed

    def fed(network, party, event, *started):
        if isinstance(event, Received):
            found.append(event.envelope.message)
        return feed(network, party, event, *started)

    monkeypatch.setattr(InProcess, "_feed", fed)
    return found


def check(view, received, *known):
    """Nothing but bytes came, and no side reaches what is another's. known: beside what all know before a run."""
    for message in received:
        assert all(only_bytes(getattr(message, f.name)) for f in fields(message)), type(message)

    run = view.harness.run
    known = [*known, run.setup]  # what everybody knows before the run
    roles = [role for client in run.clients.all.values() for role in client.roles.values()]  # by which it reaches them
    parts = [view.record, view.harness._parts]
    server = list(arrays(parts, [*known, run, run.clients, *roles], {}))
    for client in run.clients.all.values():
        others = [other for other in run.clients.all.values() if other is not client]
        held = list(arrays([client.roles], [*known, run.clients, *others], {}))
        assert held
        for mine in held:
            assert not any(
                np.shares_memory(mine, theirs) for theirs in server if not any(one is k for one in (theirs, mine) for k in known)
            )
    return run, known, roles, parts


@pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
def test_no_object_with_numbers_is_reached_from_two_sides(protection, received):
    view = opened(protection, None)
    updates = view.train(0, {"root": Assignment(Model("init"), MEMBERS, MEMBERS)})["root"]
    if not (hasattr(protection, "keys") and protection.keys == "run" and hasattr(protection, "ring_bits")):
        view.sums(updates, {"m": Weights(dict.fromkeys(MEMBERS, 1.0))})
    else:
        view.gram(updates, origin=True)
    assert len(received) >= 2 * len(MEMBERS)
    run, known, roles, parts = check(view, received, INITIAL)
    client = run.clients.all[MEMBERS[0]]
    planted = next(arrays([client.roles], [*known, run.clients], {}))
    parts[0].planted = {"of a client": (planted,)}
    assert any(planted is found for found in arrays(parts, [*known, run, run.clients, *roles], {}))


@pytest.mark.parametrize("choice", [PER_PAIR, DISTANCES, ONE_RELEASE], ids=repr)
def test_nor_where_clients_are_compared(choice, received):
    view = pairs_sample.opened(Masked(floor=2, sketch=8))
    assert pairs_sample.ask(view, choice).accepts == pairs_sample.expected()
    assert {type(message).__name__ for message in received} >= {
        "PairOffer",
        "PairDistance" if choice is DISTANCES else "PairClouds",
    }
    check(view, received, pairs_sample.INITIAL)
