"""What `cloister attack` was asked: its options, the limits of the search that follow, and the record of both."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from functools import partial
from math import ceil, inf
from pathlib import Path
from types import FunctionType
from typing import Any

from ..fl.own_values import own_fields
from ..fl.runs.run_folder import machine, versions
from ..fl.runs.scenario import described
from ..grids.known import KNOWN
from ..grids.watching import seeds_of
from ..threat_models.broken import Bounds
from ..threat_models.design_limit import built_for, known_breaks
from ..threat_models.knowledge import Level
from ..threat_models.membership import Pool
from ..threat_models.search.found import strength_of
from ..threat_models.search.plan import Plan
from ..threat_models.search.play import Sought
from ..threat_models.search.space import Space, usual
from .replaying import named_from_here
from .run import Named
from .source import Unwritable, expression
from .workers import Origin, is_file_name

LEVELS = ("own", "colluding", "omniscient", "insider")
RUNS = 200
"""The budget where none is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command was given, or a call from Python: file is empty of what Python made."""

    file: str
    against: str | None
    partition: str | None
    attackers: str | None
    attacks: Sequence[str]
    fixed: Sequence[str]
    knows: str
    goal: str
    loss: float | None
    success: float | None
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
        """Where it comes from."""
        only = tuple(absolute(name) if is_file_name(name) else name for name in self.attacks)
        where = absolute(self.file) if self.file else ""
        settings = tuple(self.settings)
        fixed = tuple(self.named.items())
        return Origin(where, self.against, settings, self.data, self.level, only, fixed, self.partition, self.goal == "backdoor")

    @property
    def level(self) -> Level:
        """The most that the adversary knows. Raises ValueError."""
        return level_of(self.knows, "--knows")

    @property
    def named(self) -> dict[str, str]:
        """Numbers that are not searched, by name. Raises ValueError."""
        if wrong := [text for text in self.fixed if "=" not in text]:
            raise ValueError(f"--fix takes NAME=VALUE, for example schedule=always, not {wrong[0]!r}")
        return {name.strip(): value.strip() for name, _, value in (text.partition("=") for text in self.fixed)}


def level_of(knows: str, name: str) -> Level:
    """A level by its word. name: what asks for it. Raises ValueError."""
    if knows not in LEVELS:
        raise ValueError(f"{name} is {', '.join(LEVELS[:-1])} or, for all that can be known, {LEVELS[-1]}, not {knows!r}")
    return Level[knows.upper()]


def absolute(where: str) -> str:
    """FILE[:NAME] with the whole path of a file that is there; anything else as it is."""
    file, colon, name = where.partition(":")
    return f"{Path(file).resolve()}{colon}{name}" if Path(file).is_file() else where


def plan_of(asked: Asked, space: Space, clients: int, bounds: Bounds, limit: int | None = None) -> Plan:
    """The limits of the search. bounds: where none are asked for. limit: attackers that an evaluation says the defence is built
    for. Raises ValueError.

    By default as many attackers as that, or as the defence's rule is built for, or fewer than half of the clients; one seed is
    searched, the scenario's, and two others are held out.
    """
    seeds = seeds_of(asked.seeds) or (space.scenario.seed,)
    held_out = seeds_of(asked.held_out, "--held-out") or tuple(s for s in range(max(seeds) + 1, max(seeds) + 3))
    least, most = 1, _most(space, clients, limit)
    if asked.attackers is not None:
        counts = seeds_of(asked.attackers, "--attackers")
        if not counts or max(counts) >= clients:
            raise ValueError(
                f"--attackers takes a number or a range below {clients}, for example 1-{most}, not {asked.attackers!r}"
            )
        least, most = min(counts), max(counts)
    goal: Any = asked.goal
    given = {"loss": asked.loss, "success": asked.success}
    sought = Sought(bounds=replace(bounds, **{name: value for name, value in given.items() if value is not None}), goal=goal)
    seconds = inf if asked.minutes is None else 60 * asked.minutes
    return Plan(
        least=least,
        most=most,
        seeds=seeds,
        held_out=held_out,
        sought=sought,
        runs=asked.budget,
        seconds=seconds,
        exhaust=asked.exhaust,
    )


def _most(space: Space, clients: int, limit: int | None = None) -> int:
    found = _built_for(space, clients, limit)
    return found if found and found < clients else max(1, (clients - 1) // 2)


def _built_for(space: Space, n: int, limit: int | None) -> int | None:
    """Attackers among n updates of a round that the defence is built for: what the evaluation says, else what it says itself."""
    return built_for(space.scenario.algorithm, n) if limit is None else limit


def _in_a_round(space: Space, clients: int) -> int:
    """Clients that are asked in one."""
    return max(1, ceil(getattr(space.scenario.algorithm, "participation", 1.0) * clients))


def description(
    asked: Asked, space: Space, plan: Plan, clients: int, named: Named, partition: str, limit: int | None = None
) -> dict[str, Any]:
    """The search as plain JSON values: what its folder records before anything is played. limit: as in `plan_of`."""
    defence = (asked.against or said_of(space.scenario.algorithm)) + (f" on {partition}" if partition else "")
    known = known_breaks(space.scenario.algorithm)
    return {
        "name": space.scenario.name,
        "defence": defence,
        KNOWN: {defence: known} if known else {},
        "about": named.id,
        "scenario": described(space.scenario),
        "clients": clients,
        "least": plan.least,
        "most": plan.most,
        "built_for": _built_for(space, _in_a_round(space, clients), limit),
        "in_a_round": _in_a_round(space, clients),
        "seeds": list(plan.seeds),
        "held_out": list(plan.held_out),
        "bounds": asdict(plan.sought.bounds),
        "goal": plan.sought.goal,
        "runs": None if plan.runs == inf else int(plan.runs),
        "minutes": asked.minutes,
        "knows": space.knows.name,
        "distinct": space.distinct,
        "fixed": dict(space.fixed),
        "attacks": [*space.attacks, *space.votes],
        "own": dict(named.own),
        "strengths": {name: strength_of(space, usual(space, {"attack": name}, Pool(1))[0]) for name in space.attacks},
        "left_out": dict(space.left_out),
        "as_given": {name: given for name, attack in space.own.items() if name in space.kinds and (given := _as_given(attack))},
        "command": command_of(asked),
        "versions": versions(),
        "machine": machine(),
    }


def _as_given(attack: object) -> str:
    """What an attack of the user's own was made with that is not searched, as it is no field of a dataclass: "scale=1.5"."""
    if isinstance(attack, type) or is_dataclass(attack):
        return ""
    made = attack.keywords if isinstance(attack, partial) else {} if isinstance(attack, FunctionType) else own_fields(attack)
    return ", ".join(f"{name}={value}" for name, value in made.items() if isinstance(value, int | float))


def said_of(algorithm: object) -> str:
    """The algorithm with what is not as usual."""
    try:
        return expression(algorithm, set())
    except Unwritable:
        return type(algorithm).__name__


def command_of(asked: Asked, *, published: bool = False) -> str:
    """The command line that searches again, or the call of what Python made. published: without a file's place on this disk."""
    if not asked.file:
        against = f", against={asked.against!r}" if asked.against else ""
        return f"cloister.attack(scenario{against}, budget={asked.runs}, minutes={asked.minutes}, attackers={asked.attackers!r})"
    file_of = _without_place if published else str
    words = ["cloister", "attack", file_of(asked.file)]
    words += ["--against", asked.against] if asked.against else []
    words += ["--partition", asked.partition] if asked.partition else []
    words += ["--attackers", asked.attackers] if asked.attackers else []
    words += [word for name in asked.attacks for word in ("--attack", file_of(name))]
    words += [word for text in asked.fixed for word in ("--fix", text)]
    words += ["--knows", asked.knows] if asked.knows != "insider" else []
    words += ["--goal", asked.goal] if asked.goal != "any" else []
    for name, value in (("loss", asked.loss), ("success", asked.success)):
        words += [f"--{name}", f"{value:g}"] if value is not None else []
    words += ["--budget", str(asked.runs)] if asked.runs else []
    words += ["--minutes", f"{asked.minutes:g}"] if asked.minutes is not None else []
    words += ["--exhaust"] if asked.exhaust else []
    words += ["--seeds", asked.seeds] if asked.seeds else []
    words += ["--held-out", asked.held_out] if asked.held_out else []
    words += [word for setting in asked.settings for word in ("--set", setting)]
    return shlex.join(words)


def _without_place(where: str) -> str:
    """FILE[:NAME] as it was given, unless that says where on this disk it is."""
    named = named_from_here(where) if where.startswith("/") else None
    return where if named is None else named[0]
