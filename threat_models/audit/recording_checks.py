"""Whether what was read of a recording is whole and can be of one run: whoever lacks a part of it finds less than there was.

This notices what was lost or does not fit together. A recording that was made up to fit is one like any other: who wrote it is
trusted not to lie.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch

from ...fl.data.population import Examples, Population
from ...fl.models.papers import initial
from ...fl.models.vector import dimension
from ...fl.runs.scenario import Scenario
from ...protocol.core.errors import ProtocolError
from ...protocol.core.link import Frame
from ...protocol.wire.codec import Kinds, decode
from ...protocol.work.uploads import usable
from .recorded import Recorded
from .recording_lines import Lines

MOST_CLASSES = 2**20


def check_lines(lines: Lines, rounds: int) -> None:
    """Raises ValueError where numbers cannot be of a run of the clients that are listed, of so many rounds at most."""
    clients = set(lines.clients)
    if not 0 <= lines.rounds <= rounds:
        raise ValueError(f"it has {lines.rounds} rounds, and its scenario {rounds}")
    if lines.classes != lines.truth.classes or not 2 <= lines.classes <= MOST_CLASSES:
        raise ValueError(
            f"it has {lines.classes} classes, and its examples {lines.truth.classes}; at most {MOST_CLASSES} are read"
        )
    if len(clients) != len(lines.clients):
        raise ValueError("a client is listed twice")
    for of in lines.sums:
        if not all(map(math.isfinite, (*of.row.values(), of.weight, of.energy or 0.0))):
            raise ValueError("a sum has weights or an energy that are not finite")
    for what, found in _said_of(lines):
        for t, them in found:
            if not 0 <= t <= lines.rounds:
                raise ValueError(f"{what} is of round {t}, and it has {lines.rounds}")
            if not clients.issuperset(them):
                raise ValueError(f"{what} is of clients that the run does not have")
    keys = [(s.round, s.client) for s in lines.starts], [(u.round, u.kind, u.client) for u in lines.truth.updates]
    if any(len(set(of)) < len(of) for of in keys):
        raise ValueError("an update, or what a client started from, is listed twice")


def _said_of(lines: Lines) -> Iterator[tuple[str, Iterable[tuple[int, Iterable[int]]]]]:
    """What lines are about: in words, rounds and clients."""
    yield "a sum", ((s.round, (*s.row, *s.missing)) for s in lines.sums)
    yield "a Gram matrix", ((c.round, (*c.rows, *c.columns)) for c in lines.compared)
    yield "an answer", ((a.round, ()) for a in lines.answered)
    yield "a start", ((s.round, (s.client,)) for s in lines.starts)
    yield "an update", ((u.round, (u.client,)) for u in lines.truth.updates)
    yield "a start that no server holds", ((t, (i,)) for t, i in lines.apart)
    yield "a budget that ran out", ((max(0, t), (i,)) for i, t in lines.ran_out)
    yield "what else clients have", ((0, of) for of in (lines.released, lines.pair_keys, lines.pair_seeds, lines.truth.compared))


def check_examples(population: Population, others: Sequence[Examples]) -> None:
    """Raises ValueError for examples of another shape than the population says, or with labels that it has not."""
    for of in (*(x for c in population.clients.values() for x in (c.train, c.test)), *others):
        if tuple(of.x.shape[1:]) != population.shape:
            raise ValueError(f"it has examples of shape {tuple(of.x.shape[1:])}, and others of {population.shape}")
        if not bool(torch.isfinite(of.x).all()):
            raise ValueError("it has examples that are not finite")
        if len(of.y) and not (-1 if of.y.ndim == 2 else 0) <= int(of.y.min()) <= int(of.y.max()) < population.classes:
            raise ValueError(f"it has labels that are none of {population.classes}")
    if not any(len(client.train) for client in population.clients.values()):
        raise ValueError("it has no examples that clients trained with")


def check_model(scenario: Scenario, population: Population, most: int) -> None:
    """Raises ValueError where the scenario's model has more than so many parameters for such examples, before it takes memory."""
    try:
        with torch.device("meta"):
            length = dimension(initial(scenario.model, population.shape, population.classes, 0))
    except (RuntimeError, NotImplementedError):  # a model that computes as it is made
        return
    if length > most:
        raise ValueError(f"it began with another model than the scenario's, which has {length} parameters, and not {most}")


def check_whole(found: Recorded) -> None:
    """Raises ValueError where something is missing that belongs to what is there, or is no number that a run goes on with."""
    _check_frames(found.frames, found.public.kinds)
    _check_vectors(found)
    truth, updates = found.truth, set(found.truth.updates)
    if {(t, i) for t, _, i in updates} != found.starts.keys():
        raise ValueError("it lacks updates, or what clients made them from")
    if lost := [(s.round, i) for s in found.sums for i in s.row if (s.round, s.kind, i) not in updates]:
        raise ValueError(f"it lacks the update of client {lost[0][1]} in a sum of round {lost[0][0]}")
    if truth.mask_keys and not found.opened.keys() <= truth.mask_keys.keys():
        raise ValueError("it lacks keys of masks")
    if any(place not in range(len(found.frames)) for place in found.arrived):
        raise ValueError("a frame came in the place of none")
    for c in found.compared:
        if c.matrix.shape != (len(c.rows), len(c.columns)):
            raise ValueError(f"a Gram matrix of {len(c.rows)} and {len(c.columns)} clients has shape {c.matrix.shape}")


def _check_vectors(found: Recorded) -> None:
    """A vector that was cut is one of another length; what nobody takes is on no record."""
    lengths = {"update": len(found.public.initial)}
    means = [(s.kind, s.mean) for s in found.sums if s.mean is not None]
    for kind, vector in (*((kind, x) for (_, kind, _), x in found.truth.updates.items()), *means):
        if len(vector) != (length := lengths.setdefault(kind, len(vector))):
            raise ValueError(f"a vector of its {kind}s has {len(vector)} numbers, and not {length}")
    vectors = [found.public.initial, *found.starts.values(), *found.truth.updates.values(), *(mean for _, mean in means)]
    if not all(map(usable, {id(x): x for x in vectors}.values())):
        raise ValueError("an update, a mean or a model is not finite, or too large")
    if not all(np.isfinite(c.matrix).all() for c in found.compared):
        raise ValueError("inner products are not finite")


def _check_frames(frames: Sequence[Frame], kinds: Kinds) -> None:
    """Of what was sent: what came in its place a network may have spoilt."""
    for k, frame in enumerate(frames):
        if frame.number != k:
            raise ValueError("frames are missing, or in another order than they were sent in")
        try:
            kind = type(decode(frame.data, frame.sender, len(frame.data), kinds).message).__name__
        except ProtocolError as error:
            raise ValueError(f"frame {k} is no message: {error}") from None
        if kind != frame.kind:
            raise ValueError(f"frame {k} is a {kind}, and is said to be a {frame.kind[:64]}")
