"""The documentation: what it links is there, what it shows runs, and what is generated says what the code says."""

import ast
import doctest
import importlib
import importlib.util
import re
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import torch
import typer

import cloister
from cloister import rules
from cloister.evaluating.texts import JUDGED
from cloister.fl.data.population import Examples
from cloister.fl.runs.run_folder import LOGS
from cloister.protocol.view.disclosure import Disclosure
from cloister.threat_models.claims import CLAIMS
from cloister.threat_models.functions import place_of

ROOT = Path(__file__).parents[1]
MAKING = ROOT / "docs" / "making"


def made(name: str) -> ModuleType:
    """A module of docs/making, which is no package: mkdocs and make run its files."""
    spec = importlib.util.spec_from_file_location(f"docs_making_{name}", MAKING / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


tree, names, commands, tables, tried = map(made, ("tree", "names", "commands", "tables", "tried"))
PAGES = tree.matching(("**.md",))
GENERATED = {"reference/commands.md", *(address for address, _ in names.pages())}
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


# --- links ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_files_that_are_there(name: str) -> None:
    text = "".join(part for k, part in enumerate(tree._FENCED.split((ROOT / name).read_text())) if not k % 2)
    for _, target, _ in tree._LINK.findall(text):
        parts = urlsplit(target)
        if parts.scheme:
            assert parts.scheme in ("https", "mailto"), target
            assert parts.scheme == "mailto" or re.fullmatch(r"[\w.-]+\.[a-z]+", parts.netloc), target
        elif parts.path and not parts.path.endswith(".html"):  # reports of the gallery are made with the site, and tried there
            path = ((ROOT / name).parent / parts.path).resolve()
            assert path.is_file() or path.relative_to(ROOT / "docs").as_posix() in GENERATED, target


@pytest.mark.long
def test_every_page_has_its_place_in_the_sites_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    pages = [place for name, place in tree.places().items() if name in tree.matching(tree.PAGES)]
    pages += [address for address, _ in names.pages()]
    assert [place for place in pages if not re.search(rf"[ -]{re.escape(place)}$", navigation, re.MULTILINE)] == []


def test_links_of_the_repository_are_links_of_the_site() -> None:
    text = "[a](../../SECURITY.md#x) [b](views.md) [c](https://a.org/README.md) `examples/quickstart.py` `x.py`\n"
    text += "```\n[d](views.md)\n```\n"
    said = tree.on_the_site(text + "[claim: masked.updates.server] [test: tests/test_x.py]", "docs/explanation/index.md")
    assert "[a](../SECURITY.md#x) [b](views.md) [c](https://a.org/README.md)" in said
    assert "[`examples/quickstart.py`](../examples/quickstart.py.md) `x.py`" in said
    assert "```\n[d](views.md)\n```" in said
    assert "(claim: [`masked.updates.server`](threat-models.md#masked.updates.server)) (test: `tests/test_x.py`)" in said
    assert "(docs/how-to/index.md)" not in tree.on_the_site((ROOT / "README.md").read_text(), "README.md")


def test_dead_links_and_what_is_fetched_from_elsewhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="x"><a href="b.html#y">1</a><a href="c.html">2</a><a href="#x">3</a><img src="/d.png">'
    )
    (tmp_path / "b.html").write_text('<script src="https://elsewhere.org/x.js"></script><a href="a.html#x">4</a>')
    (tmp_path / "c.css").write_text("@import url('https://elsewhere.org/f.css');")
    assert tried.faults(tmp_path) == [
        "a.html: b.html#y: no such place",
        "a.html: c.html: no such file",
        "a.html: /d.png: not relative",
        "b.html fetches https://elsewhere.org/x.js",
        "c.css fetches https://elsewhere.org/f.css",
    ]


# --- what is shown ----------------------------------------------------------------------------------------------------------


def test_the_picture_is_what_its_script_draws() -> None:
    picture = made("picture")
    assert picture.FILE.read_text() == picture.drawn()
    assert "docs/assets/who_sees_what.svg" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", [name for name in PAGES if CODE.search((ROOT / name).read_text())])
def test_python_of_a_page_can_be_read(name: str) -> None:
    for block in CODE.findall((ROOT / name).read_text()):
        ast.parse(block)


RULES_TOLD = {"mean": rules.Mean(), "krum": rules.Krum(2)}


def test_an_attack_of_ones_own_is_written_as_the_page_shows() -> None:
    found: dict[str, Any] = {}
    for block in CODE.findall((ROOT / "docs/how-to/my-attack.md").read_text()):
        exec(block, found)  # noqa: S102
    assert {"attack", "corrupt"} <= set(found)
    held_out = Examples(torch.zeros(6, 1, 8, 8), torch.arange(6))
    for target in (found["backdoor"], found["Corner"]()):
        tested = target.test(held_out, 10)
        assert tested.y.tolist() == [1] * 5
        assert (tested.x.flatten(1).amax(1) == 1).all()
    seen = list(np.random.default_rng(0).normal(1, 0.1, (7, 5)).astype(np.float32))
    told = {n: found["FarthestBack"]()(SimpleNamespace(seen=seen, faulty=2, rule=rule)) for n, rule in RULES_TOLD.items()}
    assert {n: round(float(-sent.mean() / np.mean(seen)), 1) for n, sent in told.items()} == {"mean": 3.0, "krum": 0.3}
    assert place_of(found["corner"]) == "data"
    assert not held_out.x.any()  # stamped are copies


@pytest.mark.trains
@pytest.mark.long
def test_a_defence_of_ones_own_is_played_as_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the rule to the verdict: whatever becomes of the defence, the page's code says it."""
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {"__name__": "page"}
    for block in CODE.findall((ROOT / "docs/how-to/my-defence.md").read_text()):
        exec(block, found)  # noqa: S102
    result = found["result"]
    assert {row["defence"] for row in result.cells} == set(found["evaluation"].defences)
    assert {row["status"] for row in result.cells} == {"done"}
    assert "agreeing" in result.verdict
    assert (tmp_path / "runs/mine/table.csv").is_file()
    assert found["worst"]["lost"] == max(row["lost"] for row in found["attacked"])
    assert {row["seed"] for row in found["searched"].searches} == {0, 1}


class _Told:
    """Whatever of other people's packages is called; what it was called with is kept."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name in ("info", "parquet", "feather"):
            return self

        def call(*given: Any, **more: Any) -> Any:
            self.calls.append(name)
            if name in ("write_table", "write_feather"):
                Path(given[1]).write_text(str(len(given[0])))
            return given[0] if name == "table" else self

        return call


@pytest.mark.trains
def test_results_are_kept_elsewhere_as_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With stand-ins for what it needs installed: tests of callbacks have the packages themselves, where they are there."""
    monkeypatch.chdir(tmp_path)
    told = _Told()
    for name in ("tensorboard", "torch.utils.tensorboard", "mlflow", "pyarrow", "pyarrow.parquet", "pyarrow.feather"):
        monkeypatch.setitem(sys.modules, name, told)
    found: dict[str, Any] = {}
    for block in CODE.findall((ROOT / "docs/how-to/keep-elsewhere.md").read_text()):
        exec(block, found)  # noqa: S102
    assert [told.calls.count(name) for name in ("SummaryWriter", "create_run", "set_terminated", "close")] == [1] * 4
    assert len(found["seen"]) == 2
    assert told.calls.count("add_scalar") == told.calls.count("log_metric") == sum(map(len, found["seen"]))
    assert {"metrics.parquet", "rounds.csv", "who_saw_what.arrow"} <= {path.name for path in tmp_path.iterdir()}
    assert found["again"].metrics == found["result"].metrics
    page = (ROOT / "docs/how-to/keep-elsewhere.md").read_text()  # before: names with a blank, as of IFCA, led to no file
    line = next(line for line in page.splitlines() if line.startswith("file = "))
    exec(line, of := {"last": {"cluster": "model 1"}})  # noqa: S102
    assert of["file"] == "model-1.safetensors"


def test_a_scenario_in_the_readme_is_built() -> None:
    found: dict[str, object] = {}
    for block in CODE.findall((ROOT / "README.md").read_text()):
        exec(block, found)  # noqa: S102
    assert isinstance(found["scenario"], cloister.Scenario)


@pytest.mark.parametrize("path", sorted((ROOT / "docs/tutorials").glob("*.py")), ids=lambda path: path.stem)
def test_a_tutorial_is_cells_without_outputs(path: Path) -> None:
    text = path.read_text()
    ast.parse(text)
    assert text.startswith("# %% [markdown]\n# # ")
    assert text.count("# %% [markdown]") > 3
    assert "text/plain" not in text
    place = f"docs/tutorials/{path.name}"
    linked = [
        target for name in ("README.md", "docs/tutorials/index.md") for target in tree._LINK.findall((ROOT / name).read_text())
    ]
    assert sum(target.endswith(path.name) for _, target, _ in linked) == 2, place


NEEDED = {"pandas": ("import pandas", ".frame("), "deploy": ("cloister serve", "cloister join")}
"""Extras, by what a tutorial does that needs one."""


@pytest.mark.parametrize("path", sorted((ROOT / "docs/tutorials").glob("*.py")), ids=lambda path: path.stem)
def test_a_tutorial_says_first_which_extras_it_needs(path: Path) -> None:
    text = path.read_text()
    first = text.split("# %%")[1]
    needed = {extra for extra, signs in NEEDED.items() if any(sign in text for sign in signs)}
    assert needed
    assert needed == {extra for extra in NEEDED if f"pip install 'cloister[{extra}]'" in first}


DOCTESTS = tree.matching(("fl/**.py", "protocol/**.py", "crypto/**.py", "threat_models/**.py", "cloister/**.py"))
DOCTESTS = [name for name in DOCTESTS if "\n    >>> " in (ROOT / name).read_text()]


@pytest.mark.parametrize("name", DOCTESTS)
def test_examples_of_docstrings_say_what_they_do(name: str) -> None:
    path = name.removeprefix("cloister/").removesuffix(".py").replace("/", ".")
    failed, tried_ = doctest.testmod(importlib.import_module(f"cloister.{path}"))
    assert tried_ > 0
    assert failed == 0


def test_some_docstrings_have_examples() -> None:
    assert len(DOCTESTS) >= 3


# --- what is generated ------------------------------------------------------------------------------------------------------


def test_every_public_name_is_in_the_reference_with_a_sentence() -> None:
    pages = dict(names.pages())
    assert set(pages) == {f"reference/api/{part}.md" for part in ("cloister", *names.PARTS)}
    for part in names.PARTS:
        module = importlib.import_module(f"cloister.{part}")
        for name in module.__all__:
            assert f"::: cloister.{part}.{name}\n" in pages[f"reference/api/{part}.md"]
            assert len(names.first_sentence(getattr(module, name))) > 12, name
    own = set(cloister.__all__) - set(names.PARTS) - {"__version__"}
    assert all(f"::: cloister.{name}\n" in pages["reference/api/cloister.md"] for name in own)


def test_every_command_and_option_is_in_the_reference() -> None:
    from cloister.cli import app

    page = commands.page()
    found = list(commands._all(typer.main.get_command(app), ()))
    assert len(found) > 15
    for path, command in found:
        section = page.partition(f"\n## cloister {' '.join(path)}\n")[2].partition("\n## ")[0]
        assert section, path
        for parameter in command.params:
            said = parameter.opts[0] if parameter.opts[0].startswith("-") else commands._metavar(parameter)
            assert said in section, (path, said)


def test_every_claim_is_on_the_page_of_threat_models() -> None:
    page = tables.filled((ROOT / "docs/explanation/threat-models.md").read_text())
    assert all(f"`{claim.id}`{{ #{claim.id} }}" in page for claim in CLAIMS)
    assert "<!-- table" not in page
    with pytest.raises(KeyError):
        tables.filled("<!-- table: nothing -->")


def test_files_and_fields_that_runs_write_are_in_the_reference() -> None:
    page = (ROOT / "docs/reference/files.md").read_text()
    written = (
        *LOGS,
        "summary.json",
        "scenario.json",
        "privacy.json",
        "tree.json",
        "link.json",
        "presence.jsonl",
        "join.jsonl",
        "audit.json",
    )
    written += ("table.csv", "table.md", "breakdown.json", "search.json", "found.json", *JUDGED)
    assert [name for name in (*written, *(field.name for field in fields(Disclosure))) if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    "word",
    ["Gram", "Floor", "Sketch", "Slot", "K0, K1, K2, K3", "Session", "Cohort", "Span meter", "Participation meter", "Purity"],
)
def test_the_glossary_has_the_words(word: str) -> None:
    assert re.search(rf"^\*\*{re.escape(word)}\*\*.*\n:   ", (ROOT / "docs/reference/glossary.md").read_text(), re.MULTILINE)


# --- what belongs around a project ------------------------------------------------------------------------------------------


def test_what_is_said_twice_is_the_same() -> None:
    torch = re.findall(r"^torch==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[0]
    assert f"version: {cloister.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"torch=={torch} " in (ROOT / "Dockerfile").read_text()
    workflow = (ROOT / ".github/workflows/test.yml").read_text()
    assert workflow.count(f"torch=={torch} ") == 2
    assert "run: make test\n" in workflow
    assert "run: make docs\n" in workflow
    assert all(f'"{version}"' in workflow for version in ("3.11", "3.12"))
    assert "make docs" in (ROOT / ".ci/run").read_text()


def test_what_documentation_needs_is_pinned() -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["docs"]
    pinned = {line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().replace("_", "-").splitlines()}
    assert [name for need in needed if (name := re.split(r"[\[>=]", need)[0]) not in pinned] == []
