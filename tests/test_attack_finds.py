"""The search finds the one flaw of each of `broken_defences`, from the defaults of the attacks and without a hint."""

import json
import sys
from pathlib import Path

import pytest

from cloister import cli
from cloister.attacking.data import read_search

from .broken_defences import MAJORITY, SEEDS

pytest.importorskip("optuna")
FILE = Path(__file__).parent / "broken_defences.py"


@pytest.mark.slow
@pytest.mark.trains
@pytest.mark.parametrize(
    ("defence", "attackers", "runs"),
    [
        ("guard that drops", f"{MAJORITY}", 120),
        ("grouped once", "10-12", 60),
        ("plurality vote", f"{MAJORITY}", 60),
        ("three steps", "1", 120),
        ("Multi-Krum", "6", 120),
    ],
)
def test_the_flaw_is_found(
    defence: str, attackers: str, runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["cloister", "attack", str(FILE), "--against", defence, "--attackers", attackers, "--goal", "accuracy", "--json"]
    command += [
        "--budget",
        str(runs),
        "--held-out",
        ",".join(map(str, SEEDS[1:])),
        "--workers",
        "1",
        "--out",
        str(tmp_path / "out"),
    ]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert not caught.value.code
    found = json.loads(capsys.readouterr().out)
    cheapest = found["cheapest"]
    assert cheapest is not None, found["verdict"]
    assert cheapest["loss"] > 0.1
    assert set(cheapest["seeds"]["held_out"]) == set(map(str, SEEDS[1:]))
    assert found["runs"] <= runs
    assert read_search(tmp_path / "out").breaks
