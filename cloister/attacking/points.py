"""The points of a search as tidy rows: each is one point that was played, with what it did and what it costs."""

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from ..grids.spread import Spread, in_points, spread
from ..tables_out import SHARE, markdown_of
from ..threat_models.broken import LOWER
from ..threat_models.search.found import MULTIPLY, Point
from ..threat_models.search.who import who
from .data import Search
from .words import said

SHOWN = 12
"""Rows of the table on the terminal and of the page."""
NAMED = 6
"""Attacks that are named where none of them was played."""


def point_rows(search: Search) -> list[dict[str, Any]]:
    """A row for each point that was played, the most severe first.

    attackers, share: how many of the clients attack. strength: the attack's own, with its name in `strength_of`; times: by what
    is multiplied what is sent, beside it. loss: of accuracy of loyal clients, mean over the seeds that were played, with
    Student's t interval of the mean at 95 %, cut to what can be (None of fewer than three), and the least and the most of any
    seed; gained: of a backdoor, likewise; worst_client: the largest loss of any client in any seed; all as shares.
    severity: times the bound that it comes nearest to or passes.
    verdict: "breaks" if it does on every seed that was held out too. seconds: of CPU, of its runs.
    """
    holds = "nothing to take" if search.nothing else "no break"
    return [_row(search, point, holds) for point in sorted(search.points.values(), key=lambda p: (bool(p.failed), -p.severity))]


def _row(search: Search, point: Point, holds: str) -> dict[str, Any]:
    numbers, about = point.numbers, search.about
    own: str | None = about["strengths"].get(str(numbers["attack"]))
    name = own if own in numbers else next((n for n in numbers if n.endswith(".factor")), None)
    seen = [] if point.failed else point.seen
    loss, gain = spread(h.loss for h in seen), spread(h.gained for h in seen if h.gained is not None)
    return {
        "attackers": point.attackers,
        "share": point.attackers / about["clients"],
        "attack": str(numbers["attack"]),
        "strength_of": name,
        "strength": None if name is None else float(numbers[name]),
        "times": prod(float(value) for key, value in numbers.items() if key.endswith(MULTIPLY) and key != name),
        "schedule": _schedule(point),
        "members": " ".join(map(str, who(numbers).values())),
        "point": said(numbers),
        "verdict": verdict_of(search, point, holds),
        **_figures("loss", loss),
        "worst_client": max((h.client for h in seen), default=None),
        **_figures("gained", gain),
        "unit": SHARE,
        "severity": None if point.failed else point.severity,
        "seeds": ",".join(map(str, point.searched)),
        "held_out": ",".join(map(str, point.held_out)),
        "seconds": point.seconds,
        "reason": point.why,
    }


def _schedule(point: Point) -> str:
    numbers = point.numbers
    kind = str(numbers.get("schedule", "always"))
    own = {k.removeprefix("schedule."): v for k, v in numbers.items() if k.startswith("schedule.")}
    words = ", ".join(f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in own.items())
    return f"{kind} ({words})" if words else kind


def _figures(name: str, of: Spread | None) -> dict[str, Any]:
    low, high = (None, None) if of is None or not of.tells else of.ends(-1)
    least, most = (None, None) if of is None else (of.least, of.most)
    ends = {f"{name}_low": low, f"{name}_high": high, f"{name}_least": least, f"{name}_most": most}
    return {name: None if of is None else of.mean, **ends}


def verdict_of(search: Search, point: Point, holds: str) -> str:
    """What a point did to the defence, in a word or two. holds: of one that broke nothing."""
    if point.failed:
        return "not played"
    if point.breaks(search.about["held_out"]):
        return "breaks"
    if search.undecided(point):
        return f"{holds} on {_seeds(point.searched)}, no result on {_seeds(search.missing(point))}"
    if not point.suspected:
        return holds
    there = [seed for seed, harm in point.held_out.items() if harm.severity > 1]
    searched = _seeds(point.searched) if search.missing(point) else search.seed_searched
    if point.without and not point.refuted():
        also = f" and on {_seeds(there)}" if there else ""
        return f"breaks on {searched}{also}, no result on {_seeds(point.without)}"
    if not there:
        return f"breaks on {searched}, " + ("not on others" if point.refuted() else "others not tried")
    rest = point.held_out if point.refuted() else search.about["held_out"]
    left = _seeds(seed for seed in rest if seed not in there)
    end = f"not on {left}" if point.refuted() else f"{left} not tried"
    return f"breaks on {searched} and on {_seeds(there)}, {end}"


def _seeds(seeds: Iterable[int]) -> str:
    """Seeds in words: "seed 1", "seeds 2 and 3"."""
    known = sorted(seeds)
    return f"seed{'s' * (len(known) != 1)} {counts_words(known)}"


def no_break(search: Search, point: Point) -> str:
    """Why a point that was played is no break, as far as is known; empty where it is one."""
    if point.breaks(search.about["held_out"]):
        return ""
    if search.unconfirmed(point):
        return "not known to be a break, as not tried on every seed held out"
    if search.without(point) or search.undecided(point):
        left = search.missing(point) if search.undecided(point) else point.without
        return f"not known to be a break, as it has no result on {_seeds(left)}"
    return "no break, as it does not hold on other seeds" if point.suspected else "no break"


def played_by(search: Search) -> str:
    """The numbers of attackers that were played, in words: "1 to 3, 5 and 8 of 10 clients"."""
    return f"{counts_words(p.attackers for p in search.played)} of {search.about['clients']} clients"


def unplayed(search: Search) -> list[str]:
    """Attacks that were not tried at all, of those that are searched."""
    seen = {str(value) for point in search.points.values() for value in point.numbers.values()}
    return [name for name in search.about.get("attacks", ()) if name not in seen]


def unplayed_words(search: Search) -> str:
    """A sentence on these, and why; empty where there is none."""
    left, about = unplayed(search), search.about
    if not left:
        return ""
    spent = bool(about["runs"]) and len(search.rows) >= about["runs"]
    spent |= about["minutes"] is not None and search.seconds >= 60 * about["minutes"]
    found = ", as a break was found before" if search.found.get("cheapest") else " yet"
    more = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
    return f" Not played{', for want of budget' if spent else found}: {', '.join(left[:NAMED])}{more}."


def counts_words(counts: Iterable[int]) -> str:
    """Numbers in words, three and more that follow each other as a span: "1 to 3, 5 and 8"."""
    spans: list[list[int]] = []
    for n in sorted(set(counts)):
        if spans and spans[-1][-1] == n - 1:
            spans[-1].append(n)
        else:
            spans.append([n])
    said = [word for of in spans for word in ([f"{of[0]} to {of[-1]}"] if len(of) > 2 else map(str, of))]
    return " and ".join(filter(None, [", ".join(said[:-1]), *said[-1:]]))


def shown(search: Search) -> list[dict[str, Any]]:
    """The rows that are looked at first: of each number of attackers the most severe point, then the most severe of all."""
    rows = [row for row in point_rows(search) if row["severity"] is not None]
    first = [next(row for row in rows if row["attackers"] == n) for n in sorted({row["attackers"] for row in rows})]
    cheapest = search.found.get("cheapest")
    first += [r for r in rows if cheapest and (r["attackers"], r["point"]) == (cheapest["attackers"], cheapest["said"])][:1]
    kept = [row for row in rows if any(row is one for one in first)]
    rest = [row for row in rows if not any(row is one for one in first)]
    return sorted([*kept, *rest[: max(0, SHOWN - len(kept))]], key=lambda row: (row["attackers"], -row["severity"]))


def with_interval(row: dict[str, Any], name: str) -> str:
    """A figure in points of 100 with its interval, as "12.0 (9.8 to 14.2)", of two seeds with both, "12.0 (9.8 and 14.2)"; a
    dash for none.
    """
    words = in_points(row[name])
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if row[name] is not None and low is None:
        least, most = row[f"{name}_least"], row[f"{name}_most"]
        return words if least == most else f"{words} ({in_points(least)} and {in_points(most)})"
    return words if low is None else f"{words} ({in_points(low)} to {in_points(high)})"


def figures_words(rows: Sequence[Mapping[str, Any]]) -> str:
    """What the figures of these rows are, by what stands in them."""
    of = [(row, name) for row in rows for name in ("loss", "gained") if row[name] is not None]
    interval = any(row[f"{name}_low"] is not None for row, name in of)
    both = any(row[f"{name}_low"] is None and row[f"{name}_least"] != row[f"{name}_most"] for row, name in of)
    marks = ["Student's t interval at 95 % (x to y)"] if interval else []
    marks += ["of two seeds both (x and y)"] if both else []
    brackets = f", with {', '.join(marks)}" if interval else f", {', '.join(marks)}" if marks else ""
    against = f"a loss is of accuracy, against {LOWER}"
    return f"{against}; loss and gain are means over the seeds that were played{brackets}; worst client: of any client and seed"


def markdown(search: Search, words: Sequence[str]) -> str:
    """What was found in words, and a table of all points."""
    heads = ("attackers", "point", "verdict", "loss, points", "worst client, points", "backdoor gained, points")
    body = []
    for row in point_rows(search):
        cells = [str(row["attackers"]), row["point"], row["verdict"], with_interval(row, "loss"), in_points(row["worst_client"])]
        body.append([*cells, with_interval(row, "gained"), row["seeds"], row["held_out"], f"{row['seconds']:.2f}"])
    table = markdown_of([*heads, "seeds", "held out", "CPU s"], body)
    figures = f"Figures in points of 100: {figures_words(point_rows(search))}."
    return "\n\n".join([f"# {search.about['name']}: {search.about['defence']} attacked", *words, figures, table]) + "\n"
