"""Whether what is added to an update is uniform, and used once: by tests of the words themselves, and no attack's guess."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...protocol.masked.protection import Masked
from ...protocol.two_servers.protection import TwoServer
from .added_words import Added, added
from .carried import carried
from .experiment import Anchor, Budget, Evidence, Examined, Finding
from .observer import SERVER_ALONE
from .truth import Truth
from .word_tests import unlikely

LEVEL = 1e-6
"""Chance, at most, that correct code is refuted in one run, all tests together."""
NAMED = 3
"""Things that tests found which are told; the rest are counted."""


@dataclass(frozen=True, slots=True)
class AddedWords:
    """1 where some test says that what clients added is not uniform or serves twice, or a message carries more than its words.

    The scorer, which knows the updates, takes them off the words that the server was sent (`added_words`), and tests what is
    left (`word_tests`): bits, words and uploads against each other. So it does with what is left of masks less those that the
    server, and corrupt clients with it, can compute (`unopened`). Where keys are on record, a witness is also a key that its
    client did not draw alone, a mask or share that is not what keys give, a secret that is not shared and sealed as agreed, a
    sketch that is not what the clients' seed gives (`own_sketches`), and a client masked by as few others as are corrupt. It is
    the masks that are tested, and not what an attack could make of them; what no test looks for passes: keys of little entropy
    where the source of all of a client's secrets has little, whose streams are as uniform as others; a copy in a message of
    another kind, or in a signature; sketches beside a split's.
    """

    name: str = "masks"
    unit: str = "1 if what is added to updates is not uniform, or serves twice"
    side: str = "none; what was put in is taken off by the scorer, who knows it"
    source: str = "Chernoff 1952"
    anchor: Anchor = "chance"

    def applies(self, evidence: Evidence, /) -> str:
        if not isinstance(evidence.view.public.protection, Masked | TwoServer):
            return "nothing is added to updates"
        of_server = evidence.view.observer.servers == SERVER_ALONE.servers
        return "" if of_server else "what is added is tested in what the server was sent, by what it knows and clients with it"

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        found = added(evidence.view, truth)
        return Finding((), np.zeros(0), examined=examined(replace(found, wrong=(*found.wrong, *carried(evidence.view, truth)))))


def _alike(sentences: Sequence[str]) -> Iterator[str]:
    """The first of those that differ in numbers alone, and how many they are."""
    kinds: dict[str, list[str]] = {}
    for one in sentences:
        kinds.setdefault(re.sub(r"\d+", "#", one), []).append(one)
    yield from (one[0] + (f" ({len(one)} such)" if len(one) > 1 else "") for one in kinds.values())


def examined(found: Added, level: float = LEVEL) -> Examined:
    """What tests say of it, at this joint level."""
    witnesses = sorted((w for one in found.words for w in unlikely(one, level / len(found.words))), key=lambda w: w.log)
    words = [f"a message that carries more than its words: {one}" for one in found.beyond[:1]]
    words += [*_alike(found.wrong), *(w.words for w in witnesses)]
    more = f"; and {len(words) - NAMED} more" if len(words) > NAMED else ""
    of = f"{found.uploads} uploads, {found.coordinates} words" + (", evenly chosen of all" if found.sampled else "")
    missed = [f"{count} {why}" for why, count in found.missed]
    if not found.uploads:
        missed = missed or ["no masked upload was there"]
    nothing = not (found.uploads or found.words or words)
    return Examined("; ".join(words[:NAMED]) + more, f"{of}, tested at {level:g} together", ", ".join(missed), nothing)
