"""A client signs for no sum that, with those it signed for before, shows what too few clients sent: whoever the server is."""

import hashlib
from dataclasses import replace

import pytest

from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.roles import Persist, Received, Send
from cloister.protocol.masked.client import Advertised, Idle, client_step
from cloister.protocol.masked.given import GivenUpdates
from cloister.protocol.masked.joined import rounds_held, update_of
from cloister.protocol.masked.server import NoSum, Unmasked, propose
from cloister.protocol.masked.sum import Plan, SumPolicy, masked_sum
from cloister.protocol.masked.terms import NO_UPDATE, encode_weights
from cloister.protocol.masked.transcript import Transcript

from .masked_sum_session import RUN, UNHELD, Play, losing, terms

ALL = (1, 3, 5, 7, 9, 11)
HELD = bytes(range(32, 64))
OTHER = bytes(31) + b"\x01"
FLOOR = 3
REASONS = ("a sum that shows", "a sum of some", "a sum among other", "another survivor set", "weights for fewer")


class Sums:
    """Several sums of the same six clients, whose floor is three. Each sum has a name of its own, so all fit one round."""

    def __init__(self, n=6):
        self.play = Play(n, policy=SumPolicy(min_survivors=FLOOR, unheld=UNHELD))
        self.parties = self.play.parties
        self.count = 0
        self.hold({HELD: 0})

    def hold(self, updates, unheld=UNHELD):
        """Clients hold the updates of these work sessions, and give other inputs to sums of these kinds."""
        for party in self.parties.values():
            policy = replace(party.state.policy, unheld=unheld)
            party.state = replace(party.state, updates=updates, policy=policy)

    def plan(self, roster=ALL, weights=None, round=0, **changes):
        self.count += 1
        session = Session(f"masked sum/update/{self.count}", RUN, round, "root", roster, FLOOR)
        encoded = b"" if weights is None else encode_weights(roster, weights)
        what = terms(len(roster), **{"update": HELD, "weights": encoded} | changes)
        return Plan.of(session, what, self.play.charter)

    def sum(self, roster=ALL, weights=None, lost=(), **changes):
        """Whether the sum comes to be; if not, because of the span and by the server's fault."""
        plan = self.plan(roster, weights, **changes)
        parties = {i: self.parties[i] for i in roster}
        end, network = masked_sum(plan, parties, self.play.vectors.__getitem__, losing(dict.fromkeys(lost, 3)))
        if isinstance(end, Unmasked):
            assert not network.faults
            return True
        assert isinstance(end, NoSum)
        assert {f.blame for f in network.faults} == {SERVER}
        assert all(f.reason.startswith(REASONS) for f in network.faults)
        return False


def weights(*values):
    return dict(zip(ALL, values, strict=True))


# --- what a cheating server tries -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "attack",
    [
        weights(1, 0, 0, 0, 0, 0),
        weights(0, 1, 1, 0, 0, 0),
        weights(0, 0, 0, 0, 0, 0),
        weights(1, -0.0, 0, 0, 0, 5e-324),
    ],
)
def test_weights_that_leave_too_few_clients_in_a_sum_are_refused(attack):
    assert not Sums().sum(weights=attack)


def test_weights_and_dropouts_together_leave_too_few():
    """Four clients have a weight; with two of them lost, the survivor set of four is a sum of two."""
    assert not Sums().sum(weights=weights(1, 1, 1, 1, 0, 0), lost=(1, 3))
    assert Sums().sum(weights=weights(1, 1, 1, 1, 0, 0), lost=(3, 11))


@pytest.mark.parametrize(
    ("second", "lost"),
    [
        ({"roster": ALL[:5]}, ()),
        ({"roster": ALL[1:]}, ()),
        ({}, (5,)),
        ({"weights": weights(1, 1, 1, 1, 1, 0)}, ()),
        ({"weights": weights(1, 1, 1, 1, 1, 1.25)}, ()),
        ({"weights": weights(8, 8, 8, 8, 10, 6)}, ()),
        ({"weights": weights(1, 1, 1, 1, 1, 1 + 2**-52)}, ()),
    ],
)
def test_two_sums_whose_difference_shows_one_or_two_clients_are_refused(second, lost):
    sums = Sums()
    assert sums.sum()
    assert not sums.sum(lost=lost, **second)
    assert Sums().sum(lost=lost, **second)  # each of them alone is fine


def test_three_sums_that_only_together_show_one_client_are_refused():
    sums = Sums()
    assert sums.sum(weights=weights(1, 1, 1, 1, 1, 1))
    assert sums.sum(weights=weights(1, 1, 1, -1, -1, -1))
    assert Sums().sum(weights=weights(9, 9, 9, 7, 7, 8))
    assert not sums.sum(weights=weights(9, 9, 9, 7, 7, 8))  # eight of the first, one of the second, and two of the last client


@pytest.mark.parametrize("how", ["clusters", "survivor sets"])
def test_sums_that_no_client_sees_all_of_are_refused(how):
    """P + Q, Q - R and P + R + one: four clients each, harmless two by two. Together they show the one."""
    sums = Sums(13)
    p, q, r, one = (sums.play.roster[at : at + 4] for at in (0, 4, 8, 12))
    parts = [(p + q, {}), (q + r, dict.fromkeys(r, -1.0)), (p + r + one, {})]
    done = []
    for part, signs in parts:
        roster = part if how == "clusters" else sums.play.roster
        plan = sums.plan(roster, {i: signs.get(i, 1.0) for i in roster})
        tap = losing({i: 3 for i in roster if i not in part})
        end, _ = masked_sum(plan, {i: sums.parties[i] for i in roster}, sums.play.vectors.__getitem__, tap)
        done.append(end.clients if isinstance(end, Unmasked) else None)
    assert done == [p + q, None, None]


def test_a_name_another_cluster_or_a_failed_session_do_not_make_a_client_forget():
    sums = Sums()
    plan = sums.plan()
    tap = losing(dict.fromkeys(ALL, 5))  # all signed, and the server says that it got no shares
    end, _ = masked_sum(plan, sums.parties, sums.play.vectors.__getitem__, tap)
    assert isinstance(end, NoSum)
    assert not sums.sum(ALL[:5])
    assert sums.sum()


def test_a_sum_with_sample_counts_and_one_without_do_not_overlap():
    """Where all counts happen to be equal, their difference would be a single client's update."""
    first, last = weights(1, 1, 1, 0, 0, 0), weights(0, 0, 0, 1, 1, 1)
    sums = Sums()
    assert sums.sum(weights=first)
    assert not sums.sum(weights=first, times_samples=1)
    assert not sums.sum(times_samples=1)
    assert sums.sum(weights=last, times_samples=1)
    assert not sums.sum(weights=last)
    assert sums.sum(weights=first)


# --- what an honest server asks for -----------------------------------------------------------------------------------------


def test_disjoint_clusters_and_safe_overlaps_pass():
    sums = Sums()
    assert sums.sum(ALL[:3])
    assert sums.sum(ALL[3:])
    assert sums.sum(ALL[:3])  # again: nothing new
    sums = Sums()
    assert sums.sum()
    assert sums.sum(weights=weights(1, 1, 1, 2, 2, 2))  # any combination still depends on three, alike
    assert not sums.sum(weights=weights(1, 2, 3, 4, 5, 6))  # on five, of whom one has more than a third
    assert sums.sum(weights=weights(0.5, 0.5, 0.5, 0.5, 0.5, 0.5))
    sums = Sums()
    assert sums.sum(lost=(11,))
    assert sums.sum(weights=weights(2, 2, 2, 2, 2, 2), lost=(11,))  # the same survivors
    sums = Sums()
    assert sums.sum()
    assert sums.sum(weights=weights(1, 1, 1, 0, 0, 0))  # a cluster of all: among the same peers, with weights of zero
    assert sums.sum(weights=weights(0, 0, 0, 1, 1, 1))
    sums = Sums()
    assert sums.sum(times_samples=1)
    assert not sums.sum(weights=weights(1, 1, 1, 2, 2, 2), times_samples=1)  # one sum with counts
    assert not sums.sum(ALL[:5], times_samples=1)


LIES = {
    "no update": ({"update": NO_UPDATE}, "a sum of no update"),
    "an update of its own": ({"update": bytes(range(64, 96))}, "does not hold"),
    "a purpose that this sum has not": ({"update": update_of(HELD, b"sums")}, "does not hold"),
    "a later round": ({"round": 1}, "of another round"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_second_ticket_for_one_update_is_not_given_whatever_the_server_calls_it(lie):
    """Each of these opened a sum of all and one of all but client 11: their difference is its update."""
    changes, reason = LIES[lie]
    sums = Sums()
    sums.hold({HELD: 0}, frozenset({"opened"}))
    assert sums.sum()
    plan = sums.plan(ALL[:5], **changes)
    end, network = masked_sum(plan, {i: sums.parties[i] for i in ALL[:5]}, sums.play.vectors.__getitem__)
    assert isinstance(end, NoSum)
    assert end.have == 0
    assert [(f.blame, reason in f.reason) for f in network.faults] == [(SERVER, True)] * 5


def test_an_update_of_an_earlier_round_is_no_update_of_this_one():
    sums = Sums()
    sums.hold({HELD: 3, OTHER: 4})
    for update, round, joins in ((HELD, 4, False), (OTHER, 3, False), (HELD, 3, True), (OTHER, 4, True)):
        proposal = Received(propose(sums.plan(round=round, update=update))[0].envelope)
        if joins:
            assert isinstance(client_step(sums.parties[1].state, proposal)[0], Advertised)
        else:
            with pytest.raises(ProtocolError, match="of another round") as failure:
                client_step(sums.parties[1].state, proposal)
            assert failure.value.blame == SERVER


def test_what_is_made_of_an_update_for_a_sum_has_a_name_that_follows_from_the_sums():
    assert rounds_held("masked sum/update/7", {HELD: 3}) == {HELD: 3}
    assert rounds_held("masked sum/by 00 11", {HELD: 3}) == {HELD: 3}
    assert rounds_held("masked sum/gaussian 00", {HELD: 3}) == {HELD: 3}
    for name, purpose in (("weights/update/12", b"weights"), ("slot counts", b"counts"), ("slots f 00", b"sums")):
        assert rounds_held(f"masked sum/{name}", {HELD: 3}) == {hashlib.sha256(HELD + purpose).digest(): 3}


def test_sums_of_different_updates_are_apart():
    sums = Sums()
    sums.hold({HELD: 0, OTHER: 0})
    assert sums.sum()
    assert sums.sum(ALL[:5], update=OTHER)


def test_inputs_that_are_no_held_updates_belong_to_their_session_alone():
    sums = Sums()
    assert sums.sum(update=NO_UPDATE)
    assert sums.sum(ALL[:5], update=NO_UPDATE)
    assert not sums.sum(weights=weights(1, 1, 0, 0, 0, 0), update=NO_UPDATE)
    assert not sums.parties[1].state.given.updates


# --- memory -----------------------------------------------------------------------------------------------------------------


def test_a_sum_is_stored_before_its_input_and_its_survivors_before_the_signature_and_both_hold_after_a_restart():
    sums = Sums()
    seen = []
    party = sums.parties[1]
    step = party.handle
    party.handle = lambda event: seen.append(step(event)) or seen[-1]
    assert sums.sum()
    stored = []
    for effects in seen:
        if any(isinstance(effect, Persist) and effect.key == "masked sum transcript" for effect in effects):
            assert [type(effect) for effect in effects] == [Persist, Send]
            stored.append((type(effects[1].envelope.message).__name__, Transcript.decode(sums.play.charter, 1, effects[0].value)))
    assert [kind for kind, _ in stored] == ["MaskedInput", "SurvivorSignature"]
    assert stored[1][1] == party.state.transcript != stored[0][1]
    fresh = Sums().parties[1].state
    assert fresh.given == GivenUpdates()
    for _, kept in stored:
        for i in ALL:
            sums.parties[i].state = replace(
                fresh, transcript=replace(kept, me=i), identity=sums.play.members.identities[i], updates={HELD: 0}
            )
        assert not sums.sum(ALL[:5])
    assert not sums.sum(lost=(11,))


def test_an_input_that_was_sent_counts_though_nobody_asked_for_a_signature():
    """It may have been summed with the help of others."""
    sums = Sums()
    plan = sums.plan()
    tap = losing(dict.fromkeys(ALL[1:], 4))  # client 1 has sent an input and signs for a sum that fails
    masked_sum(plan, sums.parties, sums.play.vectors.__getitem__, lambda f: [] if f.kind == "Survivors" else tap(f))
    assert not sums.parties[1].state.given.updates[HELD].alive
    assert not sums.sum(ALL[:5])
    assert not sums.sum(weights=weights(1, 1, 1, 1, 1, 2))
    assert sums.sum(lost=(11,))


def test_a_later_round_forgets_and_an_earlier_one_is_over():
    sums = Sums()
    sums.hold({HELD: 4, OTHER: 5, **{bytes([round]) * 32: round for round in range(6, 20)}})
    assert sums.sum(round=4)
    assert list(sums.parties[1].state.given.updates) == [HELD]
    assert sums.sum(round=5, update=OTHER)
    assert list(sums.parties[1].state.given.updates) == [OTHER]
    for round in range(6, 20):
        assert sums.sum(round=round, update=bytes([round]) * 32)
    assert len(sums.parties[1].state.given.encode()) < 200
    before = sums.parties[1].state
    assert sums.parties[1].handle(Received(propose(sums.plan(round=5))[0].envelope)) == ()
    assert sums.parties[1].state == before
    assert isinstance(sums.parties[1].state, Idle)


def test_forgetting_is_no_earlier_than_joining():
    sums = Sums()
    assert sums.sum(round=0)
    before = sums.parties[1].state
    joined, _ = client_step(before, Received(propose(sums.plan(round=0))[0].envelope))
    assert isinstance(joined, Advertised)
    assert joined.idle.given == before.given
    with pytest.raises(ProtocolError, match="another model"):
        client_step(before, Received(propose(sums.plan(round=1, model=bytes(32)))[0].envelope))
    assert before.given.updates


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\x81\x00\x00", b"\x82\x00\x85\x40\x00\x40\x44\x00\x00\x00\x01\x41\x00", b"\x82\x00\x81\x00"]
)
def test_stored_sums_that_are_not_what_was_stored_are_refused(data):
    with pytest.raises(ValueError, match="must not take part"):
        GivenUpdates.decode(data)


# --- terms ------------------------------------------------------------------------------------------------------------------


def test_what_is_summed_is_in_every_binding():
    play = Play(3)
    one = b"\x01" * 32
    variants = [
        {},
        {"update": one},
        {"weights": encode_weights(play.roster, dict.fromkeys(play.roster, 1.0))},
        {"times_samples": 1},
    ]
    plans = [Plan.of(play.session, replace(play.terms, **changes), play.charter) for changes in variants]
    assert len({plan.binding for plan in plans}) == len({plan.terms.digest for plan in plans}) == 4
    for plan in plans:
        assert Plan.proposed(plan.proposal, play.charter).terms == plan.terms


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"weights": bytes(16)}, "16 bytes of weights"),
        ({"weights": encode_weights((1, 3, 5), {1: float("nan"), 3: 1.0, 5: 1.0})}, "not finite"),
        ({"weights": encode_weights((1, 3, 5), {1: float("inf"), 3: 1.0, 5: 1.0})}, "not finite"),
        ({"update": bytes(31)}, "named by 32 bytes"),
        ({"times_samples": 2}, "0 or 1"),
    ],
)
def test_terms_that_cannot_be(changes, reason):
    play = Play(3)
    with pytest.raises(ValueError, match=reason):
        Plan.of(play.session, replace(play.terms, **changes), play.charter)


def test_a_row_is_the_weights_of_the_survivors():
    play = Play(3)
    assert play.plan.row((1, 5)) == {1: 1.0, 5: 1.0}
    weighted = Plan.of(play.session, replace(play.terms, weights=encode_weights(play.roster, {3: 0.1, 5: -2.0})), play.charter)
    assert weighted.row((1, 3)) == {1: 0.0, 3: 0.1}
