"""What is no defence and no attack is refused when the evaluation is built; the line says which, where, and what is missing."""

import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from cloister import attacks, cli
from cloister.comparing.cell import play_cell
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.data.partition import Iid
from cloister.fl.robust.coordinates import Median
from cloister.fl.robust.rule import Sight
from cloister.fl.runs.before_grids import check_fits
from cloister.fl.runs.comparison import Comparison, Method
from cloister.fl.runs.comparison_cells import table_cells
from cloister.fl.runs.lost_round import NothingLearned
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.broken import Bounds
from cloister.threat_models.evaluation import Informed
from cloister.threat_models.membership import Pool, Share
from cloister.threat_models.simple_attacks import MinusGradient
from cloister.threat_models.trial import played

from . import evaluation_sample as sample

HERE = Path(__file__).name


def test_more_attackers_than_clients_are_refused_and_not_played() -> None:
    """Before, every cell was played and failed."""
    words = "strengths are numbers of attackers, and 9 are more than all 8 clients"
    with pytest.raises(ValueError, match=words):
        replace(sample.evaluation, strengths=(1, 9))
    with pytest.raises(ValueError, match=words):
        replace(sample.evaluation, strengths=(9,), partitions={"many": Iid(clients=20), "few": Iid(clients=8)})
    assert replace(sample.evaluation, strengths=(7,)).strengths == (7,)
    assert replace(sample.evaluation, strengths=(9,), strength="share of attackers").strengths == (9,)
    assert replace(sample.evaluation, strengths=(9,), partitions={"many": Iid(clients=20)}).strengths == (9,)


@pytest.mark.parametrize("field", ["attacks", "defences", "protections", "partitions"])
def test_a_name_that_is_no_text_is_refused_before_anything_is_played(field: str) -> None:
    """Before, every cell was played, and none was found again under its name."""
    part: Any = {
        "attacks": MinusGradient(), "defences": FedAvg(), "protections": Masked(), "partitions": Iid(clients=8),
    }[field]  # fmt: skip
    for name, words in ((0.1, "0.1 is none: write '0.1'"), (2, "2 is none: write '2'"), (("a", 1), "is none"), ("", "is empty")):
        with pytest.raises(ValueError, match=f"^{field} are named by texts, and .*{re.escape(words)}"):
            replace(sample.evaluation, targets={}, **{field: {name: part}})
    compared = replace_comparison()
    for other in ("data", "methods", "protections", "attacks"):
        known = {**getattr(compared, other)}
        one = next(iter(known.values()), Adversary(members=Pool(1), upload=MinusGradient()))
        with pytest.raises(ValueError, match=f"^{other} are named by texts, and 1 is none: write '1'"):
            replace(compared, **{other: {1: one}})


def replace_comparison() -> Comparison:
    return Comparison(
        name="c", data={"d": sample.scenario}, methods={"m": Method(algorithm=FedAvg())}, protections={"Masked": Masked()},
        seeds=(0,), scale="quick",
    )  # fmt: skip


def test_what_stands_in_the_place_of_a_dict_is_shown_in_one() -> None:
    for given in (MinusGradient, MinusGradient()):
        with pytest.raises(ValueError, match=r"for example attacks=\{'MinusGradient': MinusGradient\(...\)\}"):
            replace(sample.evaluation, attacks=given, targets={})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"for example defences=\{'FedAvg': FedAvg\(...\)\}"):
        replace(sample.evaluation, defences=FedAvg())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no attack is called 'no attack'"):
        replace(sample.evaluation, attacks={"no attack": MinusGradient()}, targets={})


def test_a_suite_in_the_place_of_an_attack_is_told_where_it_belongs() -> None:
    beside = r"attacks by name: put them beside the others, attacks=\{\*\*attacks.strongest\(\), 'mine': mine\}"
    for one, verb in ((attacks.backdoors(), "is"), (lambda count: attacks.strongest(), "makes")):
        with pytest.raises(ValueError, match=f"attack 'b' {verb} a dict of {beside}"):
            replace(sample.evaluation, attacks={"b": one}, targets={})
    with pytest.raises(ValueError, match=r"attacks are a dict by name, .*; a function that makes one is called: strongest\(\)"):
        replace(sample.evaluation, attacks=attacks.strongest, targets={})  # type: ignore[arg-type]


class RunningMean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.flat, self.linear = nn.Flatten(), nn.Linear(64, 10)
        self.register_buffer("mean", torch.zeros(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.flat(x)
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return self.linear(x - self.mean)  # type: ignore[no-any-return]


@pytest.mark.parametrize("command", ["evaluate", "attack", "compare"])
def test_a_model_that_no_cell_could_train_is_said_before_anything_is_played(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before, every cell failed for it, without the file and the line."""
    kind = {"evaluate": "evaluation_sample", "attack": "evaluation_sample", "compare": "comparison_sample"}[command]
    name = "evaluation" if command != "compare" else "comparison"
    lines = ["from dataclasses import replace", f"from tests.{kind} import {name} as sample"]
    lines += ["from tests.test_evaluation_refused import RunningMean", "model = lambda shape, classes: RunningMean()"]
    changed = "scenario=replace(sample.scenario, model=model)"
    if command == "compare":
        changed = "data={k: replace(v, model=model) for k, v in sample.data.items()}"
    lines += [f"{name} = replace(sample, {changed})"]
    (tmp_path / "mine.py").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        sys, "argv", ["cloister", command, "mine.py", "--out", "out", *([] if command != "attack" else ["--budget", "4"])]
    )
    with pytest.raises(SystemExit) as caught:
        cli.main()
    said = capsys.readouterr().err
    assert caught.value.code == 1
    assert "which no update carries" in said
    assert "mine.py" in said
    assert not Path("out").exists()


def test_a_share_of_an_attack_that_counts_members_is_refused_with_what_to_write() -> None:
    """Before, every cell was played and failed: strength="share of clients" is only what strengths are called."""
    with pytest.raises(
        ValueError, match=r"a strength is its number of members, which 0.25 is not; .*members=attacks.Share\(s\), upl"
    ):
        replace(sample.evaluation, attacks={"minus": MinusGradient()}, targets={}, strengths=(0.25,), strength="share of clients")


def test_attackers_that_leave_nobody_loyal_are_refused_as_a_number_and_as_a_share() -> None:
    """Before, every cell was played, and had no accuracy to judge by."""
    words = "'minus' of strength {} makes attackers of all 8 clients: nobody loyal is left"
    with pytest.raises(ValueError, match=words.format(8)):
        replace(sample.evaluation, strengths=(1, 8))

    def half(share: float) -> Adversary:
        return Adversary(members=Share(share), upload=MinusGradient())

    shares = replace(sample.evaluation, attacks={"minus": half}, targets={}, strengths=(0.5,), strength="share")
    with pytest.raises(ValueError, match=words.format(1)):
        replace(shares, strengths=(0.5, 1))


@pytest.mark.parametrize("strength", [0.3, -1])
def test_a_number_of_attackers_is_whole_and_of_other_strengths_it_is_to_be_said_what_they_are(strength: float) -> None:
    with pytest.raises(
        ValueError, match=rf"numbers of attackers, whole ones, and not {strength}; .* strength='share of the clients'"
    ):
        replace(sample.evaluation, strengths=(strength,))
    assert replace(sample.evaluation, strengths=(strength,), strength="share").strengths == (strength,)


@pytest.mark.parametrize(
    ("field", "given", "words"),
    [
        ("protections", {"m": Masked}, r"protections\['m'\] is the class Masked itself; make one of it: Masked\(\)$"),
        ("protections", {"m": "Masked"}, r"protections\['m'\] is the text 'Masked'; give an object, for example protection="),
        (
            "protections",
            Masked(),
            r"protections are a dict by name, not a Masked; for example protections=\{'a': protections\.Ma",
        ),
        ("partitions", {"i": Iid}, r"partitions\['i'\] is the class Iid itself; make one of it: Iid\(clients=...\)"),
        ("partitions", [Iid(clients=8)], r"partitions are a dict by name, not a list; for example"),
        ("scenario", {"name": "x"}, r"scenario is \{'name': 'x'\}; give a Scenario"),
        ("scenario", Scenario, r"scenario is the class Scenario itself; give a Scenario"),
    ],
)
def test_a_class_or_something_else_in_the_place_of_a_part_is_said_when_the_evaluation_is_built(
    field: str, given: Any, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        replace(sample.evaluation, **{field: given})


@pytest.mark.parametrize("name", ["strengths", "seeds"])
def test_one_number_where_several_stand_says_how_they_are_written(name: str) -> None:
    assert refused(**{name: 1}) == f"{name} are several, in brackets: {name}=(1,)"
    assert refused(**{name: "012"}) == f"{name} are several, in brackets: {name}=('012',)"


@pytest.mark.parametrize(("count", "written"), [(3, "(0, 1, 2)"), (20, "tuple(range(20))")])
def test_a_number_in_the_place_of_seeds_may_be_how_many(count: int, written: str) -> None:
    """Before: "seeds=(3,)", which is the seed 3 alone."""
    words = f"seeds={written} for {count} seeds, seeds=({count},) for seed {count} alone"
    assert refused(seeds=count) == f"seeds are several, in brackets: {words}"


@dataclass(frozen=True)
class Nearest:
    """A rule of one's own."""

    keep: int = 3
    sees: ClassVar[Sight] = Sight.GRAM
    shift_invariant: ClassVar[bool] = True

    def weights(self, gram: Any, rng: Any, /) -> Any:
        return np.full(len(gram), 1 / len(gram))


class Forgetful(Nearest):
    def weights(self, gram: Any) -> Any:  # type: ignore[override]
        return np.full(len(gram), 1 / len(gram))


def middle(updates: Any) -> Any:
    return np.median(updates, axis=0)


def with_f(updates: Any, f: int) -> Any:
    return updates[f]


def nothing(scenario: Scenario) -> None:
    return None


def untyped(own: Any) -> Any:
    return -own.update


untyped.__annotations__.clear()


def two(own: Any, scale: float) -> Any:
    return -scale * own.update


def refused(**changes: Any) -> str:
    with pytest.raises(ValueError, match=r".") as caught:
        replace(sample.evaluation, **changes)
    (line,) = str(caught.value).splitlines()
    return line


@pytest.mark.parametrize(
    ("defence", "words"),
    [
        (Nearest, rf"Nearest \({HERE}, line \d+\) is a class; .*: Nearest\(...\); .*RobustFedAvg\(rule=Nearest\(...\)\)"),
        (Nearest(), r"Nearest \(.*\) is a rule; a robust rule stands in an algorithm: RobustFedAvg\(rule=Nearest\(...\)\)"),
        (Median, r"Median is a class; make one of it, with parentheses: Median\(...\)"),
        (RobustFedAvg, r"RobustFedAvg is a class; make one of it, with parentheses: RobustFedAvg\(...\)$"),
        (middle, rf"middle \({HERE}, line \d+\) was called with the scenario and raised .*RobustFedAvg\(rule=middle\)"),
        (with_f, r"with_f .*: it takes updates: Any, f: int, and is called with scenario alone"),
        (nothing, r"nothing .* returned None; a defence is an algorithm, or a function from a scenario to a scenario"),
        ("Median", "'Median' is none; a defence is an algorithm"),
    ],
    ids=["class", "rule", "ours", "algorithm", "function", "signature", "none", "text"],
)
def test_what_is_no_defence_is_said_when_the_evaluation_is_built(defence: Any, words: str) -> None:
    assert re.search("^defence 'mine': " + words, refused(defences={"mine": defence}))


@pytest.mark.parametrize(
    ("attack", "words"),
    [
        (MinusGradient, r"attack 'mine': MinusGradient is a class; .*: MinusGradient\(...\)"),
        (untyped, rf"untyped \({HERE}, line \d+\) says no type, .*'float' object has no attribute 'update'; .* own: attacks.Own"),
        (two, r"two .*: it takes own: Any, scale: float, and is called with a strength alone"),
        (Informed(lambda count: None), "it takes count, and is called with strength and scenario alone"),  # type: ignore[arg-type,misc]
        (lambda count: np.zeros(3), rf"gave array.* for the strength 1.*{HERE}, line"),
    ],
    ids=["class", "untyped", "signature", "informed", "no adversary"],
)
def test_what_is_no_attack_is_said_when_the_evaluation_is_built(attack: Any, words: str) -> None:
    assert re.search(words, refused(attacks={"mine": attack}))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Nearest, rf"rule is the class Nearest \({HERE}, line \d+\) itself; make one of it: Nearest\(\)"),
        (with_f, rf"rule with_f \({HERE}, line \d+\) is a function of all updates.*: it takes updates: Any, f: int"),
        (Forgetful(), r"weights of the rule Forgetful .* is to take \(gram, rng\): it takes gram: Any, and is called with gram"),
    ],
    ids=["class", "signature", "method"],
)
def test_a_rule_that_cannot_be_called_is_refused_with_its_line(rule: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RobustFedAvg(rule=rule)


def test_what_is_one_is_taken_and_what_attacks_raise_by_themselves_stays_with_their_cells() -> None:
    def slower(scenario: Scenario) -> Scenario:
        return replace(scenario, rounds=2)

    defences: Any = {"a": RobustFedAvg(rule=Nearest()), "b": slower, "c": RobustFedAvg(rule=middle)}

    def by_strength(count: float) -> Adversary:
        return Adversary(members=Pool(int(count)), upload=MinusGradient())

    found = replace(sample.evaluation, defences=defences, attacks={"x": by_strength, "y": sample.broken, "z": MinusGradient()})
    assert set(found.attacks) == {"x", "y", "z"}


def test_the_command_names_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(__file__).parents[1]
    (tmp_path / "mine.py").write_text(
        f"""import sys
sys.path.insert(0, {str(root)!r})
from dataclasses import replace
from tests.evaluation_sample import evaluation as base


def untyped(own):
    return -own.update


evaluation = replace(
    base, attacks={{"mine": untyped}}
)
"""
    )
    monkeypatch.setattr(sys, "argv", ["cloister", "evaluate", str(tmp_path / "mine.py"), "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(r"mine.py, line 11: attack 'mine': untyped \(mine.py, line 7\) says no type", line)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("wrong", ["base", Scenario])
def test_a_scenario_that_is_none_is_refused_by_its_field(wrong: object) -> None:
    assert "give a Scenario" in refused(scenario=wrong)


def test_a_misspelt_name_in_targets_and_limits_says_what_was_meant() -> None:
    attack, defence = next(iter(sample.evaluation.attacks)), next(iter(sample.evaluation.defences))
    assert f"not there: {attack}x; did you mean {attack!r}; there are: {attack}" in refused(targets={f"{attack}x": None})
    assert f"not there: {defence}x; did you mean {defence!r}; there are: {defence}" in refused(limits={f"{defence}x": 1})


def test_a_misspelt_name_in_limits_is_among_the_defences_of_that_evaluation() -> None:
    """Before: "Multikrum: give it in algorithms.RobustFedAvg(rule=...)", of defences that the user named "Multi-Krum"."""
    defences = {"FedAvg": FedAvg(), "Multi-Krum": RobustFedAvg(rule=Median())}
    words = "Multikrum; did you mean 'Multi-Krum'; there are: FedAvg, Multi-Krum"
    assert words in refused(defences=defences, limits={"Multikrum": 2})
    assert "RobustFedAvg(rule" not in refused(defences=defences, limits={"Bulyan": 2})


def test_a_sum_that_no_count_could_open_is_refused_with_its_numbers() -> None:
    """As `cloister run` does it; in a cell it was found out by a sum that was withheld, in words that named no number."""
    counted = replace(sample.scenario, algorithm=FedAvg(by_samples=True), protection=Masked(corrupt=1), rounds=1)
    with pytest.raises(NothingLearned, match=r"8 clients have \d+ together, and 1 corrupt may claim 10,000") as caught:
        played(counted, None, None)
    assert caught.value.refused  # and is no failure


def test_a_comparison_refuses_it_likewise() -> None:
    """Its table and report say the same reason."""
    counted = Method(algorithm=FedAvg(by_samples=True))
    asked = Comparison(
        name="c",
        scale="quick",
        data={"d": replace(sample.scenario, rounds=1)},
        methods={"f": counted},
        seeds=(0,),
        protections={"M": Masked(corrupt=1)},
    )
    (cell,) = table_cells(asked, "d", "f", 0)
    row = play_cell(asked, cell, None)
    assert row["status"] == "refused"
    assert re.search(r"8 clients have \d+ together, and 1 corrupt may claim 10,000.*max_samples \(10,000\) near", row["reason"])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"fedavg": "3"}, "limits['fedavg'] is '3'; give the attackers"),
        ({"fedavg": -1}, "limits['fedavg'] is -1; give"),
        ({"fedavg": 50}, "limits['fedavg']: 50 attackers are more than all 8 clients"),
        (5, "limits are a dict"),
    ],
)
def test_a_limit_that_is_no_number_of_attackers_is_refused(wrong: object, words: str) -> None:
    """Before: a TypeError after all was played, or "within what they are built for"."""
    assert words in refused(limits=wrong)


def test_bounds_that_are_none_are_refused() -> None:
    assert "bounds is 5; give attacks.Bounds(" in refused(bounds=5)
    with pytest.raises(ValueError, match=r"loss is above 0 and at most 1, not '0.1'"):
        Bounds(loss="0.1")  # type: ignore[arg-type]


def test_no_attackers_alone_are_no_strength() -> None:
    with pytest.raises(ValueError, match="0 alone is no attack: the run without is played anyway"):
        replace(sample.evaluation, strengths=(0,))


def test_a_model_for_records_as_a_partition_deals_them_is_no_misfit() -> None:
    """A partition of one's own may change their shape, which the source does not know."""

    def flat(source: Any, rng: Any) -> Any:
        dealt = Iid(clients=8)(source, rng)
        parts = {i: replace(c, train=_flat(c.train), test=_flat(c.test)) for i, c in dealt.clients.items()}
        return replace(dealt, clients=parts, shape=(64,))

    fitting = replace(sample.scenario, partition=flat, model=lambda shape, classes: nn.Linear(shape[-1], classes))
    check_fits(fitting, fitting.data(None))
    with pytest.raises(ValueError, match="the model gives"):
        check_fits(replace(fitting, partition=Iid(clients=8)), fitting.data(None))
    check_fits(replace(fitting, partition=Iid(clients=10**6)), fitting.data(None))  # cannot be dealt, which its cells say


def _flat(examples: Any) -> Any:
    return replace(examples, x=examples.x.flatten(1))
