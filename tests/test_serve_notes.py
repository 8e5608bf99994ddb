"""What is doubtful in a scenario that is served is a line of its own, without a path and Python's words for a warning."""

import sys
import warnings
from pathlib import Path

import pytest

from cloister import cli, serve_command
from cloister.fl.runs import serving
from cloister.fl.runs.feasibility import Doubt


def test_a_doubt_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def played(*of: object):
        warnings.warn("every split of 3 clients leaves a side below the floor", Doubt, stacklevel=2)
        yield from ()

    monkeypatch.setattr(serving, "serve", played)
    monkeypatch.setattr(serve_command, "_reported", lambda folder: folder / "report.html")
    serve_command.serve(
        "cloister:quickstart", listen="127.0.0.1:0", insecure_loopback=True, out=tmp_path, set_=None, metrics=None
    )
    said = capsys.readouterr().err
    assert "\ncloister: note: every split of 3 clients leaves a side below the floor\n" in "\n" + said
    assert "Doubt" not in said
    assert ".py" not in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--listen", "127.0.0.1:7204", "--metrics", "7204"],
            "--listen 127.0.0.1:7204 and --metrics 7204 are one port: give each",
        ),
        (["--wait", "-4"], "--wait is seconds, from 0 on, not -4"),
        (["--wait", "nan"], "--wait is seconds, from 0 on, not nan"),
        (["--least", "25"], "--least is 25, and the scenario has 24 clients"),
    ],
)
def test_what_cannot_be_served_so_is_refused_at_once(options, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    at = ["--listen", "127.0.0.1:7204"]
    monkeypatch.setattr(sys, "argv", ["cloister", "serve", "cloister:quickstart", "--insecure-loopback", *at, *options])
    with pytest.raises(SystemExit):
        cli.main()
    assert words in capsys.readouterr().err


def test_without_grpc_nothing_listens_and_no_line_of_the_scenario_is_at_fault(tmp_path, monkeypatch, capsys):
    """Before: metrics were served already, and the line of the scenario's protection was said to be at fault."""
    example = Path(__file__).parents[1] / "examples" / "quickstart.py"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "grpc", None)
    options = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
    monkeypatch.setattr(sys, "argv", ["cloister", "serve", str(example), "--insecure-loopback", *options])
    with pytest.raises(SystemExit):
        cli.main()
    said = capsys.readouterr().err
    assert said.endswith("cloister: real processes need grpcio: pip install 'cloister[deploy]'\n")
    assert "/metrics" not in said
