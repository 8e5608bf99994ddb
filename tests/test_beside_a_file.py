"""A scenario's file may import what lies beside it, wherever the command is given from, and in workers too."""

import sys
from pathlib import Path

import pytest

from cloister.scenario_file import load

SCENARIO = """
import rules_of_mine_xyz
from cloister import Scenario, Training, algorithms, data, models, partitions, protections
scenario = Scenario(name="mine", data=data.Digits(), partition=partitions.Iid(clients=4), model=models.Mlp(hidden=(8,)),
                    training=Training(epochs=1, batch=10, lr=0.1), algorithm=algorithms.FedAvg(),
                    protection=protections.Plain(), rounds=rules_of_mine_xyz.ROUNDS)
"""


def test_a_module_beside_the_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "rules_of_mine_xyz.py").write_text("ROUNDS = 7\n")
    (tmp_path / "mine.py").write_text(SCENARIO)
    assert load(str(tmp_path / "mine.py")).rounds == 7


def test_a_file_beside_it_takes_no_library_s_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "rules_of_mine_xyz.py").write_text("ROUNDS = 7\n")
    (tmp_path / "colorsys.py").write_text("raise RuntimeError('not the library')\n")
    (tmp_path / "mine.py").write_text("import colorsys\n" + SCENARIO)
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    assert load(str(tmp_path / "mine.py")).rounds == 7
