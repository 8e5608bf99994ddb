"""What `cloister attack` was asked: its options, the limits of the search that follow, and the record of both."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any

from ..fl.runs.run_folder import machine, versions
from ..fl.runs.scenario import described
from ..grids.watching import seeds_of
from ..threat_models.knowledge import Level
from ..threat_models.search.plan import Plan
from ..threat_models.search.play import Bounds
from ..threat_models.search.space import Space
from .run import Named
from .source import Unwritable, expression
from .workers import Origin

RUNS = 200
"""The budget where none is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command was given."""

    file: str
    against: str | None
    attackers: str | None
    attacks: Sequence[str]
    fixed: Sequence[str]
    knows: str
    goal: str
    loss: float
    success: float
    share: float
    runs: int | None
    minutes: float | None
    exhaust: bool
    out: Path | None
    resume: bool
    workers: int | None
    engine: str
    seeds: str | None
    held_out: str | None
    data: Path | None
    settings: Sequence[str]

    @property
    def budget(self) -> float:
        """In runs: 200 where neither runs nor minutes are given."""
        return float(self.runs or (inf if self.minutes is not None else RUNS))

    @property
    def origin(self) -> Origin:
        if wrong := [text for text in self.fixed if "=" not in text]:
            raise ValueError(f"--fix takes NAME=VALUE, for example schedule=always, not {wrong[0]!r}")
        fixed = tuple((name.strip(), value.strip()) for name, _, value in (text.partition("=") for text in self.fixed))
        level = Level[self.knows.upper()]
        return Origin(self.file, self.against, tuple(self.settings), self.data, level, tuple(self.attacks), self.share, fixed)


def plan_of(asked: Asked, space: Space, clients: int) -> Plan:
    """The limits of the search. Raises ValueError.

    By default as many attackers as the defence's rule is built for, or fewer than half of the clients; one seed is searched, the
    scenario's, and two others are held out.
    """
    seeds = seeds_of(asked.seeds) or (space.scenario.seed,)
    held_out = seeds_of(asked.held_out) or tuple(s for s in range(max(seeds) + 1, max(seeds) + 3))
    least, most = 1, _most(space, clients)
    if asked.attackers is not None:
        counts = seeds_of(asked.attackers)
        if not counts or max(counts) >= clients:
            raise ValueError(
                f"--attackers takes a number or a range below {clients}, for example 1-{most}, not {asked.attackers!r}"
            )
        least, most = min(counts), max(counts)
    goal: Any = asked.goal
    bounds = Bounds(loss=asked.loss, success=asked.success, share=asked.share, goal=goal)
    seconds = inf if asked.minutes is None else 60 * asked.minutes
    return Plan(
        least=least,
        most=most,
        seeds=seeds,
        held_out=held_out,
        bounds=bounds,
        runs=asked.budget,
        seconds=seconds,
        exhaust=asked.exhaust,
    )


def _most(space: Space, clients: int) -> int:
    last: Any = getattr(space.scenario.algorithm, "rule", None)
    while hasattr(last, "steps"):
        last = last.rule
    f = getattr(last, "f", None)
    return f if type(f) is int and 0 < f < clients else max(1, (clients - 1) // 2)


def description(asked: Asked, space: Space, plan: Plan, clients: int, named: Named) -> dict[str, Any]:
    """The search as plain JSON values: what its folder records before anything is played."""
    return {
        "name": space.scenario.name,
        "defence": asked.against or _said(space.scenario.algorithm),
        "about": named.id,
        "scenario": described(space.scenario),
        "clients": clients,
        "least": plan.least,
        "most": plan.most,
        "seeds": list(plan.seeds),
        "held_out": list(plan.held_out),
        "bounds": asdict(plan.bounds),
        "runs": None if plan.runs == inf else int(plan.runs),
        "minutes": asked.minutes,
        "knows": space.knows.name,
        "distinct": space.distinct,
        "fixed": dict(space.fixed),
        "attacks": [*space.attacks, *space.votes],
        "left_out": dict(space.left_out),
        "command": command_of(asked),
        "versions": versions(),
        "machine": machine(),
    }


def _said(algorithm: object) -> str:
    """The algorithm with what is not as usual."""
    try:
        return expression(algorithm, set())
    except Unwritable:
        return type(algorithm).__name__


def command_of(asked: Asked) -> str:
    words = ["cloister", "attack", asked.file]
    words += ["--against", asked.against] if asked.against else []
    words += ["--attackers", asked.attackers] if asked.attackers else []
    words += [word for name in asked.attacks for word in ("--attack", name)]
    words += [word for text in asked.fixed for word in ("--fix", text)]
    words += ["--knows", asked.knows] if asked.knows != "insider" else []
    words += ["--goal", asked.goal] if asked.goal != "any" else []
    for name, value, usual in (("loss", asked.loss, 0.1), ("success", asked.success, 0.2), ("last", asked.share, 0.25)):
        words += [f"--{name}", f"{value:g}"] if value != usual else []
    words += ["--budget", str(asked.runs)] if asked.runs else []
    words += ["--minutes", f"{asked.minutes:g}"] if asked.minutes is not None else []
    words += ["--exhaust"] if asked.exhaust else []
    words += ["--seeds", asked.seeds] if asked.seeds else []
    words += ["--held-out", asked.held_out] if asked.held_out else []
    words += [word for setting in asked.settings for word in ("--set", setting)]
    return shlex.join(words)
