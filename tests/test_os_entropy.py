"""Views on secrets of the operating system: no label has to draw the same bytes twice, and what must last is kept."""

from typing import Any

import numpy as np
import pytest

from cloister.crypto.entropy import Entropy, KeptEntropy, OsEntropy, SimulatedEntropy
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.view.answers import Assignment, Model, Sum, Updates, Weights
from cloister.protocol.view.protection import Protection, Setup
from cloister.protocol.view.work import LocalWork

CLIENTS, D = tuple(range(8)), 40
INIT = Model("init")
PROTECTIONS: dict[str, Protection] = {
    "plain": Plain(floor=2),
    "permuted": Permuted(floor=2),
    "masked": Masked(floor=2),
    "masked, run keys": Masked(floor=2, keys="run"),
    "encrypted": Encrypted(floor=2, k=16),
    "two servers": TwoServer(floor=2, k=40),
}
of_all = pytest.mark.parametrize("name", PROTECTIONS)


def vector(client: int, round: int) -> np.ndarray:
    group = np.random.default_rng(client % 2).standard_normal(D)
    return (group + np.random.default_rng([client, round]).standard_normal(D) / 4).astype(np.float32) / 8


def opened(name: str, entropy: Entropy) -> Any:
    def work(jobs: Any) -> Any:
        return ((job.client, LocalWork(vector(job.client, job.round), 10)) for job in jobs)

    return PROTECTIONS[name].open(Setup(bytes(16), np.zeros(D, np.float32), CLIENTS, work, entropy))


def trained(view: Any, round: int, clients: tuple[int, ...] = CLIENTS) -> Updates:
    found: Updates = view.train(round, {"all": Assignment(INIT, clients, CLIENTS)})["all"]
    return found


def kept(view: Any, updates: Updates) -> Any:
    """What later updates are compared with."""
    return view.edge(updates, updates.clients)


@pytest.mark.long
@of_all
def test_several_sums_of_one_update_are_answered_and_right(name: str) -> None:
    view = opened(name, OsEntropy())
    updates = trained(view, 0)
    asked = {"mean": Weights(dict.fromkeys(CLIENTS, 1.0)), "other": Weights({i: 1.0 + i % 2 for i in CLIENTS})}
    answers = view.sums(updates, asked)
    for which, answer in answers.items():
        assert isinstance(answer, Sum)
        weights = np.array([asked[which].of[i] for i in CLIENTS])
        mean = weights @ np.stack([vector(i, 0) for i in CLIENTS]) / weights.sum()
        assert np.abs(view.harness.observe(view.advance(INIT, answer)) - mean).max() < 1e-4
    assert not view.record.faults


@of_all
@pytest.mark.parametrize("entropy", [KeptEntropy, lambda *kept: SimulatedEntropy(3)], ids=["kept", "simulated"])
@pytest.mark.long
def test_a_view_that_goes_on_places_clients_as_one_that_never_stopped(name: str, entropy: Any) -> None:
    """Identical updates have a cosine of 1 to themselves, also across the pause."""
    view = opened(name, entropy())
    edge = kept(view, trained(view, 0))
    view.harness.retire([INIT], [edge])
    saved = view.harness.save()
    again = opened(name, entropy(dict(saved.secrets)))
    again.harness.restore(saved, [edge])
    assert again.record.traffic == view.record.traffic

    def found(of: Any) -> Any:
        later = of.train(1, {"all": Assignment(INIT, CLIENTS, CLIENTS)})["all"]
        return of.cosines(later, edge)

    one, other = found(view), found(again)
    assert one.shape == (len(CLIENTS), len(edge.clients))
    assert np.abs(one - other).max() < 0.01
    assert not again.record.faults


def test_without_what_was_kept_a_resumed_view_compares_nothing_with_anything() -> None:
    """What the test before would show if seeds were drawn anew."""
    view = opened("masked, run keys", OsEntropy())
    edge = kept(view, trained(view, 0))
    view.harness.retire([INIT], [edge])
    again = opened("masked, run keys", OsEntropy())
    again.harness.restore(view.harness.save(), [edge])
    one, other = (of.cosines(trained(of, 1), edge) for of in (view, again))
    assert np.abs(one - other).max() > 0.1


def test_what_is_kept_is_what_lasts_and_no_more() -> None:
    entropy = KeptEntropy()
    view = opened("masked", entropy)
    before = dict(entropy.kept)
    updates = trained(view, 0)
    view.gram(updates)
    view.sums(updates, {"mean": Weights(dict.fromkeys(CLIENTS, 1.0))})
    assert entropy.kept == before
    assert "kept" not in repr(entropy)
    with pytest.raises(ValueError, match="another size"):
        entropy.lasting(next(iter(before)), 7)
