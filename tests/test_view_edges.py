"""The edges of what a view can be asked, alike under every protection: handles that are gone, few clients, odd weights."""

from dataclasses import replace

import numpy as np
import pytest

from cloister.crypto.additive import difference
from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.errors import ProtocolError, Refused
from cloister.protocol.two_servers import asking as two_server_asking
from cloister.protocol.two_servers.run import gram
from cloister.protocol.two_servers.sharing import HeldShares
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Remembered, Sum, Updates, Weights
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork

from . import sides

RUN = bytes(range(16))
INIT = Model("init")
RUN_KEYS = Masked(keys="run", sketch=1024)
PROTECTIONS = (Plain(floor=3), Permuted(floor=3), Masked(), RUN_KEYS, Encrypted(), TwoServer())
HELD = (Masked(), RUN_KEYS, Encrypted())

every_protection = pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
REMEMBERING = [p for p in PROTECTIONS if Functionality.GRAM_REMEMBER in p.gives]
every_remembering = pytest.mark.parametrize("protection", REMEMBERING, ids=repr)


def update_of(client, round, d):
    return (0.3 * np.random.default_rng([client, round]).standard_normal(d)).astype(np.float32)


def works(jobs):
    for job in jobs:
        yield job.client, LocalWork(update_of(job.client, job.round, len(job.start)), 5 + job.client)


def everyone(n):
    return {"root": Assignment(INIT, tuple(range(n)), tuple(range(n)))}


def equal(n):
    return {"mean": Weights(dict.fromkeys(range(n), 1.0))}


def opened(protection, n=5, d=20, workers=works, tap=None):
    view = protection.open(Setup(RUN, np.zeros(d, np.float32), tuple(range(n)), workers, SimulatedEntropy(1), tap))
    return view, view.train(0, everyone(n))["root"]


def moved(view, answer):
    return view.harness.observe(view.advance(INIT, answer)).astype(np.float64)


# --- handles ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
@every_protection
@pytest.mark.parametrize("unknown", [False, True], ids=["retired", "never there"])
def test_updates_that_are_gone_are_refused_in_one_line(protection, unknown):
    view, updates = opened(protection)
    view.gram(updates, origin=True)
    if unknown:
        updates = Updates("other@0/update", "other", 0, updates.clients, updates.members)
    else:
        view.harness.retire([INIT], [])
    questions = (
        lambda: view.sums(updates, equal(5)),
        lambda: view.gram(updates, origin=True),
        *([lambda: view.remember(updates, [0, 1])] if protection in REMEMBERING else []),
        *([lambda: view.keep(updates, [0, 1])] if protection in REMEMBERING or protection == Masked() else []),
    )
    for question in questions:
        with pytest.raises(Refused, match="gone; ask in the round") as refusal:
            question()
        assert "\n" not in str(refusal.value)


@every_protection
def test_models_and_means_that_are_gone_are_refused_in_one_line(protection):
    view, updates = opened(protection)
    mean = view.sums(updates, equal(5))["mean"]
    model = view.advance(INIT, mean)
    view.harness.retire([model], [])
    for question in (
        lambda: view.advance(INIT, mean),
        lambda: view.harness.observe(INIT),
        lambda: view.train(1, everyone(5)),
        lambda: view.train_and_sum(1, everyone(5), {"root": equal(5)["mean"]}),
        lambda: view.train_alone(1, {0: INIT}),
    ):
        with pytest.raises(Refused, match="the model init is gone"):
            question()
    with pytest.raises(Refused, match="the mean mean@0 is gone"):
        view.advance(model, mean)


@pytest.mark.long
@every_remembering
def test_remembered_updates_that_nobody_knows_are_forgotten_and_refused(protection):
    view, updates = opened(protection)
    kept = view.remember(updates, (0, 1))
    stranger = Remembered("nobody's", (0, 1))
    view.harness.retire([INIT], [stranger, kept, Remembered(kept.name, (0,))])
    again = view.train(1, everyone(5))["root"]
    view.gram(again, origin=True)
    for handle in (stranger, Remembered(kept.name, (0, 4))):
        with pytest.raises(Refused, match="are gone"):
            view.cosines(again, handle)


@every_remembering
@pytest.mark.long
def test_a_handle_on_nobodys_updates_is_kept_saved_and_compared(protection):
    view, updates = opened(protection)
    nobody, some = view.remember(updates, ()), view.remember(updates, (0, 1))
    view.harness.save()
    fewer = Remembered(some.name, ())
    view.harness.retire([INIT], [nobody, fewer])
    snapshot = view.harness.save()
    view.harness.restore(snapshot, [nobody, fewer])
    later = view.train(1, everyone(5))["root"]
    assert view.cosines(later, nobody).shape == view.cosines(later, fewer).shape == (5, 0)


@pytest.mark.long
@every_protection
def test_asked_twice_in_a_round_clients_answer_once_and_the_first_handle_stays_good(protection):
    view, updates = opened(protection)
    assert view.train(0, everyone(5)) == {}
    answer = view.sums(updates, equal(5))["mean"]
    expected = np.mean([update_of(i, 0, 20) for i in range(5)], axis=0)
    assert np.allclose(moved(view, answer), expected, atol=1e-5)
    assert view.train(0, {"root": Assignment(INIT, (0, 1), (0, 1))}) == {}
    assert view.gram(updates, origin=True).clients == tuple(range(5))


@pytest.mark.parametrize("protection", HELD, ids=lambda p: type(p).__name__)
def test_a_handle_that_another_session_took_the_name_of_is_refused(protection):
    clients = tuple(range(8))
    view = protection.open(Setup(RUN, np.zeros(20, np.float32), clients, works, SimulatedEntropy(1)))
    first = view.train(0, {"root": Assignment(INIT, clients[:4], clients)})["root"]
    second = view.train(0, {"root": Assignment(INIT, clients[4:], clients)})["root"]
    with pytest.raises(Refused, match="gone"):
        view.sums(first, equal(8))
    assert view.sums(second, equal(8))["mean"].clients == clients[4:]


# --- few clients, few coordinates -------------------------------------------------------------------------------------


@pytest.mark.long
@every_protection
@pytest.mark.parametrize("n", [1, 2, 3])
def test_one_two_or_three_clients(protection, n):
    view, updates = opened(protection, n)
    gram = view.gram(updates, origin=True)
    assert gram.clients == tuple(range(n))
    assert gram.matrix.shape == (n, n)
    answer = view.sums(updates, equal(n))["mean"]
    assert type(answer) is (Sum if n == 3 else BelowFloor)
    assert bool(view.record.below_floor) == (n < 3)
    view.harness.retire([INIT], [])
    streamed = view.train_and_sum(1, everyone(n), {"root": equal(n)["mean"]})["root"]
    assert type(streamed) is (Sum if n == 3 else BelowFloor)


@every_protection
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.long
def test_updates_of_one_two_or_three_coordinates(protection, d):
    view, updates = opened(protection, d=d)
    answer = view.sums(updates, equal(5))["mean"]
    rows = np.stack([update_of(i, 0, d) for i in range(5)]).astype(np.float64)
    assert np.allclose(moved(view, answer), rows.mean(axis=0), atol=1e-5)
    if d == 1 and protection in HELD:
        with pytest.raises(Refused, match="a single coordinate"):
            view.gram(updates, origin=True)
        return
    gram = view.gram(updates, origin=True)
    norms = np.linalg.norm(rows, axis=1)
    assert (np.abs(gram.matrix - rows @ rows.T) <= gram.tolerance * np.outer(norms, norms) + 1e-6).all()
    if protection in REMEMBERING:
        cosines = view.cosines(updates, view.remember(updates, updates.clients))
        assert np.allclose(np.diagonal(cosines), 1.0, atol=1e-3)


# --- weights, and updates of nothing ----------------------------------------------------------------------------------


@every_protection
@pytest.mark.parametrize(
    "of", [dict.fromkeys(range(5), 0.0), {0: 1.0, 1: -1.0, 2: 2.0, 3: -2.0}, {77: 1.0, 78: 1.0, 79: 1.0}, {}], ids=str
)
def test_weights_of_nothing_sum_nothing(protection, of):
    view, updates = opened(protection)
    before = len(said(view))
    assert isinstance(view.sums(updates, {"m": Weights(of)})["m"], BelowFloor)
    assert not any(entry.what == "sums" for entry in view.record.log[before:])


@every_protection
@pytest.mark.parametrize("eps", [0.5, 1e-3, 1e-12, 1e-40])
def test_a_sum_that_shows_one_client_however_faintly_the_others_is_below_the_floor(protection, eps):
    for of in ({0: 1.0, 1: eps, 2: eps, 3: -eps, 4: eps}, {0: eps, 1: 1 / eps, 2: 1.0, 3: 1e-40, 4: -3.0}):
        view, updates = opened(protection)
        before = len(said(view))
        assert view.sums(updates, {"m": Weights(of)})["m"] == view.record.below_floor[-1] == BelowFloor("m@0", tuple(range(5)), 3)
        assert not any(entry.what == "sums" for entry in view.record.log[before:])


@every_protection
@pytest.mark.parametrize("eps", [0.1, 1e-6, 1e-12])
def test_sums_whose_difference_shows_one_client_are_refused(protection, eps):
    view, updates = opened(protection)
    row = {0: 1.0 + eps, **dict.fromkeys(range(1, 5), 1.0)}
    near = {"near": Weights(row)}
    if protection == TwoServer() and eps < 2.0**-32:  # weights are whole numbers there, and these are the same
        assert len(set(sides.part(view, HeldShares).terms.weigh(row)[0].values())) == 1
        return
    with pytest.raises(Refused, match="outweighs"):
        view.sums(updates, equal(5) | near)
    assert isinstance(view.sums(updates, equal(5))["mean"], Sum)
    with pytest.raises(Refused, match="outweighs"):
        view.sums(updates, near)


@every_protection
@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_weights_of_any_scale_are_the_sum_within_its_stated_error(protection, unit):
    of = {i: a * unit for i, a in {0: 1.0, 1: -0.7, 2: 0.9, 3: 1e-40, 4: 0.9}.items()}
    view, updates = opened(protection)
    answer = view.sums(updates, {"m": Weights(of)})["m"]
    assert answer.clients == tuple(range(5))
    rows = {i: update_of(i, 0, 20).astype(np.float64) for i in of}
    expected = sum(a * rows[i] for i, a in of.items()) / sum(of.values())
    scale = sum(abs(a) * np.linalg.norm(rows[i]) for i, a in of.items()) / sum(of.values())
    bound = answer.error + (answer.tolerance + 2.0**-22) * scale
    assert np.linalg.norm(moved(view, answer) - expected) <= bound < 1e-4


@pytest.mark.parametrize("largest", [1e308, 1e-310, -1e300, float("nan"), float("inf")])
def test_weights_whose_totals_no_protocol_can_hold_are_no_weights(largest):
    with pytest.raises(ValueError, match="weight"):
        Weights({0: largest, 1: 0.5 * largest, 2: 0.0})


@every_protection
@pytest.mark.long
def test_updates_of_zero(protection):
    def zeros(jobs):
        return ((job.client, LocalWork(np.zeros(len(job.start), np.float32), 1)) for job in jobs)

    view, updates = opened(protection, workers=zeros)
    assert not view.gram(updates, origin=True).matrix.any()
    if protection in REMEMBERING:
        assert not view.cosines(updates, view.remember(updates, updates.clients)).any()
    answer = view.sums(updates, equal(5))["mean"]
    assert np.linalg.norm(moved(view, answer)) <= answer.error + 1e-12


@pytest.mark.long
@every_protection
def test_updates_that_are_not_finite_are_left_out_and_recorded(protection):
    def broken(jobs):
        for client, result in works(jobs):
            vector = result.vector.copy()
            vector[1] = {2: np.nan, 3: -np.inf}.get(client, vector[1])
            yield client, LocalWork(vector, result.samples)

    view, updates = opened(protection, workers=broken)
    assert updates.clients == (0, 1, 4)
    assert [(fault.blame, fault.rejected) for fault in view.record.faults] == [(2, True), (3, True)]
    assert view.sums(updates, equal(5))["mean"].clients == (0, 1, 4)
    assert np.isfinite(view.gram(updates, origin=True).matrix).all()


# --- the log is complete also where an answer failed ------------------------------------------------------------------


def said(view):
    """All but the rosters, of which each client is told its own with its task."""
    return [(entry.recipient, entry.what, entry.about) for entry in view.record.log if entry.what != "roster"]


def losing(kind, *senders):
    return lambda frame: [] if frame.kind == kind and (not senders or frame.sender in senders) else [frame]


def test_two_servers_log_what_they_were_sent_also_of_those_who_did_not_survive():
    def works_too_far(jobs):
        return ((i, LocalWork(r.vector * (1000 if i == 4 else 1), r.samples)) for i, r in works(jobs))

    view, _ = opened(TwoServer(), workers=works_too_far, tap=losing("KeyShare", 2))
    assert said(view) == [
        ("server", "updates", (0, 1, 2, 3)),
        ("server", "updates withheld", (4,)),
        ("second server", "updates", (0, 1, 3)),
    ]
    view = TwoServer().open(Setup(RUN, np.zeros(20, np.float32), (0, 1, 2), works, SimulatedEntropy(1), losing("Agreed")))
    assert view.train(0, everyone(3)) == {}
    assert said(view) == [("server", "updates", (0, 1, 2))]


def test_two_servers_log_what_the_helpers_learned_of_a_question_without_answer():
    view, updates = opened(TwoServer(), tap=lambda f: [] if f.kind in ("SumAnswer", "GramAnswer") else [f])
    before = len(said(view))
    assert isinstance(view.sums(updates, equal(5))["mean"], BelowFloor)
    with pytest.raises(ProtocolError, match="not answered"):
        view.gram(updates, origin=True)
    assert said(view)[before:] == [
        ("second server", "sums", tuple(range(5))),
        ("second server", "gram", tuple(range(5))),
        ("dealer", "gram", ()),
    ]


@pytest.mark.parametrize(("kind", "told"), [("SumOpened", True), ("EncryptedSum", False)])
def test_an_encrypted_sum_that_members_opened_in_vain_is_in_the_log(kind, told):
    view, updates = opened(Encrypted(), tap=losing(kind))
    assert isinstance(view.sums(updates, equal(5))["mean"], BelowFloor)
    assert [(who, what) for who, what, _ in said(view)] == [
        ("server", "participation"),
        ("server", "ciphertexts of updates"),
        *([("clients", "sums")] if told else []),
    ]


def test_a_masked_sum_whose_weights_turn_out_to_cancel_is_in_the_log():
    """Counts that the server does not know make the total weight 0: there is no mean, and yet it has the sum."""

    def alike(jobs):
        return ((job.client, LocalWork(update_of(job.client, 0, len(job.start)), 7)) for job in jobs)

    view, updates = opened(Masked(), workers=alike)
    weights = Weights({0: 1.0, 1: -1.0, 2: 1.0, 3: -1.0}, times_samples=True)
    assert isinstance(view.sums(updates, {"m": weights})["m"], BelowFloor)
    four = (0, 1, 2, 3)
    weighed = [("server", "weights", four), ("clients", "weights", four)]
    assert said(view) == [("server", "participation", tuple(range(5))), *weighed, ("server", "sums", four)]


# --- a first server that deviates -------------------------------------------------------------------------------------


def test_a_first_server_that_shifts_its_opening_reads_updates_as_the_specification_says(monkeypatch):
    """Two servers are honest but curious: offsets in E_S give linear functionals, here coordinate 4 of everybody's update."""
    view, updates = opened(TwoServer())
    collected, terms = sides.part(view, HeldShares).shares[updates.name], sides.part(view, HeldShares).terms
    rows = [((collected.session.digest, i), share) for i, (share, _) in sorted(collected.received.items())]

    def asked(number, offset):
        def shifted(shares, triple):
            honest = difference(shares, triple)
            return replace(honest, values=honest.values + offset)

        monkeypatch.setattr(two_server_asking, "difference", shifted)
        return gram(sides.network(view), view.helpers.everybody, terms, RUN, number, rows, SimulatedEntropy(9)).gram

    unit = np.zeros((5, 20), np.uint64)
    plain = asked(0, unit)
    unit[0, 4] = 1
    found = (asked(1, unit) - plain)[0, 1:] * sides.part(view, HeldShares).terms.step
    assert np.allclose(found, [update_of(i, 0, 20)[4] for i in range(1, 5)], atol=1e-6)


# --- sample counts that cannot be -----------------------------------------------------------------------------------------


@pytest.mark.long
@every_protection
@pytest.mark.parametrize("count", [0, -3, 2**40 + 1, 2.5, True], ids=str)
def test_a_client_whose_sample_count_cannot_be_sits_out_and_the_others_are_summed(protection, count):
    def lying(jobs):
        for client, work in works(jobs):
            yield client, LocalWork(work.vector, count if client == 2 else 50 + client)

    view, updates = opened(protection, workers=lying)
    assert updates.clients == (0, 1, 3, 4)
    assert [(fault.blame, "number of samples" in fault.reason) for fault in view.record.faults] == [(2, True)]
    by_samples = replace(equal(5)["mean"], times_samples=True)
    if protection == Encrypted():
        with pytest.raises(Refused, match="counts samples, which Encrypted cannot hold against its floor"):
            view.sums(updates, {"mean": by_samples})
        by_samples = equal(5)["mean"]
    mean = view.sums(updates, {"mean": by_samples})["mean"]
    assert mean.clients == (0, 1, 3, 4)
    assert mean.weight == pytest.approx(50 + 51 + 53 + 54 if by_samples.times_samples else 4, rel=1e-3)
    later = view.train_and_sum(1, everyone(5), {"root": by_samples})["root"]
    assert later.clients == (0, 1, 3, 4)


# --- losses between sums of the same updates ------------------------------------------------------------------------------


@pytest.mark.long
def test_members_are_not_sent_a_sum_that_shows_single_clients_because_another_was_lost():
    """Half of client 0 less half of client 1 would be the difference, were it not for clients 4 and 5, which fall silent."""
    sent = []

    def tap(frame):
        sent.append(frame.kind)
        return [] if frame.kind == "EncryptedInput" and frame.sender in (4, 5) else [frame]

    view, updates = opened(Encrypted(floor=2), n=6, tap=tap)
    first = view.sums(updates, {"first": Weights(dict.fromkeys(range(6), 1.0))})["first"]
    assert first.clients == (0, 1, 2, 3)
    sums = sent.count("EncryptedSum")
    second = view.sums(updates, {"second": Weights({0: 1.5, 1: 0.5, 2: 1.0, 3: 1.0, 4: 1.0, 5: 1.0})})["second"]
    assert isinstance(second, BelowFloor)
    assert sent.count("EncryptedSum") == sums
    assert [f.reason for f in view.record.faults][-1] == "the encrypted sum second@0 failed at stage leverage: 4 of 6 were there"
    again = view.sums(updates, {"again": Weights(dict.fromkeys(range(4), 2.0))})["again"]  # tells nothing new
    assert again.clients == (0, 1, 2, 3)
