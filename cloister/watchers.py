"""Callbacks that keep a run's numbers elsewhere: TensorBoard, MLflow; and what may be a callback at all."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from .fl.functions import brief
from .fl.runs.experiment import Round

Watcher = Callable[[Round], object]


def watchers(given: Watcher | Iterable[Watcher]) -> tuple[Watcher, ...]:
    """Raises TypeError, before anything is trained, for what is no callback, or a class of which none was made."""
    told = (given,) if callable(given) or isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    classes: dict[object, str] = {TensorBoard: 'TensorBoard("FOLDER")', MLflow: 'MLflow("EXPERIMENT")'}
    for tell in told:
        if isinstance(tell, type) and tell in classes:
            raise TypeError(f"a class watches nothing; give one that is made of it: callbacks.{classes[tell]}")
        if not callable(tell):
            raise TypeError(
                f"a callback is a function of a round, callbacks.TensorBoard(...) or callbacks.MLflow(...), not {brief(tell)}"
            )
    return told


def _check_installed(module: str, what: str, extra: str) -> None:
    try:
        there = find_spec(module) is not None
    except ValueError:  # it was imported without a finder
        there = True
    if not there:
        raise ImportError(f"{what} needs a package that is not installed: pip install 'cloister[{extra}]'")


@dataclass(slots=True)
class TensorBoard:
    """Writes every round's numbers to an event folder of TensorBoard (extra `tensorboard`): tensorboard --logdir FOLDER.

    Raises ImportError where TensorBoard is not installed.
    """

    folder: str
    _writer: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        _check_installed("tensorboard", "TensorBoard", "tensorboard")

    def __call__(self, done: Round, /) -> None:
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(self.folder)
        for name, value in done.numbers.items():
            self._writer.add_scalar(name, value, done.round)
        self._writer.flush()
        if done.round == done.rounds:
            self._writer.close()
            self._writer = None


OVER = "cloister.rounds_over"
"""A tag of MLflow's runs: by it one that goes on is found."""


@dataclass(slots=True)
class MLflow:
    """Logs every round's numbers as metrics of one run of MLflow (extra `mlflow`), which ends with the last round.

    experiment: its name, made if it is not there. run: a name, or None. uri: of the tracking server or store; None for MLflow's
    own choice. A run that was interrupted ends as KILLED where another begins with the same callback; one that goes on
    (`resume=True`) goes on there, too, also in another process: in the newest run of MLflow of that name that is at that round
    and never ended. Runs that are played at the same time need names of their own. Raises ImportError where MLflow is not
    installed.
    """

    experiment: str
    run: str | None = None
    uri: str | None = None
    _begun: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        _check_installed("mlflow", "MLflow", "mlflow")

    def __call__(self, done: Round, /) -> None:
        if self._begun is not None and done.round == 1:  # another run, after one that never came to its end
            client, left = self._begun
            client.set_terminated(left, "KILLED")
            self._begun = None
        if self._begun is None:
            from mlflow import MlflowClient

            client = MlflowClient(self.uri)
            known = client.get_experiment_by_name(self.experiment)
            experiment = client.create_experiment(self.experiment) if known is None else known.experiment_id
            left = None if done.round == 1 else _left_at(client, experiment, self.run, done.round)
            self._begun = client, left or client.create_run(experiment, run_name=self.run).info.run_id
        client, run = self._begun
        for name, value in done.numbers.items():
            client.log_metric(run, name, value, step=done.round)
        client.set_tag(run, OVER, str(done.round))
        if done.round == done.rounds:
            client.set_terminated(run)
            self._begun = None


def _left_at(client: Any, experiment: str, name: str | None, now: int) -> str | None:
    """The newest run of this callback's, and of this name if it has one, that never ended and is as far as the round before
    `now`, or farther: a round that was told of and not kept is played again.
    """
    never_ended = client.search_runs([experiment], "attributes.status = 'RUNNING'", order_by=["attributes.start_time DESC"])
    named = (run for run in never_ended if name in (None, run.info.run_name))
    return next((run.info.run_id for run in named if int(run.data.tags.get(OVER, 0)) >= now - 1), None)
