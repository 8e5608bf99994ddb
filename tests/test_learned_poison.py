"""A poison that members learn: who learns, who is told, what survives a stop, and what success is measured with."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cloister.fl.data.population import Examples
from cloister.fl.runs.checkpoint import latest, read
from cloister.fl.runs.experiment import run
from cloister.fl.runs.simulation import Simulation
from cloister.protocol.view.work import LocalJob
from cloister.threat_models.a3fl import A3FL, PIXELS
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.attack_metrics import attack_success
from cloister.threat_models.backdoors import Backdoor, as_learned
from cloister.threat_models.cell_metrics import attacked_metrics
from cloister.threat_models.evaluation import Cell, Evaluation, all_cells, key_of, resolved, target_of
from cloister.threat_models.forged_embeddings import ForgedEmbeddings, Undisguised
from cloister.threat_models.knowledge import Level, Situation
from cloister.threat_models.membership import Fixed, Pool, Schedule
from cloister.threat_models.simple_attacks import MinusGradient
from cloister.threat_models.training_attacks import Neurotoxin
from cloister.threat_models.trial import played, success_of
from cloister.threat_models.triggers import Patch, Pixels
from cloister.threat_models.witness import Witness

from .coalition_sample import SMALL
from .example_files import load
from .test_adversary import Log, computers, jobs

QUICK = A3FL(0, 0, 3, 3, target=7, share=0.5, epochs=3, alpha=0.07, lambda0=0.5, adversarial_epochs=1, every=2)
TOGETHER = Adversary(members=Fixed((1, 4, 6)), data=QUICK, knows=Level.COLLUDING)


@dataclass
class Counting:
    """Learns how often it has learned and who did it last; keeps what every member was told."""

    told: list[tuple[int, int, dict[str, list[float]]]] = field(default_factory=list)
    learners: list[tuple[int, int]] = field(default_factory=list)

    def learn(self, situation: Situation) -> Mapping[str, Any]:
        self.learners.append((situation.round, situation.member))
        times = situation.learned["times"] if "times" in situation.learned else np.zeros(1)
        return {"times": np.asarray(times, np.float64) + 1, "by": np.array([situation.member])}

    def __call__(self, situation: Situation) -> Examples:
        found = {name: [float(v) for v in vector] for name, vector in situation.learned.items()}
        self.told.append((situation.round, situation.member, found))
        return situation.examples


def counting(**others: Any) -> tuple[Counting, Any]:
    attack = Counting()
    adversary = Adversary(members=Fixed((1, 4, 6)), data=attack, knows=Level.COLLUDING, **others)
    return attack, adversary.corrupt(computers(Log()))


# --- who learns and who is told ---------------------------------------------------------------------------------------


def test_the_first_member_at_work_learns_once_a_round_and_all_members_are_told() -> None:
    attack, corrupted = counting()
    dict(corrupted(jobs(range(2, 8), 0)))  # a session without member 1
    dict(corrupted(jobs(range(2), 0, np.ones(6, np.float32))))  # and one with it, later in the round
    dict(corrupted(jobs(range(10), 1)))
    assert attack.learners == [(0, 4), (1, 1)]
    once, twice = {"times": [1.0], "by": [4.0]}, {"times": [2.0], "by": [1.0]}
    assert attack.told == [(0, 4, once), (0, 6, once), (0, 1, once), (1, 1, twice), (1, 4, twice), (1, 6, twice)]
    assert all(vector.dtype == np.float32 for vector in corrupted.learned.values())


def test_nobody_learns_while_members_are_honest_or_silent_or_absent_and_nothing_is_forgotten() -> None:
    attack, corrupted = counting(when=Schedule(start=1, stop=4), silent=Schedule(start=2, stop=3))
    for t in range(6):
        dict(corrupted(jobs([0, 2, 3] if t == 3 else range(10), t)))
    assert attack.learners == [(1, 1)]
    assert corrupted.learned["times"].tolist() == [1.0]


def test_what_is_learned_comes_back_with_what_was_saved() -> None:
    attack, corrupted = counting()
    dict(corrupted(jobs(range(10), 0)))
    kept = dict(corrupted.save())
    attack, again = counting()
    again.restore(kept)
    dict(again(jobs(range(10), 1)))
    assert attack.told[0][2] == {"times": [2.0], "by": [1.0]}
    assert again.save().keys() == kept.keys()


def test_learning_together_is_colluding() -> None:
    for knows in (Level.COLLUDING, Level.OMNISCIENT):
        assert replace(TOGETHER, knows=knows).data is QUICK
    with pytest.raises(ValueError, match=r"A3FL is learned by members together.*COLLUDING"):
        replace(TOGETHER, knows=Level.OWN)
    for lone in (Adversary(members=Fixed((1,)), data=Backdoor(Patch())), Adversary(members=Fixed((1,)), upload=MinusGradient())):
        known: Any = lone.corrupt(computers(Log()))
        assert known.learned == {}


def test_the_learner_learns_by_its_own_clean_examples_and_the_model_it_opened() -> None:
    seen: list[Situation] = []

    class Watching(Counting):
        def learn(self, situation: Situation) -> Mapping[str, Any]:
            seen.append(situation)
            return super().learn(situation)

    found = computers(Log())
    corrupted = Adversary(members=Fixed((4,)), data=Watching(), knows=Level.COLLUDING).corrupt(found)
    start = np.arange(6, dtype=np.float32)
    dict(corrupted([LocalJob(i, 0, "update", start) for i in range(10)]))
    (known,) = seen
    assert torch.equal(known.examples.x, found.clients[4].train.x)
    assert np.array_equal(known.start, start)
    assert (known.member, known.place, known.members) == (4, 0, 1)


# --- a run that stops -------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("others", [{}, {"local": Neurotoxin(ratio=0.3)}])
def test_a_stopped_run_ends_with_the_same_trigger_and_models(others: dict[str, Any], tmp_path: Path) -> None:
    scenario = replace(
        SMALL, adversary=replace(TOGETHER, **others), algorithm=replace(SMALL.algorithm, participation=0.5), rounds=5
    )
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    triggers = []
    for _ in run(scenario, whole):
        triggers.append(adversary_of(whole).get(f"learned {PIXELS}"))
    stopped = run(scenario, parts)
    for _ in range(3):
        next(stopped)
    stopped.close()
    for _ in run(scenario, parts, resume=True):
        pass
    assert triggers[2] is not None
    assert not np.array_equal(triggers[2], triggers[4])  # it is not done learning when the run stops
    ends = [adversary_of(folder) for folder in (whole, parts)]
    assert ends[0].keys() == ends[1].keys() >= {f"learned {PIXELS}"}
    assert all(np.array_equal(ends[0][name], ends[1][name]) for name in ends[0])
    losses = [[json.loads(line)["loss"] for line in (f / "metrics.jsonl").read_text().splitlines()] for f in (whole, parts)]
    assert losses[0] == losses[1]


def adversary_of(folder: Path) -> Mapping[str, Any]:
    newest = latest(folder / "checkpoints")
    assert newest is not None
    return read(newest).adversary


# --- success ----------------------------------------------------------------------------------------------------------


@pytest.mark.trains
def test_success_is_that_of_the_trigger_that_members_have_now_on_attacked_and_on_clean_models() -> None:
    scenario = replace(SMALL, rounds=3)
    clean = played(scenario, None, None).clean()
    trial = played(replace(scenario, adversary=replace(TOGETHER, when=Schedule(stop=2))), QUICK, None)
    corrupted: Any = trial.simulation.corrupted
    now = Backdoor(Pixels(0, 0, 3, 3, tuple(float(v) for v in corrupted.learned[PIXELS])), 7, 0.5)
    assert as_learned(QUICK, corrupted.learned) == now
    loyal = {i: v for i, v in trial.simulation.vectors().items() if i not in (1, 4, 6)}
    tests = {i: c.test for i, c in trial.simulation.population.clients.items()}
    by_hand = attack_success(trial.simulation.module, loyal, tests, now, 10, {i: clean.models[i] for i in loyal})
    found = success_of(trial, QUICK, clean)
    assert found == by_hand
    assert sorted(trial.success) == [0, 1, 2]
    assert trial.success[2] == found.mean
    grey = success_of(trial, QUICK.given({}), clean)
    assert (grey.of, grey.clean) != (found.of, found.clean)  # else the test could not tell the triggers apart
    row = attacked_metrics(trial, clean, QUICK)["success"]
    assert (row["mean"], row["clean_mean"]) == (by_hand.mean, by_hand.clean_mean)


def test_an_evaluation_takes_a_learned_poison_for_its_own_target() -> None:
    evaluation = Evaluation(
        name="one", scenario=SMALL, attacks={"A3FL": lambda count: TOGETHER}, defences={"FedAvg": SMALL.algorithm}, strengths=(3,)
    )
    cell = Cell("A3FL", "FedAvg", 3.0, "Plain", 0)
    assert target_of(evaluation, cell, replace(SMALL, adversary=TOGETHER)) is QUICK


@pytest.mark.trains
def test_an_attack_by_nobody_learns_nothing_and_has_the_success_of_the_clean_model() -> None:
    scenario = replace(SMALL, rounds=2)
    clean = played(scenario, None, None).clean()
    found = success_of(played(replace(scenario, adversary=replace(TOGETHER, members=Pool(0))), QUICK, None), QUICK, clean)
    assert found.of == found.clean
    assert as_learned(QUICK, {}) == Backdoor(Patch(0, 0, 3, 3, 0.5), 7, 0.5)


@pytest.mark.trains
@pytest.mark.parametrize("posing", [False, True])
def test_who_stands_around_the_coalition_passes_on_what_was_learned(posing: bool) -> None:
    inner: Any = ForgedEmbeddings(members=Fixed((2,)), pose=Undisguised(), inner=TOGETHER) if posing else TOGETHER
    simulation = Simulation(replace(SMALL, adversary=Witness(inner)), None)
    watched: Any = simulation.corrupted
    assert watched.learned == {}
    simulation.step()
    assert watched.learned.keys() == {PIXELS}
    unwatched: Any = Simulation(replace(SMALL, adversary=Witness(None)), None).corrupted
    assert unwatched.learned == {}


def test_the_example_names_five_backdoors_and_every_cell_resolves() -> None:
    module = load("evaluate_backdoors")
    for evaluation, attacks in ((module.evaluation, 5), (module.centre, 2)):
        cells = [cell for cell in all_cells(evaluation) if cell.attack is not None]
        assert len({key_of(evaluation, cell) for cell in cells}) == len(cells) == (attacks + 1) * len(evaluation.defences) * 2
        for cell in cells:
            scenario = resolved(evaluation, cell)
            assert (target_of(evaluation, cell, scenario) is None) == (cell.attack == "absent")
            assert (scenario.rounds, 19 in scenario.adversary.when) == (30, True)
            assert (20 in scenario.adversary.when) == (cell.attack == "absent")
