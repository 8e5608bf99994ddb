"""Callbacks that keep a run's numbers elsewhere: TensorBoard, MLflow."""

from dataclasses import dataclass, field
from typing import Any

from .fl.runs.experiment import Round


@dataclass(slots=True)
class TensorBoard:
    """Writes every round's numbers to an event folder of TensorBoard (extra `tensorboard`): tensorboard --logdir FOLDER."""

    folder: str
    _writer: Any = field(default=None, init=False, repr=False)

    def __call__(self, done: Round, /) -> None:
        """Raises ImportError where TensorBoard is not installed."""
        if self._writer is None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise ImportError("events for TensorBoard need it: pip install 'cloister[tensorboard]'") from None
            self._writer = SummaryWriter(self.folder)
        for name, value in done.numbers.items():
            self._writer.add_scalar(name, value, done.round)
        self._writer.flush()
        if done.round == done.rounds:
            self._writer.close()
            self._writer = None


@dataclass(slots=True)
class MLflow:
    """Logs every round's numbers as metrics of one run of MLflow (extra `mlflow`), which ends with the last round.

    experiment: its name, made if it is not there. run: a name, or None. uri: of the tracking server or store; None for MLflow's
    own choice.
    """

    experiment: str
    run: str | None = None
    uri: str | None = None
    _begun: Any = field(default=None, init=False, repr=False)

    def __call__(self, done: Round, /) -> None:
        """Raises ImportError where MLflow is not installed."""
        if self._begun is None:
            try:
                from mlflow import MlflowClient
            except ImportError:
                raise ImportError("metrics for MLflow need it: pip install 'cloister[mlflow]'") from None
            client = MlflowClient(self.uri)
            known = client.get_experiment_by_name(self.experiment)
            experiment = client.create_experiment(self.experiment) if known is None else known.experiment_id
            self._begun = client, client.create_run(experiment, run_name=self.run).info.run_id
        client, run = self._begun
        for name, value in done.numbers.items():
            client.log_metric(run, name, value, step=done.round)
        if done.round == done.rounds:
            client.set_terminated(run)
            self._begun = None
