"""`cloister attack`: its folder, its report, what replays its finds, and what a kill leaves; breakdown beside a finished grid."""

import html
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from cloister import attack as attack_from_python
from cloister import cli
from cloister.attacking.asked import _most
from cloister.attacking.data import read_search
from cloister.attacking.defence import Subject, expressed, subject, subject_of
from cloister.attacking.play import defence_words
from cloister.attacking.report import render, tiles
from cloister.attacking.source import Unwritable, expression, scenario_source
from cloister.attacking.tables import verdict
from cloister.attacking.words import said
from cloister.attacking.workers import Origin
from cloister.evaluating.data import read_grid
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.robust.averages import Mean
from cloister.fl.robust.coordinates import Median, TrimmedMean
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.robust.mixing import NNM, Mixed
from cloister.scenario_file import load, load_evaluation
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.knowledge import Level
from cloister.threat_models.line_search import WithExtra, last_aggregate
from cloister.threat_models.membership import Fixed, Pool, Schedule
from cloister.threat_models.search.choosing import Given
from cloister.threat_models.search.forms import usual_forms
from cloister.threat_models.search.found import key_of
from cloister.threat_models.search.play import Try, last_rounds, played, scenario_of
from cloister.threat_models.search.space import Space
from cloister.threat_models.simple_attacks import MinusGradient

from . import evaluation_sample as sample

FILE = Path(__file__).parent / "evaluation_sample.py"
ROOT = FILE.parent.parent


class Result(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Result]


@pytest.fixture
def cloister(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(tmp_path)

    def command(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["cloister", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err + captured.out
        return Result(int(caught.value.code or 0), captured.out, captured.err)

    return command


def timeless(path: Path) -> list[Mapping[str, Any]]:
    """The lines of a folder without what the clock says."""
    lines = [json.loads(line) for line in (path / "results.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "cost"} for line in lines]


ATTACK = ("attack", FILE, "--against", "fedavg", "--workers", 1, "--attackers", "1-3", "--budget", 32, "--loss", 0.05)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small search."""
    pytest.importorskip("optuna")
    out = tmp_path_factory.mktemp("searches") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["cloister", *map(str, ATTACK), "--out", str(out)])
        with pytest.raises(SystemExit):
            cli.main()
    return out


# --- what it leaves ---------------------------------------------------------------------------------------------------


@pytest.mark.trains
@pytest.mark.long
def test_what_was_found_is_replayed_by_run_with_the_same_numbers(cloister: Command, searched: Path) -> None:
    """Round by round: the mean over the loyal clients and the judged rounds is exactly that of the search's line."""
    search = read_search(searched)
    files = [name for name in ("worst.py", "break.py") if (searched / name).exists()]
    assert "worst.py" in files
    for name in files:
        told = search.found["worst" if name == "worst.py" else "cheapest"]
        assert cloister("run", searched / name, "--out", name.removesuffix(".py")).code in (0, 3)  # 3: some were rejected
        rounds = [json.loads(line) for line in Path(name.removesuffix(".py"), "metrics.jsonl").read_text().splitlines()]
        wanted = (told["numbers"], told["attackers"], 0)
        (line,) = [row for row in search.rows if (row["numbers"], row["attackers"], row["seed"]) == wanted]
        judged = last_rounds(sample.scenario.rounds, 1)
        course = [[rounds[t]["accuracy"][i] for i in line["of"]] for t in judged]
        assert float(np.array(course).mean(axis=0).mean()) == line["accuracy"]


@pytest.mark.long
@pytest.mark.trains
def test_a_search_that_was_stopped_says_what_broke_though_it_had_not_said_so_itself(searched: Path, tmp_path: Path) -> None:
    """Its lines have breaks, and the file of what was found is not there yet."""
    shutil.copytree(searched, tmp_path / "stopped")
    (tmp_path / "stopped" / "found.json").unlink()
    whole, stopped = read_search(searched), read_search(tmp_path / "stopped")
    assert whole.unsettled is None
    assert stopped.breaks
    assert stopped.unsettled is not None
    fewest = min(point.attackers for point in stopped.breaks)
    assert verdict(stopped).startswith(f"Broken by {fewest} of ")
    assert "was stopped after" in verdict(stopped)
    assert tiles(stopped)[0].value.startswith(f"{fewest} of ")


@pytest.mark.trains
def test_the_folder_says_all_and_the_report_is_made_of_it_alone(cloister: Command, searched: Path) -> None:
    search = read_search(searched)
    assert len(search.rows) <= 32
    told = verdict(search)
    assert "safe" not in told
    assert f"{len(search.rows)} runs" in told
    page = html.unescape((searched / "report.html").read_text())
    assert told in page.replace("\N{NO-BREAK SPACE}", " ")  # no line breaks before %
    assert "Left out" in page
    assert "cloister attack" in page
    (searched / "report.html").unlink()
    assert cloister("report", searched).code == 0
    assert html.unescape((searched / "report.html").read_text()) == page
    for row in search.rows:
        assert {"key", "about", "numbers", "attackers", "seed", "status", "cost"} <= row.keys()


@pytest.mark.trains
@pytest.mark.long
def test_a_search_goes_on_where_it_was_and_json_is_all_that_is_printed(cloister: Command, searched: Path) -> None:
    """Of the lines of a search that was cut off, none is played again, and those that follow are the same."""
    whole = timeless(searched)
    lines = (searched / "results.jsonl").read_bytes().splitlines(keepends=True)
    part = Path("part")
    (part / "clean").mkdir(parents=True)
    for name in ("search.json",):
        (part / name).write_bytes((searched / name).read_bytes())
    for file in (searched / "clean").iterdir():
        (part / "clean" / file.name).write_bytes(file.read_bytes())
    (part / "results.jsonl").write_bytes(b"".join(lines[:9]) + lines[9][:40])  # the tenth was being written
    result = cloister(*ATTACK, "--out", part, "--resume", "--json")
    assert result.code == 0
    assert timeless(part) == whole
    assert (part / "results.jsonl").read_bytes().splitlines(keepends=True)[:9] == lines[:9]
    told = json.loads(result.out)
    assert told["runs"] == len(whole)
    assert told["verdict"] == verdict(read_search(part))


@pytest.mark.slow
@pytest.mark.trains
def test_two_workers_killed_and_resumed_find_what_one_process_finds(cloister: Command, searched: Path) -> None:
    command = [sys.executable, "-m", "cloister.cli", *map(str, ATTACK), "--workers", "2", "--out", "two"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        deadline, results = time.monotonic() + 120, Path("two/results.jsonl")
        while time.monotonic() < deadline and (not results.exists() or results.read_bytes().count(b"\n") < 4):
            time.sleep(0.01)
        process.kill()
        assert process.stdout is not None
        assert process.stdout.read() == b""  # returns when every process that had it is gone
    assert 4 <= results.read_bytes().count(b"\n") < 24
    assert cloister(*ATTACK, "--out", "two", "--resume").code == 0
    assert sorted(map(repr, timeless(Path("two")))) == sorted(map(repr, timeless(searched)))
    assert json.loads(Path("two/found.json").read_text())["worst"] == json.loads((searched / "found.json").read_text())["worst"]


@pytest.mark.long
@pytest.mark.trains
def test_lines_about_another_defence_are_left_aside(cloister: Command, searched: Path) -> None:
    again = ("attack", FILE, "--against", "multikrum", "--workers", 1, "--attackers", "2", "--budget", 4, "--attack", "IPM")
    folder = Path("both")
    (folder / "clean").mkdir(parents=True)
    (folder / "results.jsonl").write_bytes((searched / "results.jsonl").read_bytes())
    (folder / "search.json").write_bytes((searched / "search.json").read_bytes())
    assert cloister(*again, "--out", folder).code == 1
    assert cloister(*again, "--out", folder, "--resume").code == 0
    search = read_search(folder)
    assert (len(search.rows), search.foreign) == (4, len(timeless(searched)))
    assert {p.numbers["attack"] for p in search.points.values()} == {"IPM"}
    assert "lines of searches of another defence or setting" in (folder / "report.html").read_text()


@pytest.mark.trains
def test_a_page_escapes_what_comes_from_the_search(searched: Path) -> None:
    search = read_search(searched)
    nasty = replace(search, about={**search.about, "defence": "<script>alert(1)</script>"})
    assert "<script>alert(1)" not in render(nasty)


@pytest.mark.long
@pytest.mark.trains
def test_what_the_budget_left_open_is_said_and_played_first_with_a_larger_one(
    cloister: Command, searched: Path, tmp_path: Path
) -> None:
    """Of a point that, as its line says now, broke the defence where it was searched, and was not played elsewhere."""
    search = read_search(searched)
    point = next(p for p in search.points.values() if 0 in p.searched and not p.held_out and not p.failed)
    key = key_of(point.numbers, point.attackers)
    lines = [json.loads(line) for line in (searched / "results.jsonl").read_text().splitlines()]
    for row in lines:
        if (row["numbers"], row["attackers"], row["seed"]) == (point.numbers, point.attackers, 0):
            row |= {"accuracy": -1.0, "of": dict.fromkeys(row["of"], -1.0)}
    (tmp_path / "search.json").write_bytes((searched / "search.json").read_bytes())
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    shutil.copytree(searched / "clean", tmp_path / "clean")
    after = read_search(tmp_path)
    assert after.open == search.open + 1
    if not after.breaks:
        assert "could not be tried on all others" in verdict(after)
    larger = [*ATTACK[: ATTACK.index("--budget") + 1], 33, *ATTACK[ATTACK.index("--budget") + 2 :]]
    result = cloister(*larger, "--out", tmp_path, "--resume")
    assert result.code == 0
    assert "defence     fedavg: FedAvg" in result.out
    first = next(row for row in timeless(tmp_path)[len(lines) :] if "attack" in row["numbers"])
    assert (first["numbers"], first["attackers"], first["seed"]) == (point.numbers, point.attackers, 1)
    assert read_search(tmp_path).points[key].held_out


def test_who_was_attacked_says_that_the_file_s_defences_were_not() -> None:
    """Before: "FedAvg()", the scenario's own, of a file with three defences."""
    words = defence_words(None, subject_of(str(FILE), None))
    assert words == "FedAvg(), the scenario's own; --against takes fedavg, multikrum"
    assert defence_words("multikrum", subject_of(str(FILE), "multikrum")).startswith("multikrum: RobustFedAvg(")
    assert defence_words(None, Subject(load(f"{FILE}:scenario"))) == "FedAvg()"


def test_a_search_that_has_played_nothing_has_a_page(searched: Path, tmp_path: Path) -> None:
    (tmp_path / "search.json").write_bytes((searched / "search.json").read_bytes())
    (tmp_path / "results.jsonl").touch()
    search = read_search(tmp_path)
    assert verdict(search) == "Nothing was tried yet (0 runs, 0 CPU seconds)."
    assert "Nothing was played yet" in render(search)


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.py"], "there is no file nowhere.py"),
        (
            [FILE, "--against", "Krum"],
            r"Krum is written as it is made: Krum\(f=...\); the evaluation's defences are: fedavg, multi",
        ),
        ([FILE, "--against", "TrMean(1)"], "no algorithm or rule 'TrMean'; did you mean 'TrimmedMean'; the evaluation's"),
        ([FILE, "--against", "nobody"], "no algorithm or rule 'nobody'; the evaluation's defences are: fedavg, multikrum"),
        ([FILE, "--against", "MultiKrum("], "no defence and no expression for one"),
        ([FILE, "--against", "MultiKrum()"], r"MultiKrum is written as it is made: MultiKrum\(f=...\)"),
        ([FILE, "--attackers", "3-9"], "--attackers takes a number or a range below 8"),
        ([FILE, "--attackers", "1.5"], "--attackers takes numbers and ranges, .* not '1.5'"),
        ([FILE, "--attackers", "3-1"], "--attackers 3-1 is no range upwards"),
        ([FILE, "--held-out", "x"], "--held-out takes numbers and ranges"),
        ([FILE, "--attack", "Nobody"], "there is no attack 'Nobody'; there are: A3FL"),
        ([FILE, "--attack", "minsu"], "there is no attack 'minsu'; did you mean 'minus'; .*; the file's own: "),
        ([FILE, "--knows", "all"], "--knows is own"),
        ([FILE, "--goal", "all"], "the goal is any, accuracy, backdoor, not 'all'"),
        ([FILE, "--fix", "samples"], "--fix takes NAME=VALUE"),
        ([FILE, "--fix", "layers=two"], "layers is one of all, one, not two"),
        ([FILE, "--fix", "colour=red"], "the space has no number 'colour'; it has: .*schedule"),
        ([FILE, "--loss", "2"], "loss is above 0 and at most 1"),
        ([FILE, "--seeds", "0", "--held-out", "0"], "others to hold out"),
        ([FILE, "--out", "here", "--resume"], "no search to resume"),
    ],
)
def test_errors_are_one_line(cloister: Command, arguments: list[object], words: str) -> None:
    pytest.importorskip("optuna")
    result = cloister("attack", *arguments, "--workers", 1)
    assert result.code == 1
    (line,) = result.err.splitlines()
    assert re.search(words, line), line


def test_without_optuna_the_command_says_what_to_install(cloister: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    result = cloister(*ATTACK)
    assert result.code == 1
    assert "pip install 'cloister[search]'" in result.err


# --- defences and files -----------------------------------------------------------------------------------------------


def test_a_defence_is_a_name_or_an_expression() -> None:
    assert subject_of(str(FILE), "multikrum").scenario.algorithm == RobustFedAvg(rule=MultiKrum(2))
    assert subject_of(str(FILE), None, ["rounds=7"]).scenario.rounds == 7
    assert subject_of(f"{FILE}:scenario", None).scenario.algorithm == FedAvg()
    assert expressed("HardenedFLIC()", 40) == HardenedFLIC(rounds_before=10, every=5)
    assert expressed("FLIC(rounds_before=3, participation=0.5)", 40) == FLIC(rounds_before=3, participation=0.5)
    assert expressed("Mixed((NNM(f=2),), Median())", 40) == RobustFedAvg(rule=Mixed((NNM(2),), Median()))
    assert expressed("Median", 40) == RobustFedAvg(rule=Median())
    for wrong in ("__import__('os')", "MultiKrum(open)", "1", "[x for x in ()]", "Median.combine"):
        with pytest.raises(ValueError, match=r"no part of a defence|no algorithm|takes"):
            expressed(wrong, 40)


def executed(text: str) -> Any:
    scope: dict[str, Any] = {}
    exec(compile(text, "written", "exec"), scope)  # noqa: S102
    return scope["scenario"]


def test_as_many_attackers_are_tried_as_the_defence_is_built_for() -> None:
    for rule, most in ((TrimmedMean(b=2), 2), (Mixed((NNM(2),), Median()), 2), (MultiKrum(1), 1), (Median(), 3), (Mean(), 3)):
        space = Space(replace(sample.scenario, algorithm=RobustFedAvg(rule=rule)))
        assert _most(space, 8) == most, rule


@pytest.mark.trains
def test_a_search_takes_what_the_evaluation_says_that_a_defence_is_built_for(tmp_path: Path) -> None:
    """Before: up to 3 of 8 clients, and a break by 3 as one that nothing is said of, though limits={"fedavg": 2}."""
    pytest.importorskip("optuna")
    limited = replace(sample.evaluation, limits={"fedavg": 2}, defences={"fedavg": FedAvg(), "flic": FLIC(rounds_before=2)})
    assert [subject(limited, of).limit for of in ("fedavg", "flic", "Median", None)] == [2, None, None, None]
    search = {"attacks": ["MinusGradient"], "budget": 6, "workers": 1, "quiet": True}
    folder = attack_from_python(limited, against="fedavg", out=tmp_path / "a", **search).folder
    about = json.loads((folder / "search.json").read_text())
    assert (about["least"], about["most"], about["built_for"]) == (1, 2, 2)
    more = json.loads(
        (attack_from_python(limited, against="flic", out=tmp_path / "b", **search).folder / "search.json").read_text()
    )
    assert (more["most"], more["built_for"]) == (3, None)


def test_a_scenario_is_written_as_a_file_that_makes_it_again() -> None:
    adversary = Adversary(
        members=Fixed((1, 3)),
        upload=MinusGradient(float("inf")),
        when=Schedule(start=2, pauses=((3, 4), (5, 7))),
        knows=Level.INSIDER,
        rule=WithExtra(Mixed((NNM(2),), Median()), last_aggregate),
        samples=2.5,
    )
    for scenario in (
        replace(sample.scenario, name='a "name"', seed=5, adversary=adversary),
        replace(load_evaluation(str(ROOT / "examples" / "evaluate_digits.py")).scenario, adversary=adversary),
    ):
        text = scenario_source(scenario, 'three """ quotes \\', Origin("nowhere.py"))
        assert executed(text) == scenario


def test_every_point_of_a_space_is_written_as_a_file_that_makes_it_again() -> None:
    space = Space(replace(sample.scenario, algorithm=HardenedFLIC(rounds_before=1, every=2, by_samples=True)))
    for numbers in usual_forms(space):
        scenario = replace(space.scenario, adversary=space.adversary(Given(numbers), Pool(2)))
        assert executed(scenario_source(scenario, "", None)) == scenario, numbers


def test_a_scenario_with_parts_of_the_users_own_loads_the_file_that_they_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "own.py"
    own.write_text(
        f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from dataclasses import dataclass, replace
from cloister.fl.data.partition import Iid
from tests.evaluation_sample import scenario as base

@dataclass(frozen=True)
class Mine:
    clients: int
    def __call__(self, source, rng, /):
        return Iid(clients=self.clients, samples=20)(source, rng)

scenario = replace(base, partition=Mine(6))
"""
    )
    scenario = replace(load(str(own)), seed=3, adversary=Adversary(members=Pool(2), upload=MinusGradient(0.5)))
    text = scenario_source(scenario, "", Origin(str(own), "Median()", ("rounds=9",)))
    made = executed(text)
    assert (made.rounds, made.seed, made.adversary) == (9, 3, scenario.adversary)
    assert repr(made.partition) == "Mine(clients=6)"
    assert made.algorithm == RobustFedAvg(rule=Median())


def test_what_cannot_be_imported_is_not_written() -> None:
    @dataclass(frozen=True)
    class Local:
        x: int

    for value in (Local(1), lambda x: x, object()):
        with pytest.raises(Unwritable):
            expression(value, set())


def test_a_point_is_said_without_what_is_usual() -> None:
    space = Space(replace(sample.scenario, algorithm=HardenedFLIC(rounds_before=1, every=2, by_samples=True)))
    forms = usual_forms(space)
    assert said(forms[0]) == "MinusGradient(strength 1)"
    assert "Honest, votes by WorstModel" in {said(form) for form in forms}
    assert "MinusGradient(strength 1), each claiming 10 times its examples" in {said(form) for form in forms}


@pytest.mark.trains
def test_a_try_is_the_run_that_its_scenario_is() -> None:
    """And the run without the attackers' data has the same loyal clients, who learn without the others."""
    space = Space(sample.scenario)
    numbers = usual_forms(space)[0]
    one = Try(numbers, 3, 4)
    scenario, absent = scenario_of(space, one, None), scenario_of(space, one.absent, None)
    assert (scenario.seed, scenario.adversary.members) == (4, Pool(3))  # type: ignore[union-attr]
    attacked, _ = played(scenario, None, None)
    alone, clean = played(absent, None, None)
    assert attacked["members"] == alone["members"]
    assert attacked["of"].keys() == alone["of"].keys() == {str(i) for i in clean.clients}
    assert attacked["accuracy"] != alone["accuracy"]


# --- breakdown in the folder of a finished grid -----------------------------------------------------------------------


@pytest.mark.trains
@pytest.mark.long
def test_breakdown_does_not_narrow_the_report_of_a_finished_grid(cloister: Command) -> None:
    assert cloister("evaluate", FILE, "--workers", 1, "--seeds", "0,1", "--out", "here").code == 0
    about, grid = Path("here/evaluation.json").read_bytes(), read_grid(Path("here"))
    search = ("breakdown", FILE, "--workers", 1, "--against", "fedavg", "--attack", "minus", "--most", 2, "--loss", 0.01)
    assert cloister(*search, "--seeds", "0", "--out", "here", "--resume").code == 0
    after = read_grid(Path("here"))
    assert Path("here/evaluation.json").read_bytes() == about
    assert after.expected == grid.expected == 20
    assert sum(map(len, after.cells.values())) == 20
    page = html.unescape(Path("here/report.html").read_text())
    assert "20 of 20" in page
    assert "<summary>strengths tried, seed by seed" in page
    (one,) = json.loads(Path("here/breakdown.json").read_text())["results"]
    assert [seed["seed"] for seed in one["seeds"]] == [0]


def test_a_search_does_not_share_the_folder_of_a_grid(cloister: Command, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    (tmp_path / "here").mkdir()
    for name, text in (("results.jsonl", ""), ("evaluation.json", "{}")):
        (tmp_path / "here" / name).write_text(text)
    for options in ([], ["--resume"]):
        result = cloister(*ATTACK, "--out", "here", *options)
        assert result.code == 1
        assert "choose another folder" in result.err
    assert (tmp_path / "here" / "evaluation.json").read_text() == "{}"
