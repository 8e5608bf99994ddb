"""What becomes of clients' choices among models, in the hardened FLIC: who trains what, and who is served by what.

A client is served by what it chose, and trains there: no vote moves anybody else, so a majority that votes for the worst model
has it to itself. Two things temper that, since a choice by few examples is partly noise:

- **Quorum.** What too few chose is trained by nobody. It serves those who chose it, as it is; their updates go where their
  community goes on, or the one that it was forked from, or to those whom they were most like.
- **Going back.** An earlier model is trained again only if a third of all clients want it.

Where attackers are more than two thirds the loyal cannot go back together; each is served by the model that it says is best.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil

from .evidence import Evidence

BACK = 1 / 3
"""Share of all clients that must want an earlier model for it to be trained again."""


def quorum(clients: int, share: float) -> int:
    """The least clients that make a community: their share of all, at least 2."""
    return max(2, ceil(share * clients - 1e-9))


def going_on(chosen: Mapping[int, str], current: Sequence[str], offered: Sequence[str], clients: int, least: int) -> list[str]:
    """The models that are trained from now on, in the order offered: what enough clients chose, or else the most chosen one.

    current: those of today's communities; the others are earlier ones.
    """
    counts = Counter(chosen.values())
    needed = {name: least if name in set(current) else max(least, quorum(clients, BACK)) for name in offered}
    enough = [name for name in offered if counts[name] >= needed[name]]
    return enough or [max(offered, key=lambda name: counts[name])]


def blocks(
    clients: Sequence[int],
    chosen: Mapping[int, str],
    own: Mapping[int, str],
    kin: Mapping[str, Sequence[str]],
    models: Sequence[str],
    evidence: Evidence,
) -> dict[str, tuple[int, ...]]:
    """Who trains each of these models; some may train none.

    own: the model of the community that a client's updates went to. kin: of each, those forked from the same community.
    """
    found: dict[str, list[int]] = {name: [] for name in models}
    left = []
    for client in clients:
        wanted = next((name for name in (chosen.get(client), own.get(client)) if name in found), None)
        if wanted is None:
            related = [name for name in kin.get(own.get(client, ""), ()) if name in found]
            wanted = max(related, key=lambda name: sum(c == name for c in chosen.values())) if related else None
        if wanted is None:
            left.append(client)
        else:
            found[wanted].append(client)
    fixed = {name: tuple(block) for name, block in found.items()}
    for client in left:
        likeness = {name: likeness_to(evidence, client, block) for name, block in fixed.items()}
        best = max(likeness, key=lambda name: likeness[name])
        if likeness[best] > 0:
            found[best].append(client)
    return {name: tuple(sorted(block)) for name, block in found.items()}


def likeness_to(evidence: Evidence, client: int, others: Sequence[int]) -> float:
    """The mean of a client's known cosines to others; 0 where none is known."""
    cosines, known = evidence.cosines([client, *others])
    return float(cosines[0][known[0]].mean()) if known[0].any() else 0.0
