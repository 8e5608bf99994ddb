"""Who makes keys under encryption, or opens sums, and lies costs a round at most, is asked last, and nobody else pays for it."""

import struct
from dataclasses import replace

import numpy as np
import pytest

from cloister.crypto.ckks import PRODUCTS
from cloister.protocol import Encrypted
from cloister.protocol.core.errors import Refused, Silent
from cloister.protocol.core.session import SERVER
from cloister.protocol.encrypted import client as encrypted_client
from cloister.protocol.encrypted.gathering import most_said
from cloister.protocol.encrypted.holders import PROVEN, Holders
from cloister.protocol.encrypted.messages import SumOpened
from cloister.protocol.encrypted.scaling import MIDDLE, is_test_product
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Sum, Weights

from . import sides
from .encrypted_session import another_key, changing, made_once
from .encrypted_view import MEMBERS, check, garbage, losing, of_another, open_view, put_together, root, sealing, update_of

pytestmark = pytest.mark.sweeps
EVERYBODY = Weights(dict.fromkeys(MEMBERS, 1.0))


@pytest.fixture(autouse=True)
def few_keys(monkeypatch):
    monkeypatch.setattr(encrypted_client.SecretContext, "generate", made_once)


@pytest.mark.long
@pytest.mark.parametrize("how", [garbage, of_another, put_together])
@pytest.mark.parametrize("keys", ["session", "run"])
def test_who_makes_keys_that_open_nothing_is_named_and_asked_last(monkeypatch, keys, how):
    sealing(monkeypatch, (1, 2), how)
    view = open_view(Encrypted(keys=keys))
    for round in range(2):  # of each of the two
        assert not view.gram(view.train(round, root())["root"], origin=True).clients, "nobody encrypts under what does not open"
    assert {fault.blame for fault in view.record.faults if fault.blame in MEMBERS} == {1, 2}
    updates = view.train(2, root())["root"]
    gram = view.gram(updates, origin=True)
    clear = np.stack([update_of(i, 2) for i in MEMBERS]).astype(np.float64)
    norms = np.linalg.norm(clear, axis=1)
    assert gram.clients == MEMBERS
    assert np.all(np.abs(gram.matrix - clear @ clear.T) <= gram.tolerance * np.outer(norms, norms))


@pytest.mark.long
@pytest.mark.parametrize("how", [garbage, of_another, put_together])
def test_sums_whose_key_opens_nothing_cost_a_round_for_each_of_its_makers(monkeypatch, how):
    sealing(monkeypatch, (1,), how)
    view = open_view()
    everyone = Weights(dict.fromkeys(MEMBERS, 1.0))
    first = view.sums(view.train(0, root())["root"], {"m": everyone})["m"]
    assert isinstance(first, BelowFloor)
    assert {i for i in MEMBERS if i in {fault.blame for fault in view.record.faults}} == {1}
    second = view.sums(view.train(1, root())["root"], {"m": everyone})["m"]
    check(view, second, dict.fromkeys(MEMBERS, 1.0), 1)


@pytest.mark.long
def test_a_key_of_the_run_that_its_maker_alone_can_open_with_is_never_used(monkeypatch):
    """It had opened two comparisons, and so proven its key, and left: no round of anybody came to anything any more."""
    sealing(monkeypatch, (1,), garbage)
    asked = []

    def tap(frame):
        asked.extend([frame.receiver] * (frame.kind == "ScoreRequest"))
        return [frame]

    view = open_view(Encrypted(keys="run"), tap)
    assert not view.gram(view.train(0, root())["root"]).clients
    assert asked == [], "there is nothing to open, as nobody encrypts under it"
    assert view.gram(view.train(1, root())["root"]).clients == MEMBERS
    assert asked == [3]  # the key is of client 2 now, and client 1 is asked last


@pytest.mark.long
def test_sketches_under_a_key_that_is_given_up_are_compared_with_none_under_another():
    view = open_view(Encrypted(keys="run"), losing("RoundedScores", MEMBERS))
    kept = view.remember(view.train(0, root())["root"], (2, 3))
    second = view.train(1, root())["root"]
    with pytest.raises(Silent, match="no client opened"):
        view.cosines(second, kept)
    assert not sides.part(view, Holders).keys
    assert np.isnan(view.cosines(view.train(2, root())["root"], kept)).all()


@pytest.mark.long
@pytest.mark.parametrize("opened", [False, True])
def test_a_restored_view_knows_whether_anything_was_opened_with_the_key_of_the_run(opened):
    view, silent = open_view(Encrypted(keys="run")), []
    if opened:
        view.gram(view.train(0, root())["root"])
    else:
        view.remember(view.train(0, root())["root"], (2, 3))
    again = open_view(Encrypted(keys="run"), tap=lambda f: [] if f.kind == "RoundedScores" and silent else [f])
    again.harness.restore(view.harness.save(), [])
    silent.append(True)
    with pytest.raises(Silent):
        again.gram(again.train(1, root())["root"])
    assert bool(sides.part(again, Holders).keys) is opened, "a key of use is kept, another is not"


untagged = changing("OfferedKey", lambda message, frame: replace(message, tag=bytes(32)) if frame.sender == 1 else message)
"""Client 1 tags its keys with what is no tag."""


def test_a_key_with_a_wrong_tag_costs_its_maker_one_round_of_sums():
    """Only other clients can tell. It was asked first again in every round, and nothing came of any."""
    view = open_view(tap=untagged)
    first = view.sums(view.train(0, root())["root"], {"m": EVERYBODY})["m"]
    assert isinstance(first, BelowFloor)
    reasons = {fault.reason for fault in view.record.faults}
    assert "a public key without its maker's tag: client 1 made it so, or no client made it" in reasons
    assert any("client 1, who made its key, is asked last for the next" in reason for reason in reasons)
    check(view, view.sums(view.train(1, root())["root"], {"m": EVERYBODY})["m"], dict.fromkeys(MEMBERS, 1.0), 1)


@pytest.mark.long
@pytest.mark.parametrize("keys", ["session", "run"])
def test_a_key_with_a_wrong_tag_costs_its_maker_one_round_of_scores(keys):
    """Its own sketch was the only one that came, it opened that alone, and so proved its key of the run."""
    view = open_view(Encrypted(keys=keys), untagged)
    assert not view.gram(view.train(0, root())["root"]).clients
    for round in (1, 2):
        assert view.gram(view.train(round, root())["root"]).clients == MEMBERS


@pytest.mark.long
def test_who_is_alone_with_its_key_for_a_round_does_not_prove_it():
    silent = [2, 3, 4, 5]
    view = open_view(Encrypted(keys="run"), lambda frame: losing("RoundedScores", silent)(frame))
    alone = view.train(0, root((1,)))["root"]
    assert view.gram(alone).clients == (1,)
    with pytest.raises(Silent, match="no client opened"):
        view.gram(view.train(1, root())["root"])
    silent.clear()
    assert not sides.part(view, Holders).keys
    assert view.gram(view.train(2, root())["root"]).clients == MEMBERS


@pytest.mark.long
@pytest.mark.parametrize("restored", [False, True])
def test_what_was_kept_under_a_key_that_is_given_up_is_left_out_and_ends_nobody(restored):
    """Algorithms that have handles on it were refused, which ends a run, and so did a view that went on from its snapshot."""
    silent = [*MEMBERS]
    view = open_view(Encrypted(keys="run"), lambda frame: losing("RoundedScores", silent)(frame))
    lost = view.keep(view.train(0, root())["root"], (1, 2, 3))
    with pytest.raises(Silent, match="no client opened"):
        view.recall(0, [lost])
    silent.clear()
    if restored:
        snapshot = view.harness.save()
        view = open_view(Encrypted(keys="run"))
        view.harness.restore(snapshot, [lost])
    assert not view.recall(1, [lost]).clients
    second = view.train(1, root())["root"]
    assert np.isnan(view.cosines(second, lost)).all()
    later = view.keep(second, (4, 5))
    view.harness.retire([], [lost, later])
    assert view.recall(2, [lost, later]).clients == (4, 5)
    with pytest.raises(Refused, match="are gone"):
        view.recall(3, [replace(later, clients=(1, 4))])


@pytest.mark.long
def test_whoever_sends_no_sketch_is_left_out_of_what_is_kept():
    view = open_view(Encrypted(keys="run"), losing("EncryptedInput", (4,)))
    assert view.keep(view.train(0, root())["root"], MEMBERS).clients == (1, 2, 3, 5)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "who"), [("OfferedKey", 1), ("RoundedScores", 2)])
def test_nobody_is_blamed_as_another_is_late(kind, who):
    view = open_view(tap=lambda frame: [replace(frame, late=True)] if frame.kind == kind and frame.sender == who else [frame])
    updates = view.train(0, root())["root"]
    assert view.gram(updates).clients == MEMBERS
    assert isinstance(view.sums(updates, {"m": EVERYBODY})["m"], Sum)
    assert not view.record.faults


@pytest.mark.long
def test_a_key_of_which_a_snapshot_says_nothing_is_not_given_up():
    view, silent = open_view(Encrypted(keys="run")), []
    kept = view.remember(view.train(0, root())["root"], (2, 3))
    snapshot = view.harness.save()
    del snapshot.remembered[PROVEN]
    again = open_view(Encrypted(keys="run"), tap=lambda f: [] if f.kind == "RoundedScores" and silent else [f])
    again.harness.restore(snapshot, [kept])
    silent.append(True)
    with pytest.raises(Silent):
        again.gram(again.train(1, root())["root"])
    silent.clear()
    assert np.isfinite(again.cosines(again.train(2, root())["root"], kept)).all()


@pytest.mark.parametrize("keys", ["session", "run"])
def test_keys_for_products_of_another_public_key_are_refused(keys):
    """Every inner product was noise, nobody was at fault, and the key counted as one of use."""
    other = another_key(PRODUCTS).public_bytes()
    lie = changing("OfferedKey", lambda m, frame: replace(m, evaluating=other) if frame.sender == 1 and m.evaluating else m)
    view = open_view(Encrypted(keys=keys), lie)
    assert view.gram(view.train(0, root())["root"]).clients == MEMBERS
    assert {f.reason for f in view.record.faults if f.blame == 1} == {"keys for products that belong to another public key"}


@pytest.mark.long
def test_a_coordinator_that_plays_its_journal_again_asks_for_scores_in_the_same_words():
    """A test vector under fresh randomness was another one in every life, and what it did was not what it had done."""
    sent, asked = {}, []

    def tap(frame):
        if frame.kind == "ScoreRequest":
            asked.append(frame.data)
        if frame.kind in ("OfferedKey", "EncryptedInput"):
            return [replace(frame, data=sent.setdefault((frame.kind, frame.sender), frame.data))]
        return [frame]

    for _ in range(2):
        view = open_view(Encrypted(keys="run"), tap)
        view.gram(view.train(0, root())["root"])
    assert len(asked) == 2
    assert asked[0] == asked[1]


@pytest.mark.long
@pytest.mark.parametrize("keys", ["session", "run"])
def test_keys_by_which_the_sketches_of_their_makers_friends_alone_multiply_are_found(keys):
    """A sketch can be encrypted so that its square needs no key for products: one such, and all others could be noise."""
    wrong = changing("ScoreRequest", lambda m, frame: replace(m, products=(*m.products[:-1], m.products[0])))
    view = open_view(Encrypted(keys=keys), wrong)
    with pytest.raises(Silent, match="no client opened the inner products of root@0/update; asked were clients 2, 3, 4, 5"):
        view.gram(view.train(0, root())["root"])
    said = "a key that cannot be used: its keys for products do not multiply"
    assert {f.reason for f in view.record.faults if f.blame == 1} == {said}
    assert sides.part(view, Holders).in_turn(MEMBERS) == (2, 3, 4, 5, 1)


def test_a_test_vector_multiplied_by_keys_that_serve_is_told_from_noise():
    assert is_test_product(MIDDLE**2)
    assert is_test_product(MIDDLE**2 * (1 + 3e-7) + 1e-4), "the error of a product that is stated"
    assert not any(map(is_test_product, (0.0, -(MIDDLE**2), MIDDLE**2 * 1.001, float("nan"), float("inf"))))


@pytest.mark.long
def test_who_sketches_nothing_is_compared_with_nothing_and_ends_no_run():
    """Of newcomers, and in a split by gradients, it was asked about for all that."""
    view = open_view(Encrypted(keys="run"), losing("EncryptedInput", (3,)))
    updates = view.train(0, root())["root"]
    edge, kept = view.edge(updates, MEMBERS), view.remember(updates, (3, 4))
    assert (edge.clients, kept.clients) == ((1, 2, 4, 5), (4,))
    later = view.train(1, root((2, 3, 4)))["root"]
    for handle in (edge, kept):
        found = view.cosines(later, handle)
        assert np.isnan(found[1]).all()
        assert np.isfinite(found[[0, 2]]).all()
    alone = view.train(2, {"one": root((3,))["root"]})["one"]
    assert np.isnan(view.cosines(alone, edge)).all()
    assert not view.record.faults


@pytest.mark.long
def test_a_newcomer_that_opens_nothing_is_placed_by_others_who_hold_the_key():
    """It alone was asked about its cosines, and no round of anybody came to anything."""
    silent = []
    view = open_view(Encrypted(keys="run"), lambda f: [] if f.kind == "RoundedScores" and f.sender in silent else [f])
    edge = view.edge(view.train(0, root((1, 2, 3)))["root"], (1, 2, 3))
    silent += [2, 5]
    assert np.isfinite(view.cosines(view.train(1, root((5,)))["root"], edge)).all()
    assert sides.part(view, Holders)._late == [2], "who was asked and said nothing is asked last"
    again = open_view(Encrypted(keys="run"))
    again.harness.restore(view.harness.save(), [edge])
    assert sides.part(again, Holders).in_turn(MEMBERS) == (1, 3, 4, 5, 2)
    again.harness.retire([], [])
    assert sides.part(again, Holders).in_turn(MEMBERS) == MEMBERS, "one lost answer is not for good"
    assert view.gram(view.train(2, root())["root"]).clients == MEMBERS


@pytest.mark.long
@pytest.mark.parametrize("weight", [0.0, 7.0, -2.0])
@pytest.mark.parametrize("members", [(1, 2), MEMBERS])
def test_a_total_weight_that_the_server_knows_is_nobodys_to_lie_about(members, weight):
    """A weight of 0 ended the coordinator, again from its journal; of two, the honest one was blamed for the other's."""
    lie = changing("SumOpened", lambda m, frame: SumOpened(struct.pack(">d", weight)) if frame.sender == 1 else m)
    view = open_view(Encrypted(floor=2), lie)
    everyone = dict.fromkeys(members, 1.0)
    answer = view.sums(view.train(0, root(members))["root"], {"m": Weights(everyone)})["m"]
    assert (1, "a total weight that these clients do not have") in {(fault.blame, fault.reason) for fault in view.record.faults}
    assert {fault.blame for fault in view.record.faults} - {SERVER} == {1}
    if len(members) == 2:  # as many have to open it as a sum has clients
        assert isinstance(answer, BelowFloor)
    else:
        check(view, answer, everyone)
    alone = open_view(Encrypted(floor=2), lambda frame: lie(frame) if frame.kind != "SumOpened" or frame.sender == 1 else [])
    assert isinstance(alone.sums(alone.train(0, root(members))["root"], {"m": Weights(everyone)})["m"], BelowFloor)


@pytest.mark.long
def test_who_was_asked_for_a_key_and_said_nothing_is_not_asked_first_again():
    """Where the eight lowest were away, no key was ever made."""
    view = open_view(Encrypted(keys="run"), losing("OfferedKey", (1, 2, 3)))
    assert view.gram(view.train(0, root())["root"]).clients == MEMBERS
    holders = sides.part(view, Holders)
    assert holders.in_turn(MEMBERS) == (4, 5, 1, 2, 3)
    for _ in range(3):
        view.harness.retire([], [])
    assert holders.in_turn(MEMBERS) == MEMBERS, "one lost answer is not for good: who is prompt would open everything"
    nobody = open_view(Encrypted(keys="run"), losing("OfferedKey", MEMBERS))
    with pytest.raises(Silent, match="no client made the key"):
        nobody.gram(nobody.train(0, root())["root"])
    assert sides.part(nobody, Holders)._late == list(MEMBERS)


@pytest.mark.long
def test_sketches_of_the_round_go_with_their_key_too():
    """They were multiplied under the next one: numbers that mean nothing, and no fault."""
    lost = []
    view = open_view(Encrypted(keys="run"), lambda frame: losing("EncryptedInput", lost)(frame))
    of = {name: Assignment(Model("init"), members, members) for name, members in (("a", (1, 2)), ("b", (3, 4, 5)))}
    updates = view.train(0, of)
    kept = view.keep(updates["a"], (1, 2))
    lost += [3, 4, 5]
    assert not view.gram(updates["b"]).clients
    assert not view.gram(updates["a"]).clients
    assert view.keep(updates["a"], (1, 2)).name != kept.name


def test_a_tie_is_nobodys_fault():
    assert most_said({1: (3.0,), 2: (2.0,)}) == ((3.0,), ())
    assert most_said({1: (3.0,), 2: (2.0,), 4: (2.0,)}) == ((2.0,), (1,))
