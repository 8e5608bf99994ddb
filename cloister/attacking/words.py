"""What the names in a search's points mean, each in a line: of those that stand in its points."""

from collections.abc import Iterable
from typing import Any

WORDS = {
    "Jittered": "each member adds noise of its own, of norm spread times that of what it sends: no two uploads are alike",
    "SignBalanced": "the attack, its distance from the honest mean turned round in a random half of the coordinates",
    "Magnified": "what a member alone sends, times factor",
    "KernelPoison": "of another attack only what the protection's sketch does not see",
    "InLayer": "the attack, of members that act together, in one layer, the first or the last; honest work in all others",
    "LoneInLayer": "the attack, of a member by itself, in one layer, the first or the last; honest work in all others",
    "Scaled": "poisoned work, times factor",
    "from": "the attack begins in round start",
    "pulses": "in every period rounds from start on, members attack in some and are honest in the rest",
    "duty": "which share of a period's rounds but its last they attack in, one round at least",
    "which": "who attacks: any clients, or those with the most, the fewest or the oddest examples",
}
"""By the name that a point has of it, or by what follows the dot of one, or by its value."""


def words_of(points: Iterable[Any]) -> list[tuple[str, str]]:
    """Of these points (`Point`) each name that WORDS has, with what it means, in the order of WORDS."""
    seen = {part for p in points for key, value in p.numbers.items() for part in (*key.rstrip("?").split("."), str(value))}
    usual = {p.numbers.get("which", "any") for p in points} <= {"any"}
    return [(name, meaning) for name, meaning in WORDS.items() if name in seen and not (name == "which" and usual)]
