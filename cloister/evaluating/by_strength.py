"""A sentence for each strength: which defences hold, and what becomes of the others."""

from collections.abc import Iterable, Sequence

from ..grids.words import names_words
from ..threat_models.chance import NOTHING
from .data import Grid, at
from .judging import SPENT, UNCHANGED, Finding, State, seeds_words, without_words
from .learning import little_words
from .loss_words import at_the_end, lost_in_the_mean, nothing_met, played_on, points, success, verb_of

OPENINGS = {
    True: "within what they are built for",
    None: "defences that state no number of attackers (say it with limits=)",
    False: "beyond what they are built for",
}


def by_strength(grid: Grid, found: Sequence[Finding]) -> Iterable[str]:
    """A sentence for every strength and for what is within, beyond, or without a limit: who holds, and what becomes of the
    others.
    """
    for strength in sorted({one.strength for one in found}):
        for within, opening in OPENINGS.items():
            of = [one for one in found if one.strength == strength and one.within is within and one.attackers]
            words = [
                _grouped(grid, word, [one for one in of if one.word == word])
                for word in dict.fromkeys(one.word for one in _ordered(of))
            ]
            if words:
                yield f"{at(grid, strength)}{_at_work(grid, strength, of)}, {opening}: {'; '.join(words)}."


def _at_work(grid: Grid, strength: float, found: Sequence[Finding]) -> str:
    """How many attackers there are in a round, where that is more than the strength says."""
    most = max(one.attackers for one in found)
    return f" ({most} in a round)" if grid.about["strength"] == "attackers" and most > strength else ""


def _ordered(found: Sequence[Finding]) -> list[Finding]:
    return sorted(found, key=lambda one: (one.state, one.word))


def _grouped(grid: Grid, word: str, found: Sequence[Finding]) -> str:
    """ "Multi-Krum and median break (at most 81.3 points, optimal IPM)"."""
    names = [one.defence for one in found]
    first, _, rest = word.partition(" ")
    if word == "undecided":
        without = [one.defence for one in found if one.without]
        seeds = [one.needs for one in found if one.needs is not None]
        why = [seeds_words(max(seeds))] if seeds else []
        why += [f"{_lacking(found)} with {names_words(without)}"] if without else []
        return f"{names_words(names)} {'is' if len(names) == 1 else 'are'} undecided ({'; '.join(why)})"
    if word == NOTHING:
        own = [f"{100 * of.mean:.1f}" for one in found if (of := grid.clean(one.defence, one.protection))]
        place = found[0].protection
        guess = f"{grid.guess(place)} is {100 * (grid.chance(place) or 0):.1f} %"
        return f"{names_words(names)} {NOTHING} ({names_words(own)} %, as {guess})"
    if word in SPENT:
        return nothing_met(names, word == UNCHANGED)
    verb = {"holds": "hold", "breaks": "break", "lets": "let"}[first]
    if word.endswith("backdoor through"):
        rest = rest.replace("lets", verb_of(names, "let")) if first == "breaks" else rest
    said = f"{names_words(names)} {verb_of(names, verb)}{' ' + rest if rest else ''}"
    several = len(found) > 1
    harmed = [o for o in found if o.harm and o.harm.broke]
    worst = max(harmed, key=lost_in_the_mean, default=None)
    told = [f"{f'{worst.defence} loses most:' if several else 'loses'} {points(worst)}"] if worst else []
    ended = max((o for o in found if o.ended), key=lambda o: o.ended.lost.mean if o.ended else 0.0, default=None)
    told += [f"{f'{ended.defence} most ' if several else ''}{at_the_end(ended)}"] if ended else []
    through = [o for o in found if o.backdoor and o.backdoor.state == State.BREAKS]
    if word == "holds":
        told += filter(None, [little_words(grid, names, found[0].protection)])
    if through:
        most = max(through, key=lambda o: o.backdoor.lost.mean if o.backdoor else 0.0)
        if most.backdoor:
            words = success(most.backdoor, played_on(most, most.backdoor))
            told += [f"{f'most through {most.defence}: ' if several else ''}{words}"]
    return f"{said} ({'; '.join(told)})" if told else said


def _lacking(found: Sequence[Finding]) -> str:
    """Which results are not there, in a few words."""
    missing = [(attack, n, one.seeds) for one in found for attack, n in one.without.items()]
    if any(n >= seeds for _, n, seeds in missing):
        return "no result against some attacks"
    if len(missing) == 1:
        return without_words({missing[0][0]: missing[0][1]}, missing[0][2])
    counts = {(n, seeds) for _, n, seeds in missing}
    on = f"{missing[0][1]} of {missing[0][2]}" if len(counts) == 1 else "some"
    return f"no result on {on} seeds against some attacks"
