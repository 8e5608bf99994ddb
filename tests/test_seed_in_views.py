"""Views whose clients share a seed: they open when some are silent, and draw nothing twice to get the same."""

import numpy as np
import pytest

from cloister.crypto.entropy import OsEntropy, SimulatedEntropy
from cloister.protocol import Encrypted, Masked, Permuted
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.pairs.choices import PerClient
from cloister.protocol.parts.clients import UNMADE
from cloister.protocol.view.answers import Assignment, Model, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork

from . import pairs_sample
from .test_group_seed import KINDS

MEMBERS, D = tuple(range(1, 9)), 24
PROTECTIONS = (Permuted(), Masked(), Encrypted())
named = pytest.mark.parametrize("protection", PROTECTIONS, ids=lambda p: type(p).__name__)


def vector(client):
    return np.random.default_rng(client).standard_normal(D).astype(np.float32) / 8


def opened(protection, tap=None, entropy=None, run=bytes(16)):
    def work(jobs):
        return ((job.client, LocalWork(vector(job.client), 10)) for job in jobs)

    return protection.open(Setup(run, np.zeros(D, np.float32), MEMBERS, work, entropy or SimulatedEntropy(1), tap))


def check_a_round(view, clients):
    updates = view.train(0, {"root": Assignment(Model("init"), MEMBERS, MEMBERS)})["root"]
    assert updates.clients == clients
    answer = view.sums(updates, {"m": Weights(dict.fromkeys(clients, 1.0))})["m"]
    model = view.advance(Model("init"), answer)
    np.testing.assert_allclose(view.harness.observe(model), np.mean([vector(i) for i in clients], axis=0), atol=1e-4)


def without(*silent):
    return lambda frame: [] if {frame.sender, frame.receiver} & set(silent) else [frame]


@named
@pytest.mark.parametrize("silent", [1, 4])
def test_a_client_that_is_silent_stops_nobody_else(protection, silent):
    view = opened(protection, without(silent))
    assert [(f.blame, f.reason) for f in view.record.faults] == [(silent, f"client {silent} lacks the group seed")]
    check_a_round(view, tuple(i for i in MEMBERS if i != silent))


@named
def test_a_client_without_a_seat_holds_no_model_and_trains_none_alone(protection):
    """The lowest one, which whoever looks at a model of all clients asks first."""
    view = opened(protection, without(1))
    initial = view.harness.observe(Model("init"))
    assert not initial.any()
    trained = view.train_alone(0, dict.fromkeys(MEMBERS, Model("init")))
    assert trained[1] == Model("init")
    unmade = [fault for fault in view.record.faults if fault.reason == UNMADE]
    assert [(fault.blame, fault.rejected) for fault in unmade] == [(1, False)]  # before: its vector was said to be not finite
    for i in MEMBERS[1:]:
        assert np.allclose(view.harness.observe(trained[i]), vector(i))
    again = view.train_alone(1, trained)
    assert np.allclose(view.harness.observe(again[2]), 2 * vector(2))
    view.harness.retire([Model("init")], [])
    view.harness.restore(view.harness.save(), [])
    check_a_round(view, MEMBERS[1:])


@named
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_client_silent_at_one_message_while_the_view_opens_stops_nobody_else(protection, kind):
    view = opened(protection, lambda f: [] if f.kind == kind and 1 in (f.sender, f.receiver) else [f])
    assert {f.blame for f in view.record.faults} <= {1}


@named
def test_a_view_opens_when_more_than_half_hold_the_seed_and_not_before(protection):
    assert {f.blame for f in opened(protection, without(6, 7, 8)).record.faults} == {6, 7, 8}
    with pytest.raises(ProtocolError, match="0 of 8 clients hold the group seed, 5 must"):
        opened(protection, without(5, 6, 7, 8))


@named
def test_under_secrets_of_the_operating_system_rounds_are_right(protection):
    view = opened(protection, entropy=OsEntropy(), run=OsEntropy().secret("run", 16))
    check_a_round(view, MEMBERS)
    assert not view.record.faults


class Labels:
    """Secrets of the operating system, and which labels they were asked for under."""

    def __init__(self):
        self.drawn = []

    def secret(self, label, size):
        self.drawn.append(label)
        return OsEntropy().secret(label, size)

    lasting = secret


@named
def test_no_label_is_drawn_twice_in_a_round(protection):
    entropy = Labels()
    check_a_round(opened(protection, entropy=entropy), MEMBERS)
    assert len(set(entropy.drawn)) == len(entropy.drawn) > 8


def test_the_seeds_of_sums_and_pairs_differ_and_no_label_of_either_is_the_others(monkeypatch):
    entropy = Labels()
    monkeypatch.setattr(pairs_sample, "SimulatedEntropy", lambda _: entropy)
    view = pairs_sample.opened(Masked(floor=2, sketch=8))
    answers = pairs_sample.ask(view, PerClient())
    assert answers.accepts == pairs_sample.expected()
    assert len(set(entropy.drawn)) == len(entropy.drawn)
    sessions = {label.split()[2] for label in entropy.drawn if label.startswith("group seed ")}
    assert len(sessions) == 2
