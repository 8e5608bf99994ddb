"""When a client had no link to the second server, from its own record."""

from collections.abc import Mapping, Sequence
from typing import Any

from .own_presence import Away


def absences_there(lines: Sequence[Mapping[str, Any]]) -> list[Away] | None:
    """In order; None where nothing is noted of such a link. A time that a restart of the client lies in is one."""
    noted = [(str(line.get("time", "")), line["second"]) for line in lines if isinstance(line.get("second"), Mapping)]
    found: list[Away] = []
    since = why = ""
    for time, of in noted:
        if "away" in of:
            since, why = since or time, str(of["away"])
        elif since:
            found.append(Away(since, time, why))
            since = ""
    return [*found, *([Away(since, "", why)] if since else [])] if noted else None
