"""One client of a run that another process coordinates, whatever brings it words: its computer, journal, and record.

The record says what it told whom, what it spent of its privacy budget, and what it refused.
"""

import fcntl
import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cbor2
import numpy as np
from safetensors.torch import save

from ...crypto.entropy import KeptEntropy, OsEntropy
from ...protocol.core.errors import OF_TRAINING, Revoked
from ...protocol.drivers.journal import InFile
from ...protocol.pairs.choices import Choice
from ...protocol.pairs.disclosed import own_answers_in_words, together_in_words
from ...protocol.pki.standing import Standing
from ...protocol.view.answers import Vector
from ...protocol.view.work import Judgement, LocalJob, LocalOffer, LocalScore, LocalWork, Unwilling, Workers
from ...protocol.wire.codec import Buffer
from ...protocol.work.driving import COMPUTER, Driven
from ...protocol.work.said import Said, said
from ...protocol.work.uploads import from_bytes
from ..clients.spending import together
from ..data.agreed import agreed_on, in_metadata
from ..data.own import OwnData
from ..functions import own_place
from ..models.vector import load_vector, named_tensors
from .greeting import Greeting, listed_of, maker_of, own_parties
from .origin import checksum
from .own_model import made_its_own, predictor_of, score_of
from .parties import Parties
from .privacy import headline, spent
from .scenario import Scenario
from .shared_words import shared_in_words

if TYPE_CHECKING:
    from ...protocol.privacy.ledger import Ledger, Release, Unit

MOST_BYTES = 1 << 28
"""Of a record: as much as a client of 100,000 rounds writes. Beyond, whoever sends it words fills its disk."""
log = logging.getLogger("cloister.joining")
LOG, MODEL, JOURNAL = "join.jsonl", "model.safetensors", "journal"


class OwnRecord:
    """A client's own record: a line for whatever it was sent, answered, spent and refused, and for when it was not there.

    No values of its own but which models it chose, and no keys. Rounds are counted from 0. Lines may come from several threads.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.fdopen(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "a", encoding="utf-8")
        self._bytes = os.fstat(self._file.fileno()).st_size
        self._away = False
        self._aside: bool | None = None
        self._one = threading.Lock()

    def alone(self) -> None:
        """Until it is closed, no other process takes part with this folder. Raises ValueError where one does."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another process takes part with {self._path.parent} already") from None

    def close(self) -> None:
        """Nothing more is added."""
        self._file.close()

    def add(self, **what: object) -> None:
        """A line, with the time. Raises OSError where it is one too many, as on a disk that is full."""
        line = json.dumps({"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **what}) + "\n"
        with self._one:
            if self._bytes + len(line) > MOST_BYTES:
                raise OSError(
                    f"{self._path}: {self._bytes} bytes, more than a run needs: the coordinator says things without end, or this "
                    "client is started again and again; find out why, and move that file away before it is started"
                )
            self._file.write(line)
            self._file.flush()
            self._bytes += len(line)

    def connected(self, there: bool, why: str) -> None:
        """The link to the coordinator is there, or is lost, or cannot be had: see `Dialled.noted`."""
        if there and self._away:
            self.add(back=True)
        if not there:
            self.add(away=why)
        self._away = not there

    def connected_aside(self, there: bool, why: str) -> None:
        """The same of the link to the second server; that it is there is noted the first time, too."""
        if not there or self._aside is not True:
            self.add(second={"back": True} if there else {"away": why})
        self._aside = there

    def left(self, error: Exception | None = None) -> None:
        """It takes no part from here on, for this reason; None where it was stopped by whoever runs it."""
        why = "it was stopped where it runs" if error is None else str(error) or type(error).__name__
        with suppress(OSError):  # of a disk that is full
            self.add(left=why, **({"revoked": True} if isinstance(error, Revoked) else {}))

    def said(self, what: Said) -> None:
        """What a word was, and led to."""
        at = {} if what.round is None else {"round": what.round}
        if what.kind:
            among = {"among": [len(what.among), _named(what.among)]} if what.among else {}
            self.add(received={"what": what.kind, "bytes": len(what.told), "model": what.carried, **among}, **at)
        if what.final:
            self.add(received={"what": "final", "bytes": sum(map(len, what.final)), "model": True})
        if what.sent:
            why = {"said": what.declined} if what.declined else {}
            revealed: list[dict[str, Any]] = [{"what": kind, "bytes": size} for kind, size in what.sent]
            for one in revealed:
                one |= {} if what.open is None or one["what"] != "MaskedInput" else {"open": list(what.open)}
            self.add(revealed=revealed, to="coordinator", **at, **why)
        if what.aside:
            sent = [{"what": kind, "bytes": len(frame)} for kind, frame in what.aside]
            self.add(revealed=sent, to="second server", **at)
        if what.learned:
            self.add(learned=list(what.learned), **at)
        if what.refused:
            self.add(refused=[{"of": blame, "why": reason} for blame, reason in what.refused])
        if what.word not in ("frame", "deadline"):
            self.add(told=what.word, **(at if what.word == "alone" else {}))


def _named(clients: Sequence[int]) -> str:
    """Clients, in a few letters, however many they are: whether they are the same as in another round."""
    return hashlib.sha256(cbor2.dumps(sorted(clients))).hexdigest()[:8]


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """Of a client's record, one that is none yet among them; a last line may be cut off."""
    with suppress(FileNotFoundError):
        for line in path.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):
                if isinstance(found := json.loads(line), dict):
                    yield found


class Member:
    """A client that takes part in a run, whatever brings it words. folder: its own, mode 0700: journal, record and final model.

    own, data, tells: see `join`. standing: of a client with certificates, by whose directory it tells who is who. record: that is
    begun already. trains_on, records: on what, in words, and on how many. other_data: whether it joined this run with other data
    before. Raises Refused, Untrusted and ValueError.
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
        record: OwnRecord | None = None,
    ) -> None:
        self.record, self.journal = record or OwnRecord(folder / LOG), InFile(folder / JOURNAL)
        self._folder, self._rounds = folder, 0
        maker = maker_of(scenario.protection)
        self._parties = parties = own_parties(scenario, greeting, own, data)
        self.trains_on = "its share of the scenario's data" if own is None else "its own data"
        self.records = len(parties.population.clients[greeting.client].train)
        own_ledger = {i: ledger for i, ledger in parties.spending.ledgers.items() if i == greeting.client}
        parties.spending = replace(parties.spending, entropy=OsEntropy(), ledgers=own_ledger, beside=self._released_besides)
        self._restore(self.journal.read().get(COMPUTER))
        self._kept = self.kept
        self._charged: Mapping[tuple[int, Unit], Ledger] = {}
        run, listed = listed_of(greeting, standing)
        setup = replace(parties.setup, run=run, clients=greeting.clients, entropy=KeptEntropy(), checks_once=False)
        setup = replace(setup, besides=parties.spending.released, comparing=parties.comparing)
        setup = replace(setup, scorer=partial(self._scored, tells))
        setup = replace(setup, workers=partial(self._works, setup.workers, greeting.client))
        setup = replace(setup, judge=None if setup.judge is None else partial(self._judges, setup.judge))
        self._driven = Driven(greeting.client, setup, maker, self.journal, listed)
        who = {"joined": run.hex(), "client": greeting.client, "clients": list(greeting.clients)}
        alone = {greeting.client: parties.population.clients[greeting.client]}
        own_data = checksum(replace(parties.population, clients=alone, groups={}, names={}))
        before = [of for of in lines_of(folder / LOG) if of.get("joined") == who["joined"] and "data_sha256" in of]
        self.other_data = bool(before) and before[-1]["data_sha256"] != own_data
        about: dict[str, Any] = {
            "data": self.trains_on,
            "records": self.records,
            "data_sha256": own_data,
            "parameters": len(setup.initial),
        }
        if parties.comparing is not None:
            about["compared"] = compared_in_words(parties.comparing.choice, getattr(scenario.algorithm, "shown", ""))
        if shared := shared_in_words(scenario.algorithm.needs):
            about["shared"] = shared
        self.record.add(**who, protection=greeting.protection, **about)

    @property
    def enrolled(self) -> bool:
        """Whether it has taken what it was told of who takes part."""
        return bool(self._driven.client.roles)

    def said(self, data: Buffer) -> Said:
        """What it answers to a word; it is in the record, and the final model in its file."""
        answer = said(self._driven, data)
        self.record.said(answer)
        if (kept := self.kept) != self._kept:
            self.journal.put({COMPUTER: kept})  # before anything that follows from it leaves
            self._kept = kept
        if (ledgers := self.ledgers) != self._charged:
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
        for of_answers in self._driven.client.ledgers if self.enrolled else ():
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

    def _works(self, workers: Workers, client: int, jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork | Unwilling]]:
        """A computer that does this client's jobs alone; which models it chose is in the record.

        A job that ends in an error, of its own model or loss for instance, is declined: what the error says is its own affair.
        """
        rounds, own = {job.client: job.round for job in jobs}, [job for job in jobs if job.client == client]
        try:
            for of, done in workers(own):
                if isinstance(done, LocalWork):
                    log.info("trained", extra={"round": rounds[of]})
                    if done.shares:
                        self.record.add(chose=list(done.shares), round=rounds[of])
                yield of, done
        except Exception as error:
            place = own_place(error)
            why = f"{type(error).__name__}: {error}{f' ({place})' if place else ''}"
            log.error("training failed", extra={"why": why})
            self.record.add(failed=why, round=rounds.get(client))
            yield client, Unwilling(OF_TRAINING)

    def _judges(self, judge: Judgement, offer: LocalOffer) -> int | None:
        """A choice that is a message of its own is in the record likewise."""
        if (found := judge(offer)) is not None:
            self.record.add(chose=[int(k == found) for k in range(len(offer.models))], round=offer.round)
        return found

    def _scored(self, tells: bool, client: int, rounds: int, models: tuple[Vector, ...]) -> LocalScore | None:
        self._rounds = max(self._rounds, rounds)
        if tells:
            found = score_of(self._parties, client, rounds, models)
            if found is not None and len(models) > 1:
                self.record.add(named=found.which, of=len(models), round=rounds - 1)
            return found
        self.record.add(withheld="how well it predicts its own test records", round=rounds - 1)
        return None

    def _released_besides(self, client: int) -> "Sequence[Release]":
        """About single records, in answers with noise of their own."""
        ledger = self._driven.client.ledger if self.enrolled else None
        return ledger.releases if ledger is not None and ledger.unit == "record" else ()

    def _write_models(self, models: Sequence[Vector]) -> None:
        """What it predicts with, as safetensors of named tensors; of a mixture each model, and the weights.

        Where clients adapt a model before they use it, the adapted one. Raises ValueError for what is no such model.
        """
        parties, client = self._parties, self._driven.client.id
        if any(len(model) != len(parties.setup.initial) or not np.isfinite(model).all() for model in models):
            raise ValueError("the final model is not one of this scenario")
        found = predictor_of(parties, client, self._rounds, models)
        _write_model(parties, made_its_own(parties, client, found.vector), self._folder / MODEL)
        if found.weights is not None:
            for k, model in enumerate(models):
                _write_model(parties, model[: len(found.vector)], self._folder / f"model-{k}.safetensors")
            (self._folder / "weights.json").write_text(json.dumps(found.weights.tolist()) + "\n", encoding="utf-8")


def compared_in_words(choice: Choice, shown: str) -> dict[str, str]:
    """What a client tells of its data to be compared, and who else can read what in it."""
    return {"tells": own_answers_in_words(choice, shown), "together": together_in_words(choice)}


def _write_model(parties: Parties, vector: Vector, path: Path) -> None:
    """As safetensors of named tensors, with what was agreed on of data, columns or a shape and labels, in order, as JSON in its
    metadata.
    """
    load_vector(parties.module, vector)
    partial, data = path.with_suffix(".partial"), parties.scenario.data
    agreed = data.agreed if isinstance(data, OwnData) else agreed_on(parties.scenario.data)
    partial.write_bytes(save(named_tensors(parties.module), in_metadata(agreed)))
    partial.replace(path)
