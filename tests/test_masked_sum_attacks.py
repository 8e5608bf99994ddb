"""What other implementations of secure aggregation get wrong, each as an attack on ours; and clients and servers that cheat."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from cloister.crypto.agreement import AgreementKey
from cloister.crypto.fixed_point import FixedPoint, Nearest
from cloister.crypto.identity import SigningKey
from cloister.crypto.masks import mask
from cloister.crypto.shamir import SHARE_BYTES, MaskKeyShare, SelfSeedShare
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.roles import Deadline, Party, Perform, Received, Send, Worked
from cloister.protocol.masked.client import Idle, Signed, client_step
from cloister.protocol.masked.joined import joined_before
from cloister.protocol.masked.messages import (
    MaskedInput,
    MaskKeys,
    Reveal,
    SealedShares,
    Survivors,
    SurvivorSignature,
    UnmaskRequest,
)
from cloister.protocol.masked.server import Advertising, NoSum, Unmasked, propose, server_step
from cloister.protocol.masked.sum import Plan, SumPolicy
from cloister.protocol.masked.terms import survivors_and_head
from cloister.protocol.messages import decode
from cloister.protocol.wire.codec import Envelope

from .masked_sum_session import RUN, UNHELD, Play, changing, flipped, losing

pytestmark = pytest.mark.sweeps


class Stage:
    """A session played by hand up to a stage, so that a server that cheats can say anything next."""

    def __init__(self, n=5, **changes):
        self.play = Play(n, **changes)
        self.plan = self.play.plan
        self.server = Party(SERVER, Advertising(self.plan), server_step)
        self.clients = self.play.parties
        self.sent = list(propose(self.plan))

    def stage(self, answering=None):
        """Deliver what the server sent, hand it what clients in `answering` (all) send back, end the stage."""
        for effect in self.sent:
            if isinstance(effect, Send):
                client = effect.envelope.receiver
                for answer in self.deliver(effect.envelope):
                    if answering is None or client in answering:
                        self.server.handle(Received(answer))
        self.sent = self.server.handle(Deadline())

    def deliver(self, envelope):
        """Give a client a message; return the messages that it sends."""
        party = self.clients[envelope.receiver]
        effects = party.handle(Received(envelope))
        if any(isinstance(effect, Perform) for effect in effects):
            effects = party.handle(Worked(self.play.vectors[party.id], 0))
        return [effect.envelope for effect in effects if isinstance(effect, Send)]

    def tell(self, client, message):
        return self.deliver(Envelope(self.plan.session.digest, SERVER, client, message))

    def to_masked(self, inputs_from=None):
        """All clients have sent their inputs, and wait for the survivor set."""
        self.stage()
        self.stage()
        self.stage()
        self.stage(inputs_from)
        return self

    def signature(self, client, alive):
        identity = self.play.members.identities[client]
        return identity.sign("masked sum survivors", self.plan.binding, survivors_and_head(alive, bytes(32)))

    def request(self, signers, alive):
        return UnmaskRequest(tuple(signers), tuple(self.signature(i, alive) for i in signers), (bytes(32),) * len(signers))


# --- both share kinds, twice, and split survivor sets -----------------------------------------------------------------------


def test_a_client_never_answers_both_share_kinds():
    """Flower 1.41.0 answers a peer that is in the active and in the dead list. Here one signed set decides, once."""
    stage = Stage(5).to_masked()
    stage.tell(1, Survivors((1, 3, 5, 7, 9)))
    with pytest.raises(ProtocolError, match="out of place"):
        stage.tell(1, Survivors((1, 3, 5, 7)))
    (answer,) = stage.tell(1, stage.request((3, 5, 7), (1, 3, 5, 7, 9)))
    reveal = answer.message
    assert (reveal.alive, reveal.dropped) == ((3, 5, 7, 9), ())
    assert all(SelfSeedShare.decode(share).holder == 1 for share in reveal.seeds)
    assert stage.tell(1, stage.request((3, 5, 7), (1, 3, 5, 7, 9))) == []
    for more in (stage.request((3, 5, 7), (1, 3, 5, 7)), Survivors((1, 3, 5))):
        with pytest.raises(ProtocolError, match=r"out of place"):
            stage.tell(1, more)


def test_shares_of_the_living_and_of_the_dropped_are_of_different_kinds():
    stage = Stage(5).to_masked()
    stage.tell(1, Survivors((1, 3, 5, 7)))
    (answer,) = stage.tell(1, stage.request((3, 5, 7), (1, 3, 5, 7)))
    reveal = answer.message
    assert (reveal.alive, reveal.dropped) == ((3, 5, 7), (9,))
    MaskKeyShare.decode(reveal.keys[0])
    with pytest.raises(ValueError, match="SelfSeedShare"):
        SelfSeedShare.decode(reveal.keys[0])


def test_a_message_cannot_list_a_peer_as_alive_and_as_dropped():
    share = bytes(SHARE_BYTES)
    with pytest.raises(ValueError, match="both alive and dropped"):
        Reveal((3, 5), (share, share), (5,), (share,))


def test_the_server_takes_no_share_of_the_wrong_kind_from_anybody():
    """A client that hands in mask-key shares of survivors is refused before anything is kept: no party has both."""

    def both(message, frame):
        return Reveal((), (), message.alive, tuple(b"\x02" + share[1:] for share in message.seeds))

    play = Play(7, changing("Reveal", both, senders={3}))
    play.run()
    assert play.right()
    assert play.blamed() == {3}
    assert "wrong kind" in play.network.faults[0].reason


def test_split_survivor_sets_do_not_both_find_enough_signatures():
    """Every way to show five clients one of two sets: with 2 t > k clients open for one of them at most."""
    a, b = (1, 3, 5, 7, 9), (1, 3, 5, 7)
    for size in range(5):
        for shown_b in combinations(b, size):
            stage = Stage(5).to_masked()
            shown = {i: b if i in shown_b else a for i in a}
            for i, alive in shown.items():
                stage.tell(i, Survivors(alive))
            opened = set()
            for i, alive in shown.items():
                signers = [j for j in a if j != i and shown[j] == alive and j in alive]
                try:
                    stage.tell(i, stage.request(signers, alive))
                    opened.add(alive)
                except (ProtocolError, ValueError):
                    assert isinstance(stage.clients[i].state, Signed)
            assert len(opened) <= 1, shown


@pytest.mark.parametrize("signers", [(), (3,), (3, 5)])
def test_too_few_signatures_open_nothing(signers):
    stage = Stage(5).to_masked()
    alive = (1, 3, 5, 7, 9)
    stage.tell(1, Survivors(alive))
    with pytest.raises((ProtocolError, ValueError), match=r"neighbours signed|at least 1"):
        stage.tell(1, stage.request(signers, alive))
    assert stage.tell(1, stage.request((3, 5, 7), alive))


def test_equivocation_on_the_survivor_set_is_found_out():
    """Signatures of neighbours on another set, of strangers, of itself, of the dropped, or repeated do not count."""
    stage = Stage(5).to_masked()
    alive = (1, 3, 5, 7)
    stage.tell(1, Survivors(alive))
    good = stage.request((3, 5, 7), alive)
    for wrong, reason in [
        (stage.request((3, 5, 7), (1, 3, 5, 7, 9)), "did not sign this survivor set"),
        (replace(good, signatures=good.signatures[::-1]), "did not sign this survivor set"),
        (stage.request((1, 3, 5), alive), "not neighbours in the survivor set"),
        (stage.request((3, 5, 9), alive), "not neighbours in the survivor set"),
    ]:
        with pytest.raises(ProtocolError, match=reason) as failure:
            stage.tell(1, wrong)
        assert failure.value.blame == SERVER
    with pytest.raises(ValueError, match="each once"):
        UnmaskRequest((3, 3, 3), good.signatures, good.heads)
    assert stage.tell(1, good)


@pytest.mark.parametrize(
    ("alive", "reason"), [((3, 5, 7), "without this client"), ((1, 3, 4), "strangers"), ((1, 3), "a survivor set of 2 where 3")]
)
def test_survivor_sets_that_single_clients_out_are_not_signed(alive, reason):
    stage = Stage(5, threshold=3).to_masked()
    with pytest.raises(ProtocolError, match=reason):
        stage.tell(1, Survivors(alive))


def test_a_client_answers_once_also_after_a_restart():
    stage = Stage(3)
    proposal = stage.sent[0].envelope
    stored = {e.key: e.value for e in stage.clients[1].handle(Received(proposal)) if not isinstance(e, Send)}
    again = replace(Play(3).parties[1].state, next_round=joined_before(stored))
    with pytest.raises(ProtocolError, match="already taken"):
        client_step(again, Received(proposal))


# --- the policy floor -------------------------------------------------------------------------------------------------------

STRICT = SumPolicy(min_cohort=4, min_survivors=3, min_threshold=3, clips=(0.5, 2.0), min_bits=4, ring_bits=(32,), unheld=UNHELD)


def offer(policy=STRICT, n=6, **changes):
    play = Play(n, policy=policy, **{"threshold": 4, "ring_bits": 32, "bits": 8, "max_weight": 16} | changes)
    return play.parties[1].handle(Received(propose(play.plan)[0].envelope))


@pytest.mark.parametrize(
    ("reason", "changes"),
    {
        "two survivor sets can reach": {"policy": replace(STRICT, corrupt_neighbours=1)},
        "cohort under": {"n": 3, "threshold": 3},
        "a sum of fewer": {"threshold": 2},
        "share threshold under": {"n": 5, "neighbours": 2},
        "a clip outside": {"clip": 4.0},
        "a clip outside ": {"clip": 0.25},
        "levels of fewer": {"bits": 3},
        "a ring that": {"ring_bits": 64},
        "a vector longer": {"policy": replace(STRICT, max_length=4)},
    }.items(),
)
def test_what_the_server_cannot_talk_a_client_down_to(reason, changes):
    with pytest.raises(ProtocolError, match=reason.strip()) as failure:
        offer(**changes)
    assert failure.value.blame == SERVER


def test_terms_that_meet_the_policy_exactly_are_taken():
    assert len(offer(threshold=3)) == 2


@pytest.mark.parametrize("t", [1, 8, 15])
def test_threshold_1_of_32_is_refused(t):
    """Flower 1.41.0 accepts it. Half of the neighbours or fewer is refused whatever the policy says."""
    play = Play(33)
    plan = Plan.of(play.session, replace(play.terms, threshold=t), play.charter)
    with pytest.raises(ProtocolError, match="two survivor sets can reach"):
        play.parties[1].handle(Received(propose(plan)[0].envelope))


def test_a_singleton_cluster_is_refused():
    play = Play(3)
    alone = Session("masked sum/update", RUN, 0, "root", (1,), 1)
    with pytest.raises(ValueError, match="masking graph of 1 clients"):
        Plan.of(alone, replace(play.terms, neighbours=1, threshold=1), play.charter)
    pair = Session("masked sum/update", RUN, 0, "root", (1, 3), 2)
    plan = Plan.of(pair, replace(play.terms, neighbours=1, threshold=1), play.charter)
    wary = Play(3, policy=SumPolicy(unheld=UNHELD))
    with pytest.raises(ProtocolError, match="a cohort under the policy's 3"):
        wary.parties[1].handle(Received(propose(plan)[0].envelope))


def test_overflow_is_refused_when_the_session_starts():
    """Flower 1.41.0 sums 1,000 clients right and 1,100 wrong by 29.2, without a warning."""
    play = Play(4)
    with pytest.raises(ValueError, match="could wrap around"):
        Plan.of(play.session, replace(play.terms, max_weight=2**22 + 2**20), play.charter)
    honest = play.plan
    lying = replace(honest, terms=replace(play.terms, max_weight=2**30))
    with pytest.raises(ProtocolError, match="could wrap around") as failure:
        play.parties[1].handle(Received(Envelope(play.session.digest, SERVER, 1, lying.proposal)))
    assert failure.value.blame == SERVER


def test_sample_counts_above_the_largest_weight_are_an_error_and_not_a_log_line():
    fixed = FixedPoint(32, 8, 1.0, 100, 16)
    with pytest.raises(ValueError, match="max_weight"):
        fixed.encode(np.zeros(4, np.float32), 17, Nearest())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"run": bytes(16)}, "another run"),
        ({"protocol": "uploads/update"}, "another protocol"),
        ({"cluster": "other"}, "another session's digest"),
        ({"model": bytes(32)}, "another model"),
        ({"ring_bits": 48}, "cannot be: ring_bits"),
        ({"clip": b"\x7f\xf8" + bytes(6)}, "cannot be: clip"),
        ({"neighbours": 3}, "cannot be: a masking graph"),
        ({"share_threshold": 5}, "cannot be: threshold"),
    ],
)
def test_proposals_that_are_not_the_clients_are_refused(change, reason):
    """Also the hash of the broadcast model: another model for one client (Pasquini et al. 2022) leads nowhere."""
    play = Play(5)
    proposal = replace(play.plan.proposal, **change)
    s = play.session
    digest = replace(s, **{k: v for k, v in change.items() if k in ("run", "protocol")}).digest
    with pytest.raises(ProtocolError, match=reason):
        play.parties[1].handle(Received(Envelope(digest, SERVER, 1, proposal)))
    assert isinstance(play.parties[1].state, Idle)


def test_clients_that_were_shown_different_terms_do_not_mask_together():
    """The binding holds the terms: the keys of a client with other terms do not verify."""
    stage = Stage(4)
    other = Play(4, max_weight=8)
    stage.stage()
    shown = next(e.envelope for e in stage.sent if isinstance(e, Send) and e.envelope.receiver == 3)
    party = other.parties[3]
    party.handle(Received(propose(other.plan)[1].envelope))
    with pytest.raises(ProtocolError, match="not signed by it"):
        party.handle(Received(shown))


# --- keys -------------------------------------------------------------------------------------------------------------------


def test_unsigned_keys_are_refused_by_server_and_clients():
    play = Play(5, changing("MaskKeys", lambda m, f: replace(m, signature=bytes(64)), senders={3}))
    end = play.run()
    assert play.right()
    assert end.clients == (1, 5, 7, 9)
    assert play.blamed() == {3}

    def unsigned(message, frame):
        return replace(message, signatures=(bytes(64), *message.signatures[1:]))

    play = Play(5, changing("NeighbourKeys", unsigned))
    assert isinstance(play.run(), NoSum)
    assert play.blamed() == {SERVER}
    assert all("not signed by it" in fault.reason for fault in play.network.faults)


@pytest.mark.parametrize("which", ["mask_publics", "seal_publics", "both", "swapped", "own identity"])
def test_a_server_that_swaps_keys_is_found_out(which):
    mine = AgreementKey(bytes(range(32))).public
    wolf = SigningKey(bytes(range(1, 33)))

    def swap(message, frame):
        masks, seals, signatures = list(message.mask_publics), list(message.seal_publics), list(message.signatures)
        if which in ("mask_publics", "both", "own identity"):
            masks[0] = mine
        if which in ("seal_publics", "both", "own identity"):
            seals[0] = mine
        if which == "own identity":
            signatures[0] = wolf.sign("masked sum keys", play.plan.binding, masks[0] + seals[0])
        if which == "swapped":
            masks[0], masks[1] = masks[1], masks[0]
        return replace(message, mask_publics=tuple(masks), seal_publics=tuple(seals), signatures=tuple(signatures))

    play = Play(5, changing("NeighbourKeys", swap, receivers={1}))
    play.run()
    assert play.right()
    assert play.end.clients == (3, 5, 7, 9)
    assert [(f.blame, "not signed by it" in f.reason) for f in play.network.faults] == [(SERVER, True)]


def test_a_key_of_low_order_blames_its_client():
    def low(message, frame):
        identity = play.members.identities[3]
        keys = bytes(32), message.seal_public
        return MaskKeys(*keys, identity.sign("masked sum keys", play.plan.binding, b"".join(keys)))

    play = Play(5, changing("MaskKeys", low, senders={3}))
    play.run()
    assert play.right()
    assert play.blamed() == {3}


LISTS = {"Proposal", "Accepted", "MaskWith", "MaskedInput", "Survivors"}
"""Messages whose content is the same in both sessions, or binds to nothing: in another envelope they are another message."""


def test_messages_of_another_session_are_dead():
    """The same clients, run, round and secrets under another cluster's name: every frame of it is replayed and refused."""
    old = Play(4, record=True)
    old.run()
    names = {}
    assert {frame.kind for frame in old.network.frames} > LISTS
    for frame in old.network.frames:
        names.setdefault((frame.kind, frame.sender, frame.receiver), frame)

    for kind in {frame.kind for frame in old.network.frames} - LISTS:

        def replay(message, frame):
            past = names[(frame.kind, frame.sender, frame.receiver)]
            return decode(past.data, past.sender, 1 << 20).message

        play = Play(4, changing(kind, replay), round=1)
        end = play.run()
        assert isinstance(end, NoSum), kind
        assert play.network.faults or end.have < end.need


def test_no_bit_of_an_agreed_key_is_folded_away():
    """Flower 1.41.0 folds the agreed key to 32 bits: 2^16 clients find a collision. Here 256 bits reach the cipher."""
    a, b = AgreementKey(bytes([1]) * 32), AgreementKey(bytes([2]) * 32)
    (key,) = a.agree([(b.public, b"")], "pair mask")
    assert len(key) == 32
    whole = mask(key, 8, np.uint32).tolist()
    assert len({tuple(mask(flipped(key, at), 8, np.uint32).tolist()) for at in range(32)} | {tuple(whole)}) == 33
    swapped = key[4:8] + key[:4] + key[8:]  # an XOR-fold of words cannot tell these
    assert mask(swapped, 8, np.uint32).tolist() != whole


def test_secrets_do_not_follow_from_ranks_or_public_keys():
    """FedML seeds secret keys with the client's rank and sends the secret as the public key."""
    one, other = (Play(3, seed=seed, record=True) for seed in (0, 1))
    keys = []
    for play in (one, other):
        play.run()
        keys += [decode(f.data, f.sender, 1 << 20).message for f in play.network.frames if f.kind == "MaskKeys"]
    publics = [public for k in keys for public in (k.mask_public, k.seal_public)]
    assert len(set(publics)) == 12
    assert all(AgreementKey(public).public not in publics for public in publics)


# --- dropouts and sizes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_dropouts_in_the_setup_or_share_stage_do_not_abort(stage):
    """Flower 1.41.0 aborts the round."""
    play = Play(6, losing({3: stage}))
    assert play.run().clients == (1, 5, 7, 9, 11)
    assert play.right()


@pytest.mark.slow
def test_1100_clients_sum_right():
    play = Play(1100, neighbours=4, length=2, bits=16, max_weight=59)
    assert play.terms.largest * 1100 > 2**31
    play.vectors = {i: np.full(2, play.terms.largest - 1, np.uint32) for i in play.roster}
    play.tap = losing({3: 3, 777: 2, 1001: 1})
    end = play.run()
    assert len(end.clients) == 1097
    assert end.total.tolist() == [1097 * (play.terms.largest - 1)] * 2


def test_an_input_takes_four_bytes_a_value():
    """Flower 1.41.0 sends int64 for a 32-bit modulus."""
    play = Play(4, length=100_000, record=True)
    play.run()
    per_client = play.network.bytes_up / 4
    assert per_client < 400_000 * 1.02


# --- clients that cheat -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [10, 37, 38, 69])
def test_bad_shares_are_named_and_do_not_sink_the_round(at):
    """Values and salts that were not dealt, from two of seven clients, for survivors and for a client that dropped."""

    def bad(message, frame):
        return replace(
            message, seeds=tuple(flipped(s, at) for s in message.seeds), keys=tuple(flipped(s, at) for s in message.keys)
        )

    lost = losing({13: 3})
    cheat = changing("Reveal", bad, senders={3})
    play = Play(7, lambda f: [g for x in lost(f) for g in cheat(x)], threshold=2)
    end = play.run()
    assert play.right()
    assert end.bad == (3,)
    assert end.clients == (1, 3, 5, 7, 9, 11)


def test_bad_shares_beyond_the_threshold_fail_and_are_all_named():
    play = Play(5, changing("Reveal", lambda m, f: replace(m, seeds=tuple(flipped(s, 20) for s in m.seeds)), senders={3, 5}))
    end = play.run()
    assert isinstance(end, NoSum)
    assert end.stage == "unmask"
    assert set(end.blame) <= {3, 5}
    assert end.blame
    assert end.have < end.need


def test_shares_that_were_dealt_badly_are_left_out_and_the_others_do():
    """Client 3 seals rubbish to one holder: that holder still takes part, and three other holders recover the secret."""
    play = Play(5, changing("SealedShares", lambda m, f: replace(m, sealed=(flipped(m.sealed[0]), *m.sealed[1:])), senders={3}))
    end = play.run()
    assert play.right()
    assert end.clients == play.roster
    assert end.bad == ()


def test_a_dealer_whose_commitments_are_to_nothing_is_left_out():
    """Its holders find out before they mask, and the sum is that of the others."""

    def rubbish(message, frame):
        dealing = message.dealing[:16] + bytes(len(message.dealing) - 16)
        signature = play.members.identities[3].sign("masked sum dealing", play.plan.binding, dealing)
        return SealedShares(dealing, message.sealed, signature)

    play = Play(5, changing("SealedShares", rubbish, senders={3}))
    end = play.run()
    assert play.right()
    assert end.clients == (1, 5, 7, 9)


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        ("MaskedInput", lambda m, f: MaskedInput(m.vector[:-4]), "bytes where 20 belong"),
        ("MaskedInput", lambda m, f: MaskedInput(bytes(m.vector) + bytes(4)), "bytes where 20 belong"),
        ("MaskedInput", lambda m, f: MaskedInput(2 * bytes(m.vector)), "bytes where 20 belong"),
        ("MaskedInput", lambda m, f: [m, MaskedInput(flipped(bytes(m.vector)))], "a second time"),
        ("MaskKeys", lambda m, f: [m, replace(m, signature=bytes(64))], "a second time"),
        ("SealedShares", lambda m, f: [m, replace(m, signature=bytes(64))], "a second time"),
        ("SurvivorSignature", lambda m, f: [m, SurvivorSignature(bytes(64), bytes(32))], "a second time"),
        ("Reveal", lambda m, f: [m, replace(m, alive=m.alive[1:], seeds=m.seeds[1:])], "a second time"),
        ("SealedShares", lambda m, f: replace(m, signature=bytes(64)), "not the client's"),
        ("SealedShares", lambda m, f: replace(m, dealing=m.dealing[:68], sealed=m.sealed[:1]), "cannot be"),
        ("SurvivorSignature", lambda m, f: SurvivorSignature(bytes(64), bytes(32)), "not the client's"),
        ("Reveal", lambda m, f: replace(m, seeds=(b"\x02" + m.seeds[0][1:], *m.seeds[1:])), "a share that cannot be"),
        (
            "Reveal",
            lambda m, f: replace(m, seeds=(m.seeds[0][:1] + bytes(3) + b"\x05" + m.seeds[0][5:], *m.seeds[1:])),
            "another",
        ),
        ("Reveal", lambda m, f: replace(m, seeds=(m.seeds[0][:5] + b"\xff" * 65, *m.seeds[1:])), "a share that cannot be"),
        ("MaskKeys", lambda m, f: MaskedInput(bytes(20)), "out of place"),
        ("MaskedInput", lambda m, f: SurvivorSignature(bytes(64), bytes(32)), "out of place"),
    ],
)
def test_a_client_that_breaks_the_protocol_is_named_and_the_sum_is_right_without_it(kind, change, reason):
    play = Play(6, changing(kind, change, senders={3}))
    play.run()
    assert play.right()
    assert play.blamed() == {3}
    assert reason in play.network.faults[0].reason


def test_strangers_and_the_uninvited_are_refused():
    stage = Stage(5)
    stage.stage(answering={1, 3, 5, 7})
    good = stage.server.state
    with pytest.raises(ProtocolError, match="not asked") as failure:
        stage.server.handle(
            Received(Envelope(stage.plan.session.digest, 9, SERVER, SealedShares(bytes(68), (bytes(188),), bytes(64))))
        )
    assert failure.value.blame == 9
    assert stage.server.state is good


def test_a_client_talks_to_nobody_but_the_server():
    stage = Stage(3)
    with pytest.raises(ProtocolError, match="not the server's") as failure:
        stage.deliver(replace(stage.sent[0].envelope, sender=3))
    assert failure.value.blame == 3


def test_the_server_alone_cannot_open_what_it_added():
    """From everything that the server was sent up to the last stage the sum does not follow: each secret lacks its shares."""
    stage = Stage(5).to_masked()
    stage.stage()
    assert not any(isinstance(stage.server.state, kind) for kind in (Unmasked, NoSum))
    assert stage.server.state.total.tolist() != stage.play.plain(stage.play.roster)
    assert not stage.server.state.revealed
