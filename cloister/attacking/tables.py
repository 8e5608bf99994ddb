"""A search on the terminal, as JSON, and in a sentence. It never says that a defence is safe."""

from typing import Any

from rich.table import Table

from ..threat_models.search.found import Point, worst
from .data import Search, curve, said

DASH = "-"


def verdict(search: Search) -> str:
    """What was found, in a few sentences."""
    about = search.about
    spent = f"{len(search.rows)} runs, {search.seconds:.0f} CPU seconds"
    cheapest = search.found.get("cheapest")
    if cheapest is None:
        most = worst(search.points.values())
        if most is None:
            return f"Nothing was {'tried yet' if not search.points else 'tried that could be played'} ({spent})."
        held = f" {search.refuted} did on the seeds searched, and did not hold on others." if search.refuted else ""
        held += (
            f" {search.open} did there and could not be tried on all others: a larger budget says more." if search.open else ""
        )
        return (
            f"No break found in {spent}, by {about['least']} to {about['most']} of {about['clients']} clients, at"
            f" {len(search.points)} points; this does not say that there is none.{held} The worst: {_did(most)} by"
            f" {most.attackers}, {said(most.numbers)}. A break {break_words(search)}."
        )
    seeds = ", ".join(map(str, about["held_out"]))
    fewer = f" With fewer, none was found in {cheapest['fewer_tried']} points." if cheapest["fewer_tried"] else ""
    return (
        f"Broken by {cheapest['attackers']} of {about['clients']} clients: {cheapest['said']}: {cheapest['did']}; it holds on"
        f" every seed that was held out ({seeds}). Found in {spent}, the first break after {cheapest['after_runs']} runs and"
        f" {cheapest['after_seconds']:.0f} CPU seconds.{fewer}"
    )


def break_words(search: Search) -> str:
    """What would have been one."""
    bounds = search.bounds
    last = f"mean of the last {100 * bounds.share:g} % of the evaluations"
    words = {
        "accuracy": f"costs loyal clients over {bounds.loss:g} of accuracy against the run without the attackers' data, {last}",
        "backdoor": f"lets a backdoor succeed more often by {bounds.success:g} than without the attackers' data",
    }
    return ", or ".join(text for goal, text in words.items() if bounds.goal in ("any", goal))


def _did(point: Point) -> str:
    """What a point did, in the mean of the seeds that it was played on."""
    seen = [*point.searched.values(), *point.held_out.values()]
    rates = [(h.success, h.absent) for h in seen if h.success is not None and h.absent is not None]
    words = f"loses {point.loss:.3f} of accuracy (the client that loses most {max(h.client for h in seen):.3f})"
    if rates:
        success, absent = (sum(pair[k] for pair in rates) / len(rates) for k in (0, 1))
        words += f", backdoor success {100 * success:.1f} % (without the attackers' data {100 * absent:.1f} %)"
    return words


def point_json(point: Point) -> dict[str, Any]:
    """A point with what it did on every seed."""
    harms = {"searched": point.searched, "held_out": point.held_out}
    return {
        "attackers": point.attackers,
        "said": said(point.numbers),
        "numbers": dict(point.numbers),
        "severity": point.severity,
        "loss": point.loss,
        "did": _did(point),
        "seeds": {
            kind: {
                str(seed): {"loss": h.loss, "client": h.client, "success": h.success, "absent": h.absent, "severity": h.severity}
                for seed, h in of.items()
            }
            for kind, of in harms.items()
        },
    }


def curve_table(search: Search) -> Table:
    """How loss grows with cost."""
    about = search.about
    table = Table(title=f"{about['name']} against {about['defence']}: the worst that was found", title_justify="left")
    for column in ("attackers", "points", "broken", "loss", "backdoor"):
        table.add_column(column, justify="right")
    table.add_column("worst")
    for row in curve(search):
        success = DASH if row["success"] is None else f"{100 * row['success']:.0f} %"
        broken = "yes" if row["broken"] else DASH
        table.add_row(str(row["attackers"]), str(row["tried"]), broken, f"{row['loss']:.3f}", success, row["worst"] or DASH)
    return table


def search_json(search: Search) -> dict[str, Any]:
    """Everything that the report says, without the lines."""
    return {
        "name": search.about["name"],
        "defence": search.about["defence"],
        "verdict": verdict(search),
        "runs": len(search.rows),
        "points": len(search.points),
        "seconds": search.seconds,
        "bounds": search.about["bounds"],
        "curve": curve(search),
        "growth": [list(step) for step in search.growth()],
        "refuted": search.refuted,
        "failed": dict(search.failed),
        "left_out": search.about["left_out"],
        **search.found,
    }
