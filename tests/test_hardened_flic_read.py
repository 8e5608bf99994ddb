"""The example's attacks by who has read the rule: what they send, and that they play."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from .example_files import EXAMPLES, load


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return load("hardened_flic_read")


def test_flipped_classes_negate_their_rows_and_biases_and_nothing_else(read: Any) -> None:
    hidden, classes = 32, 10
    update = np.random.default_rng(3).standard_normal(64 * hidden + hidden + classes * (hidden + 1)).astype(np.float32)
    sent = read.FlippedClasses(classes=(7, 8, 9), strength=1.0, scale=1.5)(SimpleNamespace(update=update, classes=classes))
    assert np.linalg.norm(sent) == pytest.approx(1.5 * np.linalg.norm(update), rel=1e-5)
    signs = np.sign(sent * update)
    rows, biases = signs[-classes * (hidden + 1) : -classes].reshape(classes, hidden), signs[-classes:]
    assert (signs[: -classes * (hidden + 1)] == 1).all()
    assert (rows[:7] == 1).all()
    assert (rows[7:] == -1).all()
    assert list(biases) == [1] * 7 + [-1] * 3


def coalition(read: Any, count: int) -> Any:
    rng = np.random.default_rng(5)
    vectors = {i: rng.standard_normal(300).astype(np.float32) + 1 for i in range(12 + count)}
    own = {i: SimpleNamespace(update=vectors[i], rng=np.random.default_rng(i)) for i in range(12, 12 + count)}
    return SimpleNamespace(own=own, honest={i: SimpleNamespace(vector=vectors[i]) for i in range(12)})


def test_two_kinds_are_sent_and_what_is_orthogonal_shares_nothing(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "forged", lambda coalition, sent: dict(zip(sorted(coalition.own), sent, strict=True)))
    of = coalition(read, 8)
    for _, attack in (read.ATTACKS[name] for name in ("kinds", "splits", "frames", "long frames")):
        sent = np.stack(list(attack(of).values()))
        unit = sent / np.linalg.norm(sent, axis=1, keepdims=True)
        signs = np.sign(unit @ unit[0])
        assert sorted(signs) == [-1] * 4 + [1] * 4
    shared = np.mean([read.unit(trained.vector) for trained in of.honest.values()], axis=0)
    assert max(abs(float(sent @ shared)) for sent in read.ATTACKS["orthogonal"][1](of).values()) < 1e-3


@pytest.mark.trains
def test_attacks_play(read: Any) -> None:
    for _, attack in (read.ATTACKS[name] for name in ("kinds", "flipped classes")):
        assert np.isfinite(read.loss(replace(read.skewed, rounds=2), 1, attack, 8, None))
