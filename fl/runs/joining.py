"""A client of a run that another process coordinates: its own data, computer, journal, and record of what it told whom.

The scenario's file says what the client does and what it agrees to; the coordinator says who else takes part. Where the two
differ in what a client relies on (the protection, the first models), it does not take part.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
from safetensors.torch import save_file

from ...crypto.entropy import KeptEntropy
from ...protocol.core.errors import Refused
from ...protocol.drivers.journal import InFile
from ...protocol.links.dialled import Dialled
from ...protocol.masked.clients import masking_clients
from ...protocol.masked.protection import Masked
from ...protocol.uploaded.clients import uploading_clients
from ...protocol.uploaded.plain import Plain
from ...protocol.view.protection import Protection
from ...protocol.work.driving import Driven
from ...protocol.work.linked import Said, said
from ...protocol.work.maker import Maker
from ...protocol.work.uploads import from_bytes, to_bytes
from ..data.own import Alone, OwnData
from ..models.vector import dimension, load_vector, trainable
from .parties import Parties
from .scenario import Scenario

LOG, MODEL, JOURNAL = "join.jsonl", "model.safetensors", "journal"


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a coordinator says first. known: SHA-256 of the first models. protection: how it prints."""

    client: int
    run: bytes
    clients: tuple[int, ...]
    shape: tuple[int, ...]
    classes: int
    known: bytes
    protection: str

    @classmethod
    def of(cls, data: bytes) -> "Greeting":
        """Raises Refused."""
        try:
            client, run, clients, shape, classes, known, protection = cbor2.loads(data)
            found = cls(
                int(client), bytes(run), tuple(map(int, clients)), tuple(map(int, shape)), int(classes), known, protection
            )
        except (TypeError, ValueError, OverflowError, cbor2.CBORDecodeError):
            raise Refused("what the coordinator says first is not a greeting: all parties need the same release") from None
        if found.client not in found.clients or len(set(found.clients)) != len(found.clients) or len(found.run) != 16:
            raise Refused("what the coordinator says first does not add up")
        return found


def maker_of(protection: Protection[Any]) -> Maker:
    """How clients under this protection are made. Raises Refused for one that is not played between processes yet."""
    match protection:
        case Masked():
            return masking_clients(protection)
        case Plain():
            return uploading_clients()
    raise Refused(f"{protection!r} is not played between processes yet; use Masked or Plain")


def own_parties(scenario: Scenario[Any], greeting: Greeting, own: Path | None, data: Path | None) -> Parties:
    """The client's own side of the run. own: its data; None for its share of the scenario's. Raises Refused, ValueError."""
    if repr(scenario.protection) != greeting.protection:
        raise Refused(f"the coordinator plays {greeting.protection:.300}, where this client agrees to {scenario.protection!r}")
    mine = replace(scenario, adversary=None, faults=None)
    if own is not None:
        source = OwnData(own, greeting.shape, greeting.classes)
        mine = replace(mine, data=source, partition=Alone(greeting.client))
    found = Parties(mine, data)
    if greeting.client not in found.population.clients:
        raise Refused(f"the scenario has no client {greeting.client}")
    models = hashlib.sha256(b"".join(map(to_bytes, (found.setup.initial, *found.setup.others)))).digest()
    if models != greeting.known:
        raise Refused("the coordinator begins with another model: give both the same scenario, with the same seed")
    return found


class Record:
    """A client's own record, a line for each word that it was told and what it answered: no values of its own, and no keys."""

    def __init__(self, path: Path) -> None:
        self._file = os.fdopen(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "a", encoding="utf-8")

    def add(self, **what: object) -> None:
        """A line, with the time."""
        line = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **what}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def said(self, what: Said) -> None:
        """What a word led to. A frame that led to nothing is no line."""
        if what.sent:
            self.add(revealed=[{"what": kind, "bytes": size} for kind, size in what.sent], to="coordinator")
        if what.learned:
            self.add(learned=list(what.learned))
        if what.refused:
            self.add(refused=[{"of": blame, "why": reason} for blame, reason in what.refused])
        if what.word not in ("frame", "deadline"):
            self.add(told=what.word)


class Member:
    """A client that takes part in a run, whatever brings it words. folder: its own, mode 0700: journal, record and final model.

    own, data: see `join`. Raises Refused and ValueError.
    """

    def __init__(
        self, scenario: Scenario[Any], greeting: Greeting, folder: Path, *, own: Path | None = None, data: Path | None = None
    ) -> None:
        self.record = Record(folder / LOG)
        self._folder = folder
        maker = maker_of(scenario.protection)
        self._parties = own_parties(scenario, greeting, own, data)
        setup = replace(
            self._parties.setup,
            run=greeting.run,
            clients=greeting.clients,
            entropy=KeptEntropy(),
            besides=None,
            checks_once=False,
        )
        setup = replace(setup, workers=_only(setup.workers, greeting.client))
        self._driven = Driven(greeting.client, setup, maker, InFile(folder / JOURNAL))
        self.record.add(
            joined=greeting.run.hex(), client=greeting.client, clients=list(greeting.clients), protection=greeting.protection
        )

    def said(self, data: bytes) -> Said:
        """What it answers to a word; it is in the record, and the final model in its file."""
        answer = said(self._driven, data)
        self.record.said(answer)
        if answer.final:
            _write_model(self._parties, answer.final, self._folder / MODEL)
        return answer


def join(
    scenario: Scenario[Any], link: Dialled, folder: Path, *, own: Path | None = None, data: Path | None = None
) -> Iterator[Said]:
    """Take part until the run is over, yielding what was said to each word.

    folder: of this client, mode 0700: its journal, from which it goes on after a crash, its record and its final model. own: its
    data; None for its share of the scenario's. data: folder of data sets. Raises Refused, LinkRefused, ConnectionError and
    ValueError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    greeting = Greeting.of(link.start())
    try:
        member = Member(scenario, greeting, folder, own=own, data=data)
        for number, word in link.words():
            answer = member.said(word)
            link.answer(number, answer.data)
            yield answer
        member.record.add(ended=True)
    finally:
        link.stop()


def _only(workers: Any, client: int) -> Any:
    """A computer that does this client's jobs alone."""

    def work(jobs: Sequence[Any]) -> Any:
        return workers([job for job in jobs if job.client == client])

    return work


def _write_model(parties: Parties, final: bytes, path: Path) -> None:
    """As safetensors of named tensors. Raises ValueError for what is no such model."""
    vector = from_bytes(final)
    if len(vector) != dimension(parties.module) or not bool(np.isfinite(vector).all()):
        raise ValueError("the final model is not one of this scenario")
    load_vector(parties.module, vector)
    partial = path.with_suffix(".partial")
    save_file({n: p.detach().cpu().contiguous().clone() for n, p in trainable(parties.module).items()}, partial)
    partial.replace(path)
