"""How many seeds an audit takes before a claim can be found to stand, which is known before anything is played."""

from collections.abc import Sequence
from typing import Any

from ..threat_models.audit.claim import Claim
from ..threat_models.audit.experiments import EXPERIMENTS
from ..threat_models.audit.scoring import THROWS, fewest_victims
from .sought import sought

TOGETHER = frozenset(e.name for e in EXPERIMENTS if getattr(e, "alike_in_a_run", False))
"""Experiments of which all victims of a run go right or wrong together."""


def too_few(claims: Sequence[Claim], protection: Any, algorithm: Any, clients: int, tried: int, seeds: int) -> str:
    """A sentence where claims on such runs cannot be "not refuted" by so many seeds, whatever attacks find; empty else.

    clients: of a run; tried: victims of a run, at most, whose single records are attacked. Exact tests have a bound of 0, and
    need one run.
    """
    about = [claim for claim in claims if claim.bound > 0 and claim.applies(protection, algorithm)]
    if not about:
        return ""
    bound = min(claim.bound for claim in about)
    needed = fewest_victims(bound)
    take, together = -(-needed // clients), [claim.experiment for claim in about if claim.experiment in TOGETHER]
    if seeds < take:
        which, each = "no such claim can be decided, but for one that is refuted", clients
    else:
        take = -(-needed // min(clients, tried))
        if seeds >= take:
            if not together or seeds >= THROWS:
                return ""
            return (
                f"{sought(together[0])} goes right or wrong with all clients of a run together: no claim on it can be decided by"
                f" {seeds} seed{'s' * (seeds != 1)}; take {THROWS} seeds at least ({_seeds(THROWS)})"
            )
        which, each = "none on single records can be decided, but for one that is refuted", min(clients, tried)
    if together:
        take = max(take, THROWS)
        which += f", and none on {sought(together[0])} by fewer than {THROWS} seeds"
    return (
        f"a claim of at most {bound:g} leakage can be found to stand with {needed} victims, and {seeds * each} are tried"
        f" ({each} of each of {seeds} seed{'s' * (seeds != 1)}): {which}; take {take} seeds at least ({_seeds(take)})"
    )


def _seeds(count: int) -> str:
    return f"--seeds 0-{count - 1}, in Python seeds=range({count})"
