"""What a client is told before it trains: on which data, by what its scenario differs, and that a run did not begin."""

import gc
import json
import logging
import re
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors import safe_open

import cloister
from cloister.fl.data.agreed import agreed_columns
from cloister.fl.data.source import Digits
from cloister.fl.runs.agreement import checked, differences, from_text, terms_of, to_text
from cloister.fl.runs.greeting import Greeting, own_parties
from cloister.fl.runs.joining import join
from cloister.fl.runs.listening import Listening, greeting_of
from cloister.fl.runs.other_terms import MOST_CHANGES, OTHER_TERMS, OtherTerms
from cloister.fl.runs.parties import Parties
from cloister.fl.runs.serving import serve
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked, Permuted
from cloister.protocol.core.errors import Refused
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.terms import NEVER_BEGAN, Limits, LinkRefused, grpc_or_words
from cloister.protocol.pki import office
from cloister.reporting.own_record import write_client_report
from cloister.reporting.report import write_report
from cloister.reporting.run_data import Run
from cloister.reporting.who_was_there import differing
from cloister.scenario_file import load

from .commanded import commanded
from .deployed import authority
from .served import SMALL, Served, played
from .test_own_data_check import AGREED, of, table

grpc_or_words()
EMPTY = Run("r", {}, {}, [], [], [], [], [], [], {})


@pytest.fixture
def folder(tmp_path):
    rows = [[f"h{k % 3}", *row] for k, row in enumerate(of(36))]
    table(tmp_path / "columns.csv", rows, ("hospital", "age", "dose", "ill"))
    table(tmp_path / "mine.csv", of(40))
    (tmp_path / "agreed.py").write_text(AGREED)
    return tmp_path


@pytest.mark.trains
def test_nobody_trains_on_made_up_rows_unasked(folder):
    for more in (("--check",), ("localhost:1", "--folder", "c", "--client", "0", "--insecure-loopback")):
        done = commanded(folder, "join", *more, "--scenario", "agreed.py")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            "cloister: give --data PATH: without it this client would train on the rows of columns.csv; if that is meant,"
            " --data scenario\n"
        )
    asked = commanded(folder, "join", "--check", "--scenario", "agreed.py", "--data", "scenario")
    assert (asked.returncode, asked.stdout.splitlines()[-1]) == (0, "it fits"), asked.stderr


def test_with_keys_nobody_trains_on_a_share_unasked(tmp_path):
    done = commanded(tmp_path, "join", "--check", "--scenario", "cloister:quickstart", "--keys", "anywhere")
    assert done.returncode == 1
    assert "train on its share of the scenario's data; if that is meant, --data scenario" in done.stderr


@pytest.mark.trains
@pytest.mark.long
def test_keys_are_looked_at_before_anybody_is_connected_to(folder):
    """Before: any were said to fit, and the coordinator knew nobody of that number."""
    authority(folder / "pki", 14)
    at = ("join", "--check", "--scenario", "agreed.py", "--data", "mine.csv", "--keys")
    good = commanded(folder, *at, "pki/parties/client-1")
    assert (good.returncode, good.stdout.splitlines()[-1]) == (0, "it fits"), good.stderr
    assert good.stdout.splitlines()[0] == "keys         client-1 of the run 'tests', directory 1, which lists 14 clients"
    wrong = {"pki/parties/client-13": "the scenario has no client 13", "nowhere": "there is no folder nowhere",
             "pki/parties/coordinator": "are not those of a client"}  # fmt: skip
    for keys, why in wrong.items():
        done = commanded(folder, *at, keys)
        assert done.returncode == 1
        assert why in done.stderr
    office.revoke(folder / "pki", 1, now=int(time.time()))
    assert commanded(folder, *at, "pki/parties/client-1").returncode == 77
    assert commanded(folder, "join", "--check", "--keys", "pki/parties/client-2").returncode == 0


def test_own_data_are_read_before_anybody_is_connected_to(folder):
    table(folder / "mine.csv", of(40, "yes"))
    at = ("127.0.0.1:1", "--folder", "c", "--client", "0", "--insecure-loopback", "--patience", "5")
    done = commanded(folder, "join", *at, "--scenario", "agreed.py", "--data", "mine.csv")
    assert done.returncode == 1
    assert "is 'Yes' meant?" in done.stderr
    assert "cannot be reached" not in done.stderr


@pytest.mark.trains
@pytest.mark.long
def test_a_client_that_trains_otherwise_is_told_and_so_is_the_coordinator(tmp_path, caplog):
    caplog.set_level("INFO")
    other = replace(SMALL, training=replace(SMALL.training, epochs=2, lr=0.2))
    found = played(SMALL, tmp_path, mine=other)
    differ = {"training.epochs": ["1", "2"], "training.lr": ["0.1", "0.2"]}
    assert [line["differs"] for line in found.record(0) if "differs" in line] == [differ]
    here = [log for log in caplog.records if log.getMessage() == "the coordinator's scenario differs"]
    assert [log.fields_there_and_here for log in here] == [differ] * 4
    there = [log for log in caplog.records if log.getMessage() == "another scenario"]
    assert sorted(log.client for log in there) == [0, 1, 2, 3]
    assert there[0].fields_there_and_here == {"training.epochs": ["2", "1"], "training.lr": ["0.2", "0.1"]}
    there = {"training.epochs": ["2", "1"], "training.lr": ["0.2", "0.1"]}
    lines = sorted(found.read(OTHER_TERMS), key=lambda line: line["client"])
    assert lines == [{"round": 0, "client": client, "differs": there} for client in range(4)]
    words = "client-3, from round 0 on: training.lr is 0.2 there, 0.1 at the coordinator"
    page = write_report(found.folder).read_text()
    assert words in page
    trained = [log.round for log in caplog.records if log.getMessage() == "trained"]
    assert sorted(trained) == sorted([*range(SMALL.rounds)] * 4), "a client's own log says how far it is"
    on = [log for log in caplog.records if log.getMessage() == "trains on"]
    joined = next(line for line in found.record(0) if "joined" in line)
    assert (joined["data"], joined["records"]) == ("its share of the scenario's data", on[0].records)
    page = write_client_report(found.home[0]).read_text().replace("<wbr>", "")
    assert "training.lr differs" in page
    assert "0.1 at the coordinator, 0.2 here" in page
    assert f"its share of the scenario&#39;s data, {joined['records']} records" in page


def test_of_a_client_that_comes_back_with_the_agreed_scenario_it_is_kept_when_it_had_another(tmp_path, caplog):
    """In every life of the coordinator, which may be killed between the two."""
    caplog.set_level("INFO")
    for round, lr in enumerate((0.2, 0.2, 0.1, 0.1, 0.3)):
        life = OtherTerms(tmp_path, terms_of(SMALL), lambda at=3 * round: at)
        for _ in range(2):
            life.note(2, to_text(terms_of(replace(SMALL, training=replace(SMALL.training, lr=lr)))))
    said = ["another scenario", "the agreed scenario again", "another scenario"]
    assert [log.getMessage() for log in caplog.records] == said
    lines = [json.loads(line) for line in (tmp_path / OTHER_TERMS).read_text().splitlines()]
    assert [(line["round"], line["differs"].get("training.lr")) for line in lines] == [
        (0, ["0.2", "0.1"]),
        (6, None),
        (12, ["0.3", "0.1"]),
    ]
    assert differing(replace(EMPTY, other_terms=[*lines, {"round": 1}])) == [
        "client 2, round 0 to 5: training.lr is 0.2 there, 0.1 at the coordinator",
        "client 2, from round 12 on: training.lr is 0.3 there, 0.1 at the coordinator",
    ]


def test_of_a_client_with_another_protection_which_takes_no_part_nothing_is_said_here(tmp_path, caplog):
    """Not that it has the agreed scenario again, when it had another learning rate before."""
    others = OtherTerms(tmp_path, terms_of(SMALL), lambda: 0)
    others.note(2, to_text(terms_of(replace(SMALL, training=replace(SMALL.training, lr=0.2)))))
    caplog.set_level("INFO")
    caplog.clear()
    others.note(2, to_text(terms_of(replace(SMALL, protection=replace(SMALL.protection, floor=3)))))
    assert not caplog.records
    assert len((tmp_path / OTHER_TERMS).read_text().splitlines()) == 1
    others.note(2, to_text(terms_of(SMALL)))
    assert [log.getMessage() for log in caplog.records] == ["the agreed scenario again"]


@pytest.mark.long
@pytest.mark.trains
def test_nothing_is_said_where_nothing_differs(tmp_path, caplog):
    found = played(replace(SMALL, rounds=1), tmp_path)
    assert not any("differs" in line for line in found.record(0))
    assert not [log for log in caplog.records if log.getMessage() in ("another scenario", "the coordinator's scenario differs")]


def test_terms_are_the_same_wherever_a_file_is_read(folder):
    from cloister.scenario_file import load

    one, again = (terms_of(load(str(folder / "agreed.py"))) for _ in range(2))
    assert one == again
    assert one["data.labels"] == '["No", "Yes"]'
    assert from_text(to_text(one)) == one
    assert to_text(one).isascii()
    (folder / "agreed.py").write_text(AGREED.replace("nn.Linear(shape[0], classes)", "nn.Linear(shape[0], classes), nn.Tanh()"))
    assert list(differences(one, terms_of(load(str(folder / "agreed.py"))))) == ["model"]


@pytest.mark.parametrize(
    "found",
    [[], {1: "a"}, {"a": 1}, {"a": "b" * 65}, {str(k): "" for k in range(65)}, {"a": "\ud800"}, {"\x1b[2J": ""}, {"a": "\u202e"}],
)
def test_terms_that_are_none_are_refused(found):
    with pytest.raises(ValueError, match="terms that are none"):
        checked(found)


def test_terms_that_change_at_every_connection_fill_no_disk(tmp_path):
    others = OtherTerms(tmp_path, {"seed": "0"}, lambda: 7)
    for k in range(3 * MOST_CHANGES):
        others.note(3, to_text({"seed": str(k)}))
        others.note(4, '{"seed":"\\ud800"}')  # what no report can show
    others.note(5, to_text({"seed": "1"}))
    lines = [json.loads(line) for line in (tmp_path / OTHER_TERMS).read_text().splitlines()]
    assert [line["client"] for line in lines] == [3] * MOST_CHANGES + [5]


@pytest.mark.parametrize("text", ["{", "[" * 6000, "1" * 7000, '{"a":"\\ud800"}'])
def test_text_that_is_no_terms_is_refused(text):
    with pytest.raises(ValueError, match=r"terms|Expecting"):
        from_text(text)


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (Masked(floor=2, corrupt=1), r"plays Masked with floor=2, where this client agrees to 3; corrupt=1, where .* to 0$"),
        (Permuted(floor=2), r"plays Permuted\(.*where this client agrees to Masked\("),
    ],
)
def test_a_differing_protection_names_the_fields_that_differ(there, words):
    parties = Parties(replace(SMALL, protection=there), None)
    greeting = Greeting.of(greeting_of(parties, bytes(16))(0))
    with pytest.raises(Refused, match=words) as refused:
        own_parties(replace(SMALL, protection=Masked(floor=3)), greeting, None, None)
    assert "sketch" not in str(refused.value) or not isinstance(there, Masked)


@pytest.mark.parametrize("text", ["(" * 1500, "Masked(" * 200, "Masked(**a)", "x" * 5000, "Masked("])
def test_a_protection_that_prints_as_nothing_known_is_refused_all_the_same(text):
    parties = Parties(SMALL, None)
    greeting = replace(Greeting.of(greeting_of(parties, bytes(16))(0)), protection=text)
    with pytest.raises(Refused, match="the coordinator plays"):
        own_parties(SMALL, greeting, None, None)


@pytest.mark.long
def test_who_listens_holds_its_clients_data_and_models_once(tmp_path):
    found = []

    def listening(port):
        kinds = [type(one) for one in gc.get_objects()]
        found.extend(kind for kind in kinds if issubclass(kind, Parties))

    gc.collect()  # those of other tests
    with pytest.raises(ValueError, match="are not there"):
        list(serve(SMALL, tmp_path, Listening("127.0.0.1:0", None, wait=0.1, told=listening)))
    assert found == [Simulation]


@pytest.mark.long
def test_a_run_that_does_not_begin_is_an_error_at_clients(tmp_path, caplog):
    assert isinstance(SMALL.data, Digits)
    caplog.set_level(logging.INFO, "cloister")
    found, ended, threads = Served(tmp_path / "served", {0: tmp_path / "client"}), [], []

    def client(port):
        try:
            for _ in join(SMALL, Dialled(f"127.0.0.1:{port}", None, 0, patience=20.0), found.home[0]):
                pass
            ended.append(None)
        except LinkRefused as error:
            ended.append(str(error))

    def listening(port):
        threads.append(threading.Thread(target=client, args=(port,), daemon=True))
        threads[0].start()

    where = Listening("127.0.0.1:0", None, Limits(patience=20.0), 3.0, told=listening)
    with pytest.raises(ValueError, match=r"clients \[1, 2, 3\] are not there.*--wait.*--least"):
        list(serve(SMALL, found.folder, where))
    threads[0].join(30)
    assert [(r.least, r.of, r.seconds) for r in caplog.records if r.getMessage() == "waits for clients"] == [(4, 4, 3.0)]
    said = f"{NEVER_BEGAN}; the same command tries again, once the coordinator is there again"
    assert ended == [said]
    assert found.record(0)[-1]["left"] == said


def test_a_model_file_says_its_columns_and_labels_and_the_page_shows_how_to_predict(folder):
    """From the how-to: what it defines, loaded from what a client writes."""
    from cloister.fl.runs.member import _write_model

    page = (Path(__file__).parents[1] / "docs/how-to/my-data.md").read_text()
    found: dict[str, object] = {"__name__": "page"}
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        if "class Standardise" in block or "def predictor" in block:
            exec(block, found)  # noqa: S102
    assert {"network", "predictor"} <= set(found)
    scenario = replace(load(str(folder / "agreed.py")), model=found["network"])
    greeting = Greeting.of(greeting_of(Parties(scenario, None), bytes(16))(0))
    mine = own_parties(scenario, greeting, folder / "mine.csv", None)
    _write_model(mine, mine.setup.initial, folder / "model.safetensors")
    with safe_open(folder / "model.safetensors", "pt") as file:
        assert file.metadata() == {"label": '"ill"', "columns": '["age", "dose"]', "labels": '["No", "Yes"]'}
    predict = found["predictor"](folder / "model.safetensors", found["network"])
    own = mine.population.clients[0].test
    expected = [("No", "Yes")[int(k)] for k in mine.module(own.x).argmax(1)]
    assert [predict({"dose": x[1], "age": x[0]}) for x in own.x.tolist()] == expected


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.filterwarnings("ignore::cloister.fl.runs.feasibility.Doubt")
def test_models_of_a_run_folder_say_their_columns_and_labels(folder):
    """A client that was away is handed one, and could not load it as the guide shows."""
    files, agreed = load(str(folder / "agreed.py")), agreed_columns(["age", "dose"], labels=["Yes", "No"], clients=3)
    for number, data in enumerate((files.data, agreed)):
        cloister.run(replace(files, data=data, rounds=1), folder / f"r{number}", quiet=True)
        (model,) = (folder / f"r{number}/models").glob("*.safetensors")
        with safe_open(model, "pt") as file:
            about = {name: json.loads(value) for name, value in file.metadata().items()}
        assert (about["columns"], about["labels"]) == (["age", "dose"], ["No", "Yes"])
