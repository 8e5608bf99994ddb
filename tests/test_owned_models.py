"""Models that clients hold: made as they are told, lent under seal, and never by the server."""

import hashlib
import struct
from dataclasses import replace

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import Encrypted, Masked, Permuted, Plain
from cloister.protocol.core.errors import ProtocolError, Refused
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.roles import Compute, Computed, Deadline, Received, Send
from cloister.protocol.messages import decode
from cloister.protocol.view.answers import Assignment, Model, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork
from cloister.protocol.wire.codec import Envelope, encode
from cloister.protocol.wire.messages import Declined, Retain, Task
from cloister.protocol.wire.recipes import Holds, Lend, Lent, Recipe, RoundOver
from cloister.protocol.work.lending import Lending
from cloister.protocol.work.making import Making, weights_of
from cloister.protocol.work.owned import MOST_MODELS, Owned
from cloister.protocol.work.recipes import PROTOCOL, Moving, server_step
from cloister.protocol.work.uploads import from_bytes, to_bytes

from . import sides

D = 48
INITIAL = np.linspace(-1, 1, D).astype(np.float32)
CLIENTS = (0, 1, 2, 3, 4, 5)
ONE = weights_of([1.0])
SECRET = Lending(bytes(range(32)), SimulatedEntropy(1))


def as_sent(session, vector):
    return from_bytes(vector)


def holder(me=0, lending=SECRET, making=None):
    return Owned(me, {"init": INITIAL}, making or Making(), as_sent, lending)


def vector(seed):
    return np.random.default_rng(seed).normal(size=D).astype(np.float32)


# --- one client -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2])
def test_what_came_with_a_task_is_known_by_its_own_bytes(count):
    one, several = holder(), [vector(k) for k in range(count)]
    names = [f"m{k}" for k in range(count)]
    one.came_with(hashlib.sha256(b"".join(map(to_bytes, several))).digest(), names, several)
    for name, model in zip(names, several, strict=True):
        assert one.came[name].digest == hashlib.sha256(to_bytes(model)).digest()
    one.hold("own", several[0])
    assert one.models["own"] is one.came["m0"]  # equal ones are one


def test_what_is_made_is_made_in_the_arithmetic_of_the_spec():
    owned, mean, work = holder(), vector(1), vector(2)
    owned.learn("root@0", bytes(32), to_bytes(mean))
    step = struct.pack(">d", 0.3)
    assert owned.told(Recipe("moved", ("init",), ONE, "root@0", "", step), {}) == Holds(("moved",))
    assert np.array_equal(owned["moved"], INITIAL + np.float32(0.3) * mean)
    assert owned.told(Recipe("own", ("moved",), ONE, "", "root@0/update"), {"root@0/update": work}) == Holds(("own",))
    assert np.array_equal(owned["own"], owned["moved"] + work)
    weights = (1 / 3, -7.0, 23 / 3)
    assert owned.told(Recipe("all", ("init", "moved", "own"), weights_of(weights)), {}) == Holds(("all",))
    products = (w * owned[n] for w, n in zip(weights, ("init", "moved", "own"), strict=True))
    assert np.array_equal(owned["all"], sum(p.astype(np.float64) for p in products).astype(np.float32))


def test_who_lacks_a_part_does_nothing_and_says_nothing():
    owned = holder()
    for recipe in (
        Recipe("a", ("stranger",), ONE),
        Recipe("a", ("init",), ONE, "no mean"),
        Recipe("a", ("init",), ONE, "", "no work"),
    ):
        assert owned.told(recipe, {}) is None
        assert not owned.holds("a")


def test_what_is_made_of_ones_own_is_ones_own_and_is_lent_to_nobody():
    owned = holder()
    owned.told(Recipe("mine", ("init",), ONE, "", "w"), {"w": vector(1)})
    owned.told(Recipe("mixed", ("init", "mine"), weights_of([0.5, 0.5])), {})
    owned.hold("alone", vector(2), alone=True)
    for name in ("mine", "mixed", "alone", "stranger"):
        assert owned.told(Lend(name), {}) is None
    assert isinstance(owned.told(Lend("init"), {}), Lent)


def test_a_lent_model_is_read_by_clients_and_by_nobody_else():
    lender, taker = holder(3), holder(4)
    lender.hold("root@0", vector(1))
    lent = lender.told(Lend("root@0"), {})
    assert to_bytes(vector(1)) not in encode(Envelope(bytes(32), 3, SERVER, lent))
    assert taker.told(lent, {}) == Holds(("root@0",))
    assert np.array_equal(taker["root@0"], vector(1))
    other = Lending(bytes(32), SimulatedEntropy(2))
    for broken in (
        replace(lent, content=lent.content[:-1] + bytes([lent.content[-1] ^ 1])),
        replace(lent, name="root@1"),
        replace(lent, lender=2),
        replace(lent, salt=bytes(32)),
    ):
        with pytest.raises(ProtocolError, match="does not open"):
            holder(5).told(broken, {})
    with pytest.raises(ProtocolError, match="does not open"):
        holder(5, other).told(lent, {})


def test_a_model_in_the_clear_is_taken_only_where_the_server_owns_models():
    clear = Lent("root@0", SERVER, b"", to_bytes(vector(1)))
    with pytest.raises(ProtocolError, match="in the clear where clients own"):
        holder().told(clear, {})
    served = holder(lending=None)
    assert served.told(clear, {}) == Holds(("root@0",))
    served.over()
    with pytest.raises(KeyError):
        served["root@0"]  # it came for the round
    with pytest.raises(ProtocolError, match="sealed model where the server owns"):
        served.told(replace(clear, lender=1), {})
    served.hold("a", vector(1))
    with pytest.raises(ProtocolError, match="to lend where the server owns"):
        served.told(Lend("a"), {})


def test_a_model_of_another_length_is_the_lenders_fault():
    lender = Owned(3, {"init": INITIAL[:-1]}, Making(), as_sent, SECRET)
    lender.hold("short", vector(1)[:-1])
    with pytest.raises(ProtocolError, match="bytes where") as caught:
        holder().told(lender.told(Lend("short"), {}), {})
    assert caught.value.blame == 3


def test_a_model_that_is_held_stays_what_it_is():
    lender, taker = holder(3), holder(4)
    lender.hold("root@0", vector(1))
    taker.hold("root@0", vector(2))
    assert taker.told(lender.told(Lend("root@0"), {}), {}) == Holds(("root@0",))
    assert np.array_equal(taker["root@0"], vector(2))


def test_a_client_keeps_what_it_is_told_to_and_holds_so_many_at_most():
    owned = holder()
    owned.learn("m", bytes(32), to_bytes(vector(1)))
    for k in range(MOST_MODELS - 1):
        owned.told(Recipe(f"model {k}", ("init",), ONE), {})
    with pytest.raises(ProtocolError, match="models to hold"):
        owned.told(Recipe("one more", ("init",), ONE), {})
    assert owned.told(RoundOver(("model 7",)), {}) is None
    assert list(owned.models) == ["model 7"]
    assert not owned.means
    for k in range(3 * MOST_MODELS):
        owned.learn(f"mean {k}", bytes(32), to_bytes(INITIAL))
    assert len(owned.means) == MOST_MODELS


def test_equal_models_of_one_process_are_held_once():
    making = Making()
    one, other = holder(0, making=making), holder(1, making=making)
    for owned in (one, other):
        owned.learn("m", bytes(32), to_bytes(vector(1)))
        owned.told(Recipe("root@0", ("init",), ONE, "m"), {})
    assert one["root@0"] is other["root@0"]
    assert one["init"] is other["init"]


# --- the server -----------------------------------------------------------------------------------------------------------

SESSION = Session(PROTOCOL, bytes(16), 0, "1", (1, 2, 3), 1)


def sent_by(client, message):
    return Received(Envelope(SESSION.digest, client, SERVER, message))


def test_the_server_counts_on_those_that_answered():
    state, _ = server_step(Moving(SESSION), sent_by(2, Holds(("a",))))
    state, _ = server_step(state, Deadline())
    assert state.holding == {2: ("a",)}


@pytest.mark.parametrize(
    ("client", "message"),
    [
        (7, Holds(("a",))),
        (1, Lent("a", 1, bytes(32), bytes(64))),
        (2, Lent("b", 1, bytes(32), bytes(64))),
        (2, Lent("a", 1, bytes(32), bytes(64))),
        (1, Lend("a")),
    ],
)
def test_what_was_not_asked_is_blamed_on_its_sender(client, message):
    with pytest.raises(ProtocolError) as caught:
        server_step(Moving(SESSION, {"a": 2}), sent_by(client, message))
    assert caught.value.blame == client
    with pytest.raises(ProtocolError, match=r"after the deadline|out of place") as caught:
        server_step(server_step(Moving(SESSION, {"a": 2}), Deadline())[0], sent_by(client, message))


# --- in a view ------------------------------------------------------------------------------------------------------------


def update_of(client, round):
    return np.random.default_rng(10 * round + client).normal(size=D).astype(np.float32)


def workers(jobs):
    for job in jobs:
        yield job.client, LocalWork(update_of(job.client, job.round), 10)


def open_view(protection, tap=None, apart=False):
    setup = Setup(bytes(range(16)), INITIAL, CLIENTS, workers, SimulatedEntropy(3), tap, starts_apart=apart)
    return protection.open(setup)


def one_round(view, round, model, participants=CLIENTS, members=CLIENTS):
    updates = view.train(round, {"root": Assignment(model, participants, members)})["root"]
    mean = view.sums(updates, {"root": Weights(dict.fromkeys(updates.clients, 1.0))})["root"]
    moved = view.advance(model, mean)
    view.harness.retire([moved], [])
    return moved


def model_of(view, client, model):
    return sides.clients(view).parties[client].owned[model.name]


OWNED = [Permuted(), Permuted(keys="session"), Encrypted()]


class Wire:
    """A tap: loses or changes what it is told, and remembers what was sent since it was cleared."""

    def __init__(self, fate=lambda frame: [frame]):
        self.fate = fate
        self.frames = []

    def __call__(self, frame):
        self.frames.append(frame)
        return self.fate(frame)

    def kinds(self):
        return [frame.kind for frame in self.frames]


MEANS = ("Mean", "EncryptedSum")


@pytest.mark.parametrize("protection", OWNED, ids=repr)
def test_a_client_that_missed_the_mean_is_handed_the_model_and_that_is_on_record(protection):
    wire = Wire(lambda f: [] if f.kind in MEANS and f.receiver == 4 else [f])
    view = open_view(protection, wire)
    moved = one_round(view, 0, Model("init"))
    assert not sides.clients(view).parties[4].owned.holds(moved.name)
    before = len(view.record.log)
    wire.frames.clear()
    view.train(1, {"root": Assignment(moved, CLIENTS, CLIENTS)})
    assert np.array_equal(model_of(view, 4, moved), model_of(view, 0, moved))
    assert wire.kinds()[:4] == ["Lend", "Lent", "Lent", "Holds"]
    (handed,) = [entry for entry in view.record.log[before:] if entry.what == "models"]
    assert (handed.recipient, handed.about, handed.client) == ("clients", (0, 1, 2, 3, 5), 4)
    secret = to_bytes(model_of(view, 0, moved))
    assert not any(secret[k : k + 16] in f.data for f in wire.frames for k in range(0, len(secret), 16))


@pytest.mark.parametrize("protection", OWNED, ids=repr)
def test_a_lender_that_does_not_answer_is_not_the_last(protection):
    wire = Wire(lambda f: [] if (f.kind in MEANS and f.receiver == 4) or (f.kind == "Lend" and f.receiver in (0, 1)) else [f])
    view = open_view(protection, wire)
    moved = one_round(view, 0, Model("init"))
    view.train(1, {"root": Assignment(moved, CLIENTS, CLIENTS)})
    assert np.array_equal(model_of(view, 4, moved), model_of(view, 2, moved))
    assert [f.receiver for f in wire.frames if f.kind == "Lend"] == [0, 1, 2]


@pytest.mark.parametrize("protection", OWNED, ids=repr)
def test_the_last_that_holds_a_model_is_asked_again(protection):
    """It was taken not to hold it for one lost message, and was told to forget it: the run had no model any more."""
    away = []
    wire = Wire(
        lambda f: [] if (f.kind == "Holds" and f.sender and not away) or (f.kind == "Lend" and f.receiver in away) else [f]
    )
    view = open_view(protection, wire)
    moved = one_round(view, 0, Model("init"))  # which client 0 alone is known to hold
    away.append(0)
    view.train(1, {"root": Assignment(moved, CLIENTS, CLIENTS)})
    view.harness.retire([moved], [])
    away[:] = [99]
    view.train(2, {"root": Assignment(moved, CLIENTS, CLIENTS)})
    assert all(np.array_equal(model_of(view, i, moved), model_of(view, 0, moved)) for i in CLIENTS)


@pytest.mark.parametrize("protection", OWNED, ids=repr)
def test_a_lender_whose_model_opens_to_nobody_is_asked_last(protection):
    """It was the lowest holder, and asked again in each round: who lacked a model, lacked it for good."""

    def spoilt(frame):
        if frame.kind == "Mean" and frame.receiver == 5 and not lost:
            lost.append(frame)
            return []
        if frame.kind != "Lent" or frame.sender != 0:
            return [frame]
        envelope = decode(frame.data, frame.sender, 1 << 20)
        sealed = bytes(len(envelope.message.content))
        return [replace(frame, data=encode(replace(envelope, message=replace(envelope.message, content=sealed))))]

    lost = []
    view, model = open_view(protection, spoilt), Model("init")
    for round in range(3):
        model = one_round(view, round, model)
    assert np.array_equal(model_of(view, 5, model), model_of(view, 1, model))


@pytest.mark.parametrize("again", [False, True], ids=["", "resumed"])
@pytest.mark.parametrize("liar", [False, True], ids=["who stays is gone, too", "who stays lends nothing"])
def test_holders_that_were_away_are_asked_when_they_are_back(liar, again):
    """They were taken not to hold it: told to forget it while they were there and had it, and the run ended without a model."""
    away = set()

    def tap(frame):
        if {frame.sender, frame.receiver} & away or (liar and frame.kind == "Lent" and frame.sender == 5):
            return []
        return [frame]

    view = open_view(OWNED[0], tap)
    away.update({2, 3, 4})
    model = one_round(view, 0, Model("init"), (0, 1, 5), (0, 1, 5))
    away.clear()
    away.update({0, 1} if liar else {0, 1, 5})
    view.train(1, {"root": Assignment(model, CLIENTS, CLIENTS)})
    view.harness.retire([model], [])
    away.clear()
    if again:
        kept = view.harness.save()
        view = open_view(OWNED[0], tap)
        view.harness.restore(kept, [])
    away.update(set() if liar else {5})
    moved = one_round(view, 2, model)
    assert all(np.array_equal(model_of(view, i, moved), model_of(view, 0, moved)) for i in {*CLIENTS} - away)


@pytest.mark.parametrize("protection", OWNED, ids=repr)
def test_a_model_that_nobody_says_it_made_is_refused_after_three_times(protection):
    wire = Wire(lambda f: [] if f.kind == "Holds" else [f])
    view = open_view(protection, wire)
    with pytest.raises(Refused, match="no client says that it made"):
        one_round(view, 0, Model("init"))
    assert wire.kinds().count("Recipe") == 3 * len(CLIENTS)


def altered(kind, client, change):
    """A tap that changes the message of this kind to one client."""

    def fate(frame):
        if frame.kind != kind or frame.receiver != client:
            return [frame]
        envelope = decode(frame.data, frame.sender, 1 << 20)
        return [replace(frame, data=encode(replace(envelope, message=change(envelope.message))))]

    return fate


ALTERED = [
    ("Mean", lambda m: replace(m, vector=to_bytes(from_bytes(m.vector) + np.float32(1)))),
    ("Recipe", lambda m: replace(m, step=struct.pack(">d", 2.0))),
    ("Recipe", lambda m: replace(m, models=("init",) * 2, weights=weights_of([0.5, 0.5]), mean="")),
]


@pytest.mark.parametrize(("kind", "change"), ALTERED)
@pytest.mark.parametrize("protection", OWNED, ids=repr)
def test_an_altered_mean_or_recipe_reaches_one_client_only(protection, kind, change):
    if kind == "Mean" and isinstance(protection, Encrypted):
        pytest.skip("under encryption no mean is sent")
    honest, view = open_view(protection), open_view(protection, altered(kind, 3, change))
    right, moved = one_round(honest, 0, Model("init")), one_round(view, 0, Model("init"))
    for i in CLIENTS:
        same = np.allclose(model_of(view, i, moved), model_of(honest, i, right), atol=1e-5)
        assert same == (i != 3)


@pytest.mark.parametrize("protection", OWNED, ids=repr)
def test_a_resumed_run_holds_what_each_client_held(protection):
    tap = altered("Recipe", 3, ALTERED[1][1])
    view = open_view(protection, tap)
    moved = one_round(view, 0, Model("init"))
    again = open_view(protection)
    again.harness.restore(view.harness.save(), [])
    for i in CLIENTS:
        assert np.array_equal(model_of(again, i, moved), model_of(view, i, moved))
    assert not np.array_equal(model_of(again, 3, moved), model_of(again, 0, moved))
    assert sides.models(again).handles.known == sides.models(view).handles.known


@pytest.mark.long
def test_what_clients_hold_does_not_grow_over_a_thousand_rounds():
    view, model = open_view(Permuted()), Model("init")
    for round in range(1000):
        model = one_round(view, round, model, members=CLIENTS if round % 3 else CLIENTS[:5])
    assert {len(party.owned.models) for party in sides.clients(view).parties.values()} <= {0, 1}
    assert len(sides.models(view).handles.known) == 1


def test_where_the_server_owns_models_a_client_holds_its_own_alone():
    view = open_view(Plain(), apart=True)
    updates = view.train(0, {"root": Assignment(Model("init"), CLIENTS, CLIENTS, own={2: Model("init")})})["root"]
    (own,) = view.own_models(updates).values()
    assert [i for i, party in sides.clients(view).parties.items() if party.owned.models] == [2]
    assert np.array_equal(model_of(view, 2, own), INITIAL + update_of(2, 0))
    with pytest.raises(Refused, match="one client's own"):
        view.merge({own: 0.5, Model("init"): 0.5})


def test_a_server_that_sends_its_own_model_where_clients_own_them_gets_nothing():
    def own_model(frame):
        if frame.kind != "Task" or frame.receiver != 3:
            return [frame]
        envelope = decode(frame.data, frame.sender, 1 << 20)
        chosen = replace(envelope.message, vector=to_bytes(vector(9)))
        return [replace(frame, data=encode(replace(envelope, message=chosen)))]

    view = open_view(Permuted(), own_model)
    updates = view.train(0, {"root": Assignment(Model("init"), CLIENTS, CLIENTS)})["root"]
    assert updates.clients == (0, 1, 2, 4, 5)
    assert [(f.blame, f.reason) for f in view.record.faults] == [(3, "a model in the clear where clients own them")]


def test_a_recipe_of_work_that_is_no_update_makes_nothing():
    owned = holder()
    assert owned.told(Recipe("a", ("init",), ONE, "", "w"), {"w": np.zeros((3, D), np.float32)}) is None
    assert not owned.holds("a")


# --- a server that tries ----------------------------------------------------------------------------------------------------


def told(client, message, session=SESSION):
    """What a client of a view does with a word of the server."""
    return client.handle(Received(Envelope(session.digest, SERVER, client.id, message)))


def work_for(client, names=("init",), vectors=b"", **changes):
    session = Session(f"uploads/{changes.get('work', 'update')}", bytes(range(16)), 0, "root", CLIENTS, 1)
    task = Task(*session.fields, changes.pop("work", "update"), names, vectors, **changes)
    return client.handle(Received(Envelope(session.digest, SERVER, client.id, task)))


def declined(effects):
    return [e.envelope.message.reason for e in effects if isinstance(e, Send) and isinstance(e.envelope.message, Declined)]


def test_no_model_is_made_of_weights_that_would_tell_a_secret_transform():
    """4097 times the initial model, which everybody knows, under the clients' permutation would sort its places."""
    client = sides.clients(open_view(Permuted())).parties[0]
    for weights in ([4097.0], [1e300], [1.0 + 1e-4]):
        with pytest.raises(ProtocolError, match="do not add up to 1"):
            told(client, Recipe("big", ("init",), weights_of(weights)))
    assert not client.owned.holds("big")


def test_a_recipe_does_not_replace_what_is_held():
    owned = holder()
    owned.told(Recipe("mine", ("init",), ONE, "", "w"), {"w": vector(1)})
    assert owned.told(Recipe("mine", ("init",), ONE), {}) == Holds(("mine",))
    assert np.array_equal(owned["mine"], INITIAL + vector(1))
    assert owned.mine == {"mine"}


def test_models_of_another_length_are_declined_and_end_no_program():
    client = sides.clients(open_view(Plain())).parties[1]
    assert declined(work_for(client, vectors=bytes(28))) == [f"models that are not of {D} coordinates each"]
    client = sides.clients(open_view(Plain())).parties[1]
    two = {"names": ("init", "other"), "vectors": bytes(4 * (2 * D + 1)), "work": "slots", "most": 1}
    assert declined(work_for(client, **two)) == [f"models that are not of {D} coordinates each"]


def test_a_round_that_is_over_in_the_middle_of_work_ends_the_work():
    client = sides.clients(open_view(Plain())).parties[1]
    (job,) = (e.job for e in work_for(client, vectors=to_bytes(INITIAL)) if isinstance(e, Compute))
    assert told(client, RoundOver(())) == ()
    assert client.handle(Computed(LocalWork(vector(1), 3))) == ()
    assert not client.held
    assert job.client == 1


def test_models_from_a_server_that_owns_them_are_bounded():
    owned = holder(lending=None)
    for k in range(2 * MOST_MODELS):
        owned.told(Lent(f"m{k}", SERVER, b"", to_bytes(INITIAL)), {})
    assert len(owned.came) == MOST_MODELS


@pytest.mark.parametrize("protection", OWNED, ids=repr)
def test_what_is_ones_own_is_ones_own_after_a_resume(protection):
    view = open_view(protection)
    client = sides.clients(view).parties[2]
    client.owned.hold("secret", vector(1), alone=True)
    again = open_view(protection)
    again.harness.restore(view.harness.save(), [])
    resumed = sides.clients(again).parties[2]
    assert resumed.owned.holds("secret")
    assert told(resumed, Lend("secret")) == ()


def test_retained_work_is_no_second_way_to_a_sketch():
    """About the origin and behind an offset both together tell the offset."""
    view = open_view(Masked(sketch=16, floor=3))
    updates = view.train(0, {"root": Assignment(Model("init"), CLIENTS, CLIENTS)})["root"]
    client = sides.clients(view).parties[2]
    made = client.taken[updates.name].session
    told(client, Retain(0, made, "split"))
    told(client, Retain(1, made, "kept"))
    assert declined(work_for(client, (updates.name,), work="update sketch")) == []
    for names, work in ((("kept", "split"), "edge offset sketch"), (("kept",), "gradient offset sketch")):
        assert declined(work_for(client, names, work=work)) == ["no work that this sketch would be of"]
    told(client, RoundOver(()))
    with pytest.raises(ProtocolError, match="sketched the other way"):
        work_for(client, ("kept",), work="gradient sketch")
