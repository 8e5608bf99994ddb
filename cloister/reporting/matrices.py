"""The similarity matrices of the report: of clusters as they were split, and of stored updates as rounds went by."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .hues import HUES
from .matrix_picture import draw_matrix
from .run_data import Row, Run, client_ids, final_clusters, number, sorted_ids

VALUES_SHOWN = 60
"""Most clients of a matrix whose numbers the page holds."""
ROUNDED = 1e-5
"""What a matrix's similarities may be off."""
FILLINGS = 3
"""Most rounds in which the matrix of stored updates is shown."""


def matrix_panel(run: Run, split: Row, hues: Mapping[str, int]) -> dict[str, Any]:
    """A split's similarity matrix, ordered by child and then id, with what its caption says.

    across: the largest between children in the matrix, where `cross` is another, with the mean put back (`put_back`).
    """
    clients = [str(i) for i in split.get("clients") or []]
    children = {str(name): sorted_ids(ids) for name, ids in sorted((split.get("children") or {}).items())}
    kin = run.kin
    row = {i: r for r, i in enumerate(clients)}
    order = [i for ids in children.values() for i in ids if i in row]
    values = np.array([[number(v) for v in line] for line in split.get("similarity") or []], dtype=np.float64)
    drawable = bool(order) and values.shape == (len(clients), len(clients))
    sizes = {name: sum(i in row for i in ids) for name, ids in children.items()}
    picture, shown, cross, apart = None, None, number(split.get("cross")), math.nan
    if drawable:
        index = [row[i] for i in order]
        values = values[np.ix_(index, index)]
        side = np.repeat([*range(len(sizes))], [*sizes.values()])
        parted = values[side[:, None] != side]
        apart = float(np.nanmax(parted)) if np.isfinite(parted).any() else math.nan
        picture = draw_matrix(values, sizes, [hues.get(kin.get(i, ""), HUES - 1) for i in order])
        if len(order) <= VALUES_SHOWN:
            shown = {
                "ids": [run.name_of(i) for i in order],
                "cells": [[None if math.isnan(v) else round(v, 2) for v in line] for line in values.tolist()],
            }
    named = {"cluster": str(split.get("cluster", "?")), "round": split.get("round"), "children": children, "sizes": sizes}
    put_back = split.get("about") == "mean" and abs(apart - cross) > ROUNDED
    named |= {"centred": split.get("about") == "mean", "across": apart if put_back else cross, "put_back": put_back}
    return named | {"picture": picture, "shown": shown} | {k: number(split.get(k)) for k in ("cross", "gap", "gamma")}


def filling_panels(run: Run, hues: Mapping[str, int]) -> list[dict[str, Any]]:
    """The matrix of the most recent updates as it fills up: the first round that recorded it, the last, and one between.

    All clients have a row from the first on, in the order of the communities that were found last (or, without any, of the
    clusters at the end), within one planted groups together; a client that was not seen yet is a gap. inside, across: mean
    cosines of two clients of one community, and of two.
    """
    kept = [line for line in run.similarities if line.get("clients")]
    chosen = [kept[k] for k in sorted({round(k) for k in np.linspace(0, len(kept) - 1, FILLINGS)})] if kept else []
    found = [of["communities"] for line in run.rounds for of in (line.get("detected") or {}).values() if of.get("communities")]
    named = {f"{k}": sorted_ids(ids) for k, ids in enumerate(found[-1], 1)} if found else final_clusters(run)
    place = {i: name for name, members in named.items() for i in members}
    everybody = {*client_ids(run), *(str(i) for line in chosen for i in line["clients"])}
    parts = {name: k for k, name in enumerate(named)}
    group = {i: hues.get(run.kin.get(i, ""), HUES - 1) for i in everybody}
    order = sorted(sorted_ids(everybody), key=lambda i: (parts.get(place.get(i, ""), len(parts)), group[i]))
    sizes = dict(Counter(place.get(i, "none") for i in order))
    said = {"order": "communities found last" if found else "clusters at the end"}
    edge, names = [group[i] for i in order], [run.name_of(i) for i in order]
    return [_filling(line, order, sizes, edge, place, names) | said for line in chosen]


def _filling(
    line: Row,
    order: Sequence[str],
    sizes: Mapping[str, int],
    edge: Sequence[int],
    place: Mapping[str, str],
    names: Sequence[str],
) -> dict[str, Any]:
    """One of the matrices; without a picture where what was recorded is no matrix of its clients."""
    row = {i: r for r, i in enumerate(order)}
    at = [row[str(i)] for i in line["clients"]]
    recorded = [[number(v) for v in cells] for cells in line.get("similarity") or []]
    panel = {"round": line.get("round"), "seen": len(at), "clients": len(order), "sizes": sizes, "picture": None, "shown": None}
    panel |= {"known": math.nan, "inside": math.nan, "across": math.nan, "centred": line.get("about") == "mean"}
    if len(recorded) != len(at) or any(len(cells) != len(at) for cells in recorded):
        return panel
    values = np.full((len(order), len(order)), np.nan)
    values[np.ix_(at, at)] = recorded
    values[at, at] = 1.0
    there = np.isfinite(values) & ~np.eye(len(order), dtype=np.bool_)
    same = np.array([[place.get(i) == place.get(j) for j in order] for i in order])
    means = {
        key: float(values[where].mean()) for key, where in (("inside", there & same), ("across", there & ~same)) if where.any()
    }
    known = {"known": there.sum() / max(1, len(order) * (len(order) - 1))}
    if len(order) <= VALUES_SHOWN:
        cells = [[None if math.isnan(v) else round(v, 2) for v in line] for line in values.tolist()]
        panel |= {"shown": {"ids": list(names), "cells": cells}}
    return panel | known | means | {"picture": draw_matrix(values, sizes, edge)}
