"""Sketches as a corrupt party reads them: under which key they were taken, and with the clients' seed what they measured."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from ...crypto.projection import TwoStage
from ...protocol.masked.known import sketched_of
from ...protocol.masked.protection import Masked
from ...protocol.view.protection import Setup
from ...protocol.work.sketch_keys import RatchetedKeys, SketchSecret, SketchTerms
from .reading import SketchSet, opened, sketch_sets
from .view import CorruptView

Matrix = NDArray[np.float64]


def opened_sketches(view: CorruptView) -> Iterator[tuple[SketchSet, TwoStage, Mapping[int, Matrix]]]:
    """Of whoever has the clients' seed: every set, the sketch that was taken, and what it measured of each update, (k,) each."""
    if not (seed := seed_of(view)) or (terms := terms_of(view)) is None:
        return
    whole = SketchSecret(seed, terms)
    for one in sketch_sets(view):
        sketch, of = (whole(one.made), one.raw) if terms.keys == "run" else _drawn(seed, terms, one)
        yield one, sketch, of


def key_of(terms: SketchTerms, one: SketchSet) -> bytes:
    """Names the key of a set: those under one can be compared."""
    return b"" if terms.keys == "run" else one.made


def _drawn(seed: bytes, terms: SketchTerms, one: SketchSet) -> tuple[TwoStage, Mapping[int, Matrix]]:
    """The sketch of this session's set, and what it measured of each client's update."""
    keys = RatchetedKeys(seed, terms)
    keys.advance(one.round)
    drawn = keys.offset(one.made)
    read = {i: opened(words, drawn.offset, drawn.step) for i, words in one.words.items()}
    return drawn.sketch, {**one.raw, **{i: y for i, y in read.items() if y is not None}}


def seed_of(view: CorruptView) -> bytes:
    """What the clients share, if one of them is corrupt; else empty."""
    return next((held.seed for held in view.held.values() if held.seed), b"")


def terms_of(view: CorruptView) -> SketchTerms | None:
    """How clients of the run sketch, where they do."""
    how, public = view.public.protection, view.public
    if not isinstance(how, Masked):
        return None
    nobody: Setup = Setup(public.run, public.initial, public.clients, lambda _: iter(()), None)  # type: ignore[arg-type]
    return sketched_of(how, nobody)
