"""A client of a run that another process coordinates: its own data, computer, journal, and record of what it told whom.

The scenario's file says what the client does and what it agrees to; the coordinator says who else takes part, out of those that
the authority's directory lists. Where they differ in what a client relies on (the protection, the first models, who is who), it
does not take part.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cbor2
import numpy as np
from safetensors.torch import save_file

from ...crypto.entropy import KeptEntropy, OsEntropy
from ...protocol.core.errors import Refused
from ...protocol.core.session import RUN_BYTES
from ...protocol.drivers.journal import InFile
from ...protocol.encrypted.protection import Encrypted
from ...protocol.links.dialled import Dialled
from ...protocol.masked.clients import masking_clients
from ...protocol.masked.protection import Masked
from ...protocol.pki.names import name_of
from ...protocol.pki.standing import Standing
from ...protocol.two_servers.aside import Aside
from ...protocol.two_servers.clients import sharing_clients
from ...protocol.two_servers.protection import TwoServer
from ...protocol.uploaded.clients import transforming_clients, uploading_clients
from ...protocol.uploaded.permuted import Permuted
from ...protocol.uploaded.plain import Plain
from ...protocol.view.answers import Vector
from ...protocol.view.protection import Protection
from ...protocol.view.work import LocalScore
from ...protocol.work.driving import COMPUTER, LINK, Driven, seen_in
from ...protocol.work.linked import Said, said
from ...protocol.work.listed import Listed
from ...protocol.work.maker import Maker
from ...protocol.work.uploads import from_bytes, to_bytes
from ..clients.spending import together
from ..data.own import Alone, OwnData
from ..models.vector import load_vector, trainable
from .own_model import predictor_of, score_of
from .parties import Parties
from .scenario import Scenario

if TYPE_CHECKING:
    from ...protocol.privacy.ledger import Ledger, Release, Unit

LOG, MODEL, JOURNAL = "join.jsonl", "model.safetensors", "journal"


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a coordinator says first. drawn: for this run, which it names. known: SHA-256 of the first models. protection: how it
    prints.
    """

    client: int
    drawn: bytes
    clients: tuple[int, ...]
    shape: tuple[int, ...]
    classes: int
    known: bytes
    protection: str

    @classmethod
    def of(cls, data: bytes) -> "Greeting":
        """Raises Refused."""
        try:
            client, drawn, clients, shape, classes, known, protection = cbor2.loads(data)
            found = cls(
                int(client), bytes(drawn), tuple(map(int, clients)), tuple(map(int, shape)), int(classes), known, protection
            )
        except (TypeError, ValueError, OverflowError, cbor2.CBORDecodeError):
            raise Refused("what the coordinator says first is not a greeting: all parties need the same release") from None
        if found.client not in found.clients or len(set(found.clients)) != len(found.clients) or len(found.drawn) != RUN_BYTES:
            raise Refused("what the coordinator says first does not add up")
        return found


def maker_of(protection: Protection[Any]) -> Maker:
    """How clients under this protection are made. Raises Refused for one that is not played between processes yet."""
    match protection:
        case Masked():
            return masking_clients(protection)
        case Plain():
            return uploading_clients()
        case Permuted():
            return transforming_clients(protection.transform, protection.keys)
        case Encrypted():
            from ...protocol.encrypted.clients import encrypting_clients  # here, as it loads a library of ciphertexts

            return encrypting_clients(protection)
        case TwoServer():
            return sharing_clients(protection)
    raise Refused(f"{protection!r} is not played between processes yet; use Masked, Plain, Permuted, Encrypted or TwoServer")


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


def listed_of(greeting: Greeting, standing: Standing | None) -> tuple[bytes, Listed | None]:
    """The run's name, and who is who in it, by the directory of the client's own folder. Raises Refused, Untrusted."""
    if standing is None:
        return greeting.drawn, None
    if greeting.client != standing.party:
        raise Refused(f"the coordinator takes {name_of(standing.party)} for another client")
    run = standing.directory.run_of(greeting.drawn)
    return run, Listed(standing.identities, standing.directory.enrolled(greeting.clients), partial(standing.enter, run))


class Record:
    """A client's own record, a line for each word that it was told, what it answered and spent: no values of its own, no keys."""

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
        if what.aside:
            self.add(revealed=[{"what": kind, "bytes": len(frame)} for kind, frame in what.aside], to="second server")
        if what.learned:
            self.add(learned=list(what.learned))
        if what.refused:
            self.add(refused=[{"of": blame, "why": reason} for blame, reason in what.refused])
        if what.word not in ("frame", "deadline"):
            self.add(told=what.word)


class Member:
    """A client that takes part in a run, whatever brings it words. folder: its own, mode 0700: journal, record and final model.

    own, data, tells: see `join`. standing: of a client with certificates, by whose directory it tells who is who. Raises Refused,
    Untrusted and ValueError.
    """

    def __init__(
        self,
        scenario: Scenario[Any],
        greeting: Greeting,
        folder: Path,
        *,
        own: Path | None = None,
        data: Path | None = None,
        standing: Standing | None = None,
        tells: bool = True,
    ) -> None:
        self.record, self.journal = Record(folder / LOG), InFile(folder / JOURNAL)
        self._folder, self._rounds = folder, 0
        maker = maker_of(scenario.protection)
        self._parties = parties = own_parties(scenario, greeting, own, data)
        own_ledger = {i: ledger for i, ledger in parties.spending.ledgers.items() if i == greeting.client}
        parties.spending = replace(parties.spending, entropy=OsEntropy(), ledgers=own_ledger, beside=self._released_besides)
        self._restore(self.journal.read().get(COMPUTER))
        self._kept = self.kept
        self._charged: Mapping[tuple[int, Unit], Ledger] = {}
        run, listed = listed_of(greeting, standing)
        setup = replace(parties.setup, run=run, clients=greeting.clients, entropy=KeptEntropy(), checks_once=False)
        setup = replace(setup, besides=parties.spending.released, comparing=parties.comparing)
        setup = replace(setup, scorer=partial(self._scored, tells))
        setup = replace(setup, workers=_only(setup.workers, greeting.client))
        self._driven = Driven(greeting.client, setup, maker, self.journal, listed)
        self.record.add(joined=run.hex(), client=greeting.client, clients=list(greeting.clients), protection=greeting.protection)

    @property
    def enrolled(self) -> bool:
        """Whether it has taken what it was told of who takes part."""
        return bool(self._driven.client.roles)

    def said(self, data: bytes) -> Said:
        """What it answers to a word; it is in the record, and the final model in its file."""
        answer = said(self._driven, data)
        self.record.said(answer)
        if (kept := self.kept) != self._kept:
            self.journal.put({COMPUTER: kept})  # before anything that follows from it leaves
            self._kept = kept
        if (ledgers := self.ledgers) != self._charged:
            from .privacy import headline, spent  # here, as it loads an accountant

            self.record.add(spent=headline(spent(ledgers)))
            self._charged = ledgers
        if answer.final:
            self._write_models([from_bytes(model) for model in answer.final])
        return answer

    @property
    def kept(self) -> bytes:
        """What its computer keeps, to itself, and must not forget: how it weighs models, and what it spent by training."""
        parties = self._parties
        weighed = {} if parties.weighing is None else parties.weighing.kept.save()
        plain = {name: [value.dtype.str, list(value.shape), value.tobytes()] for name, value in weighed.items()}
        return cbor2.dumps([plain, parties.spending.save(), self._rounds])

    @property
    def ledgers(self) -> "Mapping[tuple[int, Unit], Ledger]":
        """What it spent of its privacy budget, by training and by answers with noise; empty where nothing has noise."""
        found = {(i, ledger.unit): ledger for i, ledger in self._parties.spending.ledgers.items()}
        of_answers = self._driven.client.ledger if self.enrolled else None
        if of_answers is not None:
            key = of_answers.client, of_answers.unit
            found[key] = together(found[key], of_answers) if key in found else of_answers
        return {key: ledger for key, ledger in found.items() if ledger.releases}

    def _restore(self, kept: bytes | None) -> None:
        """Go on from that. Raises ValueError for what its computer did not store."""
        if kept is None:
            return
        try:
            plain, paid, rounds = cbor2.loads(kept)
            weighed = {
                name: np.frombuffer(data, np.dtype(kind)).reshape(shape).copy() for name, (kind, shape, data) in plain.items()
            }
        except (TypeError, ValueError, AttributeError, cbor2.CBORDecodeError):
            raise ValueError("a journal in which there is not what a client's computer stored") from None
        self._rounds = rounds
        self._parties.spending.restore(paid)
        if self._parties.weighing is not None:
            self._parties.weighing.kept.restore(weighed)

    def _scored(self, tells: bool, client: int, rounds: int, models: tuple[Vector, ...]) -> LocalScore | None:
        self._rounds = max(self._rounds, rounds)
        if tells:
            return score_of(self._parties, client, rounds, models)
        self.record.add(withheld="how well it predicts its own test records")
        return None

    def _released_besides(self, client: int) -> "Sequence[Release]":
        """About single records, in answers with noise of their own."""
        ledger = self._driven.client.ledger if self.enrolled else None
        return ledger.releases if ledger is not None and ledger.unit == "record" else ()

    def _write_models(self, models: Sequence[Vector]) -> None:
        """What it predicts with, as safetensors of named tensors; of a mixture each model, and the weights.

        Raises ValueError for what is no such model.
        """
        parties, client = self._parties, self._driven.client.id
        if any(len(model) != len(parties.setup.initial) or not np.isfinite(model).all() for model in models):
            raise ValueError("the final model is not one of this scenario")
        found = predictor_of(parties, client, self._rounds, models)
        _write_model(parties, found.vector, self._folder / MODEL)
        if found.weights is not None:
            for k, model in enumerate(models):
                _write_model(parties, model[: len(found.vector)], self._folder / f"model-{k}.safetensors")
            (self._folder / "weights.json").write_text(json.dumps(found.weights.tolist()) + "\n", encoding="utf-8")


def join(
    scenario: Scenario[Any],
    link: Dialled,
    folder: Path,
    *,
    own: Path | None = None,
    data: Path | None = None,
    aside: Aside | None = None,
    tells: bool = True,
) -> Iterator[Said]:
    """Take part until the run is over, yielding what was said to each word.

    folder: of this client, mode 0700: its journal, from which it goes on after a crash, its record and its final model. own: its
    data; None for its share of the scenario's. data: folder of data sets. aside: its link to a second server, where the run has
    one. tells: whether it says how well it predicts, where it is asked. Raises Refused, also where the coordinator says of
    others what the directory does not; LinkRefused, ConnectionError and ValueError.
    """
    if isinstance(scenario.protection, TwoServer) != (aside is not None):
        raise Refused("a client has a link to a second server (--second) under TwoServer, and under nothing else")
    if link.standing is None and aside is not None:
        raise Refused("two servers are two by their certificates: TwoServer is played with --keys alone")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    greeting = Greeting.of(link.start(seen_in(InFile(folder / JOURNAL))))
    try:
        member = Member(scenario, greeting, folder, own=own, data=data, standing=link.standing, tells=tells)
        if aside is not None:
            aside.start(greeting.drawn)
        for number, word in link.words():
            answer = member.said(word)
            if aside is not None:
                aside.check()
                aside.followed(answer.told, [frame for _, frame in answer.aside])
            member.journal.put({LINK: cbor2.dumps(astuple(replace(link.seen, number=number)))})  # so that it is answered once
            link.answer(number, answer.data)
            yield answer
            if answer.word == "enrol" and answer.refused and not member.enrolled:
                raise Refused(f"this client leaves: {answer.refused[0][1]}")
        member.record.add(ended=True)
    finally:
        link.stop()
        if aside is not None:
            aside.stop()


def _only(workers: Any, client: int) -> Any:
    """A computer that does this client's jobs alone."""

    def work(jobs: Sequence[Any]) -> Any:
        return workers([job for job in jobs if job.client == client])

    return work


def _write_model(parties: Parties, vector: Vector, path: Path) -> None:
    """As safetensors of named tensors."""
    load_vector(parties.module, vector)
    partial = path.with_suffix(".partial")
    save_file({n: p.detach().cpu().contiguous().clone() for n, p in trainable(parties.module).items()}, partial)
    partial.replace(path)
