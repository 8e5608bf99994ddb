"""Systemd units and the compose file of examples: their commands are commands, and nobody who is revoked is started for ever."""

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from cloister.cli import app
from cloister.errors_in_one_line import REVOKED

FILES = Path(__file__).parents[1] / "examples" / "deployment"
UNITS = tuple(sorted(path.name for path in FILES.glob("*.service")))


def parsed(words):
    """Raises what click raises for words that are no command."""
    command = typer.main.get_command(app)
    context = typer.Context(command)
    name, found, rest = command.resolve_command(context, words)
    return found.make_context(name, rest, parent=context).params


def unit(name):
    found = configparser.ConfigParser(strict=False, interpolation=None)
    found.optionxform = str
    found.read_string((FILES / name).read_text().replace("\\\n", " "))
    return found


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_starts_a_command(name):
    service = unit(name)["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert program.endswith("/cloister")
    assert parsed(words)["keys"]
    assert service["SuccessExitStatus"].split() == ["130", "143"]
    if "client" in name:
        assert service["RestartPreventExitStatus"] == str(REVOKED)


@pytest.mark.parametrize("name", UNITS)
def test_systemd_takes_a_unit(name, tmp_path):
    if (analyze := shutil.which("systemd-analyze")) is None:
        pytest.skip("there is no systemd here")
    text = (FILES / name).read_text().replace("/opt/cloister/bin/cloister", "/bin/true")
    (tmp_path / name).write_text(text)
    done = subprocess.run([analyze, "verify", str(tmp_path / name)], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_services_of_the_compose_file_start_commands_and_not_for_ever():
    yaml = pytest.importorskip("yaml")
    found = yaml.safe_load((FILES / "compose.yaml").read_text())
    services = found["services"]
    assert {name.rpartition("-")[0] or name for name in services} == {"coordinator", "client"}
    for name, service in services.items():
        assert parsed(shlex.split(service["command"]))["keys"] == Path("/keys")
        mounted = {volume.split(":")[1] for volume in service["volumes"]}
        assert mounted == {"/scenario.py", "/keys", "/state"}
        if name != "coordinator":
            assert service["restart"].startswith("on-failure:")
    assert set(found["volumes"]) == set(services)
