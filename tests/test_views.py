"""Server views: every protection answers what Plain answers for the surviving clients, or raises; and what the server lacks.

The ideal functionality is computed here from the clear updates; `Plain` is held to it as well.
"""

from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.crypto.entropy import SimulatedEntropy
from cloister.crypto.orthonormal import HadamardRotation, Permutation, SignedPermutation
from cloister.protocol import Permuted, Plain
from cloister.protocol.core.errors import Refused
from cloister.protocol.messages import decode
from cloister.protocol.parts.gate import Rules
from cloister.protocol.uploaded.uploading import Uploads
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Remembered, Sum, Weights
from cloister.protocol.view.disclosure import totals
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Setup, check_composition
from cloister.protocol.view.work import LocalWork

from . import sides

D = 37
RUN = bytes(range(16))
INITIAL = np.random.default_rng(0).standard_normal(D).astype(np.float32)
TRANSFORMS = (Permutation, SignedPermutation, HadamardRotation)
FULL = [Plain(floor=2), *(Permuted(t, keys, floor=2) for t in TRANSFORMS for keys in ("run", "session"))]
PROTECTIONS = FULL[1:]
MEMBERS = tuple(range(1, 6))
FLOAT32 = 2.0**-23


def named(protections):
    return pytest.mark.parametrize("protection", protections, ids=repr)


def update_of(client, round, kind="update"):
    rng = np.random.default_rng([client, round, kind == "update"])
    return rng.standard_normal(D).astype(np.float32)


def samples_of(client):
    return 10 + client


def workers(jobs):
    for job in jobs:
        yield job.client, LocalWork(update_of(job.client, job.round, job.work), samples_of(job.client))


def open_view(protection, clients=MEMBERS, tap=None, seed=1, work=workers, initial=INITIAL):
    return protection.open(Setup(RUN, initial, clients, work, SimulatedEntropy(seed), tap))


def losing(clients):
    """A tap that drops these clients' uploads."""
    return lambda frame: [] if frame.kind == "Upload" and frame.sender in clients else [frame]


def root(clients=MEMBERS, model="init", participants=None):
    return {"root": Assignment(Model(model), participants or clients, clients)}


def subsets(clients):
    return chain.from_iterable(combinations(clients, n) for n in range(len(clients) + 1))


def opened(view, answer):
    """The published mean times its weight, as its owner reads it through the model that it moves."""
    zero = Model("zero")
    sides.put_model(view, zero.name, np.zeros_like(view.harness.observe(Model("init"))))
    return view.harness.observe(view.advance(zero, answer)).astype(np.float64) * answer.weight


def close(found, expected, scale, tolerance):
    """Whether |found - expected| is within the tolerance of the terms, and one float32 rounding."""
    return np.linalg.norm(found - expected) <= tolerance * scale + FLOAT32 * np.linalg.norm(expected) + 1e-12


def check_sum(view, answer, of, round=0):
    """The answer is sum_i of[i] delta_i and says so; `of` holds the survivors' weights, samples included."""
    assert isinstance(answer, Sum)
    assert answer.recipient == view.owner
    assert answer.clients == tuple(sorted(of))
    assert answer.weight == pytest.approx(sum(of.values()), rel=1e-12)
    expected = sum(a * update_of(i, round).astype(np.float64) for i, a in of.items())
    scale = sum(abs(a) * np.linalg.norm(update_of(i, round)) for i, a in of.items())
    assert close(opened(view, answer), expected, scale, answer.tolerance)
    norm = np.linalg.norm(expected) / abs(answer.weight)
    assert abs(answer.norm - norm) <= (answer.tolerance + 1e-6) * scale / abs(answer.weight)


# --- the ideal functionality, under every pattern of dropouts -------------------------------------------------------------


@named(FULL)
@pytest.mark.parametrize("lost", list(subsets(MEMBERS)), ids=lambda lost: "".join(map(str, lost)) or "none")
def test_every_answer_is_that_of_the_survivors(protection, lost):
    view = open_view(protection, tap=losing(lost))
    heard = tuple(i for i in MEMBERS if i not in lost)
    answered = view.train(0, root())
    if not heard:
        assert answered == {}
        assert [entry.what for entry in view.record.log] == ["roster"]
        return
    updates = answered["root"]
    assert (updates.clients, updates.members, updates.round) == (heard, MEMBERS, 0)
    clear = np.stack([update_of(i, 0) for i in heard]).astype(np.float64)

    gram = view.gram(updates, origin=True)
    norms = np.linalg.norm(clear, axis=1)
    assert gram.clients == heard
    assert np.array_equal(gram.matrix, gram.matrix.T)
    assert (np.abs(gram.matrix - clear @ clear.T) <= gram.tolerance * np.outer(norms, norms)).all()

    of = {i: 0.5 * i for i in MEMBERS}
    asked = {"plain": Weights(dict.fromkeys(MEMBERS, 1.0)), "same": Weights(dict.fromkeys(MEMBERS, -2.0))}
    answers = view.sums(updates, asked)
    for name, a in (("plain", 1.0), ("same", -2.0)):
        if len(heard) < 2:
            assert answers[name] == BelowFloor(f"{name}@0", heard, 2, alike=True)
        else:
            check_sum(view, answers[name], dict.fromkeys(heard, a))

    weighted = open_view(protection, tap=losing(lost))
    updates = weighted.train(0, root())["root"]
    answer = weighted.sums(updates, {"w": Weights(of, times_samples=True)})["w"]
    streaming = open_view(protection, tap=losing(lost))
    again = streaming.train_and_sum(0, root(), {"root": Weights(of, times_samples=True)})["root"]
    if not Rules(2).fit({i: of[i] * samples_of(i) for i in heard}):
        assert isinstance(answer, BelowFloor)
        assert isinstance(again, BelowFloor)
        assert again.clients == heard
    else:
        check_sum(weighted, answer, {i: of[i] * samples_of(i) for i in heard})
        check_sum(streaming, again, {i: of[i] * samples_of(i) for i in heard})


@pytest.mark.long
@named(FULL)
@given(st.sets(st.sampled_from(MEMBERS)), st.lists(st.integers(-3, 3), min_size=5, max_size=5), st.booleans())
@settings(max_examples=20)
def test_train_and_sum_is_train_then_sums(protection, lost, numbers, times_samples):
    weights = Weights(dict(zip(MEMBERS, map(float, numbers), strict=True)), times_samples)
    one, two = (open_view(protection, tap=losing(lost)) for _ in range(2))
    streamed = one.train_and_sum(0, root(), {"root": weights})["root"]
    updates = two.train(0, root())
    if not updates:
        assert isinstance(streamed, BelowFloor)
        return
    stored = two.sums(updates["root"], {"root": weights})["root"]
    assert type(streamed) is type(stored)
    assert (streamed.name, streamed.clients) == (stored.name, stored.clients)
    if isinstance(streamed, Sum):
        assert streamed.weight == pytest.approx(stored.weight)
        of = {i: weights.of[i] * (samples_of(i) if times_samples else 1) for i in updates["root"].clients}
        check_sum(one, streamed, {i: a for i, a in of.items() if a})
        assert np.array_equal(opened(one, streamed), opened(two, stored))


@pytest.mark.long
@pytest.mark.parametrize("transform", TRANSFORMS)
@given(data=st.data())
@settings(max_examples=10)
def test_larger_cohorts_with_sampled_dropouts_and_clusters(transform, data):
    clients = tuple(range(0, 60, 2))
    lost = data.draw(st.sets(st.sampled_from(clients), max_size=25))
    cut = data.draw(st.integers(1, 29))
    keys = data.draw(st.sampled_from(["run", "session"]))
    view = open_view(Permuted(transform, keys, floor=3), clients, losing(lost))
    work = {
        "a": Assignment(Model("init"), clients[:cut], clients[:cut]),
        "b": Assignment(Model("init"), clients[cut:], clients[cut:]),
    }
    for updates in view.train(0, work).values():
        answer = view.sums(updates, {updates.cluster: Weights(dict.fromkeys(clients, 1.0), True)})[updates.cluster]
        heard = tuple(i for i in work[updates.cluster].participants if i not in lost)
        assert updates.clients == heard
        row = {i: float(samples_of(i)) for i in heard}
        if not Rules(3).fit(row):
            assert isinstance(answer, BelowFloor)
        else:
            check_sum(view, answer, row)


@named([p for p in FULL if Functionality.COORDINATES in p.gives])
@given(st.sets(st.sampled_from(MEMBERS), max_size=3))
@settings(max_examples=10)
def test_the_median_of_coordinates_is_the_median_of_clear_coordinates(protection, lost):
    view = open_view(protection, tap=losing(lost))
    updates = view.train(0, root())["root"]
    answer = view.coordinates(updates, "median", lambda rows: np.median(rows, axis=0))
    expected = np.median(np.stack([update_of(i, 0) for i in updates.clients]), axis=0)
    assert answer.clients == updates.clients
    assert np.array_equal(opened(view, answer), expected.astype(np.float32))


@named([p for p in FULL if Functionality.GRAM_REMEMBER in p.gives])
@given(st.sets(st.sampled_from(MEMBERS), max_size=2), st.sets(st.sampled_from(MEMBERS), min_size=1))
@settings(max_examples=10)
def test_cosines_with_remembered_updates_are_those_of_clear_updates(protection, lost, kept):
    state = {"round": 0}
    view = open_view(protection, tap=lambda f: losing(lost)(f) if state["round"] else [f])
    first = view.train(0, root())["root"]
    remembered = view.remember(first, sorted(kept))
    view.harness.retire([Model("init")], [remembered])
    state["round"] = 1
    updates = view.train(1, root())["root"]
    cosines = view.cosines(updates, remembered)
    for row, i in enumerate(updates.clients):
        for column, j in enumerate(remembered.clients):
            a, b = update_of(i, 1).astype(np.float64), update_of(j, 0).astype(np.float64)
            expected = a @ b / (np.linalg.norm(a) * np.linalg.norm(b))
            assert abs(cosines[row, column] - expected) < 1e-4
    entry = view.record.log[-1]
    assert (entry.what, entry.recipient, entry.scalars) == ("gram(remember)", "server", cosines.size)
    assert entry.about == tuple(sorted({*updates.clients, *remembered.clients}))


@pytest.mark.long
@named([p for p in FULL if Functionality.GRAM_HISTORY in p.gives])
@given(st.sets(st.sampled_from(MEMBERS)), st.floats(-2, 2), st.lists(st.floats(-2, 2), min_size=5, max_size=5))
@settings(max_examples=10)
def test_sums_of_updates_of_several_rounds_compare_as_clear_ones(protection, some, decay, weights):
    view = open_view(protection)
    asked = [dict.fromkeys(MEMBERS[:3], 0.5), {i: w for i, w in zip(MEMBERS, weights, strict=True) if i in some}]
    kept, sums = None, {}
    for round, of in enumerate(asked):
        updates = view.train(round, root())["root"]
        kept = view.accumulate(updates, of, kept, decay=decay)
        sums = {i: decay * x for i, x in sums.items()}
        for i, w in of.items():
            sums[i] = sums.get(i, 0) + w * update_of(i, round).astype(np.float64)
        assert kept.clients == tuple(sorted(sums))
        new = np.stack([update_of(i, round).astype(np.float64) for i in updates.clients])
        rows = np.concatenate([new, np.stack([sums[i] for i in kept.clients])])
        np.testing.assert_allclose(view.gram_with(updates, kept), rows @ rows.T, atol=1e-4 * (1 + np.abs(rows @ rows.T).max()))
        entry = view.record.log[-1]
        assert (entry.what, entry.recipient, entry.scalars) == ("gram(history)", "server", len(rows) * (len(rows) + 1) // 2)
        assert entry.about == tuple(sorted({*updates.clients, *kept.clients}))
        alone = view.gram_with(replace(updates, clients=()), kept)
        np.testing.assert_allclose(alone, rows[5:] @ rows[5:].T, atol=1e-4 * (1 + np.abs(rows @ rows.T).max()))
        view.harness.retire([Model("init")], [kept])


@named(FULL)
def test_sums_of_several_rounds_are_refused_where_these_cannot_be_compared(protection):
    view = open_view(protection)
    updates = view.train(0, root())["root"]
    if Functionality.GRAM_HISTORY not in protection.gives:
        with pytest.raises(Refused, match=r"different (rounds|keys|sketches)|several rounds"):
            view.accumulate(updates, {1: 1.0})
        return
    kept = view.accumulate(updates, {1: 1.0, 2: 2.0})
    with pytest.raises(ValueError, match="finite"):
        view.accumulate(updates, {1: float("nan")}, kept)
    with pytest.raises(ValueError, match="finite"):
        view.accumulate(updates, {1: 1.0}, kept, decay=float("inf"))
    with pytest.raises(ValueError, match="a sum over all clients and sums of each"):
        view.accumulate(updates, {1: 1.0}, kept, together=True)
    assert view.accumulate(updates, {}, together=True).clients == ()
    with pytest.raises(Refused, match="survivors"):
        view.accumulate(updates, {99: 1.0}, kept)
    view.harness.retire([Model("init")], [])
    with pytest.raises(Refused, match="gone"):
        view.gram_with(view.train(1, root())["root"], kept)


@named(FULL)
def test_a_model_is_moved_on_along_its_way_from_another(protection):
    view = open_view(protection)
    updates = view.train(0, root())["root"]
    moved = view.advance(Model("init"), view.sums(updates, {"m": Weights(dict.fromkeys(MEMBERS, 1.0))})["m"])
    far = view.extrapolate(moved, Model("init"), 0.25)
    start, first = (view.harness.observe(m).astype(np.float64) for m in (Model("init"), moved))
    np.testing.assert_allclose(view.harness.observe(far), first + 0.25 * (first - start), atol=1e-6)
    np.testing.assert_array_equal(view.harness.observe(view.extrapolate(moved, moved, 3.0)), view.harness.observe(moved))
    with pytest.raises(ValueError, match="finite"):
        view.extrapolate(moved, Model("init"), float("nan"))
    if view.owner == "clients":
        assert far.name not in sides.models(view).held


def test_cosine_with_a_zero_update_is_zero():
    view = open_view(Plain(), work=lambda jobs: ((j.client, LocalWork(np.zeros(D, np.float32), 1)) for j in jobs))
    updates = view.train(0, root())["root"]
    assert not view.cosines(updates, view.remember(updates, MEMBERS)).any()


@named(FULL)
def test_rejected_updates_are_dropouts_that_are_recorded(protection):
    def work(jobs):
        for client, result in workers(jobs):
            vector = result.vector.copy()
            if client in (2, 4):
                vector[3] = np.nan if client == 2 else np.inf
            yield client, LocalWork(vector, result.samples)

    with np.errstate(invalid="ignore"):
        view = open_view(protection, work=work)
        updates = view.train(0, root())["root"]
    assert updates.clients == (1, 3, 5)
    assert sorted(f.blame for f in view.record.faults) == [2, 4]
    assert all("not finite" in f.reason for f in view.record.faults)
    check_sum(view, view.sums(updates, {"m": Weights(dict.fromkeys(MEMBERS, 1.0))})["m"], dict.fromkeys((1, 3, 5), 1.0))


@named(FULL)
def test_gradients_and_updates_of_one_round_are_two_things(protection):
    view = open_view(protection)
    both = {kind: view.train(0, root(), kind)["root"] for kind in ("gradient", "update")}
    for kind, updates in both.items():
        clear = np.stack([update_of(i, 0, kind) for i in MEMBERS]).astype(np.float64)
        assert np.allclose(view.gram(updates, origin=True).matrix, clear @ clear.T, atol=1e-3)
    one = view.sums(both["gradient"], {"m": Weights(dict.fromkeys(MEMBERS, 1.0))})["m"]
    two = view.sums(both["update"], {"m": Weights(dict.fromkeys(MEMBERS, 1.0))})["m"]
    assert one.name != two.name  # or the second would open as the first
    check_sum(view, two, dict.fromkeys(MEMBERS, 1.0))
    assert np.allclose(opened(view, one), sum(update_of(i, 0, "gradient") for i in MEMBERS), atol=1e-4)


@named(FULL)
def test_a_mean_moves_a_model_by_sum_over_weight_and_may_move_several(protection):
    view = open_view(protection)
    mean = view.sums(view.train(0, root())["root"], {"m": Weights(dict.fromkeys(MEMBERS, 1.0), True)})["m"]
    step = opened(view, mean) / mean.weight
    once = view.advance(Model("init"), mean)
    twice = view.advance(once, mean)
    assert np.allclose(view.harness.observe(once), INITIAL + step, atol=1e-5)
    assert np.allclose(view.harness.observe(twice), INITIAL + 2 * step, atol=1e-5)
    assert np.array_equal(view.harness.observe(Model("init")), INITIAL)


@named(FULL)
def test_clients_that_train_alone_tell_nobody(protection):
    view = open_view(protection)
    before, entries = view.record.traffic, len(view.record.log)
    alone = view.train_alone(0, {i: Model("init") for i in (1, 4)})
    assert (view.record.traffic, len(view.record.log)) == (before, entries)
    for i in (1, 4):
        assert np.array_equal(view.harness.observe(alone[i]), INITIAL + update_of(i, 0))
        assert alone[i].name not in sides.models(view).held


# --- floors, refusals -----------------------------------------------------------------------------------------------------


@named(FULL)
@pytest.mark.parametrize("floor", [1, 2, 3, 5, 6])
def test_below_the_floor_nothing_is_published(protection, floor):
    protection = type(protection)(**{**{f.name: getattr(protection, f.name) for f in fields(protection)}, "floor": floor})
    view = open_view(protection)
    updates = view.train(0, root())["root"]
    asked = {f"{n}": Weights(dict.fromkeys(MEMBERS[:n], 1.0)) for n in (4,)}
    asked["none"] = Weights({})
    asked["foreign"] = Weights({77: 1.0})
    entries = len(view.record.log)
    answers = view.sums(updates, asked)
    assert isinstance(answers["4"], Sum) == (floor <= 4)
    assert answers["none"] == BelowFloor("none@0", (), floor)
    assert answers["foreign"] == BelowFloor("foreign@0", (), floor)
    assert len(view.record.log) == entries + (floor <= 4)
    streamed = open_view(protection).train_and_sum(0, root(), {"root": Weights(dict.fromkeys(MEMBERS[:4], 1.0))})["root"]
    assert isinstance(streamed, Sum) == (floor <= 4)


@named(FULL)
def test_sums_that_differ_by_one_client_are_refused_in_one_call_and_across_calls(protection):
    everyone, without = Weights(dict.fromkeys(MEMBERS, 1.0)), Weights(dict.fromkeys(MEMBERS[:4], 1.0))
    view = open_view(protection)
    updates = view.train(0, root())["root"]
    entries = len(view.record.log)
    with pytest.raises(Refused, match="fewer than 2"):
        view.sums(updates, {"a": everyone, "b": without})
    assert len(view.record.log) == entries  # nothing was published, so either alone is still fine
    check_sum(view, view.sums(updates, {"a": everyone})["a"], dict.fromkeys(MEMBERS, 1.0))
    with pytest.raises(Refused, match="fewer than 2"):
        view.sums(updates, {"b": without})
    check_sum(view, view.sums(updates, {"a": everyone})["a"], dict.fromkeys(MEMBERS, 1.0))
    check_sum(view, view.sums(updates, {"c": Weights(dict.fromkeys(MEMBERS[:3], 1.0))})["c"], dict.fromkeys(MEMBERS[:3], 1.0))


@named([p for p in FULL if Functionality.COORDINATES in p.gives])
def test_order_statistics_count_in_the_span_check(protection):
    view = open_view(protection)
    updates = view.train(0, root())["root"]
    view.coordinates(updates, "median", lambda rows: np.median(rows, axis=0))
    with pytest.raises(Refused, match="fewer than"):
        view.sums(updates, {"b": Weights(dict.fromkeys(MEMBERS[:4], 1.0))})
    with pytest.raises(Refused, match="already published"):
        view.coordinates(updates, "again", lambda rows: rows.max(axis=0))


@named(FULL)
def test_updates_that_are_gone_are_refused(protection):
    view = open_view(protection)
    updates = view.train(0, root())["root"]
    view.train(1, root())
    ask = [
        lambda: view.gram(updates, origin=True),
        lambda: view.sums(updates, {"m": Weights(dict.fromkeys(MEMBERS, 1.0))}),
    ]
    if Functionality.COORDINATES in protection.gives:
        ask.append(lambda: view.coordinates(updates, "m", lambda rows: rows[0]))
    if Functionality.GRAM_REMEMBER in protection.gives:
        ask.append(lambda: view.remember(updates, [1]))
        with pytest.raises(Refused, match="survivors"):
            view.remember(view.train(4, root())["root"], [1, 99])
        ask.append(lambda: view.cosines(view.train(5, root())["root"], Remembered("gone", (1,))))
    for question in ask:
        with pytest.raises(Refused, match="gone"):
            question()
    last = view.train(6, root())["root"]
    view.harness.retire([Model("init")], [])
    with pytest.raises(Refused, match="gone"):
        view.gram(last, origin=True)


def test_session_keys_refuse_memory_and_rotations_refuse_coordinates():
    view = open_view(Permuted(keys="session"))
    updates = view.train(0, root())["root"]
    for question in (lambda: view.remember(updates, [1]), lambda: view.cosines(updates, Remembered("x", (1,)))):
        with pytest.raises(Refused, match="keys='run'"):
            question()
    view = open_view(Permuted(HadamardRotation))
    updates = view.train(0, root())["root"]
    with pytest.raises(Refused, match="permutation"):
        view.coordinates(updates, "median", lambda rows: rows[0])
    with pytest.raises(ValueError, match="run"):
        Permuted(keys="forever")
    with pytest.raises(ValueError, match="finite"):
        Weights({1: float("nan")})


def test_composition_is_checked_and_names_both_sides_and_what_fits():
    known = [Plain(), Permuted(), Permuted(keys="session"), Permuted(HadamardRotation)]
    check_composition("CFL", [Functionality.SUMS, Functionality.GRAM], Permuted(keys="session"), known)
    with pytest.raises(Refused) as failure:
        check_composition("Median", [Functionality.SUMS, Functionality.COORDINATES], known[3], known)
    text = str(failure.value)
    assert text == (
        "Median needs coordinates, which Permuted(transform=HadamardRotation) does not give;"
        " these would: Plain(); Permuted(); Permuted(keys='session')"
    )
    with pytest.raises(Refused, match=r"Tree needs gram\(remember\), .*; no protection gives all"):
        check_composition("Tree", [Functionality.GRAM_REMEMBER], known[2], [known[2]])


# --- what the server lacks ------------------------------------------------------------------------------------------------


def arrays_in(root_object):
    """Every float array in the object graph, and every stretch of bytes read as float32."""
    seen, todo = set(), [root_object]
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, (str, int, float, type(None), type)):
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            yield from thing.reshape(-1, thing.shape[-1]) if thing.ndim > 1 else [thing]
        elif isinstance(thing, bytes):
            if len(thing) % 4 == 0:
                yield np.frombuffer(thing, "<f4")
        elif isinstance(thing, dict):
            todo += [*thing.keys(), *thing.values()]
        elif isinstance(thing, (list, tuple, set, frozenset)):
            todo += thing
        elif is_dataclass(thing):
            todo += [getattr(thing, f.name) for f in fields(thing)]
        else:
            todo += list(getattr(thing, "__dict__", {}).values())


def two_rounds(protection, tap=None, seed=1, work=workers):
    """Two rounds with everything asked; returns the view and the last model."""
    view = open_view(protection, tap=tap, seed=seed, work=work)
    model = Model("init")
    for round in (0, 1):
        updates = view.train(round, root(model=model.name))["root"]
        view.gram(updates, origin=True)
        if Functionality.GRAM_REMEMBER in protection.gives:
            remembered = view.remember(updates, MEMBERS[:2])
        mean = view.sums(updates, {"m": Weights(dict.fromkeys(MEMBERS, 1.0), True)})["m"]
        model = view.advance(model, mean)
        if round == 0:
            view.harness.retire([Model("init"), model], [remembered] if Functionality.GRAM_REMEMBER in protection.gives else [])
    return view, model


def secret_vectors(view, model):
    """All that the server must not hold: models, clear updates, clear means, and the initial model moved by any of them."""
    secret = [view.harness.observe(model), *sides.client_models(view), *sides.client_means(view)]
    secret += [update_of(i, round) for i in MEMBERS for round in (0, 1)]
    return [v for v in secret if not np.array_equal(v, INITIAL)] + [INITIAL + v for v in secret]


@named(PROTECTIONS)
def test_the_server_holds_no_model_no_clear_update_and_no_transform(protection):
    frames = []
    view, model = two_rounds(protection, lambda f: frames.append(f) or [f])
    messages = [decode(f.data, f.sender, 1 << 20).message for f in frames]
    held = list(arrays_in([sides.server(view), messages]))
    uploads = [v for v in held if v.shape == (sides.part(view, Uploads).how.length,)]
    assert len(uploads) > 10  # the search finds what the server does hold
    for secret in secret_vectors(view, model):
        for vector in held:
            if vector.shape == secret.shape:
                assert not np.allclose(vector, secret, rtol=1e-3, atol=1e-4)
    wire = b"".join(f.data for f in frames)
    for secret in [INITIAL, *secret_vectors(view, model)]:
        assert secret.astype("<f4").tobytes()[:8] not in wire
    assert not sides.models(view).held
    assert not sides.models(view).means
    assert not any(isinstance(v, TRANSFORMS) for v in walk_types(sides.server(view)))


def walk_types(thing, depth=8):
    """Every object reachable from this one."""
    seen, todo = set(), [thing]
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, dict):
            todo += one.values()
        elif isinstance(one, (list, tuple)):
            todo += one
        elif is_dataclass(one) and not isinstance(one, type):
            todo += [getattr(one, f.name) for f in fields(one)]
        elif callable(one) and getattr(one, "__closure__", None):
            todo += [cell.cell_contents for cell in one.__closure__]
        else:
            todo += list(getattr(one, "__dict__", {}).values())


def test_the_search_finds_models_and_updates_where_there_is_no_protection():
    view, model = two_rounds(Plain(floor=2))
    held = list(arrays_in(sides.server(view)))
    for secret in [view.harness.observe(model), update_of(1, 1)]:
        assert any(v.shape == secret.shape and np.allclose(v, secret) for v in held)


@pytest.mark.parametrize("keys", ["run", "session"])
def test_the_server_sees_the_values_that_the_documents_admit(keys):
    """A permutation leaks the multiset of values, a signed one their magnitudes; a rotation neither."""
    for transform in TRANSFORMS:
        view = open_view(Permuted(transform, keys))
        updates = view.train(0, root())["root"]
        for i, row in zip(MEMBERS, sides.part(view, Uploads).rows(updates, MEMBERS), strict=True):
            clear = update_of(i, 0)
            assert not np.array_equal(row[:D], clear)
            values = np.array_equal(np.sort(row), np.sort(clear))
            magnitudes = np.array_equal(np.sort(np.abs(row)), np.sort(np.abs(clear)))
            assert (values, magnitudes) == (transform is Permutation, transform is not HadamardRotation)


def same_every_round(jobs):
    for job in jobs:
        yield job.client, LocalWork(update_of(job.client, 0), 10)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_session_keys_make_uploads_of_equal_updates_differ_and_run_keys_do_not(transform):
    for keys in ("run", "session"):
        view = open_view(Permuted(transform, keys), work=same_every_round)
        first, second = (sides.part(view, Uploads).rows(view.train(round, root())["root"], MEMBERS) for round in (0, 1))
        gradients = sides.part(view, Uploads).rows(view.train(1, root(), "gradient")["root"], MEMBERS)
        for a, b, c in zip(first, second, gradients, strict=True):
            assert np.array_equal(a, b) == (keys == "run")
            assert np.array_equal(b, c) == (keys == "run")
            if keys == "session":
                assert np.mean(a == b) < 0.5


def test_another_seed_gives_other_uploads_and_the_same_answers():
    views = [two_rounds(Permuted(SignedPermutation), seed=seed) for seed in (1, 2)]
    uploads = [sides.part(view, Uploads).held["root@1/update"].received[1][0] for view, _ in views]
    assert not np.array_equal(*uploads)
    assert np.array_equal(*(view.harness.observe(model) for view, model in views))


# --- the log, snapshots, repetition ---------------------------------------------------------------------------------------


@named(FULL)
def test_the_disclosure_log_counts_what_each_party_was_given(protection):
    view = open_view(protection, tap=losing({5}))
    updates = view.train(0, root())["root"]
    view.gram(updates, origin=True)
    view.sums(updates, {"m": Weights(dict.fromkeys((1, 2, 3), 1.0))})
    length = sides.part(view, Uploads).how.length
    found = [(e.round, e.recipient, e.what, e.about, e.scalars, e.bytes) for e in view.record.log]
    assert found == [
        (0, "clients", "roster", MEMBERS, 0, 0),
        (0, "server", "updates", (1, 2, 3, 4), 4 * (length + 1), 16 * (length + 1)),
        (0, "server", "gram", (1, 2, 3, 4), 10, 80),
        (0, "clients", "sums", (1, 2, 3), length, 4 * length),
    ]
    summary = totals(view.record.log)
    assert [row["what"] for row in summary["server"]] == ["updates", "gram"]
    assert [(row["what"], row["times"], row["scalars"]) for row in summary["clients"]] == [("roster", 1, 0), ("sums", 1, length)]
    seen = "everything" if isinstance(protection, Plain) else protection.transform.leak
    assert view.record.log[1].words == f"of each update: {seen}; and its sample count"
    assert view.record.log[1].as_dict()["about"] == (1, 2, 3, 4)
    streamed = open_view(protection)
    streamed.train_and_sum(0, root(), {"root": Weights(dict.fromkeys(MEMBERS, 1.0))})
    told = [(e.recipient, e.what) for e in streamed.record.log]
    assert told == [("clients", "roster"), ("server", "updates"), ("clients", "sums")]


@dataclass
class Recorder:
    """A tap that keeps every frame."""

    frames: list

    def __call__(self, frame):
        self.frames.append(frame)
        return [frame]


@named(FULL)
def test_a_run_is_a_function_of_its_inputs_to_the_byte(protection):
    runs = []
    for seed in (3, 3, 4):
        recorder = Recorder([])
        view, model = two_rounds(protection, recorder, seed)
        frames = [(f.sender, f.receiver, f.kind, f.data) for f in recorder.frames]
        assert view.record.traffic.messages == len(frames)
        assert view.record.traffic.bytes_up + view.record.traffic.bytes_down == sum(len(f[3]) for f in frames)
        runs.append((frames, view.harness.observe(model).tobytes(), view.record.log))
    assert runs[0] == runs[1]
    assert (runs[0][0] == runs[2][0]) == isinstance(protection, Plain)


@named(FULL)
def test_a_restored_view_continues_identically(protection):
    gives_memory = Functionality.GRAM_REMEMBER in protection.gives

    def one_round(view, round, model, remembered):
        updates = view.train(round, root(model=model.name))["root"]
        cosines = view.cosines(updates, remembered) if remembered else None
        mean = view.sums(updates, {"m": Weights(dict.fromkeys(MEMBERS, 1.0))})["m"]
        kept = view.remember(updates, (1, 3)) if gives_memory else None
        moved = view.advance(model, mean)
        view.harness.retire([moved], [kept] if kept else [])
        return moved, kept, cosines

    def finish(view, model, kept):
        recorder = Recorder([])
        sides.network(view)._tap = recorder
        model, kept, cosines = one_round(view, 1, model, kept)
        sent = [(f.number, f.sender, f.receiver, f.data) for f in recorder.frames]
        return (
            model,
            kept,
            view.harness.observe(model).tobytes(),
            cosines if cosines is None else cosines.tobytes(),
            sent,
            view.record.traffic,
        )

    view = open_view(protection)
    model, kept, _ = one_round(view, 0, Model("init"), None)
    snapshot = view.harness.save()
    straight = finish(view, model, kept)
    fresh = open_view(protection)
    fresh.harness.restore(snapshot, [kept] if kept else [])
    assert finish(fresh, model, kept) == straight
    view.harness.restore(snapshot, [kept] if kept else [])  # and the same view, taken back
    assert finish(view, model, kept) == straight


@named(FULL)
def test_a_round_that_broke_half_way_is_taken_back_by_restoring(protection):
    state = {"broken": False}

    def work(jobs):
        for k, result in enumerate(workers(jobs)):
            if state["broken"] and k == 2:
                raise RuntimeError("out of memory")
            yield result

    view = open_view(protection, work=work)
    snapshot = view.harness.save()
    half = view.train(0, root())["root"]
    view.sums(half, {"m": Weights(dict.fromkeys((1, 2), 1.0))})
    view.harness.restore(snapshot, [])
    with pytest.raises(Refused, match="gone"):
        view.gram(half, origin=True)
    state["broken"] = True
    with pytest.raises(RuntimeError, match="out of memory"):
        view.train(0, root())
    state["broken"] = False
    view.harness.save()
    view.harness.restore(snapshot, [])
    updates = view.train(0, root())["root"]
    answer = view.sums(updates, {"m": Weights(dict.fromkeys(MEMBERS, 1.0))})["m"]
    assert answer.name == "m@0"
    check_sum(view, answer, dict.fromkeys(MEMBERS, 1.0))


@pytest.mark.long
@named(FULL)
@given(st.lists(st.sampled_from(["pass", "pass", "pass", "drop", "replay", "late", "cut", "flip"]), min_size=60, max_size=60))
@settings(max_examples=15)
def test_whatever_the_network_does_an_answer_is_right_or_refused(protection, fates):
    """Frames that lie about a vector or name another mean are not tried: a server may publish what it likes."""

    def tap(frame):
        fate = fates[frame.number % len(fates)] if started else "pass"
        if fate == "flip" and frame.kind in ("Upload", "Task"):
            return [replace(frame, data=frame.data[:8] + bytes([frame.data[8] ^ 1]) + frame.data[9:])]  # in the session's digest
        return {
            "pass": [frame],
            "flip": [frame],
            "drop": [],
            "replay": [frame, frame],
            "late": [replace(frame, late=True)],
            "cut": [replace(frame, data=frame.data[:-1])],
        }[fate]

    started = False
    view = open_view(protection, tap=tap)
    started = True
    for round in (0, 1):
        for updates in view.train(round, root()).values():
            answer = view.sums(updates, {"m": Weights(dict.fromkeys(MEMBERS, 1.0))})["m"]
            if isinstance(answer, BelowFloor):
                assert len(updates.clients) < 2
                continue
            with suppress(Refused):  # where all that clients said of the model was lost
                check_sum(view, answer, dict.fromkeys(updates.clients, 1.0), round)
