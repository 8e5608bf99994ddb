"""Evaluations, comparisons and audits from Python or a notebook: played at once, what came out returned."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from .auditing.audited import audited
from .auditing.folder import claimed, folder_to_write, write_audit
from .auditing.new_audit import BUDGETS
from .auditing.report import write_audit_report
from .auditing.result import Audited
from .comparing.play import opened as comparison_opened
from .comparing.play import watched_comparison
from .comparing.report import write_comparison_report
from .comparing.result import Compared
from .comparing.run import play_comparison
from .comparing.workers import Bench as ComparisonBench
from .comparing.workers import Origin as ComparisonOrigin
from .comparing.workers import crew as comparison_crew
from .errors_in_one_line import say
from .evaluating.play import opened as evaluation_opened
from .evaluating.play import watched_grid
from .evaluating.report import write_evaluation_report
from .evaluating.result import Evaluated
from .evaluating.run import play_grid
from .evaluating.workers import Bench as EvaluationBench
from .evaluating.workers import Origin as EvaluationOrigin
from .evaluating.workers import crew as evaluation_crew
from .fl.engines.cores import cores
from .fl.runs.comparison import Comparison
from .fl.runs.comparison_cells import keys_of
from .fl.runs.results_folder import Row
from .fl.runs.scenario import Scenario
from .grids.workers import Bench, Crew, crew_of
from .reading_a_file import check_not_reading
from .scenario_file import load
from .threat_models.audit.experiment import Experiment
from .threat_models.audit.observer import Observer
from .threat_models.evaluation import Evaluation, description
from .what_was_given import check_given, said
from .where_from import NotLoadable, file_of_value

FROM_PYTHON: dict[str, Any] = {"file": None, "settings": []}
"""Where a value comes from that no file is known of."""


@said()
def evaluate(
    evaluation: Evaluation | str,
    out: str | Path | None = None,
    data: str | Path | None = None,
    *,
    resume: bool = False,
    seeds: Sequence[int] = (),
    workers: int | None = None,
    quiet: bool = False,
    callbacks: Callable[[Row], object] | Iterable[Callable[[Row], object]] = (),
) -> Evaluated:
    """Play a grid of attacks and defences; what came out.

    evaluation: or where a file has one, "FILE.py:NAME". out: the folder to write; by default a new one under runs/. data:
    folder of data sets. resume: go on with that folder. seeds: others than the evaluation's. workers: processes that play
    cells, as many as there are cores if None. They load the evaluation's file by themselves: that of an object is the one at
    whose top level it has a name; of an object that has none, or whose file cannot be loaded once more, all cells are played in
    this process, and a line says why. quiet: no progress, and no such line. callbacks: called with each cell's line.

    Raises ValueError of one line for input that does not fit. What a protection refuses, and what fails, is in `cells`.
    """
    check_not_reading("evaluate")
    check_given(evaluation, "evaluate", Evaluation, files=True)
    folder, where = None if out is None else Path(out), None if data is None else Path(data)
    origin, made = origin_of(evaluation, seeds, data, workers, quiet)
    folder, ledger = evaluation_opened(made, where, folder, resume, FROM_PYTHON if origin is None else origin.about)
    bench = EvaluationBench(made, ledger.folder, where)
    hands = _here(bench) if origin is None else evaluation_crew(origin, made, ledger.folder, workers)
    with hands as crew:
        _tell(watched_grid(ledger, play_grid(ledger, crew), quiet=quiet), callbacks)
    write_evaluation_report(folder)
    return Evaluated(folder)


@said()
def compare(
    comparison: Comparison | str,
    out: str | Path | None = None,
    data: str | Path | None = None,
    *,
    resume: bool = False,
    seeds: Sequence[int] = (),
    workers: int | None = None,
    quiet: bool = False,
    callbacks: Callable[[Row], object] | Iterable[Callable[[Row], object]] = (),
) -> Compared:
    """Play a grid of methods, data sets and protections, hyper-parameters searched first; what came out.

    Arguments as those of `evaluate`. Raises ValueError of one line for input that does not fit.
    """
    check_not_reading("compare")
    check_given(comparison, "compare", Comparison, files=True)
    folder = None if out is None else Path(out)
    origin, made = _comparison_of(comparison, seeds, None if data is None else Path(data), workers, quiet)
    where = None if data is None else Path(data)
    folder, ledger = comparison_opened(made, where, folder, resume, FROM_PYTHON if origin is None else origin.about)
    hands = _here(ComparisonBench(made, where)) if origin is None else comparison_crew(origin, made, workers)
    with hands as crew:
        _tell(watched_comparison(ledger, play_comparison(ledger, crew), quiet=quiet), callbacks)
    write_comparison_report(folder)
    return Compared(folder)


def _comparison_of(
    comparison: Comparison | str, seeds: Sequence[int], data: Path | None, workers: int | None, quiet: bool
) -> tuple[ComparisonOrigin | None, Comparison]:
    """As `origin_of`, of a comparison."""
    if isinstance(comparison, str):
        origin = ComparisonOrigin(comparison, (), tuple(seeds), data)
        return origin, origin.load()
    made = replace(comparison, seeds=tuple(seeds)) if seeds else comparison

    def same(name: str) -> bool:
        return keys_of(ComparisonOrigin(name, (), tuple(seeds), data).load()) == keys_of(made)

    file = file_for_workers(comparison, same, workers, "a comparison", quiet)
    return (None if file is None else ComparisonOrigin(file, (), tuple(seeds), data)), made


@said(
    attacks="a list of threats.Attack(...) or PropertyInference(...), on privacy: those of cloister.attacks are on models, and"
    " cloister.evaluate plays them"
)
def audit(
    scenario: Scenario | str,
    out: str | Path | None = None,
    data: str | Path | None = None,
    *,
    budget: str = "quick",
    seeds: Sequence[int] = (),
    attacks: Sequence[Experiment] = (),
    against: Sequence[str | Observer] | str | Observer = (),
    resume: bool = False,
    quiet: bool = False,
) -> Audited:
    """Attack what each party of a run really sees, and say which claims of its threat model stand; what came out.

    scenario: or where a file has one, "FILE.py:NAME". out: the folder to write; by default a new one under runs/. data: folder of
    data sets. budget: "quick" (minutes, two seeds) or "full". seeds: others than the budget's. attacks: of one's own, beside
    ours (`threats.Attack`, `threats.PropertyInference`); one that fails is in `summary["failed"]`.
    against: who is corrupt, for example "server+client:0,3" or
    "client:site3", in the place of the usual observers: each party, and the server with as many clients as the protection's
    `corrupt`. resume: an audit that was stopped goes on; what it played and tried is in its folder, with clients' data, until it
    is over. quiet: no progress.

    Raises ValueError of one line for input that does not fit. A claim that is refuted is no error: see `summary`.
    """
    check_not_reading("audit")
    check_given(scenario, "audit", Scenario, files=True)
    if budget not in BUDGETS:
        raise ValueError(f"budget is {' or '.join(map(repr, BUDGETS))}, not {budget!r}")
    made = load(scenario) if isinstance(scenario, str) else scenario
    whom = (against,) if isinstance(against, str | Observer) else tuple(against)
    folder = folder_to_write(None if out is None else Path(out), made.name, resume)
    where = None if data is None else Path(data)
    with claimed(folder):
        spend, further = BUDGETS[budget], tuple(attacks)
        found = audited(made, spend, tuple(seeds), where, quiet, whom, further=further, always=False, into=folder, resume=resume)
        write_audit(folder, found)
    write_audit_report(folder)
    return Audited(folder)


def origin_of(
    evaluation: Evaluation | str, seeds: Sequence[int], data: str | Path | None, workers: int | None, quiet: bool
) -> tuple[EvaluationOrigin | None, Evaluation]:
    """Where worker processes load an evaluation from, and the evaluation with these seeds; None where this process is to play it.

    Raises ValueError of one line where several workers are asked for and none can load it.
    """
    where = None if data is None else Path(data)
    if isinstance(evaluation, str):
        origin = EvaluationOrigin(evaluation, (), tuple(seeds), where)
        return origin, origin.load()
    made = replace(evaluation, seeds=tuple(seeds)) if seeds else evaluation

    def same(name: str) -> bool:
        loaded = EvaluationOrigin(name, (), tuple(seeds), where).load()
        return bool(description(loaded)["keys"] == description(made)["keys"])

    file = file_for_workers(evaluation, same, workers, "an evaluation", quiet)
    return (None if file is None else EvaluationOrigin(file, (), tuple(seeds), where)), made


def file_for_workers(value: Any, same: Callable[[str], bool], workers: int | None, what: str, quiet: bool) -> str | None:
    """FILE:NAME that worker processes load a value from; None where this process is to play it, and why is said.

    same: as of `file_of_value`. what: it is, in words. Raises ValueError of one line where several workers are asked for and
    none can load it.
    """
    if workers == 1:
        return None
    try:
        return file_of_value(value, same)
    except NotLoadable as reason:
        if workers is not None:
            raise ValueError(f"worker processes load {what} from its file, and {reason}") from None
        if not quiet and cores() > 1:
            say(f"note: played in this process alone, as {reason}")
        return None


def _here(bench: Bench) -> AbstractContextManager[Crew]:
    """This process, which alone has what Python made: it is not sent, and no worker has to run a script to get it."""
    return crew_of(bench, lambda: bench, 1)


def _tell(rows: Iterable[Row], callbacks: Callable[[Row], object] | Iterable[Callable[[Row], object]]) -> None:
    told = (callbacks,) if callable(callbacks) else tuple(callbacks)
    for row in rows:
        for tell in told:
            tell(row)
