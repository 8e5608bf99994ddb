"""Pages of the public names: one for each part of the face, with every name that a user may use and its docstring."""

import importlib
import inspect
from collections.abc import Iterator

PARTS = ("algorithms", "attacks", "callbacks", "data", "models", "partitions", "protections", "rules", "threats")
WITH_MEMBERS = frozenset(
    {"Result", "Round", "Adversary", "Level", "Client", "Population", "Evidence", "Observer", "RecordPrivacy"}
)
"""Classes whose members a user calls; of others the constructor is all."""

SHORT = 12
"""Letters that a sentence has at least."""


def pages() -> Iterator[tuple[str, str]]:
    """(address, text) of every page."""
    yield "reference/api/cloister.md", _front()
    for part in PARTS:
        yield f"reference/api/{part}.md", _part(part)


def _front() -> str:
    module = importlib.import_module("cloister")
    own = [name for name in module.__all__ if name not in PARTS and name != "__version__"]
    return f"# cloister\n\n{inspect.getdoc(module)}\n\n" + _index("cloister", own) + _entries("cloister", own)


def _part(part: str) -> str:
    module = importlib.import_module(f"cloister.{part}")
    head = f"# cloister.{part}\n\n{inspect.getdoc(module)}\n\n"
    return head + _index(f"cloister.{part}", module.__all__) + _entries(f"cloister.{part}", module.__all__)


def _index(module: str, names: list[str]) -> str:
    found = importlib.import_module(module)
    rows = "".join(f"| [`{name}`][{module}.{name}] | {first_sentence(getattr(found, name))} |\n" for name in names)
    return f"| name | |\n| --- | --- |\n{rows}\n"


def first_sentence(value: object) -> str:
    """Of its docstring; of a class whose own begins with its fields, of its module's."""
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    module = inspect.getmodule(value)
    if text.split(" ")[0].rstrip(":,") in getattr(value, "__dataclass_fields__", {}) or not text:
        text = " ".join((inspect.getdoc(module) or "").split("\n\n")[0].split())
    sentence = _cut(text)
    return sentence.replace("|", "\\|")


def _cut(text: str) -> str:
    """Up to the first full stop that ends a sentence."""
    for k, letter in enumerate(text):
        followed = text[k + 1 : k + 3]
        ends = followed == "" or (followed[0] == " " and followed[1:].isupper())
        if k >= SHORT and letter == "." and ends and not text[:k].endswith(" al"):
            return text[: k + 1]
    return text


def _entries(module: str, names: list[str]) -> str:
    text = ""
    for name in names:
        members = "true" if name in WITH_MEMBERS else "false"
        text += f"::: {module}.{name}\n    options:\n      members: {members}\n\n"
    return text
