"""The search finds the one flaw of each of `broken_defences`, and Multi-Krum's, from attacks' defaults and without a hint."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloister import cli
from cloister.attacking.data import read_search

from .broken_defences import MAJORITY, SEEDS

pytest.importorskip("optuna")
ROOT = Path(__file__).parent.parent
BROKEN, DIGITS = "tests/broken_defences.py", "examples/evaluate_digits.py"
Flaw = Callable[[dict[str, Any]], bool]
FLAWS: dict[str, tuple[str, str, int, Flaw]] = {
    "guard that drops": (BROKEN, f"{MAJORITY}", 120, lambda n: n["attack"] == "Null" or _strength(n) < 1 / 3),
    "looks sometimes": (BROKEN, f"{MAJORITY}", 60, lambda n: n["schedule"] != "always"),
    "plurality vote": (BROKEN, f"{MAJORITY}", 60, lambda n: n["votes"] != "Honest"),
    "three steps": (BROKEN, "1", 60, lambda n: n["variant"] == "Magnified"),
    "Multi-Krum": (DIGITS, "6", 60, lambda n: n["attack"] in ("IPM", "LineSearched", "Tailored")),
}
"""Of a defence: the file, the attackers, the runs that it may take, and what of the point that breaks it is the flaw."""


def _strength(numbers: dict[str, Any]) -> float:
    return float(next(v for k, v in numbers.items() if k.split(".")[0] == numbers["attack"] and isinstance(v, float)))


@pytest.mark.slow
@pytest.mark.trains
@pytest.mark.parametrize("defence", list(FLAWS))
def test_the_flaw_is_found(
    defence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, attackers, runs, flaw = FLAWS[defence]
    held_out = [str(seed) for seed in SEEDS[1:]]
    command = ["cloister", "attack", str(ROOT / file), "--against", defence, "--attackers", attackers, "--goal", "accuracy"]
    command += ["--loss", "0.1"]
    command += [
        "--budget",
        str(runs),
        "--held-out",
        ",".join(held_out),
        "--workers",
        "1",
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert not caught.value.code
    found = json.loads(capsys.readouterr().out)
    cheapest = found["cheapest"]
    assert cheapest is not None, found["verdict"]
    assert flaw(cheapest["numbers"]), cheapest["said"]
    assert cheapest["loss"] > 0.1
    assert sorted(cheapest["seeds"]["held_out"]) == sorted(held_out)
    assert found["runs"] <= runs
    assert read_search(tmp_path / "out").breaks
