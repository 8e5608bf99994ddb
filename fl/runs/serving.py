"""A scenario's run whose clients are elsewhere: this process is the coordinator, and has none of their data, keys or computers.

Rounds, run folder and report are those of a simulation. Scores are of the scenario's own data: what it is told by clients are the
messages of its protection, and nothing else.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cbor2

from ...protocol.core.errors import Refused
from ...protocol.links.listener import Listener
from ...protocol.links.terms import Limits
from ...protocol.masked.protection import Masked
from ...protocol.pki.standing import Standing
from ...protocol.uploaded.plain import Plain
from ...protocol.view.answers import Vector
from ...protocol.view.functionality import Functionality
from ...protocol.work.linked import Linked, LinkedClient
from ...protocol.work.maker import Maker
from ...protocol.work.uploads import to_bytes
from .experiment import Round, run
from .parties import Parties
from .run_folder import RunFolder
from .scenario import Scenario

SERVED = (Masked, Plain)
"""Protections under which the server owns the models, so that it can score them, and which have one server."""
RUN_BYTES = 16
SPARE_BYTES = 16 << 20
"""Of a client's answer, beside what it says of each coordinate."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a coordinator listens, and how. wait: seconds until all clients are there; without them the run does not begin.

    standing: the coordinator's own; None without certificates. told: when it listens, of the port.
    """

    address: str
    standing: Standing | None
    limits: Limits = field(default_factory=Limits)
    wait: float = 120.0
    told: Callable[[int], object] = field(default=lambda port: None, repr=False)


class Hosts:
    """Where clients are: behind a listener's links. run: the run's name. enrolled: as in `Linked`."""

    def __init__(
        self,
        listener: Listener,
        clients: tuple[int, ...],
        run: bytes,
        wait: float,
        enrolled: Mapping[str, Mapping[int, bytes]] | None = None,
    ) -> None:
        self.run = run
        self.linked = Linked(listener, clients, enrolled)
        self._listener, self._clients, self._wait = listener, clients, wait

    def __call__(self, maker: Maker) -> Mapping[int, LinkedClient]:
        """All clients, when they are there. Raises ValueError of one line for who is not."""
        there = self._listener.wait_for(len(self._clients), self._wait)
        if missing := sorted(set(self._clients) - set(there)):
            raise ValueError(f"after {self._wait:g} s clients {missing} are not there, and the run begins with all of them")
        return self.linked(maker)

    def finished(self, models: Mapping[int, Vector]) -> None:
        """The run is over: hand each client its model."""
        for client, model in models.items():
            self.linked.post(client, "final", to_bytes(model))
        for _ in self.linked.heard():
            pass


def check_served(scenario: Scenario[Any]) -> None:
    """Raise Refused for what clients in processes of their own cannot do yet, naming what would."""
    if not isinstance(scenario.protection, SERVED):
        kinds = " or ".join(kind.__name__ for kind in SERVED)
        raise Refused(f"{scenario.protection!r} is not played between processes yet; use {kinds}")
    for there, what in (
        (Functionality.PAIRS in scenario.algorithm.needs, "comparing pairs of clients"),
        (getattr(scenario.algorithm, "in_slots", None) is not None, "clients that weigh models by their own data"),
        (scenario.adversary is not None, "an adversary, who is simulated"),
        (scenario.training.privacy is not None, "training with noise, which each client accounts for itself"),
    ):
        if there:
            raise Refused(f"{what} is not played between processes yet; simulate it with `cloister run`")


def greeting_of(parties: Parties, drawn: bytes) -> Callable[[int], bytes]:
    """What a client is told when it is there: what was drawn to name the run, who else is in it, and what its model must be."""
    setup, population = parties.setup, parties.population
    known = hashlib.sha256(b"".join(map(to_bytes, (setup.initial, *setup.others)))).digest()
    about = [drawn, list(setup.clients), list(population.shape), population.classes, known, repr(parties.scenario.protection)]
    return lambda client: cbor2.dumps([client, *about])


def serve(scenario: Scenario[Any], out: Path, listening: Listening, data: Path | None = None) -> Iterator[Round]:
    """Play the scenario's rounds with clients over links, yielding after each; the run folder is complete when it ends.

    It holds link.json beside what a simulation's does: bytes on links, who was absent, who was displaced. Raises Refused for what
    cannot be played so, ValueError where clients are missing or not in the directory, OSError for an address that cannot be
    listened at.
    """
    check_served(scenario)
    RunFolder(out).check_free()
    parties, drawn = Parties(scenario, data), os.urandom(RUN_BYTES)
    clients, standing = parties.setup.clients, listening.standing
    directory = None if standing is None else standing.directory
    enrolled = None if directory is None else directory.enrolled(clients)
    name = drawn if directory is None else directory.run_of(drawn)
    most = min(listening.limits.most, SPARE_BYTES + 32 * len(parties.setup.initial))
    limits = replace(listening.limits, most=most)
    listener = Listener(listening.address, clients, greeting_of(parties, drawn), standing, limits)
    listening.told(listener.start())
    hosts = Hosts(listener, clients, name, listening.wait, enrolled)
    try:
        yield from run(scenario, out, data, hosts=hosts)
    finally:
        listener.stop()
        if out.is_dir():
            counted = {n: getattr(listener, n) for n in ("bytes_in", "bytes_out", "displaced", "refused", "slow", "revoked")}
            absent = {str(client): times for client, times in sorted(hosts.linked.absent.items())}
            RunFolder(out).write_json("link.json", counted | {"unanswered": absent, "late": hosts.linked.late})
