"""The report of a run: one HTML page, made from the run's folder alone, that needs nothing from anywhere else."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..fl.runs.declines import is_declined, why_declined
from .account_words import account_meters, account_notes
from .agreement import worth_at_first, worth_in_words
from .by_client import by_client
from .distances import distances_panel
from .gaps import gaps
from .headline import (
    attacked_in_words,
    privacy_in_words,
    trouble_in_words,
)
from .hues import HUES
from .matrices import filling_panels, matrix_panel
from .matrix_picture import MATRIX_PIXELS
from .page import environment, write_page
from .panels import (
    THIN_LINES,
    accuracy_chart,
    both_widths,
    cluster_lines,
    epsilons,
    grouping,
    has_clusters,
    has_norms,
    looks_for_splits,
    norms_chart,
    parties,
    traffic_charts,
    tree_panel,
    why_no_split,
)
from .pauses import of_cluster
from .repeat import how_to_repeat
from .run_data import (
    DASH,
    Run,
    average,
    client_ids,
    evaluated,
    final_clusters,
    flat,
    hue_of_groups,
    less_is_better,
    number,
    read_run,
    score_words,
    scores,
    sorted_ids,
    was_scored,
    worst,
)
from .run_tiles import UNKNOWN, tiles
from .run_verdict import stood_still, verdict
from .shut_slots import shut_to_the_end
from .told_by import partly_told
from .who_scored import told_scores, who_scored
from .who_was_there import differing, in_ranges, revoked_in_words, who_was_there, without_model

OF_DATA = {
    "AgreedColumns": "agreed columns",
    "AgreedImages": "agreed images",
    "CsvClients": "CSV files",
    "FolderClients": "images",
    "Given": "given data",
}
"""Loaders of a user's own data, as people say it."""
TABLE_ROUNDS = 40


def write_report(folder: Path) -> Path:
    """Writes `folder`/report.html from the run folder and returns its path.

    An interrupted run, which has no summary.json, gets the report of the rounds that it finished. Raises ValueError when the
    folder holds no run, or a file in it cannot be read.
    """
    run = read_run(folder)
    return write_page(folder, render(run))


def render(run: Run) -> str:
    """The page as text. Everything that comes from the run is escaped by the template."""
    pages = environment()
    pages.filters.update(
        client=run.name_of,
        count=lambda v: f"{v:,.0f}".replace(",", " ") if math.isfinite(v := number(v)) else DASH,
        score=lambda v: score_words(v, not run.in_percent),
    )
    template = pages.get_template("report.html.j2")
    ever, partly = partly_told(run)
    hues = hue_of_groups(run)
    lines = cluster_lines(run, scores, hues)
    marks = sorted({number(s.get("round")) for s in run.splits} - {math.nan})
    final = final_clusters(run)
    fillings, distances = filling_panels(run, hues), distances_panel(run, hues)
    refused = run.summary.get("rejected") or []
    looked = bool(fillings or run.pairs) or looks_for_splits(run)
    return template.render(
        run=run,
        summary=run.summary,
        title=str(run.summary.get("name") or run.scenario.get("name") or run.folder),
        facts=[str(run.summary[k]) for k in ("algorithm", "protection") if run.summary.get(k)] + data_in_words(run),
        verdict=" ".join(
            [verdict(run, final), *worth_at_first(run.summary), *stood_still(run), *shut_to_the_end(run), *revoked_in_words(run)]
        ),
        attacked=attacked_in_words(run),
        privately=privacy_in_words(run),
        tiles=tiles(run, final),
        legend=[(g, h % HUES, sum(v == g for v in run.kin.values())) for g, h in hues.items()],
        many_groups=len(hues) > HUES,
        accuracy=both_widths(accuracy_chart(run, lines, marks, hues)) if was_scored(run) else (),
        bands=len(client_ids(run)) > THIN_LINES,
        norms=both_widths(norms_chart(run, marks, hues)) if has_norms(run) else (),
        matrices=[matrix_panel(run, split, hues) for split in run.splits],
        fillings=fillings,
        distances=distances,
        averaged=MATRIX_PIXELS if any(len(s.get("clients") or []) > MATRIX_PIXELS for s in run.splits) else 0,
        no_split=why_no_split(run),
        looked=looked,
        clustered=looked or has_clusters(run) or not run.rounds,
        tree=tree_panel(run, hues),
        grouping=grouping(run, final, hues),
        meters=account_meters(run.summary.get("account") or {}, run.summary.get("names") or {}),
        account_notes=of_account(run),
        parties=parties(run),
        by_client=by_client(run) if run.answers else [],
        folder=run.path,
        scored=who_scored(run),
        told_scores=told_scores(run),
        missing="; ".join(gaps(run)),
        trouble=trouble_in_words(run.summary),
        privacy=epsilons(run),
        traffic=traffic_charts(run),
        table=table(run),
        ever=ever,
        partly=len(partly),
        conditions=run.summary.get("conditions") or [],
        rejected=in_ranges([row for row in refused if not is_declined(row)]),
        declined=in_ranges([row | {"reason": why_declined(row.get("reason", DASH))} for row in refused if is_declined(row)]),
        there=(there := who_was_there(run)),
        revocations=any(revoked for _, _, revoked in there),
        without_model=without_model(run),
        perhaps=without_model(run, "perhaps_without_model"),
        differing=differing(run),
        below_floor=in_ranges([row | {"cluster": of_cluster(row)} for row in run.summary.get("below_floor") or []]),
        fell_back=sorted_ids(run.summary.get("fell_back") or []),
        measured=measured(run),
        worth=[*worth_in_words(run.summary)],
        repeat=how_to_repeat(run),
        scenario=[*flat(run.scenario)] if run.scenario else [],
        **{key: [*flat(run.summary[key])] if run.summary.get(key) else [] for key in ("versions", "machine")},
    )


def of_account(run: Run) -> list[str]:
    """What goes with the meters; empty where there are none."""
    protection, account = run.scenario.get("protection"), run.summary.get("account")
    k = number(protection.get("k")) if isinstance(protection, Mapping) else math.nan
    return account_notes(account, str(run.summary.get("protection")), int(k) if math.isfinite(k) else 0) if account else []


def data_in_words(run: Run) -> list[str]:
    """What the data are, as people say it: those of a user's own have classes of ours whose names say nothing."""
    name, described = str(run.summary.get("data") or ""), run.scenario.get("data")
    own = str(described.get("name") or "") if name == "Given" and isinstance(described, dict) else ""
    return [words] if (words := own or OF_DATA.get(name, name)) else []


def _worst_words(of: Mapping[str, Any]) -> str:
    """Of a metric of which nobody knows which way is better, between what clients are."""
    if of.get("less_is_better", False) is None:
        return f"{score_words(number(of.get('least')), True)} to {score_words(number(of.get('most')), True)}"
    return score_words(number(of.get("worst")), True)


def measured(run: Run) -> list[dict[str, str]]:
    """Metrics beside accuracy: mean, worst client, of how many clients each is defined, and which direction is good."""
    return [
        {
            "name": str(name),
            "mean": score_words(number(of.get("mean")), True),
            "worst": _worst_words(of),
            "clients": str(of.get("clients")),
            "better": {True: "lower", False: "higher", None: UNKNOWN}[less_is_better(str(name), of)],
        }
        for name, of in (run.summary.get("metrics") or {}).items()
    ]


def table(run: Run) -> list[dict[str, Any]]:
    """The curves as numbers: at most 40 rounds, evenly spaced, the last one among them."""
    rounds, (ever, partly) = evaluated(run), partly_told(run)
    picked = sorted({round(k) for k in np.linspace(0, len(rounds) - 1, min(TABLE_ROUNDS, len(rounds)))})
    rows = []
    for t, line in (rounds[k] for k in picked):
        measured = scores(run, line)
        client, low = worst(run, measured)
        mean = average(run, measured.values())
        clusters = len(line.get("clusters") or {})
        told = f"{len(measured)} of {ever}" if partly else ""
        rows.append({"round": f"{t:.0f}", "mean": mean, "worst": low, "client": client, "clusters": clusters, "told": told})
    return rows
