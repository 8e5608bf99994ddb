"""What a verdict says of itself: where what was played was less than it looks, so that "holds" is not taken for more."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from ..fl.runs.results_folder import Row
from ..grids.withheld import withheld_words
from ..threat_models.evaluation import ABSENT
from .data import Grid, at
from .judging import Finding
from .learning import learns, seeds_without

IN_VAIN = 0.1
"""Share of the rounds that an attack makes come to nothing, above that without it, from which on a verdict says so."""


SEED = 4
"""Times the bound by which the lowest reference of a seed lies below the lowest accuracy without attack, to be named."""


def unusable(grid: Grid) -> list[str]:
    """Attacks whose updates nobody could use: where all are refused, an attack is as good as none."""
    words = "updates that {attack} made were refused, as not finite or too large: there it did less than it was to do, or nothing"
    return runs_in_which(grid, lambda row: bool((row.get("rejected") or {}).get("members")), f"In {{runs}} {words}.")


def nobody_at_work(grid: Grid) -> list[str]:
    """Attacks in whose runs no attacker was at work in any round, as of a schedule that begins after the last."""
    words = "In {runs} of {attack} no attacker was at work in any round: there it did nothing."
    return runs_in_which(grid, lambda row: not row.get("attackers") if row["strength"] else None, words)


def runs_in_which(grid: Grid, is_so: Callable[[Row], bool | None], words: str) -> list[str]:
    """A sentence for each attack of which something is so in some run. is_so: None for a run that is not counted. words: with
    {runs}, "2 of 3 runs (median 2)", of which defences where there are several, and {attack}.
    """
    found: dict[str, list[tuple[bool, str]]] = {}
    for row in _attacked(grid):
        if (so := is_so(row)) is not None:
            found.setdefault(row["attack"], []).append((so, row["defence"]))
    said = []
    for name, of in found.items():
        by = Counter(defence for so, defence in of if so)
        whose = f" ({', '.join(f'{defence} {count}' for defence, count in by.items())})" * (len(grid.defences) > 1)
        said += [words.format(runs=f"{by.total()} of {len(of)} runs{whose}", attack=name)] if by else []
    return said


def of_missing_data(grid: Grid, found: Mapping[str, Sequence[Finding]]) -> list[str]:
    """Who holds, but has less than it has without attack by more than the bound, since the attackers' data are missing."""
    said = []
    for place, several in found.items():
        under = f" under {place}" if len(found) > 1 else ""
        for one in several:
            whole = one.over(one.harm, "clean", "late") or grid.clean(one.defence, place)
            if not one.holds or not one.held or not whole:
                continue
            if whole.mean - one.held.mean > grid.bounds.loss:
                words = f"{one.defence}{under} with {at(grid, one.strength)} {100 * one.held.mean:.1f} %"
                said.append(words + _of_clean(grid, one))
            elif whole.least - one.held.least > SEED * grid.bounds.loss:
                said.append(f"{one.defence}{under} with {at(grid, one.strength)} {100 * one.held.least:.1f} % on one seed")
    each = ", ".join(dict.fromkeys(said))
    return [f"Nothing is lost to an attack that is missing without the attackers' data, too: {each}."] if said else []


def _of_clean(grid: Grid, one: Finding) -> str:
    """What the attack that leaves least takes of the accuracy without attack, where that is above the bound, in brackets: a
    defence may be as it is without those clients for want of their data, or because it gives up, which no number tells.
    """
    seen = {attack: of.mean for attack in one.rows if (of := one.under(attack, "accuracy", "late")) is not None}
    attack = min(seen, key=lambda name: seen[name], default="")
    left, whole = one.under(attack, "accuracy", "late"), one.under(attack, "clean", "late")
    if not left or not whole or whole.mean - left.mean <= grid.bounds.loss:
        return ""
    lost = f"{100 * (whole.mean - left.mean):.1f} points"
    return (
        f" ({attack} takes {lost} of the {100 * whole.mean:.1f} % without attack: a break, if the defence gives up without them)"
    )


def by_accuracy_alone(grid: Grid) -> list[str]:
    """That the scenario's other metrics are in no table of an evaluation, and judge nothing."""
    training = (grid.about.get("scenario") or {}).get("training") or {}
    names = [of if isinstance(of, str) else str(of.get("type", "one of your own")) for of in training.get("metrics") or ()]
    return [
        f"Verdicts are by accuracy alone, and by what backdoors gain: {', '.join(names)}, which the scenario measures too, judges"
        " nothing here and is in no table; `cloister run` shows it."
    ] * bool(names)


def not_parted(grid: Grid) -> list[str]:
    """Who had several clusters without attack and one without the attackers' data: what that costs is no attack's doing."""
    said, floors = [], False
    for spot, rows in grid.cells.items():
        if spot.attack != ABSENT:
            continue
        clean = {row["seed"]: _clusters(row) for row in grid.rows(None, spot.defence, None, spot.protection)}
        pairs = [(clean.get(row["seed"], 0), _clusters(row)) for row in rows if row["status"] == "done"]
        if whole := sum(before > 1 and after == 1 for before, after in pairs):
            place = f" under {spot.protection}" if len(grid.protections) > 1 else ""
            said.append(f"{spot.defence}{place} with {at(grid, spot.strength or 0.0)} on {whole} of {len(pairs)} seeds")
            floors |= not _sums_any(grid, rows)
    return [
        "Without the attackers' data all clients stayed in one cluster, where there were several without attack:"
        f" {', '.join(said)}. What that costs is no attack's doing"
        + ("; those that are left of a group may be fewer than its sums need (the protection's floor)." if floors else ".")
    ] * bool(said)


def _sums_any(grid: Grid, rows: Sequence[Row]) -> bool:
    """Whether the protection of these lines makes sums of however few clients: `Plain` has no floor unless it is given one."""
    described = str(grid.about["protections"].get(rows[0]["protection"], "")) if rows else ""
    return described.startswith("Plain") and "floor=" not in described.replace("floor=1,", "").replace("floor=1)", "")


def little_on_some_seeds(grid: Grid, found: Mapping[str, Sequence[Finding]]) -> list[str]:
    """Who holds, and learns on its mean, but learned next to nothing on some seed: there an attack had nothing to take."""
    said = []
    for place, several in found.items():
        under = f" under {place}" if len(found) > 1 else ""
        for name in dict.fromkeys(one.defence for one in several if one.holds):
            little, seeds = seeds_without(grid, name, place)
            if little and learns(grid, name, place):
                said.append(f"{name}{under} on {little} of {seeds} seeds")
    return [f"Next to nothing was learned without attack, so that little could be lost: by {', '.join(said)}."] if said else []


def in_vain(grid: Grid) -> list[str]:
    """Attacks that keep models from moving, or have sums withheld, in more rounds than without attack: nothing is learned then,
    which accuracy does not show where enough had been learned before. Of each defence the worst such attack is named.
    """
    worst: dict[tuple[str, str, str], tuple[float, str]] = {}
    for spot, rows in grid.cells.items():
        if spot.attack in (None, ABSENT):
            continue
        clean = {row["seed"]: row for row in grid.rows(None, spot.defence, None, spot.protection)}
        pairs = [(row, clean[row["seed"]]) for row in rows if row["status"] == "done" and row["seed"] in clean]
        for words, share in (("loyal clients' models stayed as they were in", _stood), ("sums were withheld in", _withheld)):
            both = [(share(row), share(without)) for row, without in pairs]
            more = [(a, b) for a, b in both if a is not None and b is not None]
            attacked, without_attack = (sum(of) / len(more) for of in zip(*more, strict=True)) if more else (0.0, 0.0)
            key = spot.defence, spot.protection, words
            if attacked - without_attack > max(IN_VAIN, worst.get(key, (0.0, ""))[0]):
                place = f" under {spot.protection}" if len(grid.protections) > 1 else ""
                by = f"{spot.attack} with {at(grid, spot.strength or 0.0)}"
                rounds = f"{100 * attacked:.0f} % of the rounds ({100 * without_attack:.0f} % without attack)"
                said = f"{spot.defence}{place} against {by}, where {words} {rounds}"
                worst[key] = attacked - without_attack, said
    found = "; ".join(words for _, words in worst.values())
    return [f"Points lost do not show rounds that came to nothing: {found}."] if found else []


def nothing_summed_without_attack(grid: Grid) -> list[str]:
    """Who summed no update in any round without attack: what it holds against is no attack on a sum."""
    said, why = [], ""
    for place in grid.protections:
        under = f" under {place}" if len(grid.protections) > 1 else ""
        for name in grid.defences:
            rows = grid.rows(None, name, None, place)
            bad = [row["nothing_summed"] for row in rows if row.get("nothing_summed")]
            if bad:
                said.append(f"{name}{under} on {len(bad)} of {len(rows)} seed{'s' * (len(rows) != 1)}")
                why = why or bad[0]
    words = "In no round was an update summed without attack, so that accuracies are of clients alone"
    return [f"{words}: by {', '.join(said)} ({why})."] if said else []


def withheld_without_attack(grid: Grid) -> list[str]:
    """Whose sums the protection withheld without attack, of which losses are held against less than it could do."""
    spots = [(name, place, grid.rows(None, name, None, place)) for place in grid.protections for name in grid.defences]
    of = [(f"{name} under {place}", rows, int(rows[0]["rounds"][-1]) + 1) for name, place, rows in spots if rows]
    first = "Sums were withheld without attack, and what was in them moved no model, so that losses are held against less"
    return withheld_words(first, of)


def fewer_than_built_for(by: Mapping[str, Sequence[Finding]], holding: Sequence[str]) -> str:
    """Which of these were played with fewer attackers than they are built for, " (median with 1 of 9)"; of attacks with unlike
    numbers the fewest and the most, " (median with 1 to 3 of 3)". Empty where none was.
    """
    said = []
    for name in holding:
        limit, of = min(one.built_for or 0 for one in by[name]), dict[str, int]()
        for attack, row in ((attack, row) for one in by[name] for attack, rows in one.rows.items() for row in rows):
            of[attack] = max(of.get(attack, 0), int(row.get("attackers") or 0))
        most = [n for n in of.values() if n]
        if most and min(most) < limit:
            said.append(f"{name} with {f'{min(most)} to ' * (min(most) < max(most))}{max(most)} of {limit}")
    return f" ({', '.join(said)})" if said else ""


def _attacked(grid: Grid) -> Iterator[Row]:
    for rows in grid.cells.values():
        for row in rows:
            if row["status"] == "done" and row["attack"] not in (None, ABSENT):
                yield row


def _clusters(row: Row) -> int:
    """How many there were at the end; 0 where that was not recorded."""
    return int((row.get("clusters") or {}).get("count") or 0)


def _stood(row: Row) -> float | None:
    """The share of loyal clients whose model stayed as it was, mean over the rounds; None where it was not recorded."""
    stood: float | None = row.get("stood")
    return stood


def _withheld(row: Row) -> float | None:
    """The share of the rounds in which a sum was below the floor."""
    rounds = row.get("rounds")
    return row["withheld"] / (rounds[-1] + 1) if rounds and "withheld" in row else None
