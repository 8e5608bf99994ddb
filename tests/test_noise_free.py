"""Epsilon beside answers that have no noise: refused, or named wherever it stands."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cloister.crypto.entropy import SimulatedEntropy
from cloister.evaluating.cells import details
from cloister.fl.algorithms.cfl import CFL, Absolute
from cloister.fl.algorithms.emd_cfl import EMDCFL
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.source import Digits
from cloister.fl.emd import Euclidean, MeanDistance, Size
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.experiment import run
from cloister.fl.runs.scenario import PROTECTIONS, Scenario, changed
from cloister.protocol import Masked, Noise, Plain
from cloister.protocol.core.errors import Refused
from cloister.protocol.pairs import noise as pairs_noise
from cloister.protocol.pairs.choices import Distances, MeanSketch, PerClient, PerPair
from cloister.protocol.privacy.ledger import Ledger
from cloister.protocol.view.answers import Assignment, Model, Remembered
from cloister.protocol.view.functionality import NOISE_FREE, Functionality
from cloister.protocol.view.noise_free import check_acknowledged, left_out
from cloister.protocol.view.protection import Setup
from cloister.reporting.report import write_report
from cloister.summary import summary_table

from .pairs_sample import CLIENTS, INITIAL, RUN, Small, ask, workers

SUMS = Noise(epsilon=6.0, delta=1e-4, rounds=3, l2=0.5)
THRESHOLDS = Absolute(0.1, 0.2)
PAIRS = pairs_noise.Noise(clip=4.0, multiplier=5.0, reference_multiplier=5.0, budget=50.0, delta=1e-5)
MEANS = {"distance": MeanDistance(Euclidean()), "eps": 0.2, "size": Size(30), "by_samples": False}
BASE = Scenario(
    name="noise",
    data=Digits(),
    partition=Iid(clients=8, samples=60),
    model=Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=FedAvg(by_samples=False),
    protection=Masked(noise=SUMS),
    rounds=1,
    validation=0.5,
)


def sketch(*acknowledged: str) -> EMDCFL:
    return EMDCFL(choice=MeanSketch(noise=replace(PAIRS, acknowledge=acknowledged)), **MEANS)  # type: ignore[arg-type]


def masked(*acknowledged: str) -> Masked:
    return Masked(noise=replace(SUMS, acknowledge=acknowledged))


def test_every_functionality_that_tells_of_data_can_be_named() -> None:
    """What is in no list would pass every check: only what asks nobody may be."""
    assert {f.value for f in Functionality} - set(NOISE_FREE) == {Functionality.REVISION.value}
    for protection in PROTECTIONS:
        for asked in protection.gives - {Functionality.REVISION}:
            with pytest.raises(Refused, match="would be void"):
                check_acknowledged([asked], [], "noise", "it")
            check_acknowledged([asked], [asked.value], "noise", "it")
    check_acknowledged([Functionality.REVISION], [], "noise", "it")


def test_splits_that_are_remembered_do_not_go_with_noise_under_keys_of_a_session() -> None:
    """Sums under noise tell no norms: updates are compared about the origin, and a split would compare them by differences."""
    acknowledged = ("gram", "gram(origin)", "gram(edge)")
    noisy = replace(masked(), noise=replace(masked().noise, acknowledge=acknowledged))
    with pytest.raises(Refused, match="set algorithm"):
        replace(BASE, algorithm=CFL(thresholds=THRESHOLDS), protection=noisy)
    replace(BASE, algorithm=CFL(thresholds=THRESHOLDS, remember=False), protection=noisy)


@pytest.mark.parametrize(
    ("algorithm", "protection", "names", "where"),
    [
        (CFL(thresholds=THRESHOLDS), masked(), ("gram", "gram(origin)", "gram(edge)"), "protection.noise"),
        (sketch("sums"), masked(), ("pairs",), "protection.noise"),
        (sketch(), Plain(), ("sums",), "algorithm.choice.noise"),
        (sketch(), Masked(), ("sums",), "algorithm.choice.noise"),
        (EMDCFL(eps=0.2, choice=PerClient(noise=PAIRS)), Plain(), ("sums",), "algorithm.choice.noise"),
        (EMDCFL(choice=PerPair(noise=PAIRS)), Plain(), ("sums", "embedding model"), "algorithm.choice.noise"),
        (EMDCFL(choice=Distances(noise=PAIRS)), Masked(), ("sums", "embedding model"), "algorithm.choice.noise"),
        (EMDCFL(choice=PerPair(embedding="public", noise=PAIRS)), Plain(), ("sums",), "algorithm.choice.noise"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, tuple | str) else "+".join([*value]) if value else "",
)
def test_an_epsilon_that_a_noise_free_answer_voids_is_refused_in_one_line(
    algorithm: Any, protection: Any, names: tuple[str, ...], where: str
) -> None:
    with pytest.raises(Refused) as refused:
        replace(BASE, algorithm=algorithm, protection=protection)
    words = str(refused.value)
    assert "\n" not in words
    assert all(f"{name} (" in words for name in names)
    assert f"{where}.acknowledge=" in words


def test_what_is_acknowledged_by_name_is_allowed_and_nothing_else() -> None:
    cfl = CFL(thresholds=THRESHOLDS, remember=False)
    replace(BASE, algorithm=cfl, protection=masked("gram", "gram(origin)"))
    with pytest.raises(Refused, match="gram"):
        replace(BASE, algorithm=cfl, protection=masked("pairs"))
    replace(BASE, algorithm=sketch("sums"), protection=Plain())
    replace(BASE, algorithm=sketch(), protection=masked("pairs"))  # sums have noise, and an epsilon of their own
    private = replace(PAIRS, trained_privately=True, acknowledge=("sums",))
    replace(BASE, algorithm=EMDCFL(choice=PerPair(noise=private)), protection=Plain())
    replace(BASE)  # sums alone: nothing to acknowledge
    for noise in (SUMS, PAIRS):
        with pytest.raises(ValueError, match="no answer that could be acknowledged"):
            replace(noise, acknowledge=("grams",))
    assert changed(BASE, "protection.noise.acknowledge", "('gram',)").protection.noise.acknowledge == ("gram",)


def test_a_view_under_noise_answers_nothing_noise_free_that_is_not_acknowledged() -> None:
    """Without a scenario too: each answer by its own name."""

    def opened(keys: Any, *acknowledged: str) -> Any:
        setup = Setup(RUN, INITIAL, CLIENTS, workers, SimulatedEntropy(3))
        how = Masked(keys=keys, floor=2, sketch=8, dropped=0.0, noise=replace(SUMS, acknowledge=acknowledged))
        return how.open(replace(setup, judge=lambda offer: 0, embedders=Small()))

    def asks(view: Any, round: int) -> dict[str, Any]:
        work = {"all": Assignment(Model("init"), CLIENTS, CLIENTS)}
        updates = view.train(round, work)["all"]
        nothing = Remembered("nothing", ())
        return {
            "gram": lambda: view.gram(updates),
            "gram(origin)": lambda: view.gram(updates, origin=True),
            "gram(edge)": lambda: view.edge(updates, CLIENTS),
            "gram(recall)": lambda: view.keep(updates, CLIENTS),
            "gram(remember)": lambda: view.cosines(updates, view.remember(updates, CLIENTS)),
            "gram(history)": lambda: view.gram_with(updates, view.accumulate(updates, dict.fromkeys(CLIENTS, 1.0))),
            "remember": lambda: view.remember(updates, CLIENTS),
            "cosines": lambda: view.cosines(updates, nothing),
            "accumulate": lambda: view.accumulate(updates, dict.fromkeys(CLIENTS, 1.0)),
            "gram_with": lambda: view.gram_with(updates, nothing),
            "choice": lambda: view.choose(round, {"a": Model("init")}, CLIENTS),
            "pairs": lambda: ask(view, PerClient(), round=round + 1),
        }

    lasting = ("gram(remember)", "gram(history)", "remember", "cosines", "accumulate", "gram_with")
    for ask_it in asks(opened("session"), 0):
        view = opened("run" if ask_it in lasting else "session")
        with pytest.raises(Refused, match="would be void"):
            asks(view, 0)[ask_it]()
        assert {entry.what for entry in view.record.log} <= {"roster", "participation"}
    for name in ("gram", "gram(origin)", "gram(edge)", "gram(recall)", "gram(remember)", "gram(history)", "choice", "pairs"):
        view = opened("run" if name in lasting else "session", name)
        asks(view, 0)[name]()
        assert all(
            ledger.acknowledged == (name,) for ledger in (of for (_, unit), of in view.record.ledgers.items() if unit == "client")
        )


@pytest.mark.long
@pytest.mark.trains
def test_the_acknowledgement_stands_wherever_the_epsilon_stands(tmp_path: Path) -> None:
    cases: dict[str, tuple[Scenario, str, tuple[str, ...]]] = {
        "sums": (
            replace(BASE, algorithm=CFL(thresholds=THRESHOLDS, remember=False), protection=masked("gram", "gram(origin)")),
            "client",
            ("gram", "gram(origin)"),
        ),
        "means": (replace(BASE, algorithm=sketch("sums"), protection=Plain()), "record", ("sums",)),
    }
    for name, (scenario, unit, left) in cases.items():
        folder = tmp_path / name
        list(run(scenario, folder))
        sentence = left_out(left)
        assert all(each in sentence for each in left)
        privacy, summary = (json.loads((folder / f"{file}.json").read_text()) for file in ("privacy", "summary"))
        for told in (privacy[unit], summary["privacy"][unit]):
            assert (told["acknowledged"], told["beside"]) == ([*left], sentence)
            assert str(told["of"]).startswith(("the sums of its updates", "what it released to be compared"))
        line = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
        assert line["epsilon"][unit] == privacy[unit]["epsilon_worst"]
        assert line["epsilon_leaves_out"] == {unit: [*left]}
        console = Console(width=600, record=True, file=io.StringIO())
        console.print(summary_table(summary))
        (row,) = [text for text in console.export_text().splitlines() if "at delta" in text]
        assert sentence in row
        assert privacy[unit]["of"] in row
        page = write_report(folder).read_text()
        paragraph = next(part for part in page.split("<p>") if "differentially private" in part).split("</p>")[0]
        caption = next(part for part in page.split("<caption>") if part.startswith("Epsilon")).split("</caption>")[0]
        assert all(sentence in part for part in (paragraph, caption))
        restored = Ledger.from_dict(json.loads(json.dumps(Ledger(1, "client", "replace", 1, 1e-5, "it", left).as_dict())))
        assert restored.acknowledged == left


def test_a_table_of_cells_shows_it_too() -> None:
    class Grid:
        protections, defences, strengths, attacks = ("p",), ("d",), (1.0,), ("a",)

        def absent(self, *spot: Any) -> dict[int, float]:
            return {}

        def rows(self, *spot: Any) -> list[dict[str, Any]]:
            return [{"seed": 0, "epsilon": 2.0, "epsilon_leaves_out": ["gram"]}, {"seed": 1, "epsilon": 2.0}]

    grid: Any = Grid()
    cells = details(grid)
    assert cells
    assert all(any("without gram" in value for value in cell["more"]) for cell in cells)
