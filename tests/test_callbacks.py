"""What watches a run, and results as tables and files: with stand-ins, and with the real packages where they are installed."""

import csv
import sys
import types
from dataclasses import replace

import pytest

import cloister
from cloister import Scenario, Training, algorithms, callbacks, data, models, partitions, protections
from cloister.fl.runs.experiment import Round
from cloister.tables_out import columns_of, write_rows

small = Scenario(
    name="small",
    data=data.Digits(),
    partition=partitions.Iid(clients=4, samples=20, shared_test=True),
    model=models.Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=10, lr=0.1, metrics=("macro F1",)),
    algorithm=algorithms.FedAvg(),
    protection=protections.Masked(),
    rounds=3,
    evaluate_every=3,
)


@pytest.mark.long
@pytest.mark.trains
def test_watchers_are_told_every_number_of_a_round_and_the_run_is_the_same(tmp_path):
    seen, also = [], []
    watched = cloister.run(small, tmp_path / "a", quiet=True, callbacks=[seen.append, also.append])
    assert seen == also
    assert [done.round for done in seen] == [1, 2, 3]
    always = {"clusters", "bytes_up", "bytes_down", "seconds"}
    assert set(seen[0].numbers) == always
    assert set(seen[-1].numbers) == always | {"accuracy_mean", "accuracy_worst", "loss_mean", "macro F1"}
    assert seen[-1].numbers["macro F1"] == pytest.approx(watched.summary["metrics"]["macro F1"]["mean"])
    assert seen[-1].numbers["accuracy_mean"] == seen[-1].accuracy
    assert cloister.run(small, tmp_path / "b", quiet=True).metrics == watched.metrics


def rounds(count=2):
    return [Round(t, count, 1, 0.5, {"accuracy_mean": t / 10, "clusters": 1.0}) for t in range(1, count + 1)]


def test_events_for_tensorboard_are_written_by_round(monkeypatch):
    written, closed = [], []

    class Writer:
        def __init__(self, folder):
            written.append(folder)

        def add_scalar(self, *given):
            written.append(given)

        def flush(self):
            pass

        def close(self):
            closed.append(True)

    monkeypatch.setitem(sys.modules, "tensorboard", types.SimpleNamespace())
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", types.SimpleNamespace(SummaryWriter=Writer))
    tell = callbacks.TensorBoard("events")
    for done in rounds():
        tell(done)
    assert written == [
        "events", ("accuracy_mean", 0.1, 1), ("clusters", 1.0, 1), ("accuracy_mean", 0.2, 2), ("clusters", 1.0, 2),
    ]  # fmt: skip
    assert closed == [True]
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ImportError, match=r"pip install 'cloister\[tensorboard\]'"):
        callbacks.TensorBoard("events")


def test_metrics_for_mlflow_are_of_one_run_that_ends(monkeypatch):
    calls = []

    class Client:
        def __init__(self, uri):
            calls.append(uri)

        def get_experiment_by_name(self, name):
            return None

        def create_experiment(self, name):
            calls.append(name)
            return "7"

        def create_run(self, experiment, run_name):
            calls.append((experiment, run_name))
            return types.SimpleNamespace(info=types.SimpleNamespace(run_id="r"))

        def log_metric(self, run, name, value, step):
            calls.append((run, name, value, step))

        def set_tag(self, run, name, value):
            assert name == "cloister.rounds_over"

        def set_terminated(self, run, status="FINISHED"):
            calls.append(("ended", run, status))

    monkeypatch.setitem(sys.modules, "mlflow", types.SimpleNamespace(MlflowClient=Client))
    tell = callbacks.MLflow("mine", run="first", uri="file:x")
    for done in rounds(1):
        tell(done)
    begun = ["file:x", "mine", ("7", "first"), ("r", "accuracy_mean", 0.1, 1), ("r", "clusters", 1.0, 1)]
    assert calls == [*begun, ("ended", "r", "FINISHED")]
    calls.clear()
    for done in (rounds(2)[0], *rounds(1)):  # one that was interrupted, and another with the same callback
        tell(done)
    assert calls == [*begun, ("ended", "r", "KILLED"), *begun, ("ended", "r", "FINISHED")]
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match=r"pip install 'cloister\[mlflow\]'"):
        callbacks.MLflow("mine")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([callbacks.TensorBoard], 'give one that is made of it: callbacks.TensorBoard("FOLDER")'),
        (callbacks.MLflow, 'callbacks.MLflow("EXPERIMENT")'),
        ("tensorboard", "callbacks is 'tensorboard'; give a function"),
        ([print, None], "None]; give a function"),
        (7, "callbacks is 7; give a function"),
    ],
)
def test_what_is_no_callback_is_refused_before_a_round_is_played(tmp_path, given, said):
    with pytest.raises(TypeError) as refused:
        cloister.run(small, tmp_path / "run", quiet=True, callbacks=given)
    assert said in str(refused.value)
    assert not (tmp_path / "run").exists()


def test_tensorboard_itself_reads_what_was_written(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tell = callbacks.TensorBoard(str(tmp_path))
    for done in rounds(3):
        tell(done)
    found = EventAccumulator(str(tmp_path))
    found.Reload()
    assert [round(e.value, 6) for e in found.Scalars("accuracy_mean")] == [0.1, 0.2, 0.3]


def test_mlflow_itself_reads_what_was_logged(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path}/mlflow.db" if _has("sqlalchemy") else (tmp_path / "runs").as_uri()
    tell = callbacks.MLflow("mine", uri=uri)
    try:
        for done in rounds(3):
            tell(done)
    except mlflow.exceptions.MlflowException as error:
        pytest.skip(f"this MLflow has no store for tests: {str(error)[:80]}")
    client = mlflow.MlflowClient(uri)
    (run,) = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    assert run.info.status == "FINISHED"
    assert [m.value for m in client.get_metric_history(run.info.run_id, "accuracy_mean")] == [0.1, 0.2, 0.3]
    for done in (*rounds(3)[:2], None, *rounds(3)[2:]):  # gone on with in another process
        if done is None:
            tell = callbacks.MLflow("mine", uri=uri)
        else:
            tell(done)
    found = client.search_runs([run.info.experiment_id])
    assert [one.info.status for one in found] == ["FINISHED", "FINISHED"]
    assert [m.step for m in client.get_metric_history(found[0].info.run_id, "accuracy_mean")] == [1, 2, 3]


def _has(name):
    from importlib.util import find_spec

    return find_spec(name) is not None


# --- tables -------------------------------------------------------------------------------------------------------------------

ROWS = [{"round": 0, "who": "server", "value": 1, "about": [0, 1]}, {"round": 1, "value": "inf", "more": 2.5}]


def test_columns_have_every_row_and_one_kind_each():
    found = columns_of(ROWS)
    assert found.pop("value") == [1.0, float("inf")]
    assert found == {"round": [0, 1], "who": ["server", None], "about": [[0, 1], None], "more": [None, 2.5]}
    assert columns_of([{"a": 1}, {"a": "x"}]) == {"a": ["1", "x"]}
    assert columns_of([]) == {}


def test_rows_are_written_as_csv_and_other_ends_are_refused(tmp_path, monkeypatch):
    path = write_rows(ROWS, tmp_path / "rows.csv")
    read = list(csv.DictReader(path.open()))
    assert [row["value"] for row in read] == ["1.0", "inf"]
    with pytest.raises(ValueError, match=r"is to end in \.parquet, "):
        write_rows(ROWS, tmp_path / "rows.xlsx")
    for end in ("csv", "parquet"):
        with pytest.raises(ValueError, match=rf"there is no folder .*nodir to write a\.{end} in; make it"):
            write_rows(ROWS, tmp_path / "nodir" / f"a.{end}")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'cloister\[arrow\]'"):
        write_rows(ROWS, tmp_path / "rows.parquet")


@pytest.mark.parametrize("end", ["parquet", "arrow", "feather"])
def test_rows_are_written_for_arrow(end, tmp_path):
    pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    path = write_rows(ROWS, tmp_path / f"rows.{end}")
    found = (parquet.read_table if end == "parquet" else feather.read_table)(path)
    assert found.to_pydict() == columns_of(ROWS)


@pytest.mark.trains
def test_a_runs_rows_are_written_and_framed(tmp_path):
    result = cloister.run(replace(small, rounds=1), tmp_path / "r", quiet=True)
    for rows in ("metrics", "rounds", "disclosures", "by_client"):
        read = list(csv.DictReader(result.write(tmp_path / f"{rows}.csv", rows).open()))
        assert len(read) == len(getattr(result, rows)) > 0
    with pytest.raises(ValueError, match="there are metrics, rounds, disclosures and by_client"):
        result.write(tmp_path / "x.csv", "x")
    pytest.importorskip("pandas")
    frame = result.frame()
    assert list(frame["client"]) == [0, 1, 2, 3]
    assert frame["accuracy"].mean() == pytest.approx(result.accuracy)
