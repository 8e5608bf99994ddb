"""What a client's page says of who could see its update together, by the protection as its record has it."""

import pytest

from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.reporting.own_bounds import bounded

SKETCHED = "could read its sketch: 64 numbers, each a sum over all of its update's"


HIDDEN = "fewer than 5 clients; should 2 of them be corrupt, it hides among 3."
ALONE = "fewer than 2 clients; all others in a sum and the coordinator together could"


@pytest.mark.parametrize(
    ("protection", "kinds", "words", "without"),
    [
        (Masked(corrupt=2), {"MaskedInput"}, [HIDDEN], ["sketch"]),
        (Masked(corrupt=0, floor=2), {"MaskedInput"}, [ALONE], ["corrupt"]),
        (Masked(), {"MaskedInput", "OffsetSketched"}, [SKETCHED], []),
        (Encrypted(), {"EncryptedInput", "OffsetSketched"}, ["any one other client could open its update"], ["read its sketch"]),
        (TwoServer(), {"ExplicitShare"}, ["the second server could put its update together", "fewer than"], []),
    ],
    ids=["masked", "nobody corrupt", "sketched", "encrypted", "two servers"],
)
def test_floor_and_coalitions_are_said(protection: object, kinds: set[str], words: list[str], without: list[str]) -> None:
    said = bounded(repr(protection), kinds)
    assert all(one in said for one in words), said
    assert not any(one in said for one in without), said


def test_nothing_bounds_what_is_sent_as_it_is() -> None:
    assert [bounded(repr(one), {"Upload"}) for one in (Plain(), Permuted())] == ["", ""]
    assert bounded("\u2013", {"Upload"}) == ""
