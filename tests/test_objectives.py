"""Losses, optimizers and metrics of one's own choice: the same by every way to train, and refused in words where unfit."""

import csv
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn import metrics as known
from torch import nn
from torch.nn import functional

import cloister
from cloister import Scenario, Training, algorithms, attacks, data, models, partitions, protections
from cloister.fl.clients import measures
from cloister.fl.clients.dp_sgd import one_by_one, train_privately, vectorised
from cloister.fl.clients.fast import Fast
from cloister.fl.clients.losses import losses
from cloister.fl.clients.record_privacy import RecordPrivacy
from cloister.fl.clients.training import Job, PlainLoop, full_gradient, mean_loss, train_one
from cloister.fl.cost.workload import workload_of
from cloister.fl.data.population import Examples
from cloister.fl.models.vector import load_vector, to_vector
from cloister.fl.runs.objective_check import loss_doubts
from cloister.protocol.core.errors import Refused
from cloister.scenario_file import with_settings
from cloister.threat_models.audit.experiment import QUICK

PRIVACY = RecordPrivacy(clip=1.0, multiplier=2.0, records=20, delta=1e-5, budget=50.0)


def sampled(kind, n=20, seed=0):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 6, generator=rng)
    y = {"numbers": x[:, 0] - 2 * x[:, 1], "labels": (x[:, 0] > 0).long(), "three": (x[:, :3]).argmax(1)}[kind]
    return Examples(x, y)


def net(outputs, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, outputs))


def job(module, examples, client=0, **more):
    return Job(client, to_vector(module), examples, 7 + client, **more)


def pinball(outputs, y):
    """The loss of the .9 quantile, as somebody may write it."""
    apart = y - outputs[:, 0]
    return torch.maximum(0.9 * apart, -0.1 * apart)


WAYS = {
    "mean squared error, SGD": ("numbers", 1, {"loss": "mean squared error", "momentum": 0.5}),
    "mean absolute error, AdamW": ("numbers", 1, {"loss": "mean absolute error", "optimizer": "AdamW", "weight_decay": 0.1}),
    "Huber, Adam": ("numbers", 1, {"loss": "Huber", "optimizer": "Adam", "prox": 0.1}),
    "binary": ("labels", 1, {"loss": "binary cross entropy"}),
    "cross entropy, Adam": ("three", 3, {"optimizer": "Adam"}),
    "one's own": ("numbers", 1, {"loss": pinball, "optimizer": lambda p, lr: torch.optim.RMSprop(p, lr)}),
}


# --- losses -------------------------------------------------------------------------------------------------------------------


def test_losses_are_the_ones_that_they_are_called():
    y, out = torch.tensor([1.0, -2.0]), torch.tensor([[3.0], [-2.5]])
    assert losses(out, y, "mean squared error").tolist() == [4.0, 0.25]
    assert losses(out, y, "mean absolute error").tolist() == [2.0, 0.5]
    assert losses(out, y, "Huber").tolist() == [1.5, 0.125]
    labels = torch.tensor([1, 0])
    expected = [math.log1p(math.exp(-3)), math.log1p(math.exp(-2.5))]
    assert losses(out, labels, "binary cross entropy").tolist() == pytest.approx(expected, abs=1e-6)
    assert mean_loss(out, y, loss="mean squared error") == 2.125
    assert mean_loss(out, torch.tensor([-1.0, -1.0]), loss="mean absolute error") == pytest.approx(2.75)  # -1 is a number here
    assert mean_loss(out, y, torch.tensor([2.0, 0.0]), "mean squared error") == 4.0  # weights


def test_cross_entropy_is_what_it_was():
    logits, y = torch.randn(4, 5, 3), torch.tensor([[0, 1, 2, -1, -1]] * 4)
    ours = mean_loss(logits, y)
    assert torch.equal(ours, functional.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-1, reduction="sum") / 12)
    each = losses(logits, y)
    assert each.shape == y.shape
    assert each.sum() / 12 == pytest.approx(float(ours))


@pytest.mark.parametrize("wrong", [lambda o, y: functional.mse_loss(o[:, 0], y), lambda o, y: 1.0])
def test_a_loss_of_a_batch_is_refused_with_the_remedy(wrong):
    module = net(1)
    words = r"training.loss, <lambda> \(test_objectives.py, line \d+\), gives .* for 5 records; .* reduction='none'"
    with pytest.raises(ValueError, match=words):
        train_one(module, job(module, sampled("numbers", 5)), Training(epochs=1, batch=5, lr=0.1, loss=wrong), 0)


def blind(outputs, y):
    return outputs.pow(2).mean(1)


@pytest.mark.parametrize("kind", ["numbers", "three"])
def test_a_loss_that_does_not_look_at_its_targets_is_noticed(kind):
    def said(loss, outputs=3):
        return loss_doubts(Training(epochs=1, batch=5, lr=0.1, loss=loss), net(outputs), sampled(kind), 3)

    (line,) = said(blind)
    assert re.match(r"training.loss, blind \(test_objectives.py, line \d+\), gives the same for other targets: ", line)
    assert said(pinball, 1) == said("Huber") == []
    assert said(nn.CrossEntropyLoss(reduction="none") if kind == "three" else pinball) == []


# --- every way to train -------------------------------------------------------------------------------------------------------


@pytest.mark.trains
@pytest.mark.parametrize("way", WAYS)
def test_the_fast_way_is_the_plain_one(way):
    kind, outputs, fields = WAYS[way]
    module, training = net(outputs), Training(epochs=2, batch=6, lr=0.01, **fields)
    jobs = [job(module, sampled(kind, 14 + k, k), k) for k in range(3)]
    plain, fast = dict(PlainLoop()(module, jobs, training, 0)), dict(Fast()(module, jobs, training, 0))
    for client, update in plain.items():
        assert np.abs(update).max() > 1e-3
        np.testing.assert_allclose(fast[client], update, atol=2e-5)


@pytest.mark.trains
def test_adam_takes_the_steps_of_adam_and_begins_anew_each_round():
    module, training = net(1), Training(epochs=1, batch=20, lr=0.01, loss="mean squared error", optimizer="Adam")
    of = job(module, sampled("numbers"))
    found = train_one(module, of, training, 0)
    gradient = full_gradient(module, of, "mean squared error")
    expected = -0.01 * gradient / (np.abs(gradient) + 1e-8)  # Adam's first step, by hand
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert np.array_equal(found, train_one(module, of, training, 0))


@pytest.mark.trains
def test_the_full_gradient_is_of_the_loss():
    module, of = net(1), sampled("numbers")
    found = full_gradient(module, job(module, of), "mean squared error")
    local = net(1, seed=1)
    load_vector(local, to_vector(module))
    functional.mse_loss(local(of.x)[:, 0], of.y).backward()
    np.testing.assert_allclose(found, np.concatenate([p.grad.numpy().ravel() for p in local.parameters()]), atol=1e-5)


# --- differential privacy -----------------------------------------------------------------------------------------------------


@pytest.mark.trains
@pytest.mark.parametrize("way", ["mean squared error, SGD", "Huber, Adam", "binary", "one's own"])
def test_records_are_clipped_one_by_one_whatever_the_loss(way):
    kind, outputs, fields = WAYS[way]
    module, of, loss = net(outputs), sampled(kind), fields["loss"]
    index = torch.arange(20)
    alone, together = (summed(module, job(module, of), index, 0.3, loss) for summed in (one_by_one, vectorised))
    np.testing.assert_allclose(alone, together, atol=1e-6)
    single = [one_by_one(module, job(module, of), torch.tensor([k]), 1e9, loss).norm() for k in range(20)]
    assert float(alone.norm()) <= sum(min(0.3, float(n)) for n in single) + 1e-6
    assert max(single) > 0.3


@pytest.mark.trains
def test_adam_on_noisy_gradients_spends_what_sgd_spends():
    """It works on what is noisy already: samples, clips and noise are the same draws."""
    module, of = net(1), sampled("numbers")
    sgd = Training(epochs=2, batch=10, lr=0.01, loss="mean squared error", privacy=PRIVACY)
    adam = replace(sgd, optimizer="Adam")
    given = job(module, of, secret=bytes(32))
    one, two = train_privately(module, given, sgd, 0), train_privately(module, given, adam, 0)
    assert not np.array_equal(one, two)
    assert np.abs(two).max() <= 0.01 * 4 * 10  # steps of Adam's length
    ((_, fast),) = Fast()(module, [given], adam, 0)
    np.testing.assert_allclose(fast, two, atol=1e-5)


@pytest.mark.trains
@pytest.mark.long
def test_the_ledgers_of_adam_and_sgd_are_one(tmp_path):
    folder = clinics(tmp_path / "csv", clients=4, records=25)
    spent = []
    for optimizer in ("SGD", "Adam"):
        training = Training(epochs=1, batch=10, lr=0.01, loss="mean squared error", optimizer=optimizer, privacy=PRIVACY)
        scenario = regression(folder, training=training, algorithm=algorithms.FedAvg(by_samples=False), rounds=2)
        spent.append(cloister.run(scenario, tmp_path / optimizer, quiet=True).summary["privacy"])
    assert spent[0] == spent[1]
    assert 0 < spent[0]["record"]["epsilon_worst"] < 50


# --- metrics ------------------------------------------------------------------------------------------------------------------


def test_metrics_are_those_of_the_literature():
    rng = np.random.default_rng(0)
    outputs, y = rng.normal(size=(60, 3)).astype(np.float32), rng.integers(0, 3, 60)
    guess = outputs.argmax(1)
    assert measures.balanced_accuracy(outputs, y) == pytest.approx(known.balanced_accuracy_score(y, guess))
    assert measures.macro_f1(outputs, y) == pytest.approx(known.f1_score(y, guess, average="macro"))
    shares = torch.softmax(torch.from_numpy(outputs).double(), 1).numpy()
    assert measures.auc(outputs, y) == pytest.approx(known.roc_auc_score(y, shares, multi_class="ovr"))
    numbers = rng.normal(size=60).astype(np.float32)
    out = outputs[:, :1]
    assert measures.r2(out, numbers) == pytest.approx(known.r2_score(numbers, out[:, 0]), abs=1e-6)
    assert measures.mse(out, numbers) == pytest.approx(known.mean_squared_error(numbers, out[:, 0]), abs=1e-6)
    assert measures.mae(out, numbers) == pytest.approx(known.mean_absolute_error(numbers, out[:, 0]), abs=1e-6)
    one = rng.integers(0, 2, 60)
    assert measures.auc(out, one) == pytest.approx(known.roc_auc_score(one, out[:, 0]))
    assert measures.balanced_accuracy(out, one) == pytest.approx(known.balanced_accuracy_score(one, out[:, 0] > 0))
    assert math.isnan(measures.auc(outputs, np.zeros(60, np.int64)))
    assert math.isnan(measures.r2(out, np.ones(60, np.float32)))


def test_what_is_no_loss_optimizer_or_metric_is_said():
    for fields, words in (
        ({"loss": "cros entropy"}, "no loss 'cros entropy'; did you mean 'cross entropy'; there are"),
        ({"loss": 3}, "loss is a name or a function"),
        ({"loss": nn.MSELoss}, r"loss is the class MSELoss itself; make one of it: MSELoss\(reduction='none'\)"),
        ({"loss": lambda outputs: 1}, r"loss, <lambda> \(test_objectives.py, line \d+\), .*: it takes outputs, and is called"),
        ({"optimizer": "Adm"}, "optimizer is SGD, Adam, AdamW or a function .*, not 'Adm'; did you mean 'Adam'$"),
        ({"optimizer": "adamw"}, "not 'adamw'; did you mean 'AdamW'$"),
        ({"optimizer": "Adam", "momentum": 0.9}, "momentum is of SGD, and Adam has its own"),
        ({"optimizer": lambda p, lr: None, "weight_decay": 0.1}, "give it its weight decay there"),
        ({"metrics": ("F1",)}, "no metric 'F1'; did you mean 'macro F1'"),
        ({"metrics": ("AUC", "AUC")}, "two metrics have one name"),
    ):
        with pytest.raises(ValueError, match=words):
            Training(epochs=1, batch=1, lr=0.1, **fields)


# --- runs ---------------------------------------------------------------------------------------------------------------------


def clinics(folder, kinds=2, clients=6, records=60):
    """A CSV file each; in half of them the dose goes with other values."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    ways = rng.normal(size=(kinds, 5))
    for clinic in range(clients):
        x = rng.normal(size=(records, 5))
        with (folder / f"clinic {clinic}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow([*"abcde", "dose"])
            rows.writerows([*map(float, row), float(d)] for row, d in zip(x, x @ ways[clinic % kinds], strict=True))
    return folder


def regression(folder, **fields):
    training = Training(epochs=5, batch=20, lr=0.05, loss="mean squared error")
    given = {"algorithm": algorithms.FedAvg(), "protection": protections.Masked(), "rounds": 6, "model": models.Mlp(hidden=(8,))}
    source = data.from_csv(folder, label="dose", numbers=True)
    return Scenario(**{"name": "doses", "data": source, "training": training, **given, **fields})


METRICS = ("balanced accuracy", "macro F1", "AUC")


def middle(outputs, y):
    """Median absolute error."""
    return float(np.median(np.abs(outputs[:, 0] - y)))


@pytest.mark.trains
@pytest.mark.long
def test_numbers_are_predicted_from_csv_and_said_as_what_they_are(tmp_path):
    scenario = regression(clinics(tmp_path / "csv", kinds=1))
    scenario = replace(scenario, training=replace(scenario.training, metrics=("R2", "MAE", middle)))
    seen = []
    result = cloister.run(scenario, tmp_path / "r", quiet=True, callbacks=seen.append)
    assert result.summary["metric"] == "R2"
    assert result.summary["accuracy_mean"] is None
    assert math.isnan(result.accuracy)
    assert result.summary["metrics"]["R2"]["mean"] > 0.8
    assert seen[-1].accuracy is None
    assert seen[-1].numbers["R2"] == pytest.approx(result.summary["metrics"]["R2"]["mean"])
    last = [row for row in result.metrics if row["round"] == 5]
    assert len(last) == 6
    assert all(row["accuracy"] is None and row["R2"] <= 1 and row["MAE"] >= row["middle"] / 50 for row in last)
    assert result.summary["metrics"]["MAE"]["worst"] == max(row["MAE"] for row in last)
    page = result.report.read_text()
    assert "R2 through the rounds" in page
    assert "mean R2" in page
    assert "accuracy" not in str(result)
    assert "R2 " in str(result)
    assert result.plot().axes[0].get_ylabel().startswith("R2")
    half = cloister.iterate(scenario, tmp_path / "half")
    next(half)
    half.close()
    cloister.load(tmp_path / "half").report  # noqa: B018 - a page of an interrupted run is made too


@pytest.mark.trains
@pytest.mark.long
def test_two_kinds_of_clinics_are_told_apart_by_a_regression(tmp_path):
    folder = clinics(tmp_path / "csv")
    cfl = algorithms.CFL(thresholds=algorithms.ScaleFree(eps1=0.5, eps2=0.1), patience=2)
    found = [cloister.run(regression(folder, algorithm=of, rounds=10), tmp_path / f"{k}", quiet=True).summary
             for k, of in enumerate((algorithms.FedAvg(), cfl))]  # fmt: skip
    assert sorted(found[1]["clusters"]) == [[0, 2, 4], [1, 3, 5]]
    one, two = (of["metrics"]["R2"]["mean"] for of in found)
    assert two > one + 0.2


@pytest.mark.long
@pytest.mark.trains
def test_a_single_output_learns_two_labels_and_metrics_stand_beside_accuracy(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 60, 4)).astype(np.float32)
    clients = {f"c{i}": [(row, int(row[0] > 0.5)) for row in of] for i, of in enumerate(x)}
    scenario = Scenario(
        name="two labels",
        data=data.from_datasets(clients),
        model=nn.Sequential(nn.Linear(4, 1)),
        training=Training(
            epochs=5, batch=10, lr=0.3, loss="binary cross entropy", metrics=("balanced accuracy", "macro F1", "AUC")
        ),
        algorithm=algorithms.FedAvg(),
        protection=protections.Masked(),
        rounds=4,
    )
    result = cloister.run(scenario, tmp_path / "r", quiet=True)
    assert result.accuracy > 0.8
    assert result.summary["metric"] == "accuracy"
    assert result.summary["metrics"]["AUC"]["mean"] > 0.9
    assert all(name in str(result) for name in ("accuracy", "balanced accuracy", "macro F1", "AUC"))
    assert "AUC" in result.report.read_text()
    assert {"AUC", "macro F1"} <= result.metrics[0].keys()


def focal(outputs, targets):
    """Lin et al. 2017, of labels."""
    sure = outputs.softmax(1).gather(1, targets[:, None])[:, 0]
    return (1 - sure) ** 2 * functional.cross_entropy(outputs, targets, reduction="none")


def of_numbers(outputs, targets):
    return (outputs[:, 0] - targets) ** 2


@pytest.mark.trains
@pytest.mark.long
def test_a_loss_of_ones_own_has_attacks_on_uploads_and_data(tmp_path):
    """Before: any adversary was refused, though neither a turned update nor a label that is another looks at the loss."""
    scenario = cloister.Scenario(
        name="focal", data=data.Digits(), partition=partitions.Iid(clients=6, samples=60), model=models.Mlp(hidden=(16,)),
        training=cloister.Training(epochs=2, batch=10, lr=0.3, loss=focal), algorithm=algorithms.FedAvg(),
        protection=protections.Plain(), rounds=6,
    )  # fmt: skip
    clean = cloister.run(scenario, tmp_path / "clean", quiet=True).accuracy
    for name, attack in (("upload", {"upload": attacks.MinusGradient()}), ("data", {"data": attacks.LabelFlip()})):
        attacked = replace(scenario, adversary=attacks.Adversary(members=attacks.Pool(3), **attack))
        assert cloister.run(attacked, tmp_path / name, quiet=True).accuracy < clean - 0.1
    with pytest.raises(Refused, match=r"adversary with GradientAscent train by cross entropy of their own; take training.loss="):
        replace(scenario, adversary=attacks.Adversary(members=attacks.Pool(1), local=attacks.GradientAscent()))
    named = attacks.Adversary(members=attacks.Pool(1), upload=attacks.MinusGradient())
    numbers = regression(clinics(tmp_path / "csv"))
    wrong = replace(numbers, adversary=None, training=replace(numbers.training, loss=of_numbers))
    with pytest.raises(ValueError, match="targets are numbers, and members of an adversary attack what predicts labels"):
        cloister.run(replace(wrong, adversary=named), tmp_path / "r", quiet=True)


def test_what_does_not_fit_is_refused_in_words(tmp_path):
    scenario = regression(clinics(tmp_path / "csv"))
    training = scenario.training
    for fields, words in (
        ({"algorithm": algorithms.IFCA(models=2)}, "clients of IFCA weigh models by cross entropy"),
        ({"algorithm": algorithms.PerFedAvg(alpha=0.1)}, "PerFedAvg makes clients' models by steps on cross entropy"),
        ({"algorithm": algorithms.EMDCFL(), "validation": 0.2}, "EMDCFL compares clients by embeddings or gradients of labels"),
        (
            {"adversary": attacks.Adversary(members=attacks.Pool(1), upload=attacks.MinusGradient())},
            "attack what predicts labels",
        ),
    ):
        with pytest.raises(Refused, match=words):
            replace(scenario, **fields)
    digits = {"data": data.Digits(), "partition": partitions.Iid(clients=4)}
    binary = replace(training, loss="binary cross entropy")
    for fields, words in (
        ({"training": replace(training, loss="cross entropy")}, "targets are numbers, and training.loss is of labels"),
        (digits, r"targets are labels: read them as numbers, for instance by data.from_csv\(..., numbers=True\)"),
        ({"training": replace(training, metrics=("AUC",))}, "AUC is no metric of numbers: take R2, MSE, MAE"),
        ({"model": nn.Linear(5, 3)}, r"the model gives \(4, 3\) for 4 records, where \(4, 1\) is needed"),
        (digits | {"training": binary}, "binary cross entropy is of two labels, and the data have 10"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            cloister.run(replace(scenario, **fields), tmp_path / "r", quiet=True)
    assert not (tmp_path / "r").exists()
    with pytest.raises(ValueError, match="an evaluation is by accuracy"):
        cloister.Evaluation(name="e", scenario=scenario, attacks={"a": lambda s: None}, defences={"d": algorithms.FedAvg()},
                            strengths=(1,))  # fmt: skip
    with pytest.raises(
        ValueError, match="attacks are on labels, with an output for each, and targets are numbers: audit the same"
    ):
        cloister.audit(scenario, tmp_path / "a", budget="quick", quiet=True)
    assert QUICK.seeds == 2


@pytest.mark.parametrize(
    ("row", "words"),
    [("1,2,3,4,5,high", "line 62 .*clinic 0.csv: the label 'dose' has 'high', which is no number"),
     ("1,2,3,4,5,nan", "line 62 .*clinic 0.csv: the label 'dose' has 'nan', which is no finite number")],
)  # fmt: skip
def test_a_label_that_is_no_number_is_said_with_its_line(row, words, tmp_path):
    folder = clinics(tmp_path / "csv")
    with (folder / "clinic 0.csv").open("a") as file:
        file.write(row + "\n")
    with pytest.raises(ValueError, match=words):
        data.from_csv(folder, label="dose", numbers=True)(None)


def test_costs_are_of_the_models_that_are_trained(tmp_path):
    scenario = regression(clinics(tmp_path / "csv"))
    assert workload_of(scenario, None, None, None).parameters == 5 * 8 + 8 + 8 + 1


def test_they_are_set_from_a_command_line(tmp_path):
    scenario = with_settings(
        regression(Path("nowhere")), ["training.loss=Huber", "training.optimizer=Adam", "training.metrics=('MAE',)"]
    )
    assert (scenario.training.loss, scenario.training.optimizer, scenario.training.metrics) == ("Huber", "Adam", ("MAE",))


@pytest.mark.parametrize(
    ("short", "ours"),
    [("mse", "mean squared error"), ("MAE", "mean absolute error"), ("ce", "cross entropy"), ("nll", "cross entropy"),
     ("bce", "binary cross entropy")],
)  # fmt: skip
def test_losses_are_meant_by_their_short_names(short: str, ours: str) -> None:
    with pytest.raises(ValueError, match=f"there is no loss {short!r}; did you mean {ours!r}"):
        Training(epochs=1, batch=10, lr=0.1, loss=short)
