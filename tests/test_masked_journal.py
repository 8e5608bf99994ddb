"""A server that crashes: wherever it does, it comes back as it was, ends with the right sum, and asks for one kind of share."""

import random
from collections import Counter, deque
from dataclasses import fields, is_dataclass

import numpy as np
import pytest

from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER
from cloister.protocol.drivers.in_process import InProcess
from cloister.protocol.drivers.roles import Awaiting, Deadline, Party, Perform, Persist, Received, Send, Worked
from cloister.protocol.masked.journal import journalled_step, resume, start, taken
from cloister.protocol.masked.messages import MaskedInput, Reveal, Survivors
from cloister.protocol.masked.server import NoSum, Unmasked, server_step
from cloister.protocol.masked.server_phases import Summing
from cloister.protocol.masked.sum import max_bytes
from cloister.protocol.masked.terms import Plan
from cloister.protocol.messages import MESSAGES

from .masked_sum_session import Play

pytestmark = pytest.mark.sweeps


class Crash(Exception):
    """The server dies here."""


class World:
    """A session whose server dies before its effects number `deaths`, counted over all its lives, and comes back each time.

    retrying: whether clients' links say their last message again to a server that is back. written: bytes to the disk, by entry.
    """

    def __init__(self, play, deaths=(), silent=(), retrying=True):
        self.play, self.deaths, self.silent, self.retrying = play, set(deaths), silent, retrying
        self.disk, self.queue, self.said, self.refused, self.last = {}, deque(), [], [], {}
        self.written = Counter()
        self.count = 0

    @property
    def state(self):
        return self.server.state

    def run(self):
        self.live(self.back)
        while not isinstance(self.state, Unmasked | NoSum):
            while self.queue:
                envelope = self.queue.popleft()
                if envelope.receiver == SERVER:
                    self.hand_over(Received(envelope))
                else:
                    self.answer(envelope)
            self.hand_over(Deadline())
        return self.state

    def hand_over(self, event):
        """An event for the server. If it dies before it stored it, the event is lost; but time is up again later."""

        def step():
            try:
                return self.server.handle(event)
            except ProtocolError as error:
                self.refused.append(error)
                return ()

        if not isinstance(self.state, Unmasked | NoSum):
            self.live(step)

    def live(self, step):
        """One step of the server, and if it dies, what it does when it is back."""
        try:
            for effect in step():
                if self.count in self.deaths:
                    self.deaths.remove(self.count)
                    raise Crash
                self.count += 1
                self.obey(effect)
        except Crash:
            del self.server
            self.live(self.back)
            if self.retrying:
                self.queue.extend(self.last.values())

    def back(self):
        digest = self.play.session.digest
        state, effects = resume(digest, self.disk, self.play.charter) if self.disk else start(self.play.plan)
        self.server = Party(SERVER, state, journalled_step, taken(digest, self.disk))
        return effects

    def obey(self, effect):
        match effect:
            case Persist(key, value):
                self.disk[key] = value
                self.written[key.split()[3]] += len(value)
            case Send(envelope):
                self.said.append(envelope.message)
                self.queue.append(envelope)
            case _:
                assert isinstance(effect, Awaiting)

    def answer(self, envelope):
        party = self.play.parties[envelope.receiver]
        try:
            effects = party.handle(Received(envelope))
        except ProtocolError as error:
            self.refused.append(error)
            return
        if any(isinstance(effect, Perform) for effect in effects):
            effects = party.handle(Worked(self.play.vectors[party.id], 0))
        for effect in effects:
            if isinstance(effect, Send) and not (party.id in self.silent and isinstance(effect.envelope.message, MaskedInput)):
                self.said.append(effect.envelope.message)
                self.queue.append(effect.envelope)
                self.last[party.id] = effect.envelope

    def check_one_kind(self):
        """One survivor set was shown, and no peer's self-seed share was handed out beside a mask-key share of it."""
        assert len({message.alive for message in self.said if isinstance(message, Survivors)}) <= 1
        reveals = [message for message in self.said if isinstance(message, Reveal)]
        assert {i for m in reveals for i in m.alive}.isdisjoint(i for m in reveals for i in m.dropped)
        return reveals

    def right(self):
        return isinstance(self.state, Unmasked) and self.state.total.tolist() == self.play.plain(self.state.clients)


def effects_of(n, silent):
    world = World(Play(n), silent=silent)
    world.run()
    assert world.right()
    assert not world.refused
    return world


@pytest.mark.parametrize(("n", "silent"), [(3, ()), pytest.param(7, (3,), marks=pytest.mark.slow)])
def test_a_crash_before_every_single_effect_is_survived(n, silent):
    """Before it and after the one before it. Clients' links say their last message again: nothing is lost, nobody refused."""
    calm = effects_of(n, silent)
    assert calm.check_one_kind()
    for death in range(calm.count):
        world = World(Play(n), {death}, silent)
        end = world.run()
        world.check_one_kind()
        assert not world.deaths
        assert not world.refused
        assert world.right(), death
        assert end.clients == calm.state.clients


@pytest.mark.parametrize(("n", "silent"), [(3, ()), pytest.param(7, (3,), marks=pytest.mark.slow)])
def test_without_links_that_say_it_again_a_crash_costs_what_was_not_stored(n, silent):
    """The message at hand, or of the inputs those since the last total: half of them at most. Their senders have dropped out."""
    calm = effects_of(n, silent)
    for death in range(calm.count):
        world = World(Play(n), {death}, silent, retrying=False)
        end = world.run()
        world.check_one_kind()
        assert not world.refused
        assert (world.right() and set(end.clients) <= set(calm.state.clients)) or end.have < end.need


@pytest.mark.parametrize("seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 30))])
def test_many_crashes_are_survived_or_end_in_a_clean_failure(seed):
    rng = random.Random(seed)
    calm = effects_of(7, (3,))
    world = World(Play(7), rng.sample(range(2 * calm.count), rng.randint(2, 12)), (3,))
    end = world.run()
    world.check_one_kind()
    assert world.right() or (end.have < end.need and not end.blame)


def test_crashes_at_stored_points_lose_nothing():
    """Right after each Persist, before anything is sent: the end is the same as without a crash."""
    calm = effects_of(5, (3,))
    kinds = []

    class Watching(World):
        def obey(self, effect):
            kinds.append(type(effect))
            super().obey(effect)

    Watching(Play(5), silent=(3,)).run()
    after = [at + 1 for at, kind in enumerate(kinds) if kind is Persist and at + 1 < len(kinds)]
    for death in after:
        if kinds[death] is not Persist:  # the next event's own entry is not stored yet: that event would be lost
            world = World(Play(5), {death}, (3,))
            assert world.run().clients == calm.state.clients
            assert world.right()
            world.check_one_kind()
    assert sum(kind is Persist for kind in kinds) == 1 + 5 * 3 + 2 + 4 * 2 + 6  # keys, shares, lists; totals; the rest; stages


def same(a, b):
    """Whether two states are equal; plans by their binding."""
    if isinstance(a, Plan):
        return a.binding == b.binding
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if is_dataclass(a):
        return type(a) is type(b) and all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return a == b


def test_at_every_point_the_journal_gives_the_state_that_was():
    points = []

    class Watching(World):
        def live(self, step):
            super().live(step)
            state, effects = resume(self.play.session.digest, dict(self.disk), self.play.charter)
            if not isinstance(self.state, Summing) or len(self.state.alive) == 3:  # half of five, where a total is stored
                assert same(state, self.state)
            assert not any(isinstance(effect, Persist) for effect in effects)
            points.append(type(state).__name__)

    for bits in (32, 64):
        Watching(Play(5, ring_bits=bits), silent=(3,)).run()
    stages = ["Advertising", "Sharing", "Accepting", "Summing", "Agreeing", "Unmasking", "Unmasked"]
    assert list(dict.fromkeys(points)) == stages


def test_a_server_that_comes_back_after_the_survivors_were_shown_takes_no_more_inputs():
    """The client that was late stays dropped, so that nobody is asked for its self seed after its mask key, or the reverse."""
    world = World(Play(5), silent=(3,))
    world.live(world.back)
    while not isinstance(world.state, Summing) or world.queue:
        while world.queue:
            envelope = world.queue.popleft()
            if envelope.receiver == SERVER:
                world.hand_over(Received(envelope))
            else:
                world.answer(envelope)
        if len(getattr(world.state, "alive", ())) == 4:
            break
        world.hand_over(Deadline())
    summing = world.state
    world.hand_over(Deadline())
    back, effects = resume(world.play.session.digest, world.disk, world.play.charter)
    assert back.alive == (1, 5, 7, 9)
    assert {e.envelope.message for e in effects if isinstance(e, Send)} == {Survivors((1, 5, 7, 9))}
    late = next(m for m in world.said if isinstance(m, MaskedInput))
    with pytest.raises(ProtocolError, match="out of place"):
        journalled_step(back, Received(type(world.queue[0])(world.play.session.digest, 3, SERVER, late)))
    assert 3 not in summing.alive


def test_the_journal_is_bounded_by_one_input():
    world = World(Play(5, length=50_000))
    world.run()
    sizes = {key.split()[-2] if key.split()[-1].isdigit() else key.split()[-1]: 0 for key in world.disk}
    for key, value in world.disk.items():
        sizes[key.split()[-2] if key.split()[-1].isdigit() else key.split()[-1]] += len(value)
    assert sizes["total"] == 4 + 5 * 36 + 200_000
    assert sum(sizes.values()) - sizes["total"] < 20_000


@pytest.mark.parametrize("n", [2, 3, 8])
def test_no_more_than_two_totals_are_written_however_many_inputs_come(n):
    """Each input used to write the total again: eight of them 1.6 MB here, where two are 400 kB."""
    world = World(Play(n, length=50_000, threshold=2))
    world.run()
    assert world.right()
    assert world.written["total"] <= 2 * (200_000 + 4 + 36 * n)


def test_the_journal_changes_nothing_but_what_is_stored():
    """The same states, and the same messages after one Persist each."""
    calm = effects_of(4, ())
    bare = Play(4)
    assert bare.run().total.tolist() == calm.state.total.tolist()
    state, _ = start(calm.play.plan)
    plain, effects = server_step(state, Deadline())
    journalled, more = journalled_step(state, Deadline())
    assert same(plain, journalled)
    assert more[1:] == effects
    assert isinstance(more[0], Persist)


def test_the_driver_stores_it_and_a_server_goes_on_from_what_was_stored():
    """Over the in-process driver: the sum of a server that crashed when all was over follows from the journal alone."""
    play = Play(4)
    state, opening = start(play.plan)
    server = Party(SERVER, state, journalled_step)
    network = InProcess(kinds=MESSAGES, max_bytes=max_bytes(play.terms))
    work = lambda tasks: ((client, Worked(play.vectors[client], 0)) for client, _ in tasks)  # noqa: E731
    network.run(play.parties, {play.session.digest: server}, ((SERVER, e) for e in opening), work, lambda *_: None)
    journal = {key: value for (party, key), value in network.persisted.items() if party == SERVER}
    back, effects = resume(play.session.digest, journal, play.charter)
    assert same(back, server.state)
    assert back.total.tolist() == play.plain(play.roster)
    assert effects == ()


def test_journals_of_other_sessions_or_broken_ones_are_refused():
    world = effects_of(3, ())
    charter = world.play.charter
    with pytest.raises(ValueError, match="start it anew"):
        resume(bytes(32), world.disk, charter)
    total = next(key for key in world.disk if key.endswith(" total"))
    with pytest.raises(ValueError, match="not the length"):
        resume(world.play.session.digest, {**world.disk, total: world.disk[total][:-1]}, charter)
