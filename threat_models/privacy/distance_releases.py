"""The audit of distances that two clients measure between each other and report with noise, the reference distance among them.

Each trial goes through both clients' own computers: what they show each other, what that costs, and what they report. One record
of client 1 is turned round, which moves three of the four numbers by all that they can move: its distance to client 2 and client
2's to it up, and its own reference distance down, as its held-out records lie the other way.
"""

from functools import cache

import numpy as np

from ...crypto.entropy import SimulatedEntropy
from ...fl.clients.embedders import SimulatedEmbedders
from ...fl.data.population import Client
from ...fl.emd.subsample import Size
from ...protocol.core.session import Session
from ...protocol.pairs.choices import Distances
from ...protocol.pairs.computer import OwnComputer
from ...protocol.pairs.noise import Noise
from ...protocol.pairs.question import Comparing
from ...protocol.pairs.terms import PROTOCOL, terms_of
from ...protocol.privacy.ledger import Ledger
from . import names
from .bound import Floats
from .mechanism import Mechanism
from .pair_releases import CLASSES, TAU, direction, embedders, records

NAME = names.DISTANCES
ROWS = 20
"""Records of each client."""


def distances(multiplier: float = 0.8) -> Mechanism:
    """Unit: one record of client 1. The server sees what both report."""
    noise = Noise(clip=1.0, multiplier=1.0, reference_multiplier=multiplier, budget=1e3, delta=1e-5)
    choice = Distances(noise=noise, embedding="public")
    ledger = _reported(choice, False, 0)[1]

    def play(neighbour: bool, seed: int, /) -> Floats:
        return _reported(choice, neighbour, seed)[0]

    return Mechanism(NAME, ledger.spent, ledger.delta, True, "GDP", play, unit=ledger.unit)


def _reported(choice: Distances, neighbour: bool, seed: int) -> tuple[Floats, Ledger]:
    """Distance and reference of clients 1 and 2, float64 (4,), and the ledger of client 1."""
    own = _computers(neighbour)
    terms = terms_of(Session(PROTOCOL, bytes(range(16)), 0, "clients 1 and 2", (1, 2), 2), choice, own, 0)
    computers = {i: OwnComputer(i, own, SimulatedEntropy(seed)) for i in (1, 2)}
    for computer in computers.values():
        computer.comparing = Comparing(choice, TAU)
    shown = {i: computer.show(terms, None, None) for i, computer in computers.items()}
    reports = [computers[i].report(terms, None, None, shown[3 - i]) for i in (1, 2)]
    ledger = computers[1].ledger
    if ledger is None:
        raise ValueError("a release without noise has no epsilon to audit")
    return np.array([value for report in reports for value in (report.distance, report.reference)]), ledger


@cache
def _computers(neighbour: bool) -> SimulatedEmbedders:
    labels = np.arange(ROWS) % CLASSES
    along, against = np.ones(ROWS, np.bool_), np.zeros(ROWS, np.bool_)
    turned = along.copy()
    turned[0] = not neighbour
    mine, theirs, held = (records(signs, labels, direction()) for signs in (turned, along, against))
    train = {1: Client(1, mine, mine), 2: Client(2, theirs, theirs)}
    return embedders(train, {i: Client(i, held, held) for i in (1, 2)}, Size(ROWS))
