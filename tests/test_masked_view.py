"""The view of secure aggregation: what it answers under every loss, what it refuses, and what its server never holds."""

from dataclasses import fields, is_dataclass, replace
from itertools import combinations

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import Masked
from cloister.protocol.core.errors import Refused
from cloister.protocol.messages import decode
from cloister.protocol.parts.gate import Rules
from cloister.protocol.parts.history import History
from cloister.protocol.parts.sketches import Sketches
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Sum, Weights
from cloister.protocol.view.disclosure import totals
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork

from . import sides

D = 90
RUN = bytes(range(16))
INITIAL = np.random.default_rng(0).standard_normal(D).astype(np.float32)
MEMBERS = tuple(range(1, 8))
STAGES = ("Ready", "MaskKeys", "SealedShares", "MaskedInput", "SurvivorSignature", "Reveal")


def update_of(client, round=0, kind="update"):
    return np.random.default_rng([client, round, kind == "update"]).standard_normal(D).astype(np.float32) / 2


def samples_of(client):
    return 40 + 7 * client


def workers(jobs):
    for job in jobs:
        yield job.client, LocalWork(update_of(job.client, job.round, job.work), samples_of(job.client))


RUN_KEYS = Masked(keys="run", sketch=1024)


def open_view(protection=Masked(), tap=None, seed=1, work=workers):
    return protection.open(Setup(RUN, INITIAL, MEMBERS, work, SimulatedEntropy(seed), tap))


def root(members=MEMBERS, model="init"):
    return {"root": Assignment(Model(model), members, members)}


def losing(kind, clients):
    return lambda frame: [] if frame.kind == kind and frame.sender in clients else [frame]


def mean_of(view, answer):
    return view.harness.observe(view.advance(Model("init"), answer)).astype(np.float64) - INITIAL


def check(view, answer, weights, times_samples=False, round=0):
    """The answer is the weighted mean of the updates of exactly the clients that it names."""
    assert isinstance(answer, Sum)
    of = {i: weights[i] * (samples_of(i) if times_samples else 1) for i in answer.clients}
    expected = sum(a * update_of(i, round).astype(np.float64) for i, a in of.items())
    scale = sum(abs(a) * np.linalg.norm(update_of(i, round)) for i, a in of.items())
    total = sum(of.values())
    assert answer.weight == pytest.approx(total, rel=max(answer.tolerance, 1e-9))
    allowed = answer.error + answer.tolerance * scale / abs(total) + 1e-6 * np.linalg.norm(INITIAL)
    assert np.linalg.norm(mean_of(view, answer) - expected / total) <= allowed
    assert answer.error < 1e-3 * scale / abs(total)


@pytest.mark.parametrize("kind", STAGES)
@pytest.mark.parametrize("lost", [(), (3,), (1, 7), (2, 4, 5), (1, 2, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("times_samples", [False, True])
def test_a_sum_is_that_of_the_clients_it_names_whatever_is_lost(kind, lost, times_samples):
    view = open_view(tap=losing(kind, lost))
    updates = view.train(0, root())["root"]
    weights = {i: 1.0 if times_samples else 10.0 + i for i in MEMBERS}
    answer = view.sums(updates, {"root": Weights(weights, times_samples)})["root"]
    if isinstance(answer, BelowFloor):
        assert len(lost) > 1
        assert view.record.below_floor == [answer]
        assert not Rules(3).fit({i: weights[i] for i in updates.clients}) or view.record.faults
        return
    gone = set(lost) if kind in STAGES[:4] else set()
    assert set(answer.clients) == set(MEMBERS) - gone
    check(view, answer, weights, times_samples)


def test_train_and_sum_adds_what_train_then_sums_adds_and_holds_nothing():
    seen = []

    def counting(jobs):
        for job in jobs:
            seen.append(sum(len(client.held) for client in sides.clients(view).parties.values()))
            yield job.client, LocalWork(update_of(job.client, job.round), samples_of(job.client))

    view = open_view(work=counting)
    work = {name: Assignment(Model("init"), part, part) for name, part in {"a": (1, 2, 3), "b": (4, 5, 6, 7)}.items()}
    asked = {name: Weights(dict.fromkeys(a.members, 1.0)) for name, a in work.items()}
    together = view.train_and_sum(0, work, asked)
    for name, assignment in work.items():
        assert together[name].clients == assignment.members
        check(view, together[name], asked[name].of)
    assert seen == [0] * 7
    assert not any(client.held or client.promised for client in sides.clients(view).parties.values())


def test_negative_weights_and_clusters_of_one_round():
    view = open_view()
    updates = view.train(0, root())["root"]
    weights = {"a": {1: 2.5, 2: -2.5, 3: 2.5}, "b": {4: -1.0, 5: -1.0, 6: -1.1, 7: -1.0}}
    answers = view.sums(updates, {name: Weights(of) for name, of in weights.items()})
    for name, of in weights.items():
        check(view, answers[name], of)


def test_weights_that_add_up_to_nothing_have_no_mean():
    view = open_view()
    updates = view.train(0, root())["root"]
    assert isinstance(view.sums(updates, {"a": Weights({1: 1.0, 2: 1.0, 3: -2.0})})["a"], BelowFloor)


def test_small_and_differing_sums_are_refused():
    view = open_view()
    updates = view.train(0, root())["root"]
    assert isinstance(view.sums(updates, {"pair": Weights({1: 1.0, 2: 1.0})})["pair"], BelowFloor)
    everyone = dict.fromkeys(MEMBERS, 1.0)
    check(view, view.sums(updates, {"all": Weights(everyone)})["all"], everyone)
    with pytest.raises(Refused, match="over other clients"):
        view.sums(updates, {"but one": Weights(dict.fromkeys(MEMBERS[1:], 1.0))})
    assert isinstance(view.sums(updates, {"skewed": Weights({i: 10.0**-i for i in MEMBERS})})["skewed"], BelowFloor)
    with pytest.raises(Refused, match="outweighs"):
        view.sums(updates, {"other": Weights({**everyone, 7: 1.25})})


def test_sums_that_overlap_are_of_one_kind_and_over_the_same_clients():
    everyone, other = dict.fromkeys(MEMBERS, 1.0), {i: 1.0 + i % 2 for i in MEMBERS}
    for first, second in ((True, False), (False, True), (False, False), (True, True)):
        view = open_view()
        updates = view.train(0, root())["root"]
        view.sums(updates, {"a": Weights(everyone, first)})
        if first and second:
            with pytest.raises(Refused, match="second one that counts samples"):
                view.sums(updates, {"b": Weights(other, second)})
            continue
        if first == second:
            check(view, view.sums(updates, {"b": Weights(other, second)})["b"], other, second)
            continue
        with pytest.raises(Refused, match="counts samples"):
            view.sums(updates, {"b": Weights(other, second)})
    with pytest.raises(Refused, match="second one that counts samples"):
        view.sums(updates, {"b": Weights({1: 1.0, 2: 2.0, 3: 3.0}, times_samples=True)})


def test_clients_themselves_refuse_a_second_survivor_set_for_the_same_updates():
    gone = set()
    view = open_view(tap=lambda frame: [] if frame.kind == "MaskedInput" and frame.sender in gone else [frame])
    updates = view.train(0, root())["root"]
    everyone, other = dict.fromkeys(MEMBERS, 1.0), {i: 1.0 + i % 2 for i in MEMBERS}
    check(view, view.sums(updates, {"a": Weights(everyone)})["a"], everyone)
    gone.add(1)
    assert isinstance(view.sums(updates, {"b": Weights(other)})["b"], BelowFloor)
    assert any("survivor set" in fault.reason for fault in view.record.faults)


def test_what_exceeds_the_public_bounds_sits_out_and_is_recorded():
    def wild(jobs):
        for job in jobs:
            vector = update_of(job.client)
            vector[5] = {2: 4.5, 3: np.nan, 4: np.inf}.get(job.client, 0.0)
            yield job.client, LocalWork(vector, 20_000 if job.client == 5 else 10)

    view = open_view(work=wild)
    updates = view.train(0, root())["root"]
    assert updates.clients == (1, 5, 6, 7)
    answer = view.sums(updates, {"a": Weights(dict.fromkeys(MEMBERS, 1.0), times_samples=True)})["a"]
    assert answer.clients == (1, 6, 7)
    assert {f.blame: f.reason.split(",")[0] for f in view.record.faults if f.rejected} == {
        2: "an update reaches more than the 4 of protection.clip",
        3: "the vector is not finite",
        4: "the vector is not finite",
        5: "more samples than the 10000 of protection.max_samples",
    }


def exact(rows):
    clear = np.stack(rows).astype(np.float64)
    norms = np.linalg.norm(clear, axis=1)
    return clear @ clear.T, np.outer(norms, norms)


@pytest.mark.parametrize("lost", [(), (1, 4)])
def test_inner_products_are_within_their_tolerance(lost):
    view = open_view(tap=losing("Upload", lost))
    updates = view.train(0, root())["root"]
    gram = view.gram(updates, origin=True)
    assert gram.clients == tuple(i for i in MEMBERS if i not in lost)
    clear, scale = exact([update_of(i) for i in gram.clients])
    assert np.all(np.abs(gram.matrix - clear) <= gram.tolerance * scale)
    assert np.abs(gram.matrix - clear).max() / scale.max() > 1e-3, "45 measurements of 90 coordinates are noisy"
    sent = view.record.traffic.messages
    assert np.array_equal(gram.matrix, view.gram(updates, origin=True).matrix)
    assert view.record.traffic.messages == sent, "sketches are asked for once"


def test_memory_compares_rounds_under_one_secret_and_not_under_many():
    view = open_view(RUN_KEYS)
    first = view.train(0, root())["root"]
    kept = view.remember(first, (1, 3, 5))
    view.harness.retire([Model("init")], [kept])
    second = view.train(1, root())["root"]
    clear = np.stack([update_of(i, 1) for i in MEMBERS] + [update_of(i, 0) for i in (1, 3, 5)]).astype(np.float64)
    expected = np.corrcoef(clear)[:7, 7:]
    assert np.abs(view.cosines(second, kept) - expected).max() < 6 * np.sqrt(2 / 45)
    view = open_view()
    assert Functionality.GRAM_REMEMBER not in Masked().gives
    with pytest.raises(Refused, match="keys='run'"):
        view.remember(view.train(0, root())["root"], (1,))
    with pytest.raises(Refused, match="keys='run'"):
        view.accumulate(view.train(1, root())["root"], {1: 1.0})


def test_the_secret_sketch_is_fresh_where_it_should_be():
    def same(jobs):
        return ((job.client, LocalWork(update_of(job.client), 10)) for job in jobs)

    for keys, equal in (("run", True), ("session", False)):
        view = open_view(Masked(keys=keys), work=same)
        rows = []
        for round in (0, 1):
            updates = view.train(round, root())["root"]
            view.gram(updates, origin=True)
            rows.append(sides.part(view, Sketches).received[updates.name].received[1][0])
        assert np.array_equal(*rows) == equal


def arrays_in(thing, seen=None):
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, bytes) and len(thing) == 4 * D:
        yield np.frombuffer(thing, np.float32)
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from arrays_in(value, seen)
    elif isinstance(thing, list | tuple):
        for value in thing:
            yield from arrays_in(value, seen)
    elif is_dataclass(thing):
        for f in fields(thing):
            yield from arrays_in(getattr(thing, f.name), seen)
    elif hasattr(thing, "__dict__"):
        yield from arrays_in(vars(thing), seen)


def correlated(array, clear):
    return array.shape == clear.shape and abs(np.corrcoef(array.astype(np.float64), clear)[0, 1]) > 0.6


def test_neither_the_server_nor_any_frame_to_it_holds_an_update_or_a_count():
    heard = []

    def tap(frame):
        heard.append(frame)
        return [frame]

    view = open_view(tap=tap)
    updates = view.train(0, root())["root"]
    view.gram(updates, origin=True)
    view.sums(updates, {"root": Weights(dict.fromkeys(MEMBERS, 1.0), times_samples=True)})
    clear = [update_of(i) for i in MEMBERS]
    assert any(correlated(a, c) for a in arrays_in(sides.clients(view)) for c in clear), "the search would find one"
    assert not any(correlated(a, c) for a in arrays_in(sides.server(view)) for c in clear)
    up = [f for f in heard if f.receiver == -1]
    for frame in up:
        message = decode(frame.data, frame.sender, len(frame.data)).message
        if frame.kind == "Upload":
            assert message.samples == 1
        if frame.kind == "MaskedInput":
            words = np.frombuffer(message.vector, np.uint32).astype(np.float64)
            if len(words) < D:  # weights, as 64-bit words
                continue
            assert abs(np.corrcoef(words[:D], update_of(frame.sender))[0, 1]) < 0.5
            assert 0.4 < words.mean() / 2**32 < 0.6
    assert {f.kind for f in up} >= {"Ready", "Upload", "MaskKeys", "SealedShares", "MaskedInput", "Reveal"}


def test_the_log_says_what_the_server_learned():
    view = open_view()
    updates = view.train(0, root())["root"]
    told = [(d.what, d.about, d.scalars) for d in view.record.log]
    assert told == [("roster", MEMBERS, 0), ("participation", updates.clients, 0)]
    view.gram(updates, origin=True)
    view.sums(updates, {"root": Weights(dict.fromkeys(MEMBERS, 1.0))})
    learned = {row["what"]: row["scalars"] for row in totals(view.record.log)["server"]}
    assert learned == {"participation": 0, "sketches": 7 * 45, "gram": 28, "sums": D + 1}


def test_a_restored_view_goes_on_the_same_and_spends_no_round_twice():
    def play(view, rounds):
        model = Model("init")
        for round in rounds:
            updates = view.train(round, {"root": Assignment(model, MEMBERS, MEMBERS)})["root"]
            model = view.advance(model, view.sums(updates, {"root": Weights(dict.fromkeys(MEMBERS, 1.0))})["root"])
            view.harness.retire([model], [])
        return model

    whole = open_view()
    expected = whole.harness.observe(play(whole, range(3)))
    view = open_view()
    model = play(view, range(2))
    again = open_view()
    again.harness.restore(view.harness.save(), [])
    updates = again.train(2, {"root": Assignment(model, MEMBERS, MEMBERS)})["root"]
    answer = again.sums(updates, {"root": Weights(dict.fromkeys(MEMBERS, 1.0))})["root"]
    assert np.array_equal(again.harness.observe(again.advance(model, answer)), expected)
    replay = open_view()
    replay.harness.restore(again.harness.save(), [])
    assert replay.train(2, {"root": Assignment(model, MEMBERS, MEMBERS)}) == {}
    assert {f.reason for f in replay.record.faults} == {"a task for a round already answered"}


def test_a_round_of_a_pair_is_below_the_floor_and_parameters_that_make_no_sense_are_refused():
    view = open_view()
    answer = view.train_and_sum(0, root((1, 2)), {"root": Weights({1: 1.0, 2: 1.0})})["root"]
    assert answer == BelowFloor("root@0", (1, 2), 3, alike=True)
    for bad in ({"floor": 1}, {"keys": "round"}, {"clip": -1.0}, {"ring_bits": 16}, {"sketch": 0}):
        with pytest.raises(ValueError):
            Masked(**bad)
    for none in (-0.5, 0.5, 2, float("nan"), "0.1"):
        with pytest.raises(ValueError, match=rf"^dropped is a share from 0 to below 0.5, not {none!r}: "):
            Masked(dropped=none)
    with pytest.raises(Refused, match="cannot be masked"):
        open_view(Masked(corrupt=len(MEMBERS) // 2, dropped=0.49))
    assert not hasattr(view, "coordinates"), "what is not given is not there to be asked"


@pytest.mark.parametrize("pair", list(combinations(STAGES, 2)), ids=str)
def test_losses_at_two_stages_at_once(pair):
    def tap(frame):
        lost = (frame.kind == pair[0] and frame.sender == 2) or (frame.kind == pair[1] and frame.sender == 5)
        return [] if lost else [frame]

    view = open_view(Masked(dropped=0.3), tap=tap)
    updates = view.train(0, root())["root"]
    weights = dict.fromkeys(MEMBERS, 1.0)
    answer = view.sums(updates, {"root": Weights(weights)})["root"]
    if isinstance(answer, Sum):
        check(view, answer, weights)
    else:
        assert view.record.faults


def test_a_narrowed_handle_keeps_the_others_no_longer():
    view = open_view(RUN_KEYS)
    first = view.train(0, root())["root"]
    kept = view.remember(first, (1, 3, 5))
    few = replace(kept, clients=(3,))
    view.harness.retire([Model("init")], [few])
    second = view.train(1, root())["root"]
    assert view.cosines(second, few).shape == (7, 1)
    assert set(sides.part(view, History).rows[kept.name]) == {3}
    with pytest.raises(Refused, match="are gone"):
        view.cosines(second, kept)
    again = open_view(RUN_KEYS)
    again.harness.restore(view.harness.save(), [few])
    assert np.array_equal(sides.part(again, History).rows[kept.name][3], sides.part(view, History).rows[kept.name][3])


def test_a_client_that_trained_and_did_not_sketch_has_no_cosines():
    silent = set()
    view = open_view(RUN_KEYS, tap=lambda frame: [] if frame.kind == "Upload" and frame.sender in silent else [frame])
    kept = view.remember(view.train(0, root())["root"], (1, 3, 5))
    silent.add(4)
    cosines = view.cosines(view.train(1, root())["root"], kept)
    assert np.isnan(cosines).any(axis=1).tolist() == [i == 4 for i in MEMBERS]
    assert np.isnan(cosines[3]).all()
