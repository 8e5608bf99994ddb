"""What is found of a defence in one place, where that is one finding."""

from cloister.evaluating.data import Grid
from cloister.evaluating.judging import Finding, findings_at


def finding(grid: Grid, defence: str, strength: float, protection: str) -> Finding:
    """The only one."""
    [found] = findings_at(grid, defence, strength, protection)
    return found
