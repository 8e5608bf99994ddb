"""Searches for what breaks a defence, from Python or a notebook: played at once, what came out returned."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from .attacking.asked import Asked, level_of
from .attacking.defence import subject
from .attacking.play import play_search
from .attacking.result import Attacked
from .evaluating.breaking import breakdown_asked, played_breakdown
from .evaluating.broken_down import BrokenDown
from .evaluating.play import opened
from .evaluating.report import write_evaluation_report
from .evaluating.workers import Bench, crew
from .fl.runs.scenario import Scenario, described
from .grids.workers import crew_of
from .grids_from_python import FROM_PYTHON, file_for_workers, origin_of
from .reading_a_file import check_not_reading
from .scenario_file import load, load_evaluation
from .threat_models.evaluation import Evaluation, description
from .threat_models.search.spent import since_counted
from .threat_models.search.tpe import available
from .what_was_given import check_given, said


@said(attacks="a list of names of the evaluation's attacks", against="a list of names of the evaluation's defences")
def breakdown(
    evaluation: Evaluation | str,
    out: str | Path | None = None,
    data: str | Path | None = None,
    *,
    attacks: Sequence[str] = (),
    against: Sequence[str] = (),
    protections: Sequence[str] = (),
    least: float | None = None,
    most: float | None = None,
    step: float | None = None,
    loss: float | None = None,
    success: float | None = None,
    resume: bool = False,
    seeds: Sequence[int] = (),
    workers: int | None = None,
    quiet: bool = False,
) -> BrokenDown:
    """Search the smallest strength of each attack that breaks each defence, by bisection, for every seed; what came out.

    evaluation, out, data, resume, seeds, workers, quiet: as those of `evaluate`. attacks, against, protections: names of the
    evaluation's attacks, defences and protections; empty for all. least, most, step: the strengths that are tried, else the
    evaluation's `breakdown`. loss, success: when a defence is broken, else the evaluation's `bounds`. Raises ValueError of one
    line for input that does not fit.
    """
    check_not_reading("breakdown")
    check_given(evaluation, "breakdown", Evaluation, files=True)
    origin, made = origin_of(evaluation, seeds, data, workers, quiet)
    names = {"attack": attacks, "defence": against, "protection": protections}
    asked = breakdown_asked(made, names, {"least": least, "most": most, "step": step}, {"loss": loss, "success": success})
    where = None if data is None else Path(data)
    about = FROM_PYTHON if origin is None else origin.about
    folder, ledger = opened(made, where, None if out is None else Path(out), resume, about, beside=True)
    bench = Bench(made, ledger.folder, where)
    with crew_of(bench, lambda: bench, 1) if origin is None else crew(origin, made, ledger.folder, workers) as hands:
        played_breakdown(asked, ledger, hands, quiet=quiet)
    write_evaluation_report(folder)
    return BrokenDown(folder)


@said(against='the name of one of the evaluation\'s defences, or as text what makes one: against="Krum(f=1)"')
def attack(
    scenario: Scenario | Evaluation | str,
    out: str | Path | None = None,
    data: str | Path | None = None,
    *,
    against: str | None = None,
    partition: str | None = None,
    attackers: int | tuple[int, int] | None = None,
    attacks: Mapping[str, Any] | Sequence[Any] = (),
    fixed: Mapping[str, Any] | None = None,
    knows: str = "insider",
    goal: str = "any",
    loss: float | None = None,
    success: float | None = None,
    budget: int | None = None,
    minutes: float | None = None,
    exhaust: bool = False,
    seeds: Sequence[int] = (),
    held_out: Sequence[int] = (),
    resume: bool = False,
    workers: int | None = None,
    quiet: bool = False,
) -> Attacked:
    """Search for the cheapest break of a defence, as `cloister attack` does; what came out.

    scenario: or an evaluation, or where a file has one, "FILE.py:NAME". out: the folder to write; by default a new one under
    runs/. against: the name of one of the evaluation's defences, or an expression such as "MultiKrum(6)"; None for the
    scenario's own. partition: one of the evaluation's. attackers: how many, or (least, most); by default up to what the rule is
    built for. attacks: names, else all; or attacks of your own by name, or in a list, dataclasses or functions, which are then
    the ones that are tried. fixed: numbers that are not searched. knows: own, colluding, omniscient or insider. goal: any,
    accuracy or backdoor. loss, success: when a defence is broken, else the evaluation's. budget, minutes: runs, and CPU minutes
    of all processes; 200 runs if neither. seeds, held_out: searched, and on which a break must hold. workers: of a file alone;
    what Python made is played in this process.

    Raises ValueError of one line for input that does not fit, and where Optuna is not installed (extra `search`).
    """
    check_not_reading("attack")
    since_counted()  # what this process did before is none of the search's
    check_given(scenario, "attack", Scenario, Evaluation, files=True)
    level_of(knows, "knows")
    available()
    own, names = _own(attacks)
    if own and workers not in (None, 1):
        raise ValueError('worker processes load attacks from their files: give "FILE.py:NAME" in the place of the attack')
    file = scenario if isinstance(scenario, str) else _file_of(scenario, 1 if own else workers, quiet)
    asked = Asked(
        file=file, against=against, partition=partition,
        attackers=_range(attackers), attacks=names, fixed=[f"{name}={value}" for name, value in (fixed or {}).items()],
        knows=knows, goal=goal, loss=loss, success=success, runs=budget, minutes=None if minutes == inf else minutes,
        exhaust=exhaust, out=None if out is None else Path(out), resume=resume, workers=workers, engine="local",
        seeds=_listed(seeds), held_out=_listed(held_out), data=None if data is None else Path(data), settings=(),
    )  # fmt: skip
    origin = asked.origin if file and not own else None
    about = subject(scenario, against, partition) if not isinstance(scenario, str) else asked.origin.subject()
    folder, _ = play_search(asked if origin is not None else replace(asked, workers=1), about, origin, quiet, own)
    return Attacked(folder)


def _file_of(scenario: Scenario | Evaluation, workers: int | None, quiet: bool) -> str:
    """FILE:NAME that worker processes load it from; empty where this process is to play it. Raises ValueError."""

    def same(name: str) -> bool:
        if isinstance(scenario, Evaluation):
            return bool(description(load_evaluation(name))["keys"] == description(scenario)["keys"])
        return bool(described(load(name)) == described(scenario))

    return file_for_workers(scenario, same, workers, "what is attacked", quiet) or ""


def _own(attacks: Mapping[str, Any] | Sequence[Any]) -> tuple[dict[str, Any], list[str]]:
    """Attacks that Python gave, by name, and the names of all that are tried."""
    if isinstance(attacks, str):
        raise ValueError(f"attacks are a list of names, or a dict by name, not {attacks!r}; write [{attacks!r}]")
    if isinstance(attacks, Mapping):
        return dict(attacks), list(attacks)
    named = {one if isinstance(one, str) else getattr(one, "__name__", None) or type(one).__name__: one for one in attacks}
    return {name: one for name, one in named.items() if not isinstance(one, str)}, list(named)


def _range(attackers: int | tuple[int, int] | None) -> str | None:
    if attackers is None or isinstance(attackers, int):
        return None if attackers is None else f"{attackers}"
    return f"{attackers[0]}-{attackers[1]}"


def _listed(seeds: Sequence[int]) -> str | None:
    return ",".join(map(str, seeds)) or None
