"""A search takes the attacks and the partitions of the user's own file, and its table has one played point a row."""

import csv
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import pytest

from cloister import Scenario, Training, attack, attacks, cli, data, models
from cloister.attacking.data import read_search
from cloister.attacking.defence import subject
from cloister.attacking.points import point_rows, shown
from cloister.attacking.run import Named
from cloister.attacking.workers import Origin, space_of
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.data.partition import Dirichlet, Iid
from cloister.fl.runs.feasibility import Doubt
from cloister.fl.runs.scenario import described
from cloister.protocol import Plain
from cloister.scenario_file import load
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.backdoors import Backdoor, DistributedBackdoor
from cloister.threat_models.critical_layers import CriticalLayers
from cloister.threat_models.evaluation import Evaluation, Informed
from cloister.threat_models.knowledge import Level, Own
from cloister.threat_models.membership import Fixed, Pool
from cloister.threat_models.search.choosing import Given
from cloister.threat_models.search.fields import NotSearched, Span, family_of, made
from cloister.threat_models.search.forms import usual_forms
from cloister.threat_models.search.play import Sought
from cloister.threat_models.search.space import Space, corner_patch
from cloister.threat_models.simple_attacks import MinusGradient
from cloister.threat_models.triggers import Parts

from . import evaluation_sample as sample
from .test_search_space import Random

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Tuned:
    """Minus its own update, times a scale, for some rounds."""

    scale: Annotated[float, Span(1e-3, 1e3, log=True)]
    offset: Annotated[float, attacks.Span(-1.0, 1.0)] = 0.25
    waits: Annotated[int, attacks.Span(1, 6)] = 2
    share: float = 0.5
    needs: ClassVar = attacks.Level.OWN

    def __call__(self, own: Own, /) -> Any:
        return np.float32(-self.scale) * own.update


def minus(own: Own) -> Any:
    return -own.update


own: Any = {"tuned": Tuned(5.0), "mine": minus, "of a strength": lambda count: Adversary(members=Pool(int(count)), samples=3.0)}


def test_fields_of_ones_own_are_searched_in_their_spans_or_as_ours_are() -> None:
    choose = Random(np.random.default_rng(1))
    made(Tuned, choose, {}, 10)
    assert choose.ranges["Tuned.scale"] == (1e-3, 1e3, True, pytest.approx(1.0))
    assert choose.ranges["Tuned.offset"] == (-1.0, 1.0, False, 0.25)
    assert choose.ranges["Tuned.waits"] == (1, 6, 2)
    assert choose.ranges["Tuned.share"] == (0.0, 1.0, False, 0.5)
    wrong: Any
    for wrong in ((2, 1, False), (0, 1, True), (0, float("inf"), False), ("a", 2, False), (False, True, False)):
        with pytest.raises(ValueError, match="a span goes from"):
            Span(*wrong)

    @dataclass(frozen=True)
    class Outside:
        scale: Annotated[float, Span(0.1, 1)] = 5.0

    with pytest.raises(NotSearched, match=r"Outside\.scale is 5 by default, outside of its Span"):
        made(Outside, choose, {}, 10)

    @dataclass(frozen=True)
    class Whole:
        waits: Annotated[int, Span(1.2, 1.8)]
        tries: Annotated[int, Span(1.2, 2.8)] = 2

    with pytest.raises(NotSearched, match=r"Whole\.waits is an int, and there is none in its Span"):
        made(Whole, choose, {}, 10)
    made(Whole, choose, {}, 10, waits=1)
    assert choose.ranges["Whole.tries"] == (2, 2, 2)


def test_own_attacks_are_families_and_are_tried_early() -> None:
    space = Space(sample.scenario, own=own)
    assert set(own) <= set(space.attacks)
    forms = usual_forms(space)
    first = next(form for form in forms if form["attack"] == "tuned")
    assert first["tuned.scale"] == 5.0  # as the file's own has it
    assert {0.5, 50.0} <= {form["tuned.scale"] for form in forms if form["attack"] == "tuned"}
    assert {form["schedule"] for form in forms if form["attack"] == "mine"} == {"always"}
    adversary = space.adversary(Given({**first, "tuned.waits": 6}), Pool(2))
    assert (adversary.upload, adversary.members) == (Tuned(5.0, waits=6), Pool(2))
    whole = next(form for form in forms if form["attack"] == "of a strength")
    assert set(whole) == {"attack"}
    assert space.adversary(Given(whole), Fixed((1, 3))) == Adversary(members=Fixed((1, 3)), samples=3.0)


def test_a_class_needs_no_parentheses_and_what_cannot_be_searched_is_said() -> None:
    space = Space(sample.scenario, own={"Tuned": Tuned, "odd": lambda count: 1}, only=("Tuned", "odd"))
    assert space.attacks == ["Tuned"]
    assert "it is taken for a function from a strength" in space.left_out["odd"]
    with pytest.raises(ValueError, match=r"there is no attack 'x'; there are: .*; the file's own: Tuned"):
        Space(sample.scenario, own={"Tuned": Tuned}, only=("x",))


def about(**changes: Any) -> Evaluation:
    return replace(sample.evaluation, **changes)


def test_the_attacks_of_an_evaluation_that_are_its_own_are_taken_and_ours_are_there_already() -> None:
    insider = Informed(lambda count, scenario: Adversary(members=Pool(int(count)), upload=MinusGradient()))
    evaluation = about(attacks={**own, "ours": MinusGradient(0.3), "insider": insider})
    found = space_of(subject(evaluation, "fedavg"), Level.INSIDER, (), {}, None)
    assert set(found.own) == {*own, "insider"}
    asked = space_of(subject(evaluation, "fedavg"), Level.INSIDER, ("ours", "IPM"), {}, None)
    assert asked.attacks == ["ours", "IPM"]
    shares = space_of(subject(replace(evaluation, strength="share"), None), Level.INSIDER, (), {}, None)
    assert "insider" not in shares.own
    assert "made of a share" in shares.left_out["insider"]


@dataclass(frozen=True, slots=True)
class Bright:
    """A trigger of one's own."""

    def stamp(self, x: Any, /) -> Any:
        return x + 1


def test_a_trigger_of_ones_own_makes_a_backdoor_ones_own_and_is_what_is_searched() -> None:
    mine = {
        "bright": Backdoor(Bright(), target=1),
        "together": DistributedBackdoor(Parts((Bright(),))),
        "ours": Backdoor(corner_patch()),
    }
    found = space_of(subject(about(attacks=mine), "fedavg"), Level.OWN, (), {}, None, backdoors=True)
    assert set(found.own) == {"bright", "together"}
    forms = [form for form in usual_forms(found) if form["attack"] == "bright"]
    assert forms[0]["bright.trigger"] == "Bright"
    assert found.adversary(Given(forms[0]), Pool(2)).data == mine["bright"]
    other = found.adversary(Given({**forms[0], "bright.trigger": "corner_patch"}), Pool(2))
    assert other.data == Backdoor(corner_patch(), target=1)
    assert found.kinds.keys() >= {"bright", "Backdoor"}


def test_a_poison_inside_an_attack_of_ones_own_is_no_trigger_of_another() -> None:
    """Of what an attack was made with each part stands in its own place."""
    inside = CriticalLayers(poison=Backdoor(Bright(), target=1))
    choose = Random(np.random.default_rng(0))
    for _ in range(20):
        made(family_of("mine", inside), choose, Space(sample.scenario).makers, 10)
    assert choose.ranges["mine.poison"][0] == "Backdoor"
    triggers = [options for name, options in choose.ranges.items() if name.endswith(".trigger")]
    assert all("Backdoor" not in options for options in triggers)


def test_an_edited_attack_is_another_one_in_the_lines_of_a_search() -> None:
    def edited(own: Own) -> Any:
        return -2 * own.update

    names = {
        Named.of(Space(sample.scenario, own=of)).own["mine"] for of in ({"mine": minus}, {"mine": edited}, {"mine": Tuned(1.0)})
    }
    assert len(names) == 3
    assert Named.of(Space(sample.scenario, own=own)).id == Named.of(Space(sample.scenario)).id  # its lines stay of one search


def test_the_partitions_of_an_evaluation_are_what_is_attacked() -> None:
    places = {"alike": Iid(clients=8, samples=20), "skewed": Dirichlet(clients=8, alpha=0.1)}
    evaluation = about(partitions=places)
    assert subject(evaluation, "multikrum").scenario.partition == places["alike"]
    assert subject(evaluation, None, "skewed").scenario.partition == places["skewed"]
    assert subject(evaluation, "Median()", "skewed").partition == "skewed"
    with pytest.raises(ValueError, match="no partition 'x'; the evaluation's are: alike, skewed"):
        subject(evaluation, None, "x")
    with pytest.raises(ValueError, match="no evaluation names any"):
        subject(sample.scenario, None, "x")


def test_a_search_of_what_predicts_numbers_is_refused_in_words(tmp_path: Path) -> None:
    """Before: "TypeError: Cannot cast array data from dtype('float32') to dtype('int64')"."""
    pytest.importorskip("optuna")
    rows = "".join(f"{k},{k / 7},c{k % 4}\n" for k in range(40))
    (tmp_path / "all.csv").write_text(f"a,y,who\n{rows}")
    numbers = data.from_csv(str(tmp_path / "all.csv"), client="who", label="y", numbers=True)
    training = Training(epochs=1, batch=10, lr=0.05, loss="mean squared error")
    scenario = Scenario(
        name="numbers",
        data=numbers,
        model=models.Mlp(hidden=()),
        training=training,
        algorithm=FedAvg(),
        protection=Plain(),
        rounds=2,
    )
    with pytest.raises(ValueError, match=r"^a search is for what is lost of accuracy, and the scenario's targets are numbers$"):
        attack(scenario, tmp_path / "out", budget=4, quiet=True)
    assert not (tmp_path / "out").exists()


MINE = """
from dataclasses import dataclass
from typing import Annotated, ClassVar
import numpy as np
from cloister import attacks


@dataclass(frozen=True, slots=True)
class Turned:
    scale: Annotated[float, attacks.Span(0.5, 20, log=True)] = 2.0
    needs: ClassVar = attacks.Level.OWN

    def __call__(self, own: attacks.Own, /):
        return np.float32(-self.scale) * own.update
"""


@pytest.fixture
def cloister(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)

    def command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["cloister", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        captured = capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err

    return command


@pytest.mark.trains
@pytest.mark.long
def test_a_search_of_ones_own_attack_by_its_file_and_what_it_leaves(
    cloister: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What replays it says nothing of where on a disk its files are, and finds them beside it, above it or in the working
    directory.
    """
    pytest.importorskip("optuna")
    (tmp_path / "mine.py").write_text(MINE)
    sample_of = tmp_path / "sample.py"
    sample_of.write_text((ROOT / "tests" / "evaluation_sample.py").read_text())
    words = ("--attackers", "2-3", "--budget", 14, "--workers", 1, "--seeds", 0, "--held-out", 1)
    code, out, err = cloister("attack", f"{sample_of}:scenario", "--attack", "mine.py:Turned", *words, "--out", "here")
    assert (code, err.count("Traceback")) == (0, 0)
    assert (
        "tiny: FedAvg() on IID attacked by 2 to 3 of 8 clients, in at most 14 runs, played by 1 process; results go to here"
        in err
    )
    search = read_search(tmp_path / "here")
    assert {p.numbers["attack"] for p in search.points.values()} == {"Turned"}
    assert all(0.5 <= float(p.numbers["Turned.scale"]) <= 20 for p in search.points.values())
    assert "Broken is a defence where loyal clients lose more than 5 points" in " ".join(out.split())
    assert "the lower of the runs without attack and without the attackers' data" in " ".join(out.split())

    rows = list(csv.DictReader((tmp_path / "here" / "table.csv").open()))
    assert len(rows) == len(search.points) == len(point_rows(search))
    for row, point in zip(point_rows(search), sorted(search.points.values(), key=lambda p: -p.severity), strict=True):
        assert (row["attackers"], row["loss"]) == (point.attackers, pytest.approx(point.loss))
        assert (row["strength_of"], row["strength"]) == ("Turned.scale", point.numbers["Turned.scale"])
        assert row["share"] == point.attackers / 8
        assert row["loss_low"] is None or row["loss_low"] <= row["loss"] <= row["loss_high"]
    assert "| attackers | point | verdict |" in (tmp_path / "here" / "table.md").read_text()
    assert len(shown(search)) <= 12

    scenario: Any = load("here/worst.py")
    told = json.loads((tmp_path / "here" / "found.json").read_text())["worst"]
    upload = scenario.adversary.upload
    assert getattr(upload, "attack", upload).scale == told["numbers"]["Turned.scale"]
    assert scenario.adversary.members == Pool(told["attackers"])

    text = (tmp_path / "here" / "worst.py").read_text()
    assert str(tmp_path) not in text
    assert "found_in('mine.py:Turned'" in text
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert described(load(str(tmp_path / "here" / "worst.py"))) == described(scenario)
    (elsewhere / "worst.py").write_text(text)
    with pytest.raises(ValueError, match=r"worst\.py, line \d+: it replays what was found on sample\.py, which is not there"):
        load("worst.py")
    for name in ("sample.py", "mine.py"):
        (elsewhere / name).write_text((tmp_path / name).read_text())
    assert load("worst.py").seed == 0
    (elsewhere / "mine.py").write_text(MINE + "\n")
    with pytest.warns(Doubt, match=r"^mine\.py was edited since"):
        load("worst.py")


@pytest.mark.trains
@pytest.mark.long
def test_what_was_printed_as_the_replay_plays_where_the_file_lies_elsewhere(
    cloister: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: "it replays what was found on theirs.py, which is not there", in the very folder that was searched from."""
    pytest.importorskip("optuna")
    theirs, here, third = (tmp_path / name for name in ("theirs", "here", "third"))
    for folder in (theirs, here, third):
        folder.mkdir()
    (theirs / "turned.py").write_text(MINE)  # which the file imports, and which no record has
    text = (ROOT / "tests" / "evaluation_sample.py").read_text() + "\nfrom turned import Turned as Mine\n"
    (theirs / "theirs.py").write_text(text)
    monkeypatch.chdir(here)
    words = ("--attackers", 2, "--budget", 4, "--workers", 1, "--attack", f"{theirs}/theirs.py:Mine")
    code, out, _ = cloister("attack", f"{theirs}/theirs.py:scenario", *words, "--out", "found")
    replay = next(line.split()[-1] for line in out.splitlines() if line.startswith("replay"))
    assert code == 0
    assert str(tmp_path) not in Path(replay).read_text()
    first = described(load(replay))
    monkeypatch.chdir(third)
    assert described(load(str(here / replay))) == first
    for edited in (text + "\n", None):
        (theirs / "theirs.py").unlink() if edited is None else (theirs / "theirs.py").write_text(edited)
        assert described(load(str(here / replay))) == first  # by the recorded text, without a doubt
    assert cloister("run", here / replay)[0] == 0


def test_what_is_no_attack_in_a_file_is_said(cloister: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    (tmp_path / "mine.py").write_text(MINE + "\nattack = 3\n")
    file = ROOT / "tests" / "evaluation_sample.py"
    for name, words in (
        ("mine.py:Nobody", "holds no attack named 'Nobody'; it has: Turned"),
        ("mine.py", "attack is 3, and no attack"),
    ):
        code, _, err = cloister("attack", file, "--attack", name, "--workers", 1)
        assert code == 1
        assert words in err
        assert len(err.splitlines()) == 1


def test_bounds_are_the_evaluations_unless_others_are_asked_for() -> None:
    assert Sought().bounds == about().bounds
    assert Origin("x").partition is None
