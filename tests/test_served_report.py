"""What the report of a served run has of a simulation's, what it has not and says why, and what each client's own record says."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from cloister.fl.meters.record import lines, read, said
from cloister.fl.meters.watch import Watch
from cloister.protocol import Masked
from cloister.protocol.links.terms import grpc_or_words
from cloister.protocol.view.account import Opened
from cloister.reporting.account_words import account_meters, account_notes
from cloister.reporting.own_presence import absences, outcome, rounds_of
from cloister.reporting.own_record import received
from cloister.reporting.report import write_report
from cloister.rerunning import play_again

from .served import SMALL, played, simulated

grpc_or_words()


@pytest.mark.trains
@pytest.mark.long
def test_a_served_run_has_the_participation_of_its_simulation_and_no_recipe(tmp_path):
    scenario = replace(SMALL, protection=Masked(floor=2))
    found, expected = played(scenario, tmp_path), simulated(scenario, tmp_path)
    mine, theirs = found.summary["account"], expected.summary["account"]
    for meter in ("leverage", "sums", "opened_by", "grams"):
        assert mine[meter] == theirs[meter]
    assert mine["span"] is mine["temporal"] is None
    assert mine["elsewhere"]
    assert theirs["span"] is not None
    assert found.read("account.jsonl") == expected.read("account.jsonl")
    origin = json.loads((found.folder / "origin.json").read_text())
    assert origin["served"]
    assert "data_sha256" not in origin
    text = write_report(found.folder).read_text()
    assert found.summary["names"] == {str(i): f"client-{i}" for i in range(4)}  # and not as the coordinator's own table
    assert "names" not in expected.summary
    assert "cloister rerun" not in text
    assert "cloister run SCENARIO" not in text
    assert "cannot be repeated from here" in text
    assert "are measured on the updates themselves" in text
    assert "cannot be repeated from here" not in write_report(expected.folder).read_text()
    with pytest.raises(ValueError, match="was served: its clients trained on data that stayed with them"):
        play_again(found.folder, None, None)
    (found.folder / "summary.json").rename(found.folder / "summary")  # as of a run that is not over: --resume is not serve's
    with pytest.raises(ValueError, match="was served"):
        play_again(found.folder, None, None)
    (found.folder / "summary").rename(found.folder / "summary.json")
    (found.folder / "origin.json").unlink()  # as of a run of before
    assert "cloister run SCENARIO" not in write_report(found.folder).read_text()

    record = found.record(2)
    assert [(of.first, of.last, of.words) for of in rounds_of(record)] == [(0, 1, "its update went into the protocol")]
    assert absences(record) == []
    assert outcome(record, "it") == "Took part to the end of it."
    got = {row.kind: row.times for row in received(record)}
    assert (got["Task"], got["final"]) == (2, 1)
    models = [line["received"]["what"] for line in record if line.get("received", {}).get("model")]
    assert models.count("Task") >= 1  # the coordinator has the model, and sends it
    assert models[-1] == "final"


def test_what_the_coordinator_does_not_know_is_assumed_and_said():
    watch = Watch(lambda jobs: iter(()), 3, (0, 1, 2))
    watch.here = False
    opened = [
        Opened(0, "0", "update", {0: 1.0, 1: 1.0, 2: 1.0}, True),
        Opened(0, "0/1", "slots", {0: 1.0, 1: 1.0, 2: 1.0}, slot=1),
    ]
    _, known = watch.close([], opened)
    assert known == [Opened(0, "0", "update", {0: 1.0, 1: 1.0, 2: 1.0})]
    assert (watch.alike, watch.hidden) == (True, True)
    again = Watch(lambda jobs: iter(()), 3, (0, 1, 2))
    again.here = False
    again.restore(watch.save(), *read(lines([], known)))
    assert (again.alike, again.hidden, again.opened) == (True, True, known)
    assert all(isinstance(array, np.ndarray) for array in watch.save().values())
    account = {"elsewhere": True, "transformed": False, "alike": True, "hidden": True, "leverage": {"largest": 1.0, "mean": 0.5}}
    notes = " ".join(account_notes(account))
    assert "all count alike here" in notes
    assert "Sums of slots are left out" in notes
    assert "transformed by a secret" not in notes
    assert [meter.label for meter in account_meters(account)] == ["taking part", "taking part, told apart"]


@pytest.mark.parametrize("scalars", [(), (5,)])
def test_a_server_that_was_shown_no_update_holds_none(scalars):
    """Before: "The server holds every update, transformed", of a run in which nobody answered."""
    watch = Watch(lambda jobs: iter(()), 3, (0, 1))
    watch.here = False
    record = SimpleNamespace(with_a_client="", ledgers={}, holds_transformed=True)
    log = [{"round": 0, "recipient": "server", "what": "sums", "about": [0], "scalars": n, "words": "of each"} for n in scalars]
    account = said(watch, SimpleNamespace(record=record), log)
    assert ("The server holds every update" in " ".join(account_notes(account))) == bool(scalars)
