"""How many seeds an audit takes before a claim can be found to stand, which is known before anything is played."""

from collections.abc import Sequence
from typing import Any

from ..threat_models.audit.claim import Claim
from ..threat_models.audit.scoring import fewest_victims


def too_few(claims: Sequence[Claim], protection: Any, algorithm: Any, clients: int, tried: int, seeds: int) -> str:
    """A sentence where claims on such runs cannot be "not refuted" by so many seeds, whatever attacks find; empty else.

    clients: of a run; tried: victims of a run, at most, whose single records are attacked. Exact tests have a bound of 0, and
    need one run.
    """
    bounds = [claim.bound for claim in claims if claim.bound > 0 and claim.applies(protection, algorithm)]
    if not bounds:
        return ""
    needed = fewest_victims(min(bounds))
    take = -(-needed // clients)
    if seeds < take:
        which, each = "no such claim", clients
    else:
        take = -(-needed // min(clients, tried))
        if seeds >= take:
            return ""
        which, each = "none on single records", min(clients, tried)
    return (
        f"a claim of at most {min(bounds):g} leakage can be found to stand with {needed} victims, and {seeds * each} are tried"
        f" ({each} of each of {seeds} seed{'s' * (seeds != 1)}): {which} can be decided, but for one that is refuted; take {take}"
        f" seeds at least (--seeds 0-{take - 1}, in Python seeds=range({take}))"
    )
