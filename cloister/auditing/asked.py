"""What can be said of the arguments of `cloister audit` before anything that computes is imported, which takes seconds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..grids.watching import seeds_of
from ..shipped import file_there
from ..threat_models.audit.observer import parts
from ..threat_models.privacy.names import check_mechanisms

SCENARIO, ATTACK = "a scenario, for example cloister:quickstart", "an attack, for example cloister:audit_with_art"


def check_self_test(others: Mapping[str, Any], mechanisms: Sequence[str]) -> None:
    """Raises ValueError for other options beside --self-test, and for names of mechanisms that it has not."""
    if given := [name for name, value in others.items() if value]:
        raise ValueError(f"--self-test tries examples of its own, and takes no {', '.join(given)}")
    if mechanisms:
        check_mechanisms(mechanisms)


def check_asked(
    file: str | None, seeds: str | None, attacks: Sequence[str], against: Sequence[str], mechanisms: Sequence[str]
) -> None:
    """Raises ValueError of one line for arguments that name nothing."""
    if mechanisms:
        raise ValueError("--mechanism is of --self-test")
    if file is None:
        raise ValueError("name a scenario to audit, for example cloister:quickstart, or give --self-test")
    seeds_of(seeds)
    for party in against:
        parts(party)
    if not Path(file).is_dir():
        file_there(file, SCENARIO)
    for attack in attacks:
        file_there(attack, ATTACK)
