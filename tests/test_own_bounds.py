"""What a client's page says of who could see its update together, by the protection as its record has it."""

import pytest

from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.two_servers.view import WITH_A_CLIENT
from cloister.reporting.account_words import account_notes
from cloister.reporting.own_bounds import bounded

SKETCHED = "could read its sketch: 64 numbers, each a sum over all of its update's"
OPENED = "any one other client could open its update"
MANY = "could read its 32 sketches, 2 048 numbers in all: of each of as many updates 64 numbers, each a sum over all of that"
WITH_A_DEALER = "the dealer and either server together could read 4096 projections of its update, or the update itself"


HIDDEN = "fewer than 5 clients; should 2 of them be corrupt, it hides among 3."
ALONE = "fewer than 2 clients; all others in a sum and the coordinator together could"


@pytest.mark.parametrize(
    ("protection", "sent", "words", "without"),
    [
        (Masked(corrupt=2), {"MaskedInput": 9}, [HIDDEN], ["sketch"]),
        (Masked(corrupt=0, floor=2), {"MaskedInput": 9}, [ALONE], ["corrupt"]),
        (Masked(), {"MaskedInput": 9, "OffsetSketched": 1}, [SKETCHED], []),
        (Masked(), {"MaskedInput": 450, "OffsetSketched": 32}, [MANY], ["its sketch"]),
        (Encrypted(), {"EncryptedInput": 9, "OffsetSketched": 3}, [OPENED], ["read its sketch"]),
        (TwoServer(), {"ExplicitShare": 9}, ["the second server could put its update together", "fewer than", WITH_A_DEALER], []),
    ],
    ids=["masked", "nobody corrupt", "sketched", "sketched often", "encrypted", "two servers"],
)
def test_floor_and_coalitions_are_said(protection: object, sent: dict[str, int], words: list[str], without: list[str]) -> None:
    said = bounded(repr(protection), sent, (), 5000)
    assert all(one in said for one in words), said
    assert not any(one in said for one in without), said


def test_a_sketch_has_at_most_half_as_many_numbers_as_the_model() -> None:
    """Before: "64 numbers", of models of 66 parameters, whose sketches have 33."""
    one = {"MaskedInput": 9, "OffsetSketched": 1}
    assert "could read its sketch: 33 numbers" in bounded(repr(Masked()), one, (), 66)
    assert "could read its sketch: weighted sums of all of its update's" in bounded(repr(Masked()), one)


def test_under_the_clients_key_norms_and_cosines_are_read_by_a_client_too() -> None:
    """Before: the page had who could open an update together, and not what one client alone reads of it."""
    compared = "the client that opens that reads it unrounded"
    assert compared in bounded(repr(Encrypted()), {"EncryptedInput": 9}, {"SketchRequest", "Task"})
    assert compared not in bounded(repr(Encrypted()), {"EncryptedInput": 9}, {"Task"})


def test_other_clients_that_are_handed_sums_of_their_own_are_named() -> None:
    """Before: of PFedGraph "all others in a sum and the coordinator together", where three others could without it."""
    personal = "those of them that put theirs together could read it, with fewer than all others"
    assert personal in bounded(repr(Masked()), {"MaskedInput": 8, "SenderKey": 4})
    assert personal not in bounded(repr(Masked()), {"MaskedInput": 8})


def test_nothing_bounds_what_is_sent_as_it_is() -> None:
    assert [bounded(repr(one), {"Upload": 9}) for one in (Plain(), Permuted())] == ["", ""]
    assert bounded("\u2013", {"Upload": 9}) == ""


def test_a_board_reads_of_both_coalitions_of_two_servers_too() -> None:
    account = {"span": None, "transformed": False, "with_a_client": WITH_A_CLIENT}
    notes = " ".join(account_notes(account, "TwoServer", 4096))
    assert "both servers together read every update" in notes
    assert "the dealer and either server together could read 4096 projections of each update in it" in notes
    assert "the update itself where it has no more than k numbers" in " ".join(account_notes(account, "TwoServer"))
    assert "dealer" not in " ".join(account_notes(account, "Masked"))


def test_of_a_client_no_update_of_which_was_sent_nothing_is_said_of_sums_with_it() -> None:
    """Before: "No sum with its update is opened over fewer than 3", of one that never sent any."""
    for protection in (Masked(), Encrypted(), TwoServer()):
        assert bounded(repr(protection), {"PairClouds": 1, "Score": 4}) == ""
