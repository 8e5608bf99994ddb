"""The suite that a scenario is evaluated with where its author names none."""

from ..evaluation_attack import Attack
from .backdoors import backdoors
from .untargeted import insiders, untargeted

CHOSEN = (
    "minus gradient", "minus gradient x0.2", "minus gradient x5", "ALIE z=1.5", "IPM eps=0.1", "IPM eps=0.5", "IPM eps=1",
    "IPM eps=2", "IPM eps=20", "Min-Max mean", "Fang Krum partial", "Fang trim", "mimic", "dynamic label flip", "optimal ALIE",
    "optimal IPM", "DYN-OPT", "BadNets", "BadNets x3",
)  # fmt: skip
"""By what they did to six rules on digits, alike and skewed, and so that no attack of ByzFL or FLPoison did more:
`examples/results/attacks_and_defences.md`."""


def strongest(images: bool = True) -> dict[str, Attack]:
    """The strongest of each family. images: with backdoors, which are put into images."""
    known = {**untargeted(), **insiders(), **(backdoors() if images else {})}
    return {name: known[name] for name in CHOSEN if name in known}
