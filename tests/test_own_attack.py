"""Somebody's own attack in an audit: a function of what was seen, scored like ours, and never shown what is true."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from cloister.auditing.audited import audited
from cloister.auditing.new_audit import BUDGETS
from cloister.cli import app
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.given import from_csv
from cloister.fl.data.natural import Natural
from cloister.fl.data.partition import Dirichlet, Iid
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked, Plain
from cloister.protocol.core.session import DEALER
from cloister.threat_models.audit.attack import Attack
from cloister.threat_models.audit.experiment import QUICK, Evidence
from cloister.threat_models.audit.labels import LabelInference
from cloister.threat_models.audit.membership import start_of
from cloister.threat_models.audit.observer import SERVER_ALONE, Observer
from cloister.threat_models.audit.own_run import HeldOut
from cloister.threat_models.audit.recording import load as load_recorded
from cloister.threat_models.audit.recording import save
from cloister.threat_models.audit.recovery import UpdateRecovery
from cloister.threat_models.audit.stage import Stage, stages
from cloister.threat_models.audit.table import rows
from cloister.threat_models.audit.view import CorruptView
from cloister.threat_models.inference.record_membership import loss_scores

from .example_files import load
from .test_given_data import hospitals

pytestmark = pytest.mark.trains
SPEND = replace(QUICK, victims=3, records=20)
scenario = Scenario(
    name="small",
    data=Digits(),
    partition=Dirichlet(6, 0.3),
    model=Mlp(hidden=(16,)),
    training=Training(epochs=2, batch=20, lr=0.1),
    algorithm=FedAvg(by_samples=False),
    protection=Masked(),
    rounds=2,
)


@cache
def played() -> Stage:
    return next(one for one in stages(scenario, [0], None) if isinstance(one, Stage))


def estimated(evidence: Evidence, client: int) -> dict[int, np.ndarray]:
    return {t: e.vector for (t, kind, i), e in evidence.estimated(evidence.view).items() if (kind, i) == ("update", client)}


def updates(evidence, client, records, rng):
    assert records is None
    return estimated(evidence, client)


def every_label(evidence, client, records, rng):
    return np.ones(10)


def scores(evidence, client, records, rng):
    vectors = estimated(evidence, client)
    pairs = [(start_of(evidence.view, t, client), v.astype(np.float32)) for t, v in vectors.items()]
    pairs = [(start, v) for start, v in pairs if start is not None]
    return loss_scores(evidence.view.public.module, pairs, records) if pairs else np.zeros(len(records))


def nothing_seen(evidence, client, records, rng):
    return np.zeros((0, 1, 8, 8))


def row_of(attack):
    return next(iter(rows([played()], [SERVER_ALONE], [attack], (), SPEND)))


def test_an_attack_of_ones_own_on_updates_scores_as_ours():
    ours = row_of(UpdateRecovery()).leakage
    theirs = row_of(Attack("mine", updates, "updates")).leakage
    assert theirs == ours
    assert theirs.valid
    assert theirs.value < 0.1
    assert theirs.plain > 0.99


@pytest.mark.long
def test_scores_of_records_are_valid_in_clear_and_not_under_masks():
    few = replace(scenario, partition=Iid(40), training=Training(epochs=15, batch=8, lr=0.1), rounds=1)
    learned = [one for one in stages(few, [0], None) if isinstance(one, Stage)]
    leak = next(iter(rows(learned, [SERVER_ALONE], [Attack("mine", scores, "records")], (), QUICK))).leakage
    assert leak.plain > leak.aggregate + 0.1
    assert leak.here < leak.plain - 0.1


@pytest.mark.long
def test_scores_at_random_are_no_leak_where_the_attack_works_in_clear():
    """Cut off at 0 they had a mean above 0, and the other end, of an attack that says zeros there, none."""
    truth, view = played().audited.truth, played().evidence(SERVER_ALONE)

    def by_coin(evidence, client, records, rng):
        return rng.random(len(records))

    mine = Attack("mine", by_coin, "records")
    values = np.concatenate([mine(view, truth, replace(SPEND, victims=9), np.random.default_rng(k)).values for k in range(40)])
    assert values.min() < 0 < values.max()
    assert abs(values.mean()) < 3 * values.std() / len(values) ** 0.5


def test_names_of_clients_are_kept_with_a_run(tmp_path):
    """An audit that goes on told of clients by their numbers alone."""
    run = played().audited
    named = replace(run, truth=replace(run.truth, population=replace(run.truth.population, names={0: "clinic 00"})))
    save(named, tmp_path / "kept")
    assert load_recorded(tmp_path / "kept", played().scenario).truth.population.names == {0: "clinic 00"}


def test_the_order_of_records_tells_nothing():
    def by_place(evidence, client, records, rng):
        return -np.arange(len(records), dtype=float)

    found = row_of(Attack("mine", by_place, "records")).told[0].area
    assert found.low < 0.5 < found.high


def test_an_attack_that_writes_into_what_it_is_given_spoils_nothing_for_those_after_it():
    def careless(evidence, client, records, rng):
        evidence.view.public.auxiliary.x.mul_(0)
        next(evidence.view.public.module.parameters()).data.zero_()
        evidence.known.population.clients[0].train.y.numpy()[:] = 3
        evidence.lessons.clear()
        return np.ones(10)

    before = row_of(UpdateRecovery()), row_of(LabelInference())
    row_of(Attack("careless", careless, "labels"))
    after = row_of(UpdateRecovery()), row_of(LabelInference())
    assert [r.leakage for r in after] == [r.leakage for r in before]
    x = played().evidence(SERVER_ALONE).view.public.auxiliary.x
    assert x.abs().sum() > 0

    def rude(evidence, client, records, rng):
        evidence.prior[:] = 0

    with pytest.raises(ValueError, match="read-only"):
        Attack("rude", rude, "labels")(played().evidence(SERVER_ALONE), played().audited.truth, SPEND, np.random.default_rng(0))


def test_a_round_that_an_attack_plays_again_is_seen_as_its_observer_sees_it():
    seen = []

    def plays_again(evidence, client, records, rng):
        seen.append(None if evidence.replay is None else evidence.replay(lambda frame: (frame,)))
        return np.ones(10)

    evidence = played().evidence(SERVER_ALONE)
    Attack("again", plays_again, "labels")(evidence, played().audited.truth, SPEND, np.random.default_rng(0))
    assert all(isinstance(view, CorruptView) and view.observer == SERVER_ALONE for view in seen)
    assert seen
    assert not any(view.held for view in seen)
    assert all(view.sums for view in seen)


@pytest.mark.long
def test_labels_and_images_that_say_nothing_are_worth_what_everybody_knows():
    labels = row_of(Attack("mine", every_label, "labels")).leakage
    assert labels.here == labels.plain == labels.aggregate
    assert 0 < labels.here < 1
    images = row_of(Attack("mine", nothing_seen, "images")).leakage
    assert images.here == images.plain == images.aggregate == 0


def misled_by_sums(evidence, client, records, rng):
    """Right in clear, worse by sums than by nothing at all."""
    if isinstance(evidence.view.public.protection, Plain):
        return np.bincount(played().clear.truth.population.clients[client].train.y, minlength=10)
    return np.eye(10)[0] if evidence.view.sums else np.ones(10)


def takes_sums(evidence, client, records, rng):
    return np.abs(evidence.view.sums[0].mean[:10]) + 1


def test_who_saw_nothing_does_not_find_more_than_an_attack_that_sums_mislead():
    """Before: the first words of an audit said that a second server, which sees nothing, could tell a quarter."""
    nobody, attack = Observer(servers=frozenset({DEALER})), Attack("mine", misled_by_sums, "labels")
    (with_sums, without) = rows([played()], [SERVER_ALONE, nobody], [attack], (), SPEND, ["mine"])
    assert with_sums.leakage.aggregate == without.leakage.here > with_sums.leakage.here
    assert without.leakage.value == pytest.approx(0)
    (row,) = rows([played()], [SERVER_ALONE], [Attack("mine", takes_sums, "labels")], (), SPEND, ["mine"])
    assert not row.failed  # what takes sums to guess by is scored as before


@pytest.mark.parametrize(
    ("sought", "guess"),
    [
        ("labels", np.ones(9)),
        ("labels", np.full(10, np.nan)),
        ("labels", -np.ones(10)),
        ("labels", np.zeros(10)),
        ("records", np.ones(3)),
        ("images", np.ones((2, 3, 8, 8))),
        ("updates", {0: [np.inf]}),
    ],
    ids=["classes", "not finite", "negative", "all 0", "records", "channels", "infinite"],
)
def test_a_guess_of_another_shape_is_refused_by_the_attacks_name(sought, guess):
    with pytest.raises(ValueError, match="mine: "):
        row_of(Attack("mine", lambda *_: guess, sought))


def test_what_no_attack_can_seek_and_names_that_are_taken():
    with pytest.raises(ValueError, match="seeks one of updates, labels, images, records, not 'secrets'"):
        Attack("mine", updates, "secrets")
    with pytest.raises(ValueError, match="two experiments are called 'labels'"):
        audited(scenario, SPEND, (0,), None, quiet=True, further=(Attack("labels", every_label, "labels"),))


FILE = """
import numpy as np
from cloister.threat_models.audit.attack import Attack
attack = Attack("mine from a file", lambda evidence, client, records, rng: np.ones(10), "labels")
other = Attack("another", lambda evidence, client, records, rng: np.arange(10.0), "labels")
"""


@pytest.mark.long
def test_attacks_from_files_are_rows_of_the_command(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(FILE)
    (tmp_path / "small.py").write_text(f"from {__name__} import scenario\n")
    monkeypatch.setattr("cloister.auditing.audited.EXPERIMENTS", (UpdateRecovery(),))
    monkeypatch.setitem(BUDGETS, "quick", SPEND)
    chosen = [f"--attack={tmp_path / 'mine.py'}", f"--attack={tmp_path / 'mine.py'}:other"]
    asked = ["audit", str(tmp_path / "small.py"), *chosen, "--seeds", "0", "--json", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    found = {row["experiment"] for row in json.loads(done.stdout)["rows"]}
    assert {"mine from a file", "another", "updates"} <= found
    assert "mine from a file" in (tmp_path / "out" / "report.html").read_text()


def test_a_file_without_an_attack_says_what_it_has(tmp_path):
    (tmp_path / "mine.py").write_text(FILE)
    done = CliRunner().invoke(app, ["audit", "examples/quickstart.py", f"--attack={tmp_path / 'mine.py'}:third"])
    assert done.exit_code != 0
    assert "no attack named 'third'" in str(done.exception)
    assert "attack, other" in str(done.exception)


def test_the_attack_of_a_published_tool_tells_more_in_clear_than_of_sums():
    pytest.importorskip("art")
    tool = load("audit_with_art")
    found = audited(tool.scenario, SPEND, (0,), None, quiet=True, against=(SERVER_ALONE,), further=(tool.attack,))
    told = next(row for row in found["rows"] if row["experiment"] == tool.attack.name)["told"]
    assert told["everything"]["area"]["value"] > max(told["sums alone"]["area"]["value"], 0.5)


@pytest.mark.parametrize(
    ("guess", "words"),
    [
        (lambda evidence, client, records, rng: {0: np.zeros(evidence.view.public.initial.size + 1)}, "finite numbers of shape"),
        (lambda evidence, client, records, rng: {2: evidence.view.public.initial}, "is by round, from 0 to 1, not"),
        (lambda evidence, client, records, rng: 3, "is by round, from 0 to 1, not 3"),
        (lambda evidence, client, records, rng: {0: "text"}, "a guess of updates is numbers"),
    ],
)
def test_updates_of_another_shape_or_round_are_refused_in_words(guess, words):
    with pytest.raises(ValueError, match=words):
        list(rows([played()], [SERVER_ALONE], [Attack("mine", guess, "updates")], (), SPEND))


def test_a_label_without_public_examples_is_the_reason_of_one_row_and_ends_no_audit():
    evidence = played().evidence(SERVER_ALONE)
    assert LabelInference().applies(evidence) == ""
    public = evidence.view.public
    rare = replace(public, auxiliary=public.auxiliary.take(torch.nonzero((public.auxiliary.y % 9) > 0).flatten()))
    seen = replace(evidence, view=replace(evidence.view, public=rare))
    assert LabelInference().applies(seen) == "public data have no example of label 0, 9"


def test_an_experiment_of_ours_that_fails_ends_the_audit():
    """It is no row that nobody reads: what is broken is to be seen."""

    class Broken(UpdateRecovery):
        def __call__(self, evidence, truth, budget, rng, /):
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        list(rows([played()], [SERVER_ALONE], [Broken()], (), SPEND))


@pytest.mark.long
def test_clients_of_the_attackers_own_have_nothing_that_clients_of_the_run_trained_on(tmp_path):
    own = replace(
        scenario,
        data=from_csv(hospitals(tmp_path / "h", 6)),
        partition=Natural(),
        model=nn.Sequential(nn.BatchNorm1d(6, track_running_stats=False), nn.Linear(6, 3)),
        training=Training(epochs=1, batch=30, lr=0.1),
    )
    stage = next(one for one in stages(own, [0], None) if isinstance(one, Stage))
    mine, theirs = (
        {tuple(row) for c in recorded.truth.population.clients.values() for row in c.train.x.tolist()}
        for recorded in (stage.audited, stage.shadow)
    )
    assert theirs
    assert not mine & theirs
    found = audited(own, SPEND, (0,), None, quiet=True, against=(SERVER_ALONE,))
    reasons = {row["experiment"]: row["reason"] for row in found["rows"]}
    assert reasons["membership"] == reasons["updates"] == ""


def test_no_client_of_the_attackers_own_has_a_batch_of_one_record(tmp_path):
    """A `BatchNorm` takes no record alone; what the files hold out is dealt whatever becomes of batches."""
    source = from_csv(hospitals(tmp_path / "h", 6, rows=40))(None)
    for batch in (2, 3, 5):
        for seed in range(3):
            clients = HeldOut(batch)(source, np.random.default_rng(seed)).clients.values()
            assert all(len(client.train) > 1 and len(client.train) % batch != 1 for client in clients)


def test_an_attack_on_records_is_played_as_the_page_shows():
    """It is handed labelled examples, and scores them by the model that the client ended up with."""
    blocks = (Path(__file__).parents[1] / "docs/how-to/my-attack.md").read_text().split("```python\n")[1:]
    page: dict[str, Any] = {}
    for block in blocks[:2]:
        exec(block.partition("```")[0], page)  # noqa: S102
    (row,) = rows([played()], [SERVER_ALONE], [page["members"]], (), SPEND, ["loss of the final model"])
    assert not row.failed, row.reason
    assert row.leakage is not None
    assert np.isfinite(row.findings[0].members).all()
