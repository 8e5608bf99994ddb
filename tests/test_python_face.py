"""Cloister from Python: names, running and reading runs, pictures, and what a notebook shows."""

import html
import importlib
import inspect
import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import matplotlib as mpl
import pytest

import cloister
from cloister import Scenario, Training, algorithms, data, models, partitions, protections
from cloister.plots import picture
from cloister.reporting.headline import ADJACENT, privacy_in_words, smallest_sum
from cloister.reporting.run_data import Run, read_run

NAMES = {"algorithms", "attacks", "callbacks", "data", "models", "partitions", "protections", "rules", "threats"}
small = Scenario(
    name="small",
    data=data.Digits(),
    partition=partitions.LabelSwap(clients=6, groups=2, pairs=((1, 7), (3, 8)), samples=60, shared_test=True),
    model=models.Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=algorithms.CFL(thresholds=algorithms.ScaleFree(eps1=0.9, eps2=0.1), patience=2),
    protection=protections.Masked(),
    rounds=4,
)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    seen = []
    result = cloister.run(small, tmp_path_factory.mktemp("run") / "r", quiet=True, callbacks=seen.append)
    assert [done.round for done in seen] == [1, 2, 3, 4]
    return result


# --- names ------------------------------------------------------------------------------------------------------------------


def test_what_a_user_may_use_is_listed_and_nothing_else():
    values = {"Comparison", "Evaluation", "Method", "Result", "Round", "Scenario", "Search", "Training", "__version__"}
    public = values | {"attack", "audit", "breakdown", "compare", "evaluate", "iterate", "load", "run"}
    assert set(dir(cloister)) == set(cloister.__all__) == NAMES | public
    with pytest.raises(AttributeError, match="no attribute 'algorithm'"):
        cloister.algorithm  # noqa: B018


@pytest.mark.parametrize("name", sorted(NAMES))
def test_names_of_parts_are_there_and_documented(name):
    module = importlib.import_module(f"cloister.{name}")
    assert module.__doc__
    for each in module.__all__:
        value = getattr(module, each)
        assert inspect.getdoc(value), each
        assert not each.startswith("_")
    own = {key for key, value in vars(module).items() if not key.startswith("_") and not inspect.ismodule(value)}
    assert own == set(module.__all__)


def test_the_package_alone_brings_neither_torch_nor_its_parts():
    code = "import sys, cloister; print(sorted({'torch', 'scipy', 'cloister.algorithms'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


# --- runs -------------------------------------------------------------------------------------------------------------------


@pytest.mark.trains
def test_a_result_has_the_runs_numbers(played):
    assert played.accuracy == played.summary["accuracy_mean"]
    assert sorted(i for members in played.clusters for i in members) == list(range(6))
    rows = played.metrics
    assert {(row["round"], row["client"]) for row in rows} == {(t, i) for t in range(4) for i in range(6)}
    assert {row["group"] for row in rows} == {"0", "1"}
    last = [row["accuracy"] for row in rows if row["round"] == 3]
    assert abs(sum(last) / 6 - played.accuracy) < 1e-12
    assert [row["round"] for row in played.rounds] == [0, 1, 2, 3]
    assert all(row["bytes_up"] > 0 for row in played.rounds)
    assert played.privacy["epsilon"] == {}
    assert played.privacy["smallest_sum"] >= 3
    assert played.privacy["pieced_together"]["observer"] == "the server alone"
    assert {entry["recipient"] for entry in played.disclosures} >= {"server", "clients"}
    assert {"0.weight", "0.bias"} & set(next(iter(played.models().values()))) or played.models()
    assert played.report.read_text().startswith("<!doctype html>")


@pytest.mark.trains
def test_what_was_played_is_loaded_and_shown(played):
    again = cloister.load(str(played.folder))
    assert again.summary == played.summary
    assert again.metrics == played.metrics
    assert "clusters found" in str(again)
    page = again._repr_html_()
    assert page.startswith("<table>")
    assert "<script" not in page
    hostile = replace(again, summary=again.summary | {"name": "<script>alert(1)</script>"})
    assert "<script" not in hostile._repr_html_()


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("what", ["accuracy", "traffic", "leakage"])
def test_pictures_have_named_axes(played, what, tmp_path):
    figure = played.plot(what)
    assert figure._repr_png_().startswith(b"\x89PNG")  # a notebook has nothing else of it, where nobody asked for pyplot
    (axes,) = figure.axes[:1]
    assert axes.get_xlabel()
    assert axes.get_ylabel() or what == "leakage"
    figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000
    assert mpl.get_backend() is not None


def test_pictures_say_of_what_they_are(tmp_path):
    line = {"round": 2, "clients": [0, 1], "similarity": [[1, -1], [-1, 1]]}
    run = SimpleNamespace(
        similarities=[line],
        splits=[],
        kin={},
        kind="group",
        name_of=str,
        summary={"account": {"leverage": {"largest": 0.25}}},
    )
    assert picture(run, "similarity").axes[0].get_title() == "cosine similarity of updates, round 2"
    run.similarities[0]["about"] = "mean"
    assert picture(run, "similarity").axes[0].get_title() == "cosine similarity of updates less their mean, round 2"
    assert "share of an update" not in picture(run, "leakage").axes[0].get_xlabel()  # taking part is none


def test_the_picture_of_similarities_names_clients_as_the_data_do(tmp_path):
    line = {"round": 2, "clients": [0, 2], "similarity": [[1, -1], [-1, 1]]}
    run = SimpleNamespace(
        similarities=[line], splits=[], kin={}, kind="cluster", name_of=lambda i: {0: "north", 2: "south"}[i], summary={}
    )
    axes = picture(run, "similarity").axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["north", "south"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["north", "south"]
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {90}
    run.name_of = str
    assert {label.get_rotation() for label in picture(run, "similarity").axes[0].get_xticklabels()} == {0}


@pytest.mark.trains
def test_a_picture_that_a_run_has_not_is_refused_in_words(played, tmp_path):
    with pytest.raises(ValueError, match="no picture of 'x'; there are: accuracy, similarity"):
        played.plot("x")
    with pytest.raises(ValueError, match="there are metrics, rounds, disclosures and by_client"):
        played.frame("x")
    plain = cloister.run(replace(small, algorithm=algorithms.FedAvg(), protection=protections.Plain(), rounds=1), tmp_path / "p")
    with pytest.raises(ValueError, match="the server sees every update"):
        plain.plot("leakage")
    with pytest.raises(ValueError, match="nothing was split or grouped"):
        plain.plot("similarity")


@pytest.mark.long
@pytest.mark.trains
def test_a_run_that_was_stopped_says_how_it_goes_on(tmp_path):
    def stop(done):
        if done.round == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        cloister.run(small, tmp_path / "r", quiet=True, callbacks=stop)
    (note,) = stopped.value.__notes__
    assert note == f"The run was stopped; cloister.run(scenario, {str(tmp_path / 'r')!r}, resume=True) goes on."
    seen = []
    cloister.run(small, str(tmp_path / "r"), resume=True, quiet=True, callbacks=seen.append)
    assert [done.round for done in seen] == [3, 4]


@pytest.mark.long
@pytest.mark.trains
def test_rounds_are_played_one_by_one_and_a_run_goes_on(tmp_path):
    rounds = cloister.iterate(small, tmp_path / "r")
    assert next(rounds).round == 1
    rounds.close()
    half = cloister.load(tmp_path / "r")
    assert half.summary == {}
    with pytest.raises(ValueError, match=r"is not over; go on with cloister.run\(scenario, .*, resume=True\)"):
        half.clusters  # noqa: B018
    assert str(half).startswith("interrupted run in")
    whole = cloister.run(small, tmp_path / "r", resume=True, quiet=True)
    assert whole.summary["rounds"] == 4
    with pytest.raises(ValueError, match="is no run folder, but holds a folder of results: r; give one of them"):
        cloister.load(tmp_path)


@pytest.mark.long
@pytest.mark.trains
def test_a_run_without_a_folder_has_a_new_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    one = replace(small, rounds=1)
    assert [str(cloister.run(one).folder) for _ in range(2)] == ["runs/small-seed0", "runs/small-seed0-2"]
    assert capsys.readouterr() == ("", "")  # nobody looks: no bar


@pytest.mark.trains
def test_the_reports_first_words_say_who_saw_what(played, tmp_path):
    run = read_run(played.folder)
    words = privacy_in_words(run)
    assert words.startswith("Nobody but a client itself saw its update in clear. The smallest sum that anybody was told is over ")
    assert f"over {smallest_sum(run)} clients; from one of them" in words
    assert words.endswith("No differential privacy.")
    assert words in html.unescape(played.report.read_text())
    plain = cloister.run(replace(small, algorithm=algorithms.FedAvg(), protection=protections.Plain(), rounds=1), tmp_path / "p")
    assert privacy_in_words(read_run(plain.folder)) == "The server saw every update in clear. No differential privacy."
    noisy = replace(run, privacy={"client": {"epsilon_worst": 3.0}})
    assert "Differential privacy: epsilon 3 for any client, for what stands below." in privacy_in_words(noisy)
    known = replace(run, privacy={"record": {"epsilon_worst": 3.0, "delta": 1e-5, "adjacency": "replace"}})
    assert (
        f"epsilon 3 at delta 1e-05 for any record of a client's training data{ADJACENT['replace']}, for what stands below."
        in privacy_in_words(known)
    )
    assert privacy_in_words(replace(run, answers=[])) == ""


def made(answers, privacy=None, scenario=None, protection="Masked"):
    """A run of which this was told."""
    return Run("r", {"protection": protection}, scenario or {}, [], [], [], [], answers, [], privacy or {})


def told(recipient, what, about, words="", scalars=1, client=None):
    return {
        "round": 0,
        "recipient": recipient,
        "what": what,
        "about": about,
        "scalars": scalars,
        "words": words,
        "client": client,
    }


def test_first_words_are_true_of_slots_personal_sums_pairs_and_noise():
    slots = privacy_in_words(made([told("server", "slots", [0, 1, 2, 3])]))
    assert "No sum of a slot is over fewer clients than the floor" in slots
    assert "smallest sum" not in slots
    own = made([told("clients", "personal sums", [0, 1, 2, 3], client=2), told("server", "sums", [0, 1, 2, 3, 4])])
    assert smallest_sum(own) == 3
    seen = made(
        [
            told("clients", "pairs", [0, 1], "the embedding models of the clients that they were compared with"),
            told("server", "pairs", [0, 1], "samples of clients' examples, as they are"),
            told("server", "sums", [0, 1, 2]),
        ]
    )
    words = privacy_in_words(seen)
    assert "in clear" not in words
    assert "other clients saw the embedding models" in words
    assert "the server saw samples of clients' examples, as they are" in words
    noisy = made([told("server", "sums", [0, 1, 2])], {"client": {"epsilon_worst": 2.0049}})
    assert "epsilon 2.01 for any client" in privacy_in_words(noisy)
    elsewhere = made([told("server", "sums", [0, 1, 2])], scenario={"training": {"privacy": {"clip": 1.0}}})
    assert "Clients train with differential privacy; how much of it is spent is not in this folder" in privacy_in_words(elsewhere)


def test_a_file_in_the_place_of_a_folder_is_refused_with_what_to_do(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    for out, play in itertools.product((taken, taken / "within"), (cloister.run, cloister.audit)):
        with pytest.raises(ValueError, match=r"taken: a folder is to be .* and a file is; choose .* \(out= in Python\)"):
            play(small, out, quiet=True)
    assert taken.read_text() == "mine"


def test_what_is_no_scenario_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"there is no file mine.py in .*; give the path of a scenario"):
        cloister.run("mine.py")
    assert not list(tmp_path.iterdir())


def test_the_folder_of_an_audit_is_sent_to_the_command_that_shows_it(tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_text("{}")
    with pytest.raises(ValueError, match="is the folder of an audit; its report is made by: cloister audit"):
        read_run(tmp_path)


@pytest.mark.long
@pytest.mark.trains
def test_a_scenario_is_played_where_a_file_has_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    text = (Path(__file__).parent.parent / "examples" / "quickstart.py").read_text()
    file.write_text(f"{text}\nfrom dataclasses import replace\nshort = replace(scenario, rounds=1)\n")
    assert len(cloister.run(f"{file}:short", tmp_path / "run", quiet=True).rounds) == 1
    assert [done.rounds for done in cloister.iterate(f"{file}:short", tmp_path / "other")] == [1]


def test_a_clients_own_folder_and_a_name_like_anothers_are_told(tmp_path: Path) -> None:
    (tmp_path / "pics-seed0").mkdir()
    (tmp_path / "pics-seed0" / "join.jsonl").write_text("")
    with pytest.raises(ValueError, match=r"is a client's own folder.*cloister report .*pics-seed0; what came of the run is in"):
        cloister.load(tmp_path / "pics-seed0")
    for near in ("pics", "pisc-seed0"):
        with pytest.raises(ValueError, match=r"there is no folder .*; did you mean .*pics-seed0$"):
            cloister.load(tmp_path / near)
    with pytest.raises(ValueError, match="runs are under runs/"):
        cloister.load(tmp_path / "nothing like it")
