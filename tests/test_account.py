"""Accounts of real runs: what views put on record, what the harness keeps of updates, and what summary and report say."""

import html
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cloister.fl.algorithms.algorithm import Algorithm, advanced, mean_of
from cloister.fl.algorithms.cfl import CFL, Absolute
from cloister.fl.algorithms.fedavg import FedAvg, State
from cloister.fl.algorithms.fedem import FedEM
from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.meters.record import lines, read, said
from cloister.fl.meters.span import span
from cloister.fl.meters.watch import LIMIT, SAMPLED, Watch
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.checkpoint import Checkpoint
from cloister.fl.runs.checkpoint import read as read_checkpoint
from cloister.fl.runs.checkpoint import write as write_checkpoint
from cloister.fl.runs.experiment import run
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.drivers.dropouts import Dropouts
from cloister.protocol.view.account import Opened, Sketched
from cloister.protocol.view.answers import Assignment, Snapshot, Traffic
from cloister.protocol.view.asks import ServerView
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Protection
from cloister.protocol.view.work import LocalJob, LocalWork
from cloister.reporting.account_words import account_meters, account_notes
from cloister.reporting.report import write_report
from cloister.summary import summary_table


@dataclass(frozen=True)
class Asking(FedAvg):
    """FedAvg that asks for a Gram matrix every round, and does nothing with it."""

    origin: bool = False

    @property
    def needs(self) -> frozenset[Functionality]:
        return frozenset({Functionality.SUMS, Functionality.GRAM, Functionality.GRAM_ORIGIN})

    def round(self, state: State, view: ServerView, rng: np.random.Generator, /) -> State:
        cluster = state.clusters["0"]
        updates = view.train(state.round, {"0": Assignment(cluster.model, cluster.members, cluster.members)})["0"]
        view.gram(updates, origin=self.origin)
        mean = view.sums(updates, {"0": mean_of(updates.clients, False)})["0"]
        return State(state.round + 1, {"0": advanced(view, cluster, mean)})


SMALL = Scenario(
    name="small",
    data=Digits(),
    partition=LabelSwap(clients=6, groups=2, samples=40),
    model=Mlp(hidden=(4,)),
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=FedAvg(),
    protection=Masked(),
    rounds=3,
)


def played(folder: Path, **changes: Any) -> dict[str, Any]:
    for _ in run(replace(SMALL, **changes), folder):
        pass
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return summary


# --- what views put on record -----------------------------------------------------------------------------------------


@pytest.mark.trains
def test_a_view_without_protection_has_no_account(tmp_path: Path) -> None:
    assert "account" not in played(tmp_path, protection=Plain())


UNDER = [Masked(), TwoServer(), pytest.param(Encrypted(k=16), marks=pytest.mark.slow), Permuted()]


@pytest.mark.trains
@pytest.mark.parametrize("protection", UNDER, ids=lambda p: type(p).__name__)
def test_sums_of_all_clients_are_on_record_under_every_protection(tmp_path: Path, protection: Protection) -> None:
    counting = not isinstance(protection, Encrypted)  # which refuses sums that count samples
    account = played(tmp_path, protection=protection, algorithm=FedAvg(by_samples=counting))["account"]
    assert account["sums"] == 3
    assert account["leverage"]["largest"] == pytest.approx(1 / 6, abs=0.05 if counting else 1e-9)  # weights: samples, or 1
    assert account["grams"] == 0
    owned = isinstance(protection, Encrypted | Permuted)
    assert account["opened_by"] == (["clients"] if owned else ["server"])
    assert account["pairs"] == (None if isinstance(protection, Permuted) else 0)
    assert bool(account["with_a_client"])


@pytest.mark.trains
@pytest.mark.parametrize("protection", [Masked(floor=2), TwoServer(floor=2), *UNDER[2:]], ids=str)
@pytest.mark.long
def test_sums_into_slots_are_on_record_with_the_shares_that_only_clients_know(tmp_path: Path, protection: Protection) -> None:
    """Two models and two rounds; the most exposed is one of few who chose a model, or one with many samples."""
    for algorithm in (IFCA(models=2), FedEM(models=2)):
        simulation = Simulation(replace(SMALL, protection=protection, algorithm=algorithm), None)
        for t in range(2):
            simulation.step()
            there = [o for o in simulation.watch.opened if o.round == t]
            assert len(there) + len(simulation.view.record.below_floor) >= 2
            rows = {int(o.cluster.removeprefix("models/")): o.row for o in there}
            samples = {i: float(min(len(c.train), 1000)) for i, c in simulation.population.clients.items()}
            if isinstance(algorithm, FedEM):
                assert rows == {0: samples, 1: samples}
            else:
                assert sum(map(len, rows.values())) <= 6
                assert {a for row in rows.values() for a in row.values()} == {1.0}
        account = said(simulation.watch, simulation.view, [])
        assert account["slots"]
        assert account["sums"] == len(simulation.watch.opened) > 0
        assert 1 / 6 - 1e-9 <= account["leverage"]["largest"] <= 1 / 2 + 1e-9
        (meter,) = (m for m in account_meters(account) if m.label == "taking part")
        assert "no sum was opened" not in meter.words
        assert "as if it also knew who chose what in slots" in meter.words
        assert read(lines([], simulation.watch.opened))[1] == simulation.watch.opened


@pytest.mark.trains
def test_the_record_has_true_weights_where_samples_are_hidden(tmp_path: Path) -> None:
    simulation = Simulation(replace(SMALL, protection=Masked()), None)
    simulation.step()
    (opened,) = simulation.watch.opened
    assert opened.row == {i: float(len(c.train)) for i, c in simulation.population.clients.items()}


@pytest.mark.trains
@pytest.mark.parametrize(
    ("protection", "pairs"),
    [
        (Masked(keys="run"), 3),
        (Masked(keys="session"), 3),
        (TwoServer(), 3),
        pytest.param(Encrypted(k=16), 0, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_rule_that_needs_the_origin_gives_a_pair_a_round_to_a_server_that_knows_the_sums(
    protection: Protection, pairs: int
) -> None:
    """Under one key of the run they add up; under session keys, and of two servers, each is of its own round."""
    asking = Asking(by_samples=False, origin=True)  # its sums count nobody's samples
    simulation = Simulation(replace(SMALL, protection=protection, algorithm=asking), None)
    for _ in range(3):
        simulation.step()
    assert [entry.form for entry in simulation.view.record.sketched] == ["raw"] * 3
    found = span(simulation.watch.account)
    assert found.pairs == pairs
    assert (max(found.energy.values()) > 0) == (pairs > 0)
    assert len({entry.key for entry in simulation.view.record.sketched}) == (1 if getattr(protection, "keys", "") == "run" else 3)


@pytest.mark.trains
def test_differences_behind_an_offset_give_no_pair() -> None:
    simulation = Simulation(replace(SMALL, protection=Masked(keys="session"), algorithm=Asking(origin=False)), None)
    for _ in range(3):
        simulation.step()
    assert [entry.form for entry in simulation.view.record.sketched] == ["offset"] * 3
    found = span(simulation.watch.account)
    assert found.pairs == 0
    assert len(found.energy) == 18
    assert set(found.energy.values()) == {0.0}


@pytest.mark.trains
def test_a_client_that_drops_out_is_counted(tmp_path: Path) -> None:
    account = played(tmp_path, faults=Dropouts(tuple(range(6)), 1, seed=1), rounds=6, protection=Masked(floor=2))["account"]
    assert account["leverage"]["largest"] > 0.5
    assert account["information"]["largest"] > 0


# --- the harness ------------------------------------------------------------------------------------------------------


def work_of(vectors: dict[int, NDArray[np.float32]]) -> Any:
    def workers(jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork]]:
        return ((job.client, LocalWork(vectors[job.client], 3 + job.client)) for job in jobs)

    return workers


def play(watch_of: Any, d: int, clients: int, rounds: int, form: Any = "raw", seed: int = 0) -> tuple[Watch, Any]:
    rng = np.random.default_rng(seed)
    vectors: dict[int, NDArray[np.float32]] = {}
    truth = {}
    watch: Watch = watch_of(work_of(vectors))
    for t in range(rounds):
        vectors |= {i: rng.normal(size=d).astype(np.float32) for i in range(clients)}
        truth |= {(t, i): v for i, v in vectors.items()}
        jobs = [LocalJob(i, t, "update", np.zeros(d, np.float32)) for i in range(clients)]
        assert [i for i, _ in watch(jobs)] == list(range(clients))
        sketched = [Sketched(b"k", form, "update", t, "0", tuple(range(clients)))] if form else []
        watch.close(sketched, [Opened(t, "0", "update", dict.fromkeys(range(clients), 1.0), True)])
    return watch, truth


def test_a_watch_keeps_what_something_may_be_told_about() -> None:
    kept, _ = play(lambda w: Watch(w, 50, range(5)), 50, 5, 4)
    assert sorted(t for t, _ in kept.account.blocks) == [0, 1, 2, 3]
    assert kept.opened[2].row == {i: 3.0 + i for i in range(5)}
    latest, _ = play(lambda w: Watch(w, 50, range(5)), 50, 5, 4, form=None)
    assert [t for t, _ in latest.account.blocks] == [3]
    off = Watch(work_of({0: np.ones(5, np.float32)}), 5, range(1))
    off.on = False
    assert len(list(off([LocalJob(0, 0, "update", np.zeros(5, np.float32))]))) == 1
    assert off.close([], [Opened(0, "0", "update", {0: 1.0})]) == ([], [])


def test_beyond_its_limit_a_watch_samples_clients_and_then_keeps_nothing_new() -> None:
    every, _ = play(lambda w: Watch(w, 50, range(40)), 50, 40, 6)
    some, _ = play(lambda w: Watch(w, 50, range(40), limit=40_000), 50, 40, 6)
    assert (len(every.watched), len(some.watched)) == (40, SAMPLED)
    assert some.account.others
    whole, part = span(every.account), span(some.account)
    assert part.pairs == whole.pairs == 6
    assert {of: e for of, e in whole.energy.items() if of[2] in some.watched} == pytest.approx(dict(part.energy), abs=1e-6)
    none, _ = play(lambda w: Watch(w, 50, range(40), limit=6_000), 50, 40, 6)
    found = span(none.account)
    assert found.missing > 0
    assert found.pairs < 6
    kept = sum(b.sums.nbytes + sum(v.nbytes for v in b.updates.values()) for b in none.account.blocks.values())
    assert kept <= 6_000 < LIMIT


def test_large_updates_are_measured_on_a_public_sketch_without_bias() -> None:
    """d = 20,000, 40 pairs: by chance they would hold 1 % of a sketched vector of 4,096, and hold .2 % of the vector."""
    exact = []
    watch, truth = play(lambda w: Watch(w, 20_000, range(6)), 20_000, 6, 40)
    assert (watch.width, watch.account.d) == (4096, 20_000)
    means = np.array([np.average([truth[t, i] for i in range(6)], axis=0, weights=range(3, 9)) for t in range(40)])
    basis = np.linalg.qr(means.T)[0]
    found = span(watch.account)
    assert found.pairs == 40
    for (t, _, i), _energy in found.energy.items():
        delta = truth[t, i] - means[t]
        exact.append(np.square(basis.T @ delta).sum() / (delta @ delta))
    told = list(found.energy.values())
    assert np.mean(told) == pytest.approx(np.mean(exact), abs=0.003)
    assert np.abs(np.array(told) - exact).max() < 0.05


def test_a_watch_goes_on_from_what_it_saved(tmp_path: Path) -> None:
    watch, _ = play(lambda w: Watch(w, 50, range(5)), 50, 5, 4)
    sent = Checkpoint(4, {}, Snapshot({}, {}, {}, Traffic()), {}, {}, {}, watch.save())
    arrays = read_checkpoint(write_checkpoint(tmp_path, sent)).account
    again = Watch(work_of({}), 50, range(5))
    again.restore(arrays, *read(json.loads(json.dumps(lines(watch.sketched, watch.opened)))))
    assert again.sketched == watch.sketched
    assert again.opened == watch.opened
    assert span(again.account) == span(watch.account)
    assert again.rho == watch.rho
    assert again.rho is not None


@pytest.mark.trains
def test_a_resumed_run_has_the_account_of_an_undisturbed_one(tmp_path: Path) -> None:
    changes = {"protection": Masked(keys="run"), "algorithm": CFL(thresholds=Absolute(eps1=0, eps2=0)), "rounds": 4}
    whole = played(tmp_path / "whole", **changes)["account"]
    stopped = run(replace(SMALL, **changes), tmp_path / "cut")
    next(stopped)
    next(stopped)
    stopped.close()
    for _ in run(replace(SMALL, **changes), tmp_path / "cut", resume=True):
        pass
    assert json.loads((tmp_path / "cut" / "summary.json").read_text())["account"] == whole
    account, cut = ((tmp_path / name / "account.jsonl").read_text() for name in ("whole", "cut"))
    assert account == cut != ""


# --- what is said -----------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("algorithm", [FedAvg(), CFL(thresholds=Absolute(eps1=0, eps2=0))], ids=lambda a: type(a).__name__)
def test_summary_table_and_report_say_what_can_be_pieced_together(tmp_path: Path, algorithm: Algorithm) -> None:
    summary = played(tmp_path, algorithm=algorithm, protection=Masked(keys="run"))
    meters = account_meters(summary["account"])
    assert [meter.label for meter in meters] == ["single updates", "habits over rounds", "taking part", "taking part, told apart"]
    page = html.unescape(write_report(tmp_path).read_text())
    assert page.index("What can be pieced together about one client") < page.index('id="accuracy"')
    cells = [str(cell) for column in summary_table(summary).columns for cell in column.cells]
    assert any("pieced together: single updates" in cell for cell in cells)
    notes = account_notes(summary["account"])
    assert any("server and one client together" in note for note in notes)
    assert any("clients share the seed" in note for note in notes)
    for words in [meter.label for meter in meters]:
        assert words in page


def test_values_read_as_people_read_them() -> None:
    told = {"largest": 0.123456, "client": 3, "mean": 1e-5}
    account = {"span": told, "pairs": 1, "temporal": None, "leverage": {"largest": 0.25, "client": 1, "mean": 0.25}}
    span_, leverage, _ = account_meters({**account, "information": {"largest": 0.0, "client": 0, "mean": 0.0}})
    assert (span_.largest, span_.client, span_.mean) == ("0.123", "client 3", "< 0.001")
    assert "1 published sum whose" in span_.words
    assert leverage.client == "all alike"
    assert "a group of 4" in leverage.words
    assert any("transformed" in note for note in account_notes({"span": None}))
