"""A malicious server that sends clients unlike models, so that a sum is one client's update."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...protocol.core.link import Frame
from ...protocol.core.session import SERVER
from ...protocol.view.answers import Vector
from ...protocol.wire.codec import Kinds, decode, encode
from ...protocol.wire.messages import Task
from ..inference.crafted_models import isolated, layers_of, silenced
from .experiment import Anchor, Budget, Evidence, Finding, victims_of
from .recorder import Recorder
from .truth import Truth
from .unread import unread
from .view import CorruptView


@dataclass(frozen=True, slots=True)
class InconsistentModels:
    """The squared cosine between a client's update and the sum that came of a round in which all others got a dead model.

    Of each victim the first round is played again: its model is the true one, the others' is one at which only the last bias is
    learned, so that the rest of the sum is the victim's update. 0 where no sum with the victim in it is opened.
    """

    name: str = "inconsistent models"
    unit: str = "squared cosine of the sum with the victim's update"
    side: str = "none, but the server is malicious: it picks what each client starts from"
    source: str = "Pasquini et al. 2022, gradient suppression"
    anchor: Anchor = "chance"

    def applies(self, evidence: Evidence, /) -> str:
        if reason := unread(evidence):
            return reason
        view = evidence.view
        if SERVER not in view.observer.servers:
            return "it hands out no models"
        if not view.models:
            return "clients own the models: a server can alter what moves them, not what one starts from"
        try:
            layers_of(view.public.module)
        except ValueError as error:
            return str(error)
        return ""

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        view = evidence.view
        victims = victims_of(view, budget.victims, rng)
        if evidence.replay is None:
            return Finding(victims, np.zeros(len(victims)))
        values, blamed = list[float](), 0
        forged = view.public.initial.copy()
        dead = silenced(view.public.module)
        forged[: len(dead)] = dead
        for i in victims:
            again = evidence.replay(Unlike(forged, i, view.public.kinds))
            values.append(shown(again, view, i))
            blamed += any(f.blame == SERVER for f in again.faults)
        figures = {"rounds in which clients named the server, share": blamed / max(len(victims), 1)}
        return Finding(victims, np.array(values), figures=figures)


@dataclass(frozen=True, slots=True, eq=False)
class Unlike:
    """A network in the server's hand: tasks to train, of all clients but one, have another model. forged: float32 (d,)."""

    forged: Vector = field(repr=False)
    victim: int
    kinds: Kinds = field(repr=False)

    def __call__(self, frame: Frame, /) -> Iterable[Frame]:
        if frame.kind != Task.__name__ or frame.receiver == self.victim:
            return (frame,)
        envelope = decode(frame.data, frame.sender, len(frame.data), self.kinds)
        task: Any = envelope.message
        if len(task.vector) != 4 * len(self.forged):
            return (frame,)
        altered = replace(task, vector=self.forged.astype("<f4").tobytes())
        return (replace(frame, data=encode(replace(envelope, message=altered))),)


def shown(again: Recorder, view: CorruptView, victim: int) -> float:
    """The most that a sum with the victim in it, as far as the observer is told, has of its update."""
    cosines = [0.0]
    d = len(silenced(view.public.module))
    for s in again.seen_by(view.observer).sums:
        update = again.updates.get((s.round, s.kind, victim))
        if s.mean is None or victim not in s.row or update is None:
            continue
        guess = isolated(view.public.module, s.mean[:d].astype(np.float32))
        known = np.isfinite(guess)
        one, other = guess[known].astype(np.float64), update[:d][known].astype(np.float64)
        lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
        cosines.append(float(one @ other) / lengths if lengths else 0.0)
    return max(cosines) ** 2
