"""The view over two servers: what Plain answers for the survivors, within the stated tolerance, or a clean refusal."""

from contextlib import suppress
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.runs import checkpoint
from cloister.protocol import Plain, TwoServer
from cloister.protocol.core.errors import ProtocolError, Refused
from cloister.protocol.core.session import DEALER, SECOND_SERVER
from cloister.protocol.messages import decode
from cloister.protocol.two_servers.sharing import HeldShares
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Remembered, Sum, Traffic, Weights
from cloister.protocol.view.disclosure import totals
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Setup, check_composition
from cloister.protocol.view.work import LocalWork
from cloister.protocol.wire.codec import encode

from . import sides

RUN = bytes(range(16))
MEMBERS = tuple(range(1, 6))
FLOAT32 = 2.0**-23


def update_of(client, round, d, kind="update"):
    return np.random.default_rng([client, round, kind == "update"]).standard_normal(d).astype(np.float32)


def workers(jobs):
    for job in jobs:
        yield job.client, LocalWork(update_of(job.client, job.round, len(job.start), job.work), 10 + job.client)


def open_view(protection, d=37, tap=None, clients=MEMBERS, work=workers, seed=1):
    return protection.open(Setup(RUN, np.zeros(d, np.float32), clients, work, SimulatedEntropy(seed), tap))


def root(model="init", clients=MEMBERS):
    return {"root": Assignment(Model(model), clients, clients)}


def losing(clients, kind="ExplicitShare"):
    return lambda f: [] if f.kind in (kind, "Upload") and f.sender in clients else [f]


def mean_of(view, answer):
    sides.put_model(view, "zero", np.zeros_like(view.harness.observe(Model("init"))))
    return view.harness.observe(view.advance(Model("zero"), answer)).astype(np.float64)


def agree(view, other, answer, reference):
    """Whether two views gave the same answer, up to the stated errors."""
    assert type(answer) is type(reference)
    assert (answer.name, answer.clients) == (reference.name, reference.clients)
    if isinstance(answer, Sum):
        assert answer.recipient == "server"
        assert answer.weight == pytest.approx(reference.weight, rel=1e-12)
        found, expected = mean_of(view, answer), mean_of(other, reference)
        rounding = 2 * FLOAT32 * np.linalg.norm(expected) + 1e-7 * answer.tolerance
        assert np.linalg.norm(found - expected) <= answer.error + rounding
        assert abs(answer.norm - reference.norm) <= answer.error + rounding
        assert answer.error < 1e-4  # the bound says something


# --- the ideal functionality ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", list(product([None, "Task", "ExplicitShare", "KeyShare"], repeat=3)), ids=str)
def test_every_answer_is_that_of_plain_for_the_survivors(kinds):
    lost = {i: kind for i, kind in zip(MEMBERS, kinds, strict=False) if kind is not None}

    def tap(frame):
        return [] if lost.get(max(frame.sender, frame.receiver)) == frame.kind else [frame]

    view, plain = open_view(TwoServer(floor=3), tap=tap), open_view(Plain(floor=3), tap=losing(lost))
    updates, clear = (v.train(0, root())["root"] for v in (view, plain))
    assert updates == clear
    gram, exact = view.gram(updates, origin=True), plain.gram(clear, origin=True)
    norms = np.sqrt(np.diagonal(exact.matrix))
    assert gram.clients == exact.clients
    assert np.array_equal(gram.matrix, gram.matrix.T)
    assert (np.abs(gram.matrix - exact.matrix) <= (gram.tolerance + exact.tolerance) * np.outer(norms, norms)).all()
    assert gram.tolerance < 1e-5  # no projection at 37 coordinates
    asked = {
        "plain": Weights(dict.fromkeys(MEMBERS, 1.0)),
        "same": Weights(dict.fromkeys(MEMBERS, -2.0)),
        "few": Weights({1: 1.0, 5: 1.0}),
        "none": Weights({}),
        "zero": Weights({4: 1.0, 5: -1.0, 3: 0.0}),
    }
    answers, reference = view.sums(updates, asked), plain.sums(clear, asked)
    assert answers.keys() == reference.keys()
    for name in asked:
        agree(view, plain, answers[name], reference[name])
    assert [b.name for b in view.record.below_floor] == [b.name for b in plain.record.below_floor]


@pytest.mark.long
@given(st.sets(st.sampled_from(MEMBERS)), st.lists(st.floats(-3, 3, width=16), min_size=5, max_size=5), st.booleans())
@settings(max_examples=40)
def test_weighted_sums_are_those_of_plain_stored_or_streamed(lost, numbers, times_samples):
    weights = Weights(dict(zip(MEMBERS, numbers, strict=True)), times_samples)
    views = [open_view(p, tap=losing(lost)) for p in (TwoServer(), Plain(3), TwoServer())]
    view, plain, stored = views
    streamed = view.train_and_sum(0, root(), {"root": weights})["root"]
    reference = plain.train_and_sum(0, root(), {"root": weights})["root"]
    small = abs(sum(a * (10 + i if times_samples else 1) for i, a in weights.of.items() if i not in lost)) < 1
    if small:  # the error of a mean is that of the sum over its weight
        return
    agree(view, plain, streamed, reference)
    assert not sides.part(view, HeldShares).shares
    updates = stored.train(0, root())
    if updates:
        again = stored.sums(updates["root"], {"root": weights})["root"]
        assert again == streamed
        if isinstance(again, Sum):
            assert np.array_equal(mean_of(stored, again), mean_of(view, streamed))


@pytest.mark.parametrize("k", [64, 512])
def test_projected_inner_products_and_cosines_are_within_the_tolerance(k):
    d, clients = 6000, tuple(range(12))
    view = open_view(TwoServer(max_norm=256.0, k=k), d, clients=clients)
    plain = open_view(Plain(), d, clients=clients)
    kept = {}
    for v in (view, plain):
        first = v.train(0, root(clients=clients))["root"]
        kept[v] = v.remember(first, clients[:5])
        v.harness.retire([Model("init")], [kept[v]])
    found, exact = (v.train(1, root(clients=clients))["root"] for v in (view, plain))
    gram, reference = view.gram(found, origin=True), plain.gram(exact, origin=True)
    norms = np.sqrt(np.diagonal(reference.matrix))
    error = np.abs(gram.matrix - reference.matrix) / np.outer(norms, norms)
    assert 0.1 * gram.tolerance < error.max() <= gram.tolerance
    assert gram.tolerance < 6.1 * np.sqrt(2 / k) + 1e-4
    cosines = view.cosines(found, kept[view])
    assert cosines.shape == (12, 5)
    assert np.abs(cosines - plain.cosines(exact, kept[plain])).max() <= 3 * gram.tolerance
    assert view.gram(found, origin=True) is gram  # asked again, the answer is the same one, and nothing more is disclosed


def test_remembered_updates_are_compared_with_those_of_their_own_round_and_of_several():
    view = open_view(TwoServer())
    first = view.train(0, root())["root"]
    kept = view.remember(first, MEMBERS)
    own = view.cosines(first, kept)
    assert np.allclose(np.diagonal(own), 1.0)
    again = view.remember(first, (1, 2))
    view.harness.retire([Model("init")], [kept, again])
    second = view.train(1, root())["root"]
    assert view.cosines(second, kept).shape == (5, 5)
    assert np.allclose(view.cosines(second, kept)[:, :2], view.cosines(second, again))
    fewer = Remembered(kept.name, (2, 5))
    assert np.array_equal(view.cosines(second, fewer), view.cosines(second, kept)[:, (1, 4)])
    view.harness.retire([Model("init")], [fewer, again])
    third = view.train(2, root())["root"]
    assert view.cosines(third, fewer).shape == (5, 2)
    with pytest.raises(Refused, match="gone"):
        view.cosines(third, kept)
    view.harness.retire([Model("init")], [again])
    with pytest.raises(Refused, match="gone"):
        view.cosines(second, again)
    fourth = view.train(3, root())["root"]
    with pytest.raises(Refused, match="gone"):
        view.cosines(fourth, fewer)
    assert view.cosines(fourth, again).shape == (5, 2)
    assert len(view.helpers.parties[SECOND_SERVER].state.sessions) == 2


def test_the_cosine_with_a_zero_update_is_zero():
    view = open_view(TwoServer(), work=lambda jobs: ((j.client, LocalWork(np.zeros(37, np.float32), 1)) for j in jobs))
    updates = view.train(0, root())["root"]
    assert not view.cosines(updates, view.remember(updates, MEMBERS)).any()
    assert not view.gram(updates, origin=True).matrix.any()


def test_clusters_have_sessions_of_their_own():
    clients = tuple(range(8))
    work = {"a": Assignment(Model("init"), clients[:5], clients[:5]), "b": Assignment(Model("init"), clients[5:], clients[5:])}
    view, plain = open_view(TwoServer(), clients=clients), open_view(Plain(3), clients=clients)
    for name, updates in view.train(0, work).items():
        asked = {name: Weights(dict.fromkeys(clients, 1.0), times_samples=True)}
        reference = plain.train(0, {name: work[name]})[name]
        agree(view, plain, view.sums(updates, asked)[name], plain.sums(reference, asked)[name])
    streamed = view.train_and_sum(1, work, {c: Weights(dict.fromkeys(clients, 1.0)) for c in work})
    assert [s.clients for s in streamed.values()] == [clients[:5], clients[5:]]


# --- refusals -------------------------------------------------------------------------------------------------------------


def test_updates_out_of_bounds_are_dropouts_that_are_recorded():
    def work(jobs):
        for client, result in workers(jobs):
            vector = result.vector.copy()
            vector[3] = {2: np.nan, 4: 65.0}.get(client, vector[3])
            yield client, LocalWork(vector, result.samples)

    view = open_view(TwoServer(), work=work)
    updates = view.train(0, root())["root"]
    assert updates.clients == (1, 3, 5)
    assert [(f.blame, f.rejected) for f in view.record.faults] == [(2, True), (4, True)]
    assert all("not finite, or its norm exceeds max_norm=64.0" in f.reason for f in view.record.faults)


def rewriting(kind, change, senders):
    def tap(frame):
        if frame.kind != kind or frame.sender not in senders:
            return [frame]
        envelope = decode(frame.data, frame.sender, 1 << 24)
        return [replace(frame, data=encode(replace(envelope, message=change(envelope.message))))]

    return tap


def test_a_client_out_of_range_is_rejected_by_the_gram_matrix_and_stays_out_of_later_sums():
    tap = rewriting("KeyShare", lambda m: replace(m, key=bytes(32)), {2})
    view = open_view(TwoServer(), tap=tap)
    updates = view.train(0, root())["root"]
    assert updates.clients == MEMBERS
    kept = view.remember(updates, (2, 3))
    honest = (1, 3, 4, 5)
    gram = view.gram(updates, origin=True)
    assert gram.clients == honest
    clear = np.stack([update_of(i, 0, 37) for i in honest]).astype(np.float64)
    assert np.allclose(gram.matrix, clear @ clear.T, rtol=1e-4, atol=1e-4)
    assert [(f.blame, f.rejected) for f in view.record.faults] == [(2, True)]
    answer = view.sums(updates, {"m": Weights(dict.fromkeys(MEMBERS, 1.0))})["m"]
    assert answer.clients == honest
    assert np.allclose(mean_of(view, answer), clear.mean(axis=0), atol=1e-5)
    cosines = view.cosines(updates, kept)
    assert np.isnan(cosines[1]).all()
    assert not cosines[(0, 2, 3, 4), 0].any()
    assert np.allclose(cosines[2, 1], 1.0)
    assert len(view.record.faults) == 1


def test_a_sum_spoilt_by_a_client_out_of_range_is_not_published():
    view = open_view(TwoServer(), tap=rewriting("KeyShare", lambda m: replace(m, key=bytes(32)), {2}))
    updates = view.train(0, root())["root"]
    answer = view.sums(updates, {"m": Weights(dict.fromkeys(MEMBERS, 1.0))})["m"]
    assert isinstance(answer, BelowFloor)
    assert "out of range" in view.record.faults[-1].reason
    assert not sides.models(view).means


def test_sums_that_differ_by_few_clients_are_refused_in_one_call_and_across_calls():
    view = open_view(TwoServer())
    updates = view.train(0, root())["root"]
    everyone, without = Weights(dict.fromkeys(MEMBERS, 1.0)), Weights(dict.fromkeys(MEMBERS[:4], 1.0))
    before = len(view.record.log)
    with pytest.raises(Refused, match="fewer than 3"):
        view.sums(updates, {"a": everyone, "b": without})
    assert len(view.record.log) == before
    view.sums(updates, {"a": everyone})
    with pytest.raises(Refused, match="fewer than 3"):
        view.sums(updates, {"b": without})
    assert isinstance(view.sums(updates, {"again": everyone})["again"], Sum)
    assert not view.record.faults  # the view asks the second server nothing that it would refuse


def test_servers_that_do_not_mean_the_same_floor_have_no_survivors():
    view = open_view(TwoServer(floor=2))
    second = view.helpers.parties[SECOND_SERVER]
    second.state = replace(second.state, terms=replace(second.state.terms, floor=4))
    updates = view.train(0, root())
    assert updates == {}  # other terms bind other shares
    assert all("other terms" in f.reason for f in view.record.faults if f.blame >= 0)


def test_a_network_that_loses_questions_ends_in_refusals_that_name_the_party():
    state = {"lost": ()}
    view = open_view(TwoServer(), tap=lambda f: [] if f.kind in state["lost"] else [f])
    updates = view.train(0, root())["root"]
    for kind, blame in (("GramAnswer", SECOND_SERVER), ("TripleRequest", DEALER), ("Coin", SECOND_SERVER)):
        state["lost"] = (kind,)
        with pytest.raises(ProtocolError, match="not answered") as failure:
            view.gram(updates, origin=True)
        assert failure.value.blame == blame
    state["lost"] = ("SumAnswer",)
    weights = {"m": Weights(dict.fromkeys(MEMBERS, 1.0))}
    assert isinstance(view.sums(updates, weights)["m"], BelowFloor)
    assert view.record.faults[-1].blame == SECOND_SERVER
    state["lost"] = ()
    assert isinstance(view.sums(updates, weights)["m"], Sum)
    assert view.gram(updates, origin=True).clients == MEMBERS
    state["lost"] = ("Agreed",)
    assert view.train(1, root()) == {}
    assert "did not say" in view.record.faults[-1].reason


def test_too_many_projected_questions_about_one_update_are_refused_and_say_what_helps():
    view = open_view(TwoServer(k=16), d=60)
    first = view.train(0, root())["root"]
    kept = view.remember(first, (1, 2))
    view.harness.retire([Model("init")], [kept])
    for round in range(1, 3):
        view.cosines(view.train(round, root())["root"], kept)
    with pytest.raises(Refused, match="k=60"):
        view.cosines(view.train(3, root())["root"], kept)
    assert not view.record.faults
    generous = open_view(TwoServer(k=60), d=60)
    kept = generous.remember(generous.train(0, root())["root"], (1, 2))
    for round in range(1, 6):
        generous.cosines(generous.train(round, root())["root"], kept)


def test_coordinates_are_refused_and_the_composition_says_so():
    view = open_view(TwoServer())
    assert not hasattr(view, "coordinates")
    assert Functionality.COORDINATES not in TwoServer().gives
    check_composition("FLIC", [Functionality.GRAM_REMEMBER, Functionality.SUMS], TwoServer(), [])
    with pytest.raises(Refused, match="coordinates"):
        check_composition("Median", [Functionality.COORDINATES], TwoServer(), [Plain()])
    updates = view.train(0, root())["root"]
    with pytest.raises(Refused, match="survivors"):
        view.remember(updates, [99])
    assert not hasattr(view, "accumulate")
    for question in (lambda: view.gram(updates), lambda: view.sums(updates, {}), lambda: view.remember(updates, [1])):
        view.harness.retire([Model("init")], [])
        with pytest.raises(Refused, match="gone"):
            question()
    with pytest.raises(Refused, match="gone"):
        view.cosines(view.train(1, root())["root"], Remembered("gone", (1,)))


@pytest.mark.parametrize(
    ("changes", "match"), [({"k": 7}, "even"), ({"k": 0}, "even"), ({"max_norm": -1.0}, "max_norm"), ({"floor": 1}, "floor")]
)
def test_parameters_that_cannot_be_are_refused_when_the_scenario_is_built(changes, match):
    with pytest.raises(ValueError, match=match):
        TwoServer(**changes)


# --- the log, and resuming ------------------------------------------------------------------------------------------------


def test_the_log_says_what_every_party_learned():
    view = open_view(TwoServer(), tap=losing({5}))
    updates = view.train(0, root())["root"]
    view.gram(updates, origin=True)
    view.sums(updates, {"m": Weights(dict.fromkeys((1, 2, 3), 1.0))})
    found = [(e.recipient, e.what, e.about, e.scalars) for e in view.record.log]
    assert found == [
        ("server", "updates", (1, 2, 3, 4), 4),
        ("second server", "updates", (1, 2, 3, 4), 0),
        ("clients", "roster", MEMBERS, 0),
        ("server", "gram", (1, 2, 3, 4), 10),
        ("second server", "gram", (1, 2, 3, 4), 0),
        ("dealer", "gram", (), 1),
        ("server", "sums", (1, 2, 3), 37),
        ("second server", "sums", (1, 2, 3), 3),
        ("clients", "sums", (1, 2, 3), 37),
    ]
    summary = totals(view.record.log)
    assert list(summary) == ["server", "second server", "dealer", "clients"]
    assert all(row["words"] for rows in summary.values() for row in rows)
    assert list(totals([])) == ["server", "clients"]


def play(view, rounds, model, kept):
    """Rounds with everything asked; returns all that was answered."""
    found = []
    for round in rounds:
        updates = view.train(round, root(model.name))["root"]
        cosines = view.cosines(updates, kept) if kept is not None else np.zeros(0)
        mean = view.sums(updates, {"m": Weights(dict.fromkeys(MEMBERS, 1.0))})["m"]
        kept = view.remember(updates, (1, 3))
        model = view.advance(model, mean)
        view.harness.retire([model], [kept])
        found += [cosines.tobytes(), view.harness.observe(model).tobytes()]
    return model, kept, found


@pytest.mark.parametrize("k", [16, 4096])
def test_a_restored_view_continues_identically_to_the_byte(k, tmp_path):
    def recorded(view, *rest):
        frames = []
        sides.network(view)._tap = lambda f: frames.append((f.number, f.sender, f.receiver, f.data)) or [f]
        return play(view, *rest), frames, view.record.traffic

    view = open_view(TwoServer(k=k), d=80)
    model, kept, _ = play(view, (0, 1), Model("init"), None)
    folder = checkpoint.write(tmp_path, checkpoint.Checkpoint(2, {}, view.harness.save(), {}, {}))
    snapshot = checkpoint.read(folder).snapshot
    straight = recorded(view, (2, 3), model, kept)
    fresh = open_view(TwoServer(k=k), d=80)
    fresh.harness.restore(snapshot, [kept])
    assert recorded(fresh, (2, 3), model, kept) == straight
    view.harness.restore(snapshot, [kept])
    assert recorded(view, (2, 3), model, kept) == straight


def test_a_round_that_broke_half_way_is_taken_back():
    state = {"broken": False}

    def work(jobs):
        for number, result in enumerate(workers(jobs)):
            if state["broken"] and number == 2:
                raise RuntimeError("out of memory")
            yield result

    view = open_view(TwoServer(), work=work)
    snapshot = view.harness.save()
    state["broken"] = True
    with pytest.raises(RuntimeError, match="memory"):
        view.train(0, root())
    state["broken"] = False
    view.harness.restore(snapshot, [])
    answer = view.sums(view.train(0, root())["root"], {"m": Weights(dict.fromkeys(MEMBERS, 1.0))})["m"]
    expected = np.mean([update_of(i, 0, 37) for i in MEMBERS], axis=0)
    assert np.allclose(mean_of(view, answer), expected, atol=1e-5)


def test_a_run_is_a_function_of_its_inputs_to_the_byte_and_counts_its_traffic():
    runs = []
    for seed in (3, 3, 4):
        frames = []
        view = open_view(TwoServer(k=16), d=80, seed=seed, tap=lambda f, kept=frames: kept.append(f) or [f])
        play(view, (0, 1), Model("init"), None)
        up = sum(len(f.data) for f in frames if f.sender >= 0)
        down = sum(len(f.data) for f in frames if f.receiver >= 0)
        assert view.record.traffic == Traffic(len(frames), up, down)
        assert sides.network(view).bytes_between == sum(len(f.data) for f in frames) - up - down
        assert up == pytest.approx(2 * 5 * 80 * 8, rel=0.4)
        runs.append([(f.sender, f.receiver, f.data) for f in frames])
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


@pytest.mark.long
@given(st.lists(st.sampled_from(["pass"] * 8 + ["drop", "replay", "late", "cut"]), min_size=40, max_size=80))
@settings(max_examples=40)
def test_whatever_the_network_does_an_answer_is_right_or_refused(fates):
    def tap(frame):
        return {
            "pass": [frame],
            "drop": [],
            "replay": [frame, frame],
            "late": [replace(frame, late=True)],
            "cut": [replace(frame, data=frame.data[:-1])],
        }[fates[frame.number % len(fates)]]

    view = open_view(TwoServer(), tap=tap)
    for round in (0, 1):
        for updates in view.train(round, root()).values():
            clear = {i: update_of(i, round, 37).astype(np.float64) for i in updates.clients}
            with suppress(ProtocolError):  # not answered
                gram = view.gram(updates, origin=True)
                rows = np.stack([clear[i] for i in gram.clients])
                assert gram.clients == updates.clients
                assert np.allclose(gram.matrix, rows @ rows.T, atol=1e-3)
            answer = view.sums(updates, {"m": Weights(dict.fromkeys(MEMBERS, 1.0))})["m"]
            if isinstance(answer, Sum):
                assert answer.clients == updates.clients
                assert np.allclose(mean_of(view, answer), np.mean(list(clear.values()), axis=0), atol=1e-4)
        view.harness.retire([Model("init")], [])
