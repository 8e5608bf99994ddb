"""Words that claim privacy stand in pages, specifications, cards and public docstrings only where a claim or a test backs them.

A word that is a term and not a promise is allowed: a private key, and "differentially private" where its sentence names epsilon.
Anything else needs a line in BACKED, with the id of one of Cloister's claims or the file of a test; or another word.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from cloister.threat_models.claims import CLAIMS

ROOT = Path(__file__).parents[1]
PAGES = ("docs", "examples", "threat_models", "protocol", "tests")
WORDED = ("pyproject.toml", "mkdocs.yml", "CITATION.cff")
OTHERS = re.compile(r"^## Claimed by the paper$.*?(?=^## )", re.MULTILINE | re.DOTALL)
"""What others say of their own, as cards repeat it."""
FOLDERS = ("protocol", "crypto", "fl", "threat_models", "cloister")
WORDS = re.compile(
    r"\b(private(?:ly)?|confidential(?:ly|ity)?|anonym(?:ous(?:ly)?|ity|i[sz]ed?)|"
    r"privacy[- ](?:preserving|friendly|by[- ]design)|"
    r"(?:preserv|ensur|guarant|provid|protect|enforc|promis|assur)\w*(?: the| full| complete| total| strong)* privacy|"
    r"(?:perfect|full|complete|total|strong|absolute|guaranteed)(?:ly)? privacy|"
    r"privacy (?:(?:is|are) )?(?:preserved|kept|guarantee[ds]?|ensured|protected))\b",
    re.IGNORECASE,
)
KEYS = re.compile(r"\bprivate[\s-](?:keys?|half of (?:a|an|the|its|their)(?: \w+)? key|halves of (?:\w+ )?keys)\b", re.IGNORECASE)
SENTENCES = re.compile(r"(?<=[.!?])[)\"'`*]*\s+")
CODE = re.compile(r"`[^`]*`")
FORMAL = re.compile(r"\bdifferential(?:ly)?\s+priva(?:te|cy)\b", re.IGNORECASE)
PRICED = re.compile(r"\bepsilon\b|\([\d.]+, [\d.e-]+\)-|\bledger\b|Formal guarantee", re.IGNORECASE)
BACKED: dict[str, str] = {
    "protocol/masked/protection.py Masked": "tests/test_masked_noise.py",
    "protocol/privacy/ledger.py Release": "tests/test_ledger.py",
}
"""By file and name, or by page and a paragraph's first four words: a claim's id, or a test."""


def said(text: str) -> list[str]:
    """The words that claim something, of one docstring or paragraph; a sentence has to name its own epsilon or ledger."""
    found = list[str]()
    for sentence in SENTENCES.split(text):
        rest = KEYS.sub("", CODE.sub("", sentence))
        found += WORDS.findall(FORMAL.sub("", rest) if PRICED.search(rest) else rest)
    return found


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """(name, text) of every public docstring, those under constants and fields too; a module's name is empty."""

    def within(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
        before: ast.stmt | None = None
        for child in getattr(node, "body", []):
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant) and isinstance(child.value.value, str):
                yield (name if before is None else f"{name}.{_assigned(before)}".strip(".")), child.value.value
            if isinstance(child, ast.ClassDef | ast.FunctionDef) and (not child.name.startswith("_") or child.name == "__init__"):
                yield from within(child, f"{name}.{child.name}".strip("."))
            before = child

    return within(ast.parse(path.read_text(encoding="utf-8")), "")


def _assigned(statement: ast.stmt) -> str:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return next((target.id for target in targets if isinstance(target, ast.Name)), "")


def files() -> list[Path]:
    """Every module, once: links in the face are to folders that are read as they are. Examples and tutorials are modules too."""
    found = [path for folder in (*FOLDERS[:-1], "examples", "docs") for path in (ROOT / folder).rglob("*.py")]
    own = (child for child in (ROOT / FOLDERS[-1]).iterdir() if not child.is_symlink())
    found += [path for child in own for path in ([child] if child.suffix == ".py" else child.rglob("*.py"))]
    return sorted(found)


def pages() -> list[Path]:
    """What is at the root (README, SECURITY, CHANGELOG, the package's description), documentation, specifications and cards, and
    what stands beside examples and tests."""
    beside = (path for folder in PAGES for path in (ROOT / folder).rglob("*.md"))
    return [*sorted(ROOT.glob("*.md")), *(ROOT / name for name in WORDED), *sorted(beside)]


@cache
def occurrences() -> dict[str, list[str]]:
    """By place, as in BACKED: the words that claim something there."""
    found: dict[str, list[str]] = {}
    for path in files():
        for name, text in docstrings(path):
            if words := said(text):
                found.setdefault(f"{path.relative_to(ROOT)} {name}".strip(), []).extend(words)
    for path in pages():
        for paragraph in re.split(r"\n\s*\n", OTHERS.sub("", path.read_text(encoding="utf-8"))):
            if words := said(paragraph):
                found[f"{path.relative_to(ROOT)} " + " ".join(paragraph.split()[:4])] = words
    return found


@pytest.mark.long
def test_every_word_that_claims_privacy_is_backed() -> None:
    assert {place: words for place, words in occurrences().items() if place not in BACKED} == {}


def test_what_is_published_of_the_package_is_read() -> None:
    named = {str(path.relative_to(ROOT)) for path in pages()}
    assert {"pyproject.toml", "SECURITY.md", "CHANGELOG.md", "README.md", "protocol/specs/two_servers.md"} <= named


@pytest.mark.long
def test_what_is_backed_is_there_and_its_backing_too() -> None:
    assert set(BACKED) - set(occurrences()) == set()
    own = {claim.id for claim in CLAIMS if claim.whose == "Cloister"}
    for what in BACKED.values():
        assert what in own or (what.startswith("tests/test_") and (ROOT / what).is_file()), what


@pytest.mark.parametrize(
    "text",
    [
        "Updates stay private.",
        "a differentially private sum",
        "a differentially\nprivate sum",
        "Clients are anonymous to the server",
        "a privacy-preserving protocol",
        "Confidentiality holds",
        "private keys are kept private",
        "Privacy is preserved, since the server receives projections",
        "Under `Masked` every update is differentially private. A ledger is kept for EMD-CFL.",
        "The private half of a client's records is never seen.",
        "Cloister ensures privacy.",
        "Cloister protects the privacy of every client.",
        "Perfect privacy.",
        "privacy guarantees for all",
        "One private mean a client",
    ],
)
def test_a_bare_claim_is_seen(text: str) -> None:
    assert said(text)


@pytest.mark.parametrize(
    "text",
    [
        "the private key of a client",
        "the private half of a key",
        "an (epsilon, delta)-differentially\nprivate release",
        "Formal guarantee: differentially private for one record as the ledger says.",
        "(8, 1e-5)-differentially private for one record",
        "a `private` grid, and --auth-private-key",
        "`privacy.json`: what each client has spent",
    ],
)
def test_terms_are_no_claims(text: str) -> None:
    assert said(text) == []


def test_docstrings_of_every_kind_are_read(tmp_path: Path) -> None:
    source = (
        '"""Module."""\nX = 1\n"""Constant."""\nclass A:\n    """Class."""\n    y: int = 0\n    """Field."""\n'
        '    def f(self):\n        """Method."""\n    def _g(self):\n        """Hidden."""\n'
    )
    (tmp_path / "m.py").write_text(source)
    found = list(docstrings(tmp_path / "m.py"))
    assert found == [("", "Module."), ("X", "Constant."), ("A", "Class."), ("A.y", "Field."), ("A.f", "Method.")]
    assert len(files()) > 300
