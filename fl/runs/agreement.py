"""What a client works by besides what it refuses to differ in: both ends say it, and each tells its operator of differences.

A client that trains otherwise than others do harms nobody's privacy, and may have been meant to: it is told, and not refused.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import Any

from ..data.agreed import agreed_on, made_up
from .scenario import Scenario, described

MOST_TERMS, MOST_TEXT, MOST_BYTES = 64, 64, 6144
"""Fields, characters of a field's name or value, and bytes of all of them."""
PROTECTION = "protection"
"""The field in which a client refuses to differ: whoever has another one takes no part."""
Terms = Mapping[str, str]
"""By field, its value as text, or the digest of a longer one."""


def terms_of(scenario: Scenario[Any]) -> Terms:
    """The protection, the seed, how many rounds, the model (a function by its code), fields of `training` and `algorithm`, and
    what a table agrees on.
    """
    found: dict[str, Any] = {PROTECTION: described(scenario.protection), "seed": scenario.seed, "rounds": scenario.rounds}
    found["model"] = described(scenario.model)
    for name in ("training", "algorithm"):
        value = getattr(scenario, name)
        found[name] = type(value).__name__
        if is_dataclass(value):
            found |= {f"{name}.{f.name}": described(getattr(value, f.name)) for f in fields(value) if f.compare}
    if (agreed := agreed_on(scenario.data)) is not None:
        found |= {f"data.{name}": value for name, value in agreed.plain.items()}
    if made_up(scenario.data):
        found["data.clients"] = getattr(scenario.data, "clients", None)
    return {name[:MOST_TEXT]: _short(value) for name, value in list(found.items())[:MOST_TERMS]}


def to_text(terms: Terms) -> str:
    """In printable ASCII, for a header."""
    return json.dumps(dict(terms), separators=(",", ":"))


def from_text(text: str) -> Terms:
    """Raises ValueError for what is none."""
    if len(text) > MOST_BYTES:
        raise ValueError("terms that are too long")
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("terms that are none") from None
    return checked(found)


def checked(found: Any) -> Terms:
    """These, if they are terms, which reports show: of printable text alone, as `terms_of` makes them. Raises ValueError."""
    right = isinstance(found, dict) and len(found) <= MOST_TERMS
    if not right or not all(
        type(of) is str and len(of) <= MOST_TEXT and of.isprintable() for pair in found.items() for of in pair
    ):
        raise ValueError("terms that are none")
    return dict(found)


def differences(theirs: Terms, ours: Terms) -> dict[str, list[str | None]]:
    """By field in which they differ, the value there and here; None where one end has no such field."""
    names = [*ours, *(name for name in theirs if name not in ours)]
    return {name: [theirs.get(name), ours.get(name)] for name in names if theirs.get(name) != ours.get(name)}


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= MOST_TEXT and text.isprintable() else f"sha256 {sha256(text.encode()).hexdigest()[:16]}"
