"""What clients see of sums without any server, what came of a frame that was sent, and which runs claims about rosters are of."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloister.auditing.result import Audited
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.fesem import FeSEM
from cloister.fl.algorithms.pfed_graph import PFedGraph
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Dirichlet, LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Encrypted, Masked, Plain, TwoServer
from cloister.protocol.core.link import Frame
from cloister.protocol.drivers.dropouts import Dropouts
from cloister.threat_models.audit.experiment import QUICK
from cloister.threat_models.audit.observer import NETWORK, SERVER_ALONE, Observer, server_and
from cloister.threat_models.audit.own_part import left_alone
from cloister.threat_models.audit.participation import Disaggregation
from cloister.threat_models.audit.reading import uploads
from cloister.threat_models.audit.recorder import Recorder
from cloister.threat_models.audit.recording import load, save
from cloister.threat_models.audit.recovery import UpdateRecovery
from cloister.threat_models.audit.scoring import leakage
from cloister.threat_models.audit.stage import Stage, stages
from cloister.threat_models.audit.table import Row, rows
from cloister.threat_models.audit.uncovered import unclaimed
from cloister.threat_models.claims import CLAIMS
from cloister.threat_models.claims.runs import hidden_from

SMALL = Scenario(
    name="small",
    data=Digits(),
    partition=Dirichlet(clients=3, alpha=0.5),
    model=Mlp(hidden=(6,)),
    training=Training(epochs=1, batch=50, lr=0.1),
    algorithm=FedAvg(by_samples=False),
    protection=Plain(),
    rounds=3,
)
ONE, TWO = Observer(clients=frozenset({0})), Observer(clients=frozenset({0, 1}))
PROTECTIONS: dict[str, Any] = {"plain": Plain(), "masked": Masked(), "two servers": TwoServer(), "encrypted": Encrypted(k=64)}


def played(scenario: Scenario) -> Recorder:
    recorder = Recorder(scenario, None)
    assert [*recorder.rounds()]
    return recorder


def staged(scenario: Scenario) -> tuple[Stage, ...]:
    return tuple(one for one in stages(scenario, [0, 1], None) if isinstance(one, Stage))


def tried(scenario: Scenario, observers: Iterable[Observer], experiment: Any) -> list[Row]:
    return [*rows(staged(scenario), tuple(observers), (experiment,), CLAIMS, QUICK)]


# --- clients alone ---------------------------------------------------------------------------------------------------------


@pytest.mark.trains
@pytest.mark.parametrize("protection", PROTECTIONS)
def test_two_clients_of_three_know_the_thirds_updates(protection: str) -> None:
    scenario = replace(SMALL, protection=PROTECTIONS[protection])
    recorder = played(scenario)
    view = recorder.seen_by(TWO)
    assert len(view.sums) == scenario.rounds
    for s in view.sums:
        assert s.mean is not None
        own = sum(view.held[i].updates[s.round, "update"].astype(np.float64) for i in (0, 1))
        third = recorder.truth.updates[s.round, "update", 2]
        assert np.linalg.norm(3 * s.mean - own - third) < 1e-3 * np.linalg.norm(third)
    alone = recorder.seen_by(ONE)
    assert [s.round for s in alone.sums] == [s.round for s in view.sums]


@pytest.mark.trains
def test_an_audit_says_so_and_claims_nothing_against_it() -> None:
    one, two = tried(replace(SMALL, protection=Masked()), (ONE, TWO), UpdateRecovery())
    found = {row.observer: row for row in (one, two)}
    everything = found["clients 0, 1"].leakage
    assert everything is not None
    assert everything.value > 0.99
    assert not any(row.claims for row in found.values())


@pytest.mark.trains
def test_clients_are_told_no_sum_that_their_start_does_not_show() -> None:
    recorder = played(replace(SMALL, algorithm=FeSEM(models=2), partition=Dirichlet(clients=6, alpha=0.5), protection=Masked()))
    whole = {(s.round, s.cluster): s.mean for s in recorder.recorded.sums}
    for s in recorder.seen_by(ONE).sums:
        assert s.mean is not None
        assert s.energy is None
        assert np.allclose(s.mean, whole[s.round, s.cluster], atol=1e-3 * np.linalg.norm(s.mean))
    assert len(recorder.seen_by(ONE).sums) < len(whole)
    assert not recorder.seen_by(NETWORK).sums


@pytest.mark.trains
def test_of_samples_clients_are_not_told_how_many_there_are() -> None:
    recorder = played(replace(SMALL, algorithm=FedAvg(), partition=Dirichlet(clients=8, alpha=5.0), protection=TwoServer()))
    assert all(s.weight > 0 for s in recorder.seen_by(SERVER_ALONE).sums)
    told = recorder.seen_by(ONE).sums
    assert told
    assert all(s.weight == 0 for s in told)


@pytest.mark.trains
def test_masked_sums_that_count_samples_tell_clients_how_many_and_all_but_one_the_update_of_the_one() -> None:
    """Before: who of them weighs what was guessed, and no update was read."""
    few = replace(SMALL, partition=Dirichlet(clients=4, alpha=5.0), algorithm=FedAvg(), protection=Masked(floor=2), rounds=1)
    recorder = played(few)
    (told,) = recorder.seen_by(ONE).sums
    assert told.weight == pytest.approx(sum(len(c.train) for c in recorder.truth.population.clients.values()))
    view = recorder.seen_by(Observer(clients=frozenset({0, 1, 2})))
    ((key, left),) = left_alone(view)
    assert np.allclose(left, recorder.truth.updates[key], atol=1e-4)


@pytest.mark.parametrize(
    ("floor", "corrupt", "covered"),
    [(3, 0, 0), (3, 1, 1), (3, 2, 2), (4, 0, 1), (5, 0, 2), (2, 2, 0), (2, 5, 0), (4, 1, 2)],
)
def test_clients_are_covered_where_the_floor_leaves_three_others(floor: int, corrupt: int, covered: int) -> None:
    how = Masked(floor=floor, corrupt=corrupt)
    assert [hidden_from(count, how, FedAvg()) for count in (1, 2)] == [count <= covered for count in (1, 2)]


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_what_clients_know_of_skewed_sums_by_their_own_part_refutes_nothing(alpha: float) -> None:
    """Of five clients with unlike data two find more of some than the sums tell alone: no more than by what they put in."""
    chosen = replace(SMALL, partition=Dirichlet(clients=5, alpha=alpha), protection=Masked(floor=5))
    for row in tried(chosen, (ONE, TWO), UpdateRecovery()):
        if row.experiment == "updates":
            assert row.leakage is not None
            assert row.leakage.value > 0.02
            assert row.claims
            for one in row.claims:
                assert one.verdict != "refuted"
                assert one.upper is not None
                assert one.upper <= row.leakage.upper


@pytest.mark.long
@pytest.mark.trains
def test_the_same_claims_fall_where_clients_find_more_than_that() -> None:
    """The server's view, taken for the clients': of updates in clear."""
    chosen = replace(SMALL, partition=Dirichlet(clients=5, alpha=0.5), protection=Masked(floor=5))
    leaky = [replace(s, audited=replace(s.clear, public=s.audited.public)) for s in staged(chosen)]

    class Everything(UpdateRecovery):
        """Reads what the clients must not have."""

        def __call__(self, evidence: Any, truth: Any, budget: Any, rng: Any) -> Any:
            found = UpdateRecovery.__call__(self, evidence, truth, budget, rng)
            corrupt = bool(evidence.view.observer.clients) and len(evidence.view.frames) > 0
            return replace(found, values=np.ones(len(found.values))) if corrupt else found

    found = [row for row in rows(leaky, (TWO,), (Everything(),), CLAIMS, QUICK) if row.experiment == "updates"]
    assert [c.verdict for row in found for c in row.claims] == ["refuted"]


# --- frames ------------------------------------------------------------------------------------------------------------------


class Flips:
    """A network that flips a byte of client 0's uploads, and loses client 1's."""

    def __call__(self, frame: Frame, /) -> Iterable[Frame]:
        if frame.kind != "Upload" or frame.sender not in (0, 1):
            return (frame,)
        data = frame.data[:-3] + bytes([frame.data[-3] ^ 1]) + frame.data[-2:]
        return (replace(frame, data=data),) if frame.sender == 0 else ()


@pytest.mark.trains
def test_a_receivers_share_is_what_came(tmp_path: Path) -> None:
    scenario = replace(SMALL, partition=Dirichlet(clients=6, alpha=0.5), faults=Flips())
    recorder = played(scenario)
    sent = {(t, i): u for (t, _, i), u in uploads(recorder.seen_by(Observer(clients=frozenset({0, 1})))).items()}
    came = {(t, i): u for (t, _, i), u in uploads(recorder.seen_by(SERVER_ALONE)).items()}
    for t in range(scenario.rounds):
        assert np.array_equal(sent[t, 0].vector, recorder.truth.updates[t, "update", 0])
        assert not np.array_equal(came[t, 0].vector, sent[t, 0].vector)
        assert (t, 1) in sent
        assert (t, 1) not in came
    both = recorder.seen_by(server_and(2))
    assert len(both.frames) == len({id(f) for f in both.frames})
    assert len({f.data for f in both.frames if f.sender == 2 and f.kind == "Upload"}) == scenario.rounds
    save(recorder.recorded, tmp_path / "kept")
    again = load(tmp_path / "kept", scenario)
    for observer in (SERVER_ALONE, ONE, server_and(2), NETWORK):
        assert [*again.seen_by(observer).frames] == [*recorder.seen_by(observer).frames]
    assert [s.missing for s in again.sums] == [s.missing for s in recorder.recorded.sums]


@pytest.mark.trains
def test_nothing_is_read_of_uploads_that_were_lost() -> None:
    chosen = replace(SMALL, partition=Dirichlet(clients=8, alpha=0.5), faults=Dropouts(tuple(range(8)), 3, 0, latest=2))
    recorder = played(chosen)
    read = {(t, i) for t, _, i in uploads(recorder.seen_by(SERVER_ALONE))}
    summed = {(s.round, i) for s in recorder.recorded.sums for i in s.row}
    assert read == summed
    assert any(s.missing for s in recorder.recorded.sums)


@pytest.mark.trains
def test_a_server_knows_no_start_that_it_never_sent(tmp_path: Path) -> None:
    clients = LabelSwap(clients=8, groups=2, pairs=((1, 7), (3, 8)), shared_test=True)
    scenario = replace(SMALL, algorithm=PFedGraph(), partition=clients, protection=Masked())
    recorder = played(scenario)
    view = recorder.seen_by(SERVER_ALONE)
    assert {t for t, _ in view.models} == {0}
    assert len(recorder.recorded.starts) == 8 * scenario.rounds
    assert all(np.array_equal(start, view.public.initial) for start in view.models.values())
    assert {t for t, _ in recorder.sums_alone.models} == {0}
    save(recorder.recorded, tmp_path / "kept")
    assert load(tmp_path / "kept", scenario).seen_by(SERVER_ALONE).models.keys() == view.models.keys()
    clear = played(replace(scenario, protection=Plain()))
    assert len(clear.seen_by(SERVER_ALONE).models) == 8 * scenario.rounds
    assert len(played(replace(scenario, algorithm=FedAvg(by_samples=False))).seen_by(SERVER_ALONE).models) == 8 * scenario.rounds


# --- rosters -----------------------------------------------------------------------------------------------------------------


@pytest.mark.trains
@pytest.mark.long
def test_of_rosters_that_changed_nothing_is_claimed() -> None:
    everybody = replace(SMALL, partition=Dirichlet(clients=8, alpha=0.5), protection=Masked())
    silent = replace(everybody, faults=Dropouts(tuple(range(8)), 1, 0, latest=1))
    about = {"masked.disaggregation.server", "masked.counts.server"}
    for scenario, whole in ((everybody, True), (silent, False)):
        sums = played(scenario).recorded.sums
        assert all(not s.missing for s in sums) == whole
        missing = {c for one in unclaimed(CLAIMS, scenario.protection, scenario.algorithm, [sums]) for c in one.claims}
        assert (about & missing == set()) == whole
        (row,) = [r for r in tried(scenario, (SERVER_ALONE,), Disaggregation()) if r.experiment == "disaggregation"]
        assert {c.claim.id for c in row.claims} == ({"masked.disaggregation.server"} if whole else set())
        assert row.leakage is not None  # measured, claimed or not


# --- intervals ---------------------------------------------------------------------------------------------------------------


def test_from_three_seeds_on_intervals_are_over_runs() -> None:
    zeros, ones = np.zeros(60), np.ones(60)
    here, seeds = np.repeat([0.2, 0.3, 0.4], 20), np.repeat([0, 1, 2], 20).tolist()
    wide = leakage(here, zeros, ones, np.random.default_rng(0), seeds=seeds)
    narrow = leakage(here, zeros, ones, np.random.default_rng(0))
    assert wide.value == narrow.value == pytest.approx(0.3)
    assert (wide.low, wide.high) == (pytest.approx(0.2, abs=0.01), pytest.approx(0.4, abs=0.01))
    assert narrow.high - narrow.low < 0.06
    assert leakage(here, zeros, ones, np.random.default_rng(0), seeds=[s % 2 for s in seeds]).low == narrow.low


@pytest.mark.long
def test_runs_of_other_seeds_are_within_their_interval() -> None:
    """Leakage that differs from run to run by .04, and within by .05: how many of 100 audits of three have it within."""
    rng, within, before = np.random.default_rng(7), 0, 0
    for _ in range(100):
        here = np.clip(0.25 + rng.normal(0, 0.04, (3, 1)) + rng.normal(0, 0.05, (3, 20)), 0, 0.49).ravel()
        seeds = np.repeat([0, 1, 2], 20).tolist()
        after, old = (leakage(here, np.zeros(60), np.ones(60), rng, seeds=of) for of in (seeds, ()))
        within += after.low <= 0.25 <= after.high
        before += old.low <= 0.25 <= old.high
    assert within > before + 20
    assert within > 75


def test_a_picture_that_there_is_not_is_refused_by_its_name(tmp_path: Path) -> None:
    """Before: a TypeError, as `plot` took nothing."""
    with pytest.raises(ValueError, match=r"there is a picture of leakage, and none of 'x'"):
        Audited(tmp_path).plot("x")
