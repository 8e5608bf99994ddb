"""Choosing: clients name the offered model that serves them best, once a round, and may lie about it."""

from dataclasses import replace

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.crypto.orthonormal import HadamardRotation
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.choosing.client import ChoosingPolicy, IdleChooser, OwingChoice, client_step
from cloister.protocol.choosing.messages import MAX_OFFERED, Choice, Offer
from cloister.protocol.choosing.server import ChoicesCollected, CollectingChoices, offer, server_step
from cloister.protocol.core.errors import ProtocolError, Refused
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.roles import Deadline, Judge, Judged, Party, Persist, Received, Send
from cloister.protocol.messages import decode
from cloister.protocol.view.answers import Assignment, Model, Sum, Weights
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork
from cloister.protocol.wire.codec import Envelope, encode
from cloister.reporting.headline import privacy_in_words
from cloister.reporting.run_data import Run

RUN = bytes(range(16))
S = Session("choosing", RUN, 3, "choice", (1, 5, 9), 1)
D = 2
MODELS = (np.array([1, 2], "<f4").tobytes(), np.array([3, 4], "<f4").tobytes())
OFFER = Offer("choosing", RUN, 3, "choice", (1, 5, 9), 1, ("a", "b"), MODELS)
PROTECTIONS = [
    Plain(),
    Permuted(),
    Permuted(HadamardRotation),
    Permuted(keys="session"),
    Masked(),
    Masked(keys="session"),
    Encrypted(),
    TwoServer(),
]


def idle(me=5, **changes):
    return replace(IdleChooser(me, RUN, ChoosingPolicy(), D, None), **changes)


def received(message, sender=SERVER, receiver=5, session=S):
    return Received(Envelope(session.digest, sender, receiver, message))


def refused(step, state, event, match):
    with pytest.raises(ProtocolError, match=match) as failure:
        step(state, event)
    return failure.value.blame


# --- the client -------------------------------------------------------------------------------------------------------


def test_a_client_stores_the_round_before_it_judges_and_sends_one_choice():
    state, effects = client_step(idle(), received(OFFER))
    assert effects == (Persist("next round choice", (4).to_bytes(4, "big")), Judge(OFFER))
    assert isinstance(state, OwingChoice)
    state, effects = client_step(state, Judged(1))
    assert effects == (Send(Envelope(S.digest, 5, SERVER, Choice(1))),)
    assert state == idle(next_round=4)


def test_a_client_chooses_once_a_round():
    party = Party(5, idle(), client_step)
    party.handle(received(OFFER))
    party.handle(Judged(0))
    assert refused(client_step, party.state, received(OFFER), "already answered") == SERVER
    later = Session("choosing", RUN, 4, "choice", (1, 5, 9), 1)
    assert party.handle(received(replace(OFFER, round=4), session=later))


def changed(**changes):
    message = replace(OFFER, **changes)
    return received(message, session=message.session)


@pytest.mark.parametrize(
    ("event", "match"),
    [
        (received(OFFER, sender=9), "not the server's"),
        (received(OFFER, session=replace(S, round=4)), "another session's digest"),
        (changed(run=bytes(16)), "another run"),
        (changed(protocol="uploads/update"), "another protocol"),
        (changed(roster=(1, 9)), "for others"),
        (received(replace(OFFER, threshold=4)), "without a valid session"),
        (changed(vectors=()), "without its models"),
        (changed(vectors=(MODELS[0], MODELS[1] + bytes(4))), "another length"),
        (received(Choice(0)), "Choice is out of place at IdleChooser"),
    ],
)
def test_an_offer_against_the_policy_is_refused_and_changes_nothing(event, match):
    state = idle()
    assert refused(client_step, state, event, match) == event.envelope.sender
    assert state == idle()


def test_more_models_than_the_policy_allows_are_refused():
    strict = idle(policy=ChoosingPolicy(max_models=1))
    refused(client_step, strict, received(OFFER), "more than the policy's 1")
    client_step(strict, changed(names=("a",), vectors=MODELS[:1]))


def test_where_clients_own_the_models_names_come_alone_and_must_be_known():
    owner = idle(holds={"a", "b"}.__contains__)
    refused(client_step, owner, received(OFFER), "where clients own them")
    state, _ = client_step(owner, changed(vectors=()))
    assert isinstance(state, OwingChoice)
    refused(client_step, owner, changed(names=("a", "stranger"), vectors=()), "not held here")


def test_a_judgement_outside_of_the_offer_is_our_mistake():
    state, _ = client_step(idle(), received(OFFER))
    for index in (-1, 2):
        with pytest.raises(ValueError, match="among 2"):
            client_step(state, Judged(index))


def test_the_deadline_frees_a_client_and_the_round_is_spent():
    state, _ = client_step(idle(), received(OFFER))
    assert client_step(state, Deadline()) == (idle(next_round=4), ())
    assert client_step(idle(), Deadline()) == (idle(), ())
    with pytest.raises(ValueError, match="out of place"):
        client_step(idle(), Judged(0))


# --- the server -------------------------------------------------------------------------------------------------------


def test_the_server_offers_to_everybody_and_takes_one_choice_each():
    sent = [effect.envelope for effect in offer(S, ("a", "b"), MODELS)]
    assert [(e.receiver, e.message) for e in sent] == [(1, OFFER), (5, OFFER), (9, OFFER)]
    party = Party(SERVER, CollectingChoices(S, 2), server_step)
    party.handle(received(Choice(1), 9, SERVER))
    party.handle(received(Choice(0), 1, SERVER))
    party.handle(Deadline())
    assert party.state == ChoicesCollected(S, {1: 0, 9: 1})
    assert list(party.state.chosen) == [1, 9]


@pytest.mark.parametrize(
    ("state", "sender", "message", "match"),
    [
        (CollectingChoices(S, 2), 4, Choice(0), "outside the roster"),
        (CollectingChoices(S, 2, {5: 1}), 5, Choice(0), "second"),
        (CollectingChoices(S, 2), 5, Choice(2), "model 2 among 2"),
        (ChoicesCollected(S, {}), 5, Choice(0), "after the deadline"),
        (CollectingChoices(S, 2), 5, OFFER, "Offer is out of place at CollectingChoices"),
    ],
)
def test_a_choice_out_of_order_is_refused_and_its_sender_blamed(state, sender, message, match):
    assert refused(server_step, state, received(message, sender, SERVER), match) == sender


# --- the messages -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"names": ()},
        {"names": ("a",)},
        {"names": ("a", "")},
        {"vectors": MODELS[:1]},
        {"vectors": (MODELS[0], b"")},
        {"vectors": (MODELS[0], b"abc")},
        {"names": ("a",) * (MAX_OFFERED + 1), "vectors": ()},
        {"roster": ()},
    ],
)
def test_an_offer_that_does_not_fit_itself_is_not_built(changes):
    with pytest.raises(ValueError):
        replace(OFFER, **changes)


def test_an_offer_over_the_size_limit_is_not_read():
    data = encode(Envelope(S.digest, SERVER, 5, OFFER))
    assert decode(data, SERVER, len(data)).message == OFFER
    with pytest.raises(ProtocolError, match="over the limit"):
        decode(data, SERVER, len(data) - 1)


def test_models_do_not_print():
    assert "vectors" not in repr(OFFER)


# --- the view ---------------------------------------------------------------------------------------------------------

TARGETS = {1: [0.0, 0.0], 5: [0.0, 0.0], 9: [4.0, 4.0], 11: [4.0, 4.0], 12: [4.0, 4.0]}


def nearest(offer):
    """The honest judgement of toy clients, each of which wants its own target."""
    return int(np.argmin([np.linalg.norm(model - TARGETS[offer.client]) for model in offer.models]))


def work(jobs):
    return ((job.client, LocalWork(np.array([1.0, 1.0], np.float32), 1)) for job in jobs)


def opened(protection, judge=nearest, tap=None, clients=tuple(TARGETS)):
    return protection.open(Setup(RUN, np.zeros(2, np.float32), clients, work, SimulatedEntropy(0), tap, judge))


def two_models(view, round=0):
    """The initial model, which is at the first target, and one moved by the mean to (1, 1)."""
    everybody = tuple(TARGETS)
    updates = view.train(round, {"0": Assignment(Model("init"), everybody, everybody)})["0"]
    mean = view.sums(updates, {"0": Weights(dict.fromkeys(everybody, 0.5))})["0"]
    assert isinstance(mean, Sum)
    return {"still": Model("init"), "moved": view.advance(Model("init"), mean)}


@pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
def test_every_protection_answers_choices(protection):
    assert Functionality.CHOICE in protection.gives
    view = opened(protection)
    chosen = view.choose(0, two_models(view), (1, 5, 9, 11))
    assert chosen == {1: "still", 5: "still", 9: "moved", 11: "moved"}
    assert view.record.faults == []


@pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
def test_what_is_disclosed_is_one_name_of_each_client_and_the_models_to_the_clients(protection):
    view = opened(protection)
    models = two_models(view)
    known = len(view.record.log)
    view.choose(0, models, (9, 1))
    to_clients, to_server = view.record.log[known:]
    assert (to_clients.recipient, to_clients.what, to_clients.about, to_clients.scalars) == ("clients", "choice", (1, 9), 4)
    assert (to_server.recipient, to_server.what, to_server.about, to_server.scalars) == ("server", "choice", (1, 9), 2)
    assert "name of the model" in to_server.words


def test_models_travel_only_where_the_server_owns_them():
    sizes = {}
    for protection in (Plain(), Permuted()):
        frames = []
        view = opened(protection, tap=lambda frame, frames=frames: frames.append(frame) or [frame])
        view.choose(0, two_models(view), (1, 9))
        offers = [decode(f.data, SERVER, 1 << 20).message for f in frames if f.kind == "Offer"]
        assert len(offers) == 2
        sizes[view.owner] = {len(v) for o in offers for v in o.vectors}
    assert sizes == {"server": {8}, "clients": set()}


def test_a_forged_choice_is_possible_and_looks_like_any_other():
    """A choice is a report. Client 9 says that the model it likes least serves it best, and nothing objects."""
    honest = opened(Plain())
    forged = opened(Plain(), lambda offer: 1 - nearest(offer) if offer.client == 9 else nearest(offer))
    assert honest.choose(0, two_models(honest), (1, 9)) == {1: "still", 9: "moved"}
    assert forged.choose(0, two_models(forged), (1, 9)) == {1: "still", 9: "still"}
    assert forged.record.faults == []
    assert [entry.as_dict() for entry in honest.record.log] == [entry.as_dict() for entry in forged.record.log]


def test_who_does_not_answer_has_no_choice():
    view = opened(Plain(), tap=lambda frame: [] if frame.kind == "Choice" and frame.sender == 1 else [frame])
    assert view.choose(0, two_models(view), (1, 9)) == {9: "moved"}
    late = opened(Plain(), tap=lambda frame: [replace(frame, late=frame.kind == "Choice" and frame.sender == 1)])
    assert late.choose(0, two_models(late), (1, 9)) == {9: "moved"}
    assert [fault.reason for fault in late.record.faults] == ["a choice after the deadline"]
    assert late.record.log[-2].words == "the models that they were offered"


def test_of_who_does_not_answer_it_is_not_said_that_it_learned_the_models():
    """Before: "the models that they were offered", of a client whose process was dead."""
    view = opened(Plain(), tap=lambda frame: [] if frame.kind == "Offer" else [frame])
    assert view.choose(0, two_models(view), (1, 9)) == {}
    log = [entry.as_dict() for entry in view.record.log if entry.what == "choice"]
    assert [entry["words"].endswith("none was there to be offered any") for entry in log] == [True]
    chose = {"round": 0, "recipient": "server", "what": "choice", "about": [9], "scalars": 1, "words": "the name"}
    privacy = {"client": {"epsilon_worst": 2.0, "acknowledged": ["choice", "sums"]}}
    for told, words in (
        (log, "Beside it sums had no noise"),
        ([chose], "Beside it choice, sums had no noise"),
    ):
        run = Run(
            "r", {"protection": "Masked"}, {}, [], splits=(), similarities=(), pairs=(), answers=told, tree=(), privacy=privacy
        )
        assert words in privacy_in_words(run)


@pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
def test_who_gives_no_choice_is_asked_again_in_the_next_round(protection):
    view = opened(protection, lambda offer: None if (offer.client, offer.round) == (9, 0) else nearest(offer))
    models = two_models(view)
    assert view.choose(0, models, (1, 9)) == {1: "still"}
    assert view.choose(1, models, (1, 9)) == {1: "still", 9: "moved"}
    assert view.record.faults == []


def test_a_second_question_in_a_round_is_answered_by_nobody():
    view = opened(Plain())
    models = two_models(view)
    assert view.choose(0, models, (1,)) == {1: "still"}
    assert view.choose(0, models, (1, 9)) == {9: "moved"}
    assert view.choose(1, models, (1,)) == {1: "still"}


@pytest.mark.parametrize("protection", [Plain(), Permuted(), Masked()], ids=repr)
def test_a_restored_view_remembers_who_has_chosen(protection):
    first = opened(protection)
    models = two_models(first)
    first.choose(0, models, (1,))
    second = opened(protection)
    second.harness.restore(first.harness.save(), [])
    assert second.harness.save().clients[1].since == 1
    assert second.choose(0, models, (1, 9)) == {}  # of a round that they had to do with they are out, whoever chose
    assert second.choose(1, models, (1, 9)) == {1: "still", 9: "moved"}


def test_without_a_judgement_nothing_is_asked():
    view = opened(Plain(), judge=None)
    with pytest.raises(Refused, match="judge"):
        view.choose(0, {"a": Model("init")}, (1,))
    assert view.record.log == []


def test_equal_models_may_have_different_names():
    view = opened(Plain())
    assert view.choose(0, {"one": Model("init"), "other": Model("init")}, (1, 9)) == {1: "one", 9: "one"}
