"""The example's attacks by who has read the rule play."""

from dataclasses import replace

import numpy as np
import pytest

from .example_files import EXAMPLES, load


@pytest.mark.long
@pytest.mark.trains
def test_attacks_play(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    read = load("hardened_flic_read")
    for _, attack in (read.ATTACKS[name] for name in ("kinds", "flipped classes")):
        assert np.isfinite(read.loss(replace(read.skewed, rounds=2), 1, attack, 8, None))
