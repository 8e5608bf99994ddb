"""`cloister cost`: what it measures is what is sent and what a run costs; n, d and dropouts are obeyed; errors are one line."""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cloister import cli, cost_command
from cloister.cost_table import notes
from cloister.crypto.orthonormal import HadamardRotation
from cloister.crypto.projection import TwoStage
from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.emd_cfl import EMDCFL
from cloister.fl.algorithms.fedavg import FedAvg, Local
from cloister.fl.cost import measure as cost
from cloister.fl.cost.measure import MeasuredCost, measure
from cloister.fl.cost.pairs import PairLoad
from cloister.fl.cost.rounds import Phase
from cloister.fl.cost.workload import Workload, workload_of
from cloister.fl.emd.subsample import Size
from cloister.fl.runs.scenario import PROTECTIONS, Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.not_in_costs import not_in_costs
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.errors import Refused
from cloister.protocol.core.link import Frame
from cloister.protocol.core.session import SERVER
from cloister.protocol.drivers import in_process
from cloister.protocol.drivers.dropouts import Dropouts
from cloister.protocol.drivers.in_process import InProcess
from cloister.protocol.masked.noise import Noise
from cloister.protocol.messages import MESSAGES
from cloister.protocol.pairs.choices import DISTANCES, ONE_RELEASE, PER_PAIR, PUBLIC, PerRound, ServerSamples
from cloister.protocol.uploaded import sums as uploaded_sums
from cloister.protocol.view.answers import Cost
from cloister.protocol.view.asks import ServerView
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Protection, Setup, as_written
from cloister.protocol.view.work import LocalJob, LocalWork
from cloister.scenario_file import load

pytestmark = pytest.mark.sweeps

ROOT = Path(__file__).parents[1]
QUICKSTART = str(ROOT / "examples" / "quickstart.py")
OWN: Any = load(QUICKSTART).protection
SUMS = frozenset({Functionality.SUMS})
GRAMS = frozenset({Functionality.SUMS, Functionality.GRAM, Functionality.GRAM_EDGE})
FITTING = [p for p in PROTECTIONS if p.gives >= GRAMS]
SIZES: dict[type[Protection], float] = {Encrypted: 1e-2}
"""How far sizes differ between runs: ciphertexts are compressed, and never the same."""
SILENT: Callable[[float], None] = lambda share: None  # noqa: E731

NOISE = Noise(epsilon=8.0, delta=1e-3, rounds=3, l2=1.0, acknowledge=("gram", "gram(origin)"))

each_protection = pytest.mark.parametrize("protection", FITTING, ids=as_written)
SLOWLY = [pytest.param(p, marks=pytest.mark.slow if isinstance(p, Encrypted) else ()) for p in FITTING]
each_protection_slowly = pytest.mark.parametrize("protection", SLOWLY, ids=as_written)


def quickstart(**changes: Any) -> Scenario:
    return replace(load(QUICKSTART), **changes)


def workload(needs: frozenset[Functionality] = GRAMS, **changes: Any) -> Workload:
    return Workload(**{"needs": needs, "clients": 9, "parameters": 300, "rounds": 2, **changes})


@dataclass(frozen=True)
class Recorded:
    """A protection whose network keeps every frame that was sent."""

    inner: Protection
    frames: list[Frame]

    @property
    def gives(self) -> frozenset[Functionality]:
        return self.inner.gives

    def open(self, setup: Setup, /) -> ServerView:
        self.frames.clear()  # of the rehearsal

        def tap(frame: Frame) -> Iterable[Frame]:
            self.frames.append(frame)
            return [frame] if setup.tap is None else setup.tap(frame)

        return self.inner.open(replace(setup, tap=tap))


def spent(measured: MeasuredCost) -> dict[int, Cost]:
    """What each party spent in all, setup and rounds together."""
    total: dict[int, list[float]] = defaultdict(lambda: [0.0] * 5)
    for phase in (measured.setup, *measured.rounds):
        for party, c in phase.costs.items():
            values = (c.messages, c.bytes_up, c.bytes_down, c.bytes_between, c.cpu_seconds)
            total[party] = [a + b for a, b in zip(total[party], values, strict=True)]
    return {party: Cost(int(m), int(u), int(d), int(b), s) for party, (m, u, d, b, s) in total.items()}


def traffic(phase: Phase) -> tuple[int, int]:
    clients = [c for i, c in phase.costs.items() if i >= 0]
    return sum(c.bytes_up for c in clients), sum(c.bytes_down for c in clients)


# --- what is counted is what is sent ----------------------------------------------------------------------------------


@pytest.mark.long
@each_protection_slowly
@pytest.mark.parametrize("drop", [0.0, 0.25], ids=["all stay", "some fall silent"])
def test_messages_and_bytes_are_those_of_the_frames(protection: Protection, drop: float) -> None:
    frames: list[Frame] = []
    found = spent(measure(Recorded(protection, frames), workload(drop=drop), SILENT))
    expected: dict[int, list[int]] = defaultdict(lambda: [0] * 4)
    for frame in frames:
        size = len(frame.data)
        expected[frame.sender][0] += 1
        if frame.sender >= 0:
            expected[frame.sender][1] += size
            expected[frame.receiver][1] += size
        elif frame.receiver >= 0:
            expected[frame.sender][2] += size
            expected[frame.receiver][2] += size
        else:
            expected[frame.sender][3] += size
    counted = {i: [c.messages, c.bytes_up, c.bytes_down, c.bytes_between] for i, c in found.items()}
    assert counted == {i: expected[i] for i in counted}
    assert expected.keys() <= counted.keys()
    assert all(c.cpu_seconds > 0 for c in found.values())


@pytest.mark.trains
@each_protection_slowly
@pytest.mark.parametrize("remember", [None, False, True])
@pytest.mark.long
def test_a_run_that_trains_costs_the_same_bytes(protection: Protection, remember: bool | None) -> None:
    """Rounds without a split: sample counts aside, every message of a real run has the size that was measured."""
    if remember and isinstance(protection, Masked):
        protection = Masked(keys="run")  # keys of sessions compare no rounds
    if remember and isinstance(protection, Encrypted):
        pytest.skip("comparing rounds costs messages here, and a run without a split never does")
    thresholds = ScaleFree(eps1=0.4, eps2=0.74)
    cfl = CFL(thresholds=thresholds, similarities="every round", patience=9, remember=bool(remember))
    algorithm: Any = FedAvg(by_samples=False) if remember is None else cfl
    scenario = quickstart(protection=protection, algorithm=algorithm)
    scenario = replace(scenario, partition=replace(scenario.partition, clients=6), training=replace(scenario.training, epochs=1))
    simulation = Simulation(scenario, None)
    for _ in range(3):
        simulation.step()
    assert not simulation.view.record.faults
    load = replace(workload_of(scenario, None, None, None), rounds=3)
    assert (load.clients, load.parameters) == (6, 4810)
    found = measure(protection, load, SILENT)
    ours = tuple(map(sum, zip(*(traffic(phase) for phase in (found.setup, *found.rounds)), strict=True)))
    theirs = (simulation.view.record.traffic.bytes_up, simulation.view.record.traffic.bytes_down)
    assert ours == pytest.approx(theirs, abs=6 * 3 * 2, rel=SIZES.get(type(protection), 0))  # a sample count varies by one byte


@pytest.mark.long
def test_the_masked_upload_is_four_bytes_a_parameter_and_little_more() -> None:
    """The rest does not depend on d, so what it is at small d it is at d = 1e6: there 4.0 MB and at most 2 %."""
    up = {}
    for d in (1000, 3000):
        found = measure(Masked(), workload(SUMS, clients=32, parameters=d, rounds=1), SILENT)
        up[d] = max(c.bytes_up for i, c in found.rounds[0].costs.items() if i >= 0)
    assert up[3000] - up[1000] == 4 * 2000
    assert 0 < up[1000] - 4 * 1000 <= 0.02 * 4e6


# --- the workload is obeyed -------------------------------------------------------------------------------------------


@pytest.mark.long
@each_protection_slowly
def test_clients_parameters_and_clusters_are_those_asked_for(protection: Protection) -> None:
    jobs: list[LocalJob] = []
    load = workload(clients=11, parameters=77, clusters=2, rounds=3)
    with pytest.MonkeyPatch.context() as patch:
        draw = cost.random_work

        def remember(protection: Protection, load: Workload, job: LocalJob) -> LocalWork:
            jobs.append(job)
            work = draw(protection, load, job)
            assert (work.vector.shape, work.vector.dtype) == ((77,), np.float32)
            return work

        patch.setattr(cost, "random_work", remember)
        found = measure(protection, load, SILENT)
    assert sorted((j.round, j.client) for j in jobs) == [(t, i) for t in range(3) for i in range(11)]
    assert [p.summed for p in found.rounds] == [p.compared for p in found.rounds] == [11] * 3
    assert {e.about for e in found.log if e.what == "sums"} == {(0, 2, 4, 6, 8, 10), (1, 3, 5, 7, 9)}
    assert sorted(i for i in found.rounds[0].costs if i >= 0) == list(range(11))


@each_protection_slowly
@pytest.mark.long
def test_as_many_clients_as_asked_for_fall_silent(protection: Protection) -> None:
    load = workload(clients=12, parameters=40, drop=0.2, rounds=4)
    assert load.dropped == 2
    found = measure(protection, load, SILENT)
    assert all(10 <= phase.compared <= phase.summed <= 12 for phase in found.rounds)
    assert sum(12 - phase.compared for phase in found.rounds) >= 4  # sketches go last: whoever falls silent is missed there
    assert {phase.unsummed for phase in found.rounds} == {0}
    again = measure(protection, load, SILENT)
    for one, same in zip(again.rounds, found.rounds, strict=True):
        assert traffic(one) == pytest.approx(traffic(same), rel=SIZES.get(type(protection), 0))
    other = measure(protection, replace(load, seed=1), SILENT)
    always = isinstance(protection, Plain | Permuted | TwoServer)  # every victim is missed in the sum
    assert [p.summed for p in other.rounds] != [p.summed for p in found.rounds] or always


def test_of_one_message_a_round_it_is_that_one_which_is_lost() -> None:
    found = measure(Plain(), workload(SUMS, clients=10, drop=0.3, rounds=3), SILENT)
    assert [phase.summed for phase in found.rounds] == [7, 7, 7]


def test_a_victim_falls_silent_before_the_latest_message() -> None:
    for latest in (1, 3):
        tap = Dropouts(tuple(range(50)), 50, 0, latest)
        tap._begin(0)
        assert set(tap._left.values()) == set(range(latest))


@pytest.mark.parametrize(("clients", "drop", "dropped"), [(24, 0.0, 0), (24, 0.01, 1), (24, 0.1, 2), (100, 0.1, 10)])
def test_the_share_that_drops(clients: int, drop: float, dropped: int) -> None:
    assert workload(clients=clients, drop=drop).dropped == dropped


def test_vectors_are_a_function_of_client_and_round_within_the_clip() -> None:
    load = workload(parameters=5000)
    job = LocalJob(1, 2, "update", np.zeros(0, np.float32))
    first = cost.random_work(Plain(), load, job)
    assert np.array_equal(first.vector, cost.random_work(Plain(), load, job).vector)
    assert np.linalg.norm(first.vector) == pytest.approx(cost.NORM, rel=0.1)
    for other in (replace(job, client=2), replace(job, round=1), replace(job, work="gradient")):
        assert not np.array_equal(first.vector, cost.random_work(Plain(), load, other).vector)
    clipped = cost.random_work(Masked(clip=0.01), load, job).vector
    assert np.abs(clipped).max() == np.float32(0.01) < np.abs(first.vector).max()
    assert cost.random_work(Masked(max_samples=1), load, job).samples == 1


def test_order_statistics_are_played_where_an_algorithm_needs_them() -> None:
    load = workload(frozenset({Functionality.COORDINATES}), clients=5, parameters=30)
    found = measure(Permuted(), load, SILENT)
    assert [(phase.summed, phase.unsummed) for phase in found.rounds] == [(5, 0)] * 2
    assert [e.what for e in found.log if e.recipient == "clients"] == ["roster", "sums"] * 2
    with pytest.raises(Refused):
        measure(Masked(), load, SILENT)


@pytest.mark.long
@pytest.mark.parametrize("protection", [Plain(), Permuted(), Masked(keys="run")], ids=repr)
def test_sums_of_several_rounds_are_compared_where_an_algorithm_needs_them(protection: Protection) -> None:
    load = workload(frozenset({Functionality.SUMS, Functionality.GRAM, Functionality.GRAM_HISTORY}), rounds=3)
    found = measure(protection, load, SILENT)
    compared = [entry for entry in found.log if entry.what == "gram(history)"]
    assert [(entry.round, entry.scalars) for entry in compared] == [(t, 18 * 19 // 2) for t in range(3)]
    alone = measure(protection, workload(load.needs - {Functionality.GRAM}, rounds=1), SILENT)
    assert [entry.what for entry in alone.log].count("gram(history)") == 1
    without = measure(protection, workload(load.needs - {Functionality.GRAM_HISTORY}, rounds=3), SILENT)
    assert found.rounds[0].costs[1].bytes_up == without.rounds[0].costs[1].bytes_up


@pytest.mark.parametrize(
    ("needs", "asked"),
    [
        ({Functionality.GRAM, Functionality.GRAM_EDGE}, ["gram", "gram"]),
        ({Functionality.GRAM_ORIGIN, Functionality.GRAM_REMEMBER}, ["gram", "gram", "gram(remember)"]),
        ({Functionality.GRAM_RECALL}, ["gram(recall)"]),
        ({Functionality.GRAM}, ["gram", "gram"]),
    ],
)
def test_similarities_are_asked_for_as_an_algorithm_needs_them(needs: set[Functionality], asked: list[str]) -> None:
    found = measure(Plain(), workload(frozenset({Functionality.SUMS} | needs)), SILENT)
    assert [entry.what for entry in found.log if entry.what.startswith("gram")] == asked
    assert found.rounds[-1].compared == 9


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("similarity", ["update", "gradient"])
@pytest.mark.parametrize("protection", [TwoServer(), Masked(corrupt=0, noise=NOISE)], ids=["TwoServer", "noise"])
def test_where_sums_tell_no_norms_cfl_takes_them_from_a_matrix_about_the_origin(protection: Protection, similarity: Any) -> None:
    """It was measured as one about the mean, which tells less than the run does."""
    algorithm = CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.74), similarity=similarity, remember=False, by_samples=False)
    run = Simulation(replace(load(QUICKSTART), algorithm=algorithm, protection=protection, rounds=1), None)
    run.step()
    asked = {entry.words for entry in run.view.record.log if entry.what == "gram"}
    found = measure(protection, workload_of(run.scenario, 14, 40, None), SILENT)
    assert asked
    assert asked <= {entry.words for entry in found.log}


def test_a_cluster_below_the_floor_is_told() -> None:
    found = measure(Plain(floor=4), workload(clients=9, clusters=3, rounds=1), SILENT)
    assert (found.rounds[0].summed, found.rounds[0].unsummed) == (0, 3)
    assert found.trouble == ("3 clients are below the floor of 4",)


# --- CPU seconds ------------------------------------------------------------------------------------------------------


class Clock:
    """CPU time that passes where a test says so and nowhere else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self._patch = monkeypatch
        monkeypatch.setattr(in_process, "time", SimpleNamespace(process_time=lambda: self.now))

    def passes(self, seconds: float, owner: object, name: str) -> None:
        """Whenever this function is called."""
        of = getattr(owner, name)

        def slow(*arguments: Any) -> Any:
            self.now += seconds
            return of(*arguments)

        self._patch.setattr(owner, name, slow)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_what_runs_for_several_is_counted_for_each(clock: Clock) -> None:
    network = InProcess(kinds=MESSAGES, max_bytes=1)
    with network.timed(3, SERVER):
        clock.now += 2
    with network.timed(3):
        clock.now += 1
    assert network.cpu_seconds == {3: 3, SERVER: 2}
    earlier = InProcess(kinds=MESSAGES, max_bytes=1)
    with earlier.timed(4):
        clock.now += 1
    network.add_costs(earlier)
    assert list(network.costs) == [3, 4, SERVER]
    assert network.costs[4].cpu_seconds == 1


@each_protection_slowly
def test_drawing_vectors_is_not_counted(protection: Protection, clock: Clock) -> None:
    clock.passes(1, cost, "random_work")
    found = measure(protection, workload(clients=4, parameters=20, rounds=1), SILENT)
    assert clock.now == 4
    assert not any(c.cpu_seconds for c in found.rounds[0].costs.values())


def test_a_client_is_charged_for_its_transform_and_the_server_for_its_sums(clock: Clock) -> None:
    """Each client turns its own update; the mean is turned back once in a process, by the first; the server adds."""
    clock.passes(100, uploaded_sums, "server_step")
    clock.passes(10, HadamardRotation, "apply")
    clock.passes(1, HadamardRotation, "invert")
    load = workload(SUMS, clients=5, parameters=20, rounds=2)
    plain, rotated = (measure(p, load, SILENT).rounds[1].costs for p in (Plain(), Permuted(HadamardRotation)))
    assert [plain[i].cpu_seconds for i in range(5)] == [0] * 5
    assert [rotated[i].cpu_seconds for i in range(5)] == [11, 10, 10, 10, 10]
    assert plain[SERVER].cpu_seconds == rotated[SERVER].cpu_seconds >= 100


def test_every_client_is_charged_for_the_sketch_that_it_draws(clock: Clock) -> None:
    """Under one key in the first round alone; under keys of sessions in every round."""
    clock.passes(1, TwoStage, "draw")
    load = workload(clients=5, parameters=200, rounds=2)
    for keys, spent in (("run", [1, 0]), ("session", [1, 1])):
        found = measure(Masked(sketch=10, keys=keys), load, SILENT)  # type: ignore[arg-type]
        for client in range(5):
            assert [phase.costs[client].cpu_seconds for phase in found.rounds] == spent


# --- the command ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["cloister", "cost", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err + captured.out
        return Result(int(caught.value.code or 0), captured.out, captured.err)

    return run


SMALL = ("--clients", 6, "--parameters", 50, "--rounds", 2)


@pytest.mark.long
def test_the_table_has_every_role_and_what_was_learned(command: Callable[..., Result]) -> None:
    result = command(QUICKSTART, "--drop", 0.1, "--clients", 9)
    assert result.code == 0
    words = ("n = 9, d = 4,810", "setup, once", "first round", "each later round", "client, mean", "client, worst", "  server")
    for word in (*words, "1 of 9 clients fall silent", "the server learned", "the clients learned", "noisy inner products"):
        assert word in re.sub(r"\n {21}", " ", result.out)


@pytest.mark.long
def test_json_holds_every_protection_that_fits(command: Callable[..., Result]) -> None:
    result = command(QUICKSTART, *SMALL, "--protection", "all", "--json", "--seed", 5)
    assert (result.code, result.out.count("\n")) == (0, 1)
    found = json.loads(result.out)
    assert found.keys() == {"name", "workload", "protections", "left_out", "machine", "versions"}
    assert {one["protection"] for one in found["protections"]} == {repr(p) for p in (OWN, *FITTING)}
    workload = found["workload"]
    assert (workload["clients"], workload["parameters"], workload["rounds"], workload["seed"]) == (6, 50, 2, 5)
    for one in found["protections"]:
        assert len(one["rounds"]) == 2
        for phase in (one["setup"], *one["rounds"]):
            for key in ("seconds", "messages", "bytes_up", "bytes_down", "bytes_between", "cpu_seconds"):
                assert phase[key] >= 0
            mean, worst = phase["client"]["mean"], phase["client"]["worst"]
            assert mean.keys() == worst.keys() == phase["server"].keys() if "server" in phase else True
            assert all(mean[key] <= worst[key] + 1e-12 for key in mean)
            assert mean["bytes_up"] * 6 == pytest.approx(phase["bytes_up"])
        assert all(phase["summed"] == 6 and phase["learned"]["server"] for phase in one["rounds"])
        assert one["trouble"] == []
    assert found["versions"]["numpy"]
    assert found["machine"]["processor"]


@pytest.mark.long
def test_the_scenarios_own_protection_comes_first_and_a_sum_it_does_not_publish_is_told(command: Callable[..., Result]) -> None:
    result = command(QUICKSTART, *SMALL, "--protection", "all", "--set", "protection.floor=7", "--json")
    assert result.code == 0
    first, *others = json.loads(result.out)["protections"]
    assert first["protection"] == repr(replace(OWN, floor=7))
    assert {one["protection"] for one in others} == {repr(p) for p in FITTING}
    assert [(phase["summed"], phase["unsummed"]) for phase in first["rounds"]] == [(0, 1)] * 2
    below = f"6 clients are below the floor of {7 + OWN.corrupt}"
    assert below in first["trouble"]
    table = command(QUICKSTART, *SMALL, "--set", "protection.floor=7").out
    assert "2 of 2 sums could not be published" in table
    assert "falls silent, for more" not in table
    assert below in table
    silent = " ".join(command(QUICKSTART, *SMALL, "--drop", "0.5").out.split())
    assert "reckons with a share of 0.25 that falls silent: a higher protection.dropped, or more clients, may open them" in silent
    enough = command(QUICKSTART, *SMALL, "--drop", "0.35", "--set", "protection.dropped=0.34").out
    assert "that falls silent:" not in enough


def test_protections_are_named_by_class_or_as_they_print() -> None:
    scenario = quickstart(protection=Masked(floor=7))
    assert cost_command._protections(scenario, []) == [Masked(floor=7)]
    assert cost_command._protections(scenario, ["Masked"]) == [Masked(floor=7), Masked(), Masked(keys="run")]
    usual = cost_command._protections(quickstart(protection=Masked()), ["Masked"])
    assert usual == [Masked(), Masked(keys="run")], "its own, though it is one of the list"
    assert cost_command._protections(scenario, ["Masked()", "Masked(keys='run')"]) == [Masked(), Masked(keys="run")]
    assert cost_command._protections(scenario, ["Plain", repr(FITTING[-1])]) == [Plain(), FITTING[-1]]
    assert cost_command._protections(scenario, ["Permuted"]) == [p for p in PROTECTIONS if isinstance(p, Permuted)]
    assert cost_command._protections(scenario, ["Plain", "all"])[:2] == [Plain(), Masked(floor=7)]


@dataclass(frozen=True)
class Giving:
    """A protection that gives sums and refuses to open."""

    gives: frozenset[Functionality] = SUMS

    def open(self, setup: Setup, /) -> ServerView:
        raise Refused("not today")


def test_what_is_refused_on_the_way_is_left_out_too() -> None:
    scenario = quickstart()
    measured, left = cost_command._measure(scenario, workload(rounds=1), [Giving(), Giving(GRAMS), Plain()])
    assert [one.protection for one in measured] == [Plain()]
    assert left[0].protection == "Giving()"
    assert "CFL needs gram, gram(edge), which Giving" in left[0].reason
    assert left[1].reason == "not today"


def test_help_teaches_by_example(command: Callable[..., Result]) -> None:
    result = command("--help")
    assert result.code == 0
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯─]", " ", result.out).split())
    for word in ("cloister cost cloister:quickstart", "--protection all", "--drop", "--json", "without training"):
        assert word in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing.py"], ["no file nothing.py"]),
        ([QUICKSTART, "--drop", "1"], ["drop is a share", "1.0"]),
        ([QUICKSTART, "--drop", "nan"], ["drop is a share", "nan"]),
        ([QUICKSTART, "--clients", "3", "--clusters", "4"], ["4 clusters of 3 clients"]),
        ([QUICKSTART, "--protection", "Magic"], ["no protection 'Magic'", "Plain, Permuted", "all"]),
        ([QUICKSTART, "--set", "protection.floor=0"], ["floor"]),
        ([QUICKSTART, "--set", "seed"], ["PATH=VALUE"]),
    ],
    ids=lambda value: " ".join(value[1:]) if "py" in value[0] else "",
)
def test_errors_are_one_line(command: Callable[..., Result], arguments: list[str], words: list[str]) -> None:
    result = command(*arguments)
    assert (result.code, result.out) == (1, "")
    (line,) = [line for line in result.err.splitlines() if line.startswith("cloister: ")]
    assert result.err.strip() == line
    for word in words:
        assert word in line


@pytest.mark.long
@pytest.mark.parametrize("clients", [1, 2, 4])
def test_of_clients_too_few_for_any_sum_it_is_said_first_that_no_run_begins(clients: int, command: Callable[..., Result]) -> None:
    result = command(QUICKSTART, "--clients", clients, "--parameters", 50, "--rounds", 1)
    said = " ".join(result.out.split())
    none = (
        "no sum 1 of 1 sums could not be published; nothing could be learned with so few: a run would be refused before it begins"
    )
    assert said.index(f"summed: 0 of {clients}") < said.index(none) < said.index("the server learned")
    assert "nothing could be learned" not in " ".join(command(QUICKSTART, *SMALL).out.split())


@pytest.mark.parametrize("arguments", [[], [QUICKSTART, "--clients", "0"], [QUICKSTART, "--drop", "much"]])
def test_wrong_usage_is_another_exit_code(command: Callable[..., Result], arguments: list[str]) -> None:
    result = command(*arguments)
    assert (result.code, result.out) == (2, "")


def test_an_algorithm_that_sends_nothing_has_nothing_to_measure() -> None:
    with pytest.raises(ValueError, match="nothing to measure"):
        workload_of(quickstart(algorithm=Local()), None, None, None)


def test_the_data_is_read_only_if_a_number_is_missing() -> None:
    def unreadable(folder: Path | None) -> Any:
        raise ValueError("read")

    scenario = quickstart(data=unreadable)
    assert workload_of(scenario, 5, 6, None).clients == 5
    with pytest.raises(ValueError, match="read"):
        workload_of(scenario, 5, None, None)


# --- pairs of clients -------------------------------------------------------------------------------------------------

PAIRS = frozenset({Functionality.SUMS, Functionality.PAIRS})
COMPARED = PairLoad(choice=PER_PAIR, d=20, inputs=30, rows=12, weights=40)


def pairs_workload(**changes: Any) -> Workload:
    return workload(PAIRS, **{"clients": 6, "clusters": 2, "parameters": 60, "pairs": COMPARED, **changes})


@pytest.mark.long
@pytest.mark.parametrize("choice", [PER_PAIR, PUBLIC, ONE_RELEASE, DISTANCES, ServerSamples(embedding="public")], ids=repr)
@pytest.mark.parametrize("protection", [p for p in PROTECTIONS if Functionality.PAIRS in p.gives], ids=as_written)
def test_all_pairs_are_compared_once_and_frames_are_what_is_counted(protection: Protection, choice: Any) -> None:
    frames: list[Frame] = []
    load = pairs_workload(pairs=replace(COMPARED, choice=choice))
    found = measure(Recorded(protection, frames), load, SILENT)
    assert [phase.pairs for phase in found.rounds] == [15, 0]
    assert found.trouble == ()
    costs = spent(found)
    assert sum(c.bytes_up for i, c in costs.items() if i >= 0) == sum(len(f.data) for f in frames if f.sender >= 0)
    kinds = [f.kind for f in frames]
    by_pair = choice in (PER_PAIR, PUBLIC, DISTANCES)
    assert kinds.count("PairDistance" if choice is DISTANCES else "PairClouds") == (30 if by_pair else 6)
    assert kinds.count("SealedEmbedding") == (60 if choice in (PER_PAIR, DISTANCES) else 0)  # up, and down again
    assert any(d.what == "pairs" and d.round == 0 for d in found.log)


def test_what_is_released_for_a_round_is_counted_in_every_round() -> None:
    frames: list[Frame] = []
    load = pairs_workload(pairs=replace(COMPARED, choice=PerRound(), rows=3))
    found = measure(Recorded(Plain(), frames), load, SILENT)
    assert [phase.pairs for phase in found.rounds] == [15, 15]
    assert [f.kind for f in frames].count("PairClouds") == 12


def test_bytes_of_pairs_are_those_of_their_clouds_and_models() -> None:
    """Two clouds of float32 a client and pair, and its model up: what grows with p, rows and weights, and nothing else does."""
    up = {}
    for rows in (12, 24):
        found = measure(Plain(), pairs_workload(pairs=replace(COMPARED, rows=rows)), SILENT)
        up[rows] = found.rounds[0].costs[0].bytes_up
    assert up[24] - up[12] == 5 * 2 * 4 * 12 * int(0.9 * 20)


def test_clients_that_fall_silent_leave_pairs_for_later_or_lost() -> None:
    found = measure(Plain(), pairs_workload(drop=0.2, rounds=4), SILENT)
    assert 0 < found.rounds[0].pairs < 15
    assert sum(phase.pairs for phase in found.rounds) <= 15


@pytest.mark.long
@pytest.mark.trains
def test_the_load_of_a_scenario_is_that_of_its_run() -> None:
    scenario = replace(
        quickstart(),
        algorithm=EMDCFL(eps=0.1, choice=PER_PAIR, size=Size(20)),
        protection=Plain(),
        validation=0.2,
    )
    scenario = replace(scenario, partition=replace(scenario.partition, clients=6), training=replace(scenario.training, epochs=1))
    load = replace(workload_of(scenario, None, None, None), rounds=2)
    assert load.pairs is not None
    assert (load.pairs.rows, load.pairs.inputs) == (20, 64)
    ours = measure(Plain(), load, SILENT).rounds[0]
    at_once = Simulation(scenario, None)
    at_once.step()
    theirs = (at_once.view.record.traffic.bytes_up, at_once.view.record.traffic.bytes_down)
    assert traffic(ours) == pytest.approx(theirs, abs=6 * 8)  # a session's name is a few bytes longer
    with pytest.raises(ValueError, match="what clients are compared by"):
        workload(PAIRS)
    table = notes(measure(Plain(), load, SILENT), load)
    assert "15 pairs of clients decided" in "".join(str(cell) for column in table.columns for cell in column.cells)


@pytest.mark.parametrize("protection", [Masked(floor=2, dropped=0), Plain()], ids=["Masked", "Plain"])
def test_who_has_clients_choose_pays_for_offers_and_says_who_learned_what(protection):
    """Before: offers and choices were left out, half of what clients of the hardened FLIC are sent."""
    load = Workload(needs=frozenset({Functionality.SUMS}), clients=6, parameters=500, rounds=2)
    choosing = replace(load, needs=frozenset({Functionality.SUMS, Functionality.CHOICE}))
    without, with_ = (measure(protection, of, lambda _: None) for of in (load, choosing))
    words = {entry.words for entry in with_.log} - {entry.words for entry in without.log}
    assert {"the models that they were offered", "the name of the model that serves it best"} <= words
    received = [sum(cost.bytes_down for i, cost in of.rounds[-1].costs.items() if i >= 0) for of in (without, with_)]
    assert received[1] > received[0] + 6 * 2 * 500 * 4
    assert not with_.trouble


@pytest.mark.parametrize(
    ("protection", "needs", "models"),
    [
        (Masked(floor=2), {Functionality.SUMS}, 1),
        (Masked(floor=2), {Functionality.SLOTS}, 3),
        (Encrypted(), {Functionality.SUMS}, 0),
    ],
    ids=["one model", "slots", "clients hold models"],
)
def test_what_scores_cost_beside_it_is_said(protection, needs, models):
    """Before: not a word of them, though `serve --ask-scores` sends every client its model twice in a round."""
    load = Workload(needs=frozenset(needs), clients=6, parameters=500, rounds=1, slots=3)
    said = dict(not_in_costs(measure(protection, load, SILENT), load))
    assert ("scores" in said) == (models > 0)
    if models:
        assert f"{2 * models},000 B" in said["scores"].replace(" kB", ",000 B")
    assert "not counted" in said["links"]
    assert "at most" not in said


def test_similarities_in_every_round_are_said_to_be_the_most():
    load = Workload(needs=frozenset({Functionality.SUMS, Functionality.GRAM}), clients=6, parameters=500, rounds=1)
    measured = measure(Masked(floor=2), load, SILENT)
    assert dict(not_in_costs(measured, load))["at most"].startswith("similarities are asked for in every round here")
    shown = "".join(str(cell) for column in notes(measured, load).columns for cell in column.cells)
    assert "not counted" in shown
    assert "similarities are asked for" in shown
