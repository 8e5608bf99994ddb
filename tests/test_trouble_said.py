"""Updates that are not finite and models that came to nothing are said where a run is looked at, however quiet it was."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cloister
from cloister import attacks
from cloister.reporting.headline import diverged_in_words, rejected_in_words

from . import evaluation_sample as sample


def not_a_number(own: attacks.Own) -> Any:
    return own.update * np.float32(np.nan)


def far(own: attacks.Own) -> Any:
    return own.update * 0 + np.float32(1e17)


@pytest.mark.long
@pytest.mark.trains
def test_a_quiet_run_says_whose_updates_were_rejected(tmp_path: Path) -> None:
    adversary = attacks.Adversary(members=attacks.Pool(2), upload=not_a_number)
    scenario = replace(sample.scenario, adversary=adversary, rounds=2)
    result = cloister.run(scenario, tmp_path / "run", quiet=True)
    one, two = result.summary["corrupt"]
    words = f"4 updates were rejected, of clients {one}, {two}, first in round 0: the vector is not finite"
    assert f"rejected               {words}" in str(result)
    assert words in result._repr_html_()
    assert f'<p class="alert">{words}' in result.report.read_text()
    assert "not finite (" not in str(result)


@pytest.mark.trains
def test_a_run_whose_model_came_to_nothing_does_not_look_fine(tmp_path: Path) -> None:
    adversary = attacks.Adversary(members=attacks.Pool(8), upload=far)
    scenario = replace(sample.scenario, adversary=adversary, rounds=1, model=cloister.models.Mlp(hidden=(8, 8, 8)))
    result = cloister.run(scenario, tmp_path / "run", quiet=True)
    assert result.summary["not_finite"] == list(range(8))
    assert "not finite" in str(result)
    assert (
        '<p class="alert">The loss of 8 clients at the end is not finite (0, 1, 2, 3, 4, 5 and 2 more)'
        in result.report.read_text()
    )


def test_words() -> None:
    assert rejected_in_words([]) == diverged_in_words({}) == ""
    rows = [{"client": 3, "round": 1, "reason": "why"}]
    assert rejected_in_words(rows) == "1 update was rejected, of client 3, first in round 1: why"
    assert rejected_in_words(rows + [{"client": i, "round": 2, "reason": "x"} for i in range(8)]) == (
        "9 updates were rejected, of clients 0, 1, 2, 3, 4, 5 and 2 more, first in round 1: why"
    )
    assert diverged_in_words({"not_finite": [4]}).startswith("The loss of 1 client at the end is not finite (4), so that")


def test_who_came_after_a_split_is_said_to_and_sent_no_update() -> None:
    rows = [{"client": 8, "round": t, "reason": "no key of the split that this sketch would be compared with"} for t in (34, 35)]
    assert rejected_in_words(rows) == (
        "Client 8 came after a split, or was away at it, and could not be compared with others: clients that are to have a model"
        " have to be there before the first split"
    )
    assert rejected_in_words([*rows, {"client": 1, "round": 36, "reason": "x"}]).startswith("3 updates were rejected")
