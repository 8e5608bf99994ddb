"""What is known of a defence from earlier searches, which stands wherever it is offered or judged, whatever was played there."""

from collections.abc import Mapping
from typing import Any

from .words import names_words

KNOWN = "known_breaks"
"""Of what a folder of results is about: words by name of a defence or method."""


def known_words(about: Mapping[str, Any]) -> list[str]:
    """A paragraph for each defence of which something is known, for a page."""
    known: dict[str, str] = about.get(KNOWN, {})
    return [f"Known of {name}, whatever was played here. {words}" for name, words in known.items()]


def known_in_short(about: Mapping[str, Any], page: str) -> list[str]:
    """A line that says where these stand, for a terminal; none where nothing is known. page: which has them."""
    if not (known := about.get(KNOWN, {})):
        return []
    each = "it" if len(known) == 1 else "each"
    return [f"Known of {names_words([*known])}, whatever was played here: what searches found against {each} stands in {page}."]
