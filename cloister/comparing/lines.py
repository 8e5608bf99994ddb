"""The lines of a comparison's table: of each method on a data set under a protection, every column as number and as words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import nan
from typing import Any

from ..fl.runs.results_folder import Row
from ..grids.spread import Spread, metric, spread
from ..reporting.byte_words import byte_words
from ..reporting.run_data import DASH
from .data import Found, Spot
from .verdict import Standing, standings

DAGGER, STAR, MINUS = "\u2020", "*", "\u2212"
ALL_UPDATES = "all updates"


@dataclass(frozen=True, slots=True)
class Line:
    """One method in one block. numbers: every column's, over the seeds; None where there is none. words: every column's, as
    shown. instead: why there is no result, whole; empty where there is one. lacks: what its mean is not over (`Found.lacks`).
    """

    data: str
    protection: str
    method: str
    numbers: Mapping[str, Spread | None]
    words: Mapping[str, str]
    standing: Standing | None
    instead: str
    lacks: str = ""

    @property
    def accuracy(self) -> str:
        """The mean accuracy; where it is not over all seeds and clients, why in a word, behind it or in its place."""
        if self.numbers["accuracy"] is None:
            return self.instead.partition(":")[0] or DASH
        return self.words["accuracy"] + not_all(self.lacks)

    @property
    def best(self) -> bool:
        """Whether no method has a higher mean accuracy."""
        return self.standing is not None and self.standing.best


COLUMNS: Mapping[str, str] = {
    "accuracy": "accuracy, %",
    "worst": "worst client, %",
    "over_yardstick": "over {yardstick}, points",
    "clusters": "clusters",
    "ari": "ARI",
    "purity": "FLIC's purity",
    "up": "up, a client",
    "down": "down, a client",
    "cpu_seconds": "CPU s",
    "span": "span",
    "undecided": "undecided pairs",
}
"""Columns with a number by their key; those of the comparison's own measures and of attacks come after them."""


def not_all(lacks: str) -> str:
    """What stands behind a mean that is not over all of something; empty of one that is."""
    return f", not all {lacks}" if lacks else ""


def columns(found: Found) -> dict[str, str]:
    """Key and heading of all columns with a number."""
    known = {key: heading.format(yardstick=found.about["yardstick"]) for key, heading in COLUMNS.items()}
    if found.about["yardstick"] not in found.methods:
        del known["over_yardstick"]
    return known | {f"measure {m}": f"{m}, %" for m in found.measures} | {f"attack {a}": f"under {a}, %" for a in found.attacks}


def block_lines(found: Found, data: str, protection: str) -> list[Line]:
    """The lines of a block, in the order of the methods."""
    standing = standings(found, data, protection)
    return [_line(found, Spot(data, m, protection), standing.get(m)) for m in found.methods]


def _line(found: Found, spot: Spot, standing: Standing | None) -> Line:
    lines = found.lines(spot)
    numbers: dict[str, Spread | None] = {
        "accuracy": found.over_seeds(spot, "accuracy", "mean"),
        "worst": found.over_seeds(spot, "accuracy", "worst"),
        "over_yardstick": _over(found, spot),
        "clusters": found.over_seeds(spot, "clusters", "count"),
        "ari": found.over_seeds(spot, "clusters", "ari"),
        "purity": found.over_seeds(spot, "clusters", "purity"),
        "up": spread(metric(row, "bytes_up") / row["clients"] for row in lines),
        "down": spread(metric(row, "bytes_down") / row["clients"] for row in lines),
        "cpu_seconds": found.over_seeds(spot, "cost", "seconds"),
        "span": found.over_seeds(spot, "pieced_together", "span", "largest"),
        "undecided": spread(_undecided(row) for row in lines),
        "withheld": found.over_seeds(spot, "withheld"),
    }
    words = {key: say(numbers[key]) for key, say in _SAID.items()}
    words["over_yardstick"] += not_all(_over_lacks(found, spot)) if numbers["over_yardstick"] else ""
    for name in found.measures:
        numbers[f"measure {name}"] = found.over_seeds(spot, "measures", name)
        words[f"measure {name}"] = _percent(numbers[f"measure {name}"])
    if any(holds_updates(row) for row in lines):
        words["span"] = ALL_UPDATES
    for attack in found.attacks:
        under = Spot(spot.data, spot.method, spot.protection, attack)
        numbers[f"attack {attack}"] = found.over_seeds(under, "accuracy", "mean")
        numbers[f"lost {attack}"] = spread(_lost(found, spot, under))
        numbers[f"success {attack}"] = found.over_seeds(under, "success")
        numbers[f"attackers {attack}"] = spread(len(row["members"]) for row in found.lines(under) if "members" in row)
        words[f"attack {attack}"] = _attacked(found, under, numbers)
    if any(row.get("nothing_summed") for row in lines):
        words["accuracy"] += " (nothing summed)"
    words["learned"] = ", ".join(_whats(lines[0])) if lines else DASH
    words["searched"] = found.searched(spot.method)
    words["settings"] = _settings(found, spot)
    words["verdict"] = DASH if standing is None else standing.words
    return Line(spot.data, spot.protection, spot.method, numbers, words, standing, found.without(spot), found.lacks(spot))


def holds_updates(row: Row) -> bool:
    """Whether the server held every update of a run in which clients sent any."""
    return bool(row["pieced_together"].get("sees")) and metric(row, "bytes_up") > 0


def _percent(spot: Spread | None) -> str:
    return _with_deviation(spot, 100, 1)


def _with_deviation(spot: Spread | None, scale: float, digits: int) -> str:
    """The mean and the standard deviation over seeds: "93.1 ±0.4"; of two seeds both, "93.1 (92.0 and 94.2)"."""
    if spot is None:
        return DASH
    mean, *ends = (f"{scale * value:.{digits}f}" for value in (spot.mean, spot.least, spot.most))
    if spot.count == 2:
        return f"{mean} ({' and '.join(ends)})"
    return f"{mean} ±{scale * spot.deviation:.{digits}f}" if spot.tells else mean


def _signed(spot: Spread | None) -> str:
    return DASH if spot is None else points(spot.mean)


def points(gap: float) -> str:
    """A difference of accuracies in points, with its sign."""
    words = f"{100 * gap:+.1f}"
    return "0.0" if words in ("+0.0", "-0.0") else words.replace("-", MINUS)


_SAID: Mapping[str, Callable[[Spread | None], str]] = {
    "accuracy": _percent,
    "worst": _percent,
    "over_yardstick": _signed,
    "clusters": lambda spot: _with_deviation(spot, 1, 1),
    "ari": lambda spot: _with_deviation(spot, 1, 2),
    "purity": lambda spot: _with_deviation(spot, 1, 2),
    "up": lambda spot: DASH if spot is None else byte_words(spot.mean),
    "down": lambda spot: DASH if spot is None else byte_words(spot.mean),
    "cpu_seconds": lambda spot: DASH if spot is None else f"{spot.mean:.3g}",
    "span": lambda spot: DASH if spot is None else f"{spot.mean:.2f}",
    "undecided": lambda spot: DASH if spot is None else f"{100 * spot.mean:.0f} %",
}


def _over(found: Found, spot: Spot) -> Spread | None:
    """By how much the method is above the yardstick, over the seeds that both have."""
    if found.about["yardstick"] not in found.methods or found.about["yardstick"] == spot.method:
        return None
    base = found.by_seed(Spot(spot.data, found.about["yardstick"], spot.protection), "accuracy", "mean")
    return spread(v - base.get(seed, nan) for seed, v in found.by_seed(spot, "accuracy", "mean").items())


def _over_lacks(found: Found, spot: Spot) -> str:
    """What that is not over, of the method's runs or of the yardstick's."""
    both = [found.lacks(spot), found.lacks(replace(spot, method=found.about["yardstick"]))]
    return " and ".join(what for what in ("seeds", "clients") if any(what in of for of in both))


def _undecided(row: Row) -> float:
    """The share of pairs of clients that were never decided; NaN where none is."""
    pairs = metric(row, "compared", "pairs")
    return 1 - metric(row, "compared", "decided") / pairs if pairs > 0 else nan


def _lost(found: Found, spot: Spot, under: Spot) -> list[float]:
    """What the loyal clients of each seed lost against the run without attack."""
    clean = {row["seed"]: row["accuracy"]["of"] for row in found.lines(spot)}
    gaps = []
    for row in found.lines(under):
        of, before = row["accuracy"]["of"], clean.get(row["seed"], {})
        common = [before[i] - v for i, v in of.items() if i in before]
        gaps.append(sum(common) / len(common) if common else nan)
    return gaps


def _attacked(found: Found, under: Spot, numbers: Mapping[str, Spread | None]) -> str:
    """Accuracy of the loyal clients, what they lost, and how often a backdoor opens; or why there is nothing."""
    accuracy = numbers[f"attack {under.attack}"]
    if under.protection not in found.attacked:
        return DASH
    if accuracy is None:
        return found.without(under).partition(":")[0] or DASH
    lost, success = numbers[f"lost {under.attack}"], numbers[f"success {under.attack}"]
    words = f"{_percent(accuracy)} ({_signed(_negative(lost))}{_on(lost, accuracy)}){not_all(found.lacks(under))}"
    return words if success is None else f"{words}, opens {100 * success.mean:.0f} %{_on(success, accuracy)}"


def _on(of: Spread | None, accuracy: Spread) -> str:
    """On how many seeds a number is, where on fewer than the accuracy beside it; empty where on as many, or on none."""
    return f" on {of.count} of {accuracy.count} seeds" if of is not None and of.count < accuracy.count else ""


def _negative(spot: Spread | None) -> Spread | None:
    return None if spot is None else Spread(-spot.mean, spot.half, -spot.most, -spot.least, spot.count, spot.deviation)


def _whats(row: Row) -> list[str]:
    """Names of what the servers were told, whoever of them."""
    parties = [lines for party, lines in row["learned"].items() if party != "clients"]
    return list(dict.fromkeys(str(line["what"]) for lines in parties for line in lines)) or ["nothing"]


def _settings(found: Found, spot: Spot) -> str:
    """The configuration that was chosen, in words."""
    choice = found.choices[spot.data, spot.method]
    if choice is None or choice.configuration is None:
        return DASH
    chosen: Mapping[str, Any] = found.method(spot.method)["configurations"][choice.configuration]
    return ", ".join(f"{path.removeprefix('algorithm.')} = {_value(value)}" for path, value in chosen.items()) or DASH


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{k}={_value(v)}" for k, v in value.items() if k != "type")
        return f"{value.get('type', '')}({inside})"
    return f"{value:g}" if isinstance(value, float) else str(value)


def marked(found: Found, method: str) -> str:
    """The method's name with its marks: second-hand, other work."""
    of = found.method(method)
    return method + DAGGER * bool(of["second_hand"]) + STAR * bool(of["work"])
