"""The view under a key that clients share: what it answers under every loss, what it refuses, and what its server never holds."""

from dataclasses import replace

import numpy as np
import pytest

from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Encrypted, Plain
from cloister.protocol.core.errors import Refused, Silent
from cloister.protocol.drivers.dropouts import Dropouts
from cloister.protocol.encrypted import client as encrypted_client
from cloister.protocol.encrypted.holders import KEPT, PROVEN, Holders
from cloister.protocol.encrypted.similarities import EncryptedSimilarities
from cloister.protocol.messages import decode
from cloister.protocol.parts.gate import Rules
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Sum, Weights
from cloister.protocol.view.disclosure import totals
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.work import LocalWork

from . import sides
from .encrypted_session import made_once, reachable, secrets_in
from .encrypted_view import MEMBERS, D, check, losing, open_view, root, samples_of, update_of

pytestmark = pytest.mark.sweeps

STAGES = ("Ready", "OfferedKey", "EncryptedInput", "SumOpened")


@pytest.fixture(autouse=True)
def few_keys(monkeypatch):
    monkeypatch.setattr(encrypted_client.SecretContext, "generate", made_once)


@pytest.mark.parametrize("kind", STAGES)
@pytest.mark.parametrize("lost", [(), (3,), (1, 5), (1, 2, 3), MEMBERS], ids=str)
@pytest.mark.long
def test_a_sum_is_that_of_the_clients_it_names_whatever_is_lost(kind, lost):
    view = open_view(tap=losing(kind, lost))
    updates = view.train(0, root()).get("root")
    if updates is None:
        assert (kind, lost) == ("Ready", MEMBERS)
        return
    weights = {i: 1.0 if (len(kind) + len(lost)) % 2 == 0 else 10.0 + i for i in MEMBERS}
    answer = view.sums(updates, {"root": Weights(weights)})["root"]
    gone = set(lost) if kind in ("Ready", "EncryptedInput") else set()
    survivors = {i: a for i, a in weights.items() if i not in gone}
    unopened = kind == "SumOpened" and len(lost) > 2  # as many have to open it as a sum has clients
    if not Rules(3).fit(survivors) or unopened or (lost == MEMBERS and kind != "Ready"):
        assert isinstance(answer, BelowFloor)
        assert view.record.below_floor == [answer]
        known = {i: weights[i] for i in updates.clients}  # before anything was asked of them
        assert not Rules(3).fit(known) or view.record.faults
        return
    assert set(answer.clients) == set(MEMBERS) - gone
    check(view, answer, weights)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.long
def test_under_random_dropouts_every_answer_is_that_of_plain_for_the_same_survivors(seed):
    view = open_view(tap=Dropouts(MEMBERS, 2, seed))
    for round in range(2):
        answered = view.train(round, root())
        if "root" not in answered:
            continue
        updates = answered["root"]
        gram = view.gram(updates, origin=True)
        clear = np.stack([update_of(i, round) for i in gram.clients]).astype(np.float64)
        norms = np.linalg.norm(clear, axis=1)
        assert np.all(np.abs(gram.matrix - clear @ clear.T) <= gram.tolerance * np.outer(norms, norms))
        answer = view.sums(updates, {"m": Weights(dict.fromkeys(MEMBERS, 1.0))})["m"]
        if isinstance(answer, Sum):
            check(view, answer, dict.fromkeys(MEMBERS, 1.0), round=round)
        else:
            assert view.record.faults or len(updates.clients) < 3


def test_train_and_sum_adds_what_train_then_sums_adds_and_holds_nothing():
    seen = []

    def counting(jobs):
        for job in jobs:
            seen.append(sum(len(client.held) for client in sides.clients(view).parties.values()))
            yield job.client, LocalWork(update_of(job.client, job.round), samples_of(job.client))

    view = open_view(Encrypted(floor=2), work=counting)
    work = {name: Assignment(Model("init"), part, part) for name, part in {"a": (1, 2, 3), "b": (4, 5)}.items()}
    asked = {name: Weights(dict.fromkeys(a.members, 1.0)) for name, a in work.items()}
    together = view.train_and_sum(0, work, asked)
    for name, assignment in work.items():
        assert together[name].clients == assignment.members
        check(view, together[name], asked[name].of)
    assert seen == [0] * 5
    assert not any(client.held or client.promised for client in sides.clients(view).parties.values())


def test_small_and_differing_sums_are_refused():
    view = open_view()
    updates = view.train(0, root())["root"]
    assert isinstance(view.sums(updates, {"pair": Weights({1: 1.0, 2: 1.0})})["pair"], BelowFloor)
    everyone = dict.fromkeys(MEMBERS, 1.0)
    check(view, view.sums(updates, {"all": Weights(everyone)})["all"], everyone)
    with pytest.raises(Refused, match="fewer than 3 clients"):
        view.sums(updates, {"but one": Weights(dict.fromkeys(MEMBERS[1:], 1.0))})
    check(view, view.sums(updates, {"all": Weights(everyone)})["all"], everyone)
    assert not hasattr(view, "coordinates")
    assert isinstance(view.sums(updates, {"none": Weights({1: 1.0, 2: 1.0, 3: -2.0})})["none"], BelowFloor)


def test_sums_that_count_samples_are_refused_by_name_and_stand_in_nobodys_way():
    view = open_view()
    updates = view.train(0, root())["root"]
    everyone = dict.fromkeys(MEMBERS, 1.0)
    with pytest.raises(Refused, match="counts samples, which Encrypted cannot hold against its floor; set by_samples=False"):
        view.sums(updates, {"counted": Weights(everyone, times_samples=True), "all": Weights(everyone)})
    check(view, view.sums(updates, {"all": Weights(everyone)})["all"], everyone)
    with pytest.raises(Refused, match="counts samples"):
        view.train_and_sum(1, root(), {"root": Weights(everyone, times_samples=True)})


def test_what_cannot_be_encrypted_sits_out_and_is_recorded():
    def wild(jobs):
        for job in jobs:
            vector = update_of(job.client)
            vector[5] = {1: np.nan, 2: 5000.0}.get(job.client, 0.0)
            yield job.client, LocalWork(vector, 10)

    view = open_view(Encrypted(floor=2), work=wild)
    updates = view.train(0, root())["root"]
    assert updates.clients == (3, 4, 5)
    answer = view.sums(updates, {"a": Weights(dict.fromkeys(MEMBERS, 1.0))})["a"]
    assert answer.clients == (3, 4, 5)
    assert sorted(f.blame for f in view.record.faults if f.rejected) == [1, 2]
    tiny = open_view(work=lambda jobs: ((j.client, LocalWork(update_of(j.client) * np.float32(1e-12), 1)) for j in jobs))
    assert tiny.train(0, root()) == {}
    assert all("the norm is not 0" in f.reason for f in tiny.record.faults)


@pytest.mark.parametrize("keys", ["run", "session"])
@pytest.mark.parametrize("lost", [(), (1, 4)])
@pytest.mark.long
def test_inner_products_are_within_their_tolerance_and_norms_nearly_exact(keys, lost):
    view = open_view(Encrypted(keys=keys), tap=losing("EncryptedInput", lost))
    updates = view.train(0, root())["root"]
    gram = view.gram(updates, origin=True)
    assert gram.clients == tuple(i for i in MEMBERS if i not in lost)
    clear = np.stack([update_of(i) for i in gram.clients]).astype(np.float64)
    norms = np.linalg.norm(clear, axis=1)
    assert np.all(np.abs(gram.matrix - clear @ clear.T) <= gram.tolerance * np.outer(norms, norms))
    assert np.array_equal(gram.matrix, gram.matrix.T)
    assert np.abs(np.sqrt(np.diag(gram.matrix)) / norms - 1).max() < 0.6e-3
    sent = view.record.traffic.messages
    assert np.array_equal(gram.matrix, view.gram(updates, origin=True).matrix)
    assert view.record.traffic.messages == sent, "nothing is opened twice"
    gradients = view.train(0, root(), "gradient")["root"]
    clear = np.stack([update_of(i, 0, "gradient") for i in view.gram(gradients, origin=True).clients]).astype(np.float64)
    norms = np.linalg.norm(clear, axis=1)
    assert np.all(np.abs(view.gram(gradients, origin=True).matrix - clear @ clear.T) <= gram.tolerance * np.outer(norms, norms))


@pytest.mark.slow
def test_scores_that_nobody_opens_raise():
    view = open_view(tap=lambda f: [] if f.kind == "RoundedScores" else [f])
    updates = view.train(0, root())["root"]
    with pytest.raises(Silent, match="no client opened"):
        view.gram(updates, origin=True)
    view = open_view(tap=lambda f: [] if f.kind == "OfferedKey" else [f])
    with pytest.raises(Silent, match="no client made the key"):
        view.gram(view.train(0, root())["root"], origin=True)


def two_rounds(view, restored=None):
    """Cosines of round 1 to clients 1 and 3 of round 0, in a view that goes on or in `restored` from its snapshot."""
    first = view.train(0, root())["root"]
    kept = view.remember(first, (1, 3))
    mean = view.sums(first, {"m": Weights(dict.fromkeys(MEMBERS, 1.0))})["m"]
    model = view.advance(Model("init"), mean)
    view.harness.retire([model], [kept])
    if restored is not None:
        restored.harness.restore(view.harness.save(), [kept])
        view = restored
    second = view.train(1, root(model=model.name))["root"]
    return view, view.cosines(second, kept), view.harness.observe(model)


@pytest.mark.slow
def test_memory_compares_rounds_under_one_key_and_goes_on_in_a_restored_view():
    view, cosines, model = two_rounds(open_view())
    clear = np.stack([update_of(i, 1) for i in MEMBERS] + [update_of(i, 0) for i in (1, 3)]).astype(np.float64)
    lengths = np.linalg.norm(clear, axis=1)
    assert np.abs(cosines - (clear[:5] @ clear[5:].T) / np.outer(lengths[:5], lengths[5:])).max() < 6 * np.sqrt(2 / 45)
    assert view.record.log[-1].what == "gram(remember)"
    again, found, same = two_rounds(open_view(), open_view())
    assert np.abs(found - cosines).max() <= 1e-3  # a rounding apart, at most
    assert np.allclose(same, model, atol=1e-6)
    assert again.record.traffic.messages == view.record.traffic.messages
    kept = view.remember(view.train(2, root(model=sides.public_models(view)[0]))["root"], (1,))
    updates = view.train(3, root(model=sides.public_models(view)[0]))["root"]
    view.cosines(updates, kept)
    sides.part(view, EncryptedSimilarities).kept.clear()
    with pytest.raises(Refused, match="are gone"):
        view.cosines(updates, kept)


@pytest.mark.long
def test_keys_of_sessions_keep_nothing_across_rounds():
    assert Functionality.GRAM_REMEMBER not in Encrypted(keys="session").gives
    view = open_view(Encrypted(keys="session"))
    updates = view.train(0, root())["root"]
    with pytest.raises(Refused, match="keys='run'"):
        view.remember(updates, (1,))
    assert not hasattr(view, "accumulate")
    view.gram(updates, origin=True)
    assert {name.round for name in sides.part(view, Holders).keys} == {0}
    view.harness.retire([Model("init")], [])
    assert not sides.part(view, Holders).keys
    with pytest.raises(Refused, match="are gone"):
        view.gram(updates, origin=True)


def arrays_in(thing):
    for one in reachable(thing):
        if isinstance(one, np.ndarray):
            yield one
        elif isinstance(one, bytes) and len(one) == 4 * D:
            yield np.frombuffer(one, np.float32)


def correlated(array, clear):
    return array.shape == clear.shape and abs(np.corrcoef(array.astype(np.float64), clear)[0, 1]) > 0.9


@pytest.mark.long
def test_the_server_holds_no_update_no_model_no_seed_and_no_secret_key():
    heard = []

    def tap(frame):
        heard.append(frame)
        return [frame]

    view, _, model = two_rounds(open_view(tap=tap))
    view.gram(view.train(2, root(model=sides.public_models(view)[0]))["root"], origin=True)
    secret = [*(update_of(i, r) for i in MEMBERS for r in (0, 1)), model, *sides.client_means(view)]
    assert any(correlated(a, c) for a in arrays_in(sides.clients(view)) for c in secret), "the search would find one"
    assert not any(correlated(a, c) for a in arrays_in(sides.server(view)) for c in secret)
    assert not sides.models(view).held
    assert not sides.models(view).means
    assert not secrets_in(sides.server(view))
    assert secrets_in([sides.server(view), made_once()]), "the search would find one"
    seed = sides.part(view, Holders).parties[1].state.seed
    assert all(seed not in f.data for f in heard)
    wire = [decode(f.data, f.sender, len(f.data)).message for f in heard]
    assert not any(correlated(a, c) for a in arrays_in(wire) for c in secret)


@pytest.mark.long
def test_the_log_says_what_each_party_learned():
    view = open_view()
    updates = view.train(0, root())["root"]
    told = [(d.what, d.about, d.scalars) for d in view.record.log]
    assert told == [("roster", MEMBERS, 0), ("participation", updates.clients, 0)]
    view.gram(updates, origin=True)
    view.sums(updates, {"root": Weights(dict.fromkeys(MEMBERS, 1.0))})
    learned = {row["what"]: row["scalars"] for row in totals(view.record.log)["server"]}
    sketched = {"ciphertexts of update sketches": 0, "gram": 15}
    assert learned == {"participation": 0, **sketched, "ciphertexts of updates": 0}
    assert {row["what"]: row["scalars"] for row in totals(view.record.log)["clients"]} == {"roster": 0, "sums": D + 1}
    assert {row["what"]: row["scalars"] for row in totals(view.record.log)["key holder"]} == {"gram": 15}
    assert "the seed that every client holds" in view.record.log[2].words
    words = [row["words"] for row in totals(view.record.log)["server"]]
    assert len(set(words)) == len(words)  # each says of what it is


def test_parameters_that_make_no_sense_are_refused_and_the_floor_holds_in_clients():
    for bad in ({"floor": 1}, {"keys": "round"}, {"k": 0}, {"digits": 0}, {"digits": 5}):
        with pytest.raises(ValueError):
            Encrypted(**bad)
    assert sides.part(open_view(Encrypted(floor=4)), Holders).parties[1].state.policy.min_cohort == 4
    assert Encrypted().gives == Plain().gives - {
        Functionality.COORDINATES,
        Functionality.GRAM_HISTORY,
        Functionality.PAIRS,
        Functionality.REVISION,
        Functionality.FUSION,
    }


@pytest.mark.long
def test_a_handle_with_fewer_clients_compares_and_keeps_only_those():
    view = open_view()
    first = view.train(0, root())["root"]
    kept = view.remember(first, (1, 3, 5))
    fewer = replace(kept, clients=(3, 5))
    view.harness.retire([Model("init")], [fewer])
    second = view.train(1, root())["root"]
    assert view.cosines(second, fewer).shape == (5, 2)
    with pytest.raises(Refused, match="are gone"):
        view.cosines(second, kept)
    saved = view.harness.save().remembered  # ciphertexts, and the key that they are under
    assert set(saved) == {KEPT, PROVEN, *(f"{kept.name} of {i}" for i in (3, 5))}


def played(protection, algorithm, rounds):
    scenario = Scenario(
        name="small",
        data=Digits(),
        partition=LabelSwap(clients=6, groups=2, pairs=((1, 7), (3, 8)), shared_test=True),
        model=Mlp(hidden=(16,)),
        training=Training(epochs=3, batch=10, lr=0.1),
        algorithm=algorithm,
        protection=protection,
        rounds=rounds,
    )
    simulation = Simulation(scenario, None)
    for _ in range(rounds):
        simulation.step()
    return simulation


@pytest.mark.slow
@pytest.mark.trains
@pytest.mark.parametrize(
    "algorithm",
    [FedAvg(by_samples=False), CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.74), patience=1)],
    ids=["FedAvg", "CFL"],
)
def test_algorithms_run_as_under_plain_where_the_similarities_allow_one_answer(algorithm):
    ours, plain = (played(protection, algorithm, 3) for protection in (Encrypted(k=2048, floor=2), Plain(floor=2)))
    assert not ours.view.record.faults
    for mine, others in zip(ours.state.models, plain.state.models, strict=True):
        assert np.abs(ours.view.harness.observe(mine) - plain.view.harness.observe(others)).max() < 1e-6


def test_a_sum_that_one_member_says_it_opened_is_of_no_use():
    """It may be anything: who said so, and lent nothing, had the only model of the run, or of a group."""
    view = open_view(tap=lambda frame: [frame] if frame.kind != "SumOpened" or frame.sender == 3 else [])
    updates = view.train(0, root())["root"]
    answer = view.sums(updates, {"m": Weights(dict.fromkeys(MEMBERS, 1.0))})["m"]
    assert isinstance(answer, BelowFloor)
    assert any("failed at stage open: 1 of 3 were there" in fault.reason for fault in view.record.faults)
