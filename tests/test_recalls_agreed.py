"""A client answers for what it keeps as often as its run has agreed on: each answer is k measurements more under a fresh key."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.algorithms.algorithm import recalls_of
from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked
from cloister.protocol.core.session import SERVER
from cloister.protocol.drivers.roles import Received
from cloister.protocol.messages import decode
from cloister.protocol.parts.held import HeldUpdates
from cloister.protocol.view.answers import Assignment, Gram, Model
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalJob, LocalWork
from cloister.protocol.wire.codec import Envelope
from cloister.protocol.wire.messages import WORK, Retain

from . import sides
from .coalition_sample import SMALL

D, K, CLIENTS, VICTIM, CORRUPT = 120, 30, tuple(range(6)), 3, 0
START = Model("init")


def update(client: int) -> np.ndarray:
    return np.random.default_rng(client).uniform(-0.1, 0.1, D).astype(np.float32)


def work(jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork]]:
    for job in jobs:
        yield job.client, LocalWork(update(job.client), 1)


class Watching:
    """The server, which has of one client the seed: what it knows of the victim's update after each recall."""

    def __init__(self, recalls: int | None) -> None:
        self.view: Any = None
        self.rows: list[np.ndarray] = []
        self.numbers: list[np.ndarray] = []
        setup = Setup(bytes(16), np.zeros(D, np.float32), CLIENTS, work, SimulatedEntropy(5), self.tap, recalls=recalls)
        self.view = Masked(floor=3, corrupt=1, sketch=K).open(setup)

    def tap(self, frame: Any) -> list[Any]:
        if frame.kind == "OffsetSketched" and frame.sender == VICTIM:
            envelope = decode(frame.data, frame.receiver, 1 << 24)
            words = np.frombuffer(envelope.message.words, "<u8")
            secret = sides.clients(self.view).parties[CORRUPT].sketcher.secret
            sketch = secret.recalled(envelope.session)
            behind = (words - sketch.apply(np.zeros(D, np.float32))).astype(np.int64)
            self.numbers.append(behind * secret.terms.step)
            self.rows.append(np.stack([sketch.sketch.apply(e) for e in np.eye(D, dtype=np.float32)], axis=1))
        return [frame]

    def kept(self) -> Any:
        updates = self.view.train(0, {"root": Assignment(START, CLIENTS, CLIENTS)})["root"]
        kept = self.view.keep(updates, CLIENTS)
        self.view.harness.retire([START], [kept])
        return kept

    def recall(self, round: int, kept: Any) -> Gram:
        found = self.view.recall(round, [kept])
        self.view.harness.retire([START], [kept])
        assert isinstance(found, Gram)
        return found

    @property
    def error(self) -> float:
        """Of its best guess, over the update's norm."""
        guess = np.linalg.lstsq(np.concatenate(self.rows), np.concatenate(self.numbers), rcond=None)[0]
        return float(np.linalg.norm(guess - update(VICTIM)) / np.linalg.norm(update(VICTIM)))


def test_recalls_without_end_would_tell_an_update_and_those_agreed_on_do_not() -> None:
    free, agreed = Watching(None), Watching(1)
    for watching in (free, agreed):
        kept = watching.kept()
        grams = [watching.recall(round, kept) for round in range(1, 6)]
        assert grams[0].clients == CLIENTS
        assert grams[1].clients == (CLIENTS if watching is free else ())
    assert free.error < 1e-3
    assert agreed.error > 0.7  # as 30 of 120 measurements leave it
    told = [fault for fault in agreed.view.record.faults if "as often as this run has agreed on" in fault.reason]
    assert len(told) == 4 * len(CLIENTS)


def test_one_update_under_many_handles_counts_as_often_as_it_is_told() -> None:
    watching = Watching(2)
    updates = watching.view.train(0, {"root": Assignment(START, CLIENTS, CLIENTS)})["root"]
    kept = [watching.view.keep(updates, CLIENTS) for _ in range(4)]
    watching.view.harness.retire([START], kept)
    for round, handle in enumerate(kept, 1):
        watching.view.recall(round, [handle])
        watching.view.harness.retire([START], kept)
    assert len(watching.rows) == 2


def test_the_count_outlasts_the_client() -> None:
    watching = Watching(1)
    watching.recall(1, watching.kept())
    party = sides.clients(watching.view).parties[VICTIM]
    memory = party.save()
    party.sketcher.recalled = 0
    party.restore(memory)
    assert party.sketcher.recalled == 1


def test_a_run_that_compares_nothing_again_has_its_clients_keep_nothing() -> None:
    watching = Watching(0)
    assert watching.recall(1, watching.kept()).clients == ()
    assert all(not party.sketcher.kept for party in sides.clients(watching.view).parties.values())
    assert {f.blame for f in watching.view.record.faults if "none is compared again" in f.reason} == {SERVER}


def test_what_algorithms_ask_for() -> None:
    assert recalls_of(FedAvg()) == recalls_of(CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.7))) == 0
    assert recalls_of(FLIC(rounds_before=3)) == 0
    assert recalls_of(FLIC(rounds_before=3, similarities="recalled")) == 3


@pytest.mark.trains
@pytest.mark.parametrize("algorithm", [FedAvg(), FLIC(rounds_before=2, similarities="recalled")], ids=["none", "recalled"])
def test_a_scenario_agrees_on_its_algorithms(algorithm: Any) -> None:
    simulation = Simulation(replace(SMALL, algorithm=algorithm, protection=Masked(floor=2)), None)
    for _ in range(2):
        simulation.step()
    assert not simulation.view.record.faults
    asked = [entry for entry in simulation.view.record.log if entry.what == "gram(recall)"]
    assert len(asked) == (recalls_of(algorithm) > 0)


def test_what_is_kept_is_told_as_no_promised_work_of_the_same_name() -> None:
    """A server keeps an update under the name of a later round's, which is only promised then, and asks for that one's sketch."""
    view = Watching(1).view
    held = sides.part(view, HeldUpdates)
    first = view.train(0, {"root": Assignment(START, CLIENTS, CLIENTS)})["root"]
    word = Retain(WORK, held.made[first.name].session, "root@1/update")
    for i, party in sides.clients(view).parties.items():
        party.handle(Received(Envelope(bytes(32), SERVER, i, word)))
        assert list(party.sketcher.kept) == ["root@1/update"]
    view.harness.retire([START], [])
    promised = held.hear(1, {"root": Assignment(START, CLIENTS, CLIENTS)}, "update", later=True)["root"]
    assert promised.clients == CLIENTS
    assert view.gram(promised).clients == ()
    assert {fault.reason for fault in view.record.faults} == {"no work that this sketch would be of"}
