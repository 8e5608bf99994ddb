"""Arguments of an audit that name nothing are refused before anything that computes is imported."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cloister.threat_models.audit.observer import named

ASKED = {
    "there is no mechanism 'LabelCounts'; there are": ["--self-test", "--mechanism", "LabelCounts"],
    "takes no --seeds": ["--self-test", "--seeds", "1"],
    "--mechanism is of --self-test": ["cloister:quickstart", "--mechanism", "DP-SGD"],
    "name a scenario to audit": [],
    "there is no example 'quikstart'; did you mean 'quickstart'": ["cloister:quikstart"],
    "there is no file mien.py in": ["mien.py"],
    "did you mean mine.py": ["mien.py"],
    "--seeds takes numbers and ranges": ["cloister:quickstart", "--seeds", "x"],
    "'servr'": ["cloister:quickstart", "--against", "servr"],
    "there is no file own.py in": ["cloister:quickstart", "--attack", "own.py:attack"],
    "there is no example 'audit_with_atr'; did you mean 'audit_with_art'": [
        "cloister:quickstart",
        "--attack",
        "cloister:audit_with_atr",
    ],
}
CODE = """
import json, sys
from typer.testing import CliRunner
from cloister.cli import app
said = [str(CliRunner().invoke(app, ["audit", *asked]).exception) for asked in json.loads(sys.argv[1])]
print(json.dumps([said, [name for name in ("torch", "scipy", "matplotlib") if name in sys.modules]]))
"""


def test_nothing_that_computes_is_imported_for_them(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    command = [sys.executable, "-c", CODE, json.dumps([*ASKED.values()])]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    said, imported = json.loads(done.stdout)
    for words, one in zip(ASKED, said, strict=True):
        assert words in one
    assert imported == []


def test_a_client_that_is_asked_for_by_name_is_told_of_its_number() -> None:
    with pytest.raises(ValueError, match="clients with names go by their numbers, from 0 on in the order of names as text"):
        named("client:site3")
