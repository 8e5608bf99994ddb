"""Clients that answer every word of a coordinator, and are in no sum: what they send is of no use, and nobody else is told."""

from collections.abc import Collection, Iterable, Mapping

from ...protocol.core.errors import Fault
from ...protocol.view.account import Asked, Opened

TOLD = 3
"""Rounds in a row after which it is said of a client. Fewer may be chance, as where it was slow for a moment."""


def not_summed(asked: Iterable[Asked], opened: Collection[Opened], faults: Iterable[Fault], silent: Collection[int]) -> set[int]:
    """Of a round, who was asked for an update, is in no sum though there was one of those that were asked with it, and is not at
    fault by what the server saw. silent: who did not answer in time. Not who was left out by the method.
    """
    summed = {i for of in opened for i in of.row}
    lost = {i for of in opened for i in of.lost}
    found = {i for one in asked if not summed.isdisjoint(one.clients) for i in one.clients if i not in one.answered or i in lost}
    return found - summed - {*silent} - {f.blame for f in faults if f.by in (None, f.blame)}


def counted(before: Mapping[int, int], now: Collection[int], opened: Iterable[Opened]) -> dict[int, int]:
    """In how many rounds each client was in no sum so, since it was in one. now: in this round, of which these sums are."""
    summed = {i for of in opened for i in of.row}
    return {i: before.get(i, 0) + (i in now) for i in sorted({*before, *now} - summed)}


def to_tell(counts: Mapping[int, int], rounds: int) -> dict[int, int]:
    """Of so many rounds, those of whom it is said, with the number of rounds."""
    return {i: count for i, count in counts.items() if count >= min(TOLD, rounds)}
