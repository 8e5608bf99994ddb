"""Runs that were killed, stopped or damaged go on and end as an undisturbed run does."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from torch import nn

from cloister.fl.algorithms.algorithm import Algorithm
from cloister.fl.algorithms.cfl import CFL, Absolute, ScaleFree
from cloister.fl.algorithms.fedavg import FedAvg, Local, Oracle
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.clients.fast import Fast
from cloister.fl.clients.record_privacy import RecordPrivacy
from cloister.fl.clients.training import Job, Training
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.robust.similarity import FoolsGold
from cloister.fl.robust.weiszfeld import CenteredClipping
from cloister.fl.runs.checkpoint import latest
from cloister.fl.runs.codec import from_plain, to_plain
from cloister.fl.runs.experiment import run
from cloister.fl.runs.lost_round import NothingLearned
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked, Permuted, Plain
from cloister.protocol.core.link import Frame
from cloister.protocol.masked.noise import Noise
from cloister.protocol.privacy.ledger import Unit
from cloister.protocol.uploaded.central import CentralNoise

ROOT = Path(__file__).parents[1]
QUICKSTART = ROOT / "examples" / "quickstart.py"
TIMINGS = ("seconds",)


@dataclass(frozen=True)
class Losing:
    """A network that loses every upload of some clients; the same in a resumed run, since it remembers nothing."""

    clients: frozenset[int]

    def __call__(self, frame: Frame, /) -> list[Frame]:
        return [] if frame.kind == "Upload" and frame.sender in self.clients else [frame]


SMALL = Scenario(
    name="small",
    data=Digits(),
    partition=LabelSwap(clients=8, groups=2, samples=60),
    model=Mlp(hidden=(8,)),
    training=Training(epochs=2, batch=10, lr=0.1, momentum=0.5),
    algorithm=CFL(thresholds=ScaleFree(eps1=0.9, eps2=0.1), patience=2, participation=0.75, sampling="random"),
    protection=Permuted(floor=2),
    rounds=10,
    validation=0.2,
    evaluate_every=3,
)


def untimed(path: Path) -> Any:
    """The file's content without timings, or the hash of a file that is not JSON."""
    if path.suffix not in (".json", ".jsonl"):
        return hashlib.sha256(path.read_bytes()).hexdigest()
    text = path.read_text()
    values = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else [json.loads(text)]
    return [{k: v for k, v in value.items() if k not in TIMINGS} if isinstance(value, dict) else value for value in values]


def outcome(folder: Path) -> dict[str, Any]:
    """Everything that a run folder says, but for timings, checkpoints (they hold timings) and the drawn report."""
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and "checkpoints" not in p.parts and p.name != "report.html"]
    return {str(p.relative_to(folder)): untimed(p) for p in files}


def play(scenario: Scenario, folder: Path, rounds: int | None = None, resume: bool = False) -> None:
    """All of a run, or as much as `rounds` further rounds before it is abandoned."""
    steps = run(scenario, folder, resume=resume)
    for k, _ in enumerate(steps):
        if k + 1 == rounds:
            return


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The outcome of SMALL, played at once."""
    folder = tmp_path_factory.mktemp("undisturbed")
    play(SMALL, folder)
    return outcome(folder)


WAITING = replace(SMALL, algorithm=replace(SMALL.algorithm, participation=1.0), faults=Losing(frozenset({5})))  # type: ignore[type-var]
ARRIVING = replace(SMALL, protection=Plain(), arrivals={1: 2, 6: 7})
VARIANTS: dict[str, Scenario] = {
    "cfl": SMALL,
    "waiting": WAITING,
    "arriving": ARRIVING,
    "gradient": replace(SMALL, algorithm=replace(SMALL.algorithm, similarity="gradient")),  # type: ignore[type-var]
    "fedavg": replace(SMALL, algorithm=FedAvg(participation=0.5, sampling="random")),
    "oracle": replace(SMALL, algorithm=Oracle(), protection=Plain()),
    "local": replace(SMALL, algorithm=Local()),
    "foolsgold": replace(SMALL, algorithm=RobustFedAvg(rule=FoolsGold(), participation=0.75, sampling="random")),
    "centred clipping": replace(
        SMALL, algorithm=RobustFedAvg(rule=CenteredClipping(tau=0.5), participation=0.75, sampling="random")
    ),
}


@pytest.mark.trains
@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.long
def test_a_run_that_is_stopped_again_and_again_ends_as_if_it_had_not_been(name: str, tmp_path: Path) -> None:
    scenario = VARIANTS[name]
    play(scenario, tmp_path / "whole")
    play(scenario, tmp_path / "broken", rounds=1)
    for rounds in (3, 1, 2):
        play(scenario, tmp_path / "broken", rounds, resume=True)
    play(scenario, tmp_path / "broken", resume=True)
    assert outcome(tmp_path / "broken") == outcome(tmp_path / "whole")


@pytest.mark.long
@pytest.mark.trains
def test_the_variants_put_into_their_states_what_must_survive() -> None:
    seen = {}
    for name in ("cfl", "waiting", "arriving"):
        simulation = Simulation(VARIANTS[name], None)
        for _ in range(SMALL.rounds):
            simulation.step()
        state = simulation.state
        assert from_plain(type(state), json.loads(json.dumps(to_plain(state)))) == state
        assert state.tree
        assert state.remembered
        seen[name] = state
    for name in ("foolsgold", "centred clipping"):
        simulation = Simulation(VARIANTS[name], None)
        for _ in range(3):
            simulation.step()
        state = simulation.state
        assert from_plain(type(state), json.loads(json.dumps(to_plain(state)))) == state
        if name == "centred clipping":
            assert state.remembered
        else:  # cosines alone outlive their round
            assert state.past.agreement.rounds.max() > 1
        assert len(state.models) == (2 if name == "centred clipping" else 1)
    assert seen["waiting"].waiting == {5: "0"}
    assert {i for c in seen["arriving"].clusters.values() for i in c.members} >= {1}


@pytest.mark.trains
def test_a_finished_run_goes_on_with_more_rounds(undisturbed: dict[str, Any], tmp_path: Path) -> None:
    short = replace(SMALL, rounds=6)  # a multiple of evaluate_every, or its end is evaluated on top
    play(short, tmp_path / "grown")
    before = outcome(tmp_path / "grown")
    play(SMALL, tmp_path / "grown", resume=True)
    assert outcome(tmp_path / "grown") == undisturbed != before
    assert json.loads((tmp_path / "grown" / "scenario.json").read_text())["rounds"] == SMALL.rounds


@pytest.mark.trains
def test_models_of_clusters_that_were_split_since_do_not_stay(tmp_path: Path) -> None:
    play(replace(SMALL, rounds=1), tmp_path / "grown")
    assert [p.name for p in (tmp_path / "grown" / "models").iterdir()] == ["0.safetensors"]
    play(SMALL, tmp_path / "grown", resume=True)
    tree = json.loads((tmp_path / "grown" / "tree.json").read_text())
    expected = {f"{node['name']}.safetensors" if node["leaf"] else f"tree-{node['name']}.safetensors" for node in tree}
    assert {p.name for p in (tmp_path / "grown" / "models").iterdir()} == expected
    assert "0.safetensors" not in expected


@pytest.mark.trains
def test_a_finished_run_that_is_resumed_again_stays_as_it_is(undisturbed: dict[str, Any], tmp_path: Path) -> None:
    play(SMALL, tmp_path)
    play(SMALL, tmp_path, resume=True)
    assert outcome(tmp_path) == undisturbed


@pytest.mark.trains
def test_fewer_rounds_than_were_played_are_refused(tmp_path: Path) -> None:
    play(SMALL, tmp_path)
    before = outcome(tmp_path)
    with pytest.raises(ValueError, match="already played 10 rounds"):
        play(replace(SMALL, rounds=5), tmp_path, resume=True)
    assert outcome(tmp_path) == before


@pytest.mark.trains
def test_a_run_that_ends_between_two_evaluations_is_evaluated_at_its_end(tmp_path: Path) -> None:
    play(SMALL, tmp_path, rounds=5)
    play(replace(SMALL, rounds=5), tmp_path, resume=True)
    assert 0 < json.loads((tmp_path / "summary.json").read_text())["accuracy_mean"] <= 1


@pytest.mark.trains
def test_a_partial_last_line_and_lines_after_the_checkpoint_are_cut(undisturbed: dict[str, Any], tmp_path: Path) -> None:
    play(SMALL, tmp_path / "cut", rounds=5)
    for log in ("metrics.jsonl", "splits.jsonl", "disclosure.jsonl", "faults.jsonl"):
        with open(tmp_path / "cut" / log, "a") as file:
            file.write('{"round": 5, "of a round": "that was lost"}\n{"round": 6, "clus')
    play(SMALL, tmp_path / "cut", resume=True)
    assert outcome(tmp_path / "cut") == undisturbed


@pytest.mark.trains
def test_a_run_that_was_killed_before_its_first_checkpoint_begins_anew(undisturbed: dict[str, Any], tmp_path: Path) -> None:
    play(SMALL, tmp_path / "early", rounds=1)
    shutil.rmtree(tmp_path / "early" / "checkpoints")
    play(SMALL, tmp_path / "early", resume=True)
    assert outcome(tmp_path / "early") == undisturbed


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("damage", [flip, truncate, Path.unlink])
@pytest.mark.parametrize("file", ["state.json", "vectors.safetensors"])
def test_after_damage_the_checkpoint_before_still_resumes(
    file: str, damage: Callable[[Path], None], undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    folder = tmp_path / "damaged"
    play(SMALL, folder, rounds=6)
    newest = latest(folder / "checkpoints")
    assert newest is not None
    damage(newest / file)
    before = outcome(folder)
    with pytest.raises(ValueError, match="is damaged") as caught:
        play(SMALL, folder, resume=True)
    assert str(newest) in str(caught.value)
    assert outcome(folder) == before
    shutil.rmtree(newest)  # as the message says
    play(SMALL, folder, resume=True)
    assert outcome(folder) == undisturbed


DIFFERENT: dict[str, Scenario] = {
    "seed": replace(SMALL, seed=3),
    "training": replace(SMALL, training=replace(SMALL.training, lr=0.2)),
    "protection": replace(SMALL, protection=Plain()),
    "algorithm": replace(SMALL, algorithm=FedAvg()),
}


@pytest.mark.trains
@pytest.mark.parametrize("field", DIFFERENT)
def test_another_scenario_is_not_mixed_in(field: str, tmp_path: Path) -> None:
    play(SMALL, tmp_path, rounds=2)
    before = outcome(tmp_path)
    with pytest.raises(ValueError, match=f"another {field}"):
        play(DIFFERENT[field], tmp_path, resume=True)
    assert outcome(tmp_path) == before


@pytest.mark.trains
def test_what_of_another_scenario_differs_is_said_with_both_values(tmp_path: Path) -> None:
    play(SMALL, tmp_path, rounds=2)
    other = replace(SMALL, seed=3, training=replace(SMALL.training, lr=0.2))
    with pytest.raises(ValueError, match=r"another training\.lr \(0\.\d+, and 0\.2 now\), seed \(\d+, and 3 now\); resume it"):
        play(other, tmp_path, resume=True)


@pytest.mark.trains
def test_a_folder_that_holds_a_run_is_not_written_over(tmp_path: Path) -> None:
    play(SMALL, tmp_path, rounds=2)
    before = outcome(tmp_path)
    with pytest.raises(ValueError, match="--resume"):
        play(SMALL, tmp_path)
    assert outcome(tmp_path) == before


def test_bad_input_leaves_no_folder_behind(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="99"):
        play(replace(SMALL, arrivals={99: 1}), tmp_path / "new")
    assert not (tmp_path / "new").exists()


# --- accounting -------------------------------------------------------------------------------------------------------


@pytest.mark.trains
@pytest.mark.parametrize("algorithm", [SMALL.algorithm, FedAvg()], ids=["cfl", "fedavg"])
@pytest.mark.parametrize("protection", [Plain(), Permuted(floor=2)], ids=["plain", "permuted"])
def test_bytes_of_rounds_are_all_but_the_seed_exchange(algorithm: Algorithm, protection: Any, tmp_path: Path) -> None:
    frames: list[Frame] = []

    def tap(frame: Frame) -> list[Frame]:
        frames.append(frame)
        return [frame]

    play(replace(SMALL, algorithm=algorithm, protection=protection, faults=tap, rounds=5), tmp_path)
    summary = json.loads((tmp_path / "summary.json").read_text())
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    exchange = ("Advertise", "Roster", "SealedSeed", "SeedTag", "SeedQuorum")
    for key, server in (("bytes_up", False), ("bytes_down", True)):
        sizes = [(len(f.data), f.kind) for f in frames if (f.sender == -1) == server]
        assert summary[key] == sum(size for size, _ in sizes)
        assert sum(line[key] for line in lines) == sum(size for size, kind in sizes if kind not in exchange)


@dataclass(frozen=True)
class Noisy:
    """A network that says some uploads a second time, cut short, so that the server refuses the second."""

    def __call__(self, frame: Frame, /) -> list[Frame]:
        return [frame, replace(frame, data=frame.data[:-1])] if frame.kind == "Upload" and frame.sender == 3 else [frame]


@pytest.mark.trains
def test_faults_are_logged_once_each_in_their_round(tmp_path: Path) -> None:
    from .test_scenario import Poisoned

    scenario = replace(SMALL, algorithm=FedAvg(), faults=Noisy(), execution=Poisoned(frozenset({5}), 2), rounds=4)
    play(scenario, tmp_path)
    faults = [json.loads(line) for line in (tmp_path / "faults.jsonl").read_text().splitlines()]
    found = sorted((f["round"], f["client"], "not finite" in f["reason"]) for f in faults)
    assert found == [(0, 3, False), (1, 3, False), (2, 3, False), (2, 5, True), (3, 3, False)]
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["faults"] == 5
    assert [f["client"] for f in summary["rejected"]] == [5]


class Killed(BaseException):
    """The process ends here."""


def deaths(scenario: Scenario, folder: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, Any]) -> int:
    """Dies before every single sync of a file to disk, of logs and of checkpoints, with half of its content lost, and goes on to
    the same end. Returns how often."""
    sync, alive, deaths = os.fsync, True, 0
    while alive:
        left, out = deaths, folder / str(deaths)

        def dying(descriptor: int) -> None:
            nonlocal left
            if left == 0:
                os.ftruncate(descriptor, os.fstat(descriptor).st_size - 7)
                raise Killed
            left -= 1
            sync(descriptor)

        monkeypatch.setattr(os, "fsync", dying)
        try:
            play(scenario, out)
            alive = False
        except Killed:
            deaths += 1
        monkeypatch.setattr(os, "fsync", sync)
        play(scenario, out, resume=True)
        assert outcome(out) == whole
    return deaths


@pytest.mark.long
@pytest.mark.trains
def test_death_at_any_write_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm = CFL(thresholds=ScaleFree(eps1=0.9, eps2=0.1), patience=1)
    scenario = replace(SMALL, algorithm=algorithm, rounds=3, validation=0.0)
    play(scenario, tmp_path / "whole")
    died = deaths(scenario, tmp_path, monkeypatch, outcome(tmp_path / "whole"))
    assert untimed(tmp_path / "whole" / "splits.jsonl")
    assert died >= 3 * (2 + 2)  # metrics, disclosure and the two files of a checkpoint in every round


SUMS = {"epsilon": 20.0, "delta": 1e-4, "rounds": 2, "l2": 1.0}
RECORDS = RecordPrivacy(clip=1.0, multiplier=2.0, budget=1000.0, delta=1e-5)
FEW = LabelSwap(clients=6, groups=2, samples=30)
SUMMED = replace(SMALL, partition=FEW, algorithm=FedAvg(by_samples=False), rounds=3, validation=0.0, evaluate_every=3)
NOISY: dict[str, tuple[Scenario, Unit]] = {
    "central sums": (replace(SUMMED, protection=Plain(noise=CentralNoise(**SUMS))), "client"),
    "noise in masked sums": (replace(SUMMED, protection=Masked(noise=Noise(**SUMS))), "client"),
    "records": (replace(SUMMED, training=replace(SUMMED.training, epochs=1, momentum=0.0, privacy=RECORDS)), "record"),
}
"""Whose budget is spent after two rounds of three."""


@pytest.mark.trains
@pytest.mark.parametrize("name", NOISY)
@pytest.mark.long
def test_death_at_any_write_spends_nothing_twice_and_forgets_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a round that is played again the noise is the same, and so what was told; the budget ends where it did."""
    scenario, unit = NOISY[name]
    if unit == "record":  # a budget of two rounds
        play(replace(scenario, rounds=2), tmp_path / "two")
        spent = json.loads((tmp_path / "two" / "privacy.json").read_text())[unit]["epsilon_worst"]
        privacy = replace(RECORDS, budget=1.01 * spent)
        scenario = replace(scenario, training=replace(scenario.training, privacy=privacy))
    play(scenario, tmp_path / "whole")
    found = outcome(tmp_path / "whole")
    died = deaths(scenario, tmp_path, monkeypatch, found)
    of = found["privacy.json"][0][unit]
    assert {row["times"] for client in of["clients"].values() for row in client["releases"]} == {2}
    assert 0 < of["epsilon_worst"] <= of["budget"]
    first, *then = (line["epsilon"][unit] for line in found["metrics.jsonl"])
    assert 0 < first < of["epsilon_worst"]
    assert {*then, found["summary.json"][0]["privacy"][unit]["epsilon_worst"]} == {of["epsilon_worst"]}
    assert died >= scenario.rounds * (1 + 2)


# --- kills ------------------------------------------------------------------------------------------------------------

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
COMMAND = [
    sys.executable,
    "-m",
    "cloister.cli",
    "run",
    str(QUICKSTART),
    "--json",
    "--rounds",
    "32",
    "--set",
    "evaluate_every=4",
    "--out",
]


def killed(folder: Path, when: Callable[[], bool], resume: bool) -> bool:
    """Start or resume the quickstart and kill it once `when` holds. Whether it was still running."""
    command = [*COMMAND, str(folder), *(["--resume"] if resume else [])]
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not when():
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def lines_of(folder: Path) -> int:
    log = folder / "metrics.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def writes_a_checkpoint(folder: Path) -> bool:
    return any((folder / "checkpoints").glob("*.partial")) if (folder / "checkpoints").exists() else False


@pytest.mark.slow
@pytest.mark.trains
def test_a_killed_quickstart_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run([*COMMAND, str(whole)], env=ENVIRONMENT, check=True, capture_output=True)
    chance = random.Random(0)
    moments: list[Callable[[], bool]] = [
        lambda: lines_of(broken) >= 3,
        lambda: lines_of(broken) >= 18 or (lines_of(broken) >= 12 and writes_a_checkpoint(broken)),
        lambda: lines_of(broken) >= 20 + chance.randrange(6),
    ]
    kills = [killed(broken, when, resume=k > 0) for k, when in enumerate(moments)]
    assert kills[0]
    done = subprocess.run([*COMMAND, str(broken), "--resume"], env=ENVIRONMENT, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout)["ari"] == 1.0
    assert outcome(broken) == outcome(whole)
    assert not list((broken / "checkpoints").glob("*.partial"))


@pytest.mark.trains
def test_a_scenario_with_an_infinite_threshold_resumes(tmp_path: Path) -> None:
    scenario = replace(SMALL, algorithm=CFL(thresholds=Absolute(eps1=0.0, eps2=inf)), rounds=2)
    list(run(scenario, tmp_path / "run"))
    assert len(list(run(replace(scenario, rounds=3), tmp_path / "run", resume=True))) == 1


@dataclass(frozen=True)
class Ruined:
    """An executor under which every client sends NaN."""

    def __call__(
        self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        return ((client, np.full_like(update, np.nan)) for client, update in Fast()(module, jobs, training, round))


@pytest.mark.trains
def test_lost_rounds_in_a_row_are_counted_through_an_interruption(tmp_path: Path) -> None:
    """Four clients of eight a round: after ten lost rounds the run ends, though others could still be asked."""
    algorithm = FedAvg(participation=0.5, sampling="random")
    scenario = replace(SMALL, algorithm=algorithm, protection=Plain(), execution=Ruined(), rounds=30)
    for _ in zip(range(6), run(scenario, tmp_path / "run"), strict=False):
        pass
    with pytest.raises(NothingLearned, match="round 9"):
        list(run(scenario, tmp_path / "run", resume=True))


def halved(updates: NDArray[np.float32]) -> NDArray[np.float32]:
    """A rule of one's own."""
    found: NDArray[np.float32] = (updates.mean(axis=0) / 2).astype(np.float32)
    return found


@pytest.mark.trains
def test_code_of_ones_own_that_begins_anew_is_said_to(tmp_path: Path) -> None:
    """What it keeps between rounds is in no checkpoint: a run that was stopped came out otherwise, and nothing said so."""
    own = replace(SMALL, protection=Plain(), algorithm=RobustFedAvg(rule=halved))  # type: ignore[arg-type]
    play(own, tmp_path / "own", 1)
    with pytest.warns(match="the algorithm has code of one's own: what that keeps from round to round, if anything, begins anew"):
        play(own, tmp_path / "own", 2, resume=True)
    play(SMALL, tmp_path / "ours", 1)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*begins anew")
        play(SMALL, tmp_path / "ours", 2, resume=True)
