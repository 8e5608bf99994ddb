"""Bad shares and false complaints: a dealer is left out before anybody masks with it, and an honest one is not."""

from itertools import combinations

import pytest

from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER
from cloister.protocol.drivers.roles import Deadline, Perform, Received, Send
from cloister.protocol.masked.client_phases import Checked, Masking
from cloister.protocol.masked.graph import solve
from cloister.protocol.masked.messages import Accepted, MaskWith
from cloister.protocol.masked.server import NoSum
from cloister.protocol.wire.codec import Envelope

from .masked_sum_session import KINDS, Play, changing, flipped, losing
from .test_masked_sum_attacks import Stage


def both(*taps):
    """A network that is several, one behind the other."""

    def tap(frame):
        frames = [frame]
        for one in taps:
            frames = [g for f in frames for g in one(f)]
        return frames

    return tap


def badly(dealer, count):
    """A network on which the dealer's seals to its first `count` holders do not open."""

    def spoil(message, frame):
        sealed = tuple(flipped(s) if at < count else s for at, s in enumerate(message.sealed))
        return type(message)(message.dealing, sealed, message.signature)

    return changing("SealedShares", spoil, senders={dealer})


def complaining(clients, victims):
    """A network on which these clients say that the victims' shares were bad."""
    return changing("Accepted", lambda m, f: Accepted(tuple(i for i in m.dealers if i not in victims)), senders=clients)


@pytest.mark.parametrize("bad", range(5))
def test_a_dealer_is_left_out_where_fewer_than_t_holders_could_help(bad):
    """Five clients, t = 3: client 3 has four holders, of whom it cheats none to all."""
    play = Play(5, badly(3, bad))
    end = play.run()
    assert play.right()
    assert not play.network.faults
    assert end.clients == (play.roster if bad <= 1 else (1, 5, 7, 9))


def test_a_dealer_of_a_bad_share_that_drops_out_later_is_still_taken_off():
    """Its cheated neighbour masked with it all the same, and three others hold its key."""
    play = Play(5, both(badly(3, 1), losing({3: 3})))
    assert play.run().clients == (1, 5, 7, 9)
    assert play.right()


def test_who_is_left_out_holds_for_nobody():
    """Client 1 is left out with three cheated holders of five; 3, which one cheated, then has t - 1 good holders left, and so on.

    Six clients, t = 3: 3 loses the holders 5 and 7 by its own seals and then the left-out 1, and keeps two.
    """
    chain = both(badly(1, 3), changing("Accepted", lambda m, f: Accepted(tuple(i for i in m.dealers if i != 3)), senders={5, 7}))
    play = Play(6, chain)
    end = play.run()
    assert play.right()
    assert end.clients == (5, 7, 9, 11)
    alone = Play(6, changing("Accepted", lambda m, f: Accepted(tuple(i for i in m.dealers if i != 3)), senders={5, 7}))
    assert alone.run().clients == alone.roster


@pytest.mark.parametrize("stage", [*range(len(KINDS)), None])
def test_false_complaints_of_the_corrupt_exclude_nobody_honest(stage):
    """Seven clients, t = 4, c = 1: 2 t > k + c, and t <= k - c - d with d = 1 that drops out, wherever it does."""
    for liar in (1, 7, 13):
        for lost in {3, 7, 13} - {liar}:
            play = Play(7, both(complaining({liar}, set(range(20))), losing({lost: stage} if stage is not None else {})))
            end = play.run()
            assert play.right()
            assert set(end.clients) >= set(play.roster) - {liar, lost}


@pytest.mark.long
def test_complaints_weigh_as_much_as_silence_and_no_more():
    """Seven clients, t = 4 of 6 holders: every two liars exclude nobody, any three exclude their victim and nobody else."""
    roster = Play(7).roster
    for size, left in ((2, roster), (3, tuple(i for i in roster if i != 13))):
        for liars in combinations((1, 3, 5, 7, 9, 11), size):
            play = Play(7, complaining(set(liars), {13}))
            assert play.run().clients == left
            assert play.right()


@pytest.mark.parametrize("n", [10, 20, 32])
def test_the_solvers_parameters_leave_room_for_complaints(n):
    """Whoever is dropped or complains falsely, corrupt or not, is among the share that the solver lets drop out."""
    for malicious in (False, True):
        p = solve(n, n // 10, 0.1, malicious=malicious)
        dropped = n // 10
        assert p.neighbours - dropped >= p.threshold


def test_false_praise_sinks_no_more_than_silence_does():
    """Client 3 cheats two of four holders (t = 3), one of which says that all is well: it fails, and 3 is named."""
    play = Play(5, both(badly(3, 2), changing("Accepted", lambda m, f: Accepted((3, 5, 7, 9)), senders={1})))
    end = play.run()
    assert isinstance(end, NoSum)
    assert (end.stage, end.client, end.have, end.need) == ("unmask", 3, 2, 3)


def test_nobody_works_before_its_neighbours_are_settled():
    stage = Stage(5)
    stage.stage()
    stage.stage()
    for effect in stage.sent:
        if isinstance(effect, Send):
            party = stage.clients[effect.envelope.receiver]
            (answer,) = party.handle(Received(effect.envelope))
            assert isinstance(answer.envelope.message, Accepted)
            assert isinstance(party.state, Checked)
            stage.server.handle(Received(answer.envelope))
    for effect in stage.server.handle(Deadline()):
        if isinstance(effect, Send):
            (work,) = stage.clients[effect.envelope.receiver].handle(Received(effect.envelope))
            assert isinstance(work, Perform)


@pytest.mark.parametrize(
    ("neighbours", "reason"),
    [((3, 5), "2 neighbours to mask with where 3"), ((3, 5, 11), "not relayed"), ((1, 3, 5), "not relayed")],
)
def test_masking_lists_that_single_clients_out_are_refused(neighbours, reason):
    stage = Stage(5)
    stage.stage()
    stage.stage()
    stage.stage()
    for effect in stage.sent:
        if isinstance(effect, Send) and effect.envelope.receiver == 1:
            party = stage.clients[1]
            before = party.state
            with pytest.raises(ProtocolError, match=reason) as failure:
                party.handle(Received(Envelope(stage.plan.session.digest, SERVER, 1, MaskWith(neighbours))))
            assert failure.value.blame == SERVER
            assert party.state is before
            party.handle(Received(effect.envelope))
            assert isinstance(party.state, Masking)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m, f: Accepted((3, 5)), "whose shares were not relayed"),
        (lambda m, f: Accepted((5, 21)), "whose shares were not relayed"),
        (lambda m, f: [m, Accepted(m.dealers[1:])], "a second time"),
    ],
)
def test_acceptances_that_cannot_be_are_refused(change, reason):
    play = Play(6, changing("Accepted", change, senders={3}))
    play.run()
    assert play.right()
    assert play.blamed() == {3}
    assert reason in play.network.faults[0].reason
