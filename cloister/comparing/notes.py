"""What stands below a comparison's table: what its marks and columns mean, and whether methods are as good as their cards say."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ..grids.known import known_words
from ..threat_models.broken import points as in_points
from .caveats import caveats
from .data import Found
from .lines import ALL_UPDATES, DAGGER, STAR, points
from .scale import attackers_words, played_words, scale_words
from .verdict import Paired, paired, pairs_of, whole_of

EQUAL = 1e-9
"""By so much equal means may differ, as they are reckoned."""
SECOND_HAND = f"{DAGGER} The method's paper is known by what others say of it alone."


BRACKETS = (
    "Under attack: mean accuracy of the loyal clients and, in brackets, the change against the run without attack, same clients"
)


def over_words(found: Found, seeds: str = "") -> str:
    """What stands in a cell of accuracy. seeds: which."""
    named = f" {seeds}" if seeds else ""
    match len(found.seeds):
        case 1:
            return f"Of one seed,{named}" if seeds else "Of one seed"
        case 2:
            return f"Mean over seeds{named}, and both in brackets"
        case _:
            return f"Mean ± standard deviation over seeds{named}"


def footnotes(found: Found) -> list[str]:
    """What the marks of the table mean, and the words of the whole."""
    about, search = found.about, found.about["search"]
    notes = [SECOND_HAND] if any(found.method(m)["second_hand"] for m in found.methods) else []
    notes += [f"{STAR} {m}: {found.method(m)['work']}" for m in found.methods if found.method(m)["work"]]
    scale = f'Scale of all numbers: "{about["scale"]}"; {scale_words(found)} '
    seeds = ", ".join(map(str, found.seeds))
    notes.append(f"{scale}{over_words(found, seeds)}, at the end of the last round.")
    notes.append(f"Command: {command(found)}. {played_words(found)}")
    if search is None:
        notes.append("Nothing was searched: each method plays its first configuration.")
    else:
        tried = ", ".join(map(str, search["seeds"]))
        notes.append(
            f"Hyper-parameters: the best of up to {search['configurations']} configurations of each method by mean accuracy on"
            f" {100 * search['share']:g} % of each client's training data, held out, with seeds {tried}; without any test data."
        )
    notes += [*caveats(found), *known_words(about)]
    margin = in_points(about["margin"])
    notes.append(
        "Verdict against the highest mean: Student's t intervals of the differences paired by seed, which hold at 95 % for all"
        f" pairs of one data set under one protection at once{_blocks(found)} (Bonferroni), with a standard deviation of at least"
        f" a tenth of the margin{'; under each attack likewise' * bool(found.attacks)}."
        f" behind: below 0; tie: within {margin}; else undecided, as all is by one seed, which tells nothing of chance."
    )
    notes.append(
        "ARI: 1 where the planted groups are found exactly, about 0 where clusters have nothing to do with them. FLIC's purity:"
        " share of clients whose cluster has clients of one planted group alone, which clients alone in theirs count towards; the"
        " literature's counts the majority of a mixed cluster too, and is larger."
    )
    notes.append(
        "Span: the largest part of what sets one client's update apart from its cluster's mean that the server knows;"
        f' "{ALL_UPDATES}": it holds each. Undecided pairs: of clients that a method compares two by two, those never decided.'
    )
    over = f"Over {about['yardstick']}: difference of mean accuracies, of the seeds that both have. "
    over *= about["yardstick"] in found.methods
    notes.append(f"{over}CPU s: of a run, clients and server together, mean over seeds; it is of the machine, and varies.")
    if found.attacks:
        notes.append(
            f"Attacks are played under {', '.join(found.attacked)} alone. {BRACKETS}; how often a backdoor opens: share of"
            " triggered test examples with the attacker's label."
        )
        notes += [words] if (words := attackers_words(found)) else []
    return notes


def _blocks(found: Found) -> str:
    """That intervals do not hold for all data sets and protections at once, where there are several; else empty."""
    count = len(found.blocks)
    return f", and not for all {count} such tables together" if count > 1 else ""


@dataclass(frozen=True, slots=True)
class Fit:
    """A method on data that its card says it fits. pair: against the yardstick, by the intervals of its block."""

    method: str
    data: str
    protection: str
    pair: Paired


def fits(found: Found) -> list[Fit]:
    """Every method with a result on every seed and of every client wherever its card says that it fits, against the yardstick if
    it has as many: by the intervals that the verdicts of its block are by.
    """
    yardstick, margin, rows = found.about["yardstick"], float(found.about["margin"]), []
    for data, protection in found.blocks:
        whole = whole_of(found, data, protection)
        for method in _fitting(found, data) if yardstick in whole else ():
            if method in whole:
                pair = paired(whole[method], whole[yardstick], pairs_of([*whole]), margin)
                rows.append(Fit(method, data, protection, pair))
    return rows


def _fitting(found: Found, data: str) -> list[str]:
    """Methods whose cards say that they fit a data set, but for the yardstick: that is as good as itself."""
    return [m for m in found.methods if data in found.method(m)["fits"] and m != found.about["yardstick"]]


def fits_words(found: Found, rows: Sequence[Fit]) -> str:
    """Whether methods reach the yardstick where their cards say they fit; empty where none says so, or no yardstick is played,
    and before every cell is there.
    """
    places = [(m, *block) for block in found.blocks for m in _fitting(found, block[0])]
    if not places or not found.complete or found.about["yardstick"] not in found.methods:
        return ""
    short = [
        f"{f.method} on {f.data} under {f.protection} ({points(f.pair.gap)}, {_below(f.pair)})"
        for f in rows
        if f.pair.gap < -EQUAL
    ]
    clear = sum(f.pair.outcome == "win" for f in rows)
    words = f"{len(rows) - len(short)} of {len(rows)} in the mean"
    chance = "which one seed does not tell from chance" if len(found.seeds) == 1 else f"{clear} of them by more than chance"
    words += f", {chance}" if len(rows) > len(short) else ""
    words += f"; below it: {', '.join(short)}" if short else ""
    known = {(f.method, f.data, f.protection) for f in rows}
    nothing = [f"{m} on {data} under {protection}" for m, data, protection in places if (m, data, protection) not in known]
    told = [words] if rows else []
    told += [f"nothing to tell it by: {', '.join(nothing)}"] if nothing else []
    return f"As good as {found.about['yardstick']} or better on data of the kind that a method is made for: {'; '.join(told)}."


def _below(pair: Paired) -> str:
    return "by more than chance" if pair.outcome == "loss" else pair.outcome


def command(found: Found) -> str:
    """The command line that plays the comparison again."""
    origin = found.about.get("origin") or {"file": "FILE.py", "settings": []}
    if origin["file"] is None:
        return f"cloister.compare(comparison, seeds={tuple(found.seeds)})"
    settings = [word for setting in origin["settings"] for word in ("--set", setting)]
    return shlex.join(["cloister", "compare", origin["file"], *settings, "--seeds", ",".join(map(str, found.seeds))])
