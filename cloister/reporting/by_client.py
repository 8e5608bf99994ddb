"""A row for each client of a run: where it ended, how well its model predicts, and how far what was told isolates it."""

from collections.abc import Mapping
from typing import Any

from .headline import IN_CLEAR, summed_with
from .run_data import Run, client_ids, evaluated, final_clusters, number, scores


def by_client(run: Run) -> list[dict[str, Any]]:
    """client, name, cluster at the end, score at the last evaluation, smallest_sum with it that anybody was told (None where the
    server saw updates), the meters by
    their names, epsilon and delta by unit; None where nothing is known.
    """
    least: dict[str, int] = {}
    hidden = str(run.summary.get("protection")) not in IN_CLEAR
    for entry in run.answers if hidden else ():
        if (size := summed_with(entry)) is not None:
            least |= {i: min(size, least.get(i, size)) for i in map(str, entry.get("about") or ())}
    ended = {i: name for name, members in final_clusters(run).items() for i in members}
    last = scores(run, evaluated(run)[-1][1]) if run.rounds else {}
    meters = {name: of for name, of in run.exposure.items() if isinstance(of, Mapping)}
    spent = {unit: of for unit, of in run.privacy.items() if isinstance(of, Mapping)}
    return [
        {
            "client": int(i) if i.isdecimal() else i,
            "name": run.name_of(i),
            "cluster": ended.get(i),
            run.scale: _known(last.get(i)),
            "smallest_sum": least.get(i),
            **{name: _known(of.get(i)) for name, of in meters.items()},
            **{f"epsilon_{unit}": _known(((of.get("clients") or {}).get(i) or {}).get("epsilon")) for unit, of in spent.items()},
            **{f"delta_{unit}": _known(of.get("delta")) for unit, of in spent.items()},
        }
        for i in client_ids(run)
    ]


def _known(value: object) -> float | None:
    return found if (found := number(value)) == found else None
