"""Clients that were asked, and sat out: which ones, and why, for logs and pages."""

from collections.abc import Iterable, Mapping
from typing import Any

from ...protocol.core.errors import OF_SPLIT, OF_TRAINING, Fault

SINCE_SPLIT = "whoever was not there when clients were split cannot be placed, and gets no model of this run"


def why_declined(reason: str) -> str:
    """In words; what it means is said where the reason is that a client came late."""
    return f"{reason}: {SINCE_SPLIT}" if reason == OF_SPLIT else reason


def declined(faults: Iterable[Fault]) -> tuple[tuple[int, str], ...]:
    """Who declined in a round, and why, each once."""
    return tuple(dict.fromkeys((fault.blame, fault.reason) for fault in faults if fault.declined))


def is_declined(row: Mapping[str, Any]) -> bool:
    """Of a row of faults.jsonl or a summary: whether a client declined, and sent nothing. Rows of before say it by the reason."""
    return bool(row.get("declined")) or row.get("reason") in (OF_SPLIT, OF_TRAINING)
