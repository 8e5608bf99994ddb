"""Bases that clients release in each round: by their own models, under the round's rotation, once, and only if they trained."""

from dataclasses import replace

import numpy as np
import pytest

from cloister.protocol import Masked, Permuted, Plain
from cloister.protocol.core.errors import ProtocolError, Refused
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.roles import Deadline, Received, Send
from cloister.protocol.pairs.choices import ONE_RELEASE, PerClient, PerRound
from cloister.protocol.pairs.client import peer_step
from cloister.protocol.pairs.policy import policy_of
from cloister.protocol.pairs.question import Comparing, PairQuestion
from cloister.protocol.pairs.terms import ONCE, terms_of
from cloister.protocol.view.answers import Assignment, Memory, Model
from cloister.protocol.wire.codec import Envelope
from cloister.protocol.wire.messages import Declined

from . import sides
from .pairs_sample import (
    CLIENTS,
    INITIAL,
    ROWS,
    RUN,
    TAU,
    WEIGHTS,
    D,
    Small,
    all_pairs,
    ask,
    by_distance,
    opened,
    update_of,
)

ROTATED, AS_THEY_ARE = PerRound(), PerRound(projection="none")
OWN = {i: Small().embed(i, "train", (INITIAL + update_of(i))[:WEIGHTS]) for i in CLIENTS}


def released(view, choice=ROTATED, round=0, pairs=None):
    """What the server has of each client in a round in which all trained."""
    seen = {}
    answers = ask(view, choice, pairs, round, by_distance(seen=seen))
    assert {d.reference for d in seen.values()} == {0}, "there is no distance to tell"
    return {d.client: d.source for d in seen.values()}, answers


def terms(round, choice=ROTATED, session="again"):
    """Client 1's, of a session that there was not yet."""
    return terms_of(Session(ONCE, RUN, round, session, (1,), 1), choice, Small(), 0)


def offer(of):
    return Received(Envelope(of.session.digest, SERVER, of.session.roster[0], of.offer))


@pytest.mark.parametrize("protection", [Plain(), Permuted(floor=2), Masked(floor=2, sketch=8)], ids=lambda p: type(p).__name__)
def test_the_server_is_told_the_inner_products_of_one_round_and_no_more(protection):
    view = opened(protection)
    first, second = released(view)[0], released(view, round=1)[0]
    for found in (first, second):
        for i in CLIENTS:
            for j in CLIENTS:
                assert np.allclose(found[i] @ found[j].T, OWN[i] @ OWN[j].T, atol=1e-3)
            assert np.abs(found[i] - OWN[i]).max() > 0.5, "under a rotation"
    across = first[1] @ second[1].T
    assert np.abs(across - OWN[1] @ OWN[1].T).max() > 0.5, "each round has its own"
    assert not view.record.faults


def test_bases_as_they_are_go_to_servers_that_see_updates_alone():
    found, _ = released(opened(Plain()), AS_THEY_ARE)
    assert all(np.allclose(found[i], OWN[i], atol=1e-6) for i in CLIENTS)
    for protection in (Permuted(floor=2), Masked(floor=2, sketch=8)):
        with pytest.raises(Refused, match="choose a projection"):
            released(opened(protection), AS_THEY_ARE)


@pytest.mark.parametrize(("choice", "words"), [(ROTATED, "rotation of all clients in this round"), (AS_THEY_ARE, "as they are")])
def test_every_round_is_on_record(choice, words):
    view = opened(Plain())
    for round in range(2):
        released(view, choice, round)
    told = [entry for entry in view.record.log if entry.what == "pairs"]
    assert [(e.round, e.recipient) for e in told] == [(0, "server"), (0, "server"), (1, "server"), (1, "server")]
    for bases, angles in (told[:2], told[2:]):
        assert words in bases.words
        assert "own model" in bases.words
        assert (bases.about, bases.scalars) == (CLIENTS, len(CLIENTS) * ROWS * D)
        assert angles.words == "the angles between them"


def test_two_questions_of_one_round_are_answered_from_one_release():
    sent = []
    view = opened(Plain(), tap=lambda frame: sent.extend([frame.sender] * (frame.kind == "PairClouds")) or [frame])
    question = PairQuestion(((1, 5), (2, 5)), ROTATED, TAU, by_distance())
    work = {"all": Assignment(Model("init"), CLIENTS, CLIENTS)}
    for round in range(2):
        updates = view.train(round, work)
        for _ in range(2):
            assert len(view.pairs(round, work, updates, question).accepts) == 4
    assert sorted(sent) == [1, 1, 2, 2, 5, 5]


def test_one_that_is_asked_twice_in_a_round_says_the_same():
    """To the byte, and after a restart from what it stored; in the next round something else."""
    view = opened(Plain())

    def said(round):
        comparer = sides.comparers(view)[1]
        comparer.handle(Deadline())
        return comparer.handle(offer(terms(round)))[-1].envelope.message

    first = released(view)[0][1]
    assert np.frombuffer(said(0).own, "<f4").reshape(ROWS, D) == pytest.approx(first)
    persisted = sides.network(view).persisted
    along = {key: entry for (party, key), entry in persisted.items() if party == 1 and key.startswith("pairs ")}
    assert along == sides.comparers(view)[1].save().stored
    again = sides.comparers(opened(Plain()))[1]
    again.restore(Memory(0, along))
    again.asked(Comparing(ROTATED, TAU))
    assert again.handle(offer(terms(0)))[-1].envelope.message.own == first.astype("<f4").tobytes()
    found = released(view, round=1)[0][1]
    assert np.frombuffer(said(1).own, "<f4").reshape(ROWS, D) == pytest.approx(found)
    assert np.abs(found - first).max() > 0.5


def test_a_server_that_wants_more_of_a_round_gets_nothing():
    view = opened(Plain())
    released(view)
    released(view, round=1)
    peer = sides.comparers(view)[1]
    before = peer.state
    for of, reason in [
        (replace(terms(1), reference="projected"), "other terms than those"),
        (terms(0), "other terms than those"),
        (terms(2), "none was trained here"),
        (terms(2, choice=AS_THEY_ARE), "embeddings are asked for as they are"),
        (terms(2, choice=ONE_RELEASE), "clouds are asked for"),
    ]:
        peer.handle(Deadline())
        with pytest.raises(ProtocolError, match=reason) as failure:
            peer.handle(offer(of))
        assert failure.value.blame == SERVER
        assert peer.state == before
    (again,) = peer.handle(offer(terms(1)))
    assert isinstance(again, Send)


def test_one_that_lacks_the_secret_of_all_says_so_and_blames_nobody():
    view = opened(Plain())
    released(view)
    peer = replace(sides.comparers(view)[1].state, group=None, said=None, phases={})
    after, (answer,) = peer_step(peer, offer(terms(0)))
    assert after == peer
    assert answer.envelope.message == Declined("no secret of all, under which one release would be for all")


def test_who_releases_once_in_a_run_releases_no_bases():
    assert policy_of(PerClient(), Small()).refusal(terms(0)) == "bases are asked for, which the policy keeps"
    assert policy_of(ROTATED, Small()).refusal(terms(0)) is None
    assert policy_of(AS_THEY_ARE, Small()).refusal(terms(0, choice=AS_THEY_ARE)) is None


def test_who_was_silent_or_sent_what_is_not_finite_is_asked_again_in_the_next_round():
    lossy = {"on": True}
    tap = lambda frame: [] if lossy["on"] and frame.kind == "PairClouds" and frame.sender == 5 else [frame]  # noqa: E731
    view = opened(Plain(), tap=tap, embedders=Small(broken=(8,)))
    found, answers = released(view)
    assert sorted(found) == [1, 2]
    assert answers.lost == ((1, 8), (2, 8), (5, 8))
    lossy["on"] = False
    assert sorted(released(view, round=1)[0]) == [1, 2, 5]
    assert [fault.blame for fault in view.record.faults] == [8, 8]


def test_nobody_is_asked_who_has_not_trained():
    view = opened(Plain())
    question = PairQuestion(all_pairs(), ROTATED, TAU, by_distance())
    with pytest.raises(Refused, match="client 1 trained no embedding model in round 0"):
        view.pairs(0, {"all": Assignment(Model("init"), CLIENTS, CLIENTS)}, {}, question)


@pytest.mark.parametrize(
    "wrong", [{"embedding": "public"}, {"embedding": "exchanged"}, {"p": D - 1}, {"released": "clouds"}, {"released": "samples"}]
)
def test_terms_that_cannot_be(wrong):
    with pytest.raises(ValueError):
        replace(terms(0), **wrong)


def test_choices_that_cannot_be():
    with pytest.raises(ValueError, match="gaussian rows"):
        PerRound(projection="gaussian rows")
