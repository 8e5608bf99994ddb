"""A search on the terminal, as JSON, and in a sentence. It never says that a defence is safe."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.markup import escape
from rich.table import Table

from ..grids.spread import in_points
from ..threat_models.broken import broken_words
from ..threat_models.search.found import Point, given_up, worst, worst_searched
from .data import Search, curve, found_words
from .points import counts_words, figures_words, played_by, point_rows, shown, unplayed, unplayed_words, with_interval
from .words import said

GOALS = {"any": "", "accuracy": " of accuracy, which alone was sought,", "backdoor": " by a backdoor, which alone was sought,"}
"""What kind of break was not found."""


def verdict(search: Search) -> str:
    """What was found, in a few sentences."""
    about = search.about
    budget = about.get("runs")
    left = f" (those that earlier searches left in the folder among them; the budget was {budget})"
    spent = f"{len(search.rows)} runs{left if budget and len(search.rows) > budget else ''}, {search.seconds:.0f} CPU seconds"
    cheapest = search.found.get("cheapest")
    yet = f" Yet {about['defence']} {search.nothing}." if search.nothing else ""
    if (one := search.unsettled) is not None:
        return (
            f"Broken by {one.attackers} of {about['clients']} clients{_limit(search, one.attackers)}: {said(one.numbers)}:"
            f" {_did(one)}; broken on every seed"
            f" that was held out, too. The search was stopped after {spent}: --resume goes on, and may find a cheaper one."
            f"{unplayed_words(search)}{yet}"
        )
    if cheapest is None:
        most = worst(search.points.values())
        if most is None:
            nothing = "tried that could be played, which says nothing of the defence" if search.points else "tried yet"
            return f"Nothing was {nothing} ({spent})."
        points = f"{len(search.played)} point{'s' * (len(search.played) != 1)}"
        failed = len(search.points) - len(search.played)
        points += f" ({failed} more could not be played)" if failed else ""
        held = f" {search.refuted} broke {search.seed_searched}, and did not hold on all others." if search.refuted else ""
        if cut := [point for point in search.points.values() if search.without(point)]:
            held += f" {len(cut)} broke {search.seed_searched}{_as_far(search, cut)}, and had no result on another"
            held += f" ({cut[0].why.rstrip('.')})."
        if little := [point for point in search.played if search.undecided(point)]:
            held += f" {len(little)} had no result on one of the seeds searched ({little[0].why.rstrip('.')}), and"
            held += f" {'is' if len(little) == 1 else 'are'} not known to be no break."
        held += (
            f" {search.open} broke {search.seed_searched} and could not be tried on all others: a larger budget says more."
            if search.open
            else ""
        )
        if search.nothing:
            return (
                f"{about['defence']} {search.nothing}: there was nothing to take, and {len(search.played)}"
                f" point{'s' * (len(search.played) != 1)} in {spent} say nothing of it; more rounds, or another learning rate."
                f"{held}"
            )
        return (
            f"No break{GOALS[about['goal']]} found in {spent}, by {played_by(search)}, at {points}; this does not say that there"
            f" is none.{held}{unplayed_words(search)} The worst{_in_the_mean(search)}: {_did(most)} by {most.attackers},"
            f" {said(most.numbers)}.{_worse_where_searched(search, most)}{_of_clean(search, most)}{_erred(search)}"
        )
    seeds = ", ".join(map(str, about["held_out"]))
    by = cheapest["attackers"]
    return (
        f"Broken by {by} of {about['clients']} clients{_limit(search, by)}: {cheapest['said']}: {cheapest['did']}; broken on"
        f" every seed that was held out ({seeds}), too. Found in {spent}, the first break after {cheapest['after_runs']} runs and"
        f" {cheapest['after_seconds']:.0f} CPU seconds.{_with_fewer(search, by)}"
        f"{unplayed_words(search)}{yet}"
    )


def _as_far(search: Search, cut: Sequence[Point]) -> str:
    """That some of these points broke the seeds searched as far as those have a result; empty where all have."""
    return " that have a result" if any(map(search.missing, cut)) else ""


def _in_the_mean(search: Search) -> str:
    """That points are ranked by means, where any was played on several seeds."""
    several = any(len(point.seen) > 1 for point in search.played)
    return ", each in the mean of the seeds that it was played on" if several else ""


def _worse_where_searched(search: Search, most: Point) -> str:
    """A point that did more on the seeds that were searched than the worst did there, though not in the mean of all that it was
    played on: a sentence, or empty.
    """
    top = worst_searched(search.points.values())
    if top is None or top.severity_searched <= most.severity_searched:
        return ""
    there, all_ = (_did(replace(top, held_out=of)) for of in ({}, top.held_out))
    return (
        f" On {search.seed_searched} alone {said(top.numbers)} by {top.attackers} {there}; on all that it was played on {all_}."
    )


def _limit(search: Search, attackers: int) -> str:
    """For how many in a round the defence is built, in brackets; empty where it states no number."""
    limit, drawn = search.about.get("built_for"), search.about.get("in_a_round", search.about["clients"])
    if limit is None:
        return ""
    if drawn < search.about["clients"]:  # how many attackers are among them differs by round
        return f" (it is built for {limit} of the {drawn} that are drawn in a round)"
    return (
        f" (beyond the {limit} in a round that it is built for)"
        if attackers > limit
        else f" (it is built for {limit} in a round)"
    )


def _erred(search: Search) -> str:
    """That points ended in an error, which may be the defence's own: who attacks so stops the run, and no loss is measured."""
    erred = [point for point in search.points.values() if point.erred]
    if not erred:
        return ""
    several = f"{len(erred)} points ended" if len(erred) > 1 else "1 point ended"
    return (
        f" {several} in an error, first {said(erred[0].numbers)} by {erred[0].attackers}:"
        f" {(erred[0].error or erred[0].why).rstrip('.')}. Where it"
        " is the defence's, an attacker stops the run with it, which counts for no break here."
    )


def _of_clean(search: Search, worst: Point) -> str:
    """What is taken of the accuracy without attack, where that is above the bound though the loss that counts is not: a defence
    may be worse without those clients for want of their data, or because it gives up, which no number tells. A sentence, or
    empty.
    """
    found, bound = search.of_clean(), search.sought.bounds.loss
    if found is None or found[1] <= bound or worst.loss > bound:
        return ""
    point, taken = found
    if point.loss > bound:
        return ""
    mean = " in the mean" if len(point.seen) > 1 else ""
    by = f"{point.attackers}, {said(point.numbers)}"
    return (
        f" Of the accuracy without attack {in_points(taken)} points were taken{mean}, by {by};"
        f" of that without these clients' data, by which a break is told, no more than the bound{mean}. If the defence has"
        " less then as it gives up without them, and not for want of their data, it is a break."
    )


def _with_fewer(search: Search, attackers: int) -> str:
    """What was seen with fewer attackers than the cheapest break has, as sentences; empty where nothing was played."""
    weaker = [p for p in search.played if p.attackers < attackers]
    left, refuted = sum(map(search.unconfirmed, weaker)), [p for p in weaker if p.refuted()]
    cut, little = sum(map(search.without, weaker)), sum(map(search.undecided, weaker))
    if not weaker:
        least = search.about["least"]
        if tried := [p for p in search.points.values() if p.attackers < attackers]:
            counts = counts_words(p.attackers for p in tried)
            points = f"{len(tried)} point{'s' * (len(tried) != 1)}"
            return f" With fewer ({counts}), none of {points} could be played ({tried[0].why.rstrip('.')})."
        return f" Fewer ({least:g} to {attackers - 1}) were not tried: a larger budget says more." if attackers > least else ""
    fewer = f"With fewer ({counts_words(p.attackers for p in weaker)})"
    if not (left or refuted or cut or little):
        return f" {fewer}, none was found in {len(weaker)} point{'s' * (len(weaker) != 1)}."
    told = (
        [f"{left} broke {search.seed_searched} and could not be tried on all others (a larger budget says more)"] if left else []
    )
    told += [f"{cut} broke {search.seed_searched} and had no result on another"] if cut else []
    told += [f"{little} had no result on one of the seeds searched"] if little else []
    told += [f"{len(refuted)} broke {search.seed_searched} and did not hold on all others"] if refuted else []
    top = worst(refuted)
    words = f" {fewer}, {len(weaker)} {'point was' if len(weaker) == 1 else 'points were'} tried, of which {'; '.join(told)}"
    return f"{words}. The worst of the last: {_did(top)} by {top.attackers}." if top else f"{words}."


def break_words(search: Search) -> str:
    """What is one, as the end of "broken is a defence where ..."."""
    rule = "; in a search a break is one in the mean of the seeds searched and on every seed that was held out"
    return broken_words(search.sought.bounds, search.sought.goal) + rule


def failed_words(search: Search) -> str:
    """How many points could not be played, the most frequent reason, and which attacks were given up; empty where all were."""
    if not search.failed:
        return ""
    reason, often = max(search.failed.items(), key=lambda pair: pair[1])
    words = (
        f"Not played: {len(search.points) - len(search.played)} of {len(search.points)} points; most often ({often}): {reason}."
    )
    without = sorted(given_up(search.points.values()))
    return words + (f" Given up, as its first points all failed alike: {', '.join(without)}." if without else "")


def _did(point: Point) -> str:
    """What a point did, in the mean of the seeds that it was played on."""
    seen = point.seen
    rates = [(h.success, h.clean) for h in seen if h.success is not None and h.clean is not None]
    most, any_seed = in_points(max(h.client for h in seen)), ", in any seed," if len(seen) > 1 else ":"
    words = f"loses {in_points(point.loss)} points of accuracy (the client that loses most{any_seed} {most})"
    if ends := [h.end for h in seen if h.end is not None]:
        on = f" on {len(ends)} of {len(seen)} seeds" * (len(ends) < len(seen))
        words += f", {in_points(sum(ends) / len(ends))} points in the last evaluation{on}"
    if rates:
        success, clean = (sum(pair[k] for pair in rates) / len(rates) for k in (0, 1))
        words += f", backdoor success {100 * success:.1f} % (on the models without attack {100 * clean:.1f} %)"
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
                str(seed): {
                    "loss": h.loss,
                    "end": h.end,
                    "client": h.client,
                    "success": h.success,
                    "clean": h.clean,
                    "severity": h.severity,
                }
                for seed, h in of.items()
            }
            for kind, of in harms.items()
        },
    }


def points_table(search: Search) -> Table:
    """A row for each of the points that are worth a look, as it was played."""
    about = search.about
    title = f"{about['name']} against {about['defence']}: points that were played, the worst of each number of attackers first"
    rows = shown(search)
    table = Table(title=f"{title}; figures in points of 100: {figures_words(rows)}", title_justify="left")
    for column in ("attackers", "point", "verdict", "loss", "worst client", "backdoor gained", "CPU s"):
        left = column in ("point", "verdict")
        table.add_column(column, justify="left" if left else "right")
    for row in rows:
        client = in_points(row["worst_client"])
        words = (row["point"], row["verdict"], with_interval(row, "loss"), client, with_interval(row, "gained"))
        table.add_row(str(row["attackers"]), *map(escape, words), f"{row['seconds']:.2f}")
    return table


def curve_table(search: Search) -> Table:
    """How harm grows with cost: of each number of attackers the largest loss and the largest gain, of whatever points."""
    title = "How harm grows with the number of attackers: the largest of any point, in points of 100"
    table = Table(title=title, title_justify="left")
    for column in ("attackers", "points played", "largest loss", "largest gain of a backdoor", "a break"):
        table.add_column(column, justify="right")
    for row in curve(search):
        figures = [in_points(row[name]) for name in ("loss", "gained")]
        table.add_row(str(row["attackers"]), str(row["tried"] - row["failed"]), *figures, found_words(row))
    return table


def as_given_words(search: Search) -> str:
    """Attacks of the user's own of which nothing was varied; empty where there are none."""
    given = search.about.get("as_given") or {}
    if not given:
        return ""
    named = "; ".join(f"{name} with {made}" for name, made in given.items())
    return f"Played as given, and not varied: {named}. Fields of a dataclass are searched, in the attacks.Span that they name."


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
        "broken": break_words(search),
        "table": point_rows(search),
        "curve": curve(search),
        "growth": [list(step) for step in search.growth()],
        "refuted": search.refuted,
        "failed": dict(search.failed),
        "not_played": failed_words(search),
        "untried": unplayed(search),
        "left_out": search.about["left_out"],
        "as_given": dict(search.about.get("as_given") or {}),
        **search.found,
    }
