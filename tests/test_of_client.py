"""What was learned of one client: cloister report FOLDER --client 3, Result.client(3), and a row for each in the report."""

import json
import re
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import cloister
from cloister.protocol import Masked, Plain
from cloister.reporting.report import write_report
from cloister.result import load

from .run_folder_sample import Sample, write_lines, write_sample
from .served import SMALL


def answers(*entries):
    base = {"scalars": 1, "bytes": 4, "client": None}
    return [base | dict(zip(("round", "recipient", "what", "about", "words"), entry, strict=False)) for entry in entries]


@pytest.fixture
def folder(tmp_path):
    """Client 3 is in two sums of the server, of 12 and of 4; client 5 in the first alone."""
    folder = write_sample(tmp_path / "run", Sample(rounds=8))
    told = answers(
        (1, "server", "sums", [*range(12)], "the sum"),
        (2, "server", "sums", [0, 3, 6, 9], "the sum"),
        (2, "clients", "sums", [0, 3, 6, 9], "the mean"),
        (2, "second server", "gram", [1, 2], "how alike"),
    )
    told.append(told[1] | {"round": 3, "what": "personal sums", "about": [1, 2, 3], "client": 2, "recipient": "clients"})
    write_lines(folder / "disclosure.jsonl", told)
    (folder / "exposure.json").write_text(json.dumps({"leverage": {"3": 0.25, "5": 1 / 12}, "span": {"3": 0.5}}))
    spent = {"budget": 8.0, "delta": 1e-5, "of": "the sums", "beside": "", "clients": {"3": {"epsilon": 1.234}}}
    (folder / "privacy.json").write_text(json.dumps({"client": spent | {"epsilon_worst": 1.234, "epsilon_mean": 1.2}}))
    return folder


def test_one_client_has_what_depends_on_it_alone(folder):
    run = load(folder)
    of = run.client(3)
    assert [(one.to, one.about, one.rounds, one.times) for one in of.told] == [
        ("server", (4, 12), (1, 2), 2),
        ("clients of its cluster", (4, 4), (2,), 1),
        ("other clients, each its own", (3, 3), (3,), 1),
    ]
    assert of.smallest_sum == 2  # the one that client 2 was told is over the other two
    assert run.client(2).smallest_sum == 2
    assert run.client(5).smallest_sum == 12
    assert (of.meters, of.epsilon, run.client(5).epsilon) == ({"leverage": 0.25, "span": 0.5}, {"client": 1.234}, {})
    assert len(of.disclosures) == 4
    rows = dict(of.rows)
    assert rows["smallest sum with it"].startswith("over 2 clients, in round 3")
    assert "as in a group of 4" in rows["taking part"]
    assert rows["epsilon"].startswith("1.24 for it, at delta")
    assert "nothing of it" not in str(of)
    assert dict(run.client(5).rows)["epsilon"].startswith("none")
    spent = {"epsilon_client": 1.234, "delta_client": 1e-5}
    assert run.by_client[3] == run.by_client[3] | {"client": 3, "smallest_sum": 2, "leverage": 0.25} | spent
    assert "epsilon, any client, at delta 1e-05</th>" in write_report(folder).read_text()
    assert run.by_client[4]["leverage"] is None


def test_a_question_that_it_did_not_answer_tells_nothing(folder):
    """A revoked client's page said that the server had learned cosines in rounds in which it was not there."""
    asked = [(7, "server", "gram(edge)", [3, 4], "noisy cosines"), (7, "server", "sketches", [3, 4], "a sketch of each")]
    more = [entry | {"scalars": 0, "bytes": 0} for entry in answers(*asked)]
    known = [json.loads(line) for line in (folder / "disclosure.jsonl").read_text().splitlines()]
    write_lines(folder / "disclosure.jsonl", [*known, *more])
    assert not any("cosines" in one.words or "sketch" in one.words for one in load(folder).client(3).told)
    write_lines(folder / "disclosure.jsonl", [*known, *answers(*asked)])
    assert sum("cosines" in one.words for one in load(folder).client(3).told) == 1


def test_rounds_in_which_it_was_rejected_alike_are_one_row(folder):
    summary = json.loads((folder / "summary.json").read_text())
    turned = [{"round": t, "client": 3, "reason": why} for t, why in ((2, "no key"), (3, "no key"), (4, "no key"), (6, "NaN"))]
    (folder / "summary.json").write_text(json.dumps(summary | {"rejected": turned}))
    said = [words for name, words in load(folder).client(3).rows if name == "rejected"]
    assert said == ["in rounds 2 to 4: no key", "in round 6: NaN"]


def test_one_that_was_revoked_predicts_with_no_model_and_is_in_no_cluster_any_more(folder):
    assert dict(load(folder).client(3).rows)["predicts with"].startswith("the model of cluster")
    played = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    write_lines(folder / "metrics.jsonl", [line | {"round": k} for k, line in enumerate(played)])
    write_lines(folder / "presence.jsonl", [{"round": 5, "away": [3], "revoked": [3]}])
    rows = dict(load(folder).client(3).rows)
    assert rows["predicts with"].startswith("no model of this run: it was not there to be handed one")
    assert re.search(r"in rounds? (\d to )?5$", rows["at each round's end it was in"]), rows["at each round's end it was in"]
    assert dict(load(folder).client(5).rows)["predicts with"].startswith("the model of cluster")


def test_one_that_was_away_at_the_end_predicts_with_no_model(folder):
    (folder / "link.json").write_text(json.dumps({"without_model": [3]}))
    assert dict(load(folder).client(3).rows)["predicts with"].startswith("no model of this run: it was not there")
    (folder / "summary.json").write_text(json.dumps(json.loads((folder / "summary.json").read_text()) | {"apart": [3]}))
    assert dict(load(folder).client(3).rows)["predicts with"] == "no model of this run: it was in no cluster"
    assert dict(load(folder).client(5).rows)["predicts with"].startswith("the model of cluster")


def test_a_client_goes_by_its_name_and_one_that_is_none_is_refused(folder):
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps(summary | {"names": {str(i): f"ward-{i}" for i in range(12)}}))
    run = load(folder)
    assert run.client("ward-3").rows == run.client(3).rows
    with pytest.raises(ValueError, match=r"no client 99 in .*; its clients: 0 to 11$"):
        run.client(99)
    with pytest.raises(ValueError, match=r"did you mean 'ward-3'"):
        run.client("wrd-3")


def test_the_command_says_it_and_refuses_other_folders(folder, tmp_path):
    from cloister.cli import app

    said = CliRunner().invoke(app, ["report", str(folder), "--client", "3"], env={"COLUMNS": "160"})
    assert said.exit_code == 0
    assert "the server learned" in said.output
    assert "over 2 clients, in round 3" in said.output
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "join.jsonl").write_text("{}\n")
    refused = CliRunner().invoke(app, ["report", str(tmp_path / "own"), "--client", "3"])
    assert refused.exit_code != 0
    assert not (tmp_path / "own" / "report.html").exists()


def test_the_page_has_a_row_for_each(folder):
    text = load(folder).report.read_text()
    assert "Client by client" in text
    assert f"cloister report {folder} --client 0" in text


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("protection", [Masked(floor=2), Plain()])
def test_a_run_leaves_the_meters_of_every_client(tmp_path, protection):
    run = cloister.run(replace(SMALL, protection=protection), tmp_path / "run", quiet=True)
    exposed, account = json.loads((run.folder / "exposure.json").read_text()), run.summary.get("account")
    if account is None:
        assert exposed == {}
        assert "the server saw the update itself" in str(run.client(0))
        return
    for meter, of in exposed.items():
        assert max(of.values(), default=0.0) == account[meter]["largest"]
    assert exposed.keys() == {"leverage", "information", "span", "temporal"}
    assert run.client(0).meters["leverage"] == exposed["leverage"]["0"]
    assert [row["client"] for row in run.by_client] == [0, 1, 2, 3]
