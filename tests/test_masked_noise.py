"""Masked sums with noise in a view: what is added, what it costs each client, what is refused, what it leaves uncovered."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cloister as face
from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.robust.averages import NormBound
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.robust.similarity import FoolsGold
from cloister.fl.robust.weiszfeld import GeometricMedian
from cloister.fl.runs.experiment import run
from cloister.fl.runs.feasibility import Doubt, doubts
from cloister.fl.runs.scenario import Scenario, changed, described
from cloister.fl.runs.summing_up import borne_out
from cloister.protocol import Masked
from cloister.protocol.core.errors import PAST_BUDGET, Refused
from cloister.protocol.core.link import Frame
from cloister.protocol.masked.gaussian_solver import Target, solve
from cloister.protocol.masked.input import InputTerms
from cloister.protocol.masked.masking import MaskedSessions
from cloister.protocol.masked.noise import Noise
from cloister.protocol.masked.shape import Shape
from cloister.protocol.masked.view import MaskedView
from cloister.protocol.privacy.gaussian import gaussian_epsilon
from cloister.protocol.privacy.ledger import Ledger
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Sum, Weights
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork
from cloister.reporting.report import write_report

from . import sides

D = 90
RUN = bytes(range(16))
INITIAL = np.zeros(D, np.float32)
MEMBERS = tuple(range(1, 9))
NOISE = Noise(epsilon=6.0, delta=1e-4, rounds=3, l2=0.5)
NOISY = Masked(noise=NOISE)
COST = {"clients": 8, "corrupt": 0, "dropouts": 2, "d": D, "l2": 0.5, "ring_bits": 32, "overflow": 1e-6}
TARGET = Target(epsilon=6.0, delta=1e-4, rounds=3, adjacency="zero out", **COST)  # type: ignore[arg-type]


def update_of(client: int, round: int = 0) -> Any:
    return (np.random.default_rng([client, round]).standard_normal(D) / 20).astype(np.float32)  # within l2


def workers(jobs: Any) -> Any:
    for job in jobs:
        yield job.client, LocalWork(update_of(job.client, job.round), 10)


def open_view(protection: Masked = NOISY, tap: Any = None, seed: int = 1, work: Any = workers) -> MaskedView:
    return protection.open(Setup(RUN, INITIAL, MEMBERS, work, SimulatedEntropy(seed), tap))


def root(members: tuple[int, ...] = MEMBERS) -> dict[str, Assignment]:
    return {"root": Assignment(Model("init"), members, members)}


def uniform(members: tuple[int, ...] = MEMBERS) -> Weights:
    return Weights(dict.fromkeys(members, 1.0))


def summed(view: MaskedView, round: int, members: tuple[int, ...] = MEMBERS) -> Sum | BelowFloor:
    return view.train_and_sum(round, root(members), {"root": uniform(members)})["root"]


def mean_in(view: MaskedView, answer: Sum) -> Any:
    return view.harness.observe(view.advance(Model("init"), answer)).astype(np.float64)


def losing(kind: str, clients: set[int]) -> Callable[[Frame], list[Frame]]:
    return lambda frame: [] if frame.kind == kind and frame.sender in clients else [frame]


def epsilon_of(survivors: tuple[int, ...], clients: int = 8) -> float:
    """Of sums of so many survivors each, by the protocol's own release and a fresh ledger."""
    p = solve(replace(TARGET, clients=clients, dropouts=clients // 4))
    ledger = Ledger(0, "client", "zero out", 100.0, 1e-4)
    for count in survivors:
        ledger = ledger + p.release(count, "zero out")
    return ledger.spent


# --- what is added ------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_sum_is_the_mean_of_the_survivors_under_noise_of_the_stated_deviation() -> None:
    p = solve(TARGET)
    found = []
    for seed in range(12):
        view = open_view(tap=losing("MaskedInput", {3}), seed=seed)
        answer = summed(view, 0)
        assert isinstance(answer, Sum)
        assert answer.clients == tuple(i for i in MEMBERS if i != 3)
        assert answer.weight == 7
        assert answer.noise == pytest.approx(p.granularity * (p.variance / 7) ** 0.5)
        assert answer.error < answer.noise / 50, "rounding is no part of the noise"
        found.append((mean_in(view, answer) - np.mean([update_of(i) for i in answer.clients], axis=0)) / answer.noise)
    noise = np.array(found).ravel()
    assert noise.std() == pytest.approx(1, abs=4 / (2 * noise.size) ** 0.5)
    assert abs(noise.mean()) < 4 / noise.size**0.5


def test_longer_updates_are_scaled_down_to_the_norm_and_no_clip_is_asked() -> None:
    def wild(jobs: Any) -> Any:
        return ((job.client, LocalWork(update_of(job.client) * 1e5, 10)) for job in jobs)

    view = open_view(Masked(noise=replace(NOISE, epsilon=1e5, rounds=1)), work=wild)
    answer = summed(view, 0)
    assert isinstance(answer, Sum)
    short = [update_of(i) / np.linalg.norm(update_of(i)) / 2 for i in MEMBERS]
    assert np.linalg.norm(mean_in(view, answer) - np.mean(short, axis=0)) < answer.error + 6 * answer.noise * D**0.5
    assert answer.noise < 1e-3
    assert not view.record.faults


def test_any_equal_weights_give_the_same_mean() -> None:
    view = open_view()
    updates = view.train(0, root())["root"]
    answer = view.sums(updates, {"a": Weights(dict.fromkeys(MEMBERS, -2.5))})["a"]
    assert isinstance(answer, Sum)
    assert answer.weight == -20
    assert np.linalg.norm(mean_in(view, answer) - np.mean([update_of(i) for i in MEMBERS], axis=0)) < 6 * answer.noise * D**0.5


# --- what it costs ------------------------------------------------------------------------------------------------------------


def test_epsilon_is_that_of_the_ledger_module_and_dropouts_raise_it() -> None:
    view = open_view()
    assert all(ledger.spent == 0 for ledger in view.record.ledgers.values())
    summed(view, 0)
    assert view.record.ledgers.keys() == {(i, "client") for i in MEMBERS}
    for ledger in view.record.ledgers.values():
        assert ledger.spent == epsilon_of((8,))
    seven = open_view(tap=losing("MaskedInput", {3}))
    summed(seven, 0)
    spent = {i: ledger.spent for (i, _), ledger in seven.record.ledgers.items()}
    assert spent.pop(3) == epsilon_of((6,)), "who sent an input and signed nothing keeps what it reserved"
    assert set(spent.values()) == {epsilon_of((7,))}
    assert epsilon_of((8,)) < epsilon_of((7,)) < epsilon_of((6,))


def test_the_target_holds_with_all_the_dropouts_that_it_was_solved_for_and_not_a_round_longer() -> None:
    view = open_view(tap=losing("MaskedInput", {3, 5}))
    for round in range(3):
        assert isinstance(summed(view, round), Sum)
    assert all(5.9 < ledger.spent <= 6 for ledger in view.record.ledgers.values())
    before, log = view.record.ledgers, list(view.record.log)
    assert isinstance(summed(view, 3), BelowFloor)
    late = [fault for fault in view.record.faults if "past its budget of 6 at delta 0.0001" in fault.reason]
    assert {fault.blame for fault in late} == set(MEMBERS)
    assert not any("\n" in fault.reason for fault in late)
    assert view.record.ledgers == before
    assert [d.what for d in view.record.log[len(log) :]] == ["roster", "participation"]


def test_rounds_without_dropouts_leave_budget_for_more_rounds() -> None:
    view = open_view(Masked(noise=replace(NOISE, rounds=8)))
    for round in range(9):
        assert isinstance(summed(view, round), Sum)
    assert all(5 < ledger.spent <= 6 for ledger in view.record.ledgers.values())


def test_who_cannot_pay_sits_out_and_the_others_go_on() -> None:
    view = open_view()
    for round in range(3):
        summed(view, round, MEMBERS[:4])
    answer = summed(view, 3)
    assert isinstance(answer, Sum)
    assert answer.clients == MEMBERS[4:]
    assert {f.blame for f in view.record.faults if not f.rejected and "past its budget" in f.reason} == set(MEMBERS[:4])
    assert view.record.ledgers[8, "client"].spent == epsilon_of((4,), 4)


def test_more_dropouts_than_allowed_open_nothing_and_what_was_not_sent_is_not_paid_for() -> None:
    view = open_view(tap=losing("MaskKeys", {1, 2, 3}))
    assert isinstance(summed(view, 0), BelowFloor)
    assert all(ledger.spent == 0 for ledger in view.record.ledgers.values())
    late = open_view(tap=losing("MaskedInput", {1, 2, 3}))
    assert isinstance(summed(late, 0), BelowFloor)
    assert all(ledger.spent == epsilon_of((6,)) for ledger in late.record.ledgers.values())
    signed = open_view(tap=losing("Reveal", set(MEMBERS)))
    assert isinstance(summed(signed, 0), BelowFloor)
    assert all(ledger.spent == epsilon_of((6,)) for ledger in signed.record.ledgers.values())


def test_clusters_of_any_size_cost_the_same() -> None:
    view = open_view()
    work = {name: Assignment(Model("init"), part, part) for name, part in {"a": (1, 2, 3), "b": (4, 5, 6, 7, 8)}.items()}
    answers = view.train_and_sum(0, work, {name: uniform(a.members) for name, a in work.items()})
    assert {answer.clients for answer in answers.values()} == {(1, 2, 3), (4, 5, 6, 7, 8)}
    one = solve(replace(TARGET, clients=3, dropouts=0)).release(3, "zero out")
    assert view.record.ledgers[1, "client"].spent == (Ledger(0, "client", "zero out", 9.0, 1e-4) + one).spent
    assert view.record.ledgers[8, "client"].spent < view.record.ledgers[1, "client"].spent < 6, (
        "one of five may drop out, and did not"
    )


# --- what is refused, and what is said ----------------------------------------------------------------------------------------


def test_sums_that_the_noise_does_not_cover_are_refused() -> None:
    view = open_view()
    updates = view.train(0, root())["root"]
    ones = dict.fromkeys(MEMBERS, 1.0)
    for weights in (Weights(ones, times_samples=True), Weights({**ones, 1: 2.0})):
        with pytest.raises(Refused, match="not uniform"):
            view.sums(updates, {"a": weights})
    with pytest.raises(Refused, match="one a round"):
        view.sums(updates, {"a": uniform(), "b": uniform()})
    assert isinstance(view.sums(updates, {"a": uniform()})["a"], Sum)
    with pytest.raises(Refused, match="one a round"):
        view.sums(updates, {"b": uniform()})
    gradients = view.train(0, root(), "gradient")["root"]
    with pytest.raises(Refused, match="one a round"):
        view.sums(gradients, {"b": uniform()})
    assert all(ledger.spent == epsilon_of((8,)) for ledger in view.record.ledgers.values())


def test_what_is_disclosed_beside_the_sums_is_named_as_not_covered() -> None:
    beside = replace(NOISE, acknowledge=("gram(origin)", "gram(remember)"))
    view = open_view(replace(NOISY, keys="run", noise=beside))
    summed(view, 0)
    told = view.record.ledgers[1, "client"].not_covered
    clusters, survived = "which cluster it was put in, and how many clients that has", "who took part and who survived"
    knows = "whoever took part, and knows its own share of the noise (a protection.corrupt of 1 would count one such client)"
    assert told == (clusters, knows, "which clients are in their own cluster", survived)
    reckoned = open_view(replace(NOISY, corrupt=1, floor=2, noise=NOISE))
    assert reckoned.record.ledgers[1, "client"].of == "the sums of its updates"
    assert view.record.ledgers[1, "client"].of.endswith("against all who put no noise of their own into them")
    assert knows not in reckoned.record.ledgers[1, "client"].not_covered
    updates = view.train(1, root())["root"]
    kept = view.remember(updates, MEMBERS)
    view.cosines(updates, kept)
    view.gram(updates, origin=True)
    more = view.record.ledgers[1, "client"].not_covered[2:]
    assert [words for words in more if "sketch" in words]
    assert {"noisy inner products and norms of the updates", "noisy inner products with updates of earlier rounds"} <= set(more)
    assert not any("sum" in words for words in more)
    assert not open_view(Masked()).record.ledgers


def test_noise_that_cannot_be_is_refused_when_the_view_is_opened() -> None:
    for bad in ({"epsilon": 0.0}, {"delta": 1.0}, {"rounds": 0}, {"l2": 0.0}, {"adjacency": "add or remove"}, {"overflow": 0.0}):
        with pytest.raises(ValueError) as error:
            replace(NOISE, **bad)  # type: ignore[arg-type]
        assert "\n" not in str(error.value)
    with pytest.raises(Refused, match="cannot be masked"):
        open_view(Masked(noise=NOISE, corrupt=4, dropped=0.49))


# --- keeping --------------------------------------------------------------------------------------------------------------------


def test_clients_give_nothing_to_a_sum_without_the_noise_that_was_agreed_on() -> None:
    """A server that asks under a plain name what its noise would cover."""
    view = open_view()
    updates = view.train(0, root())["root"]
    sessions = sides.part(view, MaskedSessions)
    inputs = InputTerms(64, 4.0, len(MEMBERS), 1.0, 0, False)
    d = len(view.harness.run.setup.initial)
    size = (64, inputs.length(d), inputs.fixed.bits, 4.0, 1)
    shape = Shape("plain", "masked sum/update/0", len(MEMBERS), size, dict.fromkeys(MEMBERS, 1.0))
    assert sessions.mask({"plain": sessions.plan(updates, shape)}) == {"plain": None}
    told = [fault for fault in view.record.faults if fault.reason == "a sum without the noise that was agreed on"]
    assert {fault.blame for fault in told} == set(MEMBERS)


def test_a_restored_view_goes_on_with_the_budget_that_is_left() -> None:
    view = open_view()
    summed(view, 0)
    again = open_view()
    again.harness.restore(view.harness.save(), [])
    assert again.record.ledgers == view.record.ledgers
    assert json.loads(json.dumps(view.harness.save().ledgers)) == list(view.harness.save().ledgers)
    for round in (1, 2):
        assert np.array_equal(*(mean_in(v, summed(v, round)) for v in (view, again)))  # type: ignore[arg-type]
    assert again.record.ledgers == view.record.ledgers
    spent = view.harness.save()
    forged = [{**plain, "budget": 1.0} for plain in spent.ledgers]
    with pytest.raises(ValueError, match="past its budget"):
        open_view().harness.restore(replace(spent, ledgers=forged), [])


PRIVATE = Scenario(
    name="private",
    data=Digits(),
    partition=Iid(clients=8, samples=20),
    model=Mlp(hidden=()),
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=FedAvg(by_samples=False),
    protection=NOISY,
    rounds=3,
    evaluate_every=3,
)


@pytest.mark.trains
@pytest.mark.long
def test_a_run_writes_what_it_spent_and_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    list(run(PRIVATE, tmp_path / "whole"))
    whole = json.loads((tmp_path / "whole" / "privacy.json").read_text())
    assert whole["client"]["budget"] == 6
    for row in whole["client"]["clients"].values():
        event = row["releases"][0]["event"]
        mu = event["l2"] * math.sqrt(3 / (event["honest"] * event["variance"]))  # of three rounds
        assert gaussian_epsilon(mu, 1e-4) == pytest.approx(row["epsilon"], rel=1e-5)
        assert row["epsilon"] == whole["client"]["epsilon_worst"]
        assert row["releases"][0]["times"] == 3
    steps = run(PRIVATE, tmp_path / "broken")
    next(steps)
    steps.close()
    so_far = face.load(tmp_path / "broken").privacy["epsilon"]["client"]
    assert 0 < so_far["epsilon_worst"] < whole["client"]["epsilon_worst"]
    assert "clients" not in so_far
    list(run(PRIVATE, tmp_path / "broken", resume=True))
    assert json.loads((tmp_path / "broken" / "privacy.json").read_text()) == whole
    summary = json.loads((tmp_path / "whole" / "summary.json").read_text())
    assert summary["privacy"]["client"]["epsilon_mean"] == pytest.approx(whole["client"]["epsilon_worst"])
    lines = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    assert lines[0]["epsilon"]["client"] < lines[2]["epsilon"]["client"] == whole["client"]["epsilon_worst"]
    page = write_report(tmp_path / "whole").read_text()
    assert "differentially private for any single client" in page
    assert "who took part and who survived" in page
    with pytest.warns(Doubt, match=r"is made for 3 rounds, and the run has 5: .* protection.noise.rounds=5"):
        list(run(replace(PRIVATE, rounds=5), tmp_path / "long"))
    summary = json.loads((tmp_path / "long" / "summary.json").read_text())
    assert summary["ran_out"] == {"clients": [*range(8)], "round": 3}
    assert {row["why"] for row in summary["below_floor"]} == {"the privacy budget of 8 of 8 clients allows no more"}
    assert not summary["rejected"]
    assert summary["privacy"]["client"]["epsilon_worst"] == whole["client"]["epsilon_worst"]
    words = "The privacy budget of 8 clients ran out, first in round 3: a sum that it does not allow is not made, or is made"
    words += " without them."
    assert words in write_report(tmp_path / "long").read_text()


def test_a_run_that_is_over_does_not_doubt_of_budgets_that_lasted() -> None:
    """Before: "budgets may be spent before it is over, and nothing is learned then", of one that was over with budgets left."""
    found = doubts(replace(PRIVATE, rounds=5), 8, {})
    (of_noise,) = (words for words in found if "is made for 3 rounds" in words)
    spent = [{"round": 3, "client": 1, "reason": PAST_BUDGET}]
    assert borne_out(["another", of_noise], spent) == ["another", of_noise]
    assert borne_out(["another", of_noise], []) == ["another"]


@pytest.mark.long
@pytest.mark.trains
def test_updates_of_whom_no_sum_can_come_are_not_compared(tmp_path: Path) -> None:
    """Sketches and inner products without noise were told in every round after the budget was spent, for nothing."""
    noise = replace(NOISY.noise, acknowledge=("gram", "gram(origin)"))
    cfl = CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.74), patience=2, remember=False)
    with pytest.warns(Doubt, match="is made for 3 rounds"):
        list(run(replace(PRIVATE, algorithm=cfl, protection=replace(NOISY, noise=noise), rounds=5), tmp_path))
    lines = [json.loads(line) for line in (tmp_path / "disclosure.jsonl").read_text().splitlines()]
    told = {what: {line["round"] for line in lines if line["what"] == what} for what in ("sums", "gram", "sketches")}
    assert all(rounds == {0, 1, 2} for rounds in told.values()), told
    page = write_report(tmp_path).read_text()
    assert page.count("reckoned as if sums had no noise: with it the server knows less") == 3, (
        "of single updates, habits and taking part"
    )
    assert "reckoned as if sums had no noise" in str(dict(face.load(tmp_path).client(3).rows))


@pytest.mark.parametrize("rule", [GeometricMedian(), NormBound(1.0), FoolsGold()], ids=lambda rule: type(rule).__name__)
def test_a_rule_that_weighs_unequally_is_refused_when_it_is_built(rule: Any) -> None:
    """No sum came of it, and sketches in every round."""
    noise = replace(NOISY.noise, acknowledge=("gram", "gram(origin)"))
    with pytest.raises(Refused, match=f"{type(rule).__name__} weighs clients unequally, which noise cannot cover"):
        replace(PRIVATE, algorithm=RobustFedAvg(rule=rule), protection=replace(NOISY, noise=noise))
    assert replace(PRIVATE, algorithm=RobustFedAvg(rule=MultiKrum(1)), protection=replace(NOISY, noise=noise))


def test_a_scenario_that_weighs_by_samples_is_refused_when_it_is_built() -> None:
    with pytest.raises(Refused, match="by_samples=False"):
        replace(PRIVATE, algorithm=FedAvg())
    assert changed(PRIVATE, "protection.noise.epsilon", "3").protection.noise.epsilon == 3
    assert described(PRIVATE)["protection"]["noise"]["rounds"] == 3
    assert Functionality.SUMS in NOISY.gives
