"""What an observer makes of each client's update: the estimate that all attacks on single updates begin with.

From the best that the view has: the update itself, also where a protection was to hide it and did not; its transform, with the
seed that undoes it; but for its head the model that a corrupt client was shown; linear measurements of it, with the seed that
draws them; sketches under a key of which sums are known beside their sketches; inner products with known sums; what sets its
cluster apart in rounds in which that has a sum of its own; what a sum leaves of the one in it that is none of its own; and
where there is nothing of all this, the mean of the smallest sum that it is in, without what corrupt clients put in.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...crypto.projection import TwoStage
from ...protocol.uploaded.clients import SharedSecret
from ...protocol.uploaded.permuted import Permuted
from ...protocol.uploaded.plain import Plain
from ..liars import forward
from .bare_frames import bare
from .coalitions import decrypted, joined_shares
from .dealt import dealt_rows
from .dealt import measured as measured_rows
from .hidden_counts import counts_of
from .other_rounds import apart_in_other_rounds, own_in_other_rounds
from .own_part import left_alone, mean_of_others
from .reading import Instance, sketch_sets, uploads
from .shown_models import updates_shown
from .sketch_reading import key_of, opened_sketches, seed_of, terms_of
from .view import CorruptView

Matrix = NDArray[np.float64]
DENSE = 8192
"""Updates of up to so many numbers are read with every direction, longer ones along the prior's alone."""
RESIDUAL = 0.1
"""Share of the variance that a prior leaves to directions that it does not have."""
DIVERSE = 0.5
"""How far counts of samples are taken to be from their mean, relative to it, where they are hidden."""
RIDGE = 1e-3
"""Of sums that are regressed on, relative to their mean square: there is noise in no pair but rounding, and in a sketch."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """vector: float64 (d,). how: "update", "opened", "transform", "bare", "measurements", "span", "products", "other rounds",
    "shown", "left alone" or "mean".
    """

    vector: Matrix = field(repr=False)
    how: str


def estimates(view: CorruptView, prior: Matrix | None = None) -> dict[Instance, Estimate]:
    """By round, kind and client, of honest clients: the best that this module knows to make of the view.

    prior: float64 (m, d), deviations of updates from their mean in a run of the attacker's own; measurements are read as of
    vectors that vary like these. Without it every direction is as likely.
    """
    known = means(view)
    found = {instance: Estimate(mean, "mean") for instance, mean in known.items()}
    found |= dict(_along_sums(view, {i: e.vector for i, e in found.items()}))
    found |= dict(_spanned(view, {i: e.vector for i, e in found.items()}))
    found |= dict(_lasting(known, found, dict(apart_in_other_rounds(view))))
    measured = dict(_measured(view, {i: e.vector for i, e in found.items()}, prior))
    found |= measured
    found |= dict(_lasting(known, found, own_in_other_rounds(view, {i: e.vector for i, e in measured.items()}, known)))
    found |= dict(_dealt(view, known, prior))
    found |= {i: Estimate(v, "shown") for i, v in updates_shown(view, {i: e.vector for i, e in found.items()})}
    found |= {i: Estimate(v, "left alone") for i, v in left_alone(view)}
    found |= {i: Estimate(v, "bare") for i, v in bare(view, known)}
    found |= dict(_uploaded(view))
    return {instance: e for instance, e in found.items() if instance[2] not in view.observer.clients}


def means(view: CorruptView) -> dict[Instance, Matrix]:
    """Of every client in a sum that the observer knows, the mean of the others in the smallest one: float64 (d,)."""
    found: dict[Instance, tuple[float, Matrix]] = {}
    for s in view.sums:
        size = float(sum(abs(a) for i, a in s.row.items() if i not in view.observer.clients))
        if s.mean is None or not sum(s.row.values()) or not size:
            continue
        others = mean_of_others(view, s)
        mean = np.asarray(s.mean, np.float64) if others is None else others
        for i in s.row:
            key = (s.round, s.kind, i)
            if key not in found or size < found[key][0]:
                found[key] = size, mean
    return {key: vector for key, (_, vector) in found.items()}


def _uploaded(view: CorruptView) -> Iterator[tuple[Instance, Estimate]]:
    how, seed = view.public.protection, seed_of(view)
    came = uploads(view)
    if isinstance(how, Permuted):
        if not seed:
            return
        secret = SharedSecret(seed, view.public.run, how.transform, how.keys, len(view.public.initial))
        for key, one in came.items():
            yield key, Estimate(np.asarray(secret(one.session).invert(one.vector), np.float64), "transform")
    elif isinstance(how, Plain):
        for key, one in came.items():
            yield key, Estimate(one.vector.astype(np.float64), "update")
    for key, vector in (*decrypted(view), *joined_shares(view)):
        yield key, Estimate(vector, "opened")


def _measured(view: CorruptView, known: Mapping[Instance, Matrix], prior: Matrix | None) -> Iterator[tuple[Instance, Estimate]]:
    """With the clients' seed: k measurements of each update, about what else is known of it."""
    terms = terms_of(view)
    reader: tuple[bytes, TwoStage, Callable[[Matrix], Matrix]] | None = None
    for one, sketch, of in opened_sketches(view):
        if terms is None:
            return
        if reader is None or reader[0] != key_of(terms, one):
            reader = key_of(terms, one), sketch, _reading(sketch, prior)
        for client, measured in of.items():
            key = (one.round, one.kind, client)
            about = known.get(key, np.zeros(terms.d))
            yield key, Estimate(about + reader[2](measured - forward(sketch, about)), "measurements")


def _dealt(view: CorruptView, known: Mapping[Instance, Matrix], prior: Matrix | None) -> Iterator[tuple[Instance, Estimate]]:
    """With the dealer and a server: rows of Gram questions, which are updates or measurements of them; the last of each."""
    for question in dealt_rows(view):
        if question.projection is None:
            yield from ((key, Estimate(row, "opened")) for key, row in question.rows.items())
        else:
            yield from ((key, Estimate(x, "measurements")) for key, x in measured_rows(question, known, prior))


def _counts(view: CorruptView) -> dict[int, float]:
    """Of each client's samples, where sums are weighted by them: corrupt clients' as they are, the others' as far as it tells."""
    clients = sorted(set(view.public.clients) - view.held.keys())
    counted = any(s.times_samples for s in view.sums)
    counts = dict(zip(clients, counts_of(view, clients, 1.0, DIVERSE), strict=True)) if counted else {}
    return counts | {i: float(len(held.examples)) for i, held in view.held.items()}


def _along_sums(view: CorruptView, known: Mapping[Instance, Matrix]) -> Iterator[tuple[Instance, Estimate]]:
    """With a Gram matrix and the sums of the updates in it: each update's part along these sums, as it tells their products.

    About the origin that is along the mean itself; of deviations from a mean along what sets sums apart.
    """
    if not (compared := [one for one in view.compared if one.gram]):
        return
    counts = _counts(view)
    for one in compared:
        means_of, shares = [], []
        for s in view.sums:
            row = {i: a * counts[i] for i, a in s.row.items()} if s.times_samples else s.row
            here = (s.round, s.kind) == (one.round, one.kind) and row.keys() <= set(one.rows)
            if here and s.mean is not None and (total := sum(row.values())):
                means_of.append(np.asarray(s.mean, np.float64))
                shares.append([row.get(i, 0.0) / total for i in one.rows])
                others = {i: a for i, a in row.items() if i not in view.held}
                left = mean_of_others(view, s) if len(others) < len(row) else None
                if left is not None:  # of the others alone, which is the mean that the observer knows of them
                    means_of.append(left)
                    shares.append([others.get(i, 0.0) / sum(others.values()) for i in one.rows])
        for i, held in view.held.items():  # what a client of the observer's put in itself is a sum of one
            own = held.updates.get((one.round, one.kind))
            if means_of and own is not None and i in one.rows and len(own) == len(means_of[0]):
                means_of.append(np.asarray(own, np.float64))
                shares.append([float(j == i) for j in one.rows])
        if not means_of:
            continue
        vectors, weights = np.stack(means_of), np.array(shares)
        for at, client in enumerate(one.rows):
            key = (one.round, one.kind, client)
            base = next((k for k, mean in enumerate(means_of) if key in known and np.allclose(mean, known[key])), None)
            if base is None:
                continue
            along, of = (vectors, weights) if one.origin else (vectors - vectors[base], weights - weights[base])
            gram = of @ one.matrix @ of.T
            gram += RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram))
            apart = np.eye(len(one.rows))[at] - weights[base]
            if np.trace(gram) > 0:
                yield key, Estimate(vectors[base] + along.T @ np.linalg.solve(gram, of @ one.matrix @ apart), "products")


def _lasting(
    known: Mapping[Instance, Matrix], found: Mapping[Instance, Estimate], apart: Mapping[Instance, Matrix]
) -> Iterator[tuple[Instance, Estimate]]:
    """With what sets a client's cluster apart in other rounds, beside what this one tells: groups differ in all of them."""
    for key, lasting in apart.items():
        if key not in known or len(known[key]) != len(lasting):
            continue
        told = found[key].vector - known[key]
        square = float(told @ told)
        beside = lasting - (float(lasting @ told) / square) * told if square > 0 else lasting
        yield key, Estimate(known[key] + told + beside, "other rounds" if found[key].how == "mean" else found[key].how)


def _spanned(view: CorruptView, known: Mapping[Instance, Matrix]) -> Iterator[tuple[Instance, Estimate]]:
    """Without it: each update's part along sums whose sketch, under the same key, the server knows too, or guesses by counts."""
    terms = terms_of(view)
    sets = [one for one in sketch_sets(view) if one.raw]
    if terms is None or not sets:
        return
    counts = _counts(view)
    pairs: dict[bytes, list[tuple[Matrix, Matrix]]] = defaultdict(list)
    for one in sets:
        for s in view.sums:
            here = (s.round, s.kind) == (one.round, one.kind) and s.row.keys() <= one.raw.keys()
            row = {i: a * counts[i] for i, a in s.row.items()} if s.times_samples else s.row
            if here and s.mean is not None and (total := sum(row.values())):
                sketched = sum((a * one.raw[i] for i, a in row.items()), np.zeros(terms.rows)) / total
                pairs[key_of(terms, one)].append((np.asarray(s.mean, np.float64), sketched))
    for one in sets:
        if not (of := pairs.get(key_of(terms, one))):
            continue
        vectors, sketches = (np.stack(side) for side in zip(*of, strict=True))
        gram = sketches @ sketches.T
        gram += RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram))
        for client, raw in one.raw.items():
            key = (one.round, one.kind, client)
            at = next((k for k, (mean, _) in enumerate(of) if key in known and np.allclose(mean, known[key])), None)
            base, left = (np.zeros(terms.d), raw) if at is None else (known[key], raw - sketches[at])
            yield key, Estimate(base + vectors.T @ np.linalg.solve(gram, sketches @ left), "span")


def _reading(sketch: TwoStage, prior: Matrix | None) -> Callable[[Matrix], Matrix]:
    """Of measurements S x, the x that is likeliest: C S^T (S C S^T)^+ y, with C of the prior and a little of every direction."""
    if prior is None and sketch.d > DENSE:
        raise ValueError(f"of updates of more than {DENSE} numbers measurements are read by a prior")
    rows = np.zeros((0, sketch.d)) if prior is None else np.asarray(prior, np.float64) / np.sqrt(len(prior))
    small = RESIDUAL * float(np.square(rows).sum()) / sketch.d if len(rows) else 1.0
    seen = np.stack([forward(sketch, row) for row in rows]) if len(rows) else np.zeros((0, sketch.k))
    whole = np.asarray(sketch.apply(np.eye(sketch.d)), np.float64) if sketch.d <= DENSE else np.zeros((0, sketch.k))
    isotropic = whole.T @ whole if len(whole) else sketch.d / sketch.k * np.eye(sketch.k)
    inverse = np.linalg.pinv(seen.T @ seen + small * isotropic, hermitian=True)

    def read(measured: Matrix) -> Matrix:
        solved = inverse @ measured
        found: Matrix = rows.T @ (seen @ solved)
        return found + small * (whole @ solved) if len(whole) else found

    return read
