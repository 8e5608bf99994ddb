"""Servers say whom a stage waits for: once all of them have answered, its deadline changes nothing that is yet to come."""

from typing import Any

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import Encrypted, Masked, Permuted, TwoServer
from cloister.protocol.core.link import Frame
from cloister.protocol.drivers.in_process import InProcess
from cloister.protocol.drivers.roles import Awaiting, Party
from cloister.protocol.view.answers import Assignment, Model, Sum, Weights
from cloister.protocol.view.protection import Protection, Setup
from cloister.protocol.view.work import LocalWork

CLIENTS, D = tuple(range(6)), 30
INIT = Model("init")


@pytest.mark.parametrize(
    "protection", [Masked(floor=2), Encrypted(floor=2, k=8), TwoServer(floor=2, k=30), Permuted(floor=2)], ids=repr
)
@pytest.mark.parametrize("silent", [None, 3])
@pytest.mark.long
def test_a_stage_waits_for_those_that_answer_in_it(
    protection: Protection, silent: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all that a stage waited for, whoever is not silent sends a message to the server before the stage after it."""
    waited: list[tuple[bytes, Awaiting, int]] = []
    frames: list[Frame] = []
    handle = Party.handle

    def noted(party: Any, event: Any) -> Any:
        effects = handle(party, event)
        for effect in effects:
            if isinstance(effect, Awaiting):
                assert effect.of == tuple(sorted(effect.of)) != ()
                waited.append((b"", effect, len(frames)))
        return effects

    def tap(frame: Frame) -> list[Frame]:
        frames.append(frame)
        return [] if silent is not None and frame.sender == silent and frame.kind not in ("Advertise", "SeedTag") else [frame]

    monkeypatch.setattr(Party, "handle", noted)

    def work(jobs: Any) -> Any:
        return ((job.client, LocalWork(np.full(D, job.client / 8, np.float32), 5)) for job in jobs)

    view = protection.open(Setup(bytes(16), np.zeros(D, np.float32), CLIENTS, work, SimulatedEntropy(2), tap))
    updates = view.train(0, {"all": Assignment(INIT, CLIENTS, CLIENTS)})["all"]
    view.gram(updates)
    assert isinstance(view.sums(updates, {"m": Weights(dict.fromkeys(updates.clients, 1.0))})["m"], Sum)
    assert isinstance(view.harness.run.network, InProcess)
    assert waited
    for (_, awaiting, at), after in zip(waited, [*(later[2] for later in waited[1:]), len(frames)], strict=True):
        heard = {frame.sender for frame in frames[at:after] if frame.receiver == -1}
        assert set(awaiting.of) - {silent} <= heard or awaiting.stage in ("key", "scores"), awaiting
