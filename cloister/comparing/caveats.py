"""What a comparison says of its own runs: of those without a result, and where a number is less than it looks."""

from itertools import product

from ..grids.withheld import withheld_words
from .data import Found, Spot
from .learning import learning_words


def caveats(found: Found) -> list[str]:
    """A line for each thing that whoever reads the table ought to know first."""
    return [
        *unattacked_words(found),
        *doubtful_words(found),
        *unsummed_words(found),
        *withheld_of(found),
        *learning_words(found),
        *at_an_end_words(found),
    ]


def unattacked_words(found: Found) -> list[str]:
    """A line for each reason for which an attack has no result against a method that has one without it."""
    why: dict[str, list[str]] = {}
    for (data, protection), method, attack in product(found.blocks, found.methods, found.attacks):
        spot = Spot(data, method, protection)
        if protection in found.attacked and found.lines(spot):
            reason = found.without(Spot(data, method, protection, attack))
            why.setdefault(reason, []).append(f"{attack} on {method}, {data} under {protection}")
    return [f"No result: {'; '.join(of)}: {reason}" for reason, of in why.items() if reason]


def at_an_end_words(found: Found) -> list[str]:
    """A line: which chosen numbers are the least or the largest of those that were searched; nothing where none is."""
    said = []
    for data, method in product(dict.fromkeys(data for data, _ in found.blocks), found.methods):
        configurations, choice = found.method(method)["configurations"], found.choices[data, method]
        if choice is None or choice.configuration is None:
            continue
        for path, value in configurations[choice.configuration].items():
            tried = {v for one in configurations if type(v := one.get(path)) in (int, float)}
            if len(tried) > 1 and value in (min(tried), max(tried)):
                said.append(f"{path} = {value:g} of {method} on {data} ({', '.join(f'{v:g}' for v in sorted(tried))})")
    return [f"Chosen at an end of what was searched, so that more beyond it may do better: {'; '.join(said)}."] if said else []


def doubtful_words(found: Found) -> list[str]:
    """A line for each thing that could not come to anything under a protection, as `cloister run` says it before it begins."""
    why: dict[str, dict[str, None]] = {}
    for (data, protection), method in product(found.blocks, found.methods):
        for row in found.lines(Spot(data, method, protection)):
            for words in row.get("doubts", ()):
                why.setdefault(words, {})[f"{method} on {data} under {protection}"] = None
    return [f"What could not come to anything: {'; '.join(of)}: {words}." for words, of in why.items()]


def unsummed_words(found: Found) -> list[str]:
    """Which methods summed no update in any round without attack, on which data, and why; nothing where none did."""
    said = []
    for data, protection in found.blocks:
        for method in found.methods:
            rows = [row for row in found.lines(Spot(data, method, protection)) if row.get("nothing_summed")]
            if rows:
                seeds = ", ".join(str(row["seed"]) for row in rows)
                of, why = (
                    f"{method} on {data} under {protection}",
                    "; ".join(dict.fromkeys(str(r["nothing_summed"]) for r in rows)),
                )
                said.append(f"{of} (seed{'s' * (len(rows) != 1)} {seeds}: {why})")
    return [f"In no round was an update summed, so that accuracies are of clients alone: {'; '.join(said)}."] if said else []


def withheld_of(found: Found) -> list[str]:
    """In how many rounds of which methods sums were withheld without attack, why at first, and what may help; nothing where in
    none, or where no update was summed at all.
    """
    spots = [Spot(data, method, protection) for data, protection in found.blocks for method in found.methods]
    rounds = {data: int(found.about["data"][data]["rounds"]) for data, _ in found.blocks}
    of = [(f"{s.method} on {s.data} under {s.protection}", found.lines(s), rounds[s.data]) for s in spots]
    return withheld_words("Sums were withheld by the protection, and what was in them moved no model", of)
