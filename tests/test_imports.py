"""What is imported brings what it needs and no more: help answers at once, and a client that does not train loads no torch."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

HEAVY = ("torch", "scipy", "tenseal", "dp_accounting", "matplotlib", "sklearn", "networkx", "ot", "grpc")
CLIENTS = (
    "cloister.protocol.work.participant",
    "cloister.protocol.masked.member",
    "cloister.protocol.two_servers.upload_client",
    "cloister.protocol.encrypted.client",
    "cloister.protocol.masked.receiver_opened.client",
    "cloister.protocol.choosing.client",
    "cloister.protocol.work.driving",
    "cloister.protocol.work.away",
    "cloister.protocol.work.linked",
    "cloister.protocol.links.dialled",
    "cloister.protocol.links.listener",
    "cloister.protocol.links.batched",
    "cloister.flower.resident",
    "cloister.protocol.uploaded.clients",
    "cloister.protocol.encrypted.clients",
    "cloister.protocol.masked.clients",
    "cloister.protocol.two_servers.clients",
)
VIEWS = (
    "cloister.protocol.uploaded.view",
    "cloister.protocol.masked.view",
    "cloister.protocol.two_servers.view",
    "cloister.protocol.encrypted.view",
)

TWICE = {"Masked", "Mean", "Noise", "State"}
"""State: of each algorithm. Mean: a message, whose name is in recordings, and a rule. Noise: of masked sums, and of what clients
release to be compared; run folders name both by their class. Masked: a protection, and a phase that test vectors name."""


def loaded(code: str) -> list[str]:
    """Which of the heavy packages are loaded after the code ran in a fresh interpreter."""
    program = f"import sys\n{code}\nsys.stderr.write(' '.join(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    return done.stderr.split()


@pytest.mark.parametrize("module", ["cloister", "cloister.cli", "cloister.protocol", "cloister.flower", *CLIENTS, *VIEWS])
@pytest.mark.long
def test_a_module_loads_nothing_heavy(module: str) -> None:
    assert loaded(f"import {module}") == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["run", "--help"],
        ["evaluate", "--help"],
        ["breakdown", "--help"],
        ["cost", "--help"],
        ["serve", "--help"],
        ["join", "--help"],
    ],
)
@pytest.mark.long
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        f"sys.argv = ['cloister', *{arguments!r}]\nfrom cloister.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass"
    )
    assert loaded(code) == []


@pytest.mark.long
def test_public_names_are_there_when_they_are_asked_for() -> None:
    code = "import cloister, cloister.protocol as p\nassert cloister.Scenario, cloister.run\n[getattr(p, n) for n in p.__all__]"
    assert "torch" in loaded(code)
    with pytest.raises(subprocess.CalledProcessError):
        loaded("import cloister\ncloister.nothing")
    with pytest.raises(subprocess.CalledProcessError):
        loaded("from cloister.protocol import Nothing")


@pytest.mark.long
def test_a_coordinator_loads_no_more_than_its_run_needs() -> None:
    code = (
        "import cloister.fl.runs.serving\nfrom cloister.scenario_file import load\nfrom cloister.fl.runs.parties import Parties\n"
        "Parties(load('cloister:quickstart'), None)\n"
        "from cloister.fl.runs.metrics import adjusted_rand_index, silhouette\n"  # what it says of clusters at the end
        "adjusted_rand_index({0: 0, 1: 1}, {0: 0, 1: 0})\n"
        "silhouette([(0, 1), (2,)], (0, 1, 2), [[1.0, 0.9, 0.1], [0.9, 1.0, 0.2], [0.1, 0.2, 1.0]])"
    )
    assert loaded(code) == ["torch"]


@pytest.mark.long
def test_no_public_class_has_the_name_of_another():
    root = Path(__file__).parents[1]
    trees = [ast.parse(file.read_text()) for room in ("protocol", "crypto", "fl") for file in (root / room).rglob("*.py")]
    defined = Counter(node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    assert len(defined) > 500
    assert {name for name, times in defined.items() if times > 1 and not name.startswith("_")} == TWICE
