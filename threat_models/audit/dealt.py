"""Under `TwoServer`, the dealer with either server, or whoever came by the same: what masked the rows of every Gram question, and
so the rows themselves.

Where updates are no longer than the protection's k a row is an update. Else it is k measurements of one, under a projection that
both servers know.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...crypto.additive import keyed_triple
from ...crypto.ring_projection import RingProjection
from ...protocol.two_servers.messages import Coin, ExplicitTriple, GramAnswer, GramQuestion, KeyedTriple, Opening
from ...protocol.two_servers.protection import TwoServer
from ...protocol.two_servers.questions import projection_key, rows_of
from ...protocol.two_servers.upload import from_words
from ...protocol.view.account import kind_of
from .reading import Instance, messages, sessions
from .view import CorruptView

Matrix = NDArray[np.float64]
KINDS = (GramQuestion, Coin, Opening, GramAnswer, ExplicitTriple, KeyedTriple)
RESIDUAL = 0.1
"""Share of the variance that a prior leaves to directions that it does not have."""


@dataclass(frozen=True, slots=True, eq=False)
class DealtRows:
    """One Gram question. rows: float64 (columns,) by update. projection: that they were taken under; None of whole updates."""

    rows: Mapping[Instance, Matrix] = field(repr=False)
    projection: RingProjection | None = field(repr=False)


def dealt_rows(view: CorruptView) -> Iterator[DealtRows]:
    """Of every Gram question of which the view has both halves of the triple and all that was said."""
    how = view.public.protection
    if not isinstance(how, TwoServer):
        return
    terms, tasks = how.terms(len(view.public.initial)), sessions(view)
    said: dict[bytes, dict[type, object]] = {}
    for _, envelope in messages(view, *KINDS):
        said.setdefault(envelope.session, {}).setdefault(type(envelope.message), envelope.message)
    for question, of in said.items():
        match [of.get(kind) for kind in KINDS]:
            case [
                GramQuestion() as asked,
                Coin() as coin,
                Opening() as mine,
                GramAnswer() as theirs,
                ExplicitTriple() as first,
                KeyedTriple() as second,
            ]:
                rows = rows_of(asked)
                if not len(mine.difference) == len(theirs.difference) == 8 * len(rows) * terms.columns:
                    continue  # the first server takes none such
                square = np.zeros((len(rows), len(rows)), np.uint64)
                masks = [keyed_triple(0, half.mask, square, terms.columns).mask for half in (first, second)]
                differences = (from_words(mine.difference) + from_words(theirs.difference)).reshape(masks[0].shape)
                steps = (differences + masks[0] + masks[1]).view(np.int64)
                found = {
                    (task.round, kind_of(task.work), client): row
                    for (source, client), row in zip(rows, steps * terms.step, strict=True)
                    if (task := tasks.get(source)) is not None
                }
                yield DealtRows(found, terms.project(projection_key(question, mine.coin, coin.coin)))


def measured(found: DealtRows, known: Mapping[Instance, Matrix], prior: Matrix | None) -> Iterator[tuple[Instance, Matrix]]:
    """Of rows under a projection the updates that are likeliest, about what else is known of each.

    prior: float64 (m, d), of deviations that updates vary like; or every direction is as likely.
    """
    if (projection := found.projection) is None:
        return
    columns = np.zeros((0, projection.length)) if prior is None else np.asarray(prior, np.float64) / np.sqrt(len(prior))
    small = RESIDUAL * float(np.square(columns).sum()) / projection.length if len(columns) else 1.0
    each = small * projection.order.shape[1]  # of a block's sum, by directions that the prior does not have
    seen = _forward(projection, columns)
    inner = each * np.eye(len(columns)) + seen @ seen.T
    for key, row in found.rows.items():
        about = known.get(key, np.zeros(projection.length))
        left = row - _forward(projection, about[None])[0]
        solved = (left - seen.T @ np.linalg.solve(inner, seen @ left)) / each
        yield key, about + columns.T @ (seen @ solved) + small * _back(projection, solved)


def _forward(projection: RingProjection, vectors: Matrix) -> Matrix:
    """(n, width) of float64 (n, d)."""
    signs = projection.signs.view(np.int64).astype(np.float64)
    halves = [(vectors[:, order] * sign).sum(axis=1) for order, sign in zip(projection.order, signs, strict=True)]
    return np.concatenate(halves, axis=1)


def _back(projection: RingProjection, values: Matrix) -> Matrix:
    """The transpose: float64 (d,) of (width,)."""
    found = np.zeros(projection.length)
    halves = values.reshape(len(projection.order), 1, -1) * projection.signs.view(np.int64)
    np.add.at(found, projection.order, halves)
    return found
