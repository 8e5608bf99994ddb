"""`cloister compare`: what a comparison is made of, a search without test data, a folder that no kill breaks, and a table that
does not say more than its seeds."""

import csv
import fcntl
import io
import json
import math
import os
import pickle
import re
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from scipy import stats

from cloister import cli
from cloister.comparing.caveats import at_an_end_words, unattacked_words
from cloister.comparing.cell import play_cell
from cloister.comparing.data import Found, Spot, read_comparison
from cloister.comparing.lines import ALL_UPDATES, block_lines
from cloister.comparing.matrix import Looked, drawn
from cloister.comparing.notes import fits, fits_words, footnotes
from cloister.comparing.panels import matrices
from cloister.comparing.report import render, write_comparison_report
from cloister.comparing.run import Choice, Ledger, choice_of, count_of, play_comparison
from cloister.comparing.texts import csv_text, markdown, terminal
from cloister.comparing.verdict import headline, paired, sentences, standings
from cloister.comparing.workers import Bench, Origin, crew
from cloister.fl.algorithms.algorithm import Cluster, Measured
from cloister.fl.algorithms.emd_cfl import EMDCFL, Share
from cloister.fl.algorithms.fedavg import FedAvg, Local
from cloister.fl.algorithms.fpfc import FPFC
from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.population import Client, Examples, Population, Source
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.comparison import Comparison, Method, Search, Validating
from cloister.fl.runs.comparison_cells import (
    Cell,
    attacked_cells,
    description,
    key_of,
    places,
    resolved,
    search_cells,
    table_cells,
)
from cloister.fl.runs.results_folder import ResultsFolder, Row
from cloister.fl.runs.simulation import Simulation
from cloister.progress import shown as progress
from cloister.protocol import Masked, Plain
from cloister.protocol.core.errors import Refused
from cloister.protocol.view.answers import Model
from cloister.reporting.run_data import DASH
from cloister.scenario_file import load_comparison
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.cell_metrics import clean_metrics
from cloister.threat_models.collusion import ALIE
from cloister.threat_models.knowledge import Level
from cloister.threat_models.membership import Pool
from cloister.threat_models.simple_attacks import MinusGradient
from cloister.threat_models.trial import played

from . import comparison_sample as sample
from .test_report import on_phone

FILE = Path(__file__).parent / "comparison_sample.py"


def play(comparison: Comparison, path: Path, resume: bool = False) -> list[Row]:
    """The whole grid in this process."""
    folder = ResultsFolder(path, "comparison")
    ledger = Ledger(comparison, folder, folder.open(description(comparison), resume))
    with crew(Origin(str(FILE)), comparison, 1) as hands:
        return list(play_comparison(ledger, hands))


def timeless(path: Path) -> list[Mapping[str, Any]]:
    """The lines of a folder without what the clock says."""
    lines = [json.loads(line) for line in (path / "results.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "cost"} for line in lines]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the small comparison, played without a pause."""
    path = tmp_path_factory.mktemp("whole") / "folder"
    play(sample.comparison, path)
    return path


# --- what a comparison is ---------------------------------------------------------------------------------------------


def test_every_run_is_counted_once() -> None:
    """4 configurations x 2 seeds of FedProx; 4 methods x 2 protections x 2 seeds; under Plain each again with 2 attacks."""
    assert count_of(sample.comparison) == 8 + 16 + 16
    of = {m: len(search_cells(sample.comparison, "turned", m)) for m in sample.comparison.methods}
    assert of == {"LOCAL": 0, "FedProx": 8, "IFCA": 0, "FPFC": 0}
    cells = [c for place in places(sample.comparison) for c in table_cells(sample.comparison, *place, 0)]
    cells += [a for c in cells for a in attacked_cells(sample.comparison, c)]
    cells += search_cells(sample.comparison, "turned", "FedProx")
    assert len({key_of(sample.comparison, c) for c in cells}) == len(cells) == 40
    keys = description(sample.comparison)["keys"]
    assert {key_of(sample.comparison, c) for c in cells} <= {*keys}
    assert len({*keys}) == len(keys)


def test_configurations_are_all_combinations_and_reach_into_the_training() -> None:
    chosen = resolved(sample.comparison, Cell("turned", "FedProx", "Plain", 0, 2))
    assert (chosen.algorithm.mu, chosen.training.lr, chosen.training.prox) == (1.0, 0.1, 0.0)
    assert chosen.algorithm.local(chosen.training).prox == 1.0
    assert resolved(sample.comparison, Cell("turned", "FPFC", "Plain", 1, 0)).algorithm.rounds == 2


def method(**changes: Any) -> dict[str, Any]:
    return {"methods": {"one": Method(**{"algorithm": FedAvg(), **changes})}}


class OtherWork(FedAvg):
    """Its clients train twice as long."""

    def local(self, training: Training, /) -> Training:
        return replace(training, epochs=2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (method(grid={"algorithm.mu": (1,)}), "one on turned: no field 'mu' in FedAvg"),
        (
            method(grid={"training.lr": (0.1, 0.2, 0.3, 0.4, 0.5)}),
            "one has 5 configurations, and the search gives every method",
        ),
        (method(grid={"rounds": (9,)}), "not rounds"),
        (method(grid={"partition.clients": (9,)}), "not partition"),
        (method(grid={"training.epochs": (2,)}), "other epochs"),
        (method(algorithm=OtherWork()), "other epochs"),
        (method(fits=("moon",)), "moon"),
        (method(algorithm=lambda base: FPFC(rounds=0)), "rounds"),
        ({"seeds": (0, 7)}, "both have 7"),
        ({"seeds": (0, 0)}, "twice"),
        ({"seeds": ()}, "needs seeds"),
        ({"attacked": ("Cloud",)}, "Cloud"),
        ({"scale": "large"}, "scale"),
        ({"margin": 0}, "margin"),
        ({"data": {"turned": replace(sample.turned, adversary=sample.minus)}}, "adversary"),
    ],
)
def test_a_comparison_that_makes_no_sense_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(sample.comparison, **changes)


def test_other_work_is_marked_where_it_is_said() -> None:
    said = replace(sample.comparison, **method(algorithm=OtherWork(), work="twice as long"))
    assert resolved(said, Cell("turned", "one", "Plain", 0, 0)).algorithm == OtherWork()


def test_a_key_changes_with_whatever_the_run_is_made_of_and_with_nothing_else() -> None:
    cell = Cell("turned", "FedProx", "Plain", 0, 1)
    here = sample.comparison
    others = [
        replace(here, scale="paper"),
        replace(here, data={"turned": replace(sample.turned, rounds=3)}),
        replace(here, protections={"Plain": Plain(floor=2)}),
        replace(here, methods={"FedProx": replace(here.methods["FedProx"], grid={"algorithm.mu": (0.1, 0.2)})}),
    ]
    assert len({key_of(here, cell), *(key_of(other, cell) for other in others)}) == 5
    refused, marks = Cell("turned", "FPFC", "Masked", 0, 0), {name: replace(m, fits=()) for name, m in here.methods.items()}
    assert key_of(replace(here, methods=marks), refused) == key_of(here, refused)
    same = replace(here, seeds=(0, 5), margin=0.5, search=Search(seeds=(99,), configurations=4), attacks={})
    assert key_of(same, cell) == key_of(here, cell)


# --- the search -------------------------------------------------------------------------------------------------------

MARK = 7.0


def marked(test: float) -> Population:
    """Five clients of which every training input is its number, and every test input is `test`."""
    clients = {}
    for i in range(5):
        x = torch.arange(20, dtype=torch.float32).view(20, 1) + 100 * i
        clients[i] = Client(
            i, Examples(x, torch.zeros(20, dtype=torch.int64)), Examples(torch.full((9, 1), test), torch.ones(9).long())
        )
    return Population(clients, dict.fromkeys(clients, 0), 2, (1,))


def test_a_search_holds_no_test_example() -> None:
    """What stands for test data are training data that are trained on no more."""
    source = Source("none", *(Examples(torch.zeros(1, 1), torch.zeros(1).long()) for _ in range(2)), classes=2)
    found = Validating(lambda *_: marked(-1.0), 0.25, seed=7)(source, np.random.default_rng(0))
    for i, client in found.clients.items():
        train, held = set(client.train.x.flatten().tolist()), set(client.test.x.flatten().tolist())
        assert (len(train), len(held)) == (15, 5)
        assert train | held == {100 * i + k for k in range(20)}
        assert not train & held
    other = Validating(lambda *_: marked(-1.0), 0.25, seed=8)(source, np.random.default_rng(0))
    assert any(not torch.equal(found.clients[i].test.x, other.clients[i].test.x) for i in found.clients)


def spoilt(folder: Path | None) -> Source:
    """Digits with other test data: the labels turned round."""
    source = sample.turned.data(folder)
    return replace(source, test=Examples(source.test.x, 9 - source.test.y))


@pytest.mark.trains
def test_other_test_data_change_what_is_measured_and_nothing_of_the_search() -> None:
    spoiled = replace(sample.comparison, data={"turned": replace(sample.turned, data=spoilt, rounds=6)})
    clear = replace(sample.comparison, data={"turned": replace(sample.turned, rounds=6)})
    searching, measuring = Cell("turned", "FedProx", None, 7, 1), Cell("turned", "FedProx", "Plain", 0, 1)
    one, other = (play_cell(c, searching, None)["accuracy"] for c in (clear, spoiled))
    assert one == other
    one, other = (play_cell(c, measuring, None)["accuracy"] for c in (clear, spoiled))
    assert one != other


def rows_of(*accuracies: float | str) -> list[Row]:
    """Lines of one configuration: its accuracies, or what became of it."""
    return [
        {"status": "done", "reason": "", "accuracy": {"mean": a}}
        if isinstance(a, float)
        else {"status": a, "reason": f"{a} it is"}
        for a in accuracies
    ]


@pytest.mark.parametrize(
    ("rows", "choice"),
    [
        ({0: rows_of(0.5, 0.6), 1: rows_of(0.7, 0.5), 2: rows_of(0.4, 0.4)}, Choice(1, scores=(0.55, 0.6, 0.4))),
        ({0: rows_of(0.5), 1: rows_of(0.5)}, Choice(0, scores=(0.5, 0.5))),
        ({0: rows_of(0.9, "failed"), 1: rows_of(0.1, 0.1)}, Choice(1, scores=(None, 0.1))),
        ({0: rows_of(0.9, math.nan), 1: rows_of(0.1, 0.1)}, Choice(1, scores=(None, 0.1))),
        ({0: rows_of("refused"), 1: rows_of("refused")}, Choice(None, "refused", "refused it is", (None, None))),
    ],
)
def test_the_best_mean_on_validation_data_is_chosen(rows: dict[int, list[Row]], choice: Choice) -> None:
    """Not the best seed; and not a configuration that a seed of it failed, or that ended with models that are not finite."""
    found = choice_of(rows)
    assert (found.configuration, found.status, found.reason) == (choice.configuration, choice.status, choice.reason)
    assert found.scores == tuple(None if s is None else pytest.approx(s) for s in choice.scores)


# --- playing ----------------------------------------------------------------------------------------------------------


@pytest.mark.trains
@pytest.mark.long
def test_everything_is_played_refused_with_a_reason_and_in_order(whole: Path) -> None:
    rows = timeless(whole)
    assert len(rows) == 40
    refused = [row for row in rows if row["status"] != "done"]
    assert {(row["method"], row["protection"], row["status"]) for row in refused} == {("FPFC", "Masked", "refused")}
    assert all("needs fusion" in row["reason"] for row in refused)
    assert [row["method"] for row in rows] == ["LOCAL"] * 8 + ["FedProx"] * 16 + ["IFCA"] * 8 + ["FPFC"] * 8
    searched = [row for row in rows if row["protection"] is None]
    best = choice_of({k: [row for row in searched if row["configuration"] == k] for k in range(4)}).configuration
    assert {row["configuration"] for row in rows if row["method"] == "FedProx" and row["protection"]} == {best}
    assert {row["scale"] for row in rows} == {"quick"}
    assert {"clusters", "learned", "bytes_up", "pieced_together", "compared"} <= rows[-8].keys()


@pytest.mark.long
@pytest.mark.trains
def test_tables_say_how_large_the_runs_are_and_what_played_them(whole: Path) -> None:
    """Clients, examples, rounds, command, commit and machine: in Markdown, on the page, and in each line of the CSV file."""
    found = read_comparison(whole)
    here = json.loads((whole / "results.jsonl").read_text().splitlines()[-1])["played"]
    size = "turned: 8 clients of 20 training examples, 2 rounds of 1 epoch in batches of 10."
    for words in (size, "cloister compare", f"Commit: {here['commit']}. Machine: {here['machine']}."):
        assert words in markdown(found).replace("\\", "")
        assert words in render(found)
    for row in csv.DictReader(io.StringIO(csv_text(found))):
        assert [row[key] for key in ("clients", "examples_a_client", "rounds", "epochs", "batch")] == ["8", "20", "2", "1", "10"]
        assert (row["commit"], row["machine"]) == (here["commit"], here["machine"])


def test_what_earlier_folders_do_not_say_is_not_made_up(tmp_path: Path) -> None:
    found = made(tmp_path, {"a": (0.9,)}, seeds=(0,))
    assert "4 clients, training examples a client not recorded, 2 rounds" in markdown(found)
    assert "Commit: not recorded. Machine: not recorded." in markdown(found)


@pytest.mark.trains
@pytest.mark.parametrize("kept", [5, 30])
@pytest.mark.long
def test_resumed_after_a_kill_the_folder_is_that_of_an_undisturbed_comparison(whole: Path, tmp_path: Path, kept: int) -> None:
    """A kill leaves the first lines, the last one cut off; what was known is not played again."""
    lines = (whole / "results.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "results.jsonl").write_bytes(b"".join(lines[:kept]) + lines[kept][:40])
    played_now = play(sample.comparison, tmp_path, resume=True)
    assert len(played_now) == 40 - kept
    assert timeless(tmp_path) == timeless(whole)
    assert play(sample.comparison, tmp_path, resume=True) == []


@pytest.mark.long
@pytest.mark.trains
def test_a_method_more_is_played_and_nothing_else(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_bytes((whole / "results.jsonl").read_bytes())
    grown = replace(sample.comparison, methods={**sample.comparison.methods, "FedAvg": Method(algorithm=FedAvg())})
    assert {row["method"] for row in play(grown, tmp_path, resume=True)} == {"FedAvg"}
    assert read_comparison(tmp_path).complete


@pytest.mark.long
@pytest.mark.trains
def test_another_grid_leaves_runs_of_the_earlier_choice_aside(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_bytes((whole / "results.jsonl").read_bytes())
    prox = replace(sample.comparison.methods["FedProx"], grid={"algorithm.mu": (0.5,)})
    other = replace(sample.comparison, methods={**sample.comparison.methods, "FedProx": prox})
    assert len(play(other, tmp_path, resume=True)) == 8
    found = read_comparison(tmp_path)
    assert found.earlier == 16
    assert [row["settings"] for row in found.lines(Spot("turned", "FedProx", "Plain"))] == [{"algorithm.mu": 0.5}] * 2


@pytest.mark.trains
def test_what_the_search_came_to_nothing_with_is_in_the_table_and_tried_again(tmp_path: Path) -> None:
    """A method whose every configuration fails has a line with the reason for each run; a failure is no verdict for good."""
    bad = Method(algorithm=FedAvg(), grid={"training.lr": (1e30, 1e35)})
    failing = replace(sample.comparison, methods={"bad": bad}, protections={"Plain": Plain()}, seeds=(0,))
    rows = play(failing, tmp_path)
    assert [row["status"] for row in rows] == ["failed"] * (4 + 1 + 2)
    assert "no configuration of the search could be played" in rows[4]["reason"]
    found = read_comparison(tmp_path)
    assert found.complete
    assert block_lines(found, "turned", "Plain")[0].instead.startswith("failed: no configuration")
    assert len([row for row in play(failing, tmp_path, resume=True) if row["protection"] is None]) == 4


def test_a_setting_is_of_all_scenarios_or_of_one() -> None:
    two = Origin(str(FILE), ("training.lr=0.3", "data.turned.rounds=7")).load()
    assert (two.data["turned"].training.lr, two.data["turned"].rounds) == (0.3, 7)
    one = Origin(f"{FILE}:tiny", ("data.iid.partition.samples=9",)).load()
    partition: Any = one.data["iid"].partition
    assert partition.samples == 9


@pytest.mark.parametrize(
    "setting", ["protection=Masked()", "seed=9", "algorithm=Local()", "algorithm.by_samples=False", "data.turned.seed=9"]
)
def test_what_would_change_nothing_is_not_set(setting: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"--set {setting} changes nothing: a comparison has ")):
        Origin(str(FILE), (setting,)).load()


def test_an_algorithm_that_a_method_takes_from_the_scenario_can_be_set(tmp_path: Path) -> None:
    file = tmp_path / "taken.py"
    methods = 'methods={"its": Method(algorithm=lambda base: base.algorithm)}'
    text = f"{FILE.read_text(encoding='utf-8')}\nfrom dataclasses import replace\n\ntaken = replace(tiny, {methods})\n"
    file.write_text(text, encoding="utf-8")
    found = Origin(f"{file}:taken", ("algorithm.by_samples=False",)).load()
    scenario = found.without_attack("iid", "its", 0, Plain(), 0)
    assert scenario.algorithm == FedAvg(by_samples=False)


@pytest.mark.trains
def test_measures_of_any_number_are_taken_and_of_anything_else_fail(tmp_path: Path) -> None:
    measures = {"half": lambda _: np.float32(0.5), "one": lambda _: torch.tensor(1)}
    comparison = replace(sample.tiny, search=None, methods={"a": Method(algorithm=FedAvg())}, measures=measures)
    (row,) = play(comparison, tmp_path / "numbers")
    assert row["measures"] == {"half": 0.5, "one": 1.0}
    wrong: dict[str, Any] = {"word": lambda _: "much"}
    (row,) = play(replace(comparison, measures=wrong), tmp_path / "words")
    assert (row["status"], "could not convert" in row["reason"]) == ("failed", True)
    for bad in ({"a b": float, "a_b": float}, {"a\nb": float}):
        with pytest.raises(ValueError, match="headings of one line"):
            replace(comparison, measures=bad)


@pytest.mark.trains
def test_names_are_shown_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever looks like markup is none."""
    named = replace(
        sample.tiny, name="t [/b]", search=None, data={"[/d]": sample.tiny.data["iid"]}, measures={"[/m]": lambda _: 0.5}
    )
    play(replace(named, methods={"A [/b] x": Method(algorithm=FedAvg())}), tmp_path)
    found = read_comparison(tmp_path)
    Console(width=200).print(terminal(found, "[/d]", "Plain"))
    with progress(sys.stdout, always=True) as tell:
        tell(named.name, 0, 1, "[/n]")
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("t [/b]", "[/n]", "[/d]", "A [/b] x", "[/m]"))


@pytest.mark.trains
def test_no_run_stays_in_memory_once_its_line_is_there(tmp_path: Path) -> None:
    """A run refers to itself; a grid on images held a dozen of them until Python looked."""
    alive: list[weakref.ref[Simulation]] = []

    def watched(simulation: Simulation) -> float:
        alive.append(weakref.ref(simulation))
        return float(sum(ref() is not None for ref in alive[:-1]))

    comparison = replace(sample.tiny, search=None, measures={"others": watched}, methods={"a": Method(algorithm=FedAvg())})
    rows = play(replace(comparison, seeds=(0, 1, 2)), tmp_path)
    assert [row["measures"]["others"] for row in rows] == [0.0] * 3


def test_two_processes_do_not_play_in_one_folder(tmp_path: Path) -> None:
    """Before: both wrote, and each put the file in order with the lines that it knew."""
    other = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    for kind in ("comparison", "evaluation"):
        with pytest.raises(ValueError, match=r"^another process plays in .*; wait for it, or choose another folder by --out"):
            ResultsFolder(tmp_path, kind).open({}, resume=False)
    assert not list(tmp_path.iterdir())
    os.close(other)
    folder, again = ResultsFolder(tmp_path, "comparison"), ResultsFolder(tmp_path, "comparison")
    folder.open({}, resume=False)
    again.open({}, resume=True)  # the same process may go on
    del folder
    other = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    del again
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)


@pytest.mark.trains
def test_a_method_that_diverges_under_masks_has_failed_and_the_reason_is_training(tmp_path: Path) -> None:
    """Before: refused, with more clients, samples or a lower floor as the remedy, which could not help."""
    wild = Method(algorithm=FedAvg(by_samples=False), grid={"training.lr": (1000.0,)})
    base = replace(sample.tiny.data["iid"], model=Mlp(hidden=(8,)))
    comparison = replace(sample.tiny, data={"iid": base}, methods={"LOCAL": Method(algorithm=Local()), "wild": wild})
    rows = play(replace(comparison, seeds=(0,), search=None, protections={"Masked": Masked()}, measures={}), tmp_path)
    (row,) = [row for row in rows if row["method"] == "wild"]
    assert row["status"] == "failed"
    assert re.search(
        r"the updates of \d+ clients could not be used \(an update reaches .* of protection.clip\), and", row["reason"]
    )
    assert "a smaller training.lr, or a larger protection.clip may help" in row["reason"]
    assert "protection.floor" not in row["reason"]


def test_names_of_ones_own_are_no_tags_and_no_columns_of_the_table(tmp_path: Path) -> None:
    method = "a | b <script>alert(1)</script>"
    folder = ResultsFolder(tmp_path, "comparison")
    comparison = replace(
        sample.tiny, name="<b>bold", methods={"LOCAL": Method(algorithm=Local()), method: Method(algorithm=FedAvg())}
    )
    folder.open(description(comparison), resume=False)
    text = markdown(read_comparison(tmp_path))
    assert re.findall(r"(?<!\\)<", text) == []
    assert r"| a \| b \<script>alert(1)\</script> |" in text
    assert text.startswith(r"# \<b>bold")


def test_a_folder_of_another_kind_is_not_written_into(tmp_path: Path) -> None:
    ResultsFolder(tmp_path, "evaluation").open({}, resume=False)
    with pytest.raises(ValueError, match="holds an evaluation already"):
        ResultsFolder(tmp_path, "comparison").open({}, resume=True)
    ResultsFolder(tmp_path / "own", "comparison").open({}, resume=False)
    with pytest.raises(ValueError, match="already holds a comparison"):
        ResultsFolder(tmp_path / "own", "comparison").open({}, resume=False)


# --- what a run records -----------------------------------------------------------------------------------------------


def one(algorithm: Any, **changes: Any) -> Comparison:
    """One method."""
    scenario = replace(sample.turned, **changes)
    return replace(sample.comparison, data={"turned": scenario}, methods={"one": Method(algorithm=algorithm)}, search=None)


@pytest.mark.long
@pytest.mark.trains
def test_the_matrix_is_what_the_method_groups_by() -> None:
    fpfc = play_cell(one(FPFC(rounds=2, nu=0.5)), Cell("turned", "one", "Plain", 0, 0), None)["matrix"]
    values = np.array(fpfc["values"])
    assert (fpfc["kind"], fpfc["eps"], fpfc["round"], values.shape) == ("distance", 0.5, 1, (8, 8))
    np.testing.assert_array_equal(values, values.T)
    assert (np.diag(values) == 0).all()
    assert (values[~np.eye(8, dtype=bool)] > 0).all()
    emd = play_cell(one(EMDCFL(eps=Share()), validation=0.2), Cell("turned", "one", "Plain", 0, 0), None)
    assert emd["matrix"]["kind"] == "distance above the reference"
    assert emd["compared"]["pairs"] == 28
    assert play_cell(one(Local()), Cell("turned", "one", "Plain", 0, 0), None)["matrix"] is None
    assert "matrix" not in play_cell(one(Local()), Cell("turned", "one", "Plain", 1, 0), None)  # of the first seed alone


def test_the_last_of_the_largest_matrices_is_kept() -> None:
    def shown(looked: Looked, round: int, clients: tuple[int, ...], value: float, **more: Any) -> None:
        matrix = np.full((len(clients), len(clients)), value)
        measured = {"all": Measured(None, None, clients, matrix, **more)}
        clusters = {"a": Cluster((0, 1), Model("m")), "b": Cluster((2,), Model("m"))}
        simulation: Any = SimpleNamespace(state=SimpleNamespace(round=round + 1, measured=measured), clusters=clusters)
        looked(simulation)

    looked = Looked()
    shown(looked, 0, (0, 1, 2), 0.1)
    known = np.array([[True, False, True]] * 3)
    shown(looked, 1, (0, 1, 2), 0.2, centred=True, known=known)
    shown(looked, 2, (0, 1), 0.3)
    found = looked.plain()
    assert found is not None
    assert (found["round"], found["kind"], found["clusters"]) == (1, "cosine about the mean", [[0, 1], [2]])
    assert found["values"] == [[0.2, None, 0.2]] * 3


def test_a_drawn_matrix_is_in_the_order_of_clusters_and_groups() -> None:
    """Clients 3 and 0 are one cluster, 1 and 2 another, 4 in none and 5 alone; distances below eps are blue."""
    distance = np.abs(np.subtract.outer(np.arange(6), np.arange(6))).astype(float)
    matrix = {"kind": "distance", "clients": range(6), "values": distance.tolist(), "eps": 1.5, "clusters": [[5], [0, 3], [1, 2]]}
    found = drawn(matrix, {"0": 1, "3": 0, "1": 0, "2": 0, "4": 0, "5": 0})
    assert found["shown"]["ids"] == ["3", "0", "1", "2", "4", "5"]
    assert found["shown"]["cells"][0] == [0, 3, 2, 1, 1, 2]
    assert found["sizes"] == {"1": 2, "2": 2, "alone": 2}
    assert [hue for _, _, hue in found["picture"].strips] == [0, 1, 0]


@pytest.mark.trains
def test_members_change_their_upload_in_the_slot_of_their_choice() -> None:
    """All members send minus what they would have sent, so that models move exactly the other way; choices stay true."""
    scenario = replace(sample.turned, algorithm=IFCA(models=2), rounds=1)
    adversary = Adversary(members=Pool(8), upload=MinusGradient())
    honest, turned = Simulation(scenario, None), Simulation(replace(scenario, adversary=adversary), None)
    before = [honest.view.harness.observe(c.model) for c in honest.state.clusters.values()]
    for simulation in (honest, turned):
        simulation.step()
    furthest = 0.0
    for start, a, b in zip(before, honest.state.clusters.values(), turned.state.clusters.values(), strict=True):
        moved, against = (s.view.harness.observe(c.model) - start for s, c in ((honest, a), (turned, b)))
        np.testing.assert_allclose(moved, -against, atol=1e-6)
        furthest = max(furthest, float(np.abs(moved).max()))
    assert furthest > 1e-3
    assert turned.corrupted is not None
    assert turned.corrupted.members == frozenset(range(8))


@pytest.mark.trains
def test_poisoned_data_reach_work_for_slots_and_a_coalition_is_refused_there() -> None:
    scenario = replace(sample.turned, algorithm=IFCA(models=2), rounds=1)
    honest, poisoned = Simulation(scenario, None), Simulation(replace(scenario, adversary=sample.backdoor), None)
    for simulation in (honest, poisoned):
        simulation.step()
    models = [[s.view.harness.observe(c.model) for c in s.state.clusters.values()] for s in (honest, poisoned)]
    assert any(not np.array_equal(a, b) for a, b in zip(*models, strict=True))
    together = Adversary(members=Pool(3), upload=ALIE(), knows=Level.COLLUDING)
    with pytest.raises(Refused, match="slots"):
        Simulation(replace(scenario, adversary=together), None).step()


@pytest.mark.trains
def test_clusters_that_clients_choose_themselves_are_measured() -> None:
    found = clean_metrics(played(replace(sample.turned, algorithm=IFCA(models=2)), None, None))["clusters"]
    assert found["unplaced"] == 0
    assert 1 <= found["count"] <= 2
    assert 0 <= found["purity"] <= 1


# --- what is said of results ------------------------------------------------------------------------------------------

SEEDS = (0, 1, 2, 3)
Results = Mapping[str, tuple[float, ...] | str]


def made(path: Path, results: Results, seeds: tuple[int, ...] = SEEDS, **changes: Any) -> Found:
    """A folder of made-up results under Plain: accuracies by method, a seed each, or the reason of a refusal."""
    methods = {name: Method(algorithm=FedAvg(), fits=("turned",) if name == "fitting" else ()) for name in results}
    of = {"methods": methods, "protections": {"Plain": Plain()}, "seeds": seeds, "attacks": {}, "search": None}
    comparison = replace(sample.comparison, **{**of, **changes})
    folder = ResultsFolder(path, "comparison")
    folder.open(description(comparison), resume=False)
    for name, values in results.items():
        for k, seed in enumerate(seeds[: len(values)] if not isinstance(values, str) else seeds):
            cell = Cell("turned", name, "Plain", seed, 0)
            row: dict[str, Any] = {"key": key_of(comparison, cell), "data": "turned", "method": name, "protection": "Plain"}
            row |= {"seed": seed, "configuration": 0, "attack": None, "status": "refused", "reason": values}
            if not isinstance(values, str):
                row |= {"status": "done", "reason": "", "accuracy": {"mean": values[k], "worst": values[k] / 2, "of": {}}}
                row |= {"clients": 4, "groups": {}, "clusters": {"count": 2, "ari": 1.0, "purity": 1.0}, "bytes_up": 4000}
                row |= {"bytes_down": 8000, "cost": {"seconds": 1.5}, "pieced_together": {"span": {"largest": 0.25}}}
                row |= {"learned": {"server": []}, "compared": {"pairs": 10, "decided": 8}}
            folder.append(row)
    return read_comparison(path)


def test_one_seed_decides_nothing(tmp_path: Path) -> None:
    found = made(tmp_path, {"a": (0.99,), "b": (0.10,)}, seeds=(0,))
    of = standings(found, "turned", "Plain")
    assert of["b"].words == "undecided, one seed"
    assert (of["a"].wins, of["a"].undecided) == (0, 1)
    assert headline(found) == (
        "One seed tells nothing of chance, so no method is called better. Highest mean accuracy on turned: a, 99.0 %."
    )


def test_a_page_has_a_line_for_each_place(tmp_path: Path) -> None:
    """Before, one paragraph of the same words again and again."""
    found = made(tmp_path, {"LOCAL": (0.8,) * 4, "a": (0.9,) * 4})
    assert sentences(found).places == ((headline(found), ()),)
    two = replace(found, cells={replace(spot, protection=p): of for spot, of in found.cells.items() for p in ("Plain", "Masked")})
    two = replace(two, about=two.about | {"protections": ["Plain", "Masked"]})
    ((first, lines),) = sentences(two).places
    assert first == "Highest mean accuracy:"
    assert lines == tuple(f"on turned under {p}: a, 90.0 %; behind it: LOCAL." for p in ("Plain", "Masked"))


def test_equal_means_are_all_the_highest(tmp_path: Path) -> None:
    found = made(tmp_path, {"a": (0.9,), "b": (0.9,), "c": (0.8,), "d": (0.9,)}, seeds=(0,))
    assert {name for name, of in standings(found, "turned", "Plain").items() if of.best} == {"a", "b", "d"}
    assert headline(found).endswith("Highest mean accuracy on turned: a, b and d, 90.0 %.")


def test_a_mean_that_is_higher_by_chance_wins_nothing(tmp_path: Path) -> None:
    """a is .04 above b in the mean, and below it in one seed of four."""
    found = made(tmp_path, {"a": (0.95, 0.80, 0.90, 0.85), "b": (0.80, 0.85, 0.80, 0.90)})
    words = standings(found, "turned", "Plain")["b"].words
    gaps = np.array([0.15, -0.05, 0.10, -0.05])
    needed = int(re.fullmatch(r"undecided, about (\d+) seeds needed", words)[1])  # type: ignore[index]
    half = [stats.t.ppf(0.975, n - 1) * gaps.std(ddof=1) / np.sqrt(n) for n in (needed - 1, needed)]
    assert half[0] >= gaps.mean() > half[1]


def test_of_many_methods_one_pair_that_looks_clear_is_not() -> None:
    """t = 5 with four seeds, p = .015: a win of two methods, none of the 10 pairs of five."""
    gaps = np.array([0.02, 0.03, 0.05, 0.04])
    one = {s: 0.5 + float(g) for s, g in enumerate(gaps)}
    other = dict.fromkeys(range(4), 0.5)
    assert stats.ttest_1samp(gaps, 0).pvalue < 0.05
    assert paired(one, other, 1, 0.001).outcome == "win"
    assert paired(other, one, 1, 0.001).outcome == "loss"
    many = paired(one, other, 10, 0.001)
    assert many.outcome == "undecided"
    assert many.needed is not None
    assert many.needed > 4


@pytest.mark.long
def test_all_intervals_hold_at_once() -> None:
    """Five equal methods, 200 tables of four seeds: in at most 5 % of them, within three deviations, anybody wins anything."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(200):
        values = 0.8 + 0.05 * rng.standard_normal((5, 4))
        rows = [{s: float(v) for s, v in enumerate(row)} for row in values]
        wrong += any(paired(rows[i], rows[j], 10, 0.01).outcome in ("win", "loss") for i in range(5) for j in range(i))
    assert 0 < wrong <= 200 * 0.05 + 3 * np.sqrt(200 * 0.05 * 0.95)


@pytest.mark.parametrize(
    ("gaps", "outcome"),
    [
        ((0.1, 0.11, 0.09, 0.1), "win"),
        ((-0.1, -0.11, -0.09, -0.1), "loss"),
        ((0.001, -0.001, 0.0005, 0.0), "tie"),
        ((0.0, 0.0, 0.0, 0.0), "tie"),
        ((0.02, -0.02, 0.01, 0.0), "undecided"),
        ((0.3,), "undecided"),
        ((), "undecided"),
        ((math.nan, 0.1), "undecided"),
    ],
)
def test_wins_and_ties_are_what_their_interval_says(gaps: tuple[float, ...], outcome: str) -> None:
    assert paired(dict(enumerate(gaps)), dict.fromkeys(range(9), 0.0), 1, 0.01).outcome == outcome


def test_equal_gaps_of_two_seeds_are_no_win() -> None:
    assert paired({0: 0.32, 1: 0.32}, {0: 0.3, 1: 0.3}, 10, 0.01).outcome == "undecided"
    assert paired(dict.fromkeys(range(5), 0.4), dict.fromkeys(range(5), 0.3), 10, 0.01).outcome == "win"


def test_a_tie_is_said_of_equal_methods_and_seeds_that_are_told_would_decide() -> None:
    one, other = dict(enumerate((0.8, 0.82, 0.78, 0.8))), dict(enumerate((0.801, 0.815, 0.785, 0.799)))
    pair = paired(one, other, 1, 0.01)
    assert pair.outcome == "tie"
    unsure = paired(one, other, 1, 0.005)
    assert unsure.needed is not None
    longer = {s: v for k in range(unsure.needed // 4 + 1) for s, v in ((4 * k + s, v) for s, v in one.items())}
    against = {s: v for k in range(unsure.needed // 4 + 1) for s, v in ((4 * k + s, v) for s, v in other.items())}
    assert paired(longer, against, 1, 0.005).outcome == "tie"


def test_the_headline_names_who_is_behind_who_ties_and_who_is_open(tmp_path: Path) -> None:
    results = {
        "best": (0.90, 0.91, 0.92, 0.91),
        "same": (0.9001, 0.9099, 0.9201, 0.9101),
        "open": (0.70, 0.91, 0.85, 0.90),
        "worse": (0.50, 0.51, 0.52, 0.51),
        "none": "it may not",
    }
    words = headline(made(tmp_path, results))
    assert words.startswith("Highest mean accuracy on turned: same, 91.0 %; behind it: worse; tied with it: best;")
    last = "Not compared, as not every seed and client has a result: none (no result)."
    assert words.endswith(f"4 seeds cannot tell it from: open. {last}")


def test_who_failed_on_a_seed_is_not_passed_over_in_the_headline(tmp_path: Path) -> None:
    """Before: "Highest mean accuracy: a, 80.3 %; there is no other", of a method with 95 % on three of four seeds."""
    words = headline(made(tmp_path, {"a": (0.8, 0.8, 0.8, 0.81), "b": (0.95, 0.95, 0.95, math.nan)}))
    assert words.startswith("Highest mean accuracy on turned: a, 80.3 %; no other is compared.")
    assert words.endswith("not every seed and client has a result: b (95.0 % on 3 of 4 seeds).")


def test_nobody_is_the_best_before_every_seed_is_there(tmp_path: Path) -> None:
    """One would be by its lucky seeds, the other because that one is not there yet."""
    found = made(tmp_path, {"a": (0.8, 0.8, 0.8, 0.81), "lucky": (0.99, 0.99)})
    assert standings(found, "turned", "Plain") == {}
    assert "**" not in markdown(found)
    assert headline(found) == "No verdict: not every cell is played yet."
    line = block_lines(found, "turned", "Plain")[1]
    assert (line.words["verdict"], line.instead) == ("\u2013", "not played yet: 2 of 4 seeds")


def test_a_model_that_is_not_finite_is_no_result(tmp_path: Path) -> None:
    found = made(tmp_path, {"a": (0.8, 0.8, 0.8, 0.81), "b": (0.9, 0.9, 0.9, math.nan)})
    assert standings(found, "turned", "Plain").keys() == {"a"}
    assert block_lines(found, "turned", "Plain")[1].instead == "partial: no accuracy with seed 3"


def test_a_mean_over_the_clients_that_a_method_serves_wins_nothing(tmp_path: Path) -> None:
    """FeSEM of random samples leaves whom it never asked without a model: its mean is over those whom it has one for."""
    found = made(tmp_path, {"a": (0.8, 0.8, 0.8, 0.81), "fitting": (0.99, 0.99, 0.99, 0.98)}, yardstick="a")
    assert fits(found)
    for k, rows in enumerate(found.cells.values()):
        for row in rows:
            row["accuracy"]["of"] = {str(i): 0.9 for i in range(3 if k and row["seed"] == 2 else 4)}
    assert standings(found, "turned", "Plain").keys() == {"a"}
    line = block_lines(found, "turned", "Plain")[1]
    assert (line.words["verdict"], line.best) == ("\u2013", False)
    assert line.instead == "partial: 1 of 4 clients have no model with seed 2"
    assert line.instead in markdown(found)
    assert line.accuracy == f"{line.words['accuracy']}, not all clients"
    assert markdown(found).count(line.accuracy) == 2  # beside all others, and in its block
    assert line.accuracy in render(found)
    assert headline(found).endswith(
        "no other is compared. Not compared, as not every seed and client has a result: fitting (not of every client)."
    )
    assert not fits(found)


def test_a_mean_over_some_of_the_seeds_says_so_and_which_are_missing(tmp_path: Path) -> None:
    found = made(tmp_path, {"LOCAL": (0.8, 0.8, 0.8, 0.81), "fitting": (0.9, 0.9, 0.9, 0.9)})
    for row in found.cells[Spot("turned", "fitting", "Plain")]:
        row.update({"status": "refused", "reason": "too few"} if row["seed"] in (1, 3) else {})
    line = block_lines(found, "turned", "Plain")[1]
    assert line.instead == "refused: too few (with seed 1, 3)"
    assert line.accuracy == "90.0 (90.0 and 90.0), not all seeds"
    assert line.accuracy in markdown(found)
    assert line.accuracy in re.sub("</?span[^>]*>", "", render(found))
    (_, values) = csv.DictReader(io.StringIO(csv_text(found)))
    assert (values["status"], values["accuracy_seeds"]) == ("refused", "2")
    for row in found.cells[Spot("turned", "fitting", "Plain")]:
        row.update({"status": "refused", "reason": "too few"})
    line = block_lines(found, "turned", "Plain")[1]
    assert (line.accuracy, line.instead) == ("refused", "refused: too few")
    assert fits_words(found, fits(found)).endswith("made for: nothing to tell it by: fitting on turned under Plain.")


def test_a_method_without_a_result_where_it_fits_is_named(tmp_path: Path) -> None:
    found = made(tmp_path, {"LOCAL": (0.8,) * 4, "fitting": (0.9,) * 4, "fitting too": (0.9,) * 4})
    found.method("fitting too")["fits"] = ["turned"]
    for row in found.cells[Spot("turned", "fitting too", "Plain")]:
        row.update({"status": "failed", "reason": "no"})
    words = fits_words(found, fits(found))
    assert words.endswith(
        ": 1 of 1 in the mean, 1 of them by more than chance; nothing to tell it by: fitting too on turned under Plain."
    )


def test_the_deviation_is_of_the_seeds(tmp_path: Path) -> None:
    line = block_lines(made(tmp_path, {"a": (0.8, 0.9, 0.7, 0.8)}), "turned", "Plain")[0]
    assert line.words["accuracy"] == f"80.0 ±{100 * np.std([0.8, 0.9, 0.7, 0.8], ddof=1):.1f}"
    assert (line.words["up"], line.words["down"], line.words["cpu_seconds"]) == ("1 kB", "2 kB", "1.5")
    assert (line.words["span"], line.words["undecided"], line.words["clusters"]) == ("0.25", "20 %", "2.0 ±0.0")


def test_methods_are_held_against_local_where_their_card_says_they_fit(tmp_path: Path) -> None:
    found = made(tmp_path, {"LOCAL": (0.8,) * 4, "fitting": (0.72, 0.8, 0.8, 0.8), "a-b": (0.1,) * 4})
    (fit,) = fits(found)
    assert (fit.method, fit.data, fit.protection, round(fit.pair.gap, 4)) == ("fitting", "turned", "Plain", -0.02)
    words = "As good as LOCAL or better on data of the kind that a method is made for: 0 of 1 in the mean"
    words += "; below it: fitting on turned under Plain"
    assert fits_words(found, fits(found)) == f"{words} (\u22122.0, undecided)."
    clear = made(tmp_path / "clear", {"LOCAL": (0.8,) * 4, "fitting": (0.7, 0.71, 0.7, 0.71)})
    assert fits_words(clear, fits(clear)).endswith("(\u22129.5, by more than chance).")


@pytest.mark.long
@pytest.mark.trains
def test_a_column_of_ones_own_is_measured_at_the_end_of_each_run(tmp_path: Path) -> None:
    """Beside what every run has, in every form of the table; where it does not apply there is a dash; a search has none."""

    def half(simulation: Simulation) -> float:
        return float(np.mean([s.accuracy for i, s in simulation.evaluate().items() if simulation.population.groups[i] == 0]))

    comparison = replace(sample.comparison, methods={"a": Method(algorithm=FedAvg(), grid={"training.lr": (0.1, 0.3)})})
    comparison = replace(comparison, measures={"first group": half, "never": lambda _: math.nan}, protections={"Plain": Plain()})
    rows = play(comparison, tmp_path)
    assert {"measures" in row for row in rows if row["protection"] is None or row["attack"]} == {False}
    found = read_comparison(tmp_path)
    (line,) = block_lines(found, "turned", "Plain")
    spot, each = line.numbers["measure first group"], [r["accuracy"]["of"] for r in rows if r["protection"] and not r["attack"]]
    assert spot is not None
    assert spot.mean == pytest.approx(np.mean([np.mean([a for i, a in of.items() if int(i) < 4]) for of in each]))
    assert (line.words["measure never"], line.numbers["measure never"]) == (DASH, None)
    assert line.words["measure first group"].startswith(f"{100 * spot.mean:.1f} (")
    text, page = markdown(found), render(found)
    (values,) = csv.DictReader(io.StringIO(csv_text(found)))
    assert "| first group, % | never, % |" in text
    assert float(values["measure_first_group_mean"]) == pytest.approx(spot.mean, rel=1e-5)
    assert "first group" in page
    cell = Cell("turned", "a", "Plain", 0, 0)
    assert key_of(comparison, cell) != key_of(replace(comparison, measures={}), cell)  # a column more is played anew


def test_a_measure_that_was_edited_is_taken_anew(tmp_path: Path) -> None:
    """Resumed, its column would have numbers of the earlier code."""
    keys = []
    for k, value in enumerate(("0.5", "0.5", "0.9")):
        file = tmp_path / f"measured{k}.py"
        text = FILE.read_text(encoding="utf-8").replace('name="tiny",', 'name="tiny", measures={"own": own},')
        text = text.replace("tiny = Comparison(", f"def own(simulation):\n    return {value}\n\n\ntiny = Comparison(")
        file.write_text(text, encoding="utf-8")
        keys.append(key_of(Origin(f"{file}:tiny").load(), Cell("iid", "LOCAL", "Plain", 0, 0)))
    assert keys[0] == keys[1]
    assert keys[0] != keys[2]


@pytest.mark.trains
def test_why_an_attack_has_no_result_stands_below_the_table(whole: Path) -> None:
    """Before, its cell said "refused", and only a line of results.jsonl why."""
    found = read_comparison(whole)
    spot = next(spot for spot in found.cells if spot.attack and spot.method == "IFCA")
    assert not unattacked_words(found)
    refused = [{**row, "status": "refused", "reason": "it is about slots"} for row in found.cells[spot]]
    told = replace(found, cells={**found.cells, spot: refused})
    (words,) = unattacked_words(told)
    assert words == f"No result: {spot.attack} on IFCA, {spot.data} under {spot.protection}: refused: it is about slots"
    assert words in footnotes(told)


@pytest.mark.trains
def test_a_number_that_was_chosen_at_an_end_of_its_grid_is_named(whole: Path) -> None:
    """A larger one may be better still, which a reader asks first."""
    found = read_comparison(whole)
    (place,) = {data for data, _ in found.blocks}
    for chosen, said in ((0.5, True), (0.1, False), (0.01, True), (0.02, False)):
        grid = [{"training.lr": lr, "algorithm.mu": 0.0} for lr in (0.01, 0.1, 0.5)] + [{"training.lr": "x"}]
        method = {**found.method("FedProx"), "configurations": [*grid, {"training.lr": 0.02}]}
        number = next(k for k, one in enumerate(method["configurations"]) if one["training.lr"] == chosen)
        choices = {**found.choices, (place, "FedProx"): Choice(number)}
        about = {**found.about, "methods": {**found.about["methods"], "FedProx": method}}
        words = " ".join(at_an_end_words(replace(found, about=about, choices=choices)))
        assert (f"training.lr = {chosen:g} of FedProx on {place} (0.01, 0.02, 0.1, 0.5)" in words) == said
        assert "mu" not in words


# --- what is written --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(whole: Path) -> tuple[Found, dict[str, str]]:
    """The small comparison, and all that is made of its folder."""
    write_comparison_report(whole)
    return read_comparison(whole), {name: (whole / name).read_text() for name in ("table.md", "table.csv", "report.html")}


@pytest.mark.trains
def test_the_csv_has_a_line_for_everything_with_its_scale(written: tuple[Found, dict[str, str]]) -> None:
    rows = list(csv.DictReader(io.StringIO(written[1]["table.csv"])))
    assert [(row["protection"], row["method"]) for row in rows] == [
        (p, m) for p in ("Plain", "Masked") for m in ("LOCAL", "FedProx", "IFCA", "FPFC")
    ]
    assert {row["scale"] for row in rows} == {"quick"}
    by = {(row["protection"], row["method"]): row for row in rows}
    refused = by["Masked", "FPFC"]
    assert (refused["status"], refused["accuracy_mean"], refused["accuracy_seeds"]) == ("refused", "", "")
    assert "needs fusion" in refused["reason"]
    ifca = by["Plain", "IFCA"]
    assert (ifca["second_hand"], ifca["fits"], ifca["other_work"], ifca["accuracy_seeds"]) == ("yes", "yes", "no", "2")
    assert by["Plain", "FedProx"]["searched"] == "4 of 4"
    assert by["Plain", "LOCAL"]["searched"] == "1 of 4"
    assert by["Plain", "LOCAL"]["server_holds_all_updates"] == "no"  # it is sent none
    assert (by["Plain", "FPFC"]["server_holds_all_updates"], by["Masked", "LOCAL"]["server_holds_all_updates"]) == ("yes", "no")
    done = [row for row in rows if row["status"] == "done"]
    cells = {(row["protection"], row["method"]): row for row in done}
    line = next(line for line in block_lines(written[0], "turned", "Plain") if line.method == "IFCA")
    spot = line.numbers["accuracy"]
    assert spot is not None
    assert float(cells["Plain", "IFCA"]["accuracy_mean"]) == pytest.approx(spot.mean, rel=1e-5)
    assert float(cells["Plain", "IFCA"]["accuracy_std"]) == pytest.approx(spot.deviation, rel=1e-5)
    assert cells["Plain", "IFCA"]["success_backdoor_mean"] != ""
    told = [row["withheld"] for row in written[0].lines(Spot("turned", "IFCA", "Masked"))]
    assert float(cells["Masked", "IFCA"]["withheld_mean"]) == pytest.approx(sum(told) / len(told))
    assert cells["Masked", "IFCA"]["attack_backdoor_mean"] == ""


@pytest.mark.trains
def test_losses_under_attack_are_of_the_same_clients(written: tuple[Found, dict[str, str]]) -> None:
    found = written[0]
    gaps = []
    for clean, under in zip(
        found.lines(Spot("turned", "LOCAL", "Plain")), found.lines(Spot("turned", "LOCAL", "Plain", "minus")), strict=True
    ):
        loyal = under["accuracy"]["of"]
        assert len(loyal) == 6
        assert not {*loyal} & {str(i) for i in under["members"]}
        gaps.append(np.mean([clean["accuracy"]["of"][i] - a for i, a in loyal.items()]))
    line = next(line for line in block_lines(found, "turned", "Plain") if line.method == "LOCAL")
    spot = line.numbers["lost minus"]
    assert spot is not None
    assert spot.mean == pytest.approx(np.mean(gaps))
    assert spot.mean == 0.0  # who trains alone is not harmed by others


@pytest.mark.trains
def test_the_markdown_says_what_it_is_of(written: tuple[Found, dict[str, str]]) -> None:
    text = written[1]["table.md"]
    assert "## turned under Masked, scale quick" in text
    assert "| FPFC* | refused |" in text
    assert "FPFC*: refused: FPFC needs fusion" in text
    assert "IFCA\u2020" in text
    assert "\u2020 The method's paper is known by what others say of it alone." in text
    assert "with seeds 7, 8; without any test data" in text
    assert ALL_UPDATES in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("| ") and "learned" not in line}
    assert len(widths) == 2  # the overview's, and the blocks'


@pytest.mark.trains
def test_the_page_shows_reasons_and_matrices_and_escapes_names(written: tuple[Found, dict[str, str]]) -> None:
    found, texts = written
    page = texts["report.html"]
    assert "<pulls>" not in page
    assert "&lt;pulls&gt;" in page
    assert "FPFC needs fusion, which" in page
    assert page.count("<figure") == sum(len(section["shown"]) for section in matrices(found)) == 1
    assert "Without a matrix: LOCAL, FedProx, IFCA." in page
    assert "cloister compare" in page
    assert "http" not in re.sub(r"http-equiv|http://www\.w3\.org", "", page)
    assert "quick" in page


@pytest.mark.long
def test_reasons_are_read_without_scrolling_on_a_phone(tmp_path: Path) -> None:
    """Before, a reason was as wide as the table, most of which is out of sight."""
    long = "no secure sum of this is ever opened, for reasons that take more words than a line of a telephone has room for"
    found = made(tmp_path / "f", {"LOCAL": (0.81, 0.8, 0.79, 0.8), "A": long, "B": long})
    script = """[...f.contentDocument.querySelectorAll(".reason span")]
      .map(s => s.getBoundingClientRect().right <= s.closest(".scroll").getBoundingClientRect().right).join(" ")"""
    assert on_phone(tmp_path, render(found), script, 390) == "true true"


@pytest.mark.long
def test_no_table_of_a_comparison_scrolls_on_a_phone(tmp_path: Path) -> None:
    """Before, the table of accuracies did, and its verdicts were out of sight."""
    found = made(tmp_path / "f", {"LOCAL": (0.81, 0.8, 0.79, 0.8), "a method of a long name": (0.7, 0.71, 0.7, 0.72)})
    script = """[...f.contentDocument.querySelectorAll(".scroll")].filter(s => s.scrollWidth > s.clientWidth).length"""
    assert on_phone(tmp_path, render(found), script, 390) == "0"


@pytest.mark.long
def test_what_methods_cost_is_not_cut_on_a_phone_and_purity_says_whose_it_is(tmp_path: Path) -> None:
    found = made(tmp_path / "f", {"LOCAL": (0.81, 0.8, 0.79, 0.8), "a method": (0.7, 0.71, 0.7, 0.72)})
    script = """[...f.contentDocument.querySelectorAll(".scroll[aria-label^=Cost]")]
      .map(s => s.scrollWidth > s.clientWidth).join(" ")"""
    assert on_phone(tmp_path, render(found), script, 390) == "false"
    assert "FLIC&#39;s purity" in render(found)
    assert "| FLIC's purity |" in markdown(found)
    assert "FLIC's purity: share of clients whose cluster has clients of one planted group alone" in markdown(found)


def test_a_folder_in_any_state_has_a_report(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path, "comparison")
    folder.open(description(sample.comparison), resume=False)
    page = write_comparison_report(tmp_path).read_text()
    assert "No verdict: not every cell is played yet." in page
    assert "not played yet: 2 of 2 seeds" in page
    found = read_comparison(tmp_path)
    assert not found.complete
    assert len(list(csv.DictReader(io.StringIO(csv_text(found))))) == 8
    assert "| LOCAL | not played yet" in markdown(found)
    assert render(found) == page


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def cloister(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(tmp_path)

    def command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["cloister", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        out = capsys.readouterr()
        return code, out.out, out.err

    return command


@pytest.mark.long
@pytest.mark.trains
def test_the_command_plays_prints_and_goes_on(cloister: Any, tmp_path: Path) -> None:
    code, out, _ = cloister("compare", f"{FILE}:tiny", "--workers", 1, "--out", "here")
    assert code == 0
    assert "tiny: iid under Plain, scale quick" in out
    assert {"comparison.json", "results.jsonl", "table.md", "table.csv", "report.html"} == {
        p.name for p in Path("here").iterdir()
    }
    code, out, err = cloister("compare", f"{FILE}:tiny", "--workers", 1, "--out", "here")
    assert (code, out) == (1, "")
    assert err == (
        "cloister: here already holds a comparison; go on with it by --resume (resume=True in Python), or choose another folder"
        " by --out (out= in Python)\n"
    )
    code, out, _ = cloister("compare", f"{FILE}:tiny", "--workers", 1, "--out", "here", "--resume", "--seeds", "0,3", "--json")
    assert code == 0
    found = json.loads(out)
    assert [line["numbers"]["accuracy"]["seeds"] for line in found["lines"]] == [2, 2]
    assert all("matrix" not in cell for cell in found["cells"])
    (tmp_path / "here" / "report.html").unlink()
    assert cloister("report", "here")[0] == 0
    assert "Cloister comparison" in (tmp_path / "here" / "report.html").read_text()


def test_a_worker_makes_by_itself_what_it_plays_with() -> None:
    """What is sent to it is a file's name, and what is to be changed."""
    origin = Origin(f"{FILE}:tiny", ("rounds=3",), (4, 5))
    bench = pickle.loads(pickle.dumps(origin.bench))()  # noqa: S301
    assert isinstance(bench, Bench)
    assert description(bench.comparison) == description(origin.load())
    assert (bench.comparison.seeds, bench.comparison.data["iid"].rounds) == ((4, 5), 3)


@pytest.mark.slow
@pytest.mark.trains
def test_workers_write_what_one_process_writes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cloister.cli", "compare", f"{FILE}:tiny", "--workers", "2", "--out", str(tmp_path / "two")]
    subprocess.run(command, check=True, capture_output=True, cwd=FILE.parent.parent)
    play(sample.tiny, tmp_path / "one")
    assert timeless(tmp_path / "two") == timeless(tmp_path / "one")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.py",), "there is no file nowhere.py"),
        ((f"{FILE}:small",), "holds no comparison named 'small'; it has: comparison, tiny"),
        ((f"{FILE}:tiny", "--resume"), "there is no folder runs/tiny-comparison to resume"),
        ((f"{FILE}:tiny", "--seeds", "7"), "both have 7"),
        ((f"{FILE}:tiny", "--set", "moon=1"), "no field 'moon'"),
    ],
)
def test_errors_are_one_line(cloister: Any, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = cloister("compare", *arguments)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert words in err
    assert not Path("runs").exists()


@pytest.mark.long
def test_the_example_gives_every_method_the_same_search_and_none_of_its_seeds() -> None:
    """The file as it is: that it loads says that no configuration is misspelt and none does other work unsaid."""
    found = load_comparison(str(FILE.parent.parent / "examples" / "compare_digits.py"))
    assert {len(method.configurations) for method in found.methods.values()} == {3}
    assert found.search is not None
    assert found.yardstick in found.methods
    assert count_of(found) == 3 * len(found.methods) * (3 * 3 + 2 + 2)
    assert [name for name, method in found.methods.items() if method.work] == ["FedEM", "FedRC", "CFL-GP", "Per-FedAvg"]


@pytest.mark.trains
@pytest.mark.long
def test_in_the_example_clients_of_every_method_train_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """But of those that say that their work differs; FPFC's, too, after their models were grouped."""
    example, asked = load_comparison(str(FILE.parent.parent / "examples" / "compare_digits.py")), list[int]()
    training = Simulation._train

    def counted(self: Simulation, jobs: Any, *rest: Any) -> Any:
        asked.append(len(jobs))
        return training(self, jobs, *rest)

    monkeypatch.setattr(Simulation, "_train", counted)
    swapped = example.data["swapped"]
    few = LabelSwap(clients=4, groups=2, samples=20)
    small = replace(swapped, partition=few, model=Mlp(hidden=(4,)), rounds=6, training=replace(swapped.training, epochs=1))
    here = replace(example, data={"swapped": small}, methods={n: replace(m, fits=()) for n, m in example.methods.items()})
    for name, method in here.methods.items():
        asked.clear()
        simulation = Simulation(here.without_attack("swapped", name, 0, Plain(), 1), None)
        for _ in range(6):
            simulation.step()
        assert sum(asked) == 4 * 6 or method.work, name


def test_the_help_teaches(cloister: Any) -> None:
    code, out, _ = cloister("compare", "--help")
    assert code == 0
    for word in ("cloister compare cloister:compare_digits", "--resume", "validation", "table.csv", "same local work"):
        assert word in " ".join(out.split())


def under_attack(found: Found, of: Mapping[str, Sequence[Mapping[str, Any] | None]]) -> Found:
    """With runs under "minus" of the methods, one a seed: what is other than in the run without attack, None for an error."""
    cells = {}
    for method, several in of.items():
        spot = Spot("turned", method, "Plain")
        rows = zip(found.cells[spot], several, strict=True)
        failed = {"status": "failed", "reason": "RuntimeError: no"}
        cells[replace(spot, attack="minus")] = [
            {k: v for k, v in row.items() if k != "clients"}
            | {"attack": "minus", "members": [3], "success": None}
            | (one or failed)
            for row, one in rows
        ]
    about = found.about | {"attacks": ["minus"], "attacked": ["Plain"]}
    return replace(found, cells=found.cells | cells, about=about)


def test_who_is_compared_with_nobody_under_attack_is_named(tmp_path: Path) -> None:
    """Before: "from a, 85.0 %, to b, 50.5 %", where one without a result on one seed had 5 % on the others; and one of
    three loyal clients, whose mean passed as the highest.
    """
    found = made(tmp_path, dict.fromkeys("abcd", (0.9,) * 4))
    all_ = {str(i): 0.5 for i in range(3)}

    def on_all(mean: float, of: Mapping[str, float] = all_) -> list[Mapping[str, Any] | None]:
        return [{"accuracy": {"mean": mean, "worst": 0.1, "of": of}}] * 4

    of = {"a": on_all(0.85), "b": on_all(0.505), "c": [*on_all(0.05)[:3], None], "d": on_all(0.99, {"0": 0.99})}
    told = under_attack(found, of)
    words = (
        "Under minus loyal clients have from a, 85.0 %, to b, 50.5 %; not compared: c (5.0 % on 3 of 4 seeds), d (not of every"
    )
    assert words in headline(told)
    a, b, c, d = (line.words["attack minus"] for line in block_lines(told, "turned", "Plain"))
    assert not any("not all" in of for of in (a, b))
    assert c.endswith(", not all seeds")
    assert d.endswith(", not all clients")
    few = under_attack(found, of | {"b": [None] * 4})
    assert "Under minus nobody is compared; not compared: b (no result), c" in headline(few)


def test_a_method_without_a_result_on_some_seed_is_not_counted_as_good_as_the_yardstick(tmp_path: Path) -> None:
    found = made(tmp_path, {"LOCAL": (0.8, 0.8, 0.8, 0.81), "fitting": (0.9, 0.9, 0.9, 0.9)})
    assert len(fits(found)) == 1
    for name in ("fitting", "LOCAL"):
        lacking = made(tmp_path / name, {"LOCAL": (0.8, 0.8, 0.8, 0.81), "fitting": (0.9, 0.9, 0.9, 0.9)})
        lacking.cells[Spot("turned", name, "Plain")][0].update({"status": "failed", "reason": "no"})
        assert not fits(lacking)
